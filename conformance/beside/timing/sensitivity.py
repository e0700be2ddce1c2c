"""The machine figures that change the result most: what to measure first."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt

from tileproof.conformance.beside.timing.kernel import TimedKernel
from tileproof.conformance.beside.timing.model import Played
from tileproof.conformance.beside.timing.noise import Noise
from tileproof.spec.machine.timing import Figure, Timing

GROUP = 5  # figures that are moved together first: most figures have no effect
MIN_EFFECT = 0.01  # of the likely clocks: what a figure moves that is reported
ASSUMPTIONS = 3  # of the headline
Runner = Callable[[Sequence[Callable[[], list[float]]]], list[list[float]]]
"""Runs pieces of work, at once or in turn; their results in order."""


def serial(work: Sequence[Callable[[], list[float]]]) -> list[list[float]]:
    """The results of pieces of work that run in turn."""
    return [piece() for piece in work]


@dataclass(frozen=True)
class Moved:
    """Clocks per k-block with one figure at its best and at its worst, all others likely."""

    name: str
    figure: Figure
    best: float
    worst: float

    @property
    def span(self) -> float:
        """By how much the figure's interval moves the answer."""
        return abs(self.worst - self.best)

    def __str__(self) -> str:
        figure = self.figure
        return (
            f"{self.name} = {figure.likely:g} ({figure.best:g} to {figure.worst:g} {figure.unit}): "
            f"{self.best:,.0f} to {self.worst:,.0f} clocks"
        )


def sensitivity(timed: TimedKernel, alone: bool, run: Runner = serial, parts: int = 1) -> list[Moved]:
    """A row per figure whose interval moves the clocks per k-block, the largest first; `run` gets the work in
    so many `parts`.

    A single order of events is simulated: figures with an effect below `MIN_EFFECT`, or the difference of
    two orders, are omitted. Figures are moved in groups first: a group with less than half of that effect is
    omitted.
    """
    figures = timed.timing.figures()
    used = used_figures(timed.run, timed.timing, alone)
    names = [name for name in figures if name in used and figures[name].best != figures[name].worst]
    groups = [names[at : at + GROUP] for at in range(0, len(names), GROUP)]
    ends = [
        {name: getattr(figures[name], case) for name in group}
        for group in groups
        for case in ("best", "worst")
    ]
    least = max(MIN_EFFECT * timed.report.clocks.likely, _seen(timed.report.noise))
    middle, *clocks = _clocks(timed, alone, [{}, *ends], run, parts)
    moving = []
    for at, group in enumerate(groups):
        three = middle, *clocks[2 * at : 2 * at + 2]
        moving += group if max(three) - min(three) >= least / 2 else []
    ends = [
        {name: value}
        for name in moving
        for value in _ends(figures[name])
        if value != figures[name].likely  # otherwise the middle
    ]
    changed = [next(iter(setting.items())) for setting in ends]
    clocks_at = dict(zip(changed, _clocks(timed, alone, ends, run, parts), strict=True))
    out = [
        Moved(name, figures[name], *(clocks_at.get((name, value), middle) for value in _ends(figures[name])))
        for name in moving
    ]
    return sorted((moved for moved in out if moved.span >= least), key=lambda moved: -moved.span)


def headline(timed: TimedKernel, found: Sequence[Moved]) -> list[str]:
    """The interval, and the likely value with the assumptions that move it most."""
    clocks = timed.report.clocks
    low, _, high = sorted((clocks.best, clocks.likely, clocks.worst))
    return [
        f"{timed.report.kernel}: {low:,.0f} to {high:,.0f} clocks per k-block",
        f"likely {clocks.likely:,.0f}, if" + ("" if found else " the figures are their likely values"),
        *(f"  {moved}" for moved in found[:ASSUMPTIONS]),
    ]


def _ends(figure: Figure) -> tuple[float, float]:
    return figure.best, figure.worst


def _seen(noise: Noise) -> float:
    return max(1.0, 2 * sqrt(2) * noise.deviation)


def used_figures(run: Played, timing: Timing, alone: bool) -> set[str]:
    """The figures that a run of the model reads."""
    return run.clocks(timing, "likely", alone).used


def _clocks(
    timed: TimedKernel, alone: bool, settings: Sequence[Mapping[str, float]], run: Runner, parts: int
) -> list[float]:
    """Clocks per k-block with each of these settings."""
    found = run([partial(_in_turn, timed, alone, settings[at::parts]) for at in range(parts)])
    out = [0.0] * len(settings)
    for number, clocks in enumerate(found):
        out[number::parts] = clocks
    return out


def _in_turn(timed: TimedKernel, alone: bool, settings: Sequence[Mapping[str, float]]) -> list[float]:
    out = []
    gc.freeze()  # a collection would visit every event of the runs
    for values in settings:
        timing = timed.timing.fixed(values)
        few, many = (run.clocks(timing, "likely", alone, 0).clocks for run in (timed.short, timed.run))
        out.append((many - few) / (timed.report.k_blocks[1] - timed.report.k_blocks[0]))
    return out
