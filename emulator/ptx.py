"""Reads PTX text: module-level declarations and, on demand, the statements of one entry (PTX ISA 4).

The parser knows PTX's grammar, not its instructions: an instruction is an opcode string and operands. Entry bodies
are parsed only when an entry is launched, since a module of library code holds far more text than its kernel.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from tileproof.emulator.errors import PtxError

IDENTIFIER = r"[A-Za-z_$%][A-Za-z0-9_$.%]*"
_TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


# --- operands ---------------------------------------------------------------------------------------------------


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


# --- statements -------------------------------------------------------------------------------------------------


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
    """`.reg`, `.local`, `.shared` or `.param` inside a body. `count` is set for `name<count>` families."""

    line: int
    space: str
    type: str
    name: str
    count: int | None
    align: int
    bytes: int


@dataclass(frozen=True)
class Scope:
    """`{` (opens) or `}`."""

    line: int
    opens: bool


Statement = Instruction | Label | Declaration | Scope


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
    data: bytes | None
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


@dataclass
class PtxModule:
    """A parsed module; `text` has its comments blanked out so that offsets keep their lines."""

    text: str
    version: str = ""
    target: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    def line_of(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1


def _fail(module: PtxModule, offset: int, what: str, expected: str = "") -> PtxError:
    token = re.match(r"\s*(\S{1,60})", module.text[offset:])
    skipped = len(token.group(0)) - len(token.group(1)) if token else 0
    return PtxError(
        what,
        where=f"line {module.line_of(offset + skipped)}",
        expected=expected,
        found=f"{token.group(1)!r}" if token else "the end of the text",
        do="is the file complete PTX, as nvcc -ptx writes it?",
    )


def strip_comments(text: str) -> str:
    """Comments become blanks; line numbers and offsets stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    return re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.S)


_TOP = re.compile(r"\s*(\.[a-z_]+|;)")
_BRACE = re.compile(r"[{}]")


def parse_module(text: str) -> PtxModule:
    """The module's entries and variables; raises `PtxError` with line and token."""
    module = PtxModule(strip_comments(text))
    text = module.text
    at, end = 0, len(text.rstrip().rstrip("\0"))
    while at < end:
        match = _TOP.match(text, at)
        if not match:
            raise _fail(module, at, "this is not a PTX directive", "a directive such as .version, .entry or .global")
        word = match.group(1)
        if word == ";":
            at = match.end()
        elif word in (".version", ".target", ".address_size"):
            line_end = text.find("\n", match.end())
            line_end = end if line_end < 0 else line_end
            value = text[match.end() : line_end].strip()
            if word == ".version":
                module.version = value
            elif word == ".target":
                module.target = value
            at = line_end
        elif word == ".file":
            found = re.compile(r'\s*(\d+)\s+"((?:[^"\\]|\\.)*)"[^\n]*').match(text, match.end())
            if not found:
                raise _fail(module, match.end(), ".file cannot be read", '.file NUMBER "PATH"')
            module.files[int(found.group(1))] = found.group(2)
            at = found.end()
        elif word in (".section",):
            at = _matching_brace(module, text.find("{", match.end()))
        elif word in (".visible", ".weak", ".extern", ".common"):
            at = match.end()
        elif word == ".entry":
            at = _entry(module, match.end())
        elif word == ".func":
            at = _function(module, match.end())
        elif word in (".global", ".const", ".shared"):
            at = _variable(module, match.end(), word[1:])
        elif word in (".pragma", ".alias"):
            at = text.index(";", match.end()) + 1
        else:
            raise _fail(module, match.start(1), f"unknown directive {word}")
    if not module.version:
        raise PtxError(
            "the text has no .version directive",
            where="line 1",
            expected=".version MAJOR.MINOR",
            found=repr(text.strip()[:40]),
            do="give PTX text, as nvcc -ptx writes it",
        )
    return module


