"""The section of docs/stages.md on these problem types."""

from __future__ import annotations

from tileproof.spec.page import formulas, prose, stage_tables
from tileproof.spec.problems.gemm import inputs
from tileproof.spec.problems.gemm.problem import PROBLEMS

TITLE = "Matrix product"


def sections() -> list[str]:
    """The problem, and the stages of both its types."""
    parts = [prose(inputs)]
    for problem in PROBLEMS:
        table, steps = stage_tables(problem.stages)
        parts += [f"### Problem `{problem.name}`", table, formulas(problem.stages), steps]
    return parts
