"""Comparisons for equality in a PTX entry: equivalent comparisons, and numbers that are only compared with
0.
"""

from __future__ import annotations

import re

from tileproof.conformance.beside.mutate.bits import WORD, may_be_set, must_be_set
from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_ASKS = re.compile(r"setp\.(?:eq|ne)\.[bsu]32")
_SUM = re.compile(r"add\.[su]32")
_CHOOSES = re.compile(r"selp\.b32|mov\.[bsu]32")


def asked(code: PtxCode, at: CodeLine, other: CodeLine) -> str:
    """Why another number of a `mov` or `selp` is the same to all who read it; "" when it may not be."""
    if not _CHOOSES.fullmatch(at.opcode) or other.opcode != at.opcode:
        return ""
    result = at.operands[0]
    changed = [(a, b) for a, b in zip(at.operands[1:], other.operands[1:], strict=True) if a != b]
    if len(changed) != 1 or not all(_NUMBER.fullmatch(number) for number in changed[0]):
        return ""
    was, now = (int(number, 0) & WORD for number in changed[0])
    if bool(was) != bool(now):
        return ""
    for number in code.mentions(result):
        user = code.code[code.at[number]] if number in code.at else None
        if user is None:
            return ""
        if result in user.uses and not (_ASKS.fullmatch(user.opcode) and user.operands[1:] == (result, "0")):
            return ""
    return f"{result} is only compared with 0, and is 0 in the same cases"


def decided(code: PtxCode, at: CodeLine, other: CodeLine) -> str:
    """Why a comparison with another number or register has the same result; "" if unproved."""
    if not _ASKS.fullmatch(at.opcode) or other.opcode != at.opcode or len(at.operands) != 3:
        return ""
    if any(not _made(code, at, operand) for operand in other.operands[1:] if operand not in at.operands[1:]):
        return ""
    was, now = (_equal(code, line) for line in (at, other))
    return "" if was is None or was != now else f"they are {'equal' if now else 'never equal'} in both"


def _made(code: PtxCode, at: CodeLine, operand: str) -> bool:
    """Whether a number, or a register that was made before in the same basic block, unguarded and nowhere
    else.
    """
    made = code.definitions.get(operand, ())
    before = len(made) == 1 and not made[0].guard and made[0].block == at.block
    return bool(_NUMBER.fullmatch(operand)) or (before and made[0].number < at.number)


def _equal(code: PtxCode, at: CodeLine) -> bool | None:
    """Whether the two words that are compared are certainly equal, or certainly not."""
    (may_a, must_a), (may_b, must_b) = (
        (may_be_set(code, operand) & WORD, must_be_set(code, operand) & WORD) for operand in at.operands[1:]
    )
    if must_a & ~may_b or must_b & ~may_a:
        return False
    a, b = at.operands[1:]
    if (not may_b and _positive_sum(code, a)) or (not may_a and _positive_sum(code, b)):
        return False
    return True if may_a == must_a == may_b == must_b else None


def _positive_sum(code: PtxCode, register: str) -> bool:
    """Whether it is a sum of words that is certainly above 0 and carries nothing out of the word."""
    made = code.definitions.get(register, ())
    if len(made) != 1 or made[0].guard or not _SUM.fullmatch(made[0].opcode) or len(made[0].operands) != 3:
        return False
    parts = made[0].operands[1:]
    least = sum(must_be_set(code, part) & WORD for part in parts)
    return least > 0 and sum(may_be_set(code, part) & WORD for part in parts) <= WORD
