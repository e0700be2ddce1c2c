"""The case of a launch file: its outputs and captures are expected to be what a reference function gives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tileproof.conformance.judging import checks as shared
from tileproof.conformance.judging import reference as references
from tileproof.conformance.judging.case import Case, Progress
from tileproof.conformance.judging.causes import explained
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.log import RunLog, SeenCause
from tileproof.conformance.judging.machine import machine_findings
from tileproof.conformance.judging.redraw import drawn, fixed, redrawn
from tileproof.conformance.judging.reference import ExpectedOutput, ReferenceFunction
from tileproof.conformance.judging.reference_file import ReferenceFile
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.judging.smaller import can_shrink, smaller
from tileproof.conformance.judging.values import differing, finding_of, judged_values, unwritten
from tileproof.conformance.launches.check import contradictions, unset_bytes
from tileproof.conformance.launches.modules import LoadedModule, load
from tileproof.conformance.launches.order import StepOrder
from tileproof.conformance.launches.placing import Arrays
from tileproof.conformance.processes.children import in_child
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    JudgedProgram,
    OrderOnly,
    ProgramCoverage,
)
from tileproof.emulator import Schedule
from tileproof.emulator.inspect import EntryInfo
from tileproof.emulator.program import Decoded
from tileproof.kernels.launch.model import CudaSource, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.types import JsonValue, UncheckedObject

RACE_LAUNCHES = "race-launches"
MAX_PRINTED = 4000  # characters of what the kernels print


@dataclass
class LaunchCase(Case):
    """A launch file and how it is run. `inputs` are other draws of its inputs, of which the reference expects
    `expected_anew`. `first`: outputs that later runs must repeat bit for bit where no reference says what
    they should be.
    """

    launch: LaunchFile
    reference: ReferenceFunction | None = None
    options: RunOptions = field(default_factory=RunOptions)
    modules: Mapping[str, LoadedModule] = field(default_factory=dict, repr=False)
    expected: Mapping[str, ExpectedOutput] = field(default_factory=dict, repr=False)
    inputs: Arrays = field(default_factory=dict, repr=False)
    expected_anew: Mapping[str, ExpectedOutput] = field(default_factory=dict, repr=False)
    first: Mapping[str, Output] = field(default_factory=dict, repr=False)
    base: Schedule = field(default_factory=Schedule)
    errors: list[TileproofError] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)
    reference_fault: TileproofError | None = None
    _entries: dict[tuple[str, str], EntryInfo] = field(default_factory=dict, repr=False)

    order = ("machine", "races", "stages", "values", "outputs", "schedules")

    @property
    def races(self) -> bool:
        return self.options.races

    @property
    def compiles(self) -> bool:
        return any(isinstance(module.code, CudaSource) for module in self.launch.modules)

    @property
    def program(self) -> JudgedProgram:
        """The texts of several modules are hashed one after another; `sections` has each hash."""
        launches = self.launch.launches
        used = dict.fromkeys(self.launch.module_of(launch).name for launch in launches)
        loaded = [self.modules[name] for name in used if name in self.modules]
        entries = ", ".join(dict.fromkeys(launch.entry for launch in launches))
        toolchains = "; ".join(sorted({module.toolchain for module in loaded} - {""}))
        text = "".join(module.ptx for module in loaded)
        return programs.program(self.launch.name, {}, entries, text, toolchains)

    def prepare(self) -> None:
        if self.reference is not None:
            self.launch = references.described(self.launch, self.reference)
        self.modules = load(self.launch)
        self.errors += contradictions(self.launch, self.modules, self._entries)
        self.unset = unset_bytes(self.launch, self.modules)

    def entries(self) -> Sequence[EntryInfo]:
        return list(self._entries.values())

    def decoded(self, module: str, entry: str) -> Decoded:
        return self.modules[module].module.decode(entry)

    def expect(self, deadline: float, progress: Progress) -> bool:
        reference = self.reference
        if reference is None:
            return True
        progress("the reference")

        def evaluated() -> tuple[dict[str, ExpectedOutput], dict[str, ExpectedOutput]]:
            made = references.evaluate(reference, self.launch, references.inputs_of(self.launch))
            again = references.inputs_of(self.launch, self.inputs)
            try:
                return made, references.evaluate(reference, self.launch, again) if self.inputs else {}
            except TileproofError:  # it does not take such inputs
                return made, {}

        self.inputs = redrawn(self.launch, self.modules) if drawn(self.launch) else {}

        call, remaining = reference.call, deadline - time.monotonic()
        if isinstance(call, ReferenceFile):  # it has a process of its own
            call.seconds = max(remaining, 0.01)
            try:
                self.expected, self.expected_anew = evaluated()
            except TileproofError as error:
                self.reference_fault = error
            return self.reference_fault is None
        done = in_child(evaluated, remaining)
        if done.value is not None:
            self.expected, self.expected_anew = done.value
            return True
        self.reference_fault = done.error or TileproofError(
            "the reference failed", where=reference.where, found=done.fault
        )
        return False

    def certified(self, log: RunLog) -> bool:
        """As of every case; launches that nothing orders run in several orders nevertheless."""
        return super().certified(log) and not StepOrder(self.launch).pairs

    def anew(self, schedule: Schedule, seconds: float) -> JudgedRun | None:
        if not self.expected_anew:
            return None
        other = replace(self, expected=self.expected_anew, first={})
        return other.run(schedule, seconds, instead=self.inputs)

    def run(
        self,
        schedule: Schedule,
        seconds: float = 0.0,
        first: bool = False,
        instead: Arrays | None = None,
    ) -> JudgedRun:
        # The first runs have the machine to themselves; others run beside each other.
        alone = first or instead is not None
        options = self.options if alone else replace(self.options, host_threads=1)
        run = run_once(self.launch, self.modules, schedule, options, seconds=seconds, instead=instead)
        errors, remarks = machine_findings(run)
        made = JudgedRun(
            schedule,
            errors,
            remarks=remarks,
            executed=run.executed_by_entry,
            finished=not run.stopped,
            ended_by=run.ended_by,
            points=run.counters.schedule_points,
            seconds=run.seconds,
            certificate=run.certificate,
            result=_without_launches(run) if first else None,
        )
        if run.stopped:
            return made
        made.scores, wrong = judged_values(run, self.expected)
        made.wrong = tuple(wrong)
        made.findings += [
            finding_of(wrong_array, "stages" if wrong_array.stage else "values") for wrong_array in wrong
        ]
        made.findings += unwritten(self.launch, run)
        if not run.defects:
            made.findings += differing(self.first, run, self.expected, self.base)
        return made

    def repeat(self, first: JudgedRun) -> None:
        run = first.result
        if run is not None and first.finished and not run.defects:
            self.first, self.base = run.outputs, run.schedule or Schedule()

    def explain(self, log: RunLog, seconds: float, progress: Progress) -> None:
        if self.reference is not None:
            # What the machine's findings explain needs no other cause than theirs.
            machine = any(seen.finding.check == "machine" for seen in log.causes.values())
            explained(log, self.launch, self.modules, self.reference, 0.0 if machine else seconds, progress)

    def shrinks(self, seen: SeenCause) -> bool:
        return seen.finding.check in ("machine", "races") and can_shrink(seen.schedules)

    def smaller(self, seen: SeenCause, seconds: float) -> tuple[Schedule, tuple[str, ...]] | None:
        small = smaller(self, seen.finding, seen.schedules, seconds)
        return None if small is None else (small.schedule, small.lines)

    def covered(self, log: RunLog) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
        """As of every case; no coverage where a launched kernel never ran."""
        coverage, only = super().covered(log)
        launched = {(self.launch.module_of(launch).name, launch.entry) for launch in self.launch.launches}
        return (None if launched - set(log.executed) else coverage), only

    def checks(self, log: RunLog, findings: Sequence[Finding]) -> Iterator[CheckOutcome]:
        yield self._file()
        if self.errors:
            return
        refused = self.refused
        yield shared.instructions(refused)
        if refused:
            return
        yield shared.machine(log, findings)
        yield shared.races(log, findings, self.races)
        yield shared.failed_or("values", findings, self._values(log))
        yield shared.failed_or("stages", findings, self._stages(log))
        yield shared.failed_or("outputs", findings, self._outputs(log))
        yield shared.schedules(log, findings)
        order = StepOrder(self.launch)
        if order.pairs:
            yield _streams(order, log, findings)

    @property
    def _judged(self) -> list[str]:
        return [buffer.name for buffer in self.launch.buffers if buffer.judged]

    def _file(self) -> CheckOutcome:
        details: UncheckedObject = {"unset": self.unset} if self.unset else {}
        if not self.errors:
            return CheckOutcome("launch file", True, "passed", details=details)
        details["errors"] = [error.as_dict() for error in self.errors]
        reason = "; ".join(error.what for error in self.errors)
        return shared.not_run("launch file", reason, "\n".join(map(str, self.errors)), **details)

    def _values(self, log: RunLog) -> CheckOutcome:
        buffers = {buffer.name for buffer in self.launch.buffers}
        scores = [
            {
                "name": name,
                "elements": score.elements,
                "wrong": score.wrong,
                "worst": score.worst,
                "stated": score.stated,
            }
            for name, score in log.scores.items()
            if name in buffers
        ]
        details: UncheckedObject = {"outputs": scores} if scores else {}
        if self.reference is not None and log.anew:
            details["inputs drawn anew"] = {"buffers": drawn(self.launch), "outcome": log.anew}
        if self.reference is not None and fixed(self.launch):
            details["fixed inputs"] = fixed(self.launch)
        if self.reference is None:
            reason = "no reference was given (--expect): outputs were compared between schedules only"
            return shared.not_run("values", reason, **details)
        if self.reference_fault is not None:
            fault = self.reference_fault
            details["errors"] = [fault.as_dict()]
            return shared.not_run("values", fault.what, str(fault), **details)
        missing = ", ".join(name for name in self._judged if name not in log.scores)
        if not log.runs or (not scores and not log.finished):
            return shared.not_run("values", log.stopped, **details)
        if not self._judged:
            return shared.not_run("values", "the launch file has no output", **details)
        if missing:
            return shared.not_run("values", f"the reference returns nothing for {missing}", **details)
        return CheckOutcome("values", True, "passed", details=details)

    def _stages(self, log: RunLog) -> CheckOutcome:
        if not self.launch.captures:
            reason = "the launch file has no captures, and no plan defines stages"
            return CheckOutcome("stages", False, "not run", reason)
        if not log.runs:
            return shared.not_run("stages", log.stopped)
        captures = log.first.stages if log.first else {}
        details: UncheckedObject = {
            "captures": {name: len(capture.moments) for name, capture in captures.items()}
        }
        never = [name for name, capture in captures.items() if not capture.moments]
        unjudged = [name for name in captures if name not in log.scores and name not in never]
        if never:
            reason = f"{', '.join(never)} was never captured: its barrier completed no such phase"
            return shared.not_run("stages", reason, **details)
        if unjudged:
            reason = f"no reference for {', '.join(unjudged)}"
            return CheckOutcome("stages", False, "not run", reason, details=details)
        return CheckOutcome("stages", True, "passed", details=details)

    def _outputs(self, log: RunLog) -> CheckOutcome:
        if not self._judged:
            return shared.not_run("outputs", "the launch file has no output")
        if not log.finished:
            return shared.not_run("outputs", log.stopped)
        return CheckOutcome("outputs", True, "passed")

    def sections(self, log: RunLog) -> Mapping[str, JsonValue]:
        modules = [
            {"name": module.name, "ptx_sha256": module.sha256, "toolchain": module.toolchain}
            for module in self.modules.values()
        ]
        return {
            "launch": {
                "modules": modules,
                "launches": [launch.entry for launch in self.launch.launches],
                "outputs": self._judged,
                "races": self.races,
                "strict": self.options.strict,
                "printf": log.first.printf[:MAX_PRINTED] if log.first else "",
            }
        }


def _without_launches(run: RunResult) -> RunResult:
    """A result without what its launches alone have, for another process."""
    return replace(run, launches=(), captures=())


def _streams(order: StepOrder, log: RunLog, findings: Sequence[Finding]) -> CheckOutcome:
    """What nothing orders: races between launches are looked for in any order; values need several."""
    sequences = {tuple(order.under(run.schedule)) for run in log.runs if run.finished}
    details = {"unordered pairs": order.pairs, "orders": len(sequences)}
    own = [finding for finding in findings if finding.code == RACE_LAUNCHES]
    if own:
        return CheckOutcome("streams", True, "failed", own[0].message, details=details)
    if len(sequences) < 2:
        reason = f"{order.pairs} pairs of launches and copies are unordered; a single order was run"
        return CheckOutcome("streams", True, "not run", reason, details=details)
    return CheckOutcome("streams", True, "passed", details=details)
