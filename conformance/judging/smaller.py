"""A schedule that shows a finding, made small: which few actors must be late, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tileproof.conformance.judging.judged_runs import RunSetup
from tileproof.conformance.launches.placing import PlacedLaunch, symbols_of
from tileproof.emulator import Allow, LaunchResult, Schedule
from tileproof.emulator.judge import Judge, Outputs, Signature
from tileproof.emulator.shrink import shrink

FIXED = ("early", "late", "late-newest", "replay")  # they have no seed: nothing in them is by chance


@dataclass(frozen=True)
class SmallSchedule:
    """A schedule and what it does, a line each; `minimal`: the finding needs each of its decisions."""

    schedule: Schedule
    lines: tuple[str, ...]
    minimal: bool


def can_shrink(setup: RunSetup, schedules: Sequence[Schedule]) -> bool:
    """Whether a schedule can be made small: of one launch, where only schedules with a seed showed it."""
    return len(setup.launch.launches) == 1 and all(one.policy not in FIXED for one in schedules)


def smaller(
    setup: RunSetup, signature: Signature, schedules: Sequence[Schedule], seconds: float
) -> SmallSchedule | None:
    """The smallest schedule found in that time (of this process) that shows the finding, None without any."""
    launch, options = setup.launch, setup.options
    (step,) = launch.launches
    decoded = setup.modules[launch.module_of(step).name].module.decode(step.entry)
    given: dict[str, Any] = {
        "races": options.races,
        "strict": options.strict,
        "allow": [Allow.parse(one) for one in options.allow],
        "mma": options.mma,
        "symbols": symbols_of(launch, decoded),
    }

    def run(**how: Any) -> tuple[LaunchResult, Outputs]:
        placed = PlacedLaunch(launch, setup.modules)
        (result,) = placed.run(lambda number, step: {**given, **how})
        alive = [name for name in setup.first if name not in placed.freed]
        return result, {name: placed.buffers[name].numpy() for name in alive}

    first = {name: array for name, array in setup.first.items() if name not in setup.expected}
    found = shrink(Judge(run, first), signature, list(schedules), seconds=seconds)
    return SmallSchedule(found.schedule, tuple(found.lines()), found.minimal) if found.text else None
