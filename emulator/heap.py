"""Keep memory that a launch freed in the process, for the next launch."""

from __future__ import annotations

import ctypes

# <malloc.h> of glibc.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 256 << 20  # bytes: smaller allocations come from the heap, not from mmap
KEPT = 2047 << 20  # bytes at the end of the heap that are not returned to the system: what an int can say


def keep_freed_memory() -> bool:
    """Configure glibc's malloc. Return False if the C library has no such setting.

    Registers, shared and tensor memory of a cluster take tens of megabytes, the arrays by which `check`
    judges a long problem hundreds. If they were returned to the system after each launch or case, every page
    would be faulted in and cleared again: a quarter of the time of a short launch, an eighth of a check.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
