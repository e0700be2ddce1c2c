"""A launch run once on the emulator: its steps on fresh buffers, until a finding stops a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import Arrays, KeywordsOf, PlacedLaunch
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.codes import CODES
from tileproof.emulator.options import RunKeywords
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile

BESIDE = "trap-beside"


@dataclass(frozen=True)
class Execution:
    """The buffers after the run, each launch's result by its number, and whether a finding ended it."""

    placed: PlacedLaunch
    results: dict[int, RunResult]
    stopped: bool


def execute(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    how: KeywordsOf,
    schedule: Schedule | None = None,
    instead: Arrays | None = None,
) -> Execution:
    """Runs the steps; `how(number, launch)` is passed to `Module.launch`, `schedule` chooses the order of
    steps that nothing orders, `instead`: contents that replace the file's.

    A kernel that traps beside another kernel's CTA (`trap-beside`) is run again without that CTA, and warned
    of; under `strict` it is not.

    TileproofError where a module does not hold an entry, or a launch does not fit it.
    """
    run = _execute(launch, modules, how, schedule, instead)
    refused = {
        number: tuple(replace(f, severity="warning") for f in result.errors if f.code == BESIDE)
        for number, result in run.results.items()
    }
    refused = {number: found for number, found in refused.items() if found}
    if not refused or any(how(number, launch.launches[number]).get("strict") for number in refused):
        return run

    def alone(number: int, step: KernelLaunch) -> RunKeywords:
        words = how(number, step)
        return {**words, "schedule": replace(words.get("schedule") or Schedule(), alone=True)}

    run = _execute(launch, modules, alone, schedule, instead)
    for number, warnings in refused.items():
        if number in run.results:
            result = run.results[number]
            run.results[number] = replace(result, findings=(*result.findings, *warnings))
    return run


def _execute(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    how: KeywordsOf,
    schedule: Schedule | None,
    instead: Arrays | None,
) -> Execution:
    placed = PlacedLaunch(launch, modules, instead)
    results: dict[int, RunResult] = {}
    for number, result in placed.numbered(how, schedule):
        step = launch.launches[number]
        results[number] = replace(result, module=launch.module_of(step).name, entry=step.entry)
        if any(CODES[f.code].stops for f in result.errors):
            return Execution(placed, results, True)
    return Execution(placed, results, False)
