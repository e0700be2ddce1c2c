"""The case of a kernel with a plan: the stages of a problem are expected to be within their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tileproof.conformance.check.not_judged import not_judged
from tileproof.conformance.check.result import scores_as_dict
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.judging import checks as shared
from tileproof.conformance.judging.case import Case
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.judging.machine import check_of
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import CheckOutcome, JudgedProgram
from tileproof.emulator import Module, Schedule
from tileproof.emulator.inspect import EntryInfo
from tileproof.emulator.program import Decoded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import JsonValue, UncheckedObject
from tileproof.spec.problems.cases import AnyCase

# The check that a finding belongs to, by its kind; a machine finding: `check_of`.
CHECKS: Mapping[str, str] = {
    "value": "stages", "missing": "stages", "surplus": "stages", "chain": "values", "disagree": "agreement",
}  # fmt: skip


@dataclass
class StageCase(Case):
    """A case of the problem of a kernel's plan, on both builds. `saved_under`: the schedule to run first."""

    under_test: KernelUnderTest
    case: AnyCase
    saved_under: Schedule | None = None
    errors: list[TileproofError] = field(default_factory=list)

    @property
    def races(self) -> bool:
        return "races" in self.under_test.driver.capabilities

    @property
    def program(self) -> JudgedProgram:
        under, built = self.under_test, self.under_test.production
        return programs.program(under.kernel.name, dict(under.variant.sizes), built.entry, built.ptx)

    @cached_property
    def _module(self) -> Module:
        return Module.from_ptx(self.under_test.production.ptx)

    def prepare(self) -> None:
        """Nothing: both builds are made."""

    def entries(self) -> Sequence[EntryInfo]:
        return [self._module.inspect_entry(self.under_test.production.entry)]

    def decoded(self, module: str, entry: str) -> Decoded:
        del module
        return self._module.decode(entry)

    def first_schedules(self, seed: int) -> list[Schedule]:
        before = [] if self.saved_under is None else [self.saved_under]
        return [*before, *(schedule for schedule in super().first_schedules(seed) if schedule not in before)]

    def run(self, schedule: Schedule, seconds: float, first: bool) -> JudgedRun:
        del seconds  # the process that runs it is ended at the deadline
        made = run_case(self.under_test, self.case, schedule, again=first)
        made.findings = [
            replace(finding, check=CHECKS.get(finding.kind) or check_of(finding)) for finding in made.findings
        ]
        return made

    def checks(self, log: RunLog, findings: Sequence[Finding]) -> Iterator[CheckOutcome]:
        refused = self.refused
        yield shared.instructions(refused)
        if refused:
            return
        yield shared.machine(log, findings)
        yield shared.races(log, findings, self.races)
        ended = log.runs and not log.failed_runs
        for name in ("stages", "values", "agreement"):
            details: UncheckedObject = {"stages": scores_as_dict(log.scores)} if name == "stages" else {}
            passed = CheckOutcome(name, True, "passed", details=details)
            outcome = passed if ended else shared.not_run(name, log.stopped, **details)
            yield shared.failed_or(name, findings, outcome)
        yield shared.schedules(log, findings)
        for line in not_judged(self.under_test.plan(), self.under_test.driver, bool(self.under_test.probe)):
            yield CheckOutcome("not judged", False, "not run", line)

    def sections(self, log: RunLog) -> Mapping[str, JsonValue]:
        del log
        problem = self.under_test.plan().problem.name
        return {"case": {"problem": problem, "case": self.case.as_json()}}
