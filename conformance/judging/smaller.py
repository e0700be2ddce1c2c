"""Shrinks a schedule that shows a finding: the few actors that must be late, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from tileproof.conformance.launches.placing import PlacedLaunch, symbols_of
from tileproof.emulator import Allow, RunResult, Schedule
from tileproof.emulator.codes import CODES
from tileproof.emulator.options import RunKeywords
from tileproof.emulator.schedule_run import OUTPUT, Outputs, ScheduleRunner, Signature
from tileproof.emulator.shrink import shrink
from tileproof.kernels.launch.model import KernelLaunch
from tileproof.spec.machine.finding import Finding

if TYPE_CHECKING:
    from tileproof.conformance.judging.launch_case import LaunchCase

FIXED = ("early", "late", "late-newest", "replay")  # they have no seed: nothing in them is by chance


@dataclass(frozen=True)
class SmallSchedule:
    """A schedule and what it does, a line each; `minimal`: the finding needs each of its decisions."""

    schedule: Schedule
    lines: tuple[str, ...]
    minimal: bool


def can_shrink(schedules: Sequence[Schedule]) -> bool:
    """Whether a schedule can be made small: where only schedules with a seed showed the finding."""
    return all(schedule.policy not in FIXED for schedule in schedules)


def smaller(
    case: LaunchCase, finding: Finding, schedules: Sequence[Schedule], seconds: float
) -> SmallSchedule | None:
    """The smallest schedule found in that time (of this process) that shows the finding, None without any.

    Of several launches, the decisions are those of the launch that has the finding; each try runs all of them
    under the same schedule, as a replay does.
    """
    signature = Signature.of(finding)
    at = _place(case, signature, schedules[0])
    if at is None:
        return None

    def run(**how: Unpack[RunKeywords]) -> tuple[RunResult, Outputs]:
        result, placed = _run(case, at, how.get("schedule") or Schedule(), how)
        alive = [name for name in case.first if name not in placed.freed]
        return result, {name: placed.buffers[name].numpy() for name in alive}

    first = {name: output.values for name, output in case.first.items() if name not in case.expected}
    found = shrink(ScheduleRunner(run, first), signature, list(schedules), seconds=seconds)
    return SmallSchedule(found.schedule, tuple(found.lines()), found.minimal) if found.finding else None


def _place(case: LaunchCase, signature: Signature, schedule: Schedule) -> int | None:
    """The launch with the finding; the last launch if it is about an output."""
    count = len(case.launch.launches)
    if count == 1 or signature.code == OUTPUT:
        return count - 1
    for number in range(count):
        result, _ = _run(case, number, schedule, {})
        if any(Signature.of(finding) == signature for finding in result.findings):
            return number
    return None


def _run(case: LaunchCase, at: int, schedule: Schedule, how: RunKeywords) -> tuple[RunResult, PlacedLaunch]:
    """All launches under a schedule, `how` for launch `at` alone; its result, or that of the one that a
    finding stopped before it.
    """
    launch, options = case.launch, case.options
    placed = PlacedLaunch(launch, case.modules)

    def given(number: int, step: KernelLaunch) -> RunKeywords:
        decoded = case.modules[launch.module_of(step).name].module.decode(step.entry)
        return {
            "schedule": schedule,
            "races": options.races,
            "strict": options.strict,
            "allow": [Allow.parse(allow) for allow in options.allow],
            "mma": options.mma,
            "symbols": symbols_of(launch, decoded),
            **(how if number == at else {}),
        }

    wanted = None
    for number, result in placed.numbered(given, schedule):
        stopped = any(CODES[error.code].stops for error in result.errors)
        if number == at or (stopped and wanted is None):
            wanted = result
        if stopped:
            break
    assert wanted is not None  # a launch file has a launch
    return wanted, placed
