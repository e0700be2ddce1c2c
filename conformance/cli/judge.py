"""`tileproof judge`: one case, a launch file's or a kernel's, judged within a budget of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, refuse
from tileproof.conformance.cli.isolating import IsolationOptions, isolated
from tileproof.conformance.cli.options import (
    ALLOW,
    JSON_FILE,
    MMA,
    RACES,
    STRICT,
    group,
    jobs_option,
    option,
    options,
)
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import variant_options
from tileproof.conformance.cli.views import ViewOptions, write_views
from tileproof.conformance.report import terminal as text
from tileproof.kernels import paths
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.api.verdicts import Judging, KernelChoice
    from tileproof.conformance.drivers.emulator import Mma
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.spec.machine.run_result import RunResult


@dataclass(frozen=True)
class JudgeArguments:
    """Options of `tileproof judge`."""

    expect: str | None = option(
        "--expect", metavar="REF.py[:FUNCTION]",
        help="A function from the inputs, in float64, to the expected outputs (docs/judging.md).",
    )  # fmt: skip
    init: bool = option(
        "--init", is_flag=True,
        help="Write a skeleton launch file for PTX, with blanks for values that only the host has, and exit.",
    )  # fmt: skip
    entry: str | None = option(
        "--entry", metavar="NAME", help="With --init: the kernel, if the PTX has several."
    )
    out: Path | None = option(
        "-o", "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="With --init: the folder of launch.json (default: the folder of the PTX).",
    )  # fmt: skip
    many: bool = option(
        "--many", is_flag=True,
        help="Judge launch files from the lines of standard input, as paths or as JSON; answer with a line "
        "of JSON for each (docs/judging.md).",
    )  # fmt: skip
    case_json: str | None = option(
        "--case", "case_json", metavar="JSON", help="For a kernel: judge this case (see `tileproof check`)."
    )
    plant: str | None = option(
        "--plant", metavar="ID", help="For a kernel: plant a defect first (see `tileproof defects`)."
    )
    seconds: float = option(
        "--seconds", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True),
        help="Wall time for all runs, without compilation.",
    )  # fmt: skip
    schedules: int = option(
        "--schedules", default=100, show_default=True, type=click.IntRange(2),
        help="Maximum number of schedules; a certified launch needs no second.",
    )  # fmt: skip
    sample: bool = option("--sample", is_flag=True, help="Also explore the schedules of a certified launch.")
    seed: int = option(
        "--seed",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Seed of everything that is drawn.",
    )
    policies: tuple[str, ...] = option(
        "--policy", "policies", multiple=True, metavar="POLICY|SCHEDULE",
        help='Run only this schedule, such as "late" or "random:seed=7" (repeatable).',
    )  # fmt: skip
    races: bool = option(RACES)
    strict: bool = option(STRICT)
    allow: tuple[str, ...] = option(ALLOW)
    mma: Mma = option(MMA)
    dump: Path | None = option(
        "--dump", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="Write outputs and captured stages of the first run as .npy files.",
    )  # fmt: skip
    jobs: int = option(jobs_option("Parallel runs, or threads of a single run", 0))
    isolation: IsolationOptions = group(IsolationOptions)
    json_path: str | None = option(JSON_FILE)
    views: ViewOptions = group(ViewOptions)


@click.command()
@click.argument("launch", metavar="FILE|KERNEL|PTX", required=False)
@variant_options
@options(JudgeArguments)
def judge(launch: str | None, variant: str | None, given: JudgeArguments) -> int:
    """Judge one case: the launch file FILE (.json, .py, or a folder with launch.json), or a small problem of
    KERNEL: values, races, schedules. With --init write a launch file for PTX.

    Exit code 0: clean; 1: a defect; 3: something was not shown (values without --expect); 2: it could not be
    judged. Ctrl-C and SIGTERM end it early with what is known.
    """
    from tileproof.conformance.cli.many import judge_many

    if launch is None and not given.many:
        raise TileproofError("Missing argument 'FILE|KERNEL|PTX'", do="see tileproof judge --help")
    if given.init and launch is not None:
        return _init(Path(launch), given.entry, given.out)
    refuse("judge without --init", {"--entry": given.entry, "--out": given.out})
    views = given.views
    if given.isolation.isolate or given.isolation.isolate_without:
        outputs = [given.json_path, views.sarif, views.junit]
        isolated(given.isolation.isolate_without, given.seconds, outputs, given.dump)
    if given.many:
        asked = {
            "FILE": launch, "--variant": variant, "--case": given.case_json, "--plant": given.plant,
            "--dump": given.dump, "--json": given.json_path, "--sarif": views.sarif, "--junit": views.junit,
        }  # fmt: skip
        refuse("judge --many", asked)
        return judge_many(_judge_options(given, 0, 1), given.expect, given.jobs)
    assert launch is not None
    made = _judged(launch, variant, given)
    path = Path(launch)
    write_views([made], views, [path if path.is_dir() else path.parent] if path.exists() else ())
    return print_verdict(made, given.json_path)


def _judge_options(given: JudgeArguments, processes: int, host_threads: int) -> JudgeOptions:
    """Return the options of a judgement, with these numbers of processes and of the emulator's threads."""
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.judging.runs import RunOptions

    return JudgeOptions(
        given.seconds, given.seed, given.schedules, given.policies, processes,
        RunOptions(given.races, given.strict, given.allow, given.mma, host_threads=host_threads),
        given.sample,
    )  # fmt: skip


