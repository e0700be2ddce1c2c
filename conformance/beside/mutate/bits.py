"""The bits of a register that may be set, by the instructions.

If two operands share no bit, `or`, `xor` and `add` are equal: such a change is not a mutant.
"""

from __future__ import annotations

import re

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

EVERY = (1 << 64) - 1
_DEPTH = 12  # instructions back along a chain of definitions
_IMMEDIATE = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_SPECIAL = {"%tid.x": 0x3FF, "%tid.y": 0x3FF, "%tid.z": 0x3F, "%laneid": 0x1F}  # PTX ISA 10.1, 10.3
_WIDTH = re.compile(r"\.[busf](8|16|32|64)$")
_ONE_CTA = re.compile(r"^\.reqnctapercluster\s+1(?:\s*,\s*1){0,2}\s*$", re.MULTILINE)
# Of integers, without a carry out or in, and without saturation.
_INTEGER = re.compile(r"(mov\.[busf]|(and|or|xor|shl|shr|add|sub|(mul|mad)\.lo)\.[bus])(8|16|32|64)$")
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)")
WORD = (1 << 32) - 1
_SIGN = 1 << 31


def may_be_set(code: PtxCode, operand: str, depth: int = _DEPTH) -> int:
    """A mask of the bits that an operand of an integer instruction may have set; EVERY: nothing is known."""
    if _IMMEDIATE.fullmatch(operand):
        return int(operand, 0) & EVERY
    if operand in _SPECIAL:
        return _SPECIAL[operand]
    if operand == "%cluster_ctarank" and _one_cta(code):
        return 0
    made = code.definitions.get(operand, ())
    if not made and (operand[:1].isalpha() or operand[:1] in "_$"):
        aligned = [int(align) for align, symbol in _SHARED.findall(code.text) if symbol == operand]
        return EVERY & -min(aligned, default=1)
    if len(made) != 1 or made[0].guard or depth == 0:
        return EVERY
    if len(made[0].defines) != 1:
        return _unpacked(code, made[0], operand, depth - 1)
    return _result(code, made[0], depth - 1)


def _one_cta(code: PtxCode) -> bool:
    """Whether the entry declares clusters of one CTA, so that a launch has no other (PTX ISA 11.7)."""
    body = code.body()
    head = "\n".join(code.lines[: body.start])
    return bool(_ONE_CTA.search(head[head.rfind(".entry") :]))


def _unpacked(code: PtxCode, at: CodeLine, register: str, depth: int) -> int:
    """What may be set in the half of a 64-bit register that `mov.b64` unpacks into `register`."""
    low, high = _halves(at.operands[0])
    if at.opcode != "mov.b64" or len(at.operands) != 2 or low == high or register not in (low, high):
        return EVERY
    whole = may_be_set(code, at.operands[1], depth)
    return whole & WORD if register == low else whole >> 32 & WORD


def _halves(operand: str) -> tuple[str, str]:
    """The two registers that `mov.b64` packs; the operand and "" when it packs none."""
    match = re.fullmatch(r"\{\s*([\w%]+)\s*,\s*([\w%]+)\s*\}", operand)
    return (match[1], match[2]) if match else (operand, "")


def zeros(mask: int) -> int:
    """How many of the lowest bits are never set."""
    return (mask & -mask).bit_length() - 1 if mask else 64


def _result(code: PtxCode, at: CodeLine, depth: int) -> int:
    name = at.opcode.split(".")[0]
    width = _WIDTH.search(at.opcode)
    if at.opcode == "cvt.u64.u32" and len(at.operands) == 2:
        return may_be_set(code, at.operands[1], depth) & WORD
    if at.opcode == "cvt.s64.s32" and len(at.operands) == 2:
        low = may_be_set(code, at.operands[1], depth) & WORD
        return low | (EVERY & ~WORD if low & _SIGN else 0)
    if width is None or not _INTEGER.match(at.opcode):
        return EVERY
    whole = (1 << int(width[1])) - 1
    if len(at.operands) != {"mov": 2, "mad": 4}.get(name, 3):
        return EVERY
    if name == "mov" and _halves(at.operands[1])[1]:
        if at.opcode != "mov.b64":
            return EVERY
        low, high = (may_be_set(code, half, depth) & WORD for half in _halves(at.operands[1]))
        return low | high << 32
    a, *more = (may_be_set(code, operand, depth) for operand in at.operands[1:])
    if name == "mov":
        return a & whole
    b = more[0]
    if name == "and":
        return a & b & whole
    if name in ("or", "xor") or (name == "add" and not a & b & whole):
        return (a | b) & whole
    if name in ("add", "sub"):  # no carry comes from zeros
        return EVERY << min(zeros(a), zeros(b)) & whole
    if name in ("mul", "mad"):
        low = zeros(a) + zeros(b)
        return EVERY << min(low, 64, *(zeros(factor) for factor in more[1:])) & whole
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
