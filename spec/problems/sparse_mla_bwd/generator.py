"""The cases of the problem type (`spec.problems.cases.Generator`)."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import EdgeCase
from tileproof.spec.problems.sparse_mla_bwd import edges as own
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase, one_token, past_the_rings
from tileproof.spec.problems.sparse_mla_bwd.strategies import cases

# Which policies an edge runs under, "late" without an entry. The production-size case is expensive.
POLICIES: dict[str, tuple[str, ...]] = {
    "lengths": ("early", "late", "random", "pct"),
    "indices": ("late", "pct"),
    "rows": ("starve",),
    "production": ("late",),
    "wide": ("random",),
    "far tokens": ("early",),
}


def drawn(plan: KernelPlan) -> st.SearchStrategy[SparseCase]:
    """Cases for the kernel of `plan`."""
    return cases(plan.size("d_qk"), plan.size("h_q"))


def edges(plan: KernelPlan) -> dict[str, EdgeCase]:
    """The edges for the kernel of `plan`."""
    found = own.edges(plan.size("d_qk"), plan.size("h_q"))
    return {name: EdgeCase(case, POLICIES.get(name, ("late",))) for name, case in found.items()}


def smaller(case: SparseCase) -> Iterator[SparseCase]:
    """Cases that are simpler than `case` in one respect, the largest steps first."""
    return own.smaller(case)


def small(plan: KernelPlan, blocks: int | None = None) -> SparseCase:
    """One token with `blocks` k-blocks; None: three tokens, with one and two more than the deepest ring has
    stages, and none.
    """
    if blocks is None:
        return past_the_rings(plan.size("d_qk"), plan.depth, plan.size("h_q"))
    return one_token(plan.size("d_qk"), blocks, plan.size("h_q"))


def from_json(text: str) -> SparseCase:
    """The case of `SparseCase.as_json`."""
    return SparseCase.from_json(text)
