"""The instruction descriptors and the shared-memory matrix descriptor of tcgen05.mma, bit by bit.

Sources: PTX ISA tables 42 to 44 (instruction descriptors), table 40 (matrix descriptor), table 41 (base
offset); unions InstrDescriptor, InstrDescriptorBlockScaled and SmemDescriptor in CUTLASS 4.2
`mma_sm100_desc.hpp`. Which bits are legal is `descriptor_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tileproof.spec.machine import descriptor_rules as rules
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.kinds import D_TYPES, SCALE_TYPES, format_of

SWIZZLES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}
WS_SHIFTS = {0: 0, 8: 1, 16: 2, 32: 3}
_VERSION = 0b001

T = TypeVar("T")


@dataclass(frozen=True)
class InstructionDescriptor:
    """Fields of the 32-bit descriptor; `a_mn_major` true means A is MN-major ("transposed")."""

    m: int
    n: int
    a_type: str = "bf16"
    b_type: str = "bf16"
    d_type: str = "f32"
    a_mn_major: bool = False
    b_mn_major: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    ws_max_shift: int = 0
    format: str = "f16"

    def encode(self) -> int:
        """The 32-bit word."""
        m4, n3 = _step(self.m, 16, 31, "M"), _step(self.n, 8, 63, "N")
        return (
            _code({0: 0, 1: 1, 2: 2, 3: 3}, self.sparsity_selector, "sparsity selector")
            | int(self.sparse) << 2
            | int(self.saturate) << 3
            | _code(D_TYPES, self.d_type, "D type") << 4
            | _code(format_of(self.format).types, self.a_type, "A type") << 7
            | _code(format_of(self.format).types, self.b_type, "B type") << 10
            | int(self.negate_a) << 13
            | int(self.negate_b) << 14
            | int(self.a_mn_major) << 15
            | int(self.b_mn_major) << 16
            | n3 << 17
            | m4 << 24
            | _code(WS_SHIFTS, self.ws_max_shift, ".ws maximum shift") << 30
        )

    @staticmethod
    def decode(
        word: int, format_: str = "f16", *, ws: bool = True, a_in_tmem: bool = False
    ) -> InstructionDescriptor:
        """The fields of a word; TileproofError when a bit is set that means nothing in this form."""
        if not 0 <= word < 1 << 32:
            raise TileproofError("an instruction descriptor has 32 bits", found=hex(word))
        _refuse(
            rules.wrong_instruction(word, format_, ws=ws, sparse=bool(word >> 2 & 1), a_in_tmem=a_in_tmem),
            word,
        )
        types = format_of(format_).types
        return InstructionDescriptor(
            m=(word >> 24 & 31) * 16,
            n=(word >> 17 & 63) * 8,
            a_type=_name(types, word >> 7 & 7, "A type"),
            b_type=_name(types, word >> 10 & 7, "B type"),
            d_type=_name(D_TYPES, word >> 4 & 3, "D type"),
            a_mn_major=bool(word >> 15 & 1),
            b_mn_major=bool(word >> 16 & 1),
            negate_a=bool(word >> 13 & 1),
            negate_b=bool(word >> 14 & 1),
            saturate=bool(word >> 3 & 1),
            sparse=bool(word >> 2 & 1),
            sparsity_selector=word & 3,
            ws_max_shift={code: shift for shift, code in WS_SHIFTS.items()}[word >> 30 & 3],
            format=format_,
        )


@dataclass(frozen=True)
class BlockScaledDescriptor:
    """Fields of the 32-bit descriptor of kinds mxf8f6f4, mxf4 and mxf4nvf4; `a_scale_id`, `b_scale_id`: the
    byte of the tensor memory word where a row's scale factors start."""

    m: int
    n: int
    format: str
    a_type: str = "e2m1"
    b_type: str = "e2m1"
    scale_type: str = "ue8m0"
    a_scale_id: int = 0
    b_scale_id: int = 0
    a_mn_major: bool = False
    b_mn_major: bool = False
    negate_a: bool = False
    negate_b: bool = False

    def encode(self) -> int:
        """The 32-bit word."""
        types = format_of(self.format).types
        word = (
            _code({k: k for k in range(4)}, self.b_scale_id, "scale factor id") << 4
            | _code(types, self.a_type, "A type") << 7
            | _code(types, self.b_type, "B type") << 10
            | int(self.negate_a) << 13
            | int(self.negate_b) << 14
            | int(self.a_mn_major) << 15
            | int(self.b_mn_major) << 16
            | _step(self.n, 8, 63, "N") << 17
            | _code(SCALE_TYPES, self.scale_type, "scale type") << 23
            | _step(self.m, 128, 3, "M") << 27
            | _code({k: k for k in range(4)}, self.a_scale_id, "scale factor id") << 29
        )
        _refuse(rules.wrong_instruction(word, self.format), word)
        return word

    @staticmethod
    def decode(word: int, format_: str) -> BlockScaledDescriptor:
        """The fields of a word; TileproofError when a bit is set that means nothing in this form."""
        if not 0 <= word < 1 << 32:
            raise TileproofError("an instruction descriptor has 32 bits", found=hex(word))
        _refuse(rules.wrong_instruction(word, format_), word)
        types = format_of(format_).types
        return BlockScaledDescriptor(
            m=(word >> 27 & 3) * 128,
            n=(word >> 17 & 63) * 8,
            format=format_,
            a_type=_name(types, word >> 7 & 7, "A type"),
            b_type=_name(types, word >> 10 & 7, "B type"),
            scale_type=_name(SCALE_TYPES, word >> 23 & 1, "scale type"),
            a_scale_id=word >> 29 & 3,
            b_scale_id=word >> 4 & 3,
            a_mn_major=bool(word >> 15 & 1),
            b_mn_major=bool(word >> 16 & 1),
            negate_a=bool(word >> 13 & 1),
            negate_b=bool(word >> 14 & 1),
        )


