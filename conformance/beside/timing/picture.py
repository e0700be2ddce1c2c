"""The timeline of a timed run as a picture: a row per role of the first CTA, and one per unit."""

from __future__ import annotations

from pathlib import Path

from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.report import TimeNames
from tileproof.conformance.beside.timing.simulate import Timed
from tileproof.spec.machine.errors import TileproofError

_RUNS, _STALLS, _UNIT = "#4878cf", "#d9d9d9", "#d65f5f"
_LONG = 0.02  # of the whole width: a wait as long as this has its cause written into it


def draw(timed: Timed, names: TimeNames, path: Path, title: str) -> None:
    """Writes the picture; TileproofError when the file cannot be written.

    Blue bars show a role's first warp at work, grey bars its waits, red bars a busy unit of the SM.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    first = min(warp[:3] for warp in timed.ends)
    warps: dict[str, Warp] = {}
    for warp in sorted(timed.ends):
        if warp[:3] == first:
            warps.setdefault(names.role(warp), warp)
    units = sorted({unit for unit, cta, *_ in timed.spans if cta == first})
    figure, axes = pyplot.subplots(figsize=(16, 1 + 0.45 * (len(warps) + len(units))))
    for row, warp in enumerate(warps.values()):
        axes.broken_barh([(0, timed.ends[warp])], (row - 0.35, 0.7), color=_RUNS)
        waits = [span for span in timed.waits[warp] if isinstance(span.cause, tuple)]
        axes.broken_barh(
            [(wait.begin, wait.end - wait.begin) for wait in waits], (row - 0.35, 0.7), color=_STALLS
        )
        for wait in waits:
            if wait.end - wait.begin > _LONG * timed.clocks:
                axes.text(
                    (wait.begin + wait.end) / 2,
                    row,
                    names.cause(wait.cause),
                    ha="center",
                    va="center",
                    fontsize=6,
                )
    for row, unit in enumerate(units, len(warps)):
        spans = [
            (begin, end - begin) for name, cta, begin, end, _ in timed.spans if name == unit and cta == first
        ]
        axes.broken_barh(spans, (row - 0.35, 0.7), color=_UNIT)
    axes.set_yticks(range(len(warps) + len(units)), [*warps, *units])
    axes.invert_yaxis()
    axes.set_xlim(0, timed.clocks)
    axes.set_xlabel("clocks (likely case)")
    axes.set_title(title, fontsize=10)
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise TileproofError("the picture cannot be written", where=str(path), found=str(error)) from None
    finally:
        pyplot.close(figure)
