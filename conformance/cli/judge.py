"""`tileproof judge`: one case, a launch file's or a kernel's, judged within a budget of time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, refuse
from tileproof.conformance.cli.isolating import isolate_options, isolated
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import variant_options
from tileproof.conformance.cli.views import view_options, write_views
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


@click.command()
@click.argument("launch", metavar="FILE|KERNEL|PTX", required=False)
@click.option(
    "--expect", metavar="REF.py[:FUNCTION]",
    help="A function from the inputs, in float64, to the expected outputs (docs/judging.md).",
)  # fmt: skip
@click.option(
    "--init", is_flag=True,
    help="Write a skeleton launch file for PTX, with blanks for values that only the host has, and exit.",
)  # fmt: skip
@click.option("--entry", metavar="NAME", help="With --init: the kernel, if the PTX has several.")
@click.option(
    "-o", "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="With --init: the folder of launch.json (default: the folder of the PTX).",
)  # fmt: skip
@click.option(
    "--many", is_flag=True,
    help="Judge launch files from the lines of standard input, as paths or as JSON; answer with a line "
    "of JSON for each (docs/judging.md).",
)  # fmt: skip
@variant_options
@click.option(
    "--case", "case_json", metavar="JSON", help="For a kernel: judge this case (see `tileproof check`)."
)
@click.option("--plant", metavar="ID", help="For a kernel: plant a defect first (see `tileproof defects`).")
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Wall time for all runs, without compilation.",
)  # fmt: skip
@click.option(
    "--schedules", default=100, show_default=True, type=click.IntRange(2),
    help="Maximum number of schedules; a certified launch needs no second.",
)  # fmt: skip
@click.option("--sample", is_flag=True, help="Also explore the schedules of a certified launch.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of everything that is drawn."
)
@click.option(
    "--policy", "policies", multiple=True, metavar="POLICY|SCHEDULE",
    help='Run only this schedule, such as "late" or "random:seed=7" (repeatable).',
)  # fmt: skip
@click.option(
    "--races/--no-races", default=True, show_default=True,
    help="Check that conflicting accesses are ordered (docs/races.md).",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Apply the PTX ISA strictly: some findings become more severe.")
@click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this finding of the machine; it is listed, but is not a defect (repeatable).",
)  # fmt: skip
@click.option(
    "--mma", default="fast", show_default=True, type=click.Choice(["fast", "exact"]),
    help="Tensor core: blocked f32 product, or its block arithmetic bit for bit.",
)  # fmt: skip
@click.option(
    "--dump", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="Write outputs and captured stages of the first run as .npy files.",
)  # fmt: skip
@click.option(
    "-j",
    "--jobs",
    default=0,
    type=click.IntRange(0),
    help="Parallel runs, or threads of a single run; 0 for one per core.",
)
@isolate_options
@click.option("--json", "json_path", metavar="FILE|-", help="Write the verdict as JSON (-: standard output).")
@view_options
def judge(
    launch: str | None,
    expect: str | None,
    init: bool,
    entry: str | None,
    out: Path | None,
    many: bool,
    variant: str | None,
    case_json: str | None,
    plant: str | None,
    seconds: float,
    schedules: int,
    sample: bool,
    seed: int,
    policies: tuple[str, ...],
    races: bool,
    strict: bool,
    allow: tuple[str, ...],
    mma: Mma,
    dump: Path | None,
    jobs: int,
    isolate: bool,
    isolate_without: tuple[str, ...],
    json_path: str | None,
    sarif: str | None,
    junit: str | None,
) -> int:
    """Judge one case: the launch file FILE (.json, .py, or a folder with launch.json), or a small problem of
    KERNEL: values, races, schedules. With --init write a launch file for PTX.

    Exit code 0: clean; 1: a defect; 3: something was not shown (values without --expect); 2: it could not be
    judged. Ctrl-C and SIGTERM end it early with what is known.
    """
    from tileproof.conformance.api.replay import judge_words
    from tileproof.conformance.api.verdicts import KernelChoice
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.cli.many import judge_many
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.judging.record import refused
    from tileproof.conformance.judging.runs import RunOptions
    from tileproof.kernels.kernel import Kernel

    if launch is None and not many:
        raise TileproofError("Missing argument 'FILE|KERNEL|PTX'", do="see tileproof judge --help")
    if init and launch is not None:
        return _init(Path(launch), entry, out)
    refuse("judge without --init", {"--entry": entry, "--out": out})
    if isolate or isolate_without:
        isolated(isolate_without, seconds, [json_path, sarif, junit], dump)
    if many:
        asked = {
            "FILE": launch, "--variant": variant, "--case": case_json, "--plant": plant, "--dump": dump,
            "--json": json_path, "--sarif": sarif, "--junit": junit,
        }  # fmt: skip
        refuse("judge --many", asked)
        each = JudgeOptions(
            seconds, seed, schedules, policies, 0, RunOptions(races, strict, allow, mma), sample
        )
        return judge_many(each, expect, jobs or os.cpu_count() or 1)
    assert launch is not None
    words = ["tileproof", "judge", launch, *judge_words(expect, seed, races, strict, mma, allow)]
    jobs = jobs or os.cpu_count() or 1
    options = JudgeOptions(
        seconds, seed, schedules, policies, jobs,
        RunOptions(races, strict, allow, mma, host_threads=jobs), sample,
    )  # fmt: skip
    path = Path(launch)
    try:
        found = resolve.compiled(launch)
        if isinstance(found, Kernel):
            refuse("a kernel with a plan", {"--expect": expect, "--dump": dump}, FILE_ONLY)
        else:
            asked = {"--variant": variant, "--case": case_json, "--plant": plant}
            refuse("a launch file", asked, KERNEL_ONLY)
    except TileproofError as error:
        made = refused(launch, seed, error)
    else:
        if isinstance(found, Kernel):
            made = judged_kernel(found, KernelChoice(variant, case_json, plant), words, options)
        else:
            made = judged_file(found, path, expect, words, options, dump)
    write_views([made], sarif, junit, [path if path.is_dir() else path.parent] if path.exists() else ())
    return told(made, json_path)


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


def told(made: VerdictRecord, json_path: str | None) -> int:
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
    left = blanks(data)
    print(f"{path}: {len(left)} blanks to fill in, then `tileproof judge {path}`")
    for place, what in left:
        print(f"  {place}: {what}")
    return 0


def _write(path: Path, text_: str, what: str) -> None:
    try:
        path.write_text(text_, encoding="utf-8")
    except OSError as error:
        raise TileproofError(f"{what} cannot be written", where=str(path), found=str(error)) from None
