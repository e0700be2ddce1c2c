"""The evidence as one page that needs nothing beside itself: no script, no file, no network."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from tileproof.conformance.gate.difference import MUTATION, stages_of
from tileproof.conformance.gate.evidence import ReleaseEvidence, titled
from tileproof.conformance.gate.failing import unpacked
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import place, source_or_line

MOST = 12  # reasons at the top
SHOWN = 200  # instructions of one kernel that did not run
PIXELS = 384  # the longer side of a picture, at least
LEGEND = (
    ("rgb(255,255,255)", "no error"),
    ("rgb(120,170,230)", "at the bound"),
    ("rgb(255,160,60)", "just beyond it"),
    ("rgb(150,0,20)", "ten times the bound or more"),
    ("rgb(90,90,90)", "not written"),
)


def page(made: ReleaseEvidence) -> str:
    """The HTML of an evidence. Everything in it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    kernels = [_kernel(one) for one in made.kernels]
    names = list(dict.fromkeys(check.name for one in made.kernels for check in one.checks))
    return environment.get_template("report.html.j2").render(
        e=made,
        kernels=kernels,
        names=names,
        mutation=MUTATION,
        drawn=any(one["mutants"] for one in kernels),
        failures=[failure for one in kernels for failure in one["failures"]],
        legend=LEGEND,
        most=MOST,
        shown=SHOWN,
        check_table=check_table,
        facts=facts,
    )


def anchor(text: str) -> str:
    """A text as an id."""
    return re.sub(r"\W+", "-", text).strip("-").lower()


def _kernel(one: VerdictRecord) -> dict[str, Any]:
    title = titled(one)
    name = anchor(title)
    stages = stages_of(one)
    return {
        "v": one,
        "title": title,
        "anchor": name,
        "checks": {check.name: {"o": check, "anchor": anchor(check.name)} for check in one.checks},
        "stages": stages,
        "mutants": _mutants(one),
        "plot": plot({n: float(s["worst_error_over_bound"]) for n, s in stages.items()}, title),
        "failures": [
            _failure(title, name, check.details["failure"])
            for check in one.checks
            if check.details.get("failure")
        ],
    }


# What the page shows of a score; one that another tool wrote may lack some, and is shown as it is.
_SCORE = (
    "killed", "of", "score", "survived", "equivalent", "refused", "seed", "profile", "drawn", "synchronising",
    "with a cause", "value findings", "survivors", "by operator", "by check", "operators", "count",
)  # fmt: skip


def _mutants(one: VerdictRecord) -> dict[str, Any] | None:
    """The score of a kernel's mutants; None without one."""
    part = one.sections.get(MUTATION)
    if not isinstance(part, dict) or any(name not in part for name in _SCORE):
        return None
    sizes = ",".join(f"{name}={size}" for name, size in one.program.variant.items())
    words = [
        f"tileproof mutate {one.program.kernel}", *([f"--variant {sizes}"] if sizes else []),
        f"--seed {part['seed']}", f"--count {part['count']}", f"--operators {','.join(part['operators'])}",
        *(f"--at {one}" for one in part.get("at", ())),
        f"--profile {part['profile']}", *(f"--only {row['number']}" for row in part["survivors"][:1]),
    ]  # fmt: skip
    columns = list(part["by operator"][0]) if part["by operator"] else []
    return {**part, "columns": columns, "replay": " ".join(words)}


