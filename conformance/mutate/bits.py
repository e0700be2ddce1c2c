"""Which bits of a register may be set, as far as the instructions that make it tell.

Where two operands share no bit, `or`, `xor` and `add` of them are the same: that is no mutant.
"""

from __future__ import annotations

import re

from tileproof.conformance.mutate.code import CodeLine, PtxCode

EVERY = (1 << 64) - 1
_DEPTH = 12  # instructions back along a chain of definitions
_IMMEDIATE = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_SPECIAL = {"%tid.x": 0x3FF, "%tid.y": 0x3FF, "%tid.z": 0x3F, "%laneid": 0x1F}  # PTX ISA 10.1, 10.3
_WIDTH = re.compile(r"\.[busf](8|16|32|64)$")


def may_be_set(code: PtxCode, operand: str, depth: int = _DEPTH) -> int:
    """A mask of the bits that an operand of an integer instruction may have set; EVERY: nothing is known."""
    if _IMMEDIATE.fullmatch(operand):
        return int(operand, 0) & EVERY
    if operand in _SPECIAL:
        return _SPECIAL[operand]
    made = code.definitions.get(operand, ())
    if len(made) != 1 or made[0].guard or depth == 0:
        return EVERY
    return _result(code, made[0], depth - 1)


def _result(code: PtxCode, at: CodeLine, depth: int) -> int:
    name = at.opcode.split(".")[0]
    width = _WIDTH.search(at.opcode)
    if at.opcode == "cvt.u64.u32" and len(at.operands) == 2:
        return may_be_set(code, at.operands[1], depth) & 0xFFFFFFFF
    if width is None or not at.opcode.startswith(("mov.", "and.", "or.", "xor.", "shl.", "shr.", "add.")):
        return EVERY
    whole = (1 << int(width[1])) - 1
    if len(at.operands) != (2 if name == "mov" else 3):
        return EVERY
    a, *more = (may_be_set(code, one, depth) for one in at.operands[1:])
    if name == "mov":
        return a & whole
    (b,) = more
    if name == "and":
        return a & b & whole
    if name in ("or", "xor") or (name == "add" and not a & b & whole):
        return (a | b) & whole
    by = at.operands[2]
    if not by.isdigit() or int(by) >= int(width[1]):
        return EVERY
    if name == "shl":
        return (a << int(by)) & whole
    if name == "shr" and ".s" not in at.opcode:
        return (a & whole) >> int(by)
    return EVERY


def apart(code: PtxCode, at: CodeLine) -> bool:
    """Whether no bit may be set in both sources of a two-operand instruction."""
    if len(at.operands) != 3:
        return False
    return not may_be_set(code, at.operands[1]) & may_be_set(code, at.operands[2])
