"""A launch file run once: findings, outputs, captured stages, what was executed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tileproof.conformance.judging.stages import CapturedStage, captured
from tileproof.conformance.launches.model import KernelLaunch, LaunchFile
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import Arrays, PlacedLaunch, symbols_of, taps_of
from tileproof.emulator import Allow, Finding, LaunchResult, Schedule
from tileproof.emulator.causes import Cause, by_cause, divide
from tileproof.emulator.codes import CODES
from tileproof.emulator.result import TapRecord

LIMITS = ("time-limit", "instruction-limit")  # findings that say where the tool stopped, not what is wrong


@dataclass(frozen=True)
class RunOptions:
    """What every run of a launch file is given."""

    races: bool = True
    strict: bool = False
    allow: tuple[str, ...] = ()
    mma: Literal["fast", "exact"] = "fast"
    captures: bool = True


@dataclass(frozen=True)
class LaunchRun:
    """One run. `outputs` are the arrays of judged buffers, `written` which of their elements somebody wrote.

    `executed`: (module, entry, one byte an instruction) of each launch. `finished`: every launch ran to its
    end. `unwritten`: outputs that were to be written whole and were not. `points`: scheduling points.
    """

    schedule: Schedule
    findings: tuple[Finding, ...]
    allowed: tuple[Finding, ...]
    outputs: Arrays
    written: Mapping[str, npt.NDArray[np.bool_]]
    captures: Mapping[str, CapturedStage]
    executed: tuple[tuple[str, str, bytes], ...] = field(repr=False)
    finished: bool
    unwritten: tuple[str, ...]
    points: int
    printf: str
    seconds: float

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that are defects."""
        return tuple(f for f in self.findings if f.severity == "error" and f.code not in LIMITS)

    @property
    def limited(self) -> bool:
        """Whether a limit of time or instructions stopped it."""
        return any(f.code in LIMITS for f in self.findings)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings by cause."""
        return by_cause(self.findings)


def run_once(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    schedule: Schedule,
    options: RunOptions,
    *,
    seconds: float = 0.0,
    instead: Arrays | None = None,
) -> LaunchRun:
    """Runs the steps of a launch file on fresh buffers, until one is stopped by a finding.

    `seconds` (0: none) is what all launches together may take; `instead`: contents in the place of the
    file's. TileproofError of the launch passes through.
    """
    began = time.monotonic()
    placed = PlacedLaunch(launch, modules, instead)
    allow = [Allow.parse(one) for one in options.allow]
    records: list[tuple[int, KernelLaunch, TapRecord]] = []
    results: list[LaunchResult] = []
    executed: list[tuple[str, str, bytes]] = []

    def how(number: int, step: KernelLaunch) -> dict[str, Any]:
        decoded = modules[launch.module_of(step).name].module.decode(step.entry)
        left = max(seconds - (time.monotonic() - began), 0.01) if seconds else 0.0
        return {
            "schedule": schedule,
            "races": options.races,
            "strict": options.strict,
            "allow": allow,
            "mma": options.mma,
            "symbols": symbols_of(launch, decoded),
            "taps": taps_of(launch, step, decoded) if options.captures else (),
            "seconds_limit": left,
        }

    stopped = False
    steps = launch.launches
    for number, result in placed.numbered(how, schedule):
        step = steps[number]
        results.append(result)
        executed.append((launch.module_of(step).name, step.entry, result.executed))
        records += [(number, step, record) for record in result.taps]
        if any(CODES[f.code].stops for f in result.errors):
            stopped = True
            break
    refused, accepted = divide(placed.found, allow)
    judged = [one for one in launch.buffers if one.judged and one.name not in placed.freed]
    written = {one.name: placed.buffers[one.name].written() for one in judged}
    return LaunchRun(
        schedule=schedule,
        findings=(*_plain(results, "findings"), *refused),
        allowed=(*_plain(results, "allowed"), *accepted),
        outputs={one.name: placed.buffers[one.name].numpy() for one in judged},
        written=written,
        captures=captured(launch, modules, records),
        executed=tuple(executed),
        finished=not stopped,
        unwritten=tuple(
            one.name for one in judged if one.role == "output" and one.whole and not written[one.name].all()
        ),
        points=max((result.counters.schedule_points for result in results), default=0),
        printf="".join(result.printf for result in results),
        seconds=time.monotonic() - began,
    )


def _plain(results: Sequence[LaunchResult], name: str) -> tuple[Finding, ...]:
    """Findings without the state of the machine, which stays in its process."""
    return tuple(replace(f, hang=None) for result in results for f in getattr(result, name))
