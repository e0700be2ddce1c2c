"""Writes docs/fences.md: each fence of two kernels, right and wrong, with the finding of the wrong form."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools.evidence import read_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fences.md"
STORED = "2026-11-29-fences.jsonl.xz"
FOLDERS = {"head64 d_qk 576": "head64", "head128-columns d_qk 576": "head128_columns"}
AROUND = 3  # source lines before and after a fence
WIDTH = 92
TEXT = """# What each fence is for

Each fence instruction of `head64` and `head128-columns` (d_qk 576) was removed from the PTX, alone, and the
kernel run on a small problem with race checking. Choose *right* or *wrong* at each place. **right** is the
source as it is: its run is [certified](certificate.md) for all schedules and has no finding. **wrong** is the
source without the line, and what Tileproof prints then: the two accesses, and the edge that is missing.

- An **error** refutes the removal: the two accesses race.
- A **warning** means that a barrier orders the accesses in time and a formal fence is missing. The PTX ISA
  asks for the fence; the emulator's reading is that its absence changes no value
  ([readings](assumptions.md)). With `--strict` the warning is an error.
- A **note** names a fence that a strict reading of the ISA asks for and that common libraries leave out.
- **No finding**: another edge orders the same accesses in this launch.

A removal without an error was also run under six other schedules; outputs and additions did not change.
Lines in a finding are those of the day of the measurement.

The compiler copies a source line into several places of the PTX, for example when it unrolls a loop. Each
copy was removed alone; a place shows the finding of its first copy that has any.
`python -m tileproof.tools.pages.fences` generates the page from
[{stored}](evidence/{stored}), whose command is in [evidence](evidence/README.md).
[The kernels](kernels.md) explains roles and barriers."""


@cache
def stored() -> list[UncheckedObject]:
    """The outcome of removing each fence instruction of both kernels."""
    return [json.loads(line) for line in read_text(STORED).splitlines()]


@dataclass(frozen=True)
class Place:
    """A fence in a kernel's source, its number in the file, and the outcomes of removing each of its copies.

    Pages have the number: lines move with every change of a kernel.
    """

    kernel: str
    file: str
    line: int
    number: int
    outcomes: tuple[UncheckedObject, ...]

    @property
    def id(self) -> str:
        """A name for anchors."""
        return f"{FOLDERS[self.kernel]}-{self.file.removesuffix('.cuh')}-{self.number}".replace("_", "-")

    @property
    def opcode(self) -> str:
        """The instruction."""
        return str(self.outcomes[0]["opcode"])

    def counts(self) -> str:
        """How many copies have an error, a warning, a note, or no finding."""
        kinds = [str(row["finding"]).partition(" ")[0] or "no finding" for row in self.outcomes]
        named = {"error": "an error", "warning": "a warning", "note": "a note", "no finding": "no finding"}
        if len(kinds) == 1:
            return f"1 copy: {named[kinds[0]]}"
        parts = [f"{kinds.count(kind)} with {words}" for kind, words in named.items() if kind in kinds]
        return f"{len(kinds)} copies: {', '.join(parts)}".replace("with no", "without a")


def site(kernel: str, at: str) -> tuple[str, int]:
    """The file of a kernel and the line that a chain of places names first."""
    own = {path.name for path in (ROOT / "kernels" / "sm100" / FOLDERS[kernel]).glob("*.cuh")}
    file, line = next(each for each in re.findall(r"([\w.]+):(\d+)", at) if each[0] in own)
    return file, int(line)


def _now(kernel: str, file: str, line: int) -> int:
    """The line of the source with a fence nearest to a stored line: a change elsewhere may have moved it."""
    text = (ROOT / "kernels" / "sm100" / FOLDERS[kernel] / file).read_text(encoding="utf-8")
    fences = [number for number, each in enumerate(text.split("\n"), 1) if re.search(r"::fence_\w+\(", each)]
    return min(fences, key=lambda number: abs(number - line))


def places(kernel: str) -> list[Place]:
    """The fences of a kernel in the order of its source files."""
    found: dict[tuple[str, int], list[UncheckedObject]] = {}
    for row in stored():
        if row["kernel"] == kernel:
            file, line = site(kernel, row["outcome"]["at"])
            found.setdefault((file, _now(kernel, file, line)), []).append(row["outcome"])
    made: list[Place] = []
    for (file, line), rows in sorted(found.items()):
        number = 1 + sum(place.file == file for place in made)
        made.append(Place(kernel, file, line, number, tuple(rows)))
    return made


def _source(place: Place, wrong: bool) -> str:
    """The lines around a fence; its own marked, or struck out."""
    path = ROOT / "kernels" / "sm100" / FOLDERS[place.kernel] / place.file
    lines = path.read_text(encoding="utf-8").split("\n")
    first = max(0, place.line - 1 - AROUND)
    near = lines[first : place.line + AROUND]
    indent = min(len(line) - len(line.lstrip()) for line in near if line.strip())
    shown = []
    for number, line in enumerate(near, first + 1):
        text = escape(line[indent:].rstrip(), quote=False) or "<span></span>"  # a blank line ends HTML
        if number == place.line:
            text = f"<del>{text}</del>" if wrong else f"<mark>{text}</mark>"
        shown.append(text)
    return "\n".join(["<pre>", *shown, "</pre>"])


def _folded(finding: str) -> str:
    """A printed finding, its long lines folded."""
    lines = []
    for line in finding.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent + "  ", break_on_hyphens=False)
    return escape("\n".join(lines), quote=False)


def _wrong(place: Place) -> Iterator[str]:
    found = [row for row in place.outcomes if row["finding"]]
    for kind in ("error", "warning", "note"):
        if shown := [row for row in found if row["finding"].startswith(kind)]:
            yield f"<pre>\n{_folded(shown[0]['finding'])}\n</pre>"
            break
    quiet = [row for row in place.outcomes if not row["finding"]]
    if quiet:
        copies = "Every copy" if len(quiet) == len(place.outcomes) else f"{len(quiet)} of the copies"
        yield (
            f"<p>{copies} without a finding: the same outputs in each of {1 + quiet[0]['schedules']} "
            "schedules;\nanother edge orders the same accesses in this launch.</p>"
        )


def toggle(place: Place) -> str:
    """A place as HTML: radio buttons, without JavaScript; both forms are shown where there is no CSS."""
    right = [
        '<div class="right">',
        _source(place, False),
        "<p>Certified for all schedules; no finding.</p>",
        "</div>",
    ]
    wrong = ['<div class="wrong">', _source(place, True), *_wrong(place), "</div>"]
    buttons = [
        f'<input type="radio" name="{place.id}" id="{place.id}-{form}"{" checked" * (form == "right")}>\n'
        f'<label for="{place.id}-{form}">{form}</label>'
        for form in ("right", "wrong")
    ]
    return "\n".join(['<div class="toggle">', *buttons, *right, *wrong, "</div>"])


def page() -> str:
    """The page as Markdown."""
    parts = [TEXT.format(stored=STORED)]
    for kernel in FOLDERS:
        own = places(kernel)
        copies = sum(len(place.outcomes) for place in own)
        parts += [f"## {kernel}", f"{len(own)} places in the source, {copies} fence instructions in the PTX."]
        for place in own:
            parts += [
                f"### {place.file}, fence {place.number}: `{place.opcode}`",
                f"{place.counts()}.",
                toggle(place),
            ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk differs."""
    return write_or_check("tileproof.tools.pages.fences", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
