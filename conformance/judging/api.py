"""Launch files in Python: `tileproof.run` and `tileproof.judge`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from tileproof.conformance.judging import judging, page, reference
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import LaunchRun, RunOptions, run_once
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.model import LaunchFile
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.reading import read
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.machine.errors import TileproofError

LaunchLike = LaunchFile | str | os.PathLike[str]
ReferenceLike = ReferenceFunction | Callable[..., Any] | str


def run(
    launch: LaunchLike,
    *,
    schedule: str = "early",
    races: bool = True,
    strict: bool = False,
    allow: Sequence[str] = (),
    mma: Literal["fast", "exact"] = "fast",
    seconds: float = 0.0,
    seed: int = 0,
) -> LaunchRun:
    """Runs a launch file, or the one at a path, once: outputs, findings, captured stages.

    `schedule`: a policy (with `seed`) or a whole schedule ("random:seed=7"); `seconds` (0: none) stops it
    with a finding. TileproofError for a launch file that contradicts its PTX, names what does first.
    """
    file = _file(launch)
    modules = load(file)
    if wrong := contradictions(file, modules):
        raise wrong[0]
    (when,) = judging.schedules_of(schedule, seed)
    return run_once(file, modules, when, RunOptions(races, strict, tuple(allow), mma), seconds=seconds)


def judge(
    launch: LaunchLike,
    expect: ReferenceLike | None = None,
    *,
    seconds: float = judging.SECONDS,
    schedules: int = judging.SCHEDULES,
    seed: int = 0,
    policies: Sequence[str] = (),
    races: bool = True,
    strict: bool = False,
    allow: Sequence[str] = (),
    mma: Literal["fast", "exact"] = "fast",
    processes: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> VerdictRecord:
    """The verdict on a launch file, or the one at a path: as `tileproof judge` gives it.

    `expect`: a function from the named inputs, in float64, to what the outputs should be, or "ref.py[:name]".
    Bad input is the verdict "error"; Ctrl-C gives the verdict on what is known.
    """
    options = judging.JudgeOptions(
        seconds,
        seed,
        schedules,
        tuple(policies),
        processes or os.cpu_count() or 1,
        RunOptions(races, strict, tuple(allow), mma),
    )
    command = ("tileproof", "judge", str(launch)) if not isinstance(launch, LaunchFile) else ()
    return judging.judge(_file(launch), _reference(expect), options, command=command, progress=progress)


def text(verdict: VerdictRecord) -> str:
    """A verdict as one page."""
    return "\n".join(page.lines(verdict))


def _file(launch: LaunchLike) -> LaunchFile:
    if isinstance(launch, LaunchFile):
        return launch
    if not isinstance(launch, str | os.PathLike):
        raise TileproofError(
            "this is no launch", expected="a LaunchFile or a path", found=type(launch).__name__
        )
    return read(Path(launch))


def _reference(expect: ReferenceLike | None) -> ReferenceFunction | None:
    if expect is None or isinstance(expect, ReferenceFunction):
        return expect
    if isinstance(expect, str):
        return reference.load(expect)
    if not callable(expect):
        raise TileproofError(
            "this is no reference", expected="a function or ref.py[:name]", found=type(expect).__name__
        )
    try:
        where = inspect.getsourcefile(expect) or repr(expect)
    except TypeError:
        where = repr(expect)
    return ReferenceFunction(expect, where)
