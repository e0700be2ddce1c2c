"""The command line: `tileproof check | build | kernels | stages | defects | corpus | explain`.

Exit codes: 0 nothing wrong, 1 a defect was found, 2 it could not be checked. Results go to standard output,
progress and errors to standard error (errors as JSON to standard output with `--json`).
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
import traceback
from typing import Any, NoReturn

import click

# Before numpy is imported: tiles are small products, and BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.markup import escape
from tileproof import __version__
from tileproof.conformance.cli.campaign import campaign
from tileproof.conformance.cli.corpus import corpus
from tileproof.conformance.cli.crosscheck import crosscheck
from tileproof.conformance.cli.driving import CUDA, DRIVERS, driver_of, opened
from tileproof.conformance.cli.explain import explain
from tileproof.conformance.cli.explore import explore
from tileproof.conformance.cli.gate import diff, gate
from tileproof.conformance.cli.inspect import inspect, instructions
from tileproof.conformance.cli.judge import judge
from tileproof.conformance.cli.layout import layout
from tileproof.conformance.cli.mutants import mutants
from tileproof.conformance.cli.mutate import mutate
from tileproof.conformance.cli.record import record
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.synchronisation import synchronisation
from tileproof.conformance.cli.trace import trace
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.kernels.called import HOST
from tileproof.spec.machine.errors import TileproofError

PASS, DEFECT, COULD_NOT_CHECK = 0, 1, 2
TODAY = "today"


RENAMED = {"orders": "synchronisation", "prove": "crosscheck"}  # commands by the name they had


class Errors(click.Group):
    """Turns every failure into one readable message and exit code 2."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Of the command that `args` begin with; one that was renamed is refused by its new name."""
        if args and (now := RENAMED.get(args[0])):
            raise TileproofError(
                "the command has another name now",
                found=f"tileproof {args[0]}",
                do=f"use `{shlex.join(['tileproof', now, *args[1:]])}`",
            )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        as_json = "--json" in (kwargs.get("args") or (args[0] if args and args[0] else sys.argv[1:]))
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.Exit as done:
            code = done.exit_code
        except click.ClickException as error:
            _fail(_usage_error(error), as_json)
        except (click.Abort, KeyboardInterrupt):
            _fail(TileproofError("interrupted"), as_json)
        except TileproofError as error:
            _fail(error, as_json)
        except Exception as error:
            traceback.print_exc()
            fault = TileproofError(
                "internal error", found=f"{type(error).__name__}: {error}", do="report it with the text above"
            )
            _fail(fault, as_json)
        sys.exit(code if isinstance(code, int) else PASS)


def _usage_error(error: click.ClickException) -> TileproofError:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tileproof"
    return TileproofError(error.format_message(), do=f"see {command} --help")


def _fail(error: TileproofError, as_json: bool) -> NoReturn:
    if as_json:
        print(json.dumps({"verdict": "could not check", "error": error.as_dict()}, indent=1))
    else:
        Console(stderr=True).print(f"[bold red]could not check:[/] {escape(str(error))}", highlight=False)
    sys.exit(COULD_NOT_CHECK)


