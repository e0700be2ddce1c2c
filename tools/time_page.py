"""Writes the measured and modelled rows of docs/time.md: `python -m tileproof.tools.time_page`.

Between the page's markers stand a row per measured program, how far off the rows are, and of held-out
programs the prediction. `--check` compares, and ends with 1 where the page says something else.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tileproof.spec.machine.pages import written
from tileproof.tools import addition_rows, calibration, held_out_rows
from tileproof.tools.calibration import Row
from tileproof.tools.limits_page import ROOT

PAGE = ROOT / "docs" / "time.md"
GROUPS = ("latencies", "banks", "exchanges", "sharings", "exports", "sharing_rows")
PARTS = ("parts",)
ADDITIONS = ("additions",)
HELD_OUT = ("held_out", "rings")


def table(rows: Sequence[Row]) -> list[str]:
    """The table of rows, and under it how far off they are."""
    lines = [
        "| program | measured | likely | best to worst | chosen from it |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = sorted((row.best, row.worst))
        lines.append(
            f"| {row.what} | {_clocks(row.measured)} | {_clocks(row.likely)} | "
            f"{_clocks(low)} to {_clocks(high)} | {row.fits or 'held out'} |"
        )
    return [*lines, "", *summary(rows)]


def summary(rows: Sequence[Row]) -> list[str]:
    """Return mean and largest error of the fitted rows and of the held-out rows."""
    out = []
    for name, fitted in (("that figures were fitted to", True), ("held out", False)):
        offs = [abs(row.off) for row in rows if bool(row.fits) == fitted]
        if offs:
            mean = sum(offs) / len(offs)
            out.append(f"- {len(offs)} rows {name}: off by {mean:.1%} on average, {max(offs):.1%} at most.")
    return out


def measured(groups: Sequence[str]) -> list[Row]:
    """The rows of these groups of `tools.calibration`."""
    with tempfile.TemporaryDirectory() as name:
        return [row for group in groups for row in of(group)(Path(name))]


def held_out(name: str) -> list[str]:
    """The table of one set of `tools.held_out_rows`."""
    with tempfile.TemporaryDirectory() as scratch:
        return held_out_rows.table(Path(scratch), held_out_rows.SETS[name])


def of(group: str) -> Callable[[Path], Iterator[Row]]:
    """A group of rows by its name."""
    found: Callable[[Path], Iterator[Row]] = getattr(
        calibration if hasattr(calibration, group) else addition_rows, group
    )
    return found


def _clocks(clocks: float) -> str:
    return f"{clocks:,.0f}" if clocks >= 1000 else f"{clocks:.1f}"


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    groups = {"measured": GROUPS, "parts": PARTS, "additions": ADDITIONS}
    tables = {name: table(measured(group)) for name, group in groups.items()}
    tables |= {name: held_out(name) for name in HELD_OUT}
    text = PAGE.read_text()
    new = written(text, tables, "tools/time_page.py")
    if "--check" in arguments:
        print("the page says what the program prints" if new == text else "the page is stale: write it again")
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
