"""What an instruction uses of its operands: of a tcgen05.mma's matrix descriptor not every bit."""

from __future__ import annotations

import z3
from tileproof.conformance.beside.equal.meaning import Term
from tileproof.emulator.ptx import Address, Operand, Pair, Sink, Vector

LEADING = 0x3FFF << 16  # the leading-dimension offset (PTX ISA 9.7.16.4.1)
_ABSOLUTE = 52  # the bit by which the offset is an address (sm_103a)
_ATOMS = {2: 64, 4: 32, 6: 16}  # elements of 16 bits in a row of atoms, by bits 61 to 63: 128, 64, 32 bytes


def used(opcode: str, operand: int, descriptor: Term, instruction: Term) -> Term:
    """The descriptor of A (operand 1) or B (2), its leading-dimension offset cleared where it is not used: in
    a swizzled operand that is K-major, or one column of swizzle atoms wide (PTX ISA 9.7.16.5.2.1.1).
    """
    if ".kind::f16" not in opcode or descriptor.size() != 64 or instruction.size() != 32:
        return descriptor
    swizzle = z3.Extract(63, 61, descriptor)
    unused = z3.Extract(15, 15, instruction) == 0 if operand == 1 else z3.Extract(16, 16, instruction) == 0
    if ".cta_group::2" not in opcode:
        rows = z3.Extract(28, 24, instruction) if operand == 1 else z3.Extract(22, 17, instruction)
        wide = z3.ZeroExt(32 - rows.size(), rows) * (16 if operand == 1 else 8)
        narrow = [z3.And(swizzle == code, z3.ULE(wide, atoms)) for code, atoms in _ATOMS.items()]
        unused = z3.Or(unused, *narrow)
    absolute = z3.Extract(_ABSOLUTE, _ABSOLUTE, descriptor) == 1
    swizzled = swizzle & 6 != 0
    return z3.If(z3.And(swizzled, z3.Not(absolute), unused), descriptor & ~LEADING, descriptor)


def shape(first: Operand) -> tuple[object, ...]:
    """The kinds of an operand's parts, apart from whether a register or a literal."""
    if isinstance(first, Vector):
        return ("vector", *map(shape, first.parts))
    if isinstance(first, Pair):
        return ("pair", shape(first.first), shape(first.second))
    if isinstance(first, Address):
        return ("address", *map(shape, first.coordinates))
    return ("sink",) if isinstance(first, Sink) else ()
