"""`tileproof check`: a kernel against the spec over generated problems."""

from __future__ import annotations

import json
import re
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.driving import CUDA, DRIVERS, driver_of, opened
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, expect_option, refuse
from tileproof.conformance.cli.judge import judged_file, print_verdict
from tileproof.conformance.cli.options import (
    ALLOW,
    MMA,
    PLANT,
    RACES,
    SECONDS_LIMIT,
    STRICT,
    group,
    jobs_option,
    json_option,
    option,
    options,
)
from tileproof.conformance.cli.seeds import TODAY, seed_of
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.cli.views import ViewOptions, write_views
from tileproof.conformance.report import terminal as text
from tileproof.kernels.called import HOST
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.check.property import PolicyChoice
    from tileproof.conformance.check.result import Report
    from tileproof.conformance.check.run import KernelUnderTest
    from tileproof.conformance.drivers.emulator import Mma
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.spec.problems.cases import AnyCase

FAILING = Path("build/failing")  # where failing examples are saved
NO_LIMIT_S = 86_400.0  # of a launch file's runs together, where no limit is given


@dataclass(frozen=True)
class CheckOptions:
    """Options of `tileproof check`."""

    stages: tuple[str, ...] = option(
        "--stage", "stages", multiple=True, metavar="NAME", help="Compare this stage only (repeatable)."
    )
    examples: int = option(
        "--examples", default=100, show_default=True, type=click.IntRange(1), help="Problems per variant."
    )
    seed: str = option(
        "--seed", default="0", show_default=True, metavar="N|today",
        help="Seed of the generated problems; `today` changes with the day, and is printed.",
    )  # fmt: skip
    edges: bool = option(
        "--edges/--no-edges", default=True, show_default=True,
        help="Run the edge cases first (key counts, indices, sizes; one case has production size).",
    )  # fmt: skip
    jobs: int = option(jobs_option("Processes", 1, " The result does not depend on it."))
    policy: PolicyChoice = option(
        "--policy",
        default="all",
        show_default=True,
        type=click.Choice(["early", "late", "random", "starve", "pct", "all"]),
        help="When asynchronous operations complete, and which warp runs.",
    )
    driver_name: str = option(
        "--driver", "driver_name", default="emulator", show_default=True,
        type=click.Choice(DRIVERS),
        help="The driver: the emulator, or the first CUDA card.",
    )  # fmt: skip
    mma: Mma = option(MMA)
    races: bool = option(RACES)
    seconds_limit: float = option(SECONDS_LIMIT)
    strict: bool = option(STRICT)
    case_json: str | None = option(
        "--case", "case_json", metavar="JSON", help="Replay one case of a finding."
    )
    schedule_seed: int = option(
        "--schedule-seed", default=0, metavar="N", help="With --case: seed of the schedule."
    )
    plant: str | None = option(PLANT)
    allow: tuple[str, ...] = option(ALLOW)
    save_to: Path | None = option(
        "--save", "save_to", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="Save the failing example, or the example of --case, in this folder for `tileproof judge DIR`; "
        "by default failing examples are saved under build/failing.",
    )  # fmt: skip
    expect: str | None = option(expect_option)
    as_json: bool = option(json_option())
    views: ViewOptions = group(ViewOptions)


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@options(CheckOptions)
def check(kernel: str, variant: str | None, given: CheckOptions) -> int:
    """Check KERNEL against the spec over generated problems; on a defect, print the smallest failing problem.

    A launch file FILE is one case: it is judged under `--examples` schedules at most, as `judge` does.
    Ctrl-C, SIGTERM or a closed pipe interrupts it: it reports the results so far.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.check.record import verdict_of
    from tileproof.kernels.launch.model import LaunchFile

    found = resolve.resolve(kernel)
    if isinstance(found, LaunchFile):
        return _check_launch_file(found, kernel, variant, given)
    refuse("a kernel with a plan", {"--expect": given.expect}, FILE_ONLY)
    number = seed_of(given.seed)
    checked = _check_kernel(found, variant, number, given)
    reports = [report for _, report in checked]
    extra = _replay_options(given)
    commands = [_replay(kernel, report, extra) for report in reports]
    records = [
        verdict_of(under_test, report, number, command)
        for (under_test, report), command in zip(checked, commands, strict=True)
    ]
    write_views(records, given.views)
    return _print(reports, commands, records, number, given.as_json, given.seed == TODAY)


def _check_launch_file(file: LaunchFile, path: str, variant: str | None, given: CheckOptions) -> int:
    """Judge a launch file as a single case; return the exit code."""
    from tileproof.conformance.api.replay import judge_words
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.judging.runs import RunOptions

    asked = {
        "--variant": variant, "--stage": given.stages, "--case": given.case_json, "--plant": given.plant,
        "--no-edges": not given.edges,
        f"--driver={given.driver_name}": given.driver_name != DRIVERS[0],
    }  # fmt: skip
    refuse("a launch file", asked, KERNEL_ONLY)
    refuse("a launch file", {"--save": given.save_to}, "the launch file is the saved case: omit the option")
    number = seed_of(given.seed)
    machine = given.races, given.strict, given.mma, given.allow
    words = ["tileproof", "judge", path, *judge_words(given.expect, number, *machine)]
    options = JudgeOptions(
        given.seconds_limit or NO_LIMIT_S, number, max(given.examples, 2),
        () if given.policy == "all" else (given.policy,), given.jobs,
        RunOptions(given.races, given.strict, given.allow, given.mma),
    )  # fmt: skip
    made = judged_file(file, Path(path), given.expect, words, options)
    write_views([made], given.views, [Path(path).parent])
    return print_verdict(made, "-" if given.as_json else None)


def _check_kernel(
    kernel: Kernel, variant: str | None, seed: int, given: CheckOptions
) -> list[tuple[KernelUnderTest, Report]]:
    """Return the report on each selected variant, until an interrupt; save its example."""
    from tileproof.conformance.cases.generators import from_json
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_driver
    from tileproof.conformance.planted.defects import planted_on, planted_reference
    from tileproof.spec.machine.schedule import Schedule
    from tileproof.spec.problems import problem_type
    from tileproof.spec.problems.base import known_stage

    driver_name = driver_of(kernel, given.driver_name)
    chooses = driver_name not in (CUDA, HOST)
    for name in given.stages:
        known_stage(problem_type(kernel.variants[0].problem), name)
    planted = planted_on(kernel, given.plant)
    case = None if given.case_json is None else from_json(kernel.variants[0].problem, given.case_json)
    if case is not None and given.policy == "all" and chooses:
        raise TileproofError(
            "a replay needs one schedule", where="--policy", expected=", ".join(engine.POLICIES), found="all"
        )
    variants = chosen(kernel, variant) if case is None else (kernel.variant_of_case(case),)
    driving = opened(
        driver_name, policy=given.policy, mma=given.mma, races=given.races, allow=given.allow,
        strict=given.strict, seconds_limit=given.seconds_limit,
    )  # fmt: skip
    budget: engine.CheckBudget = {
        "examples": given.examples, "seed": seed, "policy": given.policy, "with_edges": given.edges,
    }  # fmt: skip
    checked: list[tuple[KernelUnderTest, Report]] = []
    with (
        planted_reference(planted), stoppable(), driving as driver,
        text.Progress(given.examples) as progress,
    ):  # fmt: skip
        under_tests = []
        for sizes in variants:
            progress.start(f"{kernel.title(sizes)}: building")
            under_tests.append(on_driver(kernel, sizes, driver, stages=given.stages, planted=planted))
        with engine.shared_ahead(under_tests, given.jobs, **budget) as ahead:
            for sizes, under_test in zip(variants, under_tests, strict=True):
                progress.start(kernel.title(sizes))
                if case is not None:
                    policy, number = given.policy, given.schedule_seed
                    when = Schedule(policy, number) if chooses and policy != "all" else Schedule()
                    report = engine.replay(under_test, case, when)
                else:
                    report = engine.check(under_test, progress=progress.show, ahead=ahead, **budget)
                checked.append((under_test, report))
                if report.interrupted:
                    break
        places = [
            _saved(under_test, report, case, given.save_to, several=len(checked) > 1)
            for under_test, report in checked
        ]
    _print_saved(places, given)
    return checked


def _print_saved(places: Sequence[Path | None], given: CheckOptions) -> None:
    """Print the command that judges each saved example."""
    from tileproof.conformance.api.replay import judge_words

    for place in filter(None, places):
        words = judge_words(None, 0, given.races, given.strict, given.mma, given.allow)
        click.echo(f"saved: {shlex.join(['tileproof', 'judge', str(place), *words])}", err=True)


def _print(
    reports: Sequence[Report],
    commands: Sequence[str],
    records: Sequence[VerdictRecord],
    number: int,
    as_json: bool,
    seed_of_the_day: bool,
) -> int:
    """Print the reports, as text or as one JSON object; return the exit code."""
    from tileproof.conformance.check.result import as_dict
    from tileproof.conformance.verdict import jsonform
    from tileproof.conformance.verdict.contract import EXIT_CODES, worst

    word = worst(record.verdict for record in records)
    with closed_pipe_is_fine():
        if as_json:
            results = [as_dict(report, command) for report, command in zip(reports, commands, strict=True)]
            whole = {
                "verdict": word, "exit_code": EXIT_CODES[word], "seed": number, "results": results,
                "verdicts": jsonform.dump(records),
            }  # fmt: skip
            print(json.dumps(whole, indent=1))
        else:
            if seed_of_the_day:
                print(f"seed {number}")
            for report, command in zip(reports, commands, strict=True):
                text.print_report(report, command)
    return EXIT_CODES[word]


def _replay_options(given: CheckOptions) -> list[str]:
    """The options of a check that its replay needs too."""
    extra = [*(f"--stage={name}" for name in given.stages)]
    extra += [f"--plant={given.plant}"] if given.plant else []
    extra += [f"--driver={given.driver_name}"] if given.driver_name == CUDA else []
    extra += ["--mma=exact"] if given.mma == "exact" else []
    extra += [] if given.races else ["--no-races"]
    extra += ["--strict"] if given.strict else []
    extra += [f"--seconds-limit={given.seconds_limit:g}"] if given.seconds_limit else []
    extra += [f"--allow={entry}" for entry in given.allow]
    return extra


def _saved(
    under_test: KernelUnderTest, report: Report, case: AnyCase | None, folder: Path | None, several: bool
) -> Path | None:
    """The folder of a saved example, failing or requested; None for other examples and for Python functions,
    which have no launch. An unwritable folder is an error only if saving was requested.
    """
    from tileproof.conformance.check.saved import save

    failure = report.failure
    wanted = case if failure is None else failure.case
    if under_test.kernel.arch == HOST or wanted is None or (failure is None and folder is None):
        return None
    schedule = report.schedules[-1] if failure is None else failure.schedule
    name = re.sub(r"\W+", "-", f"{report.title} {zlib.crc32(wanted.as_json().encode()):08x}")
    place = FAILING / name if folder is None else folder / name if several else folder
    try:
        return save(place, under_test, wanted, schedule, () if failure is None else failure.findings)
    except TileproofError as error:
        if folder is not None:
            raise
        click.echo(f"the failing example is not saved: {error}", err=True)
        return None


def _replay(kernel: str, report: Report, extra: list[str]) -> str:
    if report.failure is None:
        return ""
    from tileproof.spec.machine.schedule import SEEDED

    schedule = report.failure.schedule
    words = ["tileproof", "check", kernel, f"--case={report.failure.case.as_json()}"]
    if report.chosen_schedules:
        words += [f"--policy={schedule.policy}"]
        words += [f"--schedule-seed={schedule.seed}"] if schedule.policy in SEEDED else []
    return shlex.join([*words, *extra])
