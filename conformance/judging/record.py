"""What is known of a launch file while it is judged, and the verdict that it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tileproof.conformance.judging.judged_runs import (
    Differing,
    JudgedRun,
    RunLog,
    differing_defect,
    replayed,
)
from tileproof.conformance.judging.runs import LaunchRun, RunOptions
from tileproof.conformance.judging.values import ValueScore, WrongArray, as_defect
from tileproof.conformance.launches.model import LaunchFile
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.order import StepOrder
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    Defect,
    JudgedProgram,
    OrderOnly,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
)
from tileproof.emulator import Schedule
from tileproof.emulator.inspect import EntryInfo
from tileproof.emulator.schedule import SEEDED
from tileproof.spec.machine.errors import TileproofError

RACE_LAUNCHES = "race-launches"
MOST_LINES = 20
MOST_PRINTED = 4000  # characters of what the kernels print


class Outcomes:
    """Everything that a verdict is made of, filled as it becomes known."""

    def __init__(
        self, launch: LaunchFile, seed: int, command: Sequence[str], options: RunOptions, has_reference: bool
    ) -> None:
        self.launch, self.seed, self.command, self.options = launch, seed, tuple(command), options
        self.has_reference = has_reference
        self.order = StepOrder(launch)
        self.pairs = self.order.pairs
        self.modules: Mapping[str, LoadedModule] = {}
        self.entries: Mapping[tuple[str, str], EntryInfo] = {}
        self.contradictions: list[TileproofError] = []
        self.unset: list[str] = []
        self.reference_fault: TileproofError | None = None
        self.log = RunLog()
        self.first: LaunchRun | None = None
        self.faults: list[tuple[Schedule, str, TileproofError | None]] = []
        self.wrong: dict[str, tuple[Schedule, WrongArray]] = {}
        self.wrong_under: Counter[str] = Counter()
        self.causes: dict[str, str] = {}
        self.probes: dict[str, tuple[str, ...]] = {}
        self.differing: dict[str, tuple[Schedule, Differing]] = {}
        self.scores: dict[str, ValueScore] = {}
        self.unwritten: dict[str, tuple[Schedule, int, int, int]] = {}
        self.planned = 0
        self.left_out = 0
        self.interrupted = False

    def note(self, judged: JudgedRun) -> None:
        """Counts in what is wrong with the values of a run."""
        for one in judged.wrong:
            self.wrong.setdefault(one.name, (judged.schedule, one))
            self.wrong_under[one.name] += 1
        for differing in judged.differing:
            self.differing.setdefault(differing.name, (judged.schedule, differing))
        for name, left, elements, at in judged.unwritten:
            self.unwritten.setdefault(name, (judged.schedule, left, elements, at))
        for score in judged.scores:
            before = self.scores.get(score.name)
            if before is None or score.wrong > before.wrong or score.worst > before.worst:
                self.scores[score.name] = score

    @property
    def refused(self) -> list[str]:
        """Forms that the emulator does not execute, a line each."""
        lines = []
        for entry in self.entries.values():
            lines += [
                f"{one.form} ({one.count}, PTX line {one.lines[0]}): {one.why}" for one in entry.not_executed
            ]
            lines += [problem.splitlines()[0] for problem in entry.problems]
        return lines

    @property
    def defects(self) -> list[Defect]:
        """What is wrong, those that say most first."""
        made = [*self.log.defects("machine", self.command), *self.log.defects("races", self.command)]
        for name, (schedule, one) in self.wrong.items():
            check = "stages" if one.stage else "values"
            defect = as_defect(one, check, self.causes.get(name, ""), replay=replayed(self.command, schedule))
            words = f"under {self.wrong_under[name]} of {len(self.log.runs)} schedules, first {schedule}"
            told = tuple(self.probes.get(name, ()))
            made.append(replace(defect, evidence=(*told, words)))
        for name, (schedule, left, elements, at) in self.unwritten.items():
            made.append(
                Defect(
                    check="outputs",
                    code="output-unwritten",
                    message=f"{left} of {elements} elements of output {name} were never written",
                    where=f"{name}, element {at} in C order",
                    wrong=left,
                    elements=elements,
                    replay=replayed(self.command, schedule),
                )
            )
        base = self.log.runs[0].schedule if self.log.runs else Schedule()
        made += [differing_defect(one, when, base, self.command) for when, one in self.differing.values()]
        return made

    @property
    def machine_errors(self) -> bool:
        """Whether the machine found anything that changes values: errors that are no race."""
        return bool(self.log.defects("machine", ()))

    @property
    def launch_outputs(self) -> list[str]:
        """The names of the outputs."""
        return [one.name for one in self.launch.buffers if one.judged]

    @property
    def found(self) -> int:
        """How many defects are known."""
        return len(self.defects)

    @property
    def is_wrong(self) -> bool:
        """Whether anything is."""
        return bool(self.defects or self.faults)


# ---- the checks


def _checks(made: Outcomes, defects: Sequence[Defect]) -> list[CheckOutcome]:
    checks = [_file(made)]
    if made.contradictions:
        return checks
    refused = made.refused
    reason = "; ".join(refused[:3]) + (f" and {len(refused) - 3} more" if len(refused) > 3 else "")
    details = {"not_executed": refused[:MOST_LINES]} if refused else {}
    checks.append(
        CheckOutcome("instructions", True, "unsupported" if refused else "passed", reason, details=details)
    )
    if refused:
        return checks
    ran = bool(made.log.runs)
    checks += [_machine(made, defects, ran), _races(made, defects, ran), _values(made, defects, ran)]
    if made.launch.captures:
        checks.append(_stages(made, defects, ran))
    checks += [_outputs(made, defects, ran), _schedules(made, defects, ran)]
    if made.pairs:
        checks.append(_streams(made, defects))
    return checks


def _streams(made: Outcomes, defects: Sequence[Defect]) -> CheckOutcome:
    """What nothing orders: races between launches are looked for in any order; values need several."""
    sequences = {tuple(made.order.under(judged.schedule)) for judged in made.log.runs if judged.finished}
    details = {"unordered pairs": made.pairs, "orders": len(sequences)}
    own = [one for one in defects if one.code == RACE_LAUNCHES]
    if own:
        return CheckOutcome("streams", True, "failed", own[0].message, details=details)
    if len(sequences) < 2:
        told = f"{made.pairs} pairs of launches and copies have no order between them, and one order was run"
        return CheckOutcome("streams", True, "not run", told, details=details)
    return CheckOutcome("streams", True, "passed", details=details)


def _file(made: Outcomes) -> CheckOutcome:
    details: dict[str, Any] = {"unset": made.unset} if made.unset else {}
    if made.contradictions:
        details["errors"] = [one.as_dict() for one in made.contradictions]
        told = "; ".join(one.what for one in made.contradictions)
        fault = "\n".join(map(str, made.contradictions))
        return CheckOutcome("launch file", True, "not run", told, fault, details=details)
    return CheckOutcome("launch file", True, "passed", details=details)


def _of(name: str, defects: Sequence[Defect], otherwise: CheckOutcome) -> CheckOutcome:
    own = [one for one in defects if one.check == name]
    if own:
        return CheckOutcome(name, True, "failed", own[0].message, details=otherwise.details)
    return otherwise


def _not_run(name: str, reason: str, fault: str = "", **details: Any) -> CheckOutcome:
    return CheckOutcome(name, True, "not run", reason, fault, details=details)


def _stopped(made: Outcomes) -> str:
    return "it was interrupted" if made.interrupted else "no run came to its end"


def _machine(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    details: dict[str, Any] = {"remarks": made.log.remarks()} if made.log.remarks() else {}
    if made.faults:
        schedule, text, error = made.faults[0]
        details["faults"] = [one[1] for one in made.faults]
        if error is not None:
            details["errors"] = [error.as_dict()]
        name = CheckOutcome(
            "machine", True, "not run", f"a run under {schedule} failed", text, details=details
        )
        return _of("machine", defects, name)
    limited = [judged for judged in made.log.runs[:3] if judged.limited]
    if limited or not ran:
        reason = f"{limited[0].schedule} did not end within the time" if limited else _stopped(made)
        return _of("machine", defects, _not_run("machine", reason, **details))
    return _of("machine", defects, CheckOutcome("machine", True, "passed", details=details))


def _races(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    if not made.options.races:
        return _not_run("races", "they were left out (--no-races)")
    passed = CheckOutcome("races", True, "passed")
    whole = any(not judged.limited for judged in made.log.runs)
    return _of("races", defects, passed if ran and whole else _not_run("races", _stopped(made)))


def _values(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    scores = [score for name, score in made.scores.items() if name in {b.name for b in made.launch.buffers}]
    details: dict[str, Any] = {"outputs": [vars(one) for one in scores]} if scores else {}
    if not made.has_reference:
        told = "no reference was given (--expect): outputs were compared between schedules only"
        return _not_run("values", told, **details)
    if made.reference_fault is not None:
        details["errors"] = [made.reference_fault.as_dict()]
        return _not_run("values", made.reference_fault.what, str(made.reference_fault), **details)
    left = [one.name for one in made.launch.buffers if one.judged and one.name not in made.scores]
    passed = CheckOutcome("values", True, "passed", details=details)
    if not ran or not scores:
        why = "no run came to its end" if made.launch_outputs else "the launch file names no output"
        passed = _not_run("values", _stopped(made) if not ran else why, **details)
    elif left:
        passed = _not_run("values", f"the reference says nothing of {', '.join(left)}", **details)
    return _of("values", defects, passed)


def _stages(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    captures = made.first.captures if made.first else {}
    details: dict[str, Any] = {"captures": {name: len(one.moments) for name, one in captures.items()}}
    never = [name for name, one in captures.items() if not one.moments]
    unjudged = [name for name in captures if name not in made.scores and name not in never]
    if not ran:
        return _not_run("stages", _stopped(made))
    if never:
        told = f"nothing was captured of {', '.join(never)}: its barrier completed no such phase"
        return _of("stages", defects, _not_run("stages", told, **details))
    if unjudged:
        told = f"no reference says what {', '.join(unjudged)} should hold"
        return _of("stages", defects, CheckOutcome("stages", False, "not run", told, details=details))
    return _of("stages", defects, CheckOutcome("stages", True, "passed", details=details))


def _outputs(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    if not made.launch_outputs:
        return _not_run("outputs", "the launch file names no output")
    finished = any(judged.finished for judged in made.log.runs)
    passed = CheckOutcome("outputs", True, "passed")
    return _of("outputs", defects, passed if ran and finished else _not_run("outputs", _stopped(made)))


def _schedules(made: Outcomes, defects: Sequence[Defect], ran: bool) -> CheckOutcome:
    ended = [judged for judged in made.log.runs if not judged.limited]
    details: dict[str, Any] = {"run": len(ended), "planned": made.planned, "left_out": made.left_out}
    if len(ended) < 2:
        return _of("schedules", defects, _not_run("schedules", f"{len(ended)} schedules were run", **details))
    return _of("schedules", defects, CheckOutcome("schedules", True, "passed", details=details))


# ---- the verdict


def verdict(made: Outcomes) -> VerdictRecord:
    """The verdict on what is known."""
    defects = made.defects
    checks = _checks(made, defects)
    coverage, order_only = _covered(made)
    return programs.record(
        _program(made),
        made.seed,
        checks,
        findings=defects,
        coverage=coverage,
        order_only=order_only,
        schedules=_schedules_run(made.log.runs),
        sections={"launch": _section(made)},
        interrupted=made.interrupted,
    )


def refused(name: str, seed: int, error: TileproofError) -> VerdictRecord:
    """The verdict where there is not even a launch file, or its reference cannot be read."""
    check = CheckOutcome(
        "launch file", True, "not run", error.what, str(error), details={"errors": [error.as_dict()]}
    )
    return programs.record(programs.program(name, {}, "", ""), seed, [check])


def _program(made: Outcomes) -> JudgedProgram:
    """Of several modules the texts one after another are hashed; `sections` has each alone."""
    used = list(dict.fromkeys(made.launch.module_of(one).name for one in made.launch.launches))
    loaded = [made.modules[name] for name in used if name in made.modules]
    entries = ", ".join(dict.fromkeys(one.entry for one in made.launch.launches))
    text, by = "".join(one.ptx for one in loaded), "; ".join(sorted({one.toolchain for one in loaded} - {""}))
    return programs.program(made.launch.name, {}, entries, text, by)


def _covered(made: Outcomes) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
    """What all runs covered of all entries together."""
    coverage, only = programs.covered_together(
        (made.modules[module].module.decode(entry), executed)
        for (module, entry), executed in made.log.executed.items()
    )
    launched = {(made.launch.module_of(one).name, one.entry) for one in made.launch.launches}
    return (None if launched - set(made.log.executed) else coverage), only


def _schedules_run(runs: Sequence[JudgedRun]) -> tuple[SchedulesRun, ...]:
    found: dict[str, list[int]] = {}
    for judged in runs:
        found.setdefault(judged.schedule.policy, []).append(judged.schedule.seed)
    return tuple(
        SchedulesRun(policy, len(seeds), len(set(seeds)) if policy in SEEDED else 0)
        for policy, seeds in sorted(found.items())
    )


def _section(made: Outcomes) -> dict[str, Any]:
    return {
        "modules": [
            {"name": one.name, "ptx_sha256": one.sha256, "toolchain": one.toolchain}
            for one in made.modules.values()
        ],
        "launches": [one.entry for one in made.launch.launches],
        "outputs": [one.name for one in made.launch.buffers if one.judged],
        "races": made.options.races,
        "strict": made.options.strict,
        "printf": made.first.printf[:MOST_PRINTED] if made.first else "",
    }
