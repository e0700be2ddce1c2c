"""Write the instruction table: ``python -m tileproof.emulator.docs`` generates docs/instructions.md.

The page is generated from the registry and the table of findings, so that it agrees with the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tileproof.emulator import isa
from tileproof.emulator.codes import CODES, Code
from tileproof.emulator.registry import ROWS, Row
from tileproof.spec.machine.pages import write_or_check

PAGE = Path(__file__).resolve().parents[1] / "docs" / "instructions.md"
GRADES = {
    "modelled": "values, and completion where it is asynchronous, follow the PTX ISA",
    "order only": "accepted; has no effect on values, because operations happen in the required order anyway",
    "refused": "known, but not executed: a kernel that contains it is rejected with an error that names it",
}


def page(rows: Iterable[Row], codes: Iterable[Code]) -> str:
    """Return the text of the page for these rows and codes."""
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
    ]
    groups = list(dict.fromkeys(row.group for row in executed))
    for group in groups:
        members = [row for row in executed if row.group == group]
        lines += ["", f"## {group[0].upper() + group[1:]}", ""]
        lines += _table(
            ("instruction", "forms", "grade", "ISA", "note"),
            (
                (f"`{r.base}`", _forms(r.forms), r.grade, r.section, r.note)
                for r in sorted(members, key=lambda r: r.base)
            ),
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


def _forms(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 when the page on disk is stale."""
    assert isa  # importing it fills the registry
    return write_or_check("tileproof.emulator.docs", PAGE, lambda: page(ROWS, CODES.values()), arguments)


if __name__ == "__main__":
    sys.exit(main())
