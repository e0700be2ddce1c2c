"""One run under one schedule with what is wrong in it, small enough to come out of its process; all runs
together.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.judging.reference import ExpectedOutput
from tileproof.conformance.judging.runs import LIMITS, LaunchRun, RunOptions, run_once
from tileproof.conformance.judging.values import ValueScore, WrongArray, judged_values
from tileproof.conformance.launches.model import LaunchFile
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import Arrays
from tileproof.conformance.verdict.contract import Defect
from tileproof.conformance.verdict.findings import of_machine
from tileproof.emulator import Schedule
from tileproof.emulator.causes import Cause, by_cause, key
from tileproof.emulator.judge import OUTPUT, Signature, differing_bits

RACE = "race-"


@dataclass(frozen=True)
class SeenCause:
    """One cause of the machine's findings in one run; `allowed`: the user accepts it."""

    key: tuple[str, ...]
    severity: str
    defect: Defect
    signature: Signature
    allowed: bool = False


@dataclass(frozen=True)
class Differing:
    """An output whose bytes are not those of the first run: how many elements, the first, both values."""

    name: str
    wrong: int
    elements: int
    at: tuple[int, ...]
    first: float
    other: float


@dataclass(frozen=True)
class JudgedRun:
    """One run, judged. `run` is kept of the first alone."""

    schedule: Schedule
    causes: tuple[SeenCause, ...]
    scores: tuple[ValueScore, ...]
    wrong: tuple[WrongArray, ...]
    differing: tuple[Differing, ...]
    unwritten: tuple[tuple[str, int, int, int], ...]  # output, elements left, elements, the first of them
    executed: tuple[tuple[str, str, bytes], ...] = field(repr=False)
    finished: bool
    limited: bool
    points: int
    seconds: float
    run: LaunchRun | None = field(default=None, repr=False)

    @property
    def right(self) -> bool:
        """Whether nothing is wrong in it."""
        errors = any(one.severity == "error" and not one.allowed for one in self.causes)
        return not (errors or self.wrong or self.differing or self.unwritten or self.limited)


@dataclass(frozen=True)
class RunSetup:
    """What every run of a verdict shares. `first`: outputs that later runs must repeat bit for bit where no
    reference says what they should be.
    """

    launch: LaunchFile
    modules: Mapping[str, LoadedModule]
    options: RunOptions
    expected: Mapping[str, ExpectedOutput] = field(default_factory=dict)
    first: Arrays = field(default_factory=dict)

    def run(self, schedule: Schedule, seconds: float = 0.0, keep: bool = False) -> JudgedRun:
        """Runs it under a schedule and says what is wrong; `keep`: with its outputs and captures."""
        run = run_once(self.launch, self.modules, schedule, self.options, seconds=seconds)
        complete = run.finished and not run.errors
        scores: Sequence[ValueScore] = ()
        wrong: Sequence[WrongArray] = ()
        differing: tuple[Differing, ...] = ()
        if run.finished:
            scores, wrong = judged_values(run, self.expected)
        if complete:
            differing = tuple(_differing(self.first, run.outputs, self.expected))
        return JudgedRun(
            schedule=schedule,
            causes=tuple(_seen(run)),
            scores=tuple(scores),
            wrong=tuple(wrong),
            differing=differing,
            unwritten=tuple(_unwritten(run, name) for name in run.unwritten) if run.finished else (),
            executed=run.executed,
            finished=run.finished,
            limited=run.limited,
            points=run.points,
            seconds=run.seconds,
            run=run if keep else None,
        )


def _seen(run: LaunchRun) -> list[SeenCause]:
    found = []
    for allowed, findings in ((False, run.findings), (True, run.allowed)):
        kept = [one for one in findings if one.code not in LIMITS]
        for cause in by_cause(kept):
            name = key(cause.sample)
            signature = Signature.of(cause.sample)
            found.append(SeenCause(name, cause.severity, defect_of(cause), signature, allowed))
    return found


