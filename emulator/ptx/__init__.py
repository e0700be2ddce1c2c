"""PTX text to a syntax tree."""

from tileproof.emulator.ptx.body import parse_body
from tileproof.emulator.ptx.module import parse_module
from tileproof.emulator.ptx.operands import parse_number, parse_operand
from tileproof.emulator.ptx.syntax import (
    Address,
    BranchTargets,
    Declaration,
    Entry,
    Immediate,
    Instruction,
    Label,
    Name,
    Operand,
    Pair,
    Parameter,
    PtxModule,
    Scope,
    Sink,
    Statement,
    Variable,
    Vector,
)

__all__ = [
    "Address",
    "BranchTargets",
    "Declaration",
    "Entry",
    "Immediate",
    "Instruction",
    "Label",
    "Name",
    "Operand",
    "Pair",
    "Parameter",
    "PtxModule",
    "Scope",
    "Sink",
    "Statement",
    "Variable",
    "Vector",
    "parse_body",
    "parse_module",
    "parse_number",
    "parse_operand",
]
