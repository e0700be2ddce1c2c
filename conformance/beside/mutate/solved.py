"""Equality of a mutant by an SMT solver (`conformance/beside/equal`), where it is installed."""

from __future__ import annotations

import importlib.util
import re

from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import BY_SOLVER, CodeProof

NO_SOLVER = "not proved: z3 is not installed"
_NEXT = "$L__without_branch"


def installed() -> bool:
    """Whether there is a solver."""
    return importlib.util.find_spec("z3") is not None


def texts(code: PtxCode, drawn: Drawn) -> tuple[str, str]:
    """The original and the mutant; where a branch was removed, a label keeps the blocks of both alike."""
    edits = dict(drawn.lines)
    for number, text in drawn.lines.items():
        if not text and number in code.at and re.match("bra|brx", code.code[code.at[number]].opcode):
            edits[number] = f"{_NEXT}_{number}:"
    return code.text, code.changed(edits)


def proof(code: PtxCode, drawn: Drawn, extents: Extents, seconds: float = 60) -> CodeProof:
    """The proof that a mutant of the PTX is equal; else why there is none."""
    if not drawn.lines:
        return CodeProof("", "not proved: the change of the source is not one instruction of the PTX")
    if not installed():
        return CodeProof("", NO_SOLVER)
    from tileproof.conformance.beside.equal.proof import equal

    found = equal(*texts(code, drawn), code.entry, extents, seconds)
    if found.kind == "proved":
        return CodeProof(f"{BY_SOLVER}{found.why}")
    return CodeProof("", f"not proved: {found.why}")
