"""Operators that change what is computed: numbers, operands, addresses, descriptors, predicates, rounding."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator

from tileproof.conformance.beside.mutate.code import REGISTER, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.operators import EFFECT, Variation, instead, operator, short, through

NEAR = 14  # instructions back in which another operand is looked for
_INTEGER = re.compile(r"(?<![%\w.$:])-?(?:0x[0-9A-Fa-f]+|\d+)(?![\w.])")
_FLOAT = re.compile(r"0f([0-9A-Fa-f]{8})")


def _with(at: CodeLine, place: int, text: str) -> tuple[str, ...]:
    return tuple(text if n == place else operand for n, operand in enumerate(at.operands))


@operator("immediate")
def immediate(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """Another number in the code."""
    for place, operand in enumerate(at.operands):
        for match in _INTEGER.finditer(operand):
            value = int(match[0], 0)
            others = [value + 1, value - 1, 2 * value, value // 2, 0, value ^ 16]
            for other in dict.fromkeys(other for other in others if other != value):
                text = f"{operand[: match.start()]}{other}{operand[match.end() :]}"
                yield instead(at, f"{value} is {other}: {short(at)}", operands=_with(at, place, text))
        for match in _FLOAT.finditer(operand):
            (value_f,) = struct.unpack(">f", bytes.fromhex(match[1]))
            for other_f in dict.fromkeys((2 * value_f, -value_f, 0.0, 1.0)):
                bits = struct.pack(">f", other_f).hex().upper()
                if bits != match[1].upper():
                    text = f"{operand[: match.start()]}0f{bits}{operand[match.end() :]}"
                    yield instead(
                        at, f"{value_f:g} is {other_f:g}: {short(at)}", operands=_with(at, place, text)
                    )


@operator("address")
def address(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """An access, a barrier operation or a copy at a neighbouring place."""
    for place, operand in enumerate(at.operands):
        match = re.fullmatch(r"\[(%\w+)\]", operand)
        if match and (EFFECT.match(at.opcode) or at.opcode.startswith(("ld.", "mbarrier"))):
            for off in (8, 16, 128, 1024):
                text = f"[{match[1]}+{off}]"
                yield instead(at, f"{off} past the address: {short(at)}", operands=_with(at, place, text))


@operator("coordinate")
def coordinate(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A tensor copy from or to other coordinates."""
    if not at.opcode.startswith(("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")):
        return
    for place, operand in enumerate(at.operands):
        match = re.fullmatch(r"\[(%\w+), \{([^}]*)\}\]", operand)
        if match is None:
            continue
        coordinates = [index.strip() for index in match[2].split(",")]
        for n, index in enumerate(coordinates):
            for off in (1, -1, 64):
                listed = ", ".join("{new}" if m == n else c for m, c in enumerate(coordinates))
                text = f"[{match[1]}, {{{listed}}}]"
                make = f"add.s32 {{new}}, {index}, {off}"
                yield through(at, place, text, "b32", make, f"coordinate {n} plus {off}: {short(at)}")


# Fields of matrix and instruction descriptors: the bit that is turned (PTX ISA 9.7.16.4.1 and 9.7.16.4.2).
_MATRIX = {
    "start address": 1,
    "start address, 1024 bytes": 6,
    "leading dimension": 17,
    "stride": 38,
    "swizzle": 62,
}
_INSTRUCTION = {
    "D type": 4,
    "A type": 7,
    "B type": 10,
    "negate A": 13,
    "A major": 15,
    "B major": 16,
    "N": 18,
    "M": 24,
}


