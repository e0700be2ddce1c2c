"""A trace as a picture: a lane a role and engine of each CTA, waits and asynchronous operations as bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tileproof.emulator.trace import Event, Trace, TraceNames
from tileproof.spec.machine.errors import TileproofError

_COLOURS = {
    "wait": "#c8c8c8",
    "TMA load": "#4878cf",
    "TMA store": "#7ba3e0",
    "bulk copy": "#7ba3e0",
    "MMA": "#d65f5f",
    "commit": "#8c1c1c",
    "tcgen05.cp": "#b47cc7",
    "TMEM store": "#6acc65",
}
_MOST_ROWS = 80


def draw(trace: Trace, names: TraceNames, path: Path, title: str) -> None:
    """Draws the trace, a row a warp and engine.

    TileproofError when matplotlib is missing or the file cannot be written.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle
    except ImportError:
        raise TileproofError("a picture needs matplotlib", do="pip install matplotlib") from None
    bars, marks = collect(trace, names)
    rows = sorted({key for key, *_ in bars} | {key for key, *_ in marks})[:_MOST_ROWS]
    row_of = {key: len(rows) - 1 - n for n, key in enumerate(rows)}
    figure, axes = plt.subplots(figsize=(13, 0.24 * len(rows) + 1.6))
    for key, begin, end, what in sorted(bars, key=lambda bar: bar[3] == "commit"):
        if key in row_of:
            height = {"wait": 0.42, "commit": 0.25}.get(what, 0.8)
            axes.barh(
                row_of[key], max(end - begin, 1), left=begin, height=height, color=_COLOURS[what], linewidth=0
            )
    shown = [(begin, row_of[key]) for key, begin in marks if key in row_of]
    if shown:
        axes.plot(*zip(*shown, strict=True), "|", color="black", markersize=6, markeredgewidth=0.7)
    axes.set_yticks(list(row_of.values()), [f"{cta}  {label}" for cta, _, label in row_of], fontsize=7)
    axes.set_xlabel("warp instructions executed (an order, no duration)")
    axes.set_title(title + (f"; {trace.note}" if trace.note else ""), fontsize=9)
    used = [what for what in _COLOURS if any(bar[3] == what for bar in bars)]
    handles: list[Any] = [Rectangle((0, 0), 1, 1, color=_COLOURS[what]) for what in used]
    handles.append(Line2D([], [], color="black", marker="|", linestyle="", markersize=6))
    axes.legend(handles, [*used, "arrival"], ncols=len(handles), fontsize=7, loc="upper center",
                bbox_to_anchor=(0.5, -0.9 / (0.24 * len(rows) + 1.0)), frameon=False)  # fmt: skip
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.margins(x=0.01)
    try:
        figure.savefig(path, dpi=110, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise TileproofError("the picture cannot be written", where=str(path), found=str(error)) from None
    plt.close(figure)


Row = tuple[str, int, str]  # CTA, order, label


def collect(trace: Trace, names: TraceNames) -> tuple[list[tuple[Row, int, int, str]], list[tuple[Row, int]]]:
    """Bars (row, begin, end, what) and marks (row, time) of the arrivals."""
    bars: list[tuple[Row, int, int, str]] = []
    marks: list[tuple[Row, int]] = []
    waits: dict[tuple[object, ...], Event] = {}
    issued: dict[int, Event] = {}
    last = 0
    engines = {"MMA": "tensor core", "commit": "tensor core", "tcgen05.cp": "tensor core"}
    engines |= {"TMA load": "TMA", "TMA store": "TMA", "bulk copy": "TMA", "TMEM store": "TMEM store"}
    order = {"TMA": 1000, "tensor core": 1001, "TMEM store": 1002}

    def row(event: Event, engine: str = "") -> Row:
        label = engines[engine] if engine else names.warp(event.rank, event.warp)
        return names.cta(event), order[label] if engine else event.warp, label

    for event in trace:
        last = event.time
        key = (event.cta, event.warp, event.lane)
        if event.kind == "wait":
            waits[key] = event
        elif event.kind == "pass" and key in waits:
            begin = waits.pop(key)
            bars.append((row(begin), begin.time, event.time, "wait"))
        elif event.engine and event.kind.endswith("issue"):
            issued[event.op] = event
        elif event.engine and event.kind.endswith("complete") and event.op in issued:
            begin = issued.pop(event.op)
            bars.append((row(begin, begin.engine), begin.time, event.time, begin.engine))
        elif event.kind == "arrive" and event.object == "mbarrier":
            marks.append((row(event), event.time))
    bars += [(row(begin), begin.time, last, "wait") for begin in waits.values()]
    bars += [(row(begin, begin.engine), begin.time, last, begin.engine) for begin in issued.values()]
    return bars, marks
