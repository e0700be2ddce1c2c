"""Write the instruction table: ``python -m tileproof.emulator.docs`` generates docs/instructions.md.

The page is generated from the registry and the table of findings, so that it agrees with the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tileproof.emulator import isa
from tileproof.emulator.codes import CODES, Code
from tileproof.emulator.registry import ROWS, Row
from tileproof.emulator.silicon import NONE, CardRun, card_runs, seen
from tileproof.spec.machine.pages import write_or_check

PAGE = Path(__file__).resolve().parents[1] / "docs" / "instructions.md"
GRADES = {
    "modelled": "values, and completion where it is asynchronous, follow the PTX ISA",
    "order only": "accepted; has no effect on values, because operations happen in the required order anyway",
    "refused": "known, but not executed: a kernel that contains it is rejected with an error that names it",
}


def page(rows: Iterable[Row], codes: Iterable[Code], runs: Sequence[CardRun]) -> str:
    """Return the text of the page for these rows, codes and runs on cards."""
    known = list(rows)
    executed = [row for row in known if row.grade != "refused"]
    lines = [
        "# What the emulator executes",
        "",
        "Generated from `emulator/isa/` and `emulator/codes.py` by `python -m tileproof.emulator.docs`. Edit",
        "these files, not this page. Section numbers refer to the PTX ISA manual, version 9.x. The emulator",
        "rejects an instruction, modifier or operand form that is not listed here, with an error that names",
        "it; it never skips an instruction.",
        "",
        *_table(("grade", "means"), GRADES.items()),
        "",
        'The column "seen on silicon" is computed from [docs/evidence](evidence/README.md): launches of the',
        "emulator's tests that a card repeated ([card.md](card.md)), words of `wgmma`. It names the card,",
        "the date, and how many spellings of the form were executed with every word equal to the emulator's.",
        f"The evidence's page explains launches that differ. Without a launch, a form has {NONE}.",
        "",
        *_table(
            ("card", "evidence"),
            ((f"{run.card} {run.date}", ", ".join(f"`{file}`" for file in run.files)) for run in runs),
        ),
    ]
    groups = list(dict.fromkeys(row.group for row in executed))
    for group in groups:
        members = [row for row in executed if row.group == group]
        lines += ["", f"## {group[0].upper() + group[1:]}", ""]
        head = ("instruction", "form", "grade", "seen on silicon", "ISA", "note")
        lines += _table(
            head, (line for r in sorted(members, key=lambda r: r.base) for line in _lines(r, runs))
        )
    lines += ["", "## Refused", ""]
    lines += _table(
        ("instruction", "description", "ISA"),
        (
            (f"`{r.base}`", r.note, r.section)
            for r in sorted(known, key=lambda r: r.base)
            if r.grade == "refused"
        ),
    )
    lines += [
        "",
        "## Findings",
        "",
        'A finding that "stops" ends the launch: hardware would trap, hang or continue with',
        "undefined behaviour.",
        "`launch(strict=True)` follows the letter of the ISA and uses the values in brackets.",
        "",
        *_table(
            ("code", "about", "severity", "launch", "meaning"),
            (
                (
                    f"`{c.code}`",
                    c.group,
                    c.severity + (f" ({c.strict})" if c.strict != c.severity else ""),
                    _END[c.stops] + (f" ({_END[c.strict_stops]})" if c.strict_stops != c.stops else ""),
                    c.meaning,
                )
                for c in codes
            ),
        ),
    ]
    return "\n".join(lines) + "\n"


_END = {True: "stops", False: "continues"}


def _lines(row: Row, runs: Sequence[CardRun]) -> Iterator[tuple[str, ...]]:
    """A line for each form; the section and the note stand on the first."""
    forms = [form.strip() for form in row.forms.split(";")]
    for number, (form, pattern) in enumerate(zip(forms, row.spellings.patterns, strict=True)):
        rest = ("", "") if number else (row.section, row.note)
        yield (f"`{row.base}`", f"`{form}`" if form else "", row.grade, seen(row, pattern, runs), *rest)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 when the page on disk is stale."""
    assert isa  # importing it fills the registry

    def write() -> str:
        return page(ROWS, CODES.values(), card_runs())

    return write_or_check("tileproof.emulator.docs", PAGE, write, arguments)


if __name__ == "__main__":
    sys.exit(main())
