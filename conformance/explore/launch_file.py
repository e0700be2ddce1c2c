"""A launch file under many schedules, traced, and timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Unpack

import numpy as np
import numpy.typing as npt
from tileproof.conformance.explore.case import EARLY, TracedLaunch
from tileproof.conformance.judging import reference as references
from tileproof.conformance.judging.reference import ExpectedOutput, ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.judging.values import finding_of, judged_values
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import LoadedModule, load
from tileproof.conformance.launches.placing import dynamic_begin, symbols_of
from tileproof.conformance.launches.running import Execution, execute
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.hang import Names
from tileproof.emulator.options import RunKeywords
from tileproof.emulator.schedule_run import Outputs, differing_bits
from tileproof.emulator.symbols import SharedNames
from tileproof.emulator.trace import Trace
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile
from tileproof.spec.machine.certificate import merged_certificate
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import Array

NO_REFERENCE = "values: no reference was given (--expect); outputs are compared between schedules only"
NO_STAGES = "stages: the launch file names no captures"
NO_PLAN = "plan: a launch file has no plan, so barriers and warps have the PTX's names and no k-blocks"


@dataclass
class ExploredLaunch:
    """A launch file as `tileproof.emulator.explore` takes it: `ExploredCase`. `no_stages`: why no stage is
    judged, where it names no captures.

    TileproofError when it contradicts its PTX, names what does first.
    """

    file: LaunchFile
    reference: ReferenceFunction | None = None
    no_stages: str = NO_STAGES
    schedule: Schedule = EARLY
    modules: dict[str, LoadedModule] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.reference is not None:
            self.file = references.described(self.file, self.reference)
        self.modules = load(self.file)
        if wrong := contradictions(self.file, self.modules):
            raise wrong[0]

    @property
    def title(self) -> str:
        """The launch file's name."""
        return self.file.name

    @property
    def text(self) -> str:
        """The name again: the launch file is the case."""
        return self.file.name

    @property
    def not_judged(self) -> tuple[str, ...]:
        """What the launch file leaves open."""
        missing = [] if self.reference else [NO_REFERENCE]
        return (*missing, *(() if self.file.captures else (self.no_stages,)), NO_PLAN)

    @property
    def names(self) -> Names | None:
        """The names of the PTX's shared variables and of the file's barriers; None where launches of several
        kernels may call the same place by different names.
        """
        steps = {(self.module_of(step).name, step.entry): step for step in self.file.launches}
        if len(steps) > 1:
            return None
        (step,) = steps.values()
        decoded = self.module_of(step).module.decode(step.entry)
        begin = dynamic_begin(decoded)
        given = {begin + at: name for at, name in symbols_of(self.file, decoded).items()}
        return SharedNames(decoded.shared_symbols, given)

    @cached_property
    def expected(self) -> dict[str, ExpectedOutput]:
        """The reference's values of outputs and captures; nothing without a reference."""
        if self.reference is None:
            return {}
        return references.evaluate(self.reference, self.file, references.inputs_of(self.file))

    def __call__(self, **how: Unpack[RunKeywords]) -> tuple[RunResult, Outputs]:
        """All launches under one schedule, as one result: of the launch that has the errors, or has the most
        scheduling points, with the findings of all.
        """
        done = self._executed(how)
        results = list(done.results.values())
        wrong = [result for result in results if result.errors]
        shown = wrong[0] if wrong else max(results, key=lambda result: result.counters.schedule_points)
        outputs = {
            buffer.name: done.placed.buffers[buffer.name].numpy()
            for buffer in self.file.outcomes
            if buffer.name not in done.placed.freed
        }
        whole = replace(
            shown,
            findings=(*(f for result in results for f in result.findings), *done.placed.found),
            allowed=tuple(f for result in results for f in result.allowed),
            certificate=merged_certificate((result.certificate for result in results), done.placed.found),
        )
        return whole, outputs

    def _executed(self, how: RunKeywords) -> Execution:
        """All launches under one schedule, with the names of their barriers."""

        def given(_: int, step: KernelLaunch) -> RunKeywords:
            decoded = self.module_of(step).module.decode(step.entry)
            return {"symbols": symbols_of(self.file, decoded), **how}

        return execute(self.file, self.modules, given, how.get("schedule"))

    def module_of(self, step: KernelLaunch) -> LoadedModule:
        """The module of a launch."""
        return self.modules[self.file.module_of(step).name]

    def compare(self, name: str, first: Array, second: Array) -> npt.NDArray[np.bool_]:
        """Elements that differ: bit by bit, or where the reference has a bound by more than twice that."""
        differ = differing_bits(name, first, second)
        expected = self.expected.get(name)
        if expected is None or not differ.any():
            return differ
        with np.errstate(invalid="ignore"):
            apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
        near: npt.NDArray[np.bool_] = apart <= 2 * expected.bound
        return differ & ~near

    def wrong(self, schedule: Schedule) -> list[Finding]:
        """The wrong values of a run, by the reference; none for a run that a finding stopped."""
        if not self.expected:
            return []
        run = run_once(self.file, self.modules, schedule, RunOptions(races=False))
        if run.stopped:
            return []
        return [finding_of(wrong_array, "values") for wrong_array in judged_values(run, self.expected)[1]]

    def traced(
        self, schedule: Schedule, limit: int, seconds_limit: float, races: bool
    ) -> Sequence[TracedLaunch]:
        """Each launch that ran, with its trace."""
        several = len(self.file.launches) > 1
        return [
            TracedLaunch(
                title=f"{self.title}, launch {number} ({step.entry})" if several else self.title,
                trace=trace,
                names=trace.names(),
                errors=result.errors,
            )
            for number, step, result, trace in self.recorded(
                schedule=schedule, trace_limit=limit, seconds_limit=seconds_limit, races=races
            )
        ]

    def recorded(self, **how: Unpack[RunKeywords]) -> Iterator[tuple[int, KernelLaunch, RunResult, Trace]]:
        """Each launch that ran: its number among the launches, its step, its result and its trace."""
        for number, result in self._executed({"trace": True, **how}).results.items():
            assert result.trace is not None
            yield number, self.file.launches[number], result, result.trace
