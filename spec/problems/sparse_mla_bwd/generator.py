"""The cases of the problem type (`spec.problems.cases.Generator`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import ControlFlow, EdgeCase
from tileproof.spec.problems.sparse_mla_bwd import edges as own
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase, one_token, past_the_rings
from tileproof.spec.problems.sparse_mla_bwd.problem import SparseMlaBwd
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


def _form(plan: KernelPlan) -> str:
    """The form of operands that the kernel declares."""
    assert isinstance(plan.problem, SparseMlaBwd)
    return plan.problem.rounding.operand.name


def drawn(plan: KernelPlan) -> st.SearchStrategy[SparseCase]:
    """Cases for the kernel of `plan`."""
    form, found = _form(plan), cases(plan.size("d_qk"), plan.size("h_q"))
    return found if form == "bf16" else found.map(lambda case: in_form(case, form))


def in_form(case: SparseCase, form: str) -> SparseCase:
    """The case with operands of a form; coordinates, which f16 does not hold, become normal values."""
    values = "normal" if (form, case.values) == ("f16", "coordinates") else case.values
    return replace(case, form=form, values=values)


def edges(plan: KernelPlan) -> dict[str, EdgeCase]:
    """The edges for the kernel of `plan`."""
    found = own.edges(plan.size("d_qk"), plan.size("h_q"))
    return {
        name: EdgeCase(in_form(case, _form(plan)), POLICIES.get(name, ("late",)))
        for name, case in found.items()
    }


def smaller(case: SparseCase) -> Iterator[SparseCase]:
    """Cases that are simpler than `case` in one respect, the largest steps first."""
    return own.smaller(case)


def small(plan: KernelPlan, blocks: int | None = None) -> SparseCase:
    """One token with `blocks` k-blocks; None: three tokens, with one and two more than the deepest ring has
    stages, and none.
    """
    sizes = plan.size("d_qk"), plan.size("h_q")
    if blocks is None:
        return in_form(past_the_rings(sizes[0], plan.depth, sizes[1]), _form(plan))
    return in_form(one_token(sizes[0], blocks, sizes[1]), _form(plan))


def control_flow(plan: KernelPlan, blocks: int) -> ControlFlow:
    """The number of keys and which slots are keys, by `topk_length` and by invalid indices."""
    classes = own.control_flow(plan.size("d_qk"), plan.size("h_q"), blocks)
    return ControlFlow(
        ("indices", "topk_length"), {name: in_form(case, _form(plan)) for name, case in classes.items()}
    )


def from_json(text: str) -> SparseCase:
    """The case of `SparseCase.as_json`."""
    return SparseCase.from_json(text)
