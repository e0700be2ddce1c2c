"""What generates the cases of each problem type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from hypothesis import strategies as st
from tileproof.conformance.problems import edges, gemm
from tileproof.conformance.problems.case import Case, one_token, past_the_rings
from tileproof.conformance.problems.strategies import cases
from tileproof.spec.plan import KernelPlan


class AnyCase(Protocol):
    """A case of any problem type."""

    @property
    def values(self) -> str:
        """The class of its values."""

    def inputs(self) -> Any:
        """The arrays; equal cases give equal arrays."""

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case."""

    def sizes(self) -> dict[str, int]:
        """The sizes that choose a kernel's variant."""


def generated(plan: KernelPlan) -> st.SearchStrategy[Any]:
    """Cases for the kernel of `plan`."""
    if plan.problem == "sparse_mla_bwd":
        return cases(plan.d_qk, plan.h_q)
    return gemm.cases(gemm.steps(plan))


def fixed_cases(plan: KernelPlan) -> dict[str, AnyCase]:
    """The cases, by name, that every check of the kernel of `plan` begins with."""
    if plan.problem == "sparse_mla_bwd":
        return dict(edges.edges(plan.d_qk, plan.h_q))
    return {f"{blocks} k-blocks": small(plan, blocks) for blocks in (1, _depth(plan) + 2)}


def smaller(case: AnyCase) -> Iterator[AnyCase]:
    """Cases that are simpler than one of `fixed_cases` in one respect, the largest steps first."""
    if isinstance(case, Case):
        yield from edges.smaller(case)


def small(plan: KernelPlan, blocks: int | None = None) -> AnyCase:
    """One group of tiles with `blocks` k-blocks, normal values; None: more than the deepest ring has stages,
    so that its slots are used again (of tokens: two, one and two more).
    """
    if plan.problem == "sparse_mla_bwd":
        if blocks is None:
            return past_the_rings(plan.d_qk, _depth(plan), plan.h_q)
        return one_token(plan.d_qk, blocks, plan.h_q)
    return gemm.GemmCase(*gemm.steps(plan), k_tiles=blocks or _depth(plan) + 2, values="normal")


def _depth(plan: KernelPlan) -> int:
    """Stages of the deepest ring."""
    return max((barrier.stages for barrier in plan.barriers), default=1)


def from_json(text: str) -> AnyCase:
    """The case of `as_json`, of any problem type."""
    return gemm.GemmCase.from_json(text) if gemm.is_case(text) else Case.from_json(text)
