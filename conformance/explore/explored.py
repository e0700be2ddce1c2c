"""A kernel under many schedules: findings in its plan's names, and which outputs depend on the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.check.run import judge
from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.names import PlanNames
from tileproof.conformance.drivers.result import RunSchedule
from tileproof.conformance.judge.compare import index
from tileproof.conformance.judge.repeat import differing
from tileproof.conformance.judge.rows import accumulated, judge_rows, plant_canaries
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain
from tileproof.emulator import Finding as MachineReport
from tileproof.emulator import LaunchResult, Schedule
from tileproof.emulator.judge import Outputs
from tileproof.kernels.compile import Built
from tileproof.kernels.launch import Launch
from tileproof.kernels.target import Target
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import AnyCase


@dataclass
class Explored:
    """One problem on one build of a kernel, as `tileproof.emulator.explore` takes it."""

    kernel: Target
    built: Built
    plan: KernelPlan
    inputs: Any

    @classmethod
    def of(cls, kernel: Target, built: Built, case: AnyCase) -> Explored:
        """The problem of `case`."""
        explored = cls(kernel, built, kernel.plan(kernel.variant(**case.sizes())), case.inputs())
        explored.dynamic = emulator.shared_offset(explored.fresh())
        explored.names = PlanNames(explored.plan, explored.dynamic)
        return explored

    dynamic: int = 0
    names: PlanNames | None = None
    _bounds: dict[str, npt.NDArray[np.float64]] | None = None

    def fresh(self) -> Launch:
        """A launch on buffers of its own."""
        launch = self.kernel.launch(self.inputs, self.built)
        plant_canaries(self.plan, self.inputs, launch)
        return launch

    def __call__(self, **how: Any) -> tuple[LaunchResult, Outputs]:
        """One run, and the outputs that the plan observes."""
        result, buffers = emulator.launch_on(self.fresh(), **how)
        names = [at.parameter for at in self.plan.observations if isinstance(at, OutputObservation)]
        return result, {name: buffers[name].numpy() for name in names}

    def wrong_values(self, schedule: RunSchedule | Schedule) -> list[Finding]:
        """What `check` finds wrong with the values of one launch, stage by stage; the machine's findings are
        what is explored.
        """
        seen = emulator.run(self.fresh(), self.plan, schedule=schedule)
        found = judge(self.plan, self.inputs, seen, None).findings
        stopped = any(one.kind == "machine" for one in found)
        return [] if stopped else found

    def words(self, finding: MachineReport) -> str:
        """A finding with its place and, of a hang or a race, its cause in the plan's names."""
        head, place = str(finding).split("\n")[:2]
        cause = emulator.in_words(self.plan, finding, self.dynamic)[1:]
        return "\n".join([head, place, *(f"  {line}" for line in cause)])

    def compare(self, name: str, one: npt.NDArray[Any], two: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Elements that differ; of rows that several tiles are added to, those further apart than two orders
        of the same f32 sum can be.
        """
        if (one.view(np.uint8) == two.view(np.uint8)).all():
            return np.zeros(one.shape, dtype=np.bool_)
        return differing(one, two, self._bound(name))

    def _bound(self, name: str) -> npt.NDArray[np.float64] | None:
        """Twice the error bound of one order; from the kernel's own tiles, as an early launch shows them."""
        if self._bounds is None:
            self._bounds = {}
            if accumulated(self.plan):
                seen = emulator.run(self.fresh(), self.plan, schedule=RunSchedule("early"))
                tiles = observe(self.plan, self.inputs, seen, "production").tiles
                problem, tiling = problem_type(self.plan.problem), tiling_of(self.plan)
                chain = Chain(self.inputs, index(tiles), {}, problem=problem, tiling=tiling)
                for rows in judge_rows(self.plan, chain, seen, "production", explain=False):
                    self._bounds[rows.at.parameter] = 2 * rows.sums.bound()
        return self._bounds.get(name)
