"""`tileproof check`: a kernel against the spec over generated problems."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import click
from tileproof.conformance.cli.driving import CUDA, DRIVERS, driver_of, opened
from tileproof.conformance.cli.exit_codes import COULD_NOT_CHECK, DEFECT, PASS
from tileproof.conformance.cli.seeds import TODAY, seed_of
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.kernels.called import HOST
from tileproof.spec.machine.errors import TileproofError


@click.command()
@click.argument("kernel")
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
    help="Begin with the edges of key counts, indices and sizes (one at production size).",
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
    help="When asynchronous operations complete, and who moves.",
)
@click.option(
    "--driver", "driver_name", default="emulator", show_default=True,
    type=click.Choice(DRIVERS),
    help="What executes the launches: the emulator, or the first CUDA card.",
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
@click.option("--strict", is_flag=True, help="Take the PTX ISA by the letter: some findings weigh more.")
@click.option("--case", "case_json", metavar="JSON", help="Replay one case of a finding.")
@click.option("--schedule-seed", default=0, metavar="N", help="With --case: seed of the schedule.")
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this machine finding on purpose; it is listed, and is no defect (repeatable).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def check(
    kernel: str,
    variant: str | None,
    stages: tuple[str, ...],
    examples: int,
    seed: str,
    edges: bool,
    jobs: int,
    policy: Any,
    driver_name: str,
    mma: Any,
    races: bool,
    seconds_limit: float,
    strict: bool,
    case_json: str | None,
    schedule_seed: int,
    plant: str | None,
    allow: tuple[str, ...],
    as_json: bool,
) -> int:
    """Check KERNEL against the spec over generated problems; on a defect, print the smallest failing one.

    Ctrl-C, SIGTERM or a closed pipe end it early with what is known: exit code 1 when a defect was found.
    """
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_driver
    from tileproof.conformance.drivers.result import RunSchedule
    from tileproof.conformance.mutants.defects import planted_on, planted_reference
    from tileproof.conformance.problems.generators import from_json
    from tileproof.kernels.registry import kernel as find_kernel
    from tileproof.spec.problems import problem_type
    from tileproof.spec.problems.base import known_stage

    found = find_kernel(kernel)
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
    variants = chosen(found, variant) if case is None else (found.variant(**case.sizes()),)
    extra = [*(f"--stage={name}" for name in stages), *([f"--plant={plant}"] if plant else [])]
    extra += [f"--driver={driver_name}"] if driver_name == CUDA else []
    extra += ["--mma=exact"] if mma == "exact" else []
    extra += [] if races else ["--no-races"]
    extra += ["--strict"] if strict else []
    extra += [f"--seconds-limit={seconds_limit:g}"] if seconds_limit else []
    extra += [f"--allow={one}" for one in allow]
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
    reports: list[engine.Report] = []
    budget: Any = {"examples": examples, "seed": number, "policy": policy, "with_edges": edges}
    under_tests = []
    with planted_reference(planted), stoppable(), driving as driver, text.Progress(examples) as progress:
        for one in variants:
            progress.start(f"{found.title(one)}: building")
            under_tests.append(on_driver(found, one, driver, stages=stages, planted=planted))
        with engine.checked_together(under_tests, jobs=jobs or os.cpu_count() or 1, **budget) as ahead:
            for one, under_test in zip(variants, under_tests, strict=True):
                progress.start(found.title(one))
                if case is not None:
                    when = RunSchedule(policy, schedule_seed) if chooses else RunSchedule()
                    reports.append(engine.replay(under_test, case, when))
                else:
                    reports.append(engine.check(under_test, progress=progress.show, ahead=ahead, **budget))
                if reports[-1].interrupted:
                    break
    failed = any(report.failure for report in reports)
    cut = any(report.interrupted for report in reports)
    verdict = "defect" if failed else "interrupted" if cut else "pass"
    commands = [_replay(kernel, report, extra) for report in reports]
    with closed_pipe_is_fine():
        if as_json:
            results = [
                engine.as_dict(report, command) for report, command in zip(reports, commands, strict=True)
            ]
            print(json.dumps({"verdict": verdict, "seed": number, "results": results}, indent=1))
        else:
            if seed == TODAY:
                print(f"seed {number}")
            for report, command in zip(reports, commands, strict=True):
                text.print_report(report, command)
    return DEFECT if failed else COULD_NOT_CHECK if cut else PASS


def _replay(kernel: str, report: Any, extra: list[str]) -> str:
    if report.failure is None:
        return ""
    from tileproof.conformance.drivers.result import SEEDED

    schedule = report.failure.schedule
    words = ["tileproof", "check", kernel, f"--case={report.failure.case.as_json()}"]
    if report.chosen_schedules:
        words += [f"--policy={schedule.policy}"]
        words += [f"--schedule-seed={schedule.seed}"] if schedule.policy in SEEDED else []
    return shlex.join([*words, *extra])