@dataclass(frozen=True)
class SmemDescriptor:
    """Fields of the 64-bit matrix descriptor: addresses and offsets in bytes.

    `start` counts modulo 256 KiB: rank bits of a shared::cluster address drop out, the descriptor means own
    SMEM.
    """

    start: int
    lbo: int
    sbo: int
    swizzle: str
    base_offset: int = 0
    lbo_absolute: bool = False

    def encode(self) -> int:
        """The 64-bit word."""
        if not 0 <= self.base_offset < 8:
            raise TileproofError("base offset out of range", expected="0..7", found=str(self.base_offset))
        return (
            _field(self.start, "start address", wrap=True)
            | _field(self.lbo, "LBO") << 16
            | _field(self.sbo, "SBO") << 32
            | _VERSION << 46
            | self.base_offset << 49
            | int(self.lbo_absolute) << 52
            | _code(SWIZZLES, self.swizzle, "swizzle") << 61
        )

    @staticmethod
    def decode(word: int) -> SmemDescriptor:
        """The fields of a word; TileproofError when a constant field or the swizzle code is wrong."""
        if not 0 <= word < 1 << 64:
            raise TileproofError("a matrix descriptor has 64 bits", found=hex(word))
        _refuse(rules.wrong_matrix(word, transposed_tf32=word >> 61 == SWIZZLES["128B_ATOM_32B"]), word)
        return SmemDescriptor(
            start=(word & 0x3FFF) << 4,
            lbo=(word >> 16 & 0x3FFF) << 4,
            sbo=(word >> 32 & 0x3FFF) << 4,
            swizzle=_name(SWIZZLES, word >> 61 & 7, "swizzle"),
            base_offset=word >> 49 & 7,
            lbo_absolute=bool(word >> 52 & 1),
        )


def base_offset(pattern_start: int) -> int:
    """Base offset field of a swizzle pattern that starts at `pattern_start` (PTX ISA table 41)."""
    return pattern_start >> 7 & 7


def _refuse(wrong: str, word: int) -> None:
    if wrong:
        raise TileproofError(wrong, found=hex(word))


def _step(value: int, step: int, maximum: int, name: str) -> int:
    if value % step or not 0 < value <= maximum * step:
        raise TileproofError(
            f"{name} cannot be encoded",
            expected=f"a multiple of {step} up to {maximum * step}",
            found=str(value),
        )
    return value // step


def _field(value: int, name: str, wrap: bool = False) -> int:
    if value % 16 or value < 0 or (not wrap and value > 0x3FFF0):
        raise TileproofError(
            f"{name} cannot be encoded", expected="a multiple of 16 below 256 KiB", found=hex(value)
        )
    return (value & 0x3FFFF) >> 4


def _code(codes: dict[T, int], value: T, name: str) -> int:
    if value not in codes:
        raise TileproofError(f"unknown {name}", expected=", ".join(map(str, codes)), found=repr(value))
    return codes[value]


def _name(codes: dict[str, int], code: int, name: str) -> str:
    for known, value in codes.items():
        if value == code:
            return known
    raise TileproofError(f"undefined code of {name}", expected=str(codes), found=str(code))
