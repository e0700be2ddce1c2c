"""From captures of a driver to stage tiles with coordinates, by the kernel plan's observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from tileproof.conformance.observe.capture import captured_tiles
from tileproof.conformance.observe.partial import partial_tiles
from tileproof.conformance.observe.tiles import StageTile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import FinishedObservation, KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, TileCoord, coordinates, locate, region, tiling_of
from tileproof.spec.problems.cases import ProblemInputs

BF16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Observation:
    """The stage tiles of one launch, its partial sums, and what is wrong with the number of tiles."""

    tiles: tuple[StageTile, ...]
    findings: tuple[Finding, ...]
    partials: tuple[StageTile, ...] = ()


def observe(
    plan: KernelPlan,
    inputs: ProblemInputs,
    run_result: RunResult,
    build: str,
    *,
    probe: bool = False,
    captures: bool = True,
    surplus: bool = True,
) -> Observation:
    """Every stage tile that is observable by the plan: in TMEM, SMEM and outputs, or in the probe build's
    outputs. `captures`: the driver captures TMEM and SMEM; `surplus`: it reports written elements.
    """
    tiles: list[StageTile] = []
    findings: list[Finding] = []
    partials: list[StageTile] = []
    wanted = [o for o in plan.observations if isinstance(o, OutputObservation)]
    for seen in [*wanted, *(plan.probes if probe else ())]:
        if seen.parameter not in run_result.outputs:
            raise TileproofError(
                "the launch has no such output",
                where=f"plan {plan.name}, observation of {seen.stage}",
                expected=seen.parameter,
                found=", ".join(run_result.outputs) or "no output",
            )
        output = run_result.outputs[seen.parameter]
        if plan.problem.stages[seen.stage].output == tuple(axes_of(seen)):
            continue  # rows that several tiles add up to: judge.rows judges them
        tiles += output_tiles(plan, inputs, seen, output)
        findings += surplus_writes(plan, inputs, seen, output, build) if surplus else ()
    if captures and not probe:
        found, faults = captured_tiles(plan, inputs, run_result.captures, build)
        tiles += found
        findings += faults
        partials = partial_tiles(plan, inputs, run_result.captures)
    return Observation(tuple(tiles), tuple(findings), tuple(partials))


def output_tiles(
    plan: KernelPlan, inputs: ProblemInputs, at: OutputObservation, output: Output
) -> Iterator[StageTile]:
    """Tiles of one output parameter, by its axes."""
    for coord, (rows, cols), place in _tiles_of(plan, inputs, at):
        value, written = (
            x[place].reshape(rows.stop - rows.start, -1) for x in (output.values, output.written)
        )
        value = -value if at.negated else value
        # What an MMA reads is a copy of 16 bits; an output of the whole walk is nobody's operand.
        copy = coord.k_block is not None and output.values.dtype.itemsize == BF16.itemsize
        yield StageTile(at.stage, coord, rows, cols, value, written, operand=copy)


def surplus_writes(
    plan: KernelPlan, inputs: ProblemInputs, at: OutputObservation, output: Output, build: str
) -> Iterator[Finding]:
    """One finding when the kernel wrote elements of an output that belong to no tile of the walk."""
    rest = output.written.copy()
    for _, _, place in _tiles_of(plan, inputs, at):
        rest[place] = False
    if rest.any():
        yield Finding(
            "surplus",
            f"output {at.parameter} was written outside the tiles of the walk",
            problem=spot(plan, inputs, at, np.argwhere(rest)[0], build),
            wrong=int(rest.sum()),
            elements=int(rest.size),
            pattern="elements beyond the last k-block",
        )


def spot(
    plan: KernelPlan, inputs: ProblemInputs, at: OutputObservation, element: Iterable[int], build: str
) -> ProblemPlace:
    """An element of an output by its index: its tile where it lies in one, and its place along the last two
    axes.
    """
    problem, tiling, axes = plan.problem, tiling_of(plan), tuple(axes_of(at))
    index = [int(i) for i in element]
    stage = problem.stages[at.stage]
    here = ProblemPlace(at.stage, build, unit=problem.unit, tile=at.parameter)
    found = None if stage.output == axes else locate(problem, inputs, tiling, at.stage, axes, index)
    if found is None:
        words = [*(problem.words.get(axis, axis) for axis in axes[-2:]), "column"]
        last = index[-2:]
        column = last[1] if len(last) > 1 else None
        return replace(here, row=last[0], column=column, axes=(words[0], words[1]))
    coord, place = found
    column = place[1] if len(place) > 1 else None
    return replace(
        here,
        group=coord.group,
        cta=coord.cta,
        k_block=coord.k_block,
        row=place[0],
        column=column,
        axes=axis_words(problem, at.stage),
    )


def axis_words(problem: ProblemType, stage: str) -> tuple[str, str]:
    """What the rows and columns of a stage's tile count; a tile of one axis has one column."""
    words = [problem.words.get(axis, axis) for axis in problem.stages[stage].tile]
    return words[0], words[1] if len(words) > 1 else "column"


def axes_of(at: OutputObservation | FinishedObservation) -> list[str]:
    """The axes of an output, as names of sizes."""
    return at.indexed.strip("[] ").replace(" ", "").split(",")


def _tiles_of(
    plan: KernelPlan, inputs: ProblemInputs, at: OutputObservation
) -> Iterator[tuple[TileCoord, tuple[slice, slice], tuple[int | slice, ...]]]:
    """Every tile of an output: its coordinates, its rows and columns, and its place in the array."""
    problem, tiling, axes = plan.problem, tiling_of(plan), tuple(axes_of(at))
    for group in problem.groups(inputs, tiling):
        for coord in coordinates(problem, inputs, tiling, at.stage, group):
            try:
                place = problem.place(inputs, tiling, coord, axes)
            except AttributeError:
                raise TileproofError(
                    "an output with these axes cannot be divided into tiles",
                    where=f"plan {plan.name}, parameter {at.parameter}",
                    expected="axes with the problem's sizes",
                    found=at.indexed,
                ) from None
            rows, cols = region(problem, inputs, tiling, at.stage, coord)
            if rows.stop > rows.start and cols.stop > cols.start:  # a sequence may be empty
                yield coord, (rows, cols), place
