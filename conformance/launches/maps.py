"""Tensor maps of a launch file: from the encoder's arguments or from 128 bytes, inside their buffers."""

from __future__ import annotations

from dataclasses import replace

from tileproof.emulator import TensorMap
from tileproof.kernels.launch.arguments import EncodedMapArgument, TensorMapArgument
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import SIZES


def tensor_map(item: TensorMapArgument, address: int, dtype: str) -> TensorMap:
    """The map over a buffer of `dtype` at `address`; LaunchError for fields that the encoder would refuse.

    Types of 8 bits that the encoder does not know are bytes to it.
    """
    known = dtype in SIZES or dtype_of(dtype).itemsize != 1
    return TensorMap.fields(
        address=address + item.offset,
        dtype=item.dtype or (dtype if known else "uint8"),
        shape=item.shape,
        strides=item.strides,
        box=item.box,
        element_strides=item.element_strides or None,
        swizzle=item.swizzle,
        oob_fill=item.oob_fill,
        lower=item.lower,
        upper=item.upper,
    )


def encoded_map(item: EncodedMapArgument, address: int | None = None) -> TensorMap:
    """The map in 128 bytes, over `address` instead of its own; TileproofError if they are not a map."""
    made = TensorMap.read(item.data)
    return made if address is None else replace(made, address=address + item.offset)


def check_map(item: TensorMapArgument, launch: LaunchFile) -> None:
    """TileproofError when the map of this argument reaches past its buffer, or would be refused."""
    buffer = launch.buffer(item.buffer)
    _inside(tensor_map(item, buffer.address or 0, buffer.dtype), buffer, item.offset)


def check_encoded_map(item: EncodedMapArgument, launch: LaunchFile) -> None:
    """Raise TileproofError if these bytes are not a readable map, or the map reaches past its buffer."""
    made = encoded_map(item)
    if item.buffer:
        _inside(made, launch.buffer(item.buffer), item.offset)
    elif not TensorMap.holds(item.data):  # another machine's address
        for buffer in launch.buffers:
            if buffer.address is not None and buffer.address <= made.address < buffer.address + buffer.bytes:
                return _inside(made, buffer, made.address - buffer.address)
        raise TileproofError(
            "the address of a tensor map is outside every buffer",
            expected="a buffer with a given address that contains it",
            found=hex(made.address),
            do='name the buffer of the map ("buffer", "offset")',
        )
    return None


def _inside(made: TensorMap, buffer: LaunchBuffer, offset: int) -> None:
    steps = sum((n - 1) * s for n, s in zip(made.shape[1:], made.strides, strict=True))
    end = offset + steps + made.checked.in_global(made.shape[0])
    if offset < 0 or end > buffer.bytes:
        raise TileproofError(
            "a tensor map reaches past its buffer",
            where=f"buffer {buffer.name}",
            expected=f"at most {buffer.bytes} bytes",
            found=f"shape {made.shape}, strides {made.strides} from byte {offset}: {end}",
        )
