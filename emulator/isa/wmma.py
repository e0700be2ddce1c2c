"""WMMA: matrices in opaque fragments, executed as loads, stores and mma.sync (PTX ISA 9.7.14.4).

The ISA leaves open which lane holds which element. Here a fragment is made of the fragments of mma.sync:
tiles of 16 x 8 (8 x 8 of f64, s4 and u4), beside or below each other. `m8n32k16` is computed transposed.
Registers that are not needed repeat the others, so that a program may change every element of a fragment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.memory import SPACES
from tileproof.emulator.isa.mma_sync import emit_mma
from tileproof.emulator.ptx import Instruction, Operand
from tileproof.emulator.registry import Modifiers, instruction, refused

_S = "{m16n16k16,m8n32k16,m32n8k16}"
_SS = "[.{global,shared,shared::cta}]"
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "f64": 64,
    "f32": 32,
    "s32": 32,
}
# Registers of a fragment that has more of them than elements need (PTX ISA 9.7.14.4.1).
_F16_REGISTERS = 8
_ACCUMULATORS = (
    f".sync.aligned.{{row,col}}.{_S}{_SS}.{{f16,f32,s32}}; .sync.aligned.{{row,col}}.m16n16k8{_SS}.f32; "
    f".sync.aligned.{{row,col}}.m8n8k4{_SS}.f64; .sync.aligned.{{row,col}}.m8n8k32{_SS}.s32"
)
_LOADS = (
    f".{{a,b}}.sync.aligned.{{row,col}}.{_S}{_SS}.{{f16,bf16,s8,u8}}; "
    f".{{a,b}}.sync.aligned.{{row,col}}.m16n16k8{_SS}.tf32; "
    f".{{a,b}}.sync.aligned.{{row,col}}.m8n8k4{_SS}.f64; "
    f".a.sync.aligned.row.m8n8k32{_SS}.{{s4,u4}}; .b.sync.aligned.col.m8n8k32{_SS}.{{s4,u4}}; "
    + "; ".join(f".c{form.strip()}" for form in _ACCUMULATORS.split(";"))
)
_PRODUCTS = (
    f".sync.aligned.{{row,col}}.{{row,col}}.{_S}{{.f16.f16,.f32.f32,.f32.bf16.bf16.f32}}; "
    f".sync.aligned.{{row,col}}.{{row,col}}.{_S}.s32.{{s8.s8,u8.u8}}.s32[.satfinite]; "
    ".sync.aligned.{row,col}.{row,col}.m16n16k8.f32.tf32.tf32.f32; "
    ".sync.aligned.{row,col}.{row,col}.m8n8k4[.{rn,rz,rm,rp}].f64.f64.f64.f64; "
    ".sync.aligned.row.col.m8n8k32.s32.{s4.s4,u4.u4}.s32[.satfinite]"
)
_NOTE = (
    "as loads, stores and mma.sync; the fragments' layout, which the ISA does not define, is that of mma.sync"
)


@dataclass(frozen=True)
class _Register:
    """Elements of a register: the first at (g + row, step * t + column) of lane 4 g + t, others in further
    columns.
    """

    row: int
    column: int


@dataclass(frozen=True)
class _Fragment:
    """A fragment, or its transpose: `turned`. `step`: columns from lane to lane; `per`: elements a register.

    `copies`: how often its registers are repeated.
    """

    turned: bool
    step: int
    per: int
    bits: int
    registers: tuple[_Register, ...]
    copies: int


def _shape(word: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", word)
    assert match
    m, n, k = map(int, match.groups())
    return m, n, k


def _fragment(which: str, shape: tuple[int, int, int], type_: str) -> _Fragment:
    """The fragment of a matrix (`a`, `b`, `c`) in this shape, with the type of its elements."""
    m, n, k = shape
    swapped = n > m  # computed as the transpose
    if swapped:
        m, n, which = n, m, {"a": "b", "b": "a"}.get(which, which)
    bits, tall = _BITS[type_], min(m, 16)
    per = max(1, 32 // bits)
    if which == "c":
        per = 2 if type_ == "f16" else 1
        inner = (_Register(row, column) for row in range(0, tall, 8) for column in range(0, 2, per))
        tile = tuple(inner)
        registers = tuple(
            _Register(row + part.row, column + part.column)
            for row in range(0, m, tall)
            for column in range(0, n, 8)
            for part in tile
        )
        return _Fragment(swapped, 2, per, bits, registers, 1)
    columns = range(0, k, 4 * per)
    if which == "a":
        registers = tuple(
            _Register(top + row, column)
            for top in range(0, m, tall)
            for column in columns
            for row in range(0, tall, 8)
        )
    else:  # B lies as the transpose: a row of it is a column
        registers = tuple(_Register(top, column) for top in range(0, n, 8) for column in columns)
    copies = _F16_REGISTERS // len(registers) if type_ == "f16" else 1
    return _Fragment((which == "b") != swapped, per, per, bits, registers, copies)


class _Lanes:
    """Addresses of a lane's elements of a fragment in memory."""

    def __init__(
        self, d: Decoder, fragment: _Fragment, row_major: bool, address: Operand, stride: int
    ) -> None:
        # `stride`: a 32-bit slot with elements.
        self.d, self.fragment = d, fragment
        self.inner = row_major != fragment.turned  # the columns of the fragment are contiguous
        self.pitch = d.temporary(8)
        elements = d.temporary(8)
        d.emit("cvt.u64.u32", dst=elements, a=stride, to_bytes=8, from_bytes=4)
        self._scaled(self.pitch, elements, fragment.bits)
        lane, group, turn = d.special("%laneid"), d.temporary(8), d.temporary(8)
        narrow = d.temporary(4)
        d.emit("shr.u32", dst=narrow, a=lane, b=d.constant(2, 4))
        d.emit("cvt.u64.u32", dst=group, a=narrow, to_bytes=8, from_bytes=4)
        d.emit("and.32", dst=narrow, a=lane, b=d.constant(3, 4))
        d.emit("mul.lo.32", dst=narrow, a=narrow, b=d.constant(fragment.step, 4))
        d.emit("cvt.u64.u32", dst=turn, a=narrow, to_bytes=8, from_bytes=4)
        outer, along = (group, turn) if self.inner else (turn, group)
        self.base, offset = d.temporary(8), d.temporary(8)
        d.emit("mul.lo.64", dst=offset, a=outer, b=self.pitch)
        d.emit("add.64", dst=self.base, a=d.address_slot(address, 8), b=offset)
        self._scaled(offset, along, fragment.bits)
        d.emit("add.64", dst=self.base, a=self.base, b=offset)
        self._rows: dict[int, int] = {0: self.base}

    def _scaled(self, to: int, elements: int, bits: int) -> None:
        """Bytes of a number of elements."""
        self.d.emit("mul.lo.64", dst=to, a=elements, b=self.d.constant(bits, 8))
        self.d.emit("shr.u64", dst=to, a=to, b=self.d.constant(3, 4))

    def at(self, row: int, column: int) -> tuple[int, int]:
        """The slot of an address, and a displacement in bytes, of an element of this lane."""
        outer, along = (row, column) if self.inner else (column, row)
        if outer not in self._rows:
            slot = self.d.temporary(8)
            self.d.emit("mul.lo.64", dst=slot, a=self.pitch, b=self.d.constant(outer, 8))
            self.d.emit("add.64", dst=slot, a=slot, b=self.base)
            self._rows[outer] = slot
        return self._rows[outer], along * self.fragment.bits // 8

    def access(self, handler: str, place: tuple[int, int], space: int, bytes_: int, register: int) -> None:
        """`ld` or `st` of an element, or of a register of contiguous elements."""
        self.d.emit(
            handler, base=place[0], imm=place[1], space=space, bytes=bytes_, elements=1, sign=0, width=8,
            register_bytes=max(4, bytes_), order=0, vec=[register],
        )  # fmt: skip