def defect_of(cause: Cause) -> Defect:
    """A cause of the machine's findings in the terms of the verdict: of the check "races" or "machine"."""
    check = "races" if cause.code.startswith(RACE) else "machine"
    made = of_machine(cause, check)
    more = [place for place in cause.places if place != cause.places[0]]
    places = (f"also at {', '.join(more[:6])}" + (", ..." if len(more) > 6 else ""),) if more else ()
    return replace(made, evidence=(*made.evidence, *places))


def _differing(first: Arrays, outputs: Arrays, expected: Mapping[str, ExpectedOutput]) -> list[Differing]:
    found = []
    for name, one in first.items():
        if name in expected:  # held against its reference, within a bound
            continue
        differ = differing_bits(name, one, outputs[name])
        if differ.any():
            at = tuple(int(i) for i in np.argwhere(differ)[0])
            found.append(
                Differing(
                    name, int(differ.sum()), int(differ.size), at, float(one[at]), float(outputs[name][at])
                )
            )
    return found


def _unwritten(run: LaunchRun, name: str) -> tuple[str, int, int, int]:
    left: npt.NDArray[np.bool_] = ~run.written[name]
    return name, int(left.sum()), int(left.size), int(np.flatnonzero(left)[0])


# ---- all runs together


class RunLog:
    """What all runs of a verdict showed, by cause."""

    def __init__(self) -> None:
        self.runs: list[JudgedRun] = []
        self._causes: dict[tuple[str, ...], tuple[SeenCause, list[Schedule]]] = {}
        self.executed: dict[tuple[str, str], list[bytes]] = {}
        self.small: dict[Signature, tuple[Schedule, tuple[str, ...]]] = {}

    def add(self, judged: JudgedRun) -> None:
        """Counts a run in."""
        self.runs.append(replace(judged, run=None, executed=()))
        for one in judged.causes:
            name = (*one.key, "allowed" if one.allowed else "")
            self._causes.setdefault(name, (one, []))[1].append(judged.schedule)
        for module, entry, bits in judged.executed:
            self.executed.setdefault((module, entry), []).append(bits)

    def defects(self, check: str, command: Sequence[str]) -> list[Defect]:
        """The errors of a check by cause, those that came first before others; `command` shows one again."""
        return [
            self._told(one, schedules, command)
            for one, schedules in self._causes.values()
            if one.severity == "error" and not one.allowed and one.defect.check == check
        ]

    def _told(self, one: SeenCause, schedules: Sequence[Schedule], command: Sequence[str]) -> Defect:
        words = f"under {len(schedules)} of {len(self.runs)} schedules, first {schedules[0]}"
        when, lines = self.small.get(one.signature, (schedules[0], ()))
        needed = ("a small schedule that shows it: " + "; ".join(lines),) if lines else ()
        evidence = (*one.defect.evidence, words, *needed)
        return replace(one.defect, evidence=evidence, replay=replayed(command, when))

    def errors(self) -> list[tuple[Signature, list[Schedule]]]:
        """Each error's signature, and the schedules that showed it."""
        seen = self._causes.values()
        return [(one.signature, when) for one, when in seen if one.severity == "error" and not one.allowed]

    def remarks(self) -> dict[str, int]:
        """What is no error: "severity code: message" and under how many schedules."""
        return {
            f"{'allowed' if one.allowed else one.severity} {one.defect.code}: {one.defect.message}": len(
                where
            )
            for one, where in self._causes.values()
            if one.severity != "error" or one.allowed
        }


def replayed(command: Sequence[str], schedule: Schedule) -> str:
    """The command that runs one schedule again."""
    return shlex.join([*command, "--policy", str(schedule)]) if command else ""


def differing_defect(one: Differing, schedule: Schedule, base: Schedule, command: Sequence[str]) -> Defect:
    """An output that depends on the schedule, in the terms of the verdict."""
    return Defect(
        check="schedules",
        code=OUTPUT,
        message=f"{one.name} depends on the schedule: it is another under {schedule} than under {base}",
        where=f"{one.name}{list(one.at)}",
        expected=one.first,
        found=one.other,
        wrong=one.wrong,
        elements=one.elements,
        replay=replayed(command, schedule),
    )
