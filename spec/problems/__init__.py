"""The problem types, one folder each: sizes and inputs, stages, tiling, what counts as valid."""

from __future__ import annotations

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import ProblemType


def problem_types() -> dict[str, ProblemType]:
    """Every problem type by name."""
    from tileproof.spec.problems.gemm.problem import GEMM, GEMM_BIAS
    from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

    known: tuple[ProblemType, ...] = (SPARSE_MLA_BWD, GEMM, GEMM_BIAS)
    return {one.name: one for one in known}


def problem_type(name: str) -> ProblemType:
    """The problem type called `name`; TileproofError lists the known ones."""
    known = problem_types()
    if name not in known:
        raise TileproofError(
            "there is no such problem type", where="problem", expected=", ".join(known), found=name
        )
    return known[name]
