"""`tileproof check`: a kernel against the spec over generated problems."""

from __future__ import annotations

import json
import os
import re
import shlex
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tileproof.conformance.cli.driving import CUDA, DRIVERS, driver_of, opened
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, expect_option, refuse
from tileproof.conformance.cli.judge import judged_file, told
from tileproof.conformance.cli.seeds import TODAY, seed_of
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.cli.views import view_options, write_views
from tileproof.conformance.report import terminal as text
from tileproof.kernels.called import HOST
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.check.property import PolicyChoice
    from tileproof.conformance.check.result import Report
    from tileproof.conformance.check.run import KernelUnderTest
    from tileproof.conformance.drivers.emulator import Mma
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.spec.problems.cases import AnyCase

FAILING = Path("build/failing")  # where failing examples are saved
NO_LIMIT_S = 86_400.0  # of a launch file's runs together, where no limit is given


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@click.option(
    "--stage", "stages", multiple=True, metavar="NAME", help="Compare this stage only (repeatable)."
)
@click.option(
    "--examples", default=100, show_default=True, type=click.IntRange(1), help="Problems per variant."
)
@click.option(
    "--seed", default="0", show_default=True, metavar="N|today",
    help="Seed of the generated problems; `today` changes with the day, and is printed.",
)  # fmt: skip
@click.option(
    "--edges/--no-edges", default=True, show_default=True,
    help="Run the edge cases first (key counts, indices, sizes; one case has production size).",
)  # fmt: skip
@click.option(
    "-j", "--jobs", default=1, show_default=True, type=click.IntRange(0),
    help="Processes; 0 for one per core. The result does not depend on it.",
)  # fmt: skip
@click.option(
    "--policy",
    default="all",
    show_default=True,
    type=click.Choice(["early", "late", "random", "starve", "pct", "all"]),
    help="When asynchronous operations complete, and which warp runs.",
)
@click.option(
    "--driver", "driver_name", default="emulator", show_default=True,
    type=click.Choice(DRIVERS),
    help="The driver: the emulator, or the first CUDA card.",
)  # fmt: skip
@click.option(
    "--mma",
    default="fast",
    show_default=True,
    type=click.Choice(["fast", "exact"]),
    help="Tensor core: blocked f32 product, or its block arithmetic bit for bit.",
)
@click.option(
    "--races/--no-races",
    default=True,
    show_default=True,
    help="Check that conflicting accesses are ordered (docs/races.md).",
)
@click.option(
    "--seconds-limit", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="Stop a launch that runs longer, with a finding; 0 for no limit.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Apply the PTX ISA strictly: some findings become more severe.")