@click.group(cls=Errors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tileproof")
def main() -> None:
    """Checks GPU attention kernels stage by stage, tile by tile, without a GPU."""


@main.command()
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

    number = _seed(seed)
    reports: list[engine.Report] = []
    with planted_reference(planted), stoppable(), driving as driver, text.Progress(examples) as progress:
        for one in variants:
            progress.start(f"{found.title(one)}: building")
            under_test = on_driver(found, one, driver, stages=stages, planted=planted)
            progress.start(found.title(one))
            if case is not None:
                when = RunSchedule(policy, schedule_seed) if chooses else RunSchedule()
                reports.append(engine.replay(under_test, case, when))
            else:
                reports.append(
                    engine.check(
                        under_test,
                        examples=examples,
                        seed=number,
                        policy=policy,
                        progress=progress.show,
                        jobs=jobs or os.cpu_count() or 1,
                        with_edges=edges,
                    )
                )
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


def _seed(text: str) -> int:
    """The number, or that of the day: 20261122."""
    if text == TODAY:
        return int(datetime.date.today().strftime("%Y%m%d"))
    if not text.isdigit():
        raise TileproofError("this is no seed", where="--seed", expected="a number or today", found=text)
    return int(text)


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


@main.command()
@click.argument("kernel", required=False)
@variant_options
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def build(kernel: str | None, variant: str | None, as_json: bool) -> int:
    """Compile KERNEL (all kernels without a name), production and probe build.

    A kernel that cannot be built does not keep the others from it; then the exit code is 2.
    """
    from tileproof.kernels import registry

    rows: list[dict[str, Any]] = []
    errors = [] if kernel else list(registry.broken().values())
    targets = [registry.kernel(kernel)] if kernel else registry.kernels().values()
    with text.Progress(0) as progress:
        for found in targets:
            try:
                for each in chosen(found, variant):
                    for probe in (False, True) if found.probe else (False,):
                        progress.start(f"building {found.entry(each, probe)}")
                        rows.append(_built(found, each, probe))
            except TileproofError as error:
                if kernel:
                    raise
                errors.append(error)
    text.print_rows("Builds", rows, as_json)
    for one in errors:
        click.echo(f"could not build: {one}", err=True)
    return COULD_NOT_CHECK if errors else PASS


def _built(found: Any, variant: Any, probe: bool) -> dict[str, Any]:
    built = found.build(variant, probe)
    use = built.resources
    return {
        "entry": built.entry,
        "registers": use.registers if use else "",
        "spill_bytes": use.spill_stores + use.spill_loads if use else "",
        "dynamic_smem": found.plan(variant).smem_bytes,
        "ptx": str(built.ptx_path),
    }


@main.command()
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def kernels(as_json: bool) -> int:
    """List the kernels, their variants, and the stages that each computes.

    Packages may register kernels of their own (docs/adding-a-kernel.md); one that cannot be loaded is named.
    """
    from tileproof.kernels import registry

    rows: list[dict[str, Any]] = []
    errors = list(registry.broken().values())
    for found in registry.kernels().values():
        try:
            plan = found.plan(found.variants[0])
        except TileproofError as error:
            errors.append(error)
            continue
        rows.append(
            {
                "kernel": found.name,
                "variants": "; ".join(map(str, found.variants)),
                "stages": ", ".join(plan.stages),
                "threads": plan.threads,
                "cluster": plan.cluster,
            }
        )
    text.print_rows("Kernels", rows, as_json)
    for one in errors:
        click.echo(f"not usable: {one}", err=True)
    return PASS


@main.command()
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def stages(as_json: bool) -> int:
    """List the stages of every problem type, in graph order."""
    from tileproof.spec.problems import problem_types

    rows = [
        {
            "problem": problem.name,
            "stage": one.name,
            "formula": one.formula,
            "inputs": ", ".join(one.inputs),
            "tile": "[" + ", ".join(one.tile) + "]",
            "at rest": one.at_rest,
        }
        for problem in problem_types().values()
        for one in problem.stages.values()
    ]
    text.print_rows("Stages", rows, as_json)
    return PASS


@main.command()
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def defects(as_json: bool) -> int:
    """List the planted defects that `check --plant` knows."""
    from tileproof.conformance.mutants.defects import defects as known
    from tileproof.kernels.edit import InStage

    rows = [
        {
            "id": one.id,
            "defect": one.title,
            "kernel": one.target,
            "found as": one.expected.stage if isinstance(one.expected, InStage) else one.expected.code,
            "corpus": one.corpus,
        }
        for one in known().values()
    ]
    text.print_rows("Planted defects", rows, as_json)
    return PASS


main.add_command(campaign)
main.add_command(corpus)
main.add_command(diff)
main.add_command(explain)
main.add_command(explore)
main.add_command(gate)
main.add_command(inspect)
main.add_command(instructions)
main.add_command(judge)
main.add_command(layout)
main.add_command(mutants)
main.add_command(mutate)
main.add_command(synchronisation)
main.add_command(crosscheck)
main.add_command(record)
main.add_command(trace)


if __name__ == "__main__":
    main()
