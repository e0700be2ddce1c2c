"""A launch file run once: findings, outputs, captured stages, what was executed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tileproof.conformance.judging.stages import captured
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import Arrays, outcome, symbols_of, taps_of
from tileproof.conformance.launches.running import execute
from tileproof.emulator import Allow, Finding, Schedule
from tileproof.emulator.causes import divide
from tileproof.emulator.options import RunKeywords
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile
from tileproof.spec.machine.certificate import merged_certificate
from tileproof.spec.machine.run_result import Counters, RunResult


@dataclass(frozen=True)
class RunOptions:
    """What every run of a launch file is given."""

    races: bool = True
    strict: bool = False
    allow: tuple[str, ...] = ()
    mma: Literal["fast", "exact"] = "fast"
    captures: bool = True
    instruction_limit: int = 0  # of warp instructions of each launch; 0: the emulator's own
    host_threads: int = 1  # that may run clusters


def run_once(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    schedule: Schedule,
    options: RunOptions,
    *,
    seconds: float = 0.0,
    instead: Arrays | None = None,
) -> RunResult:
    """Runs the steps of a launch file on fresh buffers, until a finding stops a step. `outputs` are the
    judged buffers that the host does not free, `stages` the captures as arrays.

    `seconds` (0: none) limits all launches together; `instead`: contents that replace the file's. Raise the
    TileproofError of a launch.
    """
    began = time.monotonic()
    allow = [Allow.parse(entry) for entry in options.allow]

    def how(number: int, step: KernelLaunch) -> RunKeywords:
        decoded = modules[launch.module_of(step).name].module.decode(step.entry)
        remaining = max(seconds - (time.monotonic() - began), 0.01) if seconds else 0.0
        return {
            "schedule": schedule,
            "races": options.races,
            "strict": options.strict,
            "allow": allow,
            "mma": options.mma,
            "symbols": symbols_of(launch, decoded),
            "taps": taps_of(launch, step, decoded) if options.captures else (),
            "seconds_limit": remaining,
            "host_threads": options.host_threads,
            **({"instruction_limit": options.instruction_limit} if options.instruction_limit else {}),
        }

    done = execute(launch, modules, how, schedule, instead)
    placed, results = done.placed, list(done.results.values())
    refused, accepted = divide(placed.found, allow)
    judged = [buffer.name for buffer in launch.buffers if buffer.judged and buffer.name not in placed.freed]
    return RunResult(
        outputs={name: outcome(placed.buffers[name]) for name in judged},
        captures=tuple(capture for result in results for capture in result.captures),
        findings=(*_numbered([result.findings for result in results], len(results)), *refused),
        printf="".join(result.printf for result in results),
        counters=Counters.total(result.counters for result in results),
        allowed=(*_numbered([result.allowed for result in results], len(results)), *accepted),
        certificate=merged_certificate((result.certificate for result in results), placed.found),
        launches=tuple(results),
        stages=captured(launch, modules, list(done.results.items())),
        stopped=done.stopped,
        limited=tuple(dict.fromkeys(limit for result in results for limit in result.limited)),
        schedule=schedule,
        seconds=time.monotonic() - began,
    )


def _numbered(found: Sequence[Sequence[Finding]], launches: int) -> Iterator[Finding]:
    """The findings of each launch, with the launch's number where there are several."""
    for number, findings in enumerate(found, 1):
        for finding in findings:
            launch = number if launches > 1 else None
            yield replace(finding, machine=replace(finding.machine, launch=launch))
