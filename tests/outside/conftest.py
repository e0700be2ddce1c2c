"""Kernels that were not written for Tileproof: skipped by name where what compiles them is not installed."""

from __future__ import annotations

import os

from tests.kit.paths import ROOT

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_CACHE_DIR", str(ROOT / "build" / "triton"))
