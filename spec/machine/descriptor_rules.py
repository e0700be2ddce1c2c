"""The legal bits of the descriptors of tcgen05.mma: a table that `spec.machine` and the engine share.

Sources: PTX ISA 9.7.16.4.1 (table 40, matrix descriptor), 9.7.16.4.2 (tables 42 to 44, instruction
descriptor), 9.7.16.10.1 (transpose and negate by kind, 32-byte swizzle atoms), 9.7.16.2.1 (f16 accumulators
take f16 operands). A field that a form does not use must be 0: the ISA gives it no meaning there.
`handed_over` is what the engine is given when the emulator is imported; it holds no rule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.spec.machine import mma
from tileproof.spec.machine.kinds import D_TYPES, FORMATS, SCALE_TYPES, Format, format_of

A_FROM_SHARED, WS, SPARSE = "A in shared memory", ".ws", ".sp"


@dataclass(frozen=True)
class Field:
    """Bits [low, low + bits) and the codes that are legal; `only`: other forms must leave it 0."""

    name: str
    low: int
    bits: int
    codes: tuple[int, ...]
    only: str = ""

    @property
    def place(self) -> str:
        """The bits in words."""
        return f"bit {self.low}" if self.bits == 1 else f"bits {self.low}-{self.low + self.bits - 1}"


@dataclass(frozen=True)
class Conflict:
    """Two fields that may not hold these codes at once."""

    first: str
    first_codes: tuple[int, ...]
    second: str
    second_codes: tuple[int, ...]
    why: str


def _any(bits: int) -> tuple[int, ...]:
    return tuple(range(1 << bits))


def _reserved(low: int, bits: int = 1) -> Field:
    return Field("reserved", low, bits, (0,))


def _plain(f: Format) -> tuple[Field, ...]:
    """Table 42: kinds f16, tf32, f8f6f4 and i8."""
    types = tuple(f.types.values())
    negate, transpose = (_any(1) if f.negate else (0,)), (_any(1) if f.transposable else (0,))
    # 9.7.16.10.8.4: the selector of kinds i8 and f8f6f4 must be 0.
    selector = _any(2) if f.kind in ("f16", "tf32") else (0,)
    return (
        Field("sparsity selector", 0, 2, selector, SPARSE),
        Field("sparsity", 2, 1, (1,), SPARSE),
        Field("saturate", 3, 1, _any(1) if f.kind == "i8" else (0,)),
        Field("D type", 4, 2, tuple(D_TYPES[name] for name in f.d_types)),
        _reserved(6),
        Field("A type", 7, 3, types),
        Field("B type", 10, 3, types),
        Field("negate A", 13, 1, negate),
        Field("negate B", 14, 1, negate),
        Field("transpose A", 15, 1, transpose, A_FROM_SHARED),
        Field("transpose B", 16, 1, transpose),
        Field("N", 17, 6, _any(6)),
        _reserved(23),
        Field("M", 24, 5, _any(5)),
        _reserved(29),
        Field("maximum B shift", 30, 2, _any(2), WS),
    )


def _scaled(f: Format) -> tuple[Field, ...]:
    """Tables 43 and 44: kinds mxf8f6f4, mxf4 and mxf4nvf4. Bit 31 (K = 96) is not on sm_100a."""
    types = tuple(f.types.values())
    narrow = f.kind != "mxf8f6f4"
    ids = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[f.scales]
    transpose = _any(1) if f.transposable else (0,)
    b_type = (Field("B type", 10, 2, types), _reserved(12)) if narrow else (Field("B type", 10, 3, types),)
    return (
        _reserved(0, 2),
        Field("sparsity", 2, 1, (1,), SPARSE),
        _reserved(3),
        Field("B scale factor id", 4, 2, ids),
        _reserved(6),
        Field("A type", 7, 3, types),
        *b_type,
        Field("negate A", 13, 1, _any(1)),
        Field("negate B", 14, 1, _any(1)),
        Field("transpose A", 15, 1, transpose, A_FROM_SHARED),
        Field("transpose B", 16, 1, transpose),
        Field("N", 17, 6, _any(6)),
        Field("scale type", 23, 1, tuple(SCALE_TYPES[name] for name in f.scale_types)),
        _reserved(24, 3),
        Field("M", 27, 2, _any(2)),
        Field("A scale factor id", 29, 2, ids),
        Field("K = 96", 31, 1, (0,)) if narrow else _reserved(31),
    )


INSTRUCTION = {f.name: _scaled(f) if f.scales else _plain(f) for f in FORMATS.values()}


def _conflicts(f: Format) -> tuple[Conflict, ...]:
    found = []
    fixed = tuple(code for name, code in f.types.items() if f.transposable and name not in f.transposable)
    for operand in "AB":
        if f.kind == "f16":
            why = "an f16 accumulator takes f16 operands only"
            found.append(Conflict("D type", (0,), f"{operand} type", (1,), why))
        if fixed:
            why = "operands of 4 and 6 bits are K-major only"
            found.append(Conflict(f"transpose {operand}", (1,), f"{operand} type", fixed, why))
    return tuple(found)


CONFLICTS = {f.name: _conflicts(f) for f in FORMATS.values()}

# Swizzle codes: K-major and MN-major operands; tf32 alone is transposed, and only, with 32-byte atoms
# (9.7.16.10.1). Table 55 gives 32-byte atoms no K-major layout.
_SWIZZLES = (0, 2, 4, 6)
MATRIX = (
    Field("start address", 0, 14, ()),
    _reserved(14, 2),
    Field("leading byte offset", 16, 14, ()),
    _reserved(30, 2),
    Field("stride byte offset", 32, 14, ()),
    Field("constant 0b001", 46, 3, (1,)),
    Field("base offset", 49, 3, _any(3)),  # not read without a swizzle
    Field("absolute leading address, sm_103a only", 52, 1, (0,)),
    _reserved(53, 8),
)
SWIZZLE = {
    False: Field("swizzle", 61, 3, _SWIZZLES),
    True: Field("swizzle", 61, 3, (1,)),
}


def wrong_instruction(
    word: int, format_: str, *, ws: bool = False, sparse: bool = False, a_in_tmem: bool = False
) -> str:
    """What is wrong with an instruction descriptor of this form; empty: nothing. Shapes are
    `mma.wrong_shape`'s."""
    format_of(format_)
    form = {WS: ws, SPARSE: sparse, A_FROM_SHARED: not a_in_tmem}
    for field in INSTRUCTION[format_]:
        wrong = _wrong(word, field, form.get(field.only, True), "instruction descriptor")
        if wrong:
            return wrong
    return _clash(word, CONFLICTS[format_], INSTRUCTION[format_], "instruction descriptor")


