"""Runs a launch under many schedules: what they find, and whether its outputs depend on the schedule.

The launch is a function of a schedule; its computation does not matter here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack, get_args

import numpy as np
from tileproof.emulator.coverage import union
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.forked import forked
from tileproof.emulator.options import LaunchKeywords
from tileproof.emulator.schedule_run import (
    ALLOWED,
    Compare,
    Launch,
    Outcome,
    Outputs,
    ScheduleRunner,
    Seen,
    Signature,
    differing_bits,
)
from tileproof.emulator.shrink import Shrunk, shrink
from tileproof.spec.machine.certificate import Certificate
from tileproof.spec.machine.errors import did_you_mean
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import SEEDED, Policy, Schedule

Progress = Callable[[str, int, int], None]
EXPLORED: tuple[Policy, ...] = tuple(policy for policy in get_args(Policy) if policy != "replay")
# Of the schedules with a seed, how many of each policy come in one round.
_ROUND: tuple[Policy, ...] = (
    "starve", "pct", "random", "starve", "pct", "random", "starve", "pct", "late-random",
)  # fmt: skip
_DEPTHS = (2, 3, 4, 3, 5)


@dataclass(frozen=True)
class ExploredCause:
    """One cause: the schedules that showed `signature`, the finding in the first, and a small schedule.

    Where several signatures have this cause, `places` are theirs, `seen_by` the schedules that showed any.
    """

    signature: Signature
    severity: str
    finding: Finding
    schedules: tuple[Schedule, ...]
    shrunk: Shrunk | None = None
    cause: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    seen_by: tuple[Schedule, ...] = ()

    @property
    def smallest(self) -> Finding:
        """The finding as its small schedule shows it, else as the first schedule did."""
        return self.shrunk.finding if self.shrunk and self.shrunk.finding else self.finding

    @property
    def runs(self) -> int:
        """How many schedules showed it."""
        return len(self.seen_by or self.schedules)

    @property
    def by_policy(self) -> dict[str, int]:
        """How many schedules of each policy showed it."""
        return dict(Counter(schedule.policy for schedule in self.seen_by or self.schedules))


@dataclass(frozen=True)
class Reversal:
    """A reason why a launch is not certified, the schedule that reverses its two events, and the first
    signatures of this schedule that `early` lacks: empty if the outcome is the same.
    """

    reason: str
    schedule: Schedule
    shows: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.shows)) or "the same findings and outputs as early"
        return f"{self.reason}; the other order, {self.schedule}: {shown}"


@dataclass
class Exploration:
    """What `explore` found: `causes` with the errors first, and the schedules that ran; `executed`: what
    their launches executed together (`coverage`); `interrupted`: not all that were
    `planned` ran, or not every cause was made small. `certificate`: of the run under `early`, where race
    checking is on; `covered`: it made all other planned schedules unnecessary. `reversals`: the schedules
    constructed for the reasons why it is not certified, which ran as well.
    """

    schedules: int = 0
    seconds: float = 0.0
    policies: dict[str, int] = field(default_factory=dict)
    causes: list[ExploredCause] = field(default_factory=list)
    points: int = 0
    executed: bytes = field(default=b"", repr=False)
    planned: int = 0
    interrupted: bool = False
    certificate: Certificate | None = None
    covered: bool = False
    reversals: tuple[Reversal, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a schedule showed an error."""
        return any(explored.severity == "error" for explored in self.causes)


def planned(
    count: int, policies: Sequence[Policy] = EXPLORED, seed: int = 0, points: int = 4096
) -> list[Schedule]:
    """`count` schedules of these policies: those without a seed once, then rounds of the others.

    `points`: scheduling points of a run, for "pct". LaunchError for a policy that cannot be explored.
    """
    for policy in policies:
        if policy not in EXPLORED:
            raise LaunchError(
                "unknown schedule policy", expected=", ".join(EXPLORED), found=repr(policy),
                do=did_you_mean(str(policy), EXPLORED),
            )  # fmt: skip
    schedules = [Schedule(policy) for policy in EXPLORED if policy in policies and policy not in SEEDED]
    turns = [policy for policy in _ROUND if policy in policies]
    number: Counter[str] = Counter()
    while turns and len(schedules) < count:
        policy = turns[sum(number.values()) % len(turns)]
        at = seed + number[policy]
        depth = _DEPTHS[number[policy] % len(_DEPTHS)]
        number[policy] += 1
        pct = policy == "pct"
        schedules.append(Schedule(policy, at, depth, points) if pct else Schedule(policy, at))
    return schedules[:count]


def collect(outcomes: Iterable[Outcome]) -> list[ExploredCause]:
    """The distinct findings, errors first, then by how many schedules showed them."""
    schedules: dict[Signature, list[Schedule]] = {}
    first: dict[Signature, Seen] = {}
    for outcome in outcomes:
        for seen in outcome.seen:
            schedules.setdefault(seen.signature, []).append(outcome.schedule)
            first.setdefault(seen.signature, seen)
    order = {"error": 0, "warning": 1, "note": 2, ALLOWED: 3}
    found = []
    for signature, where in schedules.items():
        seen = first[signature]
        found.append(ExploredCause(signature, seen.severity, seen.finding, tuple(where), cause=seen.cause))
    causes: dict[object, list[ExploredCause]] = {}
    for explored in sorted(found, key=lambda d: (order[d.severity], -d.runs, d.signature)):
        causes.setdefault(
            (explored.severity, explored.cause) if explored.cause else explored.signature, []
        ).append(explored)
    return [_merged(alike) for alike in causes.values()]


