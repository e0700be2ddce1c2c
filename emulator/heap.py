"""Memory that a launch gave back stays with the process, for the next launch."""

from __future__ import annotations

import ctypes

# <malloc.h> of glibc.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 256 << 20  # bytes that are taken from the heap, not mapped for themselves
KEPT = 512 << 20  # bytes at the heap's end that are not given back


def keep_freed_memory() -> bool:
    """Tells glibc; False where another C library has no such setting.

    Registers, shared and tensor memory of a cluster are tens of megabytes. Given back to the system after
    each launch, every page of them is faulted in and cleared again: a quarter of the time of a short launch.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
