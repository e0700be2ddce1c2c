"""Predicts programs that no figure may be chosen from: `python -m tileproof.tools.held_out_rows [rings]`.

benchmarks/silicon/held_out.cu was written after the fit of tools/addition_rows.py, held_out_rings.cu after
groups of cp.async were mended. Each was predicted before an H200 ran it; the predictions are evidence.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tileproof.tools import evidence
from tileproof.tools.addition_rows import TABLE, distinct, measured_rows, title, two_runs
from tileproof.tools.calibration import MODELLED, ROOT, Row, clock_lines, compiled, steady

STEPS = 128


@dataclass(frozen=True)
class HeldOutProgram:
    """The enumerator of what a program does, its warps and shared memory, the rows that it reads or adds to,
    and of a table beyond L2 its bytes and the rows that a CTA adds to in a launch."""

    does: int
    warps: int
    shared: int = 65536
    rows: int = TABLE
    table: int = 0
    drawn: int = 0


@dataclass(frozen=True)
class HeldOutSet:
    """Programs of a file of benchmarks/silicon by the name that they print; the steps of the model's runs."""

    source: str
    entry: str
    measured: str
    predicted: str
    steps: tuple[int, int]
    programs: dict[str, HeldOutProgram]


SETS = {
    "held_out": HeldOutSet(
        "held_out",
        "4heldIL4Does",
        "2026-11-28-h200-held-out.txt",
        "2026-11-28-held-out-predictions.txt",
        MODELLED,
        {
            "mixed: 32 rows x 4 B and 1 row x 512 B": HeldOutProgram(0, 4),
            "12 of 8 rows x 32 B, fence, bar.sync": HeldOutProgram(1, 8),
            "2 rows x 64 B, table of 32 MB": HeldOutProgram(2, 4, table=32 << 20, drawn=STEPS * 4 * 2),
            "8 rows x 64 B, table of 128 MB": HeldOutProgram(3, 4, table=128 << 20, drawn=STEPS * 4 * 8),
            "gather of 32 KB, each row twice, of 2048 rows": HeldOutProgram(4, 4, rows=2048),
            "loop of 24 KB of code, st.shared, bar.sync": HeldOutProgram(5, 8),
        },
    ),
    "rings": HeldOutSet(
        "held_out_rings",
        "5ringsIL4Does",
        "2026-11-28-h200-held-out-rings.txt",
        "2026-11-28-held-out-rings-predictions.txt",
        (8, 20),
        {
            name: HeldOutProgram(does, warps, 7 * 16384)
            for does, (name, warps) in enumerate((
                ("ring of 1 stage, gather of 16 KB", 4),
                ("ring of 3 stages, gather of 16 KB", 4),
                ("ring of 6 stages, gather of 16 KB", 4),
                ("gather of 16 KB beside additions of 16 KB", 8),
                ("bulk copies of 16 KB, each row twice", 1),
                ("8 and 16 lanes of a bank, bar.sync", 8),
            ))
        },
    ),
}  # fmt: skip


def held_out(folder: Path, chosen: HeldOutSet) -> Iterator[Row]:
    """Clocks per step of a CTA, alone and with every SM busy; 0 measured where no card ran it yet."""
    ptx = compiled(ROOT / "benchmarks" / "silicon" / f"{chosen.source}.cu", folder)
    lines, ran = clock_lines(ptx), (evidence.FOLDER / chosen.measured).exists()
    text = evidence.read_text(chosen.measured) if ran else ""
    for name, program in chosen.programs.items():
        part = f"{chosen.entry}{program.does}E"
        runs = two_runs(ptx, part, program.warps, program.rows, TABLE * 1024, program.shared, chosen.steps)
        used = distinct(program.table, program.drawn) if program.table else 0.0
        for alone, measured in measured_rows(text, name) if ran else ((True, 0.0), (False, 0.0)):
            yield steady(title(name, alone), measured, runs, lines, alone, used, chosen.steps)


def table(folder: Path, chosen: HeldOutSet) -> list[str]:
    """The rows of docs/time.md: measured, predicted before, and what the model gives now."""
    predicted = {
        found[1]: [float(value.replace(",", "")) for value in found.group(2, 3, 4)]
        for found in re.finditer(
            r"^(.*): ([\d.,]+) \(([\d.,]+) to ([\d.,]+)\)", evidence.read_text(chosen.predicted), re.M
        )
    }
    lines = [
        "| program | measured | predicted | best to worst | off | in the interval | the model now | off |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in held_out(folder, chosen):
        likely, low, high = predicted[row.what]
        held = "yes" if low <= row.measured <= high else "no"
        lines.append(
            f"| {row.what} | {row.measured:,.1f} | {likely:,.1f} | {low:,.1f} to {high:,.1f} | "
            f"{likely / row.measured - 1:+.1%} | {held} | {row.likely:,.1f} | {row.off:+.1%} |"
        )
    return lines


def main(arguments: list[str]) -> None:
    """Prints what the model says of the programs now."""
    chosen = SETS[arguments[0] if arguments else "held_out"]
    print("clocks per step: likely (best to worst)")
    with tempfile.TemporaryDirectory() as scratch:
        for row in held_out(Path(scratch), chosen):
            off = f"; measured {row.measured:,.1f}, {row.off:+.1%}" if row.measured else ""
            cases = f"{row.likely:,.1f} ({row.best:,.1f} to {row.worst:,.1f})"
            print(f"{row.what}: {cases}{off}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
