"""Kernels and launch files in Python: `tileproof.run` and `tileproof.judge`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from tileproof.conformance.api import page
from tileproof.conformance.api.replay import function_words, judge_words
from tileproof.conformance.api.verdicts import Judging, KernelChoice, judge_file, judge_kernel
from tileproof.conformance.cases import resolve
from tileproof.conformance.judging import judging, reference
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import load
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.launch.reading import read
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult

LaunchLike = LaunchFile | str | os.PathLike[str]
KernelLike = Kernel | LaunchLike
ReferenceLike = ReferenceFunction | Callable[..., object] | str


class RunCallKeywords(TypedDict, total=False):
    """The keywords of `run`."""

    schedule: str
    races: bool
    strict: bool
    allow: Sequence[str]
    mma: Literal["fast", "exact"]
    seconds: float
    seed: int
    host_threads: int


class JudgeKeywords(TypedDict, total=False):
    """The keywords of `judge`."""

    variant: str | None
    case: str | None
    seconds: float
    schedules: int
    sample: bool
    seed: int
    policies: Sequence[str]
    races: bool
    strict: bool
    allow: Sequence[str]
    mma: Literal["fast", "exact"]
    processes: int
    progress: Callable[[str], None]


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
    host_threads: int = 1,
) -> RunResult:
    """Run a launch file, or the launch file at a path, once: `outputs`, `findings`, and captures as `stages`.

    `schedule`: a policy (with `seed`) or a whole schedule ("random:seed=7"); `seconds` (0: none) stops it
    with a finding. `host_threads` threads may run clusters of a launch without races, with the results of a
    single thread. Raise TileproofError for the first contradiction between launch file and PTX.
    """
    file = _file(launch)
    modules = load(file)
    if wrong := contradictions(file, modules):
        raise wrong[0]
    (when,) = judging.schedules_of(schedule, seed)
    return run_once(
        file,
        modules,
        when,
        RunOptions(races, strict, tuple(allow), mma, host_threads=host_threads),
        seconds=seconds,
    )


def judge(
    launch: KernelLike,
    expect: ReferenceLike | None = None,
    *,
    variant: str | None = None,
    case: str | None = None,
    seconds: float = judging.SECONDS,
    schedules: int = judging.SCHEDULES,
    sample: bool = False,
    seed: int = 0,
    policies: Sequence[str] = (),
    races: bool = True,
    strict: bool = False,
    allow: Sequence[str] = (),
    mma: Literal["fast", "exact"] = "fast",
    processes: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> VerdictRecord:
    """The verdict on a launch file, on a path, or on a case of a kernel with a plan (its name, its
    kernel.py, or a `Kernel`): as `tileproof judge` gives it.

    `expect`: of a launch file, a function from the named inputs, in float64, to what the outputs should be,
    or "ref.py[:name]". `variant` and `case`: of a kernel, as `--variant` and `--case`.
    `sample`: explore the schedules of a certified launch too.
    Bad input is the verdict "error", and no TileproofError; Ctrl-C gives the verdict on the runs so far.
    """
    jobs = processes or os.cpu_count() or 1
    options = judging.JudgeOptions(
        seconds,
        seed,
        schedules,
        tuple(policies),
        jobs,
        RunOptions(races, strict, tuple(allow), mma, host_threads=jobs),
        sample,
    )
    how = Judging(_command(launch, expect, options), progress)
    found = launch if isinstance(launch, Kernel) else _found(launch)
    if isinstance(found, Kernel):
        _refuse("a kernel with a plan", {"expect": expect}, "its problem defines the expected stages")
        return judge_kernel(found, KernelChoice(variant, case), options, how)
    _refuse("a launch file", {"variant": variant, "case": case}, "it is a single case")
    path = None if isinstance(launch, LaunchFile | Kernel) else Path(launch)
    return judge_file(found, path, _reference(expect), options, how)


def _refuse(what: str, given: dict[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise TileproofError(f"{what} takes no {name}", found=repr(value)[:60], do=f"omit it: {why}")


def _command(
    launch: KernelLike, expect: ReferenceLike | None, options: judging.JudgeOptions
) -> tuple[str, ...]:
    """The equivalent command; empty if the launch or its reference is not in a file."""
    call = expect.call if isinstance(expect, ReferenceFunction) else expect
    given = call if isinstance(call, str) else function_words(call) if callable(call) else None
    if isinstance(launch, LaunchFile | Kernel) or (given is None and expect is not None):
        return ()
    run = options.run
    words = judge_words(given, options.seed, run.races, run.strict, run.mma, run.allow)
    return ("tileproof", "judge", str(launch), *words)


def text(verdict: VerdictRecord) -> str:
    """A verdict as one page."""
    return "\n".join(page.lines(verdict))


def _found(launch: LaunchLike) -> Kernel | LaunchFile:
    """What `launch` names, as a command's argument does."""
    if isinstance(launch, LaunchFile):
        return launch
    if not isinstance(launch, str | os.PathLike):
        expected = "a LaunchFile, a Kernel, a kernel's name, or a path"
        raise TileproofError("not a launch", expected=expected, found=type(launch).__name__)
    return resolve.compiled(os.fspath(launch))


def _file(launch: LaunchLike) -> LaunchFile:
    if isinstance(launch, LaunchFile):
        return launch
    if not isinstance(launch, str | os.PathLike):
        raise TileproofError("not a launch", expected="a LaunchFile or a path", found=type(launch).__name__)
    return read(Path(launch))


def _reference(expect: ReferenceLike | None) -> ReferenceFunction | None:
    if expect is None or isinstance(expect, ReferenceFunction):
        return expect
    if isinstance(expect, str):
        return reference.load(expect)
    if not callable(expect):
        raise TileproofError(
            "not a reference", expected="a function or ref.py[:name]", found=type(expect).__name__
        )
    try:
        where = inspect.getsourcefile(expect) or repr(expect)
    except TypeError:
        where = repr(expect)
    return ReferenceFunction(expect, where)
