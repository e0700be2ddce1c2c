"""The section of docs/stages.md on these problem types."""

from __future__ import annotations

from tileproof.spec.arithmetic import BF16
from tileproof.spec.page import prose, stage_tables
from tileproof.spec.problems.dense_attention_bwd import inputs, stages
from tileproof.spec.problems.dense_attention_bwd.problem import PROBLEMS

TITLE = "Dense attention"


def sections() -> list[str]:
    """The problem, and the stages of each walk; those of other operand types have the same."""
    parts = [prose(inputs), prose(stages)]
    for problem in PROBLEMS:
        if problem.operand == BF16:
            table, steps = stage_tables(problem.stages)
            parts += [f"### Problem `{problem.name}`", table, steps]
    return parts
