"""A case within a larger problem: the launch has its sizes, only the clusters of the case's groups run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from tileproof.conformance.observe.observation import axes_of
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.cases import Spread


def fits(spread: Spread, plan: KernelPlan, launch: LaunchFile) -> bool:
    """Whether the grid is one cluster per group along x, so that clusters can be chosen by their groups."""
    return launch.main.grid == (spread.count * plan.cluster, 1, 1) and len(launch.launches) == 1


def chosen(spread: Spread, launch: LaunchFile) -> LaunchFile:
    """The launch of the larger problem, of which only the clusters of the case's groups run."""
    steps = (
        replace(step, clusters=spread.groups) if isinstance(step, KernelLaunch) else step
        for step in launch.steps
    )
    return replace(launch, steps=tuple(steps))


def gathered(spread: Spread, plan: KernelPlan, seen: RunResult) -> RunResult:
    """The result as that of the case alone: outputs of its groups, captures counted by its own groups. It has
    no certificate, which would be of the whole grid.
    """
    groups = list(spread.groups)
    outputs = dict(seen.outputs)
    for name in _by_group(spread, plan):
        if name in outputs:
            outputs[name] = Output(outputs[name].values[groups], outputs[name].written[groups])
    places = {group: number for number, group in enumerate(groups)}

    def here(cta: tuple[int, int, int]) -> tuple[int, int, int]:
        return places[cta[0] // plan.cluster] * plan.cluster + cta[0] % plan.cluster, *cta[1:]

    captures = tuple(replace(capture, cta=here(capture.cta)) for capture in seen.captures)
    return replace(
        seen,
        outputs=outputs,
        captures=captures,
        findings=tuple(_moved(finding, here) for finding in seen.findings),
        certificate=None,
    )


def elsewhere(spread: Spread, plan: KernelPlan, seen: RunResult, build: str) -> list[Finding]:
    """A finding for each output that was written in a group that did not run."""
    found = []
    for name, stage in _by_group(spread, plan).items():
        if name not in seen.outputs:
            continue
        output = seen.outputs[name]
        others = np.setdiff1d(output.rows_stored(), spread.groups, assume_unique=True)
        written = output.written[others].reshape(others.size, prod(output.values.shape[1:]))
        if written.any():
            number = int(np.argwhere(written.any(axis=1))[0, 0])
            unit = plan.problem.unit
            found.append(
                Finding(
                    "surplus",
                    f"output {name} was written for a {unit} whose cluster did not run",
                    problem=ProblemPlace(stage, build, group=int(others[number]), unit=unit, tile=name),
                    wrong=int(written.sum()),
                    elements=int(output.values.size),
                    pattern=f"{int(written.any(axis=1).sum())} {unit}s",
                )
            )
    return found


def placed(spread: Spread, plan: KernelPlan, finding: Finding) -> Finding:
    """A finding about the case, with the numbers of CTA and group in the larger problem."""

    def there(cta: tuple[int, int, int]) -> tuple[int, int, int]:
        return spread.groups[cta[0] // plan.cluster] * plan.cluster + cta[0] % plan.cluster, *cta[1:]

    at = finding.problem
    if at.group is not None:
        finding = replace(finding, problem=replace(at, group=spread.groups[at.group]))
    return _moved(finding, there)


def _moved(finding: Finding, to: Callable[[tuple[int, int, int]], tuple[int, int, int]]) -> Finding:
    cta = finding.machine.cta
    return finding if cta is None else replace(finding, machine=replace(finding.machine, cta=to(cta)))


def _by_group(spread: Spread, plan: KernelPlan) -> dict[str, Any]:
    """The outputs whose first axis counts groups, and the stage of each."""
    return {
        at.parameter: at.stage
        for at in (*plan.observations, *plan.probes)
        if isinstance(at, OutputObservation) and axes_of(at)[0] == spread.axis
    }
