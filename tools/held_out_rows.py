"""Predicts benchmarks/silicon/held_out.cu: `python -m tileproof.tools.held_out_rows`.

The programs were written after the fit of tools/addition_rows.py, and predicted before an H200 ran them: no
figure may be chosen from them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tileproof.tools import evidence
from tileproof.tools.addition_rows import TABLE, distinct, measured_rows, steady, title, two_runs
from tileproof.tools.calibration import ROOT, Row, clock_lines, compiled

EVIDENCE = "2026-11-28-h200-held-out.txt"
STEPS, GATHER = 128, 4
# Name in the program's output: what it does, its warps, rows that a CTA adds to in a table of so many bytes.
PROGRAMS = {
    "mixed: 32 rows x 4 B and 1 row x 512 B": (0, 4, 0, 0),
    "12 of 8 rows x 32 B, fence, bar.sync": (1, 8, 0, 0),
    "2 rows x 64 B, table of 32 MB": (2, 4, STEPS * 4 * 2, 32 << 20),
    "8 rows x 64 B, table of 128 MB": (3, 4, STEPS * 4 * 8, 128 << 20),
    "gather of 32 KB, each row twice, of 2048 rows": (4, 4, 0, 0),
    "loop of 24 KB of code, st.shared, bar.sync": (5, 8, 0, 0),
}


def held_out(folder: Path) -> Iterator[Row]:
    """Clocks per step of a CTA, alone and with every SM busy."""
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "held_out.cu", folder)
    lines, text = clock_lines(ptx), evidence.read_text(EVIDENCE)
    for name, (does, warps, drawn, table) in PROGRAMS.items():
        rows = 2048 if does == GATHER else TABLE
        runs = two_runs(ptx, f"4heldIL4Does{does}E", warps, rows, 2048 * 1024, 65536)
        used = distinct(table, drawn) if table else 0.0
        for alone, measured in measured_rows(text, name):
            yield steady(title(name, alone), measured, runs, lines, alone, used)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print("clocks per step: likely (best to worst)")
        for found_row in held_out(Path(scratch)):
            off = f"; measured {found_row.measured:,.1f}, {found_row.off:+.1%}"
            cases = f"{found_row.likely:,.1f} ({found_row.best:,.1f} to {found_row.worst:,.1f})"
            print(f"{found_row.what}: {cases}{off}", flush=True)