def _judged(launch: str, variant: str | None, given: JudgeArguments) -> VerdictRecord:
    """Return the verdict on a launch file or a kernel; on an argument that is neither, its error."""
    from tileproof.conformance.api.replay import judge_words
    from tileproof.conformance.api.verdicts import KernelChoice
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.judging.record import refused
    from tileproof.kernels.kernel import Kernel

    machine = given.races, given.strict, given.mma, given.allow
    words = ["tileproof", "judge", launch, *judge_words(given.expect, given.seed, *machine)]
    options = _judge_options(given, given.jobs, given.jobs)
    try:
        found = resolve.compiled(launch)
        if isinstance(found, Kernel):
            refuse("a kernel with a plan", {"--expect": given.expect, "--dump": given.dump}, FILE_ONLY)
        else:
            asked = {"--variant": variant, "--case": given.case_json, "--plant": given.plant}
            refuse("a launch file", asked, KERNEL_ONLY)
    except TileproofError as error:
        return refused(launch, given.seed, error)
    if isinstance(found, Kernel):
        choice = KernelChoice(variant, given.case_json, given.plant)
        return judged_kernel(found, choice, words, options)
    return judged_file(found, Path(launch), given.expect, words, options, given.dump)


def judged_kernel(
    kernel: Kernel, choice: KernelChoice, words: Sequence[str], options: JudgeOptions
) -> VerdictRecord:
    """The verdict on a case of a kernel, with progress and interrupts."""
    from tileproof.conformance.api.verdicts import judge_kernel

    with _judging(words) as judging:
        return judge_kernel(kernel, choice, options, judging)


def judged_file(
    file: LaunchFile,
    path: Path,
    expect: str | None,
    words: Sequence[str],
    options: JudgeOptions,
    dump: Path | None = None,
) -> VerdictRecord:
    """The verdict on the launch file at `path`, with progress and interrupts; `dump`: a folder for outputs
    and captures of the first run.
    """
    from tileproof.conformance.api.verdicts import judge_file
    from tileproof.conformance.judging.dumping import write_arrays
    from tileproof.conformance.judging.record import refused
    from tileproof.conformance.judging.reference import load as load_reference

    first: list[RunResult] = []
    with _judging(words, first.append) as judging:
        try:
            reference = load_reference(expect) if expect else None
        except TileproofError as error:
            return refused(file.name, options.seed, error)
        made = judge_file(file, path, reference, options, judging)
    if dump is not None and first:
        write_arrays(first[0], dump)
    return made


@contextmanager
def _judging(
    words: Sequence[str], first: Callable[[RunResult], None] = lambda run: None
) -> Iterator[Judging]:
    """Judging with the terminal's progress, which Ctrl-C and SIGTERM interrupt."""
    from tileproof.conformance.api.verdicts import Judging
    from tileproof.conformance.check.stopped import Stopped

    with stoppable(), text.Progress(0) as progress:
        yield Judging(words, progress.start, (KeyboardInterrupt, Stopped), first)


def print_verdict(made: VerdictRecord, json_path: str | None) -> int:
    """Prints a verdict, or writes it as JSON; its exit code."""
    from tileproof.conformance.api.page import lines
    from tileproof.conformance.verdict import jsonform

    with closed_pipe_is_fine():
        if json_path == "-":
            print(jsonform.text(made), end="")
        else:
            if json_path:
                _write(Path(json_path), jsonform.text(made), "the verdict")
            print("\n".join(lines(made)))
    return made.exit_code


def _init(ptx: Path, entry: str | None, out: Path | None) -> int:
    """Writes the skeleton of a launch file, and prints its blanks."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.launches.skeleton import skeleton
    from tileproof.conformance.launches.skeleton import text as json_text
    from tileproof.kernels.launch.jsonform import blanks

    if not ptx.is_file():
        raise paths.missing(ptx, "a PTX file (--init)") if not ptx.exists() else resolve.not_ptx(ptx)
    if paths.described(ptx) != paths.PTX:
        raise resolve.not_ptx(ptx)
    folder = out or ptx.parent
    path = folder / "launch.json"
    if path.exists():
        raise TileproofError(
            "the launch file already exists", where=str(path), do="give another folder with -o, or remove it"
        )
    data = skeleton(ptx, entry, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileproofError("the folder cannot be created", where=str(folder), found=str(error)) from None
    _write(path, json_text(data), "the launch file")
    missing = blanks(data)
    print(f"{path}: {len(missing)} blanks to fill in, then `tileproof judge {path}`")
    for place, what in missing:
        print(f"  {place}: {what}")
    return 0


def _write(path: Path, text_: str, what: str) -> None:
    try:
        path.write_text(text_, encoding="utf-8")
    except OSError as error:
        raise TileproofError(f"{what} cannot be written", where=str(path), found=str(error)) from None
