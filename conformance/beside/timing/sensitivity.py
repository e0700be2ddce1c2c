"""The machine figures that change the result most: what to measure first."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from tileproof.conformance.beside.timing.kernel import TimedKernel
from tileproof.conformance.beside.timing.model import Played
from tileproof.conformance.beside.timing.noise import Noise
from tileproof.spec.machine.timing import Timing


@dataclass(frozen=True)
class Moved:
    """Clocks per k-block with one figure at its best and at its worst, all others likely."""

    figure: str
    best: float
    worst: float
    source: str

    @property
    def span(self) -> float:
        """By how much the figure's interval moves the answer."""
        return abs(self.worst - self.best)


def sensitivity(timed: TimedKernel, alone: bool) -> list[Moved]:
    """A row per figure whose interval moves the clocks per k-block, the largest first. A single order of
    events is simulated: figures with an effect below the difference of two orders are omitted."""
    used = used_figures(timed.run, timed.timing, alone)
    out = []
    for name, figure in timed.timing.figures().items():
        if name not in used or figure.best == figure.worst:
            continue
        best, worst = (
            _per_block(timed, timed.timing.fixed({name: value}), alone)
            for value in (figure.best, figure.worst)
        )
        if abs(worst - best) >= _seen(timed.report.noise):
            out.append(Moved(name, best, worst, figure.source))
    return sorted(out, key=lambda one: -one.span)


def _seen(noise: Noise) -> float:
    return max(1.0, 2 * sqrt(2) * noise.deviation)


def used_figures(run: Played, timing: Timing, alone: bool) -> set[str]:
    """The figures that a run of the model reads."""
    return run.clocks(timing, "likely", alone).used


def _per_block(timed: TimedKernel, timing: Timing, alone: bool) -> float:
    few, many = (run.clocks(timing, "likely", alone, 0).clocks for run in (timed.short, timed.run))
    return (many - few) / (timed.report.k_blocks[1] - timed.report.k_blocks[0])
