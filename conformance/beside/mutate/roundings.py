"""A directed rounding followed by another rounding: how far it may move the stored value.

Of an f32 value v whose result goes into a conversion to bf16 or f16 only, of unit roundoff u (2^-8, 2^-11): a
directed rounding moves it by less than 2^-23 |v|, so the copy changes only where a tie t lies within that of
v, and then to the neighbour on the other side, u 2^e from the tie for 2^e <= |t| < 2^(e+1). A tie is at least
2^e (1 + u), so that this is at most u |t| - u^2 |t| / (1 + u): the bound of a copy, which is u times the
value and its f32 errors (`spec.arithmetic.terms.RoundedTerm`), has nearly 2^-16 and 2^-22 of the value to
spare there, more than the 2^-23 and half of that for the rounding in the original. Where the copy is
subnormal the bound has half its least value on top, and u |v| is to spare. A value that the form holds
exactly stays.
"""

from __future__ import annotations

import re

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn

_SINGLE = re.compile(r"(fma|mul|add|sub)(\.rn)?\.f32$")
_NARROWS = re.compile(r"cvt\.rn(\.satfinite)?\.(bf16x2|f16x2|bf16|f16)\.f32$")
_DIRECTED = re.compile(r"^\.(rn is \.r[zp]:|rz instead of \.rn:)")
_DEPTH = 4  # moves


def narrowed(code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why another rounding of an f32 operation keeps the bound of what is stored; "" when it is not known."""
    if drawn.operator != "rounding" or not _DIRECTED.match(drawn.what) or not _SINGLE.match(at.opcode):
        return ""
    if at.guard or not _only_narrowed(code, at.operands[0], _DEPTH):
        return ""
    return (
        "its f32 result is only rounded to 16 bits: a directed rounding, 2^-23 of the value, changes that "
        "only at a tie, where the contract's bound has a margin of 2^-22 or more"
    )


def _only_narrowed(code: PtxCode, register: str, depth: int) -> bool:
    if depth == 0 or len(code.definitions.get(register, ())) != 1:
        return False
    if any(number not in code.at for number in code.mentions(register)):
        return False
    users = [line for line in code.code if register in line.uses]
    return bool(users) and all(
        _NARROWS.match(user.opcode)
        or (user.opcode in ("mov.f32", "mov.b32") and not user.guard and _moved(code, user, register, depth))
        for user in users
    )


def _moved(code: PtxCode, at: CodeLine, register: str, depth: int) -> bool:
    return at.operands[1:] == (register,) and _only_narrowed(code, at.operands[0], depth - 1)
