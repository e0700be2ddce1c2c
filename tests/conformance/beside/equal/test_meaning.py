"""The meaning of every interpreted instruction is the engine's, on edges and random operands."""

from __future__ import annotations

import re

import numpy as np
import pytest
import z3
from tileproof.conformance.beside.equal.entry import entry_of, results
from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.equal.meaning import Term, number
from tileproof.conformance.beside.equal.side import Side, Thread
from tileproof.emulator.ptx import Name

from tests.kit.ptx import HEADER, elementwise
from tests.kit.values import crossed, integer_edges

EDGES = 64
COUNT = EDGES + 128  # edges, then random bits
INTEGERS = [f"{kind}{width}" for width in (16, 32, 64) for kind in "us"]
COMPARED = {"s": "eq ne lt le gt ge", "u": "eq ne lt le gt ge lo ls hi hs", "b": "eq ne"}


FormRow = tuple[str, tuple[int, ...], int]  # the code, the widths of x0, x1, ... and of its result d


def typed() -> list[FormRow]:
    """Instructions of signed and unsigned numbers."""
    made: list[FormRow] = []
    for type_ in INTEGERS:
        kind, width = type_[0], int(type_[1:])
        second = (width, width)
        for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            made.append((f"{name}.{type_} d, x0, x1;", second, width))
        for half in ("lo", "hi"):
            made.append((f"mad.{half}.{type_} d, x0, x1, x2;", (*second, width), width))
        if width < 64:
            made.append((f"mul.wide.{type_} d, x0, x1;", second, 2 * width))
            made.append((f"mad.wide.{type_} d, x0, x1, x2;", (*second, 2 * width), 2 * width))
        made.append((f"shr.{type_} d, x0, x1;", (width, 32), width))
        if width > 16:
            made.append((f"bfe.{type_} d, x0, x1, x2;", (width, 32, 32), width))
        for compare in COMPARED[kind].split():
            made.append((f".reg .pred p; setp.{compare}.{type_} p, x0, x1; selp.b32 d, 1, 0, p;", second, 32))
        joined = "setp.lt.{0}.{1} p|q, x0, x1, {2}r;"
        for join, negated in (("and", ""), ("or", "!"), ("xor", "")):
            text = f".reg .pred p, q, r; setp.eq.u32 r, x2, 0; {joined.format(join, type_, negated)}"
            made.append((f"{text} selp.b32 d, 3, 1, p; @q add.u32 d, d, 8;", (*second, 32), 32))
        for other in (*INTEGERS, "u8", "s8"):
            for first, into in ((type_, other), (other, type_)):
                has, gets = max(16, int(first[1:])), max(16, int(into[1:]))
                made.append((f"cvt.{into}.{first} d, x0;", (has,), gets))
        made.append((f"cvt.{type_}.u8 d, x0;", (32,), width))  # of a wider register
        if width == 16:
            made.append((f"cvt.{type_}.s64 d, x0;", (64,), 32))  # into a wider register
    return made


