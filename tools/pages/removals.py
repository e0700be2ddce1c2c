"""Writes the tables of removed synchronisation into docs/kernels.md."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec.machine.pages import wrapped, write_or_check, written
from tileproof.spec.page import table
from tileproof.tools.pages.paper_data import removed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
BY = "tools/pages/removals.py"
SHOWN = ("head64 d_qk 576", "head128-columns d_qk 576")
TEXT = """Each synchronising instruction of the PTX was removed in turn, and a launch of two k-blocks was run
with race checking ([evidence](evidence/README.md), `2026-12-01-removals.jsonl.xz`; `python -m
tests.kit.removals KERNEL` repeats it). *refuted*: the launch reports an error. *certified*: no error, and the
same outputs in every sampled schedule; the instruction is redundant in this launch, or its absence is a
warning of a formal fence ([readings](assumptions.md)). An instruction counts for each of its copies in the
PTX. A removed wait passes at once. Two k-blocks do not fill every ring: of the 11 certified waits of
head128-columns four are refuted in a launch of six k-blocks (`--blocks 6`); seven are certified there too,
because other edges order the same events."""


def kind(opcode: str) -> str:
    """The instruction without its state space and type."""
    return opcode.partition(".shared")[0].removesuffix(".aligned")


def section() -> list[str]:
    """The generated part."""
    parts = [TEXT]
    for kernel in SHOWN:
        rows = [row["outcome"] for row in removed() if row["kernel"] == kernel]
        opcodes = dict.fromkeys(sorted(kind(row["opcode"]) for row in rows))
        lines = []
        for opcode in opcodes:
            own = [row for row in rows if kind(row["opcode"]) == opcode]
            counts = Counter(row["outcome"] for row in own)
            refuted = (row["why"].split(", ")[0] for row in own if row["outcome"] == "refuted")
            codes = Counter(refuted).most_common(3)
            found = ", ".join(f"`{code}` ({count})" for code, count in codes)
            lines.append(
                (f"`{opcode}`", str(len(own)), found, str(counts["certified"]), str(counts["neither"]))
            )
        head = ("removed", "times", "first finding of the refuted", "certified", "neither")
        parts += [f"{kernel}:", table(head, lines)]
    return wrapped("\n\n".join(parts)).split("\n")


def page() -> str:
    """docs/kernels.md with its generated part written anew."""
    return written(PAGE.read_text(encoding="utf-8"), {"removals": section()}, BY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk differs."""
    return write_or_check("tileproof.tools.pages.removals", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
