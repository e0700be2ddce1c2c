"""Writes docs/paper.md: `python -m tileproof.tools.pages.paper`; its figures come from the evidence files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.machine.pages import wrapped, write_or_check
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.page import table
from tileproof.tools.bugs import page as bugs
from tileproof.tools.bugs.measure import HEAD, counts, summary
from tileproof.tools.evidence import read_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
TEXT = Path(__file__).with_name("paper.txt")


@cache
def removed() -> list[UncheckedObject]:
    """The stored outcomes of removing each synchronising instruction."""
    return [json.loads(line) for line in read_text("2026-11-28-removals.jsonl.xz").splitlines()]


def outcomes() -> list[tuple[str, ...]]:
    """Per kernel: instructions removed, refuted, certified, neither."""
    counts = Counter((row["kernel"], row["outcome"]["outcome"]) for row in removed())
    kinds = ("refuted", "certified", "neither")
    kernels = dict.fromkeys(row["kernel"] for row in removed())
    every = {kernel: [counts[kernel, kind] for kind in kinds] for kernel in kernels}
    return [(kernel, str(sum(found)), *map(str, found)) for kernel, found in every.items()]


def figures() -> dict[str, object]:
    """The figures of the text by name."""
    rows = bugs.stored()
    card = json.loads(read_text("2026-11-24-h100-ptx.json.xz"))
    fuzz = json.loads(read_text("2026-11-24-h100-fuzz.json.xz"))
    waits = [row["outcome"] for row in removed() if "try_wait" in row["outcome"]["opcode"]]
    totals = Counter(row["outcome"]["outcome"] for row in removed())
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
        "removals": sum(totals.values()),
        "refuted": totals["refuted"],
        "waits": len(waits),
        "waits_refuted": sum(row["outcome"] == "refuted" for row in waits),
        "certified": totals["certified"],
        "neither": totals["neither"],
        "removal_table": table(("kernel", "removed", "refuted", "certified", "neither"), outcomes()),
        "launches": card["launches"],
        "same": card["verdicts"]["same"],
        "refused": card["verdicts"]["refused"],
        "differs": card["verdicts"]["differs"],
        "failed": card["verdicts"]["failed"],
        "random": fuzz["kernels"],
        "random_same": fuzz["tally"]["same"],
        "random_nan": fuzz["tally"]["same but for NaN"],
        "random_optimiser": fuzz["tally"]["optimiser"],
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
