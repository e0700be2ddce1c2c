"""A case within a larger problem: the launch has the larger sizes, and only the clusters of the case's groups
run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.rows import accumulated
from tileproof.conformance.observe.observation import axes_of
from tileproof.kernels.launch.model import Extent3, KernelLaunch, LaunchFile, LaunchStep
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.lazy import MAX_FILLED
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import FinishedObservation, KernelPlan, OutputObservation
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import Spread


def fits(spread: Spread, plan: KernelPlan, launch: LaunchFile, own: LaunchFile) -> bool:
    """Whether cluster g of the grid, counted with x fastest, computes group g, so that clusters can be chosen
    by their groups; and whether those of launches beside it can be chosen. `own`: the launch of the case
    alone.
    """
    grid = _grid(launch)
    clusters = (grid[0] // plan.cluster, *grid[1:])
    along_x = grid[0] % plan.cluster == 0 and plan.cluster_shape in (None, (plan.cluster, 1, 1))
    if prod(clusters) != spread.count or not along_x:
        return False
    if any(not at.cleared and axes_of(at)[0] in spread.places for at in accumulated(plan)):
        return False  # rows that no tile is added to would hold other canaries there
    if any(step is None for step in _steps(spread, launch, own)):
        return False
    cut = tiling_of(plan)
    return all(
        plan.problem.group_at(spread.inputs, cut, _cluster(group, clusters)) == group
        for group in spread.groups
    )


def has_room(launch: LaunchFile) -> bool:
    """Whether the emulator can make the launch's outputs: unwritten memory is mapped piece by piece."""
    return sum(buffer.bytes for buffer in launch.buffers if buffer.role == "output") <= MAX_FILLED


def _grid(launch: LaunchFile) -> tuple[int, int, int]:
    """The grid of the main launch, x, y and z."""
    x, y, z = (*launch.main.grid, 1, 1, 1)[:3]
    return x, y, z


def _cluster(number: int, clusters: tuple[int, ...]) -> tuple[int, int, int]:
    """The coordinates of a cluster of the grid, in clusters."""
    x, y = clusters[0], clusters[1]
    return number % x, number // x % y, number // (x * y)


def chosen(spread: Spread, launch: LaunchFile, own: LaunchFile) -> LaunchFile:
    """The launch of the larger problem, of which only the clusters of the case's groups run. `own`: the
    launch of the case alone.
    """
    return replace(launch, steps=tuple(step for step in _steps(spread, launch, own) if step is not None))


def _steps(spread: Spread, launch: LaunchFile, own: LaunchFile) -> Iterator[LaunchStep | None]:
    """The steps of the larger problem, each launch with its clusters; None: they cannot be chosen."""
    for step, alone in zip(launch.steps, own.steps, strict=True):
        if not isinstance(step, KernelLaunch) or not isinstance(alone, KernelLaunch):
            yield step
        elif step is launch.main:
            yield replace(step, clusters=spread.groups)
        elif step.grid == alone.grid:
            yield step
        else:
            along = [_along(spread, axis, (step, alone), (launch.main, own.main)) for axis in range(3)]
            numbers = np.arange(prod(_extents(step))).reshape(_extents(step)[::-1])
            clusters = () if None in along else tuple(numbers[np.ix_(*along[::-1])].reshape(-1).tolist())
            yield replace(step, clusters=clusters) if clusters else None


def _along(
    spread: Spread,
    axis: int,
    step: tuple[KernelLaunch, KernelLaunch],
    main: tuple[KernelLaunch, KernelLaunch],
) -> list[int] | None:
    """The coordinates along a dimension of the clusters that run of a launch beside the main launch; both in
    the larger problem and in the case alone.

    Where its grid grows as the main grid does along a dimension, they are the coordinates of the main
    launch's clusters; it may have several clusters for each. None: it grows otherwise.
    """
    wide, narrow = (_extents(region)[axis] for region in step)
    if wide == narrow:
        return list(range(wide))
    found = []
    for large, small, at in zip(*map(_extents, main), _coordinates(spread, main[0]), strict=True):
        each = narrow // small
        if large != small == len(at) and (wide, narrow) == (large * each, small * each):
            found.append([place * each + part for place in at for part in range(each)])
    return found[0] if len(found) == 1 else None


def _coordinates(spread: Spread, main: KernelLaunch) -> Iterator[list[int]]:
    """By dimension, the coordinates of the main launch's clusters that run."""
    for axis in range(3):
        yield sorted({_cluster(group, _extents(main))[axis] for group in spread.groups})


def _extents(step: KernelLaunch) -> tuple[int, int, int]:
    """The grid of a launch in clusters."""
    x, y, z = (
        extent // size
        for extent, size in zip((*step.grid, 1, 1, 1)[:3], (*step.cluster, 1, 1, 1)[:3], strict=True)
    )
    return x, y, z


