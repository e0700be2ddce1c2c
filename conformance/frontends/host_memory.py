"""A host program's tensors as device memory: one buffer a storage, at the same address in every launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator import Buffer, Memory
from tileproof.emulator.errors import LaunchError

_BASE, _GUARD = 0x1000_0000_0000, 1 << 20


class Addresses:
    """Which device address a storage has: by its host address and size, so that it keeps it."""

    def __init__(self) -> None:
        self._next = _BASE
        self._known: dict[tuple[int, int], int] = {}

    def of(self, start: int, size: int) -> int:
        """The address; it is aligned to 16 bytes where the host's is, and displaced as that otherwise."""
        if (start, size) not in self._known:
            self._known[start, size] = self._next + start % 16
            self._next += -(-(size + 16 + _GUARD) // _GUARD) * _GUARD
        return self._known[start, size]

    def fresh(self, size: int) -> int:
        """An address that no storage has, for memory that is the launch's own."""
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
    """How the elements of a storage are called: their type's name as numpy has it, and a shape."""

    dtype: str
    shape: tuple[int, ...]


class LaunchMemory:
    """The buffers of one launch, in the order in which its arguments name them; `elements` say what the first
    tensor that names a storage makes of it.
    """

    def __init__(self, addresses: Addresses, where: str) -> None:
        self.memory, self.buffers, self.elements = Memory(), list[Buffer](), list[ElementsOf]()
        self._addresses, self._where = addresses, where
        self._held: dict[tuple[int, int], int] = {}

    def pointer(self, tensor: Any, name: str) -> Pointer | None:
        """Where a tensor starts; None for one without memory. LaunchError for one that is not on the CPU."""
        tensor = getattr(tensor, "base", tensor) if type(tensor).__name__ == "TensorWrapper" else tensor
        if not hasattr(tensor, "untyped_storage"):
            raise LaunchError(
                f"the argument {name} is no tensor that the emulator can reach",
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

    def scratch(self, size: int, name: str) -> Pointer | None:
        """Memory that the launch finds unwritten; None of no bytes."""
        if not size:
            return None
        self.buffers.append(self.memory.empty(size, np.uint8, name, self._addresses.fresh(size)))
        self.elements.append(ElementsOf("uint8", (size,)))
        return Pointer(len(self.buffers) - 1, 0)

    def address(self, pointer: Pointer | None) -> int:
        """The device address; 0 of no memory."""
        return self.buffers[pointer.buffer].address + pointer.offset if pointer else 0


def _elements(tensor: Any, size: int) -> ElementsOf:
    """Of a tensor that is its whole storage in order its own shape, else a row of elements, or of bytes."""
    name = str(tensor.dtype).removeprefix("torch.")
    known = name == "bool" or hasattr(ml_dtypes, name) or hasattr(np, name)
    if not known or size % tensor.element_size():
        return ElementsOf("uint8", (size,))
    whole = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == size and tensor.dim()
    return ElementsOf(name, tuple(tensor.shape) if whole else (size // tensor.element_size(),))


def _bytes_of(storage: Any) -> np.ndarray:
    """uint8 [bytes] over the storage's own memory, which it keeps alive."""
    import torch

    whole: np.ndarray = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return whole
