"""The meaning of integer instructions as terms of bit-vectors; of every other computation, a function that is
not interpreted.

Terms are those of z3. The engine's handlers of the same instructions are compared with them by
tests/conformance/beside/equal/test_meaning.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import z3

Term: TypeAlias = z3.ExprRef
Builder = Callable[[Sequence[str], str, int, Sequence[Term]], list[Term]]
_KIND = re.compile(r"([busf])(16|32|64)$")
_COMPARE = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]


def fit(term: Term, width: int, signed: bool = False) -> Term:
    """The low bits of a term, or the term extended."""
    has = term.size()
    if has == width:
        return term
    if has > width:
        return z3.Extract(width - 1, 0, term)
    return z3.SignExt(width - has, term) if signed else z3.ZeroExt(width - has, term)


def number(value: int, width: int) -> Term:
    """A literal."""
    return z3.BitVecVal(value, width)


def _bits(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b = given
    if parts[0] == "and":
        return [a & b]
    return [a | b] if parts[0] == "or" else [a ^ b]


def _sum(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b = given
    return [a + b if parts[0] == "add" else a - b]


def _product(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b, *more = given
    if parts[1] == "lo":
        product = a * b
    else:
        a, b = (fit(item, 2 * width, kind == "s") for item in (a, b))
        product = a * b if parts[1] == "wide" else z3.Extract(2 * width - 1, width, a * b)
    return [product + more[0] if more else product]


def _shift(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    value, amount = given
    wide = max(width, 32)
    value, amount = fit(value, wide, kind == "s"), fit(amount, wide)
    if parts[0] == "shl":
        moved = value << amount
    else:
        moved = value >> amount if kind == "s" else z3.LShR(value, amount)
    return [fit(moved, width)]


def _funnel(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b, c = given
    by = c & 31 if parts[2] == "wrap" else z3.If(z3.ULT(c, 32), c, number(32, 32))
    both, by = z3.Concat(b, a), z3.ZeroExt(32, by)
    return [z3.Extract(63, 32, both << by) if parts[1] == "l" else z3.Extract(31, 0, z3.LShR(both, by))]


def _ones(length: Term) -> Term:
    """A mask of so many low bits; of every bit from the width on."""
    return (number(1, length.size()) << length) - 1


def _extract(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, (at, length) = given[0], (fit(item & 0xFF, width) for item in given[1:])
    if kind == "u":
        return [z3.LShR(a, at) & _ones(length)]
    top = number(width - 1, width)
    last = z3.If(z3.ULT(at + length - 1, top), at + length - 1, top)
    return [z3.If(length == 0, number(0, width), (a << (top - last)) >> (top - last + at))]


def _insert(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b, (at, length) = given[0], given[1], (fit(item & 0xFF, width) for item in given[2:])
    mask = _ones(length) << at
    return [(b & ~mask) | ((a << at) & mask)]


def _permute(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b, c = given
    found = []
    for n in range(4):
        pick = z3.Extract(4 * n + 3, 4 * n, c)
        byte = z3.Extract(7, 0, z3.LShR(z3.Concat(b, a), fit(pick & 7, 64) << 3))
        found.append(z3.If(z3.Extract(3, 3, pick) == 1, byte >> 7, byte))
    return [z3.Concat(*reversed(found))]


def _choose(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    return [z3.If(given[2], given[0], given[1])]


def _extreme(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    a, b = given
    less = a < b if kind == "s" else z3.ULT(a, b)
    return [z3.If(less, a, b) if parts[0] == "min" else z3.If(less, b, a)]


def _compare(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    (a, b), signed = given[:2], kind == "s"
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(parts[1], parts[1])
    signed = signed and name == parts[1]
    holds = {
        "eq": lambda: a == b,
        "ne": lambda: a != b,
        "lt": lambda: a < b if signed else z3.ULT(a, b),
        "le": lambda: a <= b if signed else z3.ULE(a, b),
        "gt": lambda: a > b if signed else z3.UGT(a, b),
        "ge": lambda: a >= b if signed else z3.UGE(a, b),
    }[name]()
    both = [holds, z3.Not(holds)]
    if len(given) == 2:
        return both
    join = {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[parts[2]]
    return [join(item, given[2]) for item in both]


def _reversed(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    return [z3.Concat(*(z3.Extract(n, n, given[0]) for n in range(width)))]


def _population(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    return [sum(z3.ZeroExt(31, z3.Extract(n, n, given[0])) for n in range(width))]


def _leading(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    found = number(width, 32)
    for n in range(width):
        found = z3.If(z3.Extract(n, n, given[0]) == 1, number(width - 1 - n, 32), found)
    return [found]


def _absolute(parts: Sequence[str], kind: str, width: int, given: Sequence[Term]) -> list[Term]:
    return [z3.If(given[0] < 0, -given[0], given[0])]


# By the opcode: the widths of results and sources (w: the type's, 2: twice, 4: 32 bits, p: a predicate).
_FORMS: tuple[tuple[str, str, str, Builder], ...] = (
    (r"(and|or|xor)\.b(16|32|64)", "w", "ww", _bits),
    (r"not\.b(16|32|64)", "w", "w", lambda parts, kind, width, given: [~given[0]]),
    (r"(add|sub)\.[us](16|32|64)", "w", "ww", _sum),
    (r"mul\.(lo|hi)\.[us](16|32|64)", "w", "ww", _product),
    (r"mul\.wide\.[us](16|32)", "2", "ww", _product),
    (r"mad\.(lo|hi)\.[us](16|32|64)", "w", "www", _product),
    (r"mad\.wide\.[us](16|32)", "2", "ww2", _product),
    (r"shl\.b(16|32|64)", "w", "w4", _shift),
    (r"shr\.[bus](16|32|64)", "w", "w4", _shift),
    (r"shf\.[lr]\.(wrap|clamp)\.b32", "w", "www", _funnel),
    (r"bfe\.[us](32|64)", "w", "w44", _extract),
    (r"bfi\.b(32|64)", "w", "ww44", _insert),
    (r"prmt\.b32", "w", "www", _permute),
    (r"selp\.[busf](16|32|64)", "w", "wwp", _choose),
    (r"(min|max)\.[us](16|32|64)", "w", "ww", _extreme),
    (rf"setp\.({'|'.join(_COMPARE)})\.[bus](16|32|64)", "pp", "ww", _compare),
    (rf"setp\.({'|'.join(_COMPARE)})\.(and|or|xor)\.[bus](16|32|64)", "pp", "wwp", _compare),
    (r"brev\.b(32|64)", "w", "w", _reversed),
    (r"popc\.b(32|64)", "4", "w", _population),
    (r"clz\.b(32|64)", "4", "w", _leading),
    (r"neg\.s(16|32|64)", "w", "w", lambda parts, kind, width, given: [-given[0]]),
    (r"abs\.s(16|32|64)", "w", "w", _absolute),
    (r"mov\.[busf](16|32|64)", "w", "w", lambda parts, kind, width, given: list(given)),
    (r"mov\.pred", "p", "p", lambda parts, kind, width, given: list(given)),
    (r"not\.pred", "p", "p", lambda parts, kind, width, given: [z3.Not(given[0])]),
    (r"and\.pred", "p", "pp", lambda parts, kind, width, given: [z3.And(*given)]),
    (r"or\.pred", "p", "pp", lambda parts, kind, width, given: [z3.Or(*given)]),
    (r"xor\.pred", "p", "pp", lambda parts, kind, width, given: [z3.Xor(*given)]),
)
_COMPILED = [(re.compile(f"{form[0]}$"), *form[1:]) for form in _FORMS]


Meaning = Callable[[Sequence[Term]], list[Term]]


def form(opcode: str) -> tuple[tuple[int, ...], tuple[int, ...], Meaning] | None:
    """Widths of the results and of the sources (0: a predicate) of an interpreted opcode, and its meaning."""
    for pattern, made, asked, builder in _COMPILED:
        if pattern.match(opcode):
            parts = opcode.split(".")
            typed = _KIND.match(parts[-1])
            kind, width = (typed[1], int(typed[2])) if typed else ("p", 0)
            sizes = {"w": width, "2": 2 * width, "4": 32, "p": 0}
            meaning = partial(builder, parts, kind, width)
            return tuple(sizes[item] for item in made), tuple(sizes[item] for item in asked), meaning
    table = re.fullmatch(r"lop3\.b32:(\d+)", opcode)
    return ((32,), (32, 32, 32), partial(_table, int(table[1]))) if table else None


def _table(table: int, given: Sequence[Term]) -> list[Term]:
    """The function of three bits with that table of its values."""
    found = number(0, 32)
    for n in range(8):
        if table >> n & 1:
            a, b, c = (item if n >> 2 - place & 1 else ~item for place, item in enumerate(given))
            found = found | (a & b & c)
    return [found]


CONVERT = re.compile(r"cvt\.([us])(8|16|32|64)\.([us])(8|16|32|64)$")


def converted(opcode: str, source: Term, into: int) -> Term | None:
    """The result of a conversion between integers in a register of `into` bits; None where it is none."""
    match = CONVERT.match(opcode)
    if match is None or source.size() < int(match[4]) or into < int(match[2]):
        return None
    value = fit(fit(source, int(match[4])), int(match[2]), match[3] == "s")
    return fit(value, into, match[1] == "s")
