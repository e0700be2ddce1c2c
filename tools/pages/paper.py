"""Writes docs/paper.md: `python -m tileproof.tools.pages.paper`; its numbers come from evidence files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.machine.pages import wrapped, write_or_check
from tileproof.spec.page import table
from tileproof.tools.bugs import page as bugs
from tileproof.tools.bugs.measure import HEAD, counts, summary
from tileproof.tools.pages import paper_data

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
TEXT = Path(__file__).with_name("paper.txt")


def figures() -> dict[str, object]:
    """The figures of the text by name."""
    rows = bugs.stored()
    return {
        "cases": len(rows),
        "covered": len({name for row in rows for name in row["rows"]}),
        "corpus": len(ROWS),
        "tools": table(HEAD, summary(rows)),
        "only": sum(bugs.finders(row) == ["Tileproof"] for row in rows),
        "missed": bugs.missed("output test"),
        "missed_ten": bugs.missed("output test, 10 orders"),
        "accepted": counts(rows, "output test")[0],
        "accepted_ten": counts(rows, "output test, 10 orders")[0],
        **paper_data.figures(),
    }


def page() -> str:
    """The paper as Markdown."""
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in figures().items()}
    text = TEXT.read_text(encoding="utf-8")
    for name, value in shown.items():
        text = text.replace(f"<{name}>", str(value))
    return wrapped(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk differs."""
    return write_or_check("tileproof.tools.pages.paper", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
