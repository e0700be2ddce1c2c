"""Predicts benchmarks/silicon/held_out.cu: `python -m tileproof.tools.held_out_rows`.

The programs were written after the fit of tools/addition_rows.py, and predicted before an H200 ran them: no
figure may be chosen from them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tileproof.conformance.beside.timing.model import Played
from tileproof.emulator import Fields, Memory
from tileproof.emulator.arguments import FieldItem
from tileproof.tools import evidence
from tileproof.tools.addition_rows import MODELLED, ROW_BYTES, TABLE, distinct, steady, title
from tileproof.tools.calibration import ROOT, Row, clock_lines, compiled, play

EVIDENCE = "2026-11-28-h200-held-out.txt"
STEPS = 128
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
    """Clocks per step of a CTA, alone and with every SM busy; 0 measured where there is no evidence yet."""
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "held_out.cu", folder)
    lines = clock_lines(ptx)
    seen = (ROOT / "docs" / "evidence" / EVIDENCE).exists()
    text = evidence.read_text(EVIDENCE) if seen else ""
    for name, (does, warps, drawn, table) in PROGRAMS.items():
        short, whole = (_run(ptx, does, steps, warps) for steps in MODELLED)
        used = distinct(table, drawn) if table else 0.0
        found = re.search(rf"^{re.escape(name)}\s+1 CTA\s+([\d.]+)\s+132 CTAs\s+([\d.]+)", text, re.M)
        for alone in (True, False):
            measured = float(found[1 if alone else 2]) if found else 0.0
            yield steady(title(name, alone), measured, (short, whole), lines, alone, used)


def _run(ptx: str, does: int, steps: int, warps: int) -> Played:
    memory = Memory()
    fields: dict[int, FieldItem] = {
        0: memory.buffer(np.zeros((TABLE, ROW_BYTES // 4), np.float32)),
        8: memory.buffer(np.zeros(2048 * 1024, np.uint8)),
        16: memory.buffer(np.zeros(1, np.int64)),
        24: memory.buffer(np.zeros(1024, np.uint32)),
        32: np.int32(steps),
        36: np.uint32(2048 if does == 4 else TABLE),
    }
    return play(ptx, f"4heldIL4Does{does}E", [Fields(40, fields)], 32 * warps, memory, 65536)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print("clocks per step: likely (best to worst)")
        for found_row in held_out(Path(scratch)):
            off = f"; measured {found_row.measured:,.1f}, {found_row.off:+.1%}" if found_row.measured else ""
            cases = f"{found_row.likely:,.1f} ({found_row.best:,.1f} to {found_row.worst:,.1f})"
            print(f"{found_row.what}: {cases}{off}", flush=True)
