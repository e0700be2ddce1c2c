"""The verdict of sentryward, a static verifier of PTX, on a launch, beside the emulator's.

sentryward 0.1.1 (PyPI, Apache-2.0; the extra `crosscheck`) proves over all schedules what the emulator
tries over some. What it cannot judge is "no opinion", never a pass. Its result categories are those of its
docs/output-json.md.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject
from tileproof.tools.crosscheck.input import sentryward_input
from tileproof.tools.crosscheck.report import OpinionOutcome, kinds_of, lines_of, outcome_of, remarks_of

GRACE = 5.0  # seconds beyond its own time budget before the process is ended
_MIB = 1 << 20


@dataclass(frozen=True)
class Opinion:
    """What one tool says of a launch.

    `kinds` are its codes (findings, or reasons for no opinion), `lines` the same in words with their places,
    `remarks` what the outcome rests on. `seconds` is wall-clock time.
    """

    tool: str
    outcome: OpinionOutcome
    kinds: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_dict(self) -> JsonObject:
        """For `--json`."""
        return {
            "tool": self.tool,
            "outcome": self.outcome,
            "kinds": list(self.kinds),
            "lines": list(self.lines),
            "remarks": list(self.remarks),
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class Budget:
    """What sentryward may use: wall-clock seconds, and MiB of address space."""

    seconds: float = 120.0
    memory: int = 8192


@dataclass(frozen=True)
class Ended:
    """How a process ended: `returncode` None when it ran past its time; a signal is a negative code."""

    returncode: int | None
    stdout: str
    stderr: str
    seconds: float


def sentryward_version() -> str:
    """The installed version; TileproofError says how to install it."""
    try:
        found = version("sentryward")
    except PackageNotFoundError:
        found = ""
    if not found or find_spec("sentryward") is None:
        raise TileproofError(
            "sentryward is not installed",
            expected="the extra `crosscheck`",
            do="pip install sentryward==0.1.1",
        )
    return found


def second_opinion(launch: LaunchFile, budget: Budget | None = None) -> Opinion:
    """Runs sentryward on a launch of one cluster.

    TileproofError when it is not installed or the launch cannot be said in its format.
    """
    budget = budget or Budget()
    tool = f"sentryward {sentryward_version()}"
    given = sentryward_input(launch)
    with tempfile.TemporaryDirectory() as folder:
        ptx, config = Path(folder) / "kernel.ptx", Path(folder) / "input.json"
        ptx.write_text(given.ptx)
        config.write_text(json.dumps(given.config))
        command = [sys.executable, "-m", "sentryward", str(ptx), "--input", str(config)]
        command += [f"--timeout={budget.seconds:g}", f"--memory-limit-mib={budget.memory}"]
        ended = run_limited(command, budget.seconds + GRACE, budget.memory)
    remarks = [f"{given.respelled} wait loops spelled setp.eq.b32 for it"] if given.respelled else []
    return judged(tool, ended, budget, given.ptx, tuple(remarks))


def run_limited(command: list[str], seconds: float, memory: int) -> Ended:
    """Runs `command` in a process group of its own, which is killed after `seconds`.

    `memory` is its RLIMIT_AS in MiB.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory * _MIB, memory * _MIB))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    started = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=limit,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
            code: int | None = process.returncode
        except BaseException as stop:
            # The verifier is a grandchild: the whole group goes, also when a person interrupts.
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            if not isinstance(stop, subprocess.TimeoutExpired):
                raise
            code = None
    return Ended(code, stdout, stderr, time.monotonic() - started)


def judged(tool: str, ended: Ended, budget: Budget, ptx: str = "", remarks: tuple[str, ...] = ()) -> Opinion:
    """The opinion in a process's end and report; a process without a whole report has none."""

    def none(kind: str, why: str) -> Opinion:
        return Opinion(tool, "no opinion", (kind,), (why,), remarks, ended.seconds)

    if ended.returncode is None:
        return none("timeout", f"it was ended after {ended.seconds:.0f} seconds")
    try:
        report = json.loads(ended.stdout)
        verdict, kinds, lines = outcome_of(report), kinds_of(report), lines_of(report, ptx)
        remarks = (*remarks, *remarks_of(report))
    except (ValueError, KeyError, TypeError, AttributeError):
        last = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        return none(
            "no report", f"it ended with code {ended.returncode} and without a report: {last[0][:200]}"
        )
    if verdict == "fine" and ended.returncode:
        return none("no report", f"it reported {kinds[0]} and ended with code {ended.returncode}")
    spent = {
        "timeout": f"it needs more than the {budget.seconds:g} seconds it was given",
        "memory_budget_exceeded": f"it needs more than the {budget.memory} MiB it was given",
        "allocation_failed": f"it needs more than the {budget.memory} MiB it was given",
    }
    lines = (spent[kinds[0]],) if kinds[0] in spent else lines
    return Opinion(tool, verdict, kinds, lines or kinds[:1], remarks, ended.seconds)
