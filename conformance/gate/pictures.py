"""Pictures of the page, as SVG: a wrong tile, errors beside their bounds, events over time."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from tileproof.spec.machine.types import Json

SIDE = 384  # of a tile's picture, its longer side
TICKS = 5  # on an axis
STOPS = ((0, (255, 255, 255)), (127, (120, 170, 230)), (128, (255, 160, 60)), (254, (150, 0, 20)))
UNWRITTEN = (90, 90, 90)
_EVENT = re.compile(r"\s*(\d+)  (\S.*?)  (\S.*)")
_LANE = re.compile(r" (lane \d+|\d+ lanes)$")
_WAITS, _ENDS = ("wait",), ("pass", "phase")


def palette() -> bytes:
    """Red, green and blue of the 256 shades of `failing.levels`."""
    colours = []
    for shade in range(255):
        (low, below), (high, above) = next((a, b) for a, b in pairwise(STOPS) if a[0] <= shade <= b[0])
        part = (shade - low) / (high - low)
        colours.append(tuple(round(a + (b - a) * part) for a, b in zip(below, above, strict=True)))
    colours.append(UNWRITTEN)
    return bytes(value for colour in colours for value in colour)


def png(shades: npt.NDArray[np.uint8]) -> str:
    """The shades as a PNG in a data URL, one pixel an element (PNG 3rd edition, colour type 3)."""
    rows, columns = shades.shape
    lines = b"".join(b"\0" + line.tobytes() for line in shades)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", palette()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def ticks(first: int, end: int) -> list[int]:
    """Numbers of elements to write on an axis: the first, the last, and some between at equal distances."""
    step = max((end - first) // (TICKS - 1), 1)
    between = [n for n in range(first, end - 1, step) if end - 1 - n >= step / 2]
    return [*between, end - 1]


def heatmap(tile: Mapping[str, Json], shades: npt.NDArray[np.uint8]) -> Markup:
    """A tile's error over its bound with its axes, which count from the tile's place in its stage, and the
    scale of the colours.
    """
    rows, columns = shades.shape
    unit = SIDE / max(rows, columns)
    width, height = max(columns * unit, 40), max(rows * unit, 40)
    left, top, right, below = 64, 8, 130, 44
    bottom = top + height
    marks = []
    for n in ticks(*tile["rows"]):
        y = top + (n - tile["rows"][0] + 0.5) * height / rows
        marks.append(_text(left - 6, y + 4, str(n), "end") + _line(left - 4, y, left, y))
    for n in ticks(*tile["columns"]):
        x = left + (n - tile["columns"][0] + 0.5) * width / columns
        marks.append(_text(x, bottom + 16, str(n), "middle") + _line(x, bottom, x, bottom + 4))
    marks.append(_text(left + width / 2, bottom + 36, tile["axes"][1], "middle"))
    turned = '<text transform="translate(14 {y:.1f}) rotate(-90)" text-anchor="middle">{name}</text>'
    marks.append(Markup(turned).format(y=top + height / 2, name=tile["axes"][0]))
    what = (
        f"Error over its bound of the {rows} by {columns} elements of the tile of {tile['stage']}; "
        f"{tile['wrong']} of {tile['elements']} are wrong"
    )
    return Markup(
        '<svg class="heat" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" height="{h:.0f}" role="img" '
        'font-size="12" font-family="sans-serif"><title>{what}</title>'
        '<image href="{png}" x="{left}" y="{top}" width="{width:.1f}" height="{height:.1f}" '
        'preserveAspectRatio="none" style="image-rendering: pixelated"/>'
        '<rect x="{left}" y="{top}" width="{width:.1f}" height="{height:.1f}" class="frame"/>'
        "{marks}{scale}</svg>"
    ).format(
        w=left + width + right, h=top + max(height, 150) + below, what=what, png=png(shades), left=left,
        top=top, width=width, height=height, marks=Markup("").join(marks),
        scale=_scale(left + width + 24, top),
    )  # fmt: skip


def _scale(x: float, top: float) -> Markup:
    """The colours from no error to ten times the bound, and that of what was not written."""
    colours = palette()
    steps, high = 64, 110
    bars = [
        Markup('<rect x="{x}" y="{y:.1f}" width="16" height="{h:.1f}" fill="rgb{rgb}"/>').format(
            x=x, y=top + high * (1 - (n + 1) / steps), h=high / steps + 0.5,
            rgb=tuple(colours[3 * shade : 3 * shade + 3]),
        )
        for n, shade in enumerate(np.linspace(0, 254, steps).astype(int))
    ]  # fmt: skip
    names = ((0, "no error"), (0.5, "the bound"), (1, "10 x bound"))
    words = [_text(x + 22, top + high * (1 - at) + 8 * at, word, "start") for at, word in names]
    unwritten = Markup('<rect x="{x}" y="{y}" width="16" height="16" fill="rgb{rgb}"/>').format(
        x=x, y=top + high + 12, rgb=UNWRITTEN
    )
    return Markup("").join((*bars, *words, unwritten, _text(x + 22, top + high + 24, "not written", "start")))


def _text(x: float, y: float, word: str, anchor: str) -> Markup:
    return Markup('<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{word}</text>').format(
        x=x, y=y, anchor=anchor, word=word
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="axis" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>').format(
        a=x1, b=y1, c=x2, d=y2
    )


def plot(worst: Mapping[str, float], title: str) -> Markup:
    """Bars of the largest error over its bound, stage by stage, with the bound as a line; beyond twice the
    bound a bar is cut off, and its figure says how far it goes.
    """
    left, width, step = 150, 360, 22
    height = step * len(worst) + 24
    bars = []
    for number, (name, ratio) in enumerate(worst.items()):
        y = 4 + step * number
        length = min(ratio if np.isfinite(ratio) else 2.0, 2.0) / 2 * width
        bars.append(
            _text(left - 8, y + 12, name, "end")
            + Markup('<rect x="{x}" y="{y}" width="{w:.1f}" height="14" class="{kind}"/>').format(
                x=left, y=y, w=length, kind="within" if ratio <= 1 else "beyond"
            )
            + _text(left + length + 6, y + 12, f"{ratio:.3g}", "start")
        )
    at = left + width / 2
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" font-size="13" '
        'font-family="sans-serif"><title>Largest error over its bound, {title}</title>{bars}'
        '<line x1="{at}" x2="{at}" y1="0" y2="{end}" class="axis" stroke-dasharray="4 3"/>{word}</svg>'
    ).format(
        w=left + width + 70, h=height, title=title, bars=Markup("").join(bars), at=at, end=height - 18,
        word=_text(at, height - 4, "the bound", "middle"),
    )  # fmt: skip


def timeline(lines: Sequence[str], *, narrow: bool = False) -> Markup:
    """Events of a trace's text as a picture: a row for each warp or operation, time to the right (equal steps
    from event to event). A bar is a wait, up to the event that ends it; red where nothing ends it. Empty
    where the lines hold no event. `narrow`: names above their rows, for a page as wide as a phone.
    """
    events = [
        (match[1], _LANE.sub("", match[2]), match[3]) for line in lines if (match := _EVENT.fullmatch(line))
    ]
    if not events:
        return Markup("")
    rows = list(dict.fromkeys(who for _, who, _ in events))
    left, step, high = (4, 300 // len(events), 38) if narrow else (250, max(20, 640 // len(events)), 22)
    width, height = left + step * (len(events) + 1), high * len(rows) + 34
    shapes = []
    for number, who in enumerate(rows):
        y = high * (number + 1) - 10
        shapes.append(_text(left, y - 12, who, "start") if narrow else _text(left - 10, y + 4, who, "end"))
        shapes.append(_line(left, y, width, y))
    for number, (at, who, what) in enumerate(events):
        x, y = left + step * (number + 0.5), high * (rows.index(who) + 1) - 10
        kind = what.split()[0]
        if kind in _WAITS:
            later = [n for n in range(number + 1, len(events)) if events[n][1] == who]
            end = left + step * (later[0] + 0.5) if later else width
            shapes.append(
                Markup('<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="6" class="{kind}"/>').format(
                    x=x, y=y - 3, w=end - x, kind="waits" if later else "beyond"
                )
            )
        mark = '<circle cx="{x:.1f}" cy="{y}" r="5" class="{kind}"><title>{at}: {what}</title></circle>'
        shapes.append(Markup(mark).format(x=x, y=y, kind=_kind(kind), at=f"{at} {who}", what=what))
    first, last = events[0][0], events[-1][0]
    ends = _text(left, height - 6, f"at {first}", "start") + _text(width, height - 6, f"at {last}", "end")
    return Markup(
        '<svg class="timeline {kind}" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        'font-size="12" font-family="sans-serif"><title>{n} events of {rows} warps and operations</title>'
        "{shapes}{ends}</svg>"
    ).format(
        kind="narrow" if narrow else "wide", w=width, h=height, n=len(events), rows=len(rows),
        shapes=Markup("").join(shapes), ends=ends,
    )  # fmt: skip


def _kind(word: str) -> str:
    """The class of an event's mark: a wait, the end of a phase or wait, an arrival, anything else."""
    if word in _WAITS:
        return "wait-mark"
    if word in _ENDS:
        return "end-mark"
    return "arrive-mark" if word.startswith(("arrive", "commit", "expect", "deliver")) else "other-mark"
