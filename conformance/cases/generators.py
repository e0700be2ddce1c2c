"""The cases of a plan's problem type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.cases import AnyCase, ControlFlow, EdgeCase

if TYPE_CHECKING:  # Hypothesis takes a third of a second, and `judge` does without it
    from hypothesis.strategies import SearchStrategy


def generated(plan: KernelPlan) -> SearchStrategy[AnyCase]:
    """Cases for the kernel of `plan`."""
    return plan.problem.generator.drawn(plan)


def edges(plan: KernelPlan) -> Mapping[str, EdgeCase]:
    """The cases, by name, that every check of the kernel of `plan` begins with."""
    return plan.problem.generator.edges(plan)


def smaller(plan: KernelPlan, case: AnyCase) -> Iterator[AnyCase]:
    """Cases that are simpler than one of `edges` in one respect, the largest steps first."""
    return plan.problem.generator.smaller(case)


def small(plan: KernelPlan, blocks: int | None = None) -> AnyCase:
    """A small case of `blocks` k-blocks; None: more than the deepest ring has stages."""
    return plan.problem.generator.small(plan, blocks)


def control_flow(plan: KernelPlan, blocks: int) -> ControlFlow:
    """The inputs on which control flow may depend, and a case of `blocks` k-blocks for each of their classes;
    by default it depends on sizes alone.
    """
    stated = getattr(plan.problem.generator, "control_flow", None)
    return ControlFlow((), {"": small(plan, blocks)}) if stated is None else stated(plan, blocks)


def from_json(problem: str, text: str) -> AnyCase:
    """The case of `AnyCase.as_json`, of the problem type of that name."""
    return problem_type(problem).generator.from_json(text)