def of_bits() -> list[FormRow]:
    """Instructions of bits, predicates and moves."""
    made: list[FormRow] = []
    for width in (16, 32, 64):
        for name in ("and", "or", "xor"):
            made.append((f"{name}.b{width} d, x0, x1;", (width, width), width))
        made.append((f"not.b{width} d, x0;", (width,), width))
        made.append((f"shl.b{width} d, x0, x1;", (width, 32), width))
        made.append((f"neg.s{width} d, x0;", (width,), width))
        made.append((f"abs.s{width} d, x0;", (width,), width))
        made.append(
            (f".reg .pred p; setp.ne.b{width} p, x0, x1; selp.b{width} d, x0, x1, p;", (width,) * 2, width)
        )
    for width in (32, 64):
        made.append((f"bfi.b{width} d, x0, x1, x2, x3;", (width, width, 32, 32), width))
        made.append((f"brev.b{width} d, x0;", (width,), width))
        made.append((f"popc.b{width} d, x0;", (width,), 32))
        made.append((f"clz.b{width} d, x0;", (width,), 32))
    for side in "lr":
        for mode in ("wrap", "clamp"):
            made.append((f"shf.{side}.{mode}.b32 d, x0, x1, x2;", (32, 32, 32), 32))
    made.append(("prmt.b32 d, x0, x1, x2;", (32, 32, 32), 32))
    for table in (0x00, 0x1B, 0x96, 0xC8, 0xFE):
        made.append((f"lop3.b32 d, x0, x1, x2, {table};", (32, 32, 32), 32))
    predicates = ".reg .pred p, q; setp.eq.u32 p, x0, 0; setp.lt.s32 q, x1, 0;"
    for operation in (
        "and.pred p, p, q;",
        "or.pred p, p, q;",
        "xor.pred p, p, q;",
        "not.pred p, q;",
        "mov.pred p, q;",
    ):
        made.append((f"{predicates} {operation} selp.b32 d, 7, -9, p;", (32, 32), 32))
    made.append((f"{predicates} mov.b32 d, x0; @!p add.s32 d, d, 5; @q mov.u32 d, x1;", (32, 32), 32))
    made.append(("mov.b64 d, {x0, x1};", (32, 32), 64))
    made.append((".reg .b32 l, h; mov.b64 {l, h}, x0; sub.s32 d, h, l;", (64,), 32))
    made.append((".reg .b16 l; mov.b32 {l, _}, x0; mov.b32 d, {x1, l};", (32, 16), 32))
    made.append(("mov.b64 d, {x0, x1, x0, x1};", (16, 16), 64))
    return made


def translated(code: str, widths: tuple[int, ...], result: int) -> tuple[list[Term], Term]:
    """The operands as variables, and the term of the result."""
    given = " ".join(f".reg .b{width} x{n};" for n, width in enumerate(widths))
    text = f"{HEADER}\n.entry k()\n{{\n{given} .reg .b{result} d;\n{code}\n}}"
    entry = entry_of(text, "k")
    side = Side(entry, Thread(Extents(), {}), [frozenset({0})])
    operands = [z3.BitVec(f"x{n}", width) for n, width in enumerate(widths)]
    holds: dict[str, Term] = {f"x{n}": first for n, first in enumerate(operands)}
    for step in entry.blocks[0].steps:
        for first, term in zip(results(step), side.compute(step, holds.__getitem__), strict=True):
            if isinstance(first, Name):
                guard = holds.get(step.guard)
                if guard is not None:
                    chosen = z3.Not(guard) if step.guard_negated else guard
                    term = z3.If(chosen, term, holds[first.name])
                holds[first.name] = term
    return operands, holds["d"]


@pytest.mark.parametrize(
    ("code", "widths", "result"),
    [*typed(), *of_bits()],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_meaning_is_the_engines(code: str, widths: tuple[int, ...], result: int) -> None:
    given = [
        crossed(integer_edges(np.dtype(f"u{width // 8}")), 4, n + len(code), COUNT)[n]
        for n, width in enumerate(widths)
    ]
    if re.match(r"bf[ei]|sh", code):  # positions and amounts around the width
        given[-1] = np.where(np.arange(COUNT) % 2, given[-1] % np.uint32(70), given[-1]).astype(np.uint32)
    got = elementwise(code, given, np.dtype(f"u{result // 8}"))
    operands, term = translated(code, widths, result)
    for place in (*range(EDGES), *range(EDGES, COUNT, 8)):
        values = [
            (first, number(int(array[place]), first.size()))
            for first, array in zip(operands, given, strict=True)
        ]
        found = z3.simplify(z3.substitute(term, *values))
        assert z3.is_bv_value(found), f"{code} is not interpreted"
        assert found.as_long() == int(got[place]), f"{code} of {[int(array[place]) for array in given]}"
