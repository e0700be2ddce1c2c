"""The bits of a tcgen05.mma matrix descriptor that the tensor core does not use."""

from __future__ import annotations

from collections.abc import Callable

from tileproof.conformance.beside.mutate.code import CodeLine

Bits = Callable[[str], int]  # a mask of an operand's bits

LEADING = 0x3FFF << 16  # the leading-dimension offset (PTX ISA 9.7.16.4.1)
_SWIZZLE = 61  # bits 61..63: 2, 4, 6 are 128, 64, 32 bytes, 0 none, 1 another of 128
_ABSOLUTE = 1 << 52  # the offset is an address (sm_103a)
_ANY_SWIZZLE = 6
_ATOMS = {2: 64, 4: 32, 6: 16}  # elements of 16 bits in its bytes
_WORD = (1 << 32) - 1


def leading_unused(at: CodeLine, operand: int, must: Bits, may: Bits) -> str:
    """Why the leading-dimension offset of operand 1 (A) or 2 (B), a descriptor, is not used; "" if it may be
    used. `must` and `may`: the bits that are certainly set, and possibly set.
    """
    if ".kind::f16" not in at.opcode or len(at.operands) < 4 or operand not in (1, 2):
        return ""
    descriptor, idesc = at.operands[operand], at.operands[3]
    low, high = must(idesc) & _WORD, may(idesc) & _WORD
    swizzled = must(descriptor) >> _SWIZZLE
    if low != high or not swizzled & _ANY_SWIZZLE or may(descriptor) & _ABSOLUTE:
        return ""  # the instruction's shape, or that there is a swizzle, is not known
    if not low >> (15 if operand == 1 else 16) & 1:
        return "the operand is K-major with a swizzle (PTX ISA 9.7.16.5.2.1.1)"
    wide = (low >> 24 & 31) * 16 if operand == 1 else (low >> 17 & 63) * 8
    known = may(descriptor) >> _SWIZZLE == swizzled
    if known and wide <= _ATOMS.get(swizzled, 0) and ".cta_group::2" not in at.opcode:
        return f"the operand has {wide} elements along its rows, one column of swizzle atoms"
    return ""


def unused(at: CodeLine, register: str, must: Bits, may: Bits) -> int:
    """The bits of a register that an MMA takes as the descriptor of A or B and does not use; 0 where it takes
    it for anything else as well.
    """
    places = [n for n, operand in enumerate(at.operands) if register in operand]
    if (
        not at.opcode.startswith("tcgen05.mma.cta_group")
        or len(places) != 1
        or at.operands[places[0]] != register
    ):
        return 0
    if at.guard.lstrip("@!") == register or not leading_unused(at, places[0], must, may):
        return 0
    return LEADING
