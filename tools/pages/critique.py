"""Writes the table of the critique into docs/kernels.md: what Tileproof reports of each kind of mistake."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec.machine.pages import wrapped, write_or_check, written
from tileproof.spec.page import table
from tileproof.tools.bugs.page import stored

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
BY = "tools/pages/critique.py"

# The barrier or place of the draft, what it promises, what is missing, and a case of the same kind.
POINTS = (
    (
        "keys ready",
        "the NoPE columns of the k-block are in shared memory",
        "the issuing thread announces and waits in rank 0 only, for the bytes of a single half; the product "
        "reads the halves of both CTAs",
        "p0-q-not-waited-for",
    ),
    (
        "RoPE keys ready",
        "the RoPE columns of the k-block are there",
        "bytes are announced, and no copy brings them: the first k-block waits for ever",
        "h64-count-too-large",
    ),
    (
        "dO ready",
        "dO is there, and delta may be summed",
        "128 threads arrive and announce at a barrier that is initialised for a single arrival",
        "h64-whole-warp-loads",
    ),
    (
        "product done",
        "P is complete, and the keys may be overwritten",
        "the commit stands before the RoPE products: it does not cover them",
        "h64-part-3-behind-p-ready",
    ),
    (
        "P free",
        "the readers of P in both CTAs are done (256 arrivals)",
        "nothing reads P yet, and nothing arrives: the second k-block waits for ever",
        "p0-one-lane-frees",
    ),
    (
        "end of the kernel",
        "the pair ends together",
        "no cluster barrier before the exit: a CTA may leave while copies and commits of its peer "
        "still arrive",
        "cols-exit",
    ),
)


def section() -> list[str]:
    """The generated part."""
    found = {row["id"]: row["detection"]["code"] for row in stored()}
    rows = [(point, promise, gap, f"`{found[case]}`", f"`{case}`") for point, promise, gap, case in POINTS]
    head = ("at", "what it promises", "what is missing", "reported as", "in the case")
    return wrapped(table(head, rows)).split("\n")


def page() -> str:
    """docs/kernels.md with its generated part written anew."""
    return written(PAGE.read_text(encoding="utf-8"), {"critique": section()}, BY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk differs."""
    return write_or_check("tileproof.tools.pages.critique", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
