"""A trace as a picture: a row per role and engine of each CTA, waits with the name of the barrier, and an
arrow to the end of each wait from the event that completed it.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tileproof.emulator.trace import Event, Trace, TraceNames
from tileproof.emulator.trace_links import links, merged_arrivals
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_COLOURS = {
    "wait": "#d9d9d9",
    "never over": "#f2b8b5",
    "TMA load": "#4878cf",
    "TMA store": "#7ba3e0",
    "bulk copy": "#7ba3e0",
    "MMA": "#d65f5f",
    "commit": "#8c1c1c",
    "tcgen05.cp": "#b47cc7",
    "TMEM store": "#6acc65",
}
_ENGINES = {"MMA": "tensor core", "commit": "tensor core", "tcgen05.cp": "tensor core", "TMA load": "TMA",
            "TMA store": "TMA", "bulk copy": "TMA", "TMEM store": "TMEM store"}  # fmt: skip
_ORDER = {"TMA": 1000, "tensor core": 1001, "TMEM store": 1002}
_MOST_ROWS = 120
_CHARACTERS = 230  # of the smallest letters that fit into the width of the axes

Row = tuple[str, int, str]  # CTA, order, label


@dataclass
class Bar:
    """A wait, or operations of one engine, from `begin` to `end`; `text` is written into it.

    by: the row and time of what ended a wait, where that is known. level: the line of its row, 0 the upper.
    """

    row: Row
    begin: int
    end: int
    what: str
    text: str = ""
    by: tuple[Row, int] | None = None
    level: int = 0


@dataclass
class TracePicture:
    """What a picture shows. marks: row, time and barrier of the arrivals of a role at one phase."""

    bars: list[Bar] = field(default_factory=list)
    marks: list[tuple[Row, int, str]] = field(default_factory=list)

    def rows(self) -> list[tuple[Row, int]]:
        """The rows with their number of lines, CTA by CTA."""
        lines = dict.fromkeys((row for row, *_ in self.marks), 1)
        for bar in self.bars:
            lines[bar.row] = max(lines.get(bar.row, 1), bar.level + 1)
        return sorted(lines.items())


def collect(trace: Trace, names: TraceNames) -> TracePicture:
    """The bars and marks of a trace: warps of one role, and operations that belong together, are one."""
    shown = TracePicture()

    def row(event: Event, engine: str = "") -> Row:
        if engine:
            return names.cta(event), _ORDER[_ENGINES[engine]], _ENGINES[engine]
        label = names.warp(event.rank, event.warp)
        return names.cta(event), first.setdefault((event.rank, _role(label)), event.warp), _role(label)

    first: dict[tuple[int, str], int] = {}
    events = merged_arrivals(trace)
    for event in events:
        row(event)
    last = events[-1].time if events else 0
    engines = _operations(events, shown, row, last)
    _waits(trace, names, shown, row, engines, last)
    marks: dict[tuple[Row, str, int, int], int] = {}
    for event in events:
        if event.kind == "arrive" and event.object == "mbarrier" and event.barrier is not None:
            at = row(event), _about(event, names), event.phase, event.to_rank
            marks[at] = max(event.time, marks.get(at, 0))
    shown.marks = [(where, time, name) for (where, name, *_), time in marks.items()]
    _lay_out(shown.bars)
    return shown


def _role(label: str) -> str:
    return label.split(" (warp")[0]


def _about(event: Event, names: TraceNames) -> str:
    """A barrier and the k-block, or the phase, that an event is about."""
    assert event.barrier is not None
    about = names.about(event.barrier, event.phase).replace("k-block ", "k")
    where = f"{names.mbarrier(event.barrier)} {about or f'#{event.phase}'}".removeprefix("mbarrier ")
    return where if event.to_rank == event.rank else f"{where} of rank {event.to_rank}"


RowOf = Callable[..., Row]


def _operations(
    events: list[Event], shown: TracePicture, row: RowOf, last: int
) -> dict[tuple[object, int], str]:
    """Adds the operations, those of one engine that overlap as one bar; the engine of each."""
    issued: dict[tuple[object, int], Event] = {}
    spans: dict[tuple[Row, str], list[tuple[int, int]]] = {}
    engines: dict[tuple[object, int], str] = {}
    for event in events:
        if event.engine and event.kind.endswith("issue"):
            issued[(event.cta, event.op)] = event
            engines[(event.cta, event.op)] = event.engine
        elif event.engine and event.kind.endswith("complete") and (event.cta, event.op) in issued:
            begin = issued.pop((event.cta, event.op))
            spans.setdefault((row(begin, begin.engine), begin.engine), []).append((begin.time, event.time))
    for begin in issued.values():
        spans.setdefault((row(begin, begin.engine), begin.engine), []).append((begin.time, last))
    for (where, engine), found in spans.items():
        bars: list[Bar] = []
        for start, end in sorted(found):
            if bars and start <= bars[-1].end:
                bars[-1].end = max(bars[-1].end, end)
            else:
                bars.append(Bar(where, start, end, engine))
        shown.bars += bars
    return engines


def _waits(
    trace: Trace,
    names: TraceNames,
    shown: TracePicture,
    row: RowOf,
    engines: dict[tuple[object, int], str],
    last: int,
) -> None:
    """Adds the waits of each role on one phase of a barrier, as one bar."""
    waits: dict[tuple[Row, int | None, int, bool], Bar] = {}
    for link in links(trace):
        begin, over = link.begin, link.end is not None
        end = link.end.time if link.end is not None else last
        key = row(begin), begin.barrier, begin.phase, over
        new = Bar(key[0], begin.time, end, "wait" if over else "never over", _about(begin, names))
        bar = waits.setdefault(key, new)
        bar.begin, bar.end = min(bar.begin, begin.time), max(bar.end, end)
        if link.by is not None and over:
            engine = engines.get((link.by.cta, link.op), "")
            bar.by = row(link.by, engine), link.by.time
    shown.bars += waits.values()


def _lay_out(bars: list[Bar]) -> None:
    """Gives bars of one row that overlap lines of their own; a commit lies on the MMAs that it tracks."""
    ends: dict[Row, list[int]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.row, bar.begin, -bar.end)):
        if bar.what == "commit":
            continue
        lines = ends.setdefault(bar.row, [])
        fitting = (level for level, end in enumerate(lines) if end <= bar.begin)
        bar.level = next(fitting, len(lines))
        lines[bar.level : bar.level + 1] = [bar.end]


def draw(trace: Trace, names: TraceNames, path: Path, title: str) -> None:
    """Draws the trace. The horizontal axis has a step for each moment at which a wait begins or ends or a
    role arrives.

    Raises TileproofError when matplotlib is missing or the file cannot be written.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise TileproofError("a picture needs matplotlib", do="pip install 'tileproof[pictures]'") from None
    shown = collect(trace, names)
    heights, top = {}, 0
    for row, lines in shown.rows()[:_MOST_ROWS]:
        heights[row] = top
        top += lines
    figure, axes = plt.subplots(figsize=(17, 0.21 * top + 1.4))
    _paint(axes, shown, heights)
    ticks = [at + 0.5 * (lines - 1) for (_, lines), at in zip(shown.rows(), heights.values(), strict=False)]
    axes.set_yticks(ticks, [f"{cta}  {label}" for cta, _, label in heights], fontsize=7)
    axes.set_ylim(top - 0.4, -0.6)
    axes.margins(x=0.005)
    axes.set_xlabel(
        "moments at which a wait begins or ends or a role arrives, in their order (no duration)", fontsize=7
    )
    axes.set_xticks([])
    axes.set_title(title + (f"; {trace.note}" if trace.note else ""), fontsize=9)
    _legend(axes, shown)
    try:
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise TileproofError("the picture cannot be written", where=str(path), found=str(error)) from None
    plt.close(figure)


