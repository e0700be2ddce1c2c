"""Triton's compiler, cached in the checkout; what is not installed is skipped by name."""

from __future__ import annotations

import os

from tests.kit.paths import ROOT

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_CACHE_DIR", str(ROOT / "build" / "triton"))