def _merged(alike: Sequence[ExploredCause]) -> ExploredCause:
    """Merge findings with the same cause: the first finding, with the schedules and places of all."""
    if len(alike) == 1:
        return alike[0]
    schedules = dict.fromkeys(schedule for explored in alike for schedule in explored.schedules)
    return replace(
        alike[0], places=tuple(explored.signature.place for explored in alike), seen_by=tuple(schedules)
    )


def _new(outcome: Outcome, before: frozenset[Signature]) -> tuple[Signature, ...]:
    """The findings of a run that are not in `before`, without remarks."""
    seen = (found.signature for found in outcome.seen if found.severity in ("error", "warning"))
    return tuple(signature for signature in seen if signature not in before)


def first_outputs(launch: Launch, **how: Unpack[LaunchKeywords]) -> tuple[Outputs, int]:
    """Outputs of the first schedule that has no error (early, late, late-newest; none if each has an error),
    and the scheduling points of a late run.
    """
    outputs: Outputs = {}
    points = 0
    for policy in ("early", "late", "late-newest"):
        result, out = launch(schedule=Schedule(policy), **how)  # type: ignore[arg-type]
        if not outputs and not result.errors:
            outputs = {name: np.array(array) for name, array in out.items()}
        points = max(points, result.counters.schedule_points)
    return outputs, points


def explore(
    launch: Launch,
    *,
    schedules: int | Sequence[Schedule] = 100,
    policies: Sequence[Policy] = EXPLORED,
    seed: int = 0,
    compare: Compare = differing_bits,
    processes: int = 2,
    shrink_seconds: float = 20.0,
    progress: Progress = lambda what, done, total: None,
    skip: int = 0,
    sample: bool = False,
    interrupts: tuple[type[BaseException], ...] = (),
    **how: Unpack[LaunchKeywords],
) -> Exploration:
    """Run `launch` under that many schedules, or under those given, and shrink a schedule for each error and
    warning.

    With race checking, `early` runs first. If that run is certified for all schedules, no other schedule of a
    number of schedules runs, unless `sample`. If a reason why it is not certified has a schedule in which its
    two events come the other way, this schedule runs before the others and is compared with `early`.

    `launch(schedule=..., **how)` makes fresh buffers, runs `Module.launch` with what it is given and returns
    the result and the arrays that must not depend on the schedule; `compare` returns the elements that
    differ too much. Runs are spread over `processes` forked processes. `shrink_seconds`:
    CPU time a finding, 0 for none. The same arguments give the same findings, except where shrinking ran out
    of time. A TileproofError of the launch is raised. `skip`: the number of planned schedules to skip. An
    exception of `interrupts` ends it with the results so far.
    """
    began = time.monotonic()
    counted = isinstance(schedules, int)
    if isinstance(schedules, int):
        planned(1, policies)  # before a launch: whether they can be explored
    before: frozenset[Signature] = frozenset()
    certificate, reversing = None, dict[Schedule, str]()
    if how.get("races"):
        early, result = ScheduleRunner(launch).run(Schedule("early"), **how)
        before, certificate = frozenset(seen.signature for seen in early.seen), result.certificate
        if certificate and counted and not sample:
            return _covered(early, certificate, time.monotonic() - began)
    if certificate is not None and counted and not skip:
        reversing = {Schedule.parse(text): why for text, why in certificate.reversals.items()}
    first, points = first_outputs(launch, **how)
    plan = planned(schedules, policies, seed, points) if isinstance(schedules, int) else list(schedules)
    plan = [*reversing, *plan[skip:]][: len(plan) - skip]
    runner = ScheduleRunner(launch, first, compare)
    made = Exploration(points=points, planned=len(plan), certificate=certificate)
    outcomes: list[Outcome] = []
    try:
        for outcome in forked(lambda schedule: runner.run(schedule, **how)[0], plan, processes):
            made.executed = union(bits for bits in (made.executed, outcome.executed) if bits)
            outcomes.append(replace(outcome, executed=b""))
            progress("schedules", len(outcomes), len(plan))
    except interrupts:
        made.interrupted = True
    made.schedules = len(outcomes)
    made.policies = dict(Counter(schedule.policy for schedule in plan[: len(outcomes)]))
    made.causes = collect(outcomes)
    made.reversals = tuple(
        Reversal(reversing[outcome.schedule], outcome.schedule, _new(outcome, before))
        for outcome in outcomes
        if outcome.schedule in reversing
    )

    def small(explored: ExploredCause) -> Shrunk:
        return shrink(runner, explored.signature, explored.schedules, seconds=shrink_seconds, **how)

    if shrink_seconds > 0 and not made.interrupted:
        _shrink(made, small, processes, progress, interrupts)
    made.seconds = time.monotonic() - began
    return made


def _covered(outcome: Outcome, certificate: Certificate, seconds: float) -> Exploration:
    """The result of the run under `early` that made all other schedules unnecessary."""
    return Exploration(
        schedules=1,
        seconds=seconds,
        policies={"early": 1},
        causes=collect([outcome]),
        points=outcome.points,
        executed=outcome.executed,
        planned=1,
        certificate=certificate,
        covered=True,
    )


def _shrink(
    made: Exploration,
    small: Callable[[ExploredCause], Shrunk],
    processes: int,
    progress: Progress,
    interrupts: tuple[type[BaseException], ...],
) -> None:
    """Add a small schedule to each error and warning, until an interrupt."""
    wanted = [explored for explored in made.causes if explored.severity in ("error", "warning")]
    try:
        for number, shrunk in enumerate(forked(small, wanted, processes), 1):
            at = next(i for i, explored in enumerate(made.causes) if explored.signature == shrunk.signature)
            made.causes[at] = replace(made.causes[at], shrunk=shrunk)
            progress("shrinking", number, len(wanted))
    except interrupts:
        made.interrupted = True
