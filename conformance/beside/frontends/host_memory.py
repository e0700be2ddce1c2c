"""A host program's tensors as device memory: a buffer per storage, at the same address in every launch."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import ml_dtypes
import numpy as np
from tileproof.emulator import Buffer, Memory
from tileproof.emulator.errors import LaunchError

if TYPE_CHECKING:
    import torch

_BASE, _GUARD = 0x1000_0000_0000, 1 << 20


class Addresses:
    """Device addresses of storages, by host address and size, stable over launches."""

    def __init__(self) -> None:
        self._next = _BASE
        self._known: dict[tuple[int, int], int] = {}
        self._asked: dict[int, weakref.ref[torch.Tensor]] = {}

    def of(self, start: int, size: int) -> int:
        """The device address, with the host address's offset from 16-byte alignment."""
        if (start, size) not in self._known:
            self._known[start, size] = self._next + start % 16
            self._next += -(-(size + 16 + _GUARD) // _GUARD) * _GUARD
        return self._known[start, size]

    def ask(self, tensor: torch.Tensor) -> None:
        """Note that the program asked for the address of a tensor: other tensors may hold it."""
        self._asked[id(tensor)] = weakref.ref(tensor)

    @property
    def asked(self) -> list[torch.Tensor]:
        """The living tensors whose addresses the program has asked for."""
        return [tensor for known in self._asked.values() if (tensor := known()) is not None]

    def fresh(self, size: int) -> int:
        """An unused address, for memory that belongs to the launch."""
        address = self._next
        self._next += -(-(size + _GUARD) // _GUARD) * _GUARD
        return address


@dataclass(frozen=True)
class Pointer:
    """A place in one of the launch's buffers: its number and a byte offset."""

    buffer: int
    offset: int


@dataclass(frozen=True)
class ElementsOf:
    """Element type of a storage, by its numpy name, and a shape."""

    dtype: str
    shape: tuple[int, ...]


class LaunchMemory:
    """The buffers of a launch in the order of its arguments; `elements`: type and shape of each storage
    according to the first tensor that uses it.
    """

    def __init__(self, addresses: Addresses, where: str) -> None:
        self.memory, self.buffers, self.elements = Memory(), list[Buffer](), list[ElementsOf]()
        self._addresses, self._where = addresses, where
        self._held: dict[tuple[int, int], int] = {}

    def pointer(self, tensor: object, name: str) -> Pointer | None:
        """The place of a tensor's first element, None without memory; LaunchError if it is not on the CPU."""
        tensor = getattr(tensor, "base", tensor) if type(tensor).__name__ == "TensorWrapper" else tensor
        if not is_tensor(tensor):
            raise LaunchError(
                f"the argument {name} is not a tensor that the emulator can access",
                where=self._where,
                expected="a torch tensor on the CPU",
                found=f"{type(tensor).__module__}.{type(tensor).__qualname__}",
            )
        if tensor.device.type != "cpu":
            raise LaunchError(
                f"the argument {name} is not on the CPU",
                where=self._where,
                expected="a torch tensor on the CPU, which the launch reads and writes in place",
                found=f"a tensor on {tensor.device}",
                do=f"pass {name}.cpu(), or make it with device='cpu'",
            )
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if not size:
            return None
        start = storage.data_ptr()
        if (start, size) not in self._held:
            self._held[start, size] = len(self.buffers)
            self.buffers.append(self.memory.buffer(_bytes_of(storage), name, self._addresses.of(start, size)))
            self.elements.append(_elements(tensor, size))
        return Pointer(self._held[start, size], tensor.data_ptr() - start)

    @contextmanager
    def pointers(self) -> Iterator[None]:
        """Put device addresses in the place of the host addresses that 64-bit integers of tensors hold, while
        a launch runs; the memory that they point to becomes part of the launch.
        """
        tensors = {tensor.untyped_storage().data_ptr(): tensor for tensor in self._addresses.asked}
        starts = np.array(sorted(start for start in tensors if start), np.uint64)
        ends = starts + np.array(
            [tensors[int(start)].untyped_storage().nbytes() for start in starts], np.uint64
        )
        changed = []
        for number, buffer in enumerate(self.buffers):  # it grows
            if not len(starts) or self.elements[number].dtype not in ("int64", "uint64") or buffer.tracked:
                continue
            words = buffer.numpy().view(np.uint64)
            at = np.searchsorted(starts, words, "right") - 1
            places = np.flatnonzero((at >= 0) & (words < ends[at]))
            before = words[places].copy()
            for place in places:
                start = int(starts[at[place]])
                pointer = self.pointer(tensors[start], f"{buffer.name}[{place}]")
                assert pointer is not None
                words[place] = self.buffers[pointer.buffer].address + int(words[place]) - start
            changed.append((words, places, before, words[places].copy()))
        try:
            yield
        finally:
            for words, places, before, during in changed:
                words[places] = np.where(words[places] == during, before, words[places])

    def scratch(self, size: int, name: str) -> Pointer | None:
        """Uninitialised memory of the launch; None for 0 bytes."""
        if not size:
            return None
        self.buffers.append(self.memory.empty(size, np.uint8, name, self._addresses.fresh(size)))
        self.elements.append(ElementsOf("uint8", (size,)))
        return Pointer(len(self.buffers) - 1, 0)

    def address(self, pointer: Pointer | None) -> int:
        """The device address; 0 without memory."""
        return self.buffers[pointer.buffer].address + pointer.offset if pointer else 0


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a torch tensor; torch need not be imported."""
    return hasattr(value, "untyped_storage")


def _elements(tensor: torch.Tensor, size: int) -> ElementsOf:
    """The tensor's shape if it is its whole storage in order, else a flat shape of elements, or of bytes."""
    name = str(tensor.dtype).removeprefix("torch.")
    known = name == "bool" or hasattr(ml_dtypes, name) or hasattr(np, name)
    if not known or size % tensor.element_size():
        return ElementsOf("uint8", (size,))
    whole = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == size and tensor.dim()
    return ElementsOf(name, tuple(tensor.shape) if whole else (size // tensor.element_size(),))


def _bytes_of(storage: torch.UntypedStorage) -> np.ndarray:
    """uint8 [bytes], a view of the storage's memory that keeps it alive."""
    import torch

    whole: np.ndarray = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return whole
