"""What generates the cases of each problem type."""

from __future__ import annotations

from typing import Any, Protocol

from hypothesis import strategies as st
from tileproof.conformance.problems import gemm
from tileproof.conformance.problems.case import Case, one_token
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


def small(plan: KernelPlan, blocks: int) -> AnyCase:
    """One group of tiles with `blocks` k-blocks, normal values."""
    if plan.problem == "sparse_mla_bwd":
        return one_token(plan.d_qk, blocks, plan.h_q)
    return gemm.GemmCase(*gemm.steps(plan), k_tiles=blocks, values="normal")


def from_json(text: str) -> AnyCase:
    """The case of `as_json`, of any problem type."""
    return gemm.GemmCase.from_json(text) if gemm.is_case(text) else Case.from_json(text)