@click.option("--case", "case_json", metavar="JSON", help="Replay one case of a finding.")
@click.option("--schedule-seed", default=0, metavar="N", help="With --case: seed of the schedule.")
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this finding of the machine; it is listed, but is not a defect (repeatable).",
)  # fmt: skip
@click.option(
    "--save", "save_to", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="Save the failing example, or the example of --case, in this folder for `tileproof judge DIR`; by "
    "default failing examples are saved under build/failing.",
)  # fmt: skip
@expect_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
@view_options
def check(
    kernel: str,
    variant: str | None,
    stages: tuple[str, ...],
    examples: int,
    seed: str,
    edges: bool,
    jobs: int,
    policy: PolicyChoice,
    driver_name: str,
    mma: Mma,
    races: bool,
    seconds_limit: float,
    strict: bool,
    case_json: str | None,
    schedule_seed: int,
    plant: str | None,
    allow: tuple[str, ...],
    save_to: Path | None,
    expect: str | None,
    as_json: bool,
    sarif: str | None,
    junit: str | None,
) -> int:
    """Check KERNEL against the spec over generated problems; on a defect, print the smallest failing problem.

    A launch file FILE is one case: it is judged under `--examples` schedules at most, as `judge` does.
    Ctrl-C, SIGTERM or a closed pipe interrupts it: it reports the results so far.
    """
    from tileproof.conformance.api.replay import judge_words
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.cases.generators import from_json
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.record import verdict_of
    from tileproof.conformance.check.under_test import on_driver
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.judging.runs import RunOptions
    from tileproof.conformance.planted.defects import planted_on, planted_reference
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.spec.machine.schedule import Schedule
    from tileproof.spec.problems import problem_type
    from tileproof.spec.problems.base import known_stage

    found = resolve.resolve(kernel)
    if isinstance(found, LaunchFile):
        asked = {
            "--variant": variant, "--stage": stages, "--case": case_json, "--plant": plant,
            "--save": save_to,
            "--no-edges": not edges, f"--driver={driver_name}": driver_name != DRIVERS[0],
        }  # fmt: skip
        refuse("a launch file", asked, KERNEL_ONLY)
        number = seed_of(seed)
        words = ["tileproof", "judge", kernel, *judge_words(expect, number, races, strict, mma, allow)]
        options = JudgeOptions(
            seconds_limit or NO_LIMIT_S, number, max(examples, 2), () if policy == "all" else (policy,),
            jobs or os.cpu_count() or 1, RunOptions(races, strict, allow, mma),
        )  # fmt: skip
        made = judged_file(found, Path(kernel), expect, words, options)
        write_views([made], sarif, junit, [Path(kernel).parent])
        return told(made, "-" if as_json else None)
    refuse("a kernel with a plan", {"--expect": expect}, FILE_ONLY)
    driver_name = driver_of(found, driver_name)
    chooses = driver_name not in (CUDA, HOST)
    for name in stages:
        known_stage(problem_type(found.variants[0].problem), name)
    planted = planted_on(found, plant)
    case = None if case_json is None else from_json(found.variants[0].problem, case_json)
    if case is not None and policy == "all" and chooses:
        raise TileproofError(
            "a replay needs one schedule", where="--policy", expected=", ".join(engine.POLICIES), found="all"
        )
    variants = chosen(found, variant) if case is None else (found.variant_of_case(case),)
    extra = _replay_options(stages, plant, driver_name, mma, races, strict, seconds_limit, allow)
    driving = opened(
        driver_name,
        policy=policy,
        mma=mma,
        races=races,
        allow=allow,
        strict=strict,
        seconds_limit=seconds_limit,
    )

    number = seed_of(seed)
    reports: list[Report] = []
    budget: Any = {"examples": examples, "seed": number, "policy": policy, "with_edges": edges}
    under_tests = []
    with planted_reference(planted), stoppable(), driving as driver, text.Progress(examples) as progress:
        for sizes in variants:
            progress.start(f"{found.title(sizes)}: building")
            under_tests.append(on_driver(found, sizes, driver, stages=stages, planted=planted))
        with engine.checked_together(under_tests, jobs=jobs or os.cpu_count() or 1, **budget) as ahead:
            for sizes, under_test in zip(variants, under_tests, strict=True):
                progress.start(found.title(sizes))
                if case is not None:
                    when = Schedule(policy, schedule_seed) if chooses and policy != "all" else Schedule()
                    reports.append(engine.replay(under_test, case, when))
                else:
                    reports.append(engine.check(under_test, progress=progress.show, ahead=ahead, **budget))
                if reports[-1].interrupted:
                    break
        saved = [
            _saved(under_test, report, case, save_to, several=len(reports) > 1)
            for under_test, report in zip(under_tests, reports, strict=False)
        ]
    for place in filter(None, saved):
        told_words = judge_words(None, 0, races, strict, mma, allow)
        click.echo(f"saved: {shlex.join(['tileproof', 'judge', str(place), *told_words])}", err=True)
    commands = [_replay(kernel, report, extra) for report in reports]
    records = [
        verdict_of(under_test, report, number, command)
        for under_test, report, command in zip(under_tests, reports, commands, strict=False)
    ]
    write_views(records, sarif, junit)
    return _print(reports, commands, records, number, as_json, seed == TODAY)


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


def _replay_options(
    stages: tuple[str, ...],
    plant: str | None,
    driver_name: str,
    mma: str,
    races: bool,
    strict: bool,
    seconds_limit: float,
    allow: tuple[str, ...],
) -> list[str]:
    """The options of a check that its replay needs too."""
    extra = [*(f"--stage={name}" for name in stages), *([f"--plant={plant}"] if plant else [])]
    extra += [f"--driver={driver_name}"] if driver_name == CUDA else []
    extra += ["--mma=exact"] if mma == "exact" else []
    extra += [] if races else ["--no-races"]
    extra += ["--strict"] if strict else []
    extra += [f"--seconds-limit={seconds_limit:g}"] if seconds_limit else []
    extra += [f"--allow={entry}" for entry in allow]
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
