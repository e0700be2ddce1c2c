"""All runs of a case: findings by cause, with the schedules that showed each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tileproof.conformance.compare.compare import StageScore
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.values import WrongArray
from tileproof.conformance.processes.children import ChildResult
from tileproof.emulator.schedule_run import OUTPUT
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_causes import key
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import JsonObject

CauseKey = tuple[str, ...]
ANEW = "only with other draws of the inputs: the result does not follow from the inputs alone"


def cause_key(finding: Finding) -> CauseKey:
    """What makes findings of several runs a single cause: an output or stage is wrong in one way; other
    findings have their place on the machine and in the problem.
    """
    at = finding.problem
    return (finding.check, at.array) if at.array else (*key(finding), at.stage)


@dataclass
class SeenCause:
    """A cause: its first finding, and the schedules that showed it; `cause` and `evidence` are what was
    learned of it after its run, `small` a small schedule that shows it and what that schedule does.
    """

    finding: Finding
    schedules: list[Schedule] = field(default_factory=list)
    array: WrongArray | None = None
    cause: str | None = None
    evidence: tuple[str, ...] = ()
    small: tuple[Schedule, tuple[str, ...]] | None = None
    anew: bool = False  # only the run with other inputs showed it

    def reported(self, runs: int, base: Schedule, command: Sequence[str]) -> Finding:
        """The finding with all of that; `runs` were made, the first under `base`; `command` repeats it."""
        if self.anew:
            return replace(
                self.finding, evidence=(*self.finding.evidence, ANEW), replay=replayed(command, base)
            )
        words = f"under {len(self.schedules)} of {runs} schedules, first {self.schedules[0]}"
        when, lines = self.small or (self.schedules[0], ())
        needed = ("a small schedule that shows it: " + "; ".join(lines),) if lines else ()
        shown = (base, when) if self.finding.code == OUTPUT else (when,)
        return replace(
            self.finding,
            cause=self.cause or self.finding.cause,
            evidence=(*self.finding.evidence, *self.evidence, words, *needed),
            replay=replayed(command, *shown),
        )


@dataclass(frozen=True)
class FailedRun:
    """A run that gave nothing: an error of the launch, or how its process ended."""

    schedule: Schedule
    text: str
    error: TileproofError | None


class RunLog:
    """All runs of a case, filled as they end."""

    def __init__(self) -> None:
        self.runs: list[JudgedRun] = []
        self.failed_runs: list[FailedRun] = []
        self.causes: dict[CauseKey, SeenCause] = {}
        self.scores: dict[str, StageScore] = {}
        self.remarks: Counter[str] = Counter()
        self.executed: dict[tuple[str, str], list[bytes]] = {}
        self.first: RunResult | None = None
        self.anew = ""  # what the run with other inputs showed: "passed", or why there was none
        self.planned = 0
        self.skipped_runs = 0
        self.interrupted = False
        self.certified = False  # the certificates of its runs made other schedules unnecessary

    def reversals(self) -> dict[str, str]:
        """The schedules constructed for the reasons of the first run's certificate, each with its reason."""
        found = self.runs[0].certificate if self.runs else None
        return found.reversals if found is not None else {}

    def reversed_runs(self) -> list[JsonObject]:
        """Those of `reversals` that ran: the reason, the schedule, and the findings that the first run does
        not show.
        """
        ran = [run.schedule for run in self.runs]
        known = self.reversals()
        return [
            {
                "reason": known[str(schedule)],
                "schedule": str(schedule),
                "shows": [
                    seen.finding.code
                    for seen in self.causes.values()
                    if schedule in seen.schedules and ran[0] not in seen.schedules
                ],
            }
            for schedule in ran[1:]
            if str(schedule) in known
        ]

    def note(self, schedule: Schedule, done: ChildResult[JudgedRun]) -> None:
        """Counts in what a run's process returned."""
        if done.value is not None:
            self.add(schedule, done.value)
        elif done.error is not None:
            self.failed_runs.append(FailedRun(schedule, str(done.error), done.error))
        else:
            text = f"the run under {schedule} gave no result: {done.fault}"
            self.failed_runs.append(FailedRun(schedule, text, None))

    def note_anew(self, schedule: Schedule, done: ChildResult[JudgedRun | None]) -> None:
        """Counts in the run with other inputs: what no other run may show too."""
        run = done.value
        if run is None:
            self.anew = str(done.error or done.fault or "")
            return
        self.anew = "passed" if run.finished and not run.ended_by else "it was stopped"
        for finding in run.findings:
            if cause_key(finding) not in self.causes:
                self.causes[cause_key(finding)] = SeenCause(finding, [schedule], anew=True)
        for module, entry, bits in run.executed:
            self.executed.setdefault((module, entry), []).append(bits)

    def add(self, schedule: Schedule, run: JudgedRun) -> None:
        """Counts in a run."""
        self.runs.append(replace(run, schedule=schedule, result=None, executed=(), wrong=()))
        arrays = {array.name: array for array in reversed(run.wrong)}
        for finding in run.findings:
            seen = self.causes.setdefault(cause_key(finding), SeenCause(finding))
            if seen.anew:  # it needs no other inputs
                seen.anew, seen.finding, seen.schedules = False, finding, []
            seen.array = seen.array or arrays.get(finding.problem.array)
            if schedule not in seen.schedules:  # several findings of one run may share a cause
                seen.schedules.append(schedule)
        for name, score in run.scores.items():
            if name not in self.scores or score.worse_than(self.scores[name]):
                self.scores[name] = score
        self.remarks.update(run.remarks.keys())
        for module, entry, bits in run.executed:
            self.executed.setdefault((module, entry), []).append(bits)

    def findings(self, command: Sequence[str] = (), checks: Sequence[str] = ()) -> list[Finding]:
        """The findings, a cause each, in the order of `checks` and there as they came."""
        base = self.base
        found = [seen.reported(len(self.runs), base, command) for seen in self.causes.values()]
        places = {name: place for place, name in enumerate(checks)}
        return sorted(found, key=lambda finding: places.get(finding.check, len(places)))

    @property
    def base(self) -> Schedule:
        """The first run's schedule."""
        return self.runs[0].schedule if self.runs else Schedule()

    @property
    def is_wrong(self) -> bool:
        """Whether any run showed a finding, or gave nothing."""
        return bool(self.causes or self.failed_runs)

    @property
    def finished(self) -> bool:
        """Whether a run came to its end."""
        return any(run.finished for run in self.runs)

    @property
    def stopped(self) -> str:
        """Why a check has no result."""
        return "it was interrupted" if self.interrupted else "no run ended"


def replayed(command: Sequence[str], *schedules: Schedule) -> str:
    """The command that runs these schedules again."""
    policies = [word for schedule in schedules for word in ("--policy", str(schedule))]
    return shlex.join([*command, *policies]) if command else ""
