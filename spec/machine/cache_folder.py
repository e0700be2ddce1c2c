"""Where files are kept that can be made again: compiled kernels, decoded programs."""

from __future__ import annotations

import os
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]


def cache_root() -> Path:
    """$TILEPROOF_CACHE, or build/ of the checkout, or the user's cache directory."""
    if chosen := os.environ.get("TILEPROOF_CACHE"):
        return Path(chosen)
    if (_CHECKOUT / "setup.py").exists():
        return _CHECKOUT / "build"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileproof"
