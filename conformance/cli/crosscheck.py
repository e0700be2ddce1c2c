"""`tileproof crosscheck`: the emulator's verdict on one cluster, and sentryward's beside it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.exit_codes import COULD_NOT_CHECK, DEFECT, PASS
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.kernels.launch import Launch
    from tileproof.spec.plan import KernelPlan
    from tileproof.tools.crosscheck.opinion import Opinion

VERDICTS = {PASS: "pass", DEFECT: "defect", COULD_NOT_CHECK: "could not check"}


@click.command()
@click.argument("kernel")
@variant_options
@click.option(
    "--blocks", default=2, show_default=True, type=click.IntRange(1, 64), help="k-blocks of the problem."
)
@click.option("--case", "case_json", metavar="JSON", help="A case of one cluster, as `check` prints it.")
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--schedules", default=4, show_default=True, type=click.IntRange(0), help="Random schedules to run."
)
@click.option(
    "--seconds", default=120.0, show_default=True, type=click.FloatRange(0.1), help="Time for sentryward."
)
@click.option(
    "--memory", default=8192, show_default=True, type=click.IntRange(64), help="MiB for sentryward."
)
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
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
    """Ask sentryward, a static verifier, about one cluster of KERNEL, and the emulator about the same.

    KERNEL is a kernel (`tileproof kernels`) or a small program of docs/crosscheck.md. Exit code 0: the
    emulator finds no error, and sentryward proves the launch or has no opinion. 1: one of them finds one.
    """
    from tileproof.tools.crosscheck.opinion import Budget, second_opinion, sentryward_version
    from tileproof.tools.crosscheck.ours import first_opinion
    from tileproof.tools.crosscheck.programs import launch_of, programs, title_of

    if not math.isfinite(seconds):
        raise TileproofError("a time budget is finite", where="--seconds", found=str(seconds))
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
        for one in (ours, theirs):
            click.echo("\n".join(_said(one)))
        click.echo(words)
    return code


def conclusion(ours: Opinion, theirs: Opinion) -> tuple[int, str]:
    """Exit code and one sentence; no opinion never counts as a pass."""
    finders = [one.tool for one in (ours, theirs) if one.verdict == "error"]
    if finders:
        return DEFECT, f"An error, found by {' and by '.join(finders)}."
    if ours.verdict != "fine":
        return COULD_NOT_CHECK, f"{ours.tool} cannot run it, so it is not checked, whatever else is said."
    if theirs.verdict == "fine":
        words = f"{ours.tool} in the schedules it ran, {theirs.tool} in a proof over all"
        return PASS, f"Both find nothing: {words}."
    words = f"{ours.tool} finds nothing in the schedules it ran; {theirs.tool} has no opinion"
    return PASS, f"{words}: nothing is proved."


def _said(one: Opinion) -> list[str]:
    head = f"{one.tool}: {one.verdict} ({one.seconds:.1f} s)"
    return [
        head,
        *(f"  {line}" for line in one.lines if one.verdict != "fine"),
        *(f"  ({r})" for r in one.remarks),
    ]


def _kernel_launch(
    kernel: str, variant: str | None, blocks: int, case_json: str | None, plant: str | None
) -> tuple[Launch, KernelPlan, str]:
    """The launch of one group, the plan, and what it is in words."""
    from tileproof.conformance.mutants.defects import build_planted, planted_on
    from tileproof.conformance.problems.generators import from_json, small
    from tileproof.kernels.outside import looks_like_a_path
    from tileproof.kernels.registry import compiled as find_kernel
    from tileproof.kernels.registry import kernels
    from tileproof.spec.problems import problem_type
    from tileproof.spec.problems.base import tiling_of

    if kernel not in kernels() and not looks_like_a_path(kernel):
        raise TileproofError(
            "there is no such kernel or program",
            where=kernel,
            expected=", ".join(sorted(kernels())) + ", or a program of docs/crosscheck.md",
        )
    found = find_kernel(kernel)
    given = None if case_json is None else from_json(found.variants[0].problem, case_json)
    chosen = one_chosen(found, variant, given)
    plan = found.plan(chosen)
    problem, case = problem_type(plan.problem), given or small(plan, blocks)
    inputs = case.inputs()
    groups = len(problem.groups(inputs, tiling_of(plan)))
    if groups != 1:
        raise TileproofError(
            "crosscheck looks at one cluster at a time",
            where="--case",
            expected=f"one {problem.unit}",
            found=f"{groups} {problem.unit}s",
        )
    planted = planted_on(found, plant)
    built = build_planted(found, chosen, planted)
    about = f"{found.title(chosen)}, one {problem.unit}" + ("" if given else f" over {blocks} k-blocks")
    return found.launch(inputs, built), plan, about + (f", with {plant} planted" if plant else "")
