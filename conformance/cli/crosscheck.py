"""`tileproof crosscheck`: verdicts of the emulator and of sentryward on one cluster."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.exit_codes import CLEAN, DEFECT, ERROR
from tileproof.conformance.cli.options import PLANT, json_option
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.spec.plan import KernelPlan
    from tileproof.tools.crosscheck.opinion import Opinion

VERDICTS = {CLEAN: "clean", DEFECT: "defect", ERROR: "error"}

NO_CASE = "crosscheck needs a case of one cluster, which a launch file does not have"


@click.command()
@click.argument("kernel")
@variant_options
@click.option(
    "--blocks", default=2, show_default=True, type=click.IntRange(1, 64), help="k-blocks of the problem."
)
@click.option("--case", "case_json", metavar="JSON", help="A case of one cluster, as `check` prints it.")
@PLANT
@click.option(
    "--schedules", default=4, show_default=True, type=click.IntRange(0), help="Random schedules to run."
)
@click.option(
    "--seconds", default=120.0, show_default=True, type=click.FloatRange(0.1), help="Time for sentryward."
)
@click.option(
    "--memory", default=8192, show_default=True, type=click.IntRange(64), help="MiB for sentryward."
)
@json_option()
def crosscheck(
    kernel: str,
    variant: str | None,
    blocks: int,
    case_json: str | None,
    plant: str | None,
    schedules: int,
    seconds: float,
    memory: int,
    as_json: bool,
) -> int:
    """Compare the verdicts of the emulator and of sentryward, a static verifier, on one cluster of KERNEL.

    KERNEL is a kernel (`tileproof kernels`) or a small program of docs/crosscheck.md. Exit code 0: the
    emulator finds no error, and sentryward proves the launch or has no opinion. 1: either reports an error.
    """
    from tileproof.tools.crosscheck.opinion import Budget, second_opinion, sentryward_version
    from tileproof.tools.crosscheck.ours import first_opinion
    from tileproof.tools.crosscheck.programs import launch_of, programs, title_of

    if not math.isfinite(seconds):
        raise TileproofError("a time budget must be finite", where="--seconds", found=str(seconds))
    sentryward_version()
    plan: KernelPlan | None = None
    if kernel in programs():
        if case_json or plant:
            raise TileproofError("a small program has no cases and no planted defects", where=kernel)
        launch, about = launch_of(programs()[kernel]), title_of(programs()[kernel])
    else:
        launch, plan, about = _kernel_launch(kernel, variant, blocks, case_json, plant)
    ours = first_opinion(launch, plan, schedules)
    theirs = second_opinion(launch, Budget(seconds, memory))
    code, words = conclusion(ours, theirs)
    if as_json:
        opinions = [ours.as_dict(), theirs.as_dict()]
        result = {"verdict": VERDICTS[code], "words": words, "launch": about, "opinions": opinions}
        print(json.dumps(result, indent=1))
    else:
        click.echo(about)
        for opinion in (ours, theirs):
            click.echo("\n".join(_lines(opinion)))
        click.echo(words)
    return code


def conclusion(ours: Opinion, theirs: Opinion) -> tuple[int, str]:
    """Return the exit code and a sentence; no opinion never counts as a pass."""
    finders = [opinion.tool for opinion in (ours, theirs) if opinion.outcome == "error"]
    if finders:
        return DEFECT, f"Error found by {' and '.join(finders)}."
    if ours.outcome != "fine":
        return ERROR, f"{ours.tool} cannot run it: not checked."
    if theirs.outcome == "fine":
        words = f"{ours.tool} in the schedules that ran, {theirs.tool} by a proof over all schedules"
        return CLEAN, f"No error found: {words}."
    words = f"{ours.tool} finds no error in the schedules that ran; {theirs.tool} has no opinion"
    return CLEAN, f"{words}: no proof."


def _lines(opinion: Opinion) -> list[str]:
    head = f"{opinion.tool}: {opinion.outcome} ({opinion.seconds:.1f} s)"
    return [
        head,
        *(f"  {line}" for line in opinion.lines if opinion.outcome != "fine"),
        *(f"  ({remark})" for remark in opinion.remarks),
    ]


def _kernel_launch(
    kernel: str, variant: str | None, blocks: int, case_json: str | None, plant: str | None
) -> tuple[LaunchFile, KernelPlan, str]:
    """Return the launch of one group, the plan, and a description."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.cases.generators import from_json, small
    from tileproof.conformance.planted.defects import build_planted, planted_on
    from tileproof.spec.problems.base import tiling_of

    found = resolve.compiled_kernel(kernel, NO_CASE)
    given = None if case_json is None else from_json(found.variants[0].problem, case_json)
    chosen = one_chosen(found, variant, given)
    plan = found.plan(chosen)
    problem, case = plan.problem, given or small(plan, blocks)
    inputs = case.inputs()
    groups = len(problem.groups(inputs, tiling_of(plan)))
    if groups != 1:
        raise TileproofError(
            "crosscheck accepts one cluster at a time",
            where="--case",
            expected=f"one {problem.unit}",
            found=f"{groups} {problem.unit}s",
        )
    planted = planted_on(found, plant)
    built = build_planted(found, chosen, planted)
    about = f"{found.title(chosen)}, one {problem.unit}" + ("" if given else f" over {blocks} k-blocks")
    return found.launch(inputs, built), plan, about + (f", with {plant} planted" if plant else "")
