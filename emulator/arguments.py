"""Arguments of a launch, packed into the parameter block, and which of its bytes the caller set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer
from tileproof.emulator.misuse import MAX_COUNT, instance, sequence, whole
from tileproof.emulator.program import Decoded
from tileproof.emulator.tensormap import TensorMap

Value = Buffer | TensorMap | int | float | bytes | np.generic
POISON = 0xFF
MAX_PARAMETERS = 32764  # bytes of a kernel's parameters (CUDA C++ programming guide)


FieldItem = Buffer | TensorMap | bytes | np.generic


@dataclass(frozen=True)
class Fields:
    """A by-value struct of `size` bytes with items at byte offsets; all other bytes stay unset.

    Give `np.int32(n)`, `np.float32(x)` or bytes: a Python int or float does not determine a size.
    """

    size: int
    items: Mapping[int, FieldItem]

    def pack(self) -> tuple[bytes, bytes]:
        """Return the bytes, and a mask with 1 for each byte that is set. LaunchError when an item does not
        fit.
        """
        size = whole(self.size, "the size of Fields", maximum=MAX_PARAMETERS)
        out, known = bytearray([POISON]) * size, bytearray(size)
        for offset, item in instance(self.items, Mapping, "the items of Fields").items():
            whole(offset, "an offset of Fields", -MAX_COUNT)
            data = None if isinstance(item, int | float) else _bytes_of(item, 0)
            if data is None or offset < 0 or offset + len(data) > self.size:
                raise LaunchError(
                    f"an item does not fit at offset {offset} of a struct",
                    expected=f"a Buffer, TensorMap, numpy number or bytes inside {self.size} bytes",
                    found=type(item).__name__ + (f" of {len(data)} bytes" if data is not None else ""),
                )
            if any(known[offset : offset + len(data)]):
                raise LaunchError("two items of a struct overlap", found=f"offset {offset}")
            out[offset : offset + len(data)] = data
            known[offset : offset + len(data)] = b"\1" * len(data)
        return bytes(out), bytes(known)


Argument = Value | Fields


@dataclass(frozen=True)
class Packed:
    """The parameter block, a mask with 1 for each set byte, and (offset, bytes, name) of each parameter."""

    data: bytes
    known: bytes
    names: list[tuple[int, int, str]]


def pack(decoded: Decoded, args: Sequence[Argument]) -> Packed:
    """Place each argument at its parameter's offset; unset bytes are poison. LaunchError for a wrong
    argument.
    """
    parameters = decoded.entry.parameters
    name = decoded.entry.name[:80]
    args = sequence(args, object, "args", name)
    if len(args) != len(parameters):
        raise LaunchError(
            "the launch has the wrong number of arguments",
            where=name,
            expected=str(len(parameters)),
            found=str(len(args)),
        )
    out, known, names = bytearray(), bytearray(), []
    for index, (parameter, argument) in enumerate(zip(parameters, args, strict=True)):
        gap = -len(out) % parameter.align
        out += bytes([POISON]) * gap
        known += bytes(gap)
        if isinstance(argument, Fields):
            data: bytes | None
            data, mask = argument.pack()
        else:
            data = _bytes_of(argument, parameter.bytes)
            mask = b"\1" * len(data or b"")
        if data is None or len(data) != parameter.bytes:
            found = f"{type(argument).__name__}" + (f" of {len(data)} bytes" if data is not None else "")
            raise LaunchError(
                f"argument {index} does not fit its parameter",
                where=name,
                expected=f"{parameter.bytes} bytes",
                found=found,
            )
        names.append((len(out), parameter.bytes, parameter.name))
        out += data
        known += mask
    return Packed(bytes(out), bytes(known), names)


def _bytes_of(argument: Value, size: int) -> bytes | None:
    if isinstance(argument, Buffer):
        return argument.address.to_bytes(8, "little")
    if isinstance(argument, TensorMap):
        return argument.encode()
    if isinstance(argument, (bytes, bytearray, memoryview)):
        return bytes(argument)
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if isinstance(argument, bool | int):
        try:
            return int(argument).to_bytes(size, "little", signed=argument < 0)
        except OverflowError:
            return None
    if isinstance(argument, float):
        return np.asarray(argument, dtype=np.float32 if size == 4 else np.float64).tobytes()
    return None
