"""Freed memory stays with the process: what is taken again faults in no page."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from tileproof.emulator.heap import keep_freed_memory
from tileproof.spec.machine.lazy import lazy_zeros

make = lazy_zeros if sys.argv[2] == "lazy" else np.empty
sizes = [int(size) for size in sys.argv[3:]]
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(8):
    first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [make(size << 20, np.uint8) for size in sizes]
    for array in arrays:
        array[::4096] = 1
    del array, arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first)
"""


def _faults(keep: str, make: str, *sizes: int) -> int:
    """Page faults of taking arrays of these sizes in MiB the eighth time."""
    words = [sys.executable, "-c", PROGRAM, keep, make, *map(str, sizes)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


# One array as of a launch, several as of a check of a long problem, an output of a launch.
@pytest.mark.parametrize(("make", "sizes"), [("empty", (48,)), ("empty", (200, 200, 200)), ("lazy", (9,))])
def test_memory_is_taken_again_without_faults(make: str, sizes: tuple[int, ...]) -> None:
    assert _faults("keep", make, *sizes) < 16


def test_memory_that_is_not_kept_is_faulted_in_again() -> None:
    # Where the system gives large pages unasked, fewer faults than pages are needed.
    assert 16 < _faults("as it is", "empty", 48) <= (48 << 20) // 4096 + 64
