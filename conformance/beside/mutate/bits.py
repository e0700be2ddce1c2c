"""The bits of a register that may or must be set, and those that are read, by the instructions.

If two operands share no bit, `or`, `xor` and `add` are equal: such a change is not a mutant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from tileproof.conformance.beside.mutate import descriptors
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
        return _unpacked(made[0], operand, lambda whole: may_be_set(code, whole, depth - 1), EVERY)
    return _result(code, made[0], depth - 1)


def _one_cta(code: PtxCode) -> bool:
    """Whether the entry declares clusters of one CTA, so that a launch has no other (PTX ISA 11.7)."""
    body = code.body()
    head = "\n".join(code.lines[: body.start])
    return bool(_ONE_CTA.search(head[head.rfind(".entry") :]))


def always_zero(code: PtxCode, at: CodeLine) -> bool:
    """Whether the result of an instruction of integers is 0 whatever it reads."""
    return len(at.defines) == 1 and not at.guard and not _result(code, at, _DEPTH)


def _unpacked(at: CodeLine, register: str, bits: Callable[[str], int], unknown: int) -> int:
    """What is known of the half of a 64-bit register that `mov.b64` unpacks into `register`."""
    low, high = _halves(at.operands[0])
    if at.opcode != "mov.b64" or len(at.operands) != 2 or low == high or register not in (low, high):
        return unknown
    return bits(at.operands[1]) & WORD if register == low else bits(at.operands[1]) >> 32 & WORD


def must_be_set(code: PtxCode, operand: str, depth: int = _DEPTH) -> int:
    """A mask of the bits that an operand certainly has set; 0: nothing is known."""
    if _IMMEDIATE.fullmatch(operand):
        return int(operand, 0) & EVERY
    made = code.definitions.get(operand, ())
    if len(made) != 1 or made[0].guard or depth == 0:
        return 0
    at, depth = made[0], depth - 1
    if len(at.defines) != 1:
        return _unpacked(at, operand, lambda whole: must_be_set(code, whole, depth), 0)
    name, width = at.opcode.split(".")[0], _WIDTH.search(at.opcode)
    if width is None or not _INTEGER.match(at.opcode) or name not in ("mov", "and", "or", "add"):
        return 0
    whole = (1 << int(width[1])) - 1
    if name == "mov" and len(at.operands) == 2:
        low, high = _halves(at.operands[1])
        if high and at.opcode != "mov.b64":
            return 0
        if high:
            return must_be_set(code, low, depth) & WORD | (must_be_set(code, high, depth) & WORD) << 32
        return must_be_set(code, low, depth) & whole
    if len(at.operands) != 3 or (name == "add" and not apart(code, at)):
        return 0
    a, b = (must_be_set(code, operand, depth) for operand in at.operands[1:])
    return (a & b if name == "and" else a | b) & whole


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


def differing(code: PtxCode, a: str, b: str, at: CodeLine) -> int:
    """The bits in which two registers may differ where `at` reads one of them: one is made of the other, in
    the basic block of `at`, so that it is made of the value that the other has there; else EVERY.
    """
    for left, other in ((a, b), (b, a)):
        made, before = (code.definitions.get(name, ()) for name in (left, other))
        if len(made) != 1 or len(before) != 1 or made[0].guard or before[0].guard:
            continue
        if not before[0].number < made[0].number < at.number:
            continue
        if made[0].block == before[0].block == at.block:
            return _beyond(code, made[0], other)
    return EVERY


def _beyond(code: PtxCode, at: CodeLine, register: str) -> int:
    """The bits in which the result of an instruction may differ from that register, which it reads."""
    name, width = at.opcode.split(".")[0], _WIDTH.search(at.opcode)
    if width is None or not _INTEGER.match(at.opcode) or register not in at.operands[1:]:
        return EVERY
    if len(at.operands) != (2 if name == "mov" else 3):
        return EVERY
    whole = (1 << int(width[1])) - 1
    if name == "mov":
        return 0
    rest = at.operands[1 if at.operands[2] == register else 2]
    may = may_be_set(code, rest)
    if name in ("or", "xor") or (name == "add" and apart(code, at)):
        return may & (~must_be_set(code, register) if name == "or" else EVERY) & whole
    if name == "and":
        return may_be_set(code, register) & ~must_be_set(code, rest) & whole
    if name == "add" or (name == "sub" and at.operands[1] == register):
        return EVERY << zeros(may) & whole
    return EVERY


@lru_cache(maxsize=4)
def reads(code: PtxCode) -> Mapping[str, int]:
    """Of each register that instructions make, the bits that may have an effect: the least that suffice, to a
    fixed point over loops. For a register in a line that cannot be read as a single instruction: EVERY.
    """
    asked = {
        name: EVERY if any(number not in code.at for number in code.mentions(name)) else 0
        for name in code.definitions
    }
    changed = True
    while changed:
        changed = False
        for at in reversed(code.code):
            for register in at.uses:
                if register in asked and asked[register] != EVERY:
                    more = asked[register] | _read_by(code, at, register, asked)
                    changed |= more != asked[register]
                    asked[register] = more
    return asked


def read(code: PtxCode, register: str) -> int:
    """A mask of the bits of a register that may have an effect; EVERY: nothing is known."""
    return reads(code).get(register, EVERY)


def _read_by(code: PtxCode, at: CodeLine, register: str, known: Mapping[str, int]) -> int:
    """The bits that one instruction reads of a register, if those of its result are `known`."""
    name, width = at.opcode.split(".")[0], _WIDTH.search(at.opcode)
    if name == "tcgen05":
        must, may = partial(must_be_set, code), partial(may_be_set, code)
        return EVERY & ~descriptors.unused(at, register, must, may)
    if at.guard.lstrip("@!") == register or len(at.defines) != 1 or at.operands[0] not in at.defines:
        return EVERY
    result = known.get(at.operands[0], EVERY)
    if at.opcode == "cvt.u64.u32":
        return result & WORD
    if at.opcode == "cvt.s64.s32":
        return result & WORD | (_SIGN if result & ~WORD else 0)
    if width is None or not _INTEGER.match(at.opcode) or name in ("mul", "mad"):
        return EVERY
    if len(at.operands) != (2 if name == "mov" else 3):
        return EVERY
    asked = result & ((1 << int(width[1])) - 1)
    if name == "mov":
        low, high = _halves(at.operands[1])
        if high and at.opcode != "mov.b64":
            return EVERY
        if high:
            return (asked & WORD if register == low else 0) | (asked >> 32 if register == high else 0)
        return asked if low == register else EVERY
    if name in ("or", "xor"):
        return asked
    if name == "and":
        others = [operand for operand in at.operands[1:] if operand != register]
        return asked & may_be_set(code, others[0]) if len(others) == 1 else asked
    if name in ("add", "sub"):  # carries go up
        return (1 << asked.bit_length()) - 1
    by = at.operands[2]
    if at.operands[1] != register or not by.isdigit():
        return EVERY
    if name == "shl":
        return asked >> int(by)
    return asked << int(by) & ((1 << int(width[1])) - 1) if ".s" not in at.opcode else EVERY
