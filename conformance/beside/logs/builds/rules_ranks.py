"""Causes of errors in calls with an operand of the wrong rank."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.cpptypes import parse
from tileproof.conformance.beside.logs.builds.cute import (
    tensor_of,
)


def ranks(case: ErrorCase) -> BuildCause | None:
    """A function of CuTe that no operand of this rank fits."""
    if "no instance of overloaded function" not in case.text and "no matching function" not in case.text:
        return None
    if not re.search(r'"(?:\w+::)*(gemm|copy)"', case.text):
        return None
    operands = case.evidence.operands
    deep = [
        (role, operand.tensor.layout)
        for role, operand in operands.items()
        if operand.tensor is not None and operand.tensor.layout.rank > 3
    ]
    if deep:
        role, layout = deep[0]
        return BuildCause(
            "rank",
            f"{role} has {layout.rank} modes, {layout.extents()}, but an MMA takes three, (MMA, MNs, Ks): "
            "an extra mode, such as pipeline stages",
            f"a single stage: {role}(_, _, _, stage)",
            role,
            edits=((role, f"{role}({', '.join(['cute::_'] * 3 + ['0'] * (layout.rank - 3))})"),),
        )
    return None


def arguments(case: ErrorCase) -> list[str]:
    """The argument types of a failed overload, in words where they are tensors."""
    for note in case.diagnostic.notes:
        start = note.find("argument types are: (")
        if start >= 0:
            listed = parse("arguments<" + note[start + 21 :].rstrip(")") + ">").args
            return [made.text() if (made := tensor_of(arg)) else _short(str(arg)) for arg in listed]
    return []


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