def _parts(d: Decoder, operand: Operand, fragment: _Fragment) -> list[int]:
    """The registers of a fragment."""
    parts = d.vector(operand)
    count = len(fragment.registers) * fragment.copies
    if len(parts) != count:
        raise ValueError(f"{count} registers are needed, not {len(parts)}")
    return [d.dst(part, f"b{max(32, fragment.bits)}") for part in parts]


def _memory(m: Modifiers, which: str) -> tuple[bool, tuple[int, int, int], int, str]:
    """Whether the matrix lies by rows, its shape, the state space and the type."""
    m.take(which)
    m.need("sync")
    m.need("aligned")
    row_major = m.need("row", "col") == "row"
    shape = _shape(m.remaining.pop(0))
    space = SPACES[m.take(*SPACES) or "generic"]
    (type_,) = m.types()
    return row_major, shape, space, type_


def _stride(
    d: Decoder, given: list[Operand], which: str, shape: tuple[int, int, int], row_major: bool
) -> int:
    """A slot of the stride in elements: by default that of a dense matrix."""
    if given:
        return d.src(given[0], "u32")
    rows, columns = {"a": (0, 2), "b": (2, 1)}.get(which, (0, 1))
    return d.constant(shape[columns if row_major else rows], 4)


@instruction("wmma.load", group="warp-level matrices", forms=_LOADS, section="9.7.14.4.3", note=_NOTE)
def load(d: Decoder, i: Instruction, m: Modifiers) -> None:
    which = m.need("a", "b", "c")
    row_major, shape, space, type_ = _memory(m, which)
    fragment = _fragment(which, shape, type_)
    target, address, *stride = i.operands
    registers = _parts(d, target, fragment)
    lanes = _Lanes(d, fragment, row_major, address, _stride(d, stride, which, shape, row_major))
    size, values = max(4, fragment.bits // 8), []
    for register in fragment.registers:
        value = d.temporary(size)
        values.append(value)
        if lanes.inner or fragment.per == 1:
            lanes.access("ld", lanes.at(register.row, register.column), space, size, value)
            continue
        for part in range(fragment.per):
            piece = d.temporary(4) if part else value
            place = lanes.at(register.row, register.column + part)
            lanes.access("ld", place, space, fragment.bits // 8, piece)
            if part:
                d.emit("shl.32", dst=piece, a=piece, b=d.constant(part * fragment.bits, 4))
                d.emit("or.32", dst=value, a=value, b=piece)
    for number, to in enumerate(registers):  # the address may be in a register of the fragment
        d.emit(f"mov.{8 * size}", dst=to, a=values[number % len(values)])


@instruction(
    "wmma.store",
    group="warp-level matrices",
    forms="; ".join(f".d{form.strip()}" for form in _ACCUMULATORS.split(";")),
    section="9.7.14.4.4",
    note=_NOTE,
)
def store(d: Decoder, i: Instruction, m: Modifiers) -> None:
    row_major, shape, space, type_ = _memory(m, "d")
    fragment = _fragment("c", shape, type_)
    address, source, *stride = i.operands
    registers = _parts(d, source, fragment)
    lanes = _Lanes(d, fragment, row_major, address, _stride(d, stride, "c", shape, row_major))
    size = max(4, fragment.bits // 8)
    for register, value in zip(fragment.registers, registers, strict=True):
        if lanes.inner or fragment.per == 1:
            lanes.access("st", lanes.at(register.row, register.column), space, size, value)
            continue
        for part in range(fragment.per):
            piece = value
            if part:
                piece = d.temporary(4)
                d.emit("shr.u32", dst=piece, a=value, b=d.constant(part * fragment.bits, 4))
            lanes.access(
                "st", lanes.at(register.row, register.column + part), space, fragment.bits // 8, piece
            )


@instruction("wmma.mma", group="warp-level matrices", forms=_PRODUCTS, section="9.7.14.4.5", note=_NOTE)
def mma(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("sync", "aligned", "row", "col"):
        m.drop(word)
    rounding, saturates = m.take("rn", "rz", "rm", "rp"), m.take("satfinite")
    shape = _shape(m.remaining.pop(0))
    types = m.types()
    result, a, b = (types[0], "f16", "f16") if len(types) == 2 else (types[0], types[1], types[2])
    fragments = [
        _fragment(which, shape, type_) for which, type_ in (("c", result), ("a", a), ("b", b), ("c", result))
    ]
    target, first, second, initial = (
        _parts(d, operand, fragment) for operand, fragment in zip(i.operands, fragments, strict=True)
    )
    if shape[1] > shape[0]:
        first, second = second, first
        fragments[1], fragments[2] = fragments[2], fragments[1]
    m_, n, k = max(shape[:2]), min(shape[:2]), shape[2]
    tall = min(m_, 16)
    tiles = [(row, column) for row in range(m_ // tall) for column in range(n // 8)]
    each = [
        len(fragments[at].registers) // count for at, count in ((0, len(tiles)), (1, m_ // tall), (2, n // 8))
    ]
    sums: list[int] = []
    for number, (row, column) in enumerate(tiles):
        values = [d.temporary(max(4, _BITS[result] // 8)) for _ in range(each[0])]
        emit_mma(
            d, tall, k, (a, b) if shape[0] >= shape[1] else (b, a), result, values,
            first[row * each[1] : (row + 1) * each[1]], second[column * each[2] : (column + 1) * each[2]],
            initial[number * each[0] : (number + 1) * each[0]], saturates=bool(saturates), rounding=rounding,
        )  # fmt: skip
        sums += values
    for to, value in zip(target, sums, strict=True):  # a register of D may be one of A, B or C
        d.emit(f"mov.{max(32, _BITS[result])}", dst=to, a=value)


for _base, _forms, _why in (
    (
        "wmma.mma",
        f".sync.aligned.{{row,col}}.{{row,col}}.{_S}{{.f16.f32,.f32.f16}}",
        "C and D of different types",
    ),
    (
        "wmma.mma",
        ".xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32; "
        ".and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 @ptx7.1",
        "single-bit products",
    ),
    (
        "wmma.load",
        f".a.sync.aligned.row.m8n8k128{_SS}.b1; .b.sync.aligned.col.m8n8k128{_SS}.b1",
        "single bits",
    ),
    ("wmma.load", f".c.sync.aligned.{{row,col}}.m8n8k128{_SS}.s32", "the accumulator of single-bit products"),
    (
        "wmma.store",
        f".d.sync.aligned.{{row,col}}.m8n8k128{_SS}.s32",
        "the accumulator of single-bit products",
    ),
):
    refused(_base, group="warp-level matrices", forms=_forms, section="9.7.14.4", note=_why)
