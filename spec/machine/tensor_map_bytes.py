"""The 128 bytes of a tensor map as NVIDIA's driver writes them.

The layout is not documented. Every field below was measured: driver 580.159.04 (driver API 13.0), NVIDIA
H200 (sm_90), docs/evidence/2026-11-22-h200-tensor-maps.jsonl.xz, made by tools/silicon/tensor_map_bytes.py.
The 3,719 maps of that table are what `driver_bytes` makes of their arguments, bit for bit. Not measured: what
a driver writes for another card (it encodes in a context only); types of 4 and 6 bits and swizzles of other
atoms than 16 bytes, which this card refuses; the wide forms of im2col, whose bytes there are those of im2col.
A map with a bit that these fields do not account for is refused.

Little-endian; bits are counted from the first byte:

| bits | field |
|---|---|
| 0..56 | address |
| 64 | 1 for im2col |
| 68..70 | rank - 1 |
| 71..74 | type (`_TYPES`) |
| 75..76 | interleave: 0 none, 1 16 bytes, 2 32 bytes |
| 77..78 | swizzle: 0 none, 1 32B, 2 64B, 3 128B |
| 79 | NaN fill |
| 80 | TFLOAT32: the type field holds FLOAT32 or FLOAT32_FTZ |
| 81..82 | L2 promotion: 0 none, 64, 128, 256 bytes |
| 96 + 32k | low half of stride k+1 / 16; its 4 bits above stand at 224 + 4k |
| 256 + 32k | extent k - 1 |
| 416 + 3k | element stride k - 1 |
| 440..447 | box 0 - 1, or channels per pixel - 1 |
| 448 + 8k | box k+1 - 1 |
| 448.., 464.. | im2col: lower and upper corner, W first, of 16 (rank 3), 8 (4) or 5 (5) bits each, signed |
| 480..489 | im2col: pixels per column - 1 |
| 512..543 | bytes of a box: the product of box / element stride, rounded down, and the element size |
| 576..607 | alignment in shared memory: 16, or 256, 512, 1024 with a swizzle of 32, 64, 128 bytes |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import TensorMapFields

BYTES = 128
_TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float32_ftz": 8, "float64": 9, "bfloat16": 10,
}  # fmt: skip
_TF32 = {"tfloat32": 7, "tfloat32_ftz": 8}
_SWIZZLES = ("none", "32B", "64B", "128B")
_ALIGNMENT = {"none": 16, "32B": 256, "64B": 512, "128B": 1024}
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
_ADDRESS_BITS = 57


@dataclass(frozen=True)
class DriverTensorMap:
    """What the bytes hold: the fields that change what is copied, and two that `TensorMapFields` lacks.

    `l2_promotion` and `interleave` are CUtensorMapL2promotion and CUtensorMapInterleave.
    """

    fields: TensorMapFields
    l2_promotion: int = 0
    interleave: int = 0


def driver_bytes(made: DriverTensorMap) -> bytes:
    """The 128 bytes; TileproofError for a type or a swizzle whose encoding was not measured."""
    fields = made.fields
    if fields.dtype not in _TYPES and fields.dtype not in _TF32:
        raise _not_measured("dtype", ", ".join((*_TYPES, *_TF32)), fields.dtype)
    if fields.swizzle not in _SWIZZLES:
        raise _not_measured("swizzle", ", ".join(_SWIZZLES), fields.swizzle)
    rank, value = len(fields.shape), 0

    def put(at: int, number: int) -> None:
        nonlocal value
        value |= number << at

    put(0, fields.address)
    put(64, int(fields.im2col))
    put(68, rank - 1)
    put(71, _TYPES.get(fields.dtype, _TF32.get(fields.dtype, 0)))
    put(75, made.interleave)
    put(77, _SWIZZLES.index(fields.swizzle))
    put(79, int(fields.oob_fill == "nan"))
    put(80, int(fields.dtype in _TF32))
    put(81, made.l2_promotion)
    for k, stride in enumerate(fields.strides):
        put(96 + 32 * k, stride // 16 & 0xFFFFFFFF)
        put(224 + 4 * k, stride // 16 >> 32)
    for k, extent in enumerate(fields.shape):
        put(256 + 32 * k, extent - 1)
    for k, step in enumerate(fields.element_strides):
        put(416 + 3 * k, step - 1)
    put(440, fields.box[0] - 1)
    if fields.im2col:
        width = _CORNER_BITS[rank]
        for corner, at in ((fields.lower, 448), (fields.upper, 464)):
            for k, coordinate in enumerate(corner):
                put(at + width * k, coordinate & (1 << width) - 1)
        put(480, fields.box[1] - 1)
        elements = math.prod(fields.box)
    else:
        for k, extent in enumerate(fields.box[1:]):
            put(448 + 8 * k, extent - 1)
        elements = math.prod(b // s for b, s in zip(fields.box, fields.element_strides, strict=True))
    put(512, elements * fields.element_size)
    put(576, _ALIGNMENT[fields.swizzle])
    return value.to_bytes(BYTES, "little")


def driver_map(data: bytes) -> DriverTensorMap:
    """What 128 bytes hold that the driver wrote.

    Raises TileproofError, with the bits, for bytes that are not what `driver_bytes` makes of it.
    """
    if len(data) != BYTES:
        raise TileproofError("a tensor map has 128 bytes", expected=str(BYTES), found=str(len(data)))
    value = int.from_bytes(data, "little")

    def get(at: int, width: int) -> int:
        return value >> at & (1 << width) - 1

    def signed(at: int, width: int) -> int:
        number = get(at, width)
        return number - (1 << width) if number >> width - 1 else number

    tf32, code, rank, im2col = get(80, 1), get(71, 4), get(68, 3) + 1, get(64, 1)
    names = {number: name for name, number in (_TF32 if tf32 else _TYPES).items()}
    if code not in names:
        raise _unknown("type", f"{', '.join(map(str, names))}", str(code), "bits 71..74")
    if not (3 if im2col else 1) <= rank <= 5:
        raise _unknown("rank", "3..5 for im2col" if im2col else "1..5", str(rank), "bits 68..70")
    interleave = get(75, 2)
    if interleave == 3:
        raise _unknown("interleave", "0..2", "3", "bits 75..76")
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    if im2col:
        width = _CORNER_BITS[rank]
        lower = tuple(signed(448 + width * k, width) for k in range(rank - 2))
        upper = tuple(signed(464 + width * k, width) for k in range(rank - 2))
        box: tuple[int, ...] = (get(440, 8) + 1, get(480, 10) + 1)
    else:
        box = (get(440, 8) + 1, *(get(448 + 8 * k, 8) + 1 for k in range(rank - 1)))
    fields = TensorMapFields(
        dtype=names[code],
        shape=tuple(get(256 + 32 * k, 32) + 1 for k in range(rank)),
        strides=tuple(16 * (get(96 + 32 * k, 32) | get(224 + 4 * k, 4) << 32) for k in range(rank - 1)),
        box=box,
        element_strides=tuple(get(416 + 3 * k, 3) + 1 for k in range(rank)),
        swizzle=_SWIZZLES[get(77, 2)],
        oob_fill="nan" if get(79, 1) else "zero",
        address=get(0, _ADDRESS_BITS),
        lower=lower,
        upper=upper,
    )
    made = DriverTensorMap(fields, get(81, 2), interleave)
    differ = value ^ int.from_bytes(driver_bytes(made), "little")
    if differ:
        bits = [at for at in range(8 * BYTES) if differ >> at & 1]
        listed = ", ".join(map(str, bits[:16])) + (", ..." if len(bits) > 16 else "")
        raise TileproofError(
            "a tensor map has unknown bits set",
            where=f"bits {listed}",
            expected="the encoding that driver 580.159.04 has for sm_90",
            found=data.hex(),
            do="give the arguments of cuTensorMapEncodeTiled instead of its bytes",
        )
    return made


def _not_measured(what: str, expected: str, found: str) -> TileproofError:
    return TileproofError(
        "the driver's encoding of this field is unknown", where=what, expected=expected, found=found
    )


def _unknown(what: str, expected: str, found: str, bits: str) -> TileproofError:
    return TileproofError(
        f"a tensor map has an unknown {what}",
        where=bits,
        expected=expected,
        found=found,
        do="give the arguments of cuTensorMapEncodeTiled instead of its bytes",
    )