def wrong_matrix(word: int, *, transposed_tf32: bool = False) -> str:
    """What is wrong with a shared-memory matrix descriptor; empty: nothing."""
    for field in (*MATRIX, SWIZZLE[transposed_tf32]):
        wrong = _wrong(word, field, True, "shared-memory descriptor")
        if wrong:
            return wrong
    return ""


def _clash(word: int, rules: tuple[Conflict, ...], fields: tuple[Field, ...], what: str) -> str:
    named = {field.name: field for field in fields}
    for rule in rules:
        first, second = named[rule.first], named[rule.second]
        if _value(word, first) in rule.first_codes and _value(word, second) in rule.second_codes:
            return f"{rule.why} ({first.place} and {second.place} of the {what})"
    return ""


def _value(word: int, field: Field) -> int:
    return word >> field.low & (1 << field.bits) - 1


def _wrong(word: int, field: Field, used: bool, what: str) -> str:
    value, codes = _value(word, field), field.codes if used else (0,)
    if value in codes or (used and not field.codes):
        return ""
    legal = " or ".join(map(str, codes))
    where = "" if used else f", without {field.only}"
    verb = "is" if field.bits == 1 else "are"
    return f"{field.place} of the {what} ({field.name}{where}) {verb} {value}; legal: {legal}"


def handed_over() -> tuple[list[object], list[object], list[object]]:
    """For the engine: formats; matrix fields, plain and of a transposed tf32 operand; legal shapes."""

    def rules(conflicts: tuple[Conflict, ...]) -> list[object]:
        return [(c.first, list(c.first_codes), c.second, list(c.second_codes), c.why) for c in conflicts]

    def plain(field: Field) -> tuple[str, int, int, list[int], str]:
        return field.name, field.low, field.bits, list(field.codes), field.only

    formats: list[object] = [
        (
            f.name,
            f.k,
            f.scales,
            [plain(field) for field in INSTRUCTION[f.name]],
            rules(CONFLICTS[f.name]),
        )
        for f in FORMATS.values()
    ]
    matrix: list[object] = [
        ([plain(field) for field in (*MATRIX, swizzle)], rules(()))
        for swizzle in (SWIZZLE[False], SWIZZLE[True])
    ]
    shapes: list[object] = [
        (number, group, ws, in_tmem, transposed, m, sum(1 << n // 8 for n in ns))
        for number, f in enumerate(FORMATS.values())
        for group, ws in ((1, False), (2, False), (1, True))
        for in_tmem in (False, True)
        for transposed in (False, True)
        for m, ns in mma.legal_shapes(
            group, a_in_tmem=in_tmem, ws=ws, format_=f.name, b_mn_major=transposed
        ).items()
    ]
    return formats, matrix, shapes
