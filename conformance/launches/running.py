"""A launch run once on the emulator: its steps on fresh buffers, until a finding stops one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import Arrays, PlacedLaunch
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.codes import CODES
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile


@dataclass(frozen=True)
class Execution:
    """The buffers after the run, each launch's result by its number, and whether a finding ended it."""

    placed: PlacedLaunch
    results: dict[int, RunResult]
    stopped: bool


def execute(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    how: Callable[[int, KernelLaunch], dict[str, Any]],
    schedule: Schedule | None = None,
    instead: Arrays | None = None,
) -> Execution:
    """Runs the steps; `how(number, launch)` is passed to `Module.launch`, `schedule` chooses the order of
    steps that nothing orders, `instead` are contents in the place of the file's.

    TileproofError where a module does not hold an entry, or a launch does not fit it.
    """
    placed = PlacedLaunch(launch, modules, instead)
    results: dict[int, RunResult] = {}
    for number, result in placed.numbered(how, schedule):
        step = launch.launches[number]
        results[number] = replace(result, module=launch.module_of(step).name, entry=step.entry)
        if any(CODES[f.code].stops for f in result.errors):
            return Execution(placed, results, True)
    return Execution(placed, results, False)
