"""A kernel under many schedules: findings in its plan's names, and the outputs that depend on the
schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
from tileproof.conformance.check.run import judge_run
from tileproof.conformance.check.saved import SavedCase
from tileproof.conformance.compare.compare import index
from tileproof.conformance.compare.repeat import differing
from tileproof.conformance.compare.rows import accumulated, judge_rows, plant_canaries
from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.names import PlanNames, PlanTraceNames
from tileproof.conformance.explore.case import EARLY, TracedLaunch
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain
from tileproof.emulator import RunResult
from tileproof.emulator.options import RunKeywords
from tileproof.emulator.schedule_run import Outputs
from tileproof.kernels.compile import Built
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import AnyCase, ProblemInputs


@dataclass
class Explored:
    """One problem on one build of a kernel, as `tileproof.emulator.explore` takes it: `ExploredCase`."""

    kernel: Kernel
    built: Built
    plan: KernelPlan
    inputs: ProblemInputs
    text: str = ""
    schedule: Schedule = EARLY

    @classmethod
    def of(cls, kernel: Kernel, built: Built, case: AnyCase, schedule: Schedule = EARLY) -> Explored:
        """The problem of `case`."""
        plan = kernel.plan(kernel.variant_of_case(case))
        explored = cls(kernel, built, plan, case.inputs(), case.as_json(), schedule)
        explored.dynamic = emulator.shared_offset(explored.fresh())
        explored.names = PlanNames(explored.plan, explored.dynamic)
        return explored

    @classmethod
    def saved(cls, example: SavedCase) -> Explored:
        """The example that `check --save` wrote, first under the schedule that it was saved for."""
        tested = example.under_test
        return cls.of(tested.kernel, tested.production, example.case, example.schedule)

    dynamic: int = 0
    names: PlanNames | None = None
    _bounds: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] | None = None

    @property
    def title(self) -> str:
        """The kernel and its variant."""
        return self.kernel.title(self.kernel.variant_of(self.inputs))

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Nothing: a plan defines how to judge everything."""
        return ()

    def fresh(self) -> LaunchFile:
        """A launch on buffers of its own."""
        return plant_canaries(self.plan, self.inputs, self.kernel.launch(self.inputs, self.built))

    def __call__(self, **how: Unpack[RunKeywords]) -> tuple[RunResult, Outputs]:
        """One run, its findings in the plan's names, and the outputs that the plan observes."""
        result, buffers = emulator.launch_on(self.fresh(), plan=self.plan, **how)
        names = [at.parameter for at in self.plan.observations if isinstance(at, OutputObservation)]
        return result, {name: buffers[name].numpy() for name in names}

    def wrong(self, schedule: Schedule) -> list[Finding]:
        """What `check` finds wrong with the values of one launch, stage by stage; the machine's findings are
        what is explored.
        """
        seen = emulator.run(self.fresh(), self.plan, schedule=schedule)
        found = judge_run(self.plan, self.inputs, seen, None).findings
        stopped = any(finding.kind == "machine" for finding in found)
        return [] if stopped else found

    def traced(
        self, schedule: Schedule, limit: int, seconds_limit: float, races: bool
    ) -> tuple[TracedLaunch, ...]:
        """The launch of the plan, its findings and trace in the plan's names."""
        seen, trace = emulator.run_traced(
            self.fresh(),
            self.plan,
            schedule=schedule,
            limit=limit,
            seconds_limit=seconds_limit,
            races=races,
        )
        return (
            TracedLaunch(
                title=self.title,
                trace=trace,
                names=PlanTraceNames(self.plan, self.inputs),
                errors=tuple(finding for finding in seen.findings if finding.severity == "error"),
            ),
        )

    def compare(self, name: str, first: Array, second: Array) -> npt.NDArray[np.bool_]:
        """Elements that differ; of rows that several tiles are added to, those further apart than two orders
        of the same f32 sum can be.
        """
        if (first.view(np.uint8) == second.view(np.uint8)).all():
            return np.zeros(first.shape, dtype=np.bool_)
        differ, known = differing(first, second, None), self._bound(name)
        if known is not None:
            rows, bound = known
            differ[rows] = differing(first[rows], second[rows], bound)
        return differ

    def _bound(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None:
        """The rows that tiles are added to, and twice the error bound of an order of additions; from the
        kernel's own tiles, as an early launch shows them.
        """
        if self._bounds is None:
            self._bounds = {}
            if accumulated(self.plan):
                seen = emulator.run(self.fresh(), self.plan, schedule=Schedule("early"))
                tiles = observe(self.plan, self.inputs, seen, "production").tiles
                problem, tiling = self.plan.problem, tiling_of(self.plan)
                chain = Chain(self.inputs, index(tiles), {}, problem=problem, tiling=tiling)
                for rows in judge_rows(self.plan, chain, seen, "production", explain=False):
                    self._bounds[rows.at.parameter] = rows.sums.rows, 2 * rows.sums.bound()
        return self._bounds.get(name)