@operator("descriptor")
def descriptor(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """One field of a matrix or instruction descriptor differs."""
    if not at.opcode.startswith("tcgen05.mma"):
        return
    for place, operand in enumerate(at.operands[1:4], 1):
        wide = operand.startswith("%rd")
        if not REGISTER.fullmatch(operand) or (not wide and place != 3):
            continue
        for name, bit in (_MATRIX if wide else _INSTRUCTION).items():
            size = "b64" if wide else "b32"
            make = f"xor.{size} {{new}}, {operand}, {1 << bit}"
            which = {1: "A", 2: "B"}.get(place, "instruction") if wide else "instruction"
            yield through(at, place, "{new}", size, make, f"{which} descriptor, {name}: {short(at)}")


@operator("operand")
def operand(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """Another register of the same class, or two operands exchanged."""
    first = 1 if at.defines else 0
    sources = list(range(first, len(at.operands)))
    if at.opcode.startswith(("bra", "call", "ret")):
        return
    for a, b in itertools.pairwise(sources):
        x, y = at.operands[a], at.operands[b]
        alike = x[:1] == y[:1] == "%" and _class(x) == _class(y) != ""
        if alike and x != y and not _commutes(at.opcode, a - first):
            swapped = tuple(
                y if n == a else x if n == b else operand for n, operand in enumerate(at.operands)
            )
            yield instead(at, f"operands exchanged: {short(at)}", operands=swapped)
    n = code.at[at.number]
    for place in sources:
        for match in re.finditer(r"%[a-z]+\d+", at.operands[place]):
            other = _near(code, n, match[0])
            if other:
                text = f"{at.operands[place][: match.start()]}{other}{at.operands[place][match.end() :]}"
                yield instead(
                    at, f"{other} instead of {match[0]}: {short(at)}", operands=_with(at, place, text)
                )


def _class(register: str) -> str:
    match = re.fullmatch(r"%([a-z]+)\d+", register)
    return match[1] if match else ""


def _near(code: PtxCode, n: int, register: str) -> str:
    for line in reversed(code.code[max(0, n - NEAR) : n]):
        for made in sorted(line.defines):
            if made != register and _class(made) == _class(register):
                return made
    return ""


def _commutes(opcode: str, source: int) -> bool:
    """Whether that source and the next may stand in either order: the factors of a sum of products may."""
    factors = source == 0 and bool(re.match(r"(fma|mad)\b", opcode))
    return factors or bool(re.match(r"(add|mul|and|or|xor|min|max|setp\.(eq|ne))\b", opcode))


_COMPARISONS = {
    "lt": ("le", "ge"),
    "le": ("lt", "gt"),
    "gt": ("ge", "le"),
    "ge": ("gt", "lt"),
    "eq": ("ne",),
    "ne": ("eq",),
}


@operator("predicate")
def predicate(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A guard negated or dropped, another comparison, a predicate of the tensor core negated."""
    if at.guard:
        negated = at.guard.replace("@!", "@") if "!" in at.guard else at.guard.replace("@", "@!")
        yield instead(at, f"{negated} instead of {at.guard}: {short(at)}", guard=negated)
        if at.opcode.startswith("bra"):
            yield Variation(f"never taken: {at.guard} {short(at)}", {at.number: ""})
        else:
            yield instead(at, f"without {at.guard}: {short(at)}", guard="")
    if at.opcode.startswith("setp."):
        _, comparison, *rest = at.opcode.split(".")
        for other in _COMPARISONS.get(comparison, ()):
            changed = ".".join(("setp", other, *rest))
            yield instead(at, f"{other} instead of {comparison}: {short(at)}", opcode=changed)
    if at.opcode.startswith("tcgen05.mma") and len(at.operands) > 4 and REGISTER.fullmatch(at.operands[4]):
        make = f"not.pred {{new}}, {at.operands[4]}"
        yield through(at, 4, "{new}", "pred", make, f"inverted: clears or adds, {short(at)}")


_ROUNDED = ((".rn", ".rz"), (".rn", ".rp"), (".ftz", ""))


@operator("rounding")
def rounding(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """Another rounding, or subnormals kept that were flushed."""
    if not re.match(r"(cvt|fma|mul|add|sub|div|sqrt|ex2|lg2|rcp|rsqrt)\.", at.opcode):
        return
    for was, becomes in _ROUNDED:
        if was in at.opcode:
            yield instead(
                at, f"{was} is {becomes or 'gone'}: {short(at)}", opcode=at.opcode.replace(was, becomes)
            )
    if re.fullmatch(r"(add|sub|mul)\.f32", at.opcode):
        changed = at.opcode.replace(".f32", ".rz.f32")
        yield instead(at, f".rz instead of .rn: {short(at)}", opcode=changed)


_OPCODES = {
    "add": ("sub",), "sub": ("add",), "min": ("max",), "max": ("min",), "and": ("or",), "or": ("and", "xor"),
    "xor": ("or",), "shl": ("shr",), "shr": ("shl",), "red": (), "not": ("mov",), "neg": ("mov",),
}  # fmt: skip


@operator("opcode")
def opcode(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """Another operation on the same operands."""
    name, _, rest = at.opcode.partition(".")
    for other in _OPCODES.get(name, ()):
        kind = rest
        if other in ("add", "sub", "shl", "shr", "mov", "or", "and", "xor"):
            kind = {"shl": rest.replace("u", "b").replace("s", "b"), "shr": rest.replace("b", "u")}.get(
                other, rest
            )
        yield instead(at, f"{other} instead of {name}: {short(at)}", opcode=f"{other}.{kind}")
