"""Kernels that were not written for Tileproof: skipped by name where what compiles them is not installed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ.setdefault("TRITON_CACHE_DIR", str(Path(__file__).parents[2] / "build" / "triton"))

# What each file of tests needs, of requirements-outside.txt.
NEEDS = {"test_triton.py": "triton", "test_tilelang.py": "tilelang"}
collect_ignore = [file for file, package in NEEDS.items() if importlib.util.find_spec(package) is None]
