"""Freed memory stays with the process: what is taken again faults in no page."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from tileproof.emulator.heap import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(8):
    first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(48 << 20, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first)
"""
PAGES = (48 << 20) // 4096


@pytest.mark.parametrize("keep", [True, False])
def test_memory_is_taken_again_without_faults(keep: bool) -> None:
    words = [sys.executable, "-c", PROGRAM, "keep" if keep else "as it is"]
    faults = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    # Where the system gives large pages unasked, fewer faults than pages are needed.
    assert faults < 16 if keep else faults > 16
    assert faults <= PAGES + 64
