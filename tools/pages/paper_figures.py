"""The paper's figures, drawn from evidence: outcomes of removals, and what finds the benchmark's cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools.bugs import page as bugs
from tileproof.tools.pages.paper_data import outcomes
from tileproof.tools.site.drawing import FAINT, Svg

Bar = tuple[str, Sequence[int]]
COLOURS = ("strong", "stage", "empty")


def bars(title: str, rows: Sequence[Bar], legend: Sequence[str]) -> Svg:
    """A stacked bar for each row, with the number in each part, and the legend below."""
    left, width, height = 190, 520, 26
    svg = Svg(760, 44 + height * len(rows) + 30, title)
    svg.text(20, 18, title, anchor="start", bold=True)
    unit = width / max(sum(counts) for _, counts in rows)
    for number, (name, counts) in enumerate(rows):
        y, x = 30 + height * number, float(left)
        svg.text(left - 8, y + 14, name, anchor="end", size=11)
        for colour, count in zip(COLOURS, counts, strict=True):
            svg.rect(x, y, unit * count, height - 8, colour, radius=0)
            if unit * count > 9 * len(str(count)):
                svg.text(x + unit * count / 2, y + 13, str(count), size=10)
            x += unit * count
        svg.text(x + 6, y + 13, str(sum(counts)), anchor="start", size=10, colour=FAINT)
    x, y = float(left), 30 + height * len(rows) + 8
    for colour, words in zip(COLOURS, legend, strict=True):
        svg.rect(x, y, 14, 14, colour, radius=0)
        svg.text(x + 20, y + 12, words, anchor="start", size=11)
        x += 40 + 6.2 * len(words)
    return svg


def removals() -> Svg:
    """What removing each synchronising instruction of a kernel leads to."""
    rows = [(kernel, [int(count) for count in counts]) for kernel, _, *counts in outcomes()]
    title = "Synchronising instructions removed in turn, by kernel"
    return bars(title, rows, ("refuted", "certified", "neither"))


def _kind(row: UncheckedObject) -> int:
    """0: a comparison of outputs finds it in one order; 1: in ten; 2: it does not."""
    found = [row["tools"][tool]["found"] for tool in ("output test", "output test, 10 orders")]
    return 0 if found[0] else 1 if found[1] else 2


def benchmark() -> Svg:
    """The wrong forms of the benchmark by group of the corpus, by what finds them."""
    counts: dict[str, list[int]] = {}
    for row in bugs.stored():
        group = ROWS[row["rows"][0]].group if row["rows"] else row["form"]
        counts.setdefault(group, [0, 0, 0])[_kind(row)] += 1
    rows = sorted(counts.items(), key=lambda item: -sum(item[1]))
    title = "Wrong forms of the benchmark, all found by Tileproof, by whether outputs show them"
    return bars(title, rows, ("outputs differ in one order", "only in ten orders", "outputs do not show it"))


FIGURES: dict[str, Callable[[], Svg]] = {"paper-benchmark": benchmark, "paper-removals": removals}