def _failure(title: str, name: str, failure: dict[str, Any]) -> dict[str, Any]:
    tile = failure.get("tile")
    shown = None
    if tile:
        shades = unpacked(tile)
        rows, columns = shades.shape
        scale = max(PIXELS // max(rows, columns), 1)
        shown = {
            **tile,
            "picture": picture(shades),
            "width": columns * scale,
            "height": rows * scale,
            "rows": rows,
            "columns": columns,
            "first_row": tile["rows"][0],
            "last_row": tile["rows"][1] - 1,
            "first_column": tile["columns"][0],
            "last_column": tile["columns"][1] - 1,
        }
    where = tile["title"] if tile else "the first finding"
    return {
        "anchor": f"{name}-failure",
        "title": f"{title}: {where}",
        "text": "\n".join(failure["text"]),
        "trace": "\n".join(failure["trace"]),
        "replay": failure["replay"],
        "tile": shown,
    }


def check_table(checks: Sequence[CheckOutcome], prefix: str) -> Markup:
    """The checks with outcome and reason; each row can be linked to."""
    rows = Markup("").join(
        Markup(
            '<tr id="{id}"><th scope="row">{name}</th><td><span class="word {kind}">{outcome}</span></td>'
            '<td class="n">{seconds:.1f}</td><td class="long">{reason}</td></tr>'
        ).format(
            id=f"{prefix}-{anchor(one.name)}",
            name=one.name,
            kind="error" if one.fault else _kind(one),
            outcome=one.outcome + ("" if one.required else ", optional"),
            seconds=one.seconds,
            reason=one.fault or one.reason,
        )
        for one in checks
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="Checks"><table><thead><tr>'
        '<th scope="col">check</th><th scope="col">outcome</th><th scope="col">seconds</th>'
        '<th scope="col">why</th></tr></thead><tbody>{}</tbody></table></div>'
    ).format(rows)


def _kind(one: CheckOutcome) -> str:
    if one.outcome in ("unsupported", "not run") and not one.required:
        return "optional"
    return one.outcome.replace(" ", "-")


def facts(one: Finding) -> Iterable[tuple[str, str]]:
    """What a finding says, a line each, without what it does not say."""
    at, race = one.machine, one.machine.race
    value = "" if one.expected is None else f"{one.expected!r}"
    bound = "" if one.bound is None else f"{one.bound:.3g}"
    lines = (
        ("where", place(one)),
        ("expected", value),
        ("bound", bound),
        ("found", "" if one.found is None else f"{one.found!r}"),
        ("wrong", f"{one.wrong} of {one.elements}" if one.elements else ""),
        ("pattern", one.pattern),
        ("cause", one.cause),
        ("source", at.source),
        ("PTX line", str(at.ptx_line or "")),
        ("instruction", at.instruction),
        ("PTX ISA", at.isa_section),
        ("earlier access", source_or_line(race.source, race.ptx_line) if race else ""),
        ("evidence", "; ".join(one.evidence)),
        ("alike", str(one.count + one.others) if one.count + one.others > 1 else ""),
        ("replay", one.replay),
    )
    return [(name, text) for name, text in lines if text]


# ---- pictures


def _palette() -> bytes:
    """Red, green and blue of the 256 shades of `failing.levels`."""
    colours = []
    stops = [(0, (255, 255, 255)), (127, (120, 170, 230)), (128, (255, 160, 60)), (254, (150, 0, 20))]
    for shade in range(255):
        (low, one), (high, two) = next((a, b) for a, b in pairwise(stops) if a[0] <= shade <= b[0])
        part = (shade - low) / (high - low)
        colours.append(tuple(round(a + (b - a) * part) for a, b in zip(one, two, strict=True)))
    colours.append((90, 90, 90))
    return bytes(value for colour in colours for value in colour)


def picture(shades: npt.NDArray[np.uint8]) -> str:
    """The shades as a PNG in a data URL, one pixel an element (PNG 3rd edition, colour type 3)."""
    rows, columns = shades.shape
    lines = b"".join(b"\0" + line.tobytes() for line in shades)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", _palette()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def plot(worst: dict[str, float], title: str) -> Markup:
    """Bars of the largest error over its bound, stage by stage, with the bound as a line; beyond twice the
    bound a bar is cut off, and its figure says how far it goes.
    """
    left, width, step = 150, 360, 22
    height = step * len(worst) + 24
    bars = []
    for number, (name, ratio) in enumerate(worst.items()):
        y = 4 + step * number
        length = min(ratio if np.isfinite(ratio) else 2.0, 2.0) / 2 * width
        colour = "#a40e1c" if not ratio <= 1 else "#2f6fb5"
        bars.append(
            Markup(
                '<text x="{x}" y="{t}" text-anchor="end">{name}</text>'
                '<rect x="{left}" y="{y}" width="{w:.1f}" height="14" fill="{colour}"/>'
                '<text x="{end:.1f}" y="{t}">{ratio:.3g}</text>'
            ).format(
                x=left - 8, t=y + 12, name=name, left=left, y=y, w=length, colour=colour,
                end=left + length + 6, ratio=ratio,
            )
        )  # fmt: skip
    at = left + width / 2
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" font-size="13" '
        'font-family="sans-serif"><title>Largest error over its bound, {title}</title>{bars}'
        '<line x1="{at}" x2="{at}" y1="0" y2="{end}" stroke="#1a1f27" stroke-dasharray="4 3"/>'
        '<text x="{at}" y="{text}" text-anchor="middle">the bound</text></svg>'
    ).format(
        w=left + width + 70,
        h=height,
        title=title,
        bars=Markup("").join(bars),
        at=at,
        end=height - 18,
        text=height - 4,
    )