def _matching_brace(module: PtxModule, start: int) -> int:
    """The offset after the brace that closes the one at `start`."""
    if start < 0:
        raise _fail(module, len(module.text), "the text ends where '{' was expected")
    depth = 0
    for match in _BRACE.finditer(module.text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise PtxError(
        "a '{' is never closed", where=f"line {module.line_of(start)}", expected="'}'", found="the end of the text"
    )


_PARAM = re.compile(
    rf"\s*\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+(?:\.ptr\s*(?:\.[a-z]+\s*)*(?:\.align\s+\d+\s+)?)?"
    rf"({IDENTIFIER})\s*(?:\[(\d+)\])?\s*(,|(?=\)))"
)


def _parameters(module: PtxModule, at: int) -> tuple[tuple[Parameter, ...], int]:
    text = module.text
    opening = re.compile(r"\s*\(").match(text, at)
    if not opening:
        return (), at
    at, found = opening.end(), []
    while not (closing := re.compile(r"\s*\)").match(text, at)):
        match = _PARAM.match(text, at)
        if not match or match.group(2) not in _TYPE_BYTES:
            raise _fail(module, at, "a kernel parameter cannot be read", ".param [.align N] .TYPE NAME[SIZE]")
        size = _TYPE_BYTES[match.group(2)]
        count = int(match.group(4) or 1)
        found.append(Parameter(match.group(3), size * count, int(match.group(1) or size)))
        at = match.end()
    return tuple(found), closing.end()


_DIRECTIVE = re.compile(r"\s*\.([a-z]+)((?:\s*\d+\s*,?)*)")


def _entry(module: PtxModule, at: int) -> int:
    text = module.text
    match = re.compile(rf"\s*({IDENTIFIER})").match(text, at)
    if not match:
        raise _fail(module, at, ".entry without a name")
    name, line = match.group(1), module.line_of(match.start(1))
    parameters, at = _parameters(module, match.end())
    directives: dict[str, tuple[int, ...]] = {}
    while not (opening := re.compile(r"\s*([{;])").match(text, at)):
        found = _DIRECTIVE.match(text, at)
        if not found:
            raise _fail(module, at, f"the body of entry {name} does not begin", "'{' or a directive such as .maxntid")
        directives[found.group(1)] = tuple(int(n) for n in re.findall(r"\d+", found.group(2)))
        at = found.end()
    if opening.group(1) == ";":
        return opening.end()
    start = opening.start(1)
    end = _matching_brace(module, start)
    module.entries[name] = Entry(name, line, parameters, directives, start, end)
    return end


def _function(module: PtxModule, at: int) -> int:
    """Skips a .func: an entry that calls one it does not know is refused at its call."""
    semicolon, brace = module.text.find(";", at), module.text.find("{", at)
    if semicolon >= 0 and (brace < 0 or semicolon < brace):
        return semicolon + 1
    return _matching_brace(module, brace)


_VARIABLE = re.compile(
    rf"\s*(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+({IDENTIFIER})\s*((?:\[\d*\])*)\s*(=|;)"
)


def _variable(module: PtxModule, at: int, space: str) -> int:
    text = module.text
    match = _VARIABLE.match(text, at)
    if not match or match.group(2) not in _TYPE_BYTES:
        raise _fail(module, at, f"a .{space} variable cannot be read", ".TYPE NAME[SIZE] [= {...}];")
    size = _TYPE_BYTES[match.group(2)]
    count = 1
    for extent in re.findall(r"\[(\d*)\]", match.group(4)):
        count *= int(extent or 0)
    data, end, addresses = None, match.end(), []
    if match.group(5) == "=":
        end = text.index(";", match.end()) + 1
        values = [v.strip() for v in text[match.end() : end - 1].strip().strip("{}").split(",") if v.strip()]
        out = bytearray()
        for value in values:
            try:
                number = parse_number(value)
            except ValueError:
                addresses.append((len(out), re.sub(r"^generic\((.*)\)$", r"\1", value)))
                number = Immediate(0)
            out += (number.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        out += bytes(max(0, size * count - len(out)))
        data, count = bytes(out), max(count, len(out) // size)
    name = match.group(3)
    module.variables[name] = Variable(
        name, space, int(match.group(1) or size), size * count, data, module.line_of(match.start(3)), tuple(addresses)
    )
    return end


# --- bodies -----------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?$")


def parse_number(text: str) -> Immediate:
    """A PTX literal (PTX ISA 4.5); raises ValueError when it is none."""
    if match := _INTEGER.match(text):
        digits = match.group(2)
        base = 16 if digits[:2] in ("0x", "0X") else 2 if digits[:2] in ("0b", "0B") else 8 if digits[0] == "0" else 10
        value = int(digits[2:] if base in (2, 16) else digits, base)
        return Immediate(-value if match.group(1) == "-" else value)
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return Immediate(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return Immediate(int(text[2:], 16), 64)
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)


_NAME = re.compile(rf"(!?)\s*({IDENTIFIER})\s*(?:([+-])\s*([0-9xXa-fA-F]+))?$")


def split_operands(text: str) -> list[str]:
    """Splits at the commas outside braces, brackets and parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def parse_operand(text: str) -> Operand:
    """One operand; raises ValueError when it cannot be read."""
    first = text[0]
    if text == "_":
        return Sink()
    if first == "{" and text[-1] == "}":
        return Vector(tuple(parse_operand(part) for part in split_operands(text[1:-1])))
    if first == "[" and text[-1] == "]":
        parts = split_operands(text[1:-1])
        coordinates: tuple[Operand, ...] = ()
        if len(parts) == 2 and parts[1].startswith("{"):
            coordinates = tuple(parse_operand(part) for part in split_operands(parts[1][1:-1]))
        elif len(parts) != 1:
            raise ValueError(text)
        base = parse_operand(re.sub(r"\+\s*-", "-", parts[0]))
        if isinstance(base, Immediate):
            return Address(None, base.value, coordinates)
        if isinstance(base, Name) and not base.negated:
            return Address(base.name, base.offset, coordinates)
        raise ValueError(text)
    if "|" in text:
        left, right = text.split("|", 1)
        return Pair(parse_operand(left.strip()), parse_operand(right.strip()))
    if first == "(" and text[-1] == ")":
        inner = text[1:-1].strip()
        return Vector(tuple(parse_operand(part) for part in split_operands(inner)) if inner else ())
    if match := _NAME.match(text):
        offset = parse_number(match.group(4)).value if match.group(4) else 0
        return Name(match.group(2), -offset if match.group(3) == "-" else offset, bool(match.group(1)))
    return parse_number(text)


_SPACE = re.compile(r"\s*")
_LABEL = re.compile(rf"({IDENTIFIER})\s*:(?!:)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)[^\n]*")
_LINE_DIRECTIVE = re.compile(r"\.(?:file|loc)\b[^\n]*")
_GUARDED = re.compile(rf"(?:@(!?)\s*({IDENTIFIER})\s+)?([A-Za-z][A-Za-z0-9_.:]*)\s*(.*)$", re.S)
_DECLARE = re.compile(
    rf"\.(reg|local|shared|param)\s+(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+(.*)$",
    re.S,
)
_DECLARED = re.compile(rf"({IDENTIFIER})\s*(?:<(\d+)>|\[(\d+)\])?$")


def parse_body(module: PtxModule, entry: Entry) -> list[Statement]:
    """The statements of an entry, in order; raises `PtxError` with line and token."""
    text, at, end = module.text, entry.body_start, entry.body_end
    out: list[Statement] = []
    line, counted = module.line_of(at), at
    source = ""
    names: dict[int, str] = {number: path.rsplit("/", 1)[-1] for number, path in module.files.items()}
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at >= end:
            return out
        line += text.count("\n", counted, at)
        counted = at
        char = text[at]
        if char in "{}":
            out.append(Scope(line, char == "{"))
            at += 1
            continue
        if char == ";":
            at += 1
            continue
        if label := _LABEL.match(text, at):
            out.append(Label(line, label.group(1)))
            at = label.end()
            continue
        if directive := _LINE_DIRECTIVE.match(text, at):
            if loc := _LOC.match(text, at):
                source = f"{names.get(int(loc.group(1)), loc.group(1))}:{loc.group(2)}"
            at = directive.end()
            continue
        stop = text.find(";", at, end)
        if stop < 0:
            raise _fail(module, at, "a statement has no ';'", "';'")
        statement = text[at:stop]
        if char == ".":
            if not statement.startswith(".pragma"):
                out.extend(_declaration(module, at, line, statement))
        else:
            out.append(_instruction(module, at, line, source, statement))
        at = stop + 1


def _declaration(module: PtxModule, at: int, line: int, statement: str) -> list[Declaration]:
    match = _DECLARE.match(statement.strip())
    if not match or (match.group(3) != "pred" and match.group(3) not in _TYPE_BYTES):
        raise _fail(module, at, "a declaration cannot be read", ".reg, .local, .shared or .param with a type")
    size = _TYPE_BYTES.get(match.group(3), 4)
    out = []
    for part in split_operands(match.group(4)):
        found = _DECLARED.match(part)
        if not found:
            raise _fail(module, at, f"the declared name {part!r} cannot be read")
        out.append(
            Declaration(
                line, match.group(1), match.group(3), found.group(1), int(found.group(2)) if found.group(2) else None,
                int(match.group(2) or size), size * int(found.group(3) or 1),
            )  # fmt: skip
        )
    return out


def _instruction(module: PtxModule, at: int, line: int, source: str, statement: str) -> Instruction:
    match = _GUARDED.match(statement.strip())
    if not match:
        raise _fail(module, at, "this is not an instruction", "[@p] opcode operands;")
    # Modifiers may be separated from the opcode by nothing only; `mov.b64 {a,b}` and `ld.x1.b32{%r}` both occur.
    opcode, rest = match.group(3), match.group(4)
    try:
        operands = tuple(parse_operand(part) for part in split_operands(rest))
    except (ValueError, IndexError):
        raise PtxError(
            f"an operand of {opcode} cannot be read",
            where=f"line {line}",
            found=repr(rest.strip()[:80]),
            expected="registers, numbers, {vectors} or [addresses]",
            do="is the file complete PTX, as nvcc -ptx writes it?",
        ) from None
    return Instruction(line, source, match.group(2) or "", bool(match.group(1)), opcode, operands)
