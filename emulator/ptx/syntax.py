"""The syntax tree of PTX: operands, statements, declarations (PTX ISA 4)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from tileproof.emulator.errors import PtxError

IDENTIFIER = r"[A-Za-z_$%][A-Za-z0-9_$.%]*"
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


# --- operands


@dataclass(frozen=True)
class Name:
    """A register, special register or symbol, optionally displaced (`symbol+8`) or negated (`!%p1`)."""

    name: str
    offset: int = 0
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """An integer, or the bits of a floating-point literal (`float_bits` is then 32 or 64)."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or `[base, {coordinates}]` of a tensor copy; base None is an absolute address."""

    base: str | None
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Pair:
    """`d|p`: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Sink:
    """`_`."""


Operand = Name | Immediate | Vector | Address | Pair | Sink


# --- statements


@dataclass(frozen=True)
class Instruction:
    """One instruction with its guard; `source` is "file:line" of the .loc in force, or ""."""

    line: int
    source: str
    guard: str
    guard_negated: bool
    opcode: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Label:
    line: int
    name: str


@dataclass(frozen=True)
class Declaration:
    """`.reg`, `.local`, `.shared` or `.param` inside a body. `count` is set for `name<count>` families,
    `elements` is 2 or 4 for a vector of registers.
    """

    line: int
    space: str
    type: str
    name: str
    count: int | None
    align: int
    bytes: int
    elements: int = 1


@dataclass(frozen=True)
class Scope:
    """`{` (opens) or `}`."""

    line: int
    opens: bool


@dataclass(frozen=True)
class BranchTargets:
    """`name: .branchtargets a, b, ...;`: what `brx.idx` may branch to, by index."""

    line: int
    name: str
    labels: tuple[str, ...]


Statement = Instruction | Label | Declaration | Scope | BranchTargets


@dataclass(frozen=True)
class Parameter:
    name: str
    bytes: int
    align: int


@dataclass
class Variable:
    """A module-level `.global`, `.const` or `.shared` variable."""

    name: str
    space: str
    align: int
    bytes: int
    data: bytearray | None
    line: int
    addresses: tuple[tuple[int, str], ...] = ()  # (offset, symbol) of initialisers that are addresses


@dataclass
class Entry:
    name: str
    line: int
    parameters: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    body_start: int
    body_end: int


@dataclass(frozen=True)
class Function:
    """A `.func` with a body: its parameters stand in `body`, what it returns in `results`."""

    body: Entry
    results: tuple[Parameter, ...]


FUNCTIONS_BASE = 1 << 52
_TAKEN = re.compile(rf"\bmov\.[bu]64\s+{IDENTIFIER}\s*,\s*({IDENTIFIER})\s*;")


@dataclass
class PtxModule:
    """A parsed module; `text` has its comments blanked out so that offsets keep their lines."""

    text: str
    version: str = ""
    target: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    def line_of(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    @cached_property
    def function_addresses(self) -> dict[str, int]:
        """Addresses of the functions whose address the module takes: numbers that no memory has."""
        names = {symbol for variable in self.variables.values() for _, symbol in variable.addresses}
        names |= {match[1] for match in _TAKEN.finditer(self.text)}
        taken = [name for name in self.functions if name in names]
        return {name: FUNCTIONS_BASE + 16 * number for number, name in enumerate(taken)}


def fail(module: PtxModule, offset: int, what: str, expected: str = "") -> PtxError:
    """A PtxError at `offset` that names the line and the token found there."""
    token = re.match(r"\s*(\S{1,60})", module.text[offset:])
    skipped = len(token.group(0)) - len(token.group(1)) if token else 0
    return PtxError(
        what,
        where=f"line {module.line_of(offset + skipped)}",
        expected=expected,
        found=f"{token.group(1)!r}" if token else "the end of the text",
        do="is the file complete PTX, as nvcc -ptx writes it?",
    )


MAX_ALIGN = 1 << 16


def alignment(module: PtxModule, at: int, text: str | None, size: int) -> int:
    """The value of `.align`, or the type's own size: a power of two."""
    align = int(text) if text else size
    if align < 1 or align & (align - 1) or align > MAX_ALIGN:
        raise fail(module, at, "a bad .align", f"a power of two up to {MAX_ALIGN}")
    return align