def _paint(axes: Axes, shown: TracePicture, heights: dict[Row, int]) -> None:
    bars = [bar for bar in shown.bars if bar.row in heights]
    marks = [mark for mark in shown.marks if mark[0] in heights]
    moments = {time for bar in bars if bar.text for time in (bar.begin, bar.end)}
    moments |= {time for _, time, _ in marks} | {bar.by[1] for bar in bars if bar.by is not None}
    moments = moments or {time for bar in bars for time in (bar.begin, bar.end)}
    steps = sorted(moments)

    def at(time: int) -> float:
        """The place of a time: between the moments on either side, in its proportion."""
        after = bisect.bisect_left(steps, time)
        if after == len(steps) or steps[after] == time or not after:
            return min(after, len(steps) - 1)
        return after - (steps[after] - time) / (steps[after] - steps[after - 1])

    room_of: dict[int, float] = {}
    following: dict[tuple[Row, int], float] = {}
    for bar in sorted(bars, key=lambda bar: bar.begin, reverse=True):
        room_of[id(bar)] = following.get((bar.row, bar.level), len(steps))
        following[(bar.row, bar.level)] = at(bar.begin)
    for bar in sorted(bars, key=lambda bar: bar.what == "commit"):
        y, begin = heights[bar.row] + bar.level, at(bar.begin)
        width = max(at(bar.end) - begin, 0.1)
        height = {"wait": 0.62, "never over": 0.62, "commit": 0.25}.get(bar.what, 0.8)
        axes.barh(y, width, left=begin, height=height, color=_COLOURS[bar.what], linewidth=0)
        room = (room_of[id(bar)] - begin) / max(len(steps), 1) * _CHARACTERS
        if bar.text and len(bar.text) <= room:
            axes.text(begin + 0.1, y, bar.text, fontsize=5, ha="left", va="center", clip_on=True)
    for row in {row for row, *_ in marks}:
        times = [at(time) for where, time, _ in marks if where == row]
        axes.plot(times, [heights[row]] * len(times), "|", color="black", markersize=6, markeredgewidth=0.7)
    for bar in bars:
        if bar.by is not None and bar.by[0] in heights and bar.by[0] != bar.row:
            start, end = (at(bar.by[1]), heights[bar.by[0]]), (at(bar.end), heights[bar.row] + bar.level)
            arrow = {"arrowstyle": "-|>", "color": "#1a6e3c", "lw": 0.45, "alpha": 0.8, "mutation_scale": 5}
            axes.annotate("", xy=end, xytext=start, arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0})


def _legend(axes: Axes, shown: TracePicture) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    used = [what for what in _COLOURS if any(bar.what == what for bar in shown.bars)]
    handles: list[Artist] = [Rectangle((0, 0), 1, 1, color=_COLOURS[what]) for what in used]
    handles.append(Line2D([], [], color="black", marker="|", linestyle="", markersize=6))
    handles.append(Line2D([], [], color="#1a6e3c", lw=0.8))
    words = [*used, "arrival", "from what completed the phase to the end of the wait for it"]
    axes.legend(handles, words, ncols=len(handles), fontsize=7, loc="upper center",
                bbox_to_anchor=(0.5, -0.05), frameon=False)  # fmt: skip