def gathered(spread: Spread, plan: KernelPlan, seen: RunResult, launch: LaunchFile) -> RunResult:
    """The result as that of the case alone: outputs at its places, captures counted by its own groups.
    `launch`: of the larger problem.
    """
    grid = _grid(launch)
    outputs = dict(seen.outputs)
    for name, (_, axes) in _outputs(plan).items():
        if name in outputs and not spread.places.keys().isdisjoint(axes):
            own = np.ix_(*_places(spread, axes, outputs[name].values.shape))
            outputs[name] = Output(outputs[name].values[own], outputs[name].written[own])
    numbers = {group: number for number, group in enumerate(spread.groups)}

    def here(cta: tuple[int, int, int]) -> tuple[int, int, int]:
        return numbers[_number(cta, plan, grid)] * plan.cluster + cta[0] % plan.cluster, 0, 0

    captures = tuple(replace(capture, cta=here(capture.cta)) for capture in seen.captures)
    return replace(
        seen,
        outputs=outputs,
        captures=captures,
        findings=tuple(_moved(finding, launch, here) for finding in seen.findings),
    )


def elsewhere(spread: Spread, plan: KernelPlan, seen: RunResult, build: str) -> list[Finding]:
    """A finding for each output that was written outside the places of the clusters that ran."""
    found = []
    cleared = {at.parameter for at in accumulated(plan) if at.cleared}
    for name, (stage, axes) in _outputs(plan).items():
        if name not in seen.outputs or spread.places.keys().isdisjoint(axes):
            continue
        output = seen.outputs[name]
        shape = output.values.shape
        stored = output.elements_stored()
        marks = (
            output.values.reshape(-1)[stored] != 0 if name in cleared else output.written.reshape(-1)[stored]
        )
        at = np.unravel_index(stored[marks], shape)
        own = [np.isin(along, mine) for along, mine in zip(at, _places(spread, axes, shape), strict=True)]
        outside = ~np.logical_and.reduce(own)
        if outside.any():
            first = tuple(int(along[outside][0]) for along in at)
            found.append(
                Finding(
                    "surplus",
                    f"output {name} was written outside the places of the clusters that ran",
                    problem=ProblemPlace(stage, build, tile=name, index=first),
                    wrong=int(outside.sum()),
                    elements=int(output.values.size),
                    pattern=f"first [{', '.join(map(str, first))}] of [{', '.join(axes)}]",
                )
            )
    return found


def placed(spread: Spread, plan: KernelPlan, finding: Finding, launch: LaunchFile) -> Finding:
    """A finding about the case, with the places of CTA, group and elements in the larger problem."""
    grid = _grid(launch)

    def there(cta: tuple[int, int, int]) -> tuple[int, int, int]:
        x, y, z = _cluster(spread.groups[cta[0] // plan.cluster], (grid[0] // plan.cluster, *grid[1:]))
        return x * plan.cluster + cta[0] % plan.cluster, y, z

    at = finding.problem
    tile = plan.problem.stages[at.stage].tile if at.stage in plan.problem.stages else ()
    row, column = (
        spread.places[axis][place] if place is not None and axis in spread.places else place
        for axis, place in zip((*tile, "", "")[:2], (at.row, at.column), strict=True)
    )
    at = replace(
        at,
        row=None if row is None else int(row),
        column=None if column is None else int(column),
    )
    if at.group is not None:
        at = replace(at, group=spread.groups[at.group])
    return _moved(replace(finding, problem=at), launch, there)


def _moved(
    finding: Finding, launch: LaunchFile, to: Callable[[tuple[int, int, int]], tuple[int, int, int]]
) -> Finding:
    """The finding with another CTA of the main launch; those of other launches keep theirs."""
    at = finding.machine
    if at.cta is None or at.launch not in (None, launch.main_number + 1):
        return finding
    return replace(finding, machine=replace(at, cta=to(at.cta)))


def _number(cta: tuple[int, int, int], plan: KernelPlan, grid: Extent3) -> int:
    """The number of a CTA's cluster, x fastest."""
    return cta[0] // plan.cluster + grid[0] // plan.cluster * (cta[1] + grid[1] * cta[2])


def _places(spread: Spread, axes: tuple[str, ...], shape: tuple[int, ...]) -> list[npt.NDArray[np.int64]]:
    """The case's places along each axis of an output."""
    return [spread.places.get(axis, np.arange(size)) for axis, size in zip(axes, shape, strict=True)]


def _outputs(plan: KernelPlan) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The stage of each output, and the output's axes."""
    return {
        at.parameter: (at.stage, tuple(axes_of(at)))
        for at in (*plan.observations, *plan.probes)
        if isinstance(at, OutputObservation | FinishedObservation)
    }
