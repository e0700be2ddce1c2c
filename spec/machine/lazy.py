"""Arrays whose pages take memory only when they are touched: the host side of large, sparsely used buffers.

Below `MAPPED_BYTES` an array is numpy's own, in memory that malloc may have kept from the last launch: a page
fault costs more than clearing the page again. Above it, numpy asks for huge pages, so that one touched byte
takes 2 MiB; these arrays are mapped with pages of 4 KiB and without a reservation of swap space.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array

LAZY_BYTES = 4 << 20  # from here on, work on an array is for the pages that were stored to
MAPPED_BYTES = 32 << 20  # what glibc keeps by itself: its largest threshold of mmap
MAX_BYTES = 1 << 46  # of a process's address space of 47 bits
_NORESERVE = 0x4000  # MAP_NORESERVE of Linux on x86 and ARM, which Python 3.11 does not name
_FIXED = 0x10
_TILE = 16 << 20  # bytes of one mapping of a fill
MAX_FILLED = (1 << 15) * _TILE  # of all fills together: a process may have 65,530 mappings


class TooLarge(MemoryError):
    """An array that does not fit the address space."""


def lazy_zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Zeros of this shape; TooLarge where the address space has no room for them."""
    kind = np.dtype(dtype)
    size = math.prod((shape,) if isinstance(shape, int) else shape) * kind.itemsize
    if size < MAPPED_BYTES:
        return np.zeros(shape, kind)
    return np.frombuffer(_mapped(size), np.uint8)[:size].view(kind).reshape(shape)


def lazy_filled(shape: int | tuple[int, ...], dtype: npt.DTypeLike, byte: int) -> Array:
    """An array of which every byte is `byte`; TooLarge as `lazy_zeros`."""
    kind = np.dtype(dtype)
    size = math.prod((shape,) if isinstance(shape, int) else shape) * kind.itemsize
    if size >= MAPPED_BYTES and (file := _filled_file(byte)) >= 0:
        memory = _mapped(size)
        if _tiled(memory, file):
            return np.frombuffer(memory, np.uint8)[:size].view(kind).reshape(shape)
    made = np.empty(shape, kind)
    made.reshape(-1).view(np.uint8)[...] = byte
    return made


def _mapped(size: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    try:
        if size > MAX_BYTES:
            raise OSError
        return mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, flags=flags)
    except (OSError, ValueError, OverflowError):
        raise TooLarge(f"{size} bytes") from None


@lru_cache(maxsize=4)
def _filled_file(byte: int) -> int:
    """A file in memory of `_TILE` bytes `byte`; -1 where the system has none."""
    try:
        file = os.memfd_create(f"fill {byte}", os.MFD_CLOEXEC)
    except (OSError, AttributeError):
        return -1
    data = bytes([byte]) * _TILE
    done = 0
    while done < _TILE:
        done += os.write(file, data[done:])
    return file


def _tiled(memory: mmap.mmap, file: int) -> bool:
    """Map `file`, copied where it is written, over all of the memory, again and again."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    first = int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _NORESERVE | _FIXED
    return all(
        libc.mmap(first + at, min(_TILE, len(memory) - at), access, flags, file, 0) == first + at
        for at in range(0, len(memory), _TILE)
    )
