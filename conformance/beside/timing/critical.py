"""The critical path of a timed run: back from its last clock, from each wait to what ended it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.simulate import Span, Timed


@dataclass(frozen=True)
class Piece:
    """Clocks `begin` to `end` of the path. `what`: "runs" (the warp), "arrives", "wakes", "queues" for a unit
    or "works" in it; `unit` is empty where the warp itself is meant, `line` is of the PTX."""

    begin: float
    end: float
    warp: Warp
    what: str
    unit: str
    line: int


def critical_path(timed: Timed) -> list[Piece]:
    """Pieces in order of time, without holes, from the first clock to the last."""
    if not timed.ends:
        return []
    warp = max(timed.ends, key=lambda end: (timed.ends[end], end))
    time = timed.ends[warp]
    waits = {
        warp: [span for span in spans if isinstance(span.cause, tuple)] for warp, spans in timed.waits.items()
    }
    pieces: list[Piece] = []
    while time > 0:
        span = _last(waits.get(warp, []), time)
        if span is None or span.cause not in timed.by:
            pieces += _runs(timed, warp, 0.0, time)
            break
        pieces += _runs(timed, warp, span.end, time)
        origin = timed.by[span.cause]
        done = timed.completed[span.cause]
        pieces.append(Piece(done, span.end, warp, "wakes", "", span.line))
        if origin.unit:
            pieces.append(Piece(origin.began, done, origin.warp, "works", origin.unit, origin.line))
            pieces.append(Piece(origin.issued, origin.began, origin.warp, "queues", origin.unit, origin.line))
        else:
            pieces.append(Piece(origin.issued, done, origin.warp, "arrives", "", origin.line))
        warp, time = origin.warp, origin.issued
    return [piece for piece in reversed(pieces) if piece.end > piece.begin]


def _last(spans: list[Span], time: float) -> Span | None:
    at = bisect_left(spans, time + 1e-9, key=lambda span: span.end)
    return spans[at - 1] if at else None


def _runs(timed: Timed, warp: Warp, begin: float, end: float) -> list[Piece]:
    """Instructions of a warp between two clocks, latest first, each until the next instruction."""
    log = timed.log[warp]
    first = bisect_left(log, (begin, 0))
    last = bisect_left(log, (end, 0))
    pieces: list[Piece] = []
    edge = end
    for time, line in reversed(log[first:last]):
        if pieces and pieces[-1].line == line:
            pieces[-1] = Piece(time, pieces[-1].end, warp, "runs", "", line)
        else:
            pieces.append(Piece(time, edge, warp, "runs", "", line))
        edge = time
    if edge > begin:
        pieces.append(Piece(begin, edge, warp, "runs", "", log[first][1] if first < len(log) else 0))
    return pieces
