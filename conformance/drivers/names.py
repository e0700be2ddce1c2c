"""A plan's names for the numbers in the emulator's reports and traces."""

from __future__ import annotations

from tileproof.conformance.drivers.plan_names import barrier_name, k_block, role_of
from tileproof.emulator.hang import Names
from tileproof.emulator.trace import Event, TraceNames
from tileproof.spec.machine.finding_causes import inline_chain
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import ProblemInputs


def code_place(source: str, ptx_line: int) -> str:
    """The place of an instruction: its source line and its caller's, because the line of a wrapper says
    little; its PTX line without a source.
    """
    own, callers = inline_chain(source)
    return " from ".join(part for part in (own, callers.split(", ")[0]) if part) or f"PTX line {ptx_line}"


class PlanNames(Names):
    """Names for the diagnosis of a hang; its offsets count from the start of the CTA's shared memory,
    `dynamic` bytes before the plan's.
    """

    def __init__(self, plan: KernelPlan, dynamic: int) -> None:
        self._plan, self._dynamic = plan, dynamic

    def warp(self, rank: int, warp: int) -> str:
        role = role_of(self._plan, warp, rank)
        return f"warp {warp}" + (f" ({role})" if role else "") + f" of CTA {rank}"

    def mbarrier(self, rank: int, offset: int) -> str:
        name = barrier_name(self._plan, offset - self._dynamic)
        return f"{name} of CTA {rank}" if name else super().mbarrier(rank, offset)

    def phase(self, offset: int, phase: int) -> str:
        block = k_block(self._plan, offset - self._dynamic, phase)
        return super().phase(offset, phase) + (f" (k-block {block})" if block is not None else "")


class PlanTraceNames(TraceNames):
    """Names for a trace; its offsets are the plan's."""

    def __init__(self, plan: KernelPlan, inputs: ProblemInputs) -> None:
        self._plan, self._inputs = plan, inputs

    def cta(self, event: Event) -> str:
        problem, cluster = self._plan.problem, self._plan.cluster_of(event.cta)
        group = problem.group_at(self._inputs, tiling_of(self._plan), cluster)
        return f"{problem.unit} {group} CTA {event.rank}"

    def warp(self, rank: int, warp: int) -> str:
        role = role_of(self._plan, warp, rank)
        return f"{role} (warp {warp})" if role else f"warp {warp}"

    def mbarrier(self, offset: int) -> str:
        return barrier_name(self._plan, offset) or super().mbarrier(offset)

    def about(self, offset: int, phase: int) -> str:
        block = k_block(self._plan, offset, phase)
        return "" if block is None else f"k-block {block}"
