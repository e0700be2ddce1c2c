"""Leave-one-out: figures are chosen again without a row, which then tests them: `python benchmarks/timing.py
--leave-one-out`.

A figure that only one row is behind cannot be tested so; those are named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tileproof.spec.machine.timing import Timing
from tileproof.tools.calibration import Row

POINTS = 9  # of a figure's interval that are tried; of two figures together 5 each
POINTS_OF_TWO = 5


@dataclass(frozen=True)
class HeldOutRow:
    """A row, and how far off its likely value is with the figures as they are and as its fellows alone choose
    them: `values`, by name."""

    what: str
    off: float
    without: float
    values: dict[str, float]


def rows_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows that each choice of figures was made from; some choose two figures together."""
    behind: dict[str, list[Row]] = defaultdict(list)
    choices = {row.fits for row in rows if row.fits}
    for choice in choices:
        names = set(choice.split(", "))
        behind[choice] = [row for row in rows if row.fits and names <= set(row.fits.split(", "))]
    return dict(sorted(behind.items()))


def leave_one_out(rows: Sequence[Row], names: Sequence[str], timing: Timing) -> list[HeldOutRow]:
    """For each row the figures with the least mean error of the other rows, of points of their intervals."""
    figures = timing.figures()
    count = POINTS if len(names) == 1 else POINTS_OF_TWO
    ranges = [
        [
            figures[name].best + (figures[name].worst - figures[name].best) * at / (count - 1)
            for at in range(count)
        ]
        for name in names
    ]
    tried = [dict(zip(names, values, strict=True)) for values in product(*ranges)]
    tried.append({name: figures[name].likely for name in names})
    offs = [[row.again(timing.fixed(values)) / row.measured - 1 for row in rows] for values in tried]
    found = []
    for at, row in enumerate(rows):
        fellows = [n for n, other in enumerate(rows) if _program(other) != _program(row)]
        errors = [sum(abs(seen[n]) for n in fellows) for seen in offs]
        best = min(range(len(tried)), key=errors.__getitem__)
        found.append(HeldOutRow(row.what, row.off, offs[best][at], tried[best]))
    return found


def _program(row: Row) -> str:
    """What ran: one CTA and every SM with the same are left out together."""
    return row.what.removesuffix(", one CTA").removesuffix(", every SM")


def lines(rows: Sequence[Row], timing: Timing) -> list[str]:
    """As text: a line per row that is left out, and which figures stand on one row."""
    out = ["", f"{'left out':64s} {'off':>7s} {'without':>8s}  chosen from the others"]
    alone = []
    errors = []
    for choice, behind in rows_of(rows).items():
        if len({_program(row) for row in behind}) < 2:
            alone.append(f"{choice} ({behind[0].what})")
            continue
        for prediction in leave_one_out(behind, choice.split(", "), timing):
            values = ", ".join(f"{name} {value:.4g}" for name, value in prediction.values.items())
            out.append(f"{prediction.what:64s} {prediction.off:+7.1%} {prediction.without:+8.1%}  {values}")
            errors.append(abs(prediction.without))
    if errors:
        mean = sum(errors) / len(errors)
        out.append(f"{len(errors)} rows left out: off by {mean:.1%} on average, {max(errors):.1%} at most")
    return [*out, f"on one row only: {'; '.join(alone)}"]
