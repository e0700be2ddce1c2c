"""Kernels that were not written for Tileproof: skipped by name where what compiles them is not installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_CACHE_DIR", str(Path(__file__).parents[2] / "build" / "triton"))
