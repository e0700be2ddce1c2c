"""Device memory of one or more launches: buffers over numpy arrays, with guard space between them."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from tileproof.emulator._engine import PAGE_BYTES
from tileproof.emulator.budget import check_address_space, check_room
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.misuse import instance, whole
from tileproof.emulator.program import PARAM_WINDOW, SHARED_WINDOW
from tileproof.spec.machine.lazy import LAZY_BYTES, TooLarge, lazy_filled, lazy_zeros
from tileproof.spec.machine.types import DType

_BASE = 0x1000_0000_0000
_GUARD = 1 << 20
_POISON = 0xFF
MAX_ADDRESS = 1 << 57
# Generic addresses of shared memory, local memory and parameters (engine/program.hpp).
_WINDOWS = SHARED_WINDOW, PARAM_WINDOW + (1 << 40)


def _check_kind(kind: DType) -> None:
    """Raise LaunchError for elements that are not plain bytes: a kernel could write addresses of the host."""
    if kind.hasobject:
        raise LaunchError("a buffer holds numbers, not Python objects", found=f"dtype {kind}")


def _data(array: np.ndarray) -> int:
    """The host's address of an array, without ctypes, which a finalizer cannot import."""
    return int(array.__array_interface__["data"][0])


def page_marks(size: int) -> np.ndarray:
    """A byte for each page of `size` bytes; the engine sets those of the pages that it stores to."""
    return lazy_zeros(size // PAGE_BYTES + 1, np.uint8)


class Buffer:
    """A device buffer. `address`: the device address; `numpy()`: the host array that holds the data."""

    def __init__(
        self, array: np.ndarray, address: int, name: str, written: np.ndarray | None, writable: bool
    ) -> None:
        self._array = array
        self.address = address
        self.name = name
        self._written = written
        self._pages = page_marks(array.nbytes)
        self.writable = writable

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return int(self._array.nbytes)

    def numpy(self) -> np.ndarray:
        """Return the array itself, of its shape and dtype, not a copy. Unwritten bytes of `Memory.empty` are
        0xFF, NaN in every float type.
        """
        return self._array

    def write(self, data: np.ndarray, offset: int = 0) -> None:
        """Copy the bytes of `data`, of any shape and dtype, to byte `offset`, as a host copy does. The bytes
        count as written.

        Raises LaunchError when they do not fit.
        """
        given = np.ascontiguousarray(data)
        _check_kind(given.dtype)
        bytes_ = given.reshape(-1).view(np.uint8)
        offset = whole(offset, "offset")
        if offset < 0 or offset + bytes_.size > self.bytes:
            raise LaunchError(
                "a copy does not fit its buffer",
                where=repr(self),
                expected=f"at most {self.bytes} bytes",
                found=f"{bytes_.size} bytes at {offset}",
            )
        self._array.reshape(-1).view(np.uint8)[offset : offset + bytes_.size] = bytes_
        if self._written is not None:
            self._written[offset : offset + bytes_.size] = 1
        if bytes_.size:
            self._pages[offset // PAGE_BYTES : (offset + bytes_.size - 1) // PAGE_BYTES + 1] = 1

    def stored(self) -> np.ndarray:
        """Return the pages that launches and `write` stored to: their numbers `[pages]`, int64, in pages of
        `PAGE_BYTES` bytes from the begin of the buffer.
        """
        return np.flatnonzero(self._pages)

    @property
    def tracked(self) -> bool:
        """Whether the buffer started poisoned, so that writes are tracked per byte."""
        return self._written is not None

    def written(self) -> np.ndarray:
        """Return bool per element, in the shape of the array: whether every byte of it was written. All True
        for `Memory.buffer`.
        """
        if self._written is None:
            return np.broadcast_to(np.True_, self._array.shape)
        size = self._array.dtype.itemsize
        if self.bytes >= LAZY_BYTES and PAGE_BYTES % size == 0:
            return self._written_in_pages(size).reshape(self._array.shape)
        if size in (1, 2, 4, 8):  # compare all bytes of an element at once
            whole = np.frombuffer(b"\1" * size, f"u{size}")[0]
            return (self._written.view(f"u{size}") == whole).reshape(self._array.shape)
        return (self._written.reshape(-1, size) == 1).all(axis=1).reshape(self._array.shape)

    def _written_in_pages(self, size: int) -> np.ndarray:
        """As `written`, looking at the pages that were stored to only."""
        assert self._written is not None
        made = lazy_zeros(self._array.size, bool)
        whole, each = self.bytes // PAGE_BYTES, PAGE_BYTES // size
        pages = self._written[: whole * PAGE_BYTES].reshape(whole, each, size)
        stored = self.stored()[: np.searchsorted(self.stored(), whole)]
        made[: whole * each].reshape(whole, each)[stored] = (pages[stored] == 1).all(axis=2)
        made[whole * each :] = (self._written[whole * PAGE_BYTES :].reshape(-1, size) == 1).all(axis=1)
        return made

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self._array.dtype}{list(self._array.shape)} at {self.address:#x})"


class Memory:
    """Allocates buffers at addresses that are far apart, so that out-of-bounds accesses are detected."""

    def __init__(self) -> None:
        self._next = _BASE
        self.buffers: list[Buffer] = []
        # Of each launch that runs: its process and its buffers.
        self._launches: dict[object, tuple[int, tuple[Buffer, ...]]] = {}

    def _place(self, size: int, at: int | None = None) -> int:
        if at is not None:
            at = whole(at, "address", maximum=MAX_ADDRESS - size)
            if at < _WINDOWS[1] and at + size > _WINDOWS[0]:
                raise LaunchError(
                    "a buffer lies in the generic window of shared memory, local memory or parameters",
                    where=f"address {at:#x}, {size} bytes",
                    expected=f"an address outside {_WINDOWS[0]:#x}..{_WINDOWS[1]:#x}",
                )
            for other in self.buffers:
                if at < other.address + other.bytes + _GUARD and other.address < at + size + _GUARD:
                    raise LaunchError(
                        "a buffer overlaps another buffer or its guard space",
                        where=f"address {at:#x}, {size} bytes",
                        found=repr(other),
                        do=f"leave {_GUARD} bytes between two buffers",
                    )
            self._next = max(self._next, -(-(at + size + _GUARD) // _GUARD) * _GUARD)
            return at
        address = self._next
        self._next += -(-(size + _GUARD) // _GUARD) * _GUARD
        return address

    def buffer(self, array: np.ndarray, name: str = "", address: int | None = None) -> Buffer:
        """Return a buffer over `array`: kernels read and write the memory of the array, without a copy.

        The array has any shape and a dtype of numpy or ml_dtypes, and must be C-contiguous. A read-only array
        makes a read-only buffer: a store to it is a finding. `address`: its device address, for memory that
        several launches share. LaunchError for any other array, and for addresses in use.
        """
        if not isinstance(array, np.ndarray):
            raise LaunchError(
                "a buffer needs a numpy array", expected="numpy.ndarray", found=type(array).__name__
            )
        _check_kind(array.dtype)
        if not array.flags.c_contiguous:
            raise LaunchError(
                "a buffer needs a C-contiguous array",
                where=name or "Memory.buffer",
                found=f"strides {array.strides} of shape {array.shape}",
                do="pass numpy.ascontiguousarray(array)",
            )
        name = instance(name, str, "name") or f"buffer {len(self.buffers)}"
        out = Buffer(array, self._place(array.nbytes, address), name, None, array.flags.writeable)
        self.buffers.append(out)
        return out

    def empty(
        self, shape: int | tuple[int, ...], dtype: npt.DTypeLike, name: str = "", address: int | None = None
    ) -> Buffer:
        """Return a buffer of uninitialised memory, poisoned with 0xFF bytes. A read before a write is a
        finding.

        `address`: its device address, for a launch that was recorded with its addresses. LaunchError for a
        shape or dtype that is none, and for addresses in use.
        """
        try:
            kind = np.dtype(dtype)
            size = math.prod(
                operator.index(n) for n in ((shape,) if isinstance(shape, int) else tuple(shape))
            )
        except (TypeError, ValueError) as error:
            raise LaunchError(
                "a buffer needs a shape and a type", expected="whole numbers and a numpy dtype",
                found=f"shape {shape!r:.80}, dtype {dtype!r:.80}", do=str(error)[:200],
            ) from None  # fmt: skip
        _check_kind(kind)
        what = f"a buffer of shape {shape!r:.80}"
        if size * kind.itemsize < LAZY_BYTES:
            held = sum(b.bytes for b in self.buffers if b.bytes < LAZY_BYTES)
            check_room(2 * size * kind.itemsize, what, name, held)
        else:
            check_address_space(2 * size * kind.itemsize, what, name)
        try:
            array = lazy_filled(shape, kind, _POISON)
        except (TypeError, ValueError, TooLarge, MemoryError) as error:
            raise LaunchError("numpy cannot allocate the array of a buffer", found=str(error)[:200]) from None
        name = instance(name, str, "name") or f"buffer {len(self.buffers)}"
        written = lazy_zeros(array.nbytes, np.uint8)
        out = Buffer(array, self._place(array.nbytes, address), name, written, True)
        self.buffers.append(out)
        return out

    def free(self, buffer: Buffer) -> None:
        """Free the buffer: a later access to its addresses is a finding.

        LaunchError for a buffer of another memory, a freed buffer, and a buffer that a launch of another
        thread uses.
        """
        if instance(buffer, Buffer, "buffer") not in self.buffers:
            raise LaunchError(
                "the buffer does not belong to this memory", found=repr(buffer), do="free each buffer once"
            )
        own = os.getpid()  # a launch of the parent process does not run here
        if any(pid == own and buffer in table for pid, table in self._launches.values()):
            raise LaunchError(
                "a buffer is freed while a launch uses it", found=repr(buffer), do="let the launch end first"
            )
        self.buffers.remove(buffer)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[list[tuple[int, int, int, int, int, bool, str]]]:
        """Keep the buffers while a launch uses them: (address, bytes, data pointer, written pointer or 0,
        pointer of page marks, writable, name) of each. Buffers that are added later are not of this launch.
        """
        buffers, key = tuple(self.buffers), object()
        self._launches[key] = os.getpid(), buffers
        try:
            yield self._table(buffers)
        finally:
            self._launches.pop(key, None)

    @staticmethod
    def _table(buffers: Iterable[Buffer]) -> list[tuple[int, int, int, int, int, bool, str]]:
        return [
            (
                b.address,
                b.bytes,
                _data(b._array),
                0 if b._written is None else _data(b._written),
                _data(b._pages),
                b.writable and b._array.flags.writeable,
                b.name,
            )
            for b in buffers
        ]
