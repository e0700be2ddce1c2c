"""Rows of benchmarks/silicon/additions.cu for tools/calibration.py: additions by how they lie, fences behind
them and working sets beside L2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import exp
from pathlib import Path

import numpy as np
from tileproof.conformance.beside.timing.model import Played
from tileproof.emulator import Fields, Memory
from tileproof.emulator.arguments import FieldItem
from tileproof.tools import evidence
from tileproof.tools.calibration import MODELLED, ROOT, Row, clock_lines, compiled, play, steady

ROW_BYTES, WARPS, INSTRUCTIONS, STEPS = 2048, 4, 64, 64
SMS = 132
TABLE = 8192  # rows: 16 MB, which L2 holds
# Lanes of a row and vector.
SHAPES = ((1, 1), (2, 1), (8, 1), (16, 1), (32, 1), (1, 4), (4, 4))
WORKING_SETS = (64, 128, 256)  # MB
# Lanes of a row, and additions of a warp between two fences.
FENCES = ((32, 4), (32, 64), (1, 16))


def additions(folder: Path) -> Iterator[Row]:
    """Clocks per step of a CTA, alone and with every SM busy."""
    text = evidence.read_text("2026-11-28-h200-additions.txt")
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "additions.cu", folder)
    lines = clock_lines(ptx)
    for lanes, vector in SHAPES:
        red = f"red.v{vector}" if vector > 1 else "red   "
        name = f"add {32 // lanes:2d} rows x {4 * lanes * vector:3d} B, {red}"
        runs = two_runs(ptx, f"additionsILi{lanes}ELi{vector}ELi0E")
        for alone, measured in measured_rows(text, f"{name}, table of  16 MB"):
            yield steady(title(name, alone), measured, runs, lines, alone)
    runs = two_runs(ptx, "additionsILi32ELi1ELi0E")
    for megabytes in WORKING_SETS:
        _, (alone, measured) = measured_rows(text, f"add  1 rows x 128 B, red   , table of {megabytes:3d} MB")
        used = distinct(megabytes << 20, WARPS * INSTRUCTIONS * STEPS // 16)
        name = f"added to {megabytes} MB, 128 B of a row"
        yield steady(title(name, alone), measured, runs, lines, alone, used)
    for lanes, count in FENCES:
        name = f"fence behind {count:2d}, {32 // lanes:2d} rows x {4 * lanes:3d} B"
        runs = two_runs(ptx, f"additionsILi{lanes}ELi1ELi{count}E")
        for alone, measured in measured_rows(text, name):
            yield steady(title(name, alone), measured, runs, lines, alone)


def distinct(table: int, rows_of_cta: int) -> float:
    """Bytes of a table that so many rows of every CTA, drawn at random, touch."""
    rows = table / ROW_BYTES
    return table * (1 - exp(-rows_of_cta * SMS / rows))


def measured_rows(text: str, name: str) -> list[tuple[bool, float]]:
    """What the card printed of a program: alone, and with every SM busy."""
    found = re.search(rf"^{re.escape(name)}\s+1 CTA\s+([\d.]+)\s+132 CTAs\s+([\d.]+)", text, re.M)
    assert found is not None, name
    return [(True, float(found[1])), (False, float(found[2]))]


def title(name: str, alone: bool) -> str:
    """The name of a row."""
    return f"{' '.join(name.split())}, {'one CTA' if alone else 'every SM'}"


def two_runs(
    ptx: str,
    part: str,
    warps: int = WARPS,
    rows: int = TABLE,
    kv: int = 1024,
    shared: int = 0,
    modelled: tuple[int, int] = MODELLED,
) -> tuple[Played, Played]:
    """A kernel of benchmarks/silicon/additions.cuh with few and with more steps, its table of so many rows
    and `kv` bytes to gather.
    """
    short, whole = (_run(ptx, part, steps, warps, rows, kv, shared) for steps in modelled)
    return short, whole


def _run(ptx: str, part: str, steps: int, warps: int, rows: int, kv: int, shared: int) -> Played:
    memory = Memory()
    fields: dict[int, FieldItem] = {
        0: memory.buffer(np.zeros((TABLE, ROW_BYTES // 4), np.float32)),
        8: memory.buffer(np.zeros(kv, np.uint8)),
        16: memory.buffer(np.zeros(1, np.int64)),
        24: memory.buffer(np.zeros(1024, np.uint32)),
        32: np.int32(steps),
        36: np.uint32(rows),
    }
    return play(ptx, part, [Fields(40, fields)], 32 * warps, memory, shared)
