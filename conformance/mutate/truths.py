"""Numbers of a PTX entry of which only one thing is asked: whether they are 0."""

from __future__ import annotations

import re

from tileproof.conformance.mutate.code import CodeLine, PtxCode

_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_WORD = (1 << 32) - 1
_ASKS = re.compile(r"setp\.(?:eq|ne)\.[bsu]32")


def asked(code: PtxCode, at: CodeLine, other: CodeLine) -> str:
    """Why another number that a `selp.b32` chooses is the same to all who read it; "" when it may not be."""
    if at.opcode != "selp.b32" or other.opcode != at.opcode or len(at.operands) != 4:
        return ""
    result, *was, guard = at.operands
    *now, asks = other.operands[1:]
    if guard != asks or not all(_NUMBER.fullmatch(one) for one in (*was, *now)):
        return ""
    if [bool(int(one, 0) & _WORD) for one in was] != [bool(int(one, 0) & _WORD) for one in now]:
        return ""
    for number in code.mentions(result):
        user = code.code[code.at[number]] if number in code.at else None
        if user is None:
            return ""
        if result in user.uses and not (_ASKS.fullmatch(user.opcode) and user.operands[1:] == (result, "0")):
            return ""
    return f"{result} is compared with 0 only, and is 0 where it was"
