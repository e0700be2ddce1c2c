"""`tileproof stages`: the stages of every problem type, and why a stage has its bound."""

from __future__ import annotations

import click
from tileproof.conformance.cli.exit_codes import CLEAN
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems import problem_type, problem_types
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.why import ErrorSize, lines, order, steps


@click.command()
@click.argument("stage", required=False)
@click.option("--problem", help="The problem type; without it the first that has STAGE.")
@click.option("--why", is_flag=True, help="Explain the bound of STAGE down to its rounding points.")
@json_option()
def stages(stage: str | None, problem: str | None, why: bool, as_json: bool) -> int:
    """List the stages of every problem type, in graph order; of STAGE alone where it is given.

    With --why print each operation of STAGE that rounds, its error as a formula and its source, then the same
    of the stages that STAGE reads. The line "here" has the errors on a small case of the first kernel of the
    problem type.
    """
    if why:
        if stage is None:
            raise TileproofError("--why needs a stage", where="stages", do="tileproof stages STAGE --why")
        found = _problem_with(stage, problem)
        reasons = lines(found, stage, _sizes(found, stage))
        if as_json:
            text.print_rows("Why", [{"line": line} for line in reasons], as_json)
        else:
            click.echo("\n".join(reasons))
        return CLEAN
    types = problem_types().values() if problem is None else [problem_type(problem)]
    rows = [
        {
            "problem": each.name,
            "stage": found.name,
            "formula": found.formula,
            "inputs": ", ".join(found.inputs),
            "tile": "[" + ", ".join(found.tile) + "]",
            "at rest": found.at_rest,
        }
        for each in types
        for found in each.stages.values()
        if stage in (None, found.name)
    ]
    if not rows:
        raise _unknown(stage)
    text.print_rows("Stages", rows, as_json)
    return CLEAN


def _unknown(stage: str | None) -> TileproofError:
    names = sorted({name for each in problem_types().values() for name in each.stages})
    return TileproofError(
        "unknown stage", where="stage", expected=", ".join(names), found=str(stage),
        do=did_you_mean(str(stage), names),
    )  # fmt: skip


def _problem_with(stage: str, name: str | None) -> ProblemType:
    """The problem type `name`; without it the first of a kernel here, else the first, that has the stage."""
    if name is not None:
        return problem_type(name)
    own = [plan.problem for plan in _plans()]
    found = next((each for each in (*own, *problem_types().values()) if stage in each.stages), None)
    if found is None:
        raise _unknown(stage)
    return found


def _plans() -> list[KernelPlan]:
    """The plans of the compiled kernels here, those with the most stages first."""
    from tileproof.kernels.registry import all_compiled

    plans = [kernel.plan(kernel.variants[0]) for kernel in all_compiled()]
    return sorted(plans, key=lambda plan: -len(plan.stages))


def _sizes(problem: ProblemType, stage: str) -> dict[str, list[ErrorSize]] | None:
    """The errors of each operation on a small case; None without a kernel of this problem type."""
    from tileproof.reference.evaluate import Evaluation
    from tileproof.spec.arithmetic.traced import TracedBound
    from tileproof.spec.problems.base import tiling_of

    plan = next((plan for plan in _plans() if plan.problem.name == problem.name), None)
    if plan is None:
        return None
    inputs = problem.generator.small(plan, 1).inputs()
    traced = TracedBound()
    chain = Evaluation(problem, inputs, tiling_of(plan), traced)
    sizes = {}
    for name in reversed(order(problem, stage)):
        before = len(traced.results)
        chain.whole(name, 0, 0 if chain.partial(name) else None)
        sizes[name] = [ErrorSize.of(term) for term in traced.results[before:]]
        assert len(sizes[name]) == len(steps(problem.stages[name])), name
    return sizes
