"""Additions of one instruction that went elsewhere: the tile rows, the columns and the place are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.operators import Operator
from tileproof.conformance.beside.mutate.runs import Recorder, under_test_of
from tileproof.conformance.beside.mutate.values import address, immediate
from tileproof.conformance.check.run import run_case
from tileproof.conformance.compare.additions import explain_additions
from tileproof.conformance.compare.scattered import Contribution
from tileproof.kernels.registry import compiled
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

ROWS, COLUMNS, TILES, SLOTS = 40, 96, 3, 16

# What slot `slot` of a tile adds: (row, first column, values), one or more.
Adds = Callable[[int, np.ndarray, np.ndarray], Iterator[tuple[int, int, np.ndarray]]]


def told(adds: Adds) -> str:
    """What is said of rows to which three tiles add in f32, each to 16 of them; `adds` makes them wrong."""
    rng = np.random.default_rng(5)
    right, found = (np.zeros((ROWS, COLUMNS), np.float32) for _ in range(2))
    contributions = []
    for _ in range(TILES):
        rows = rng.permutation(ROWS)[:SLOTS]
        for slot in range(SLOTS):
            value = rng.standard_normal(COLUMNS).astype(np.float32)
            right[rows[slot]] += value
            contributions.append(Contribution(slot, int(rows[slot]), value.astype(np.float64)))
            for row, column, part in adds(slot, rows, value):
                found[row, column : column + part.size] += part
    residual = found.astype(np.float64) - right
    bound = np.full(right.shape, 1e-6)
    wrong = ~(np.abs(residual) <= bound)
    return explain_additions(contributions, residual, bound, wrong, "slot") if wrong.any() else "right"


def another_row(slot, rows, value):
    yield int(rows[slot]), 0, value[:32]
    yield int(rows[9 if slot == 4 else slot]), 32, value[32:64]
    yield int(rows[slot]), 64, value[64:]


def other_columns(slot, rows, value):
    yield int(rows[slot]), 0, value[:64]
    yield int(rows[slot]), 8 if slot == 4 else 64, value[64:]


def rows_of_the_lanes(slot, rows, value):
    if slot != 4:
        yield int(rows[slot]), 0, value
    for column in range(COLUMNS) if slot == 4 else ():
        yield int(rows[column % SLOTS]), column, value[column : column + 1]


def lost(slot, rows, value):
    yield int(rows[slot]), 0, value[: 32 if slot == 4 else COLUMNS]


def other_values(slot, rows, value):
    yield int(rows[slot]), 0, value + (np.sin(np.arange(COLUMNS)) if slot == 4 else 0)


@pytest.mark.parametrize(
    ("adds", "says"),
    [
        (another_row, ("slot 4 to columns 32..63 are missing", "slot 4 went to the row of slot 9")),
        (other_columns, ("slot 4 to columns 64..95 are missing", "they were made 56 columns before")),
        (rows_of_the_lanes, ("slot 4 to", "are missing", "slot 4 went to the rows of 14 slots (0..15)")),
        (lost, ("additions of slot 4 to columns 32..95 are missing",)),
        (other_values, ()),
        (lambda slot, rows, value: [(int(rows[slot]), 0, value)], ("right",)),
    ],
)
def test_additions_that_went_elsewhere(adds, says):
    text = told(adds)
    assert bool(text) == bool(says) and all(word in text for word in says), text


@pytest.mark.parametrize(
    ("operator", "opcode", "words", "says"),
    [
        (address, "red.global.add.f32", "128 past", "they were made 32 columns further"),
        (immediate, "shfl.sync.idx", "31 is 0: shfl", "went to the rows of"),
    ],
)
def test_an_address_and_a_shuffle_of_head64(operator: Operator, opcode: str, words: str, says: str) -> None:
    """Planted in the instructions by which one slot is added to its row."""
    kernel = compiled("head64")
    variant = kernel.variants[0]
    built = kernel.build(variant)
    code = PtxCode(built.ptx, built.entry)
    places = [at for at in code.code if at.opcode.startswith(opcode)
              and any(file.endswith("dkv_export.cuh") for file, _ in at.frames)]  # fmt: skip
    (change,) = (change for change in operator(code, places[13]) if change.what.startswith(words))
    case, schedule = one_token(576, 2, 64), Schedule("late")
    mutant = replace(built, ptx=code.changed(change.lines))
    under_test = under_test_of(kernel, variant, mutant, Recorder(2_000_000))
    (first, *_) = run_case(under_test, case, schedule, explain=True, again=False).findings
    assert first.problem.stage == "dKV" and says in first.cause and "are missing" in first.cause
