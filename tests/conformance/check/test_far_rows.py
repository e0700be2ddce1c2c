"""A kv of 2^20 and more rows: only rows that tokens select take memory, and stores elsewhere are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.check.run import judge_run, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.compare.rows import plant_canaries, watched
from tileproof.emulator import _engine
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.lazy import TooLarge, lazy_filled, lazy_zeros
from tileproof.spec.machine.run_result import PAGE_BYTES, rows_in_pages
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase, far_rows

KERNEL = kernel("head64")
ROWS = (2**31 // 576) + 4096  # beyond 2^31 elements: 8.6 GB of dKV
CASE = SparseCase(576, ROWS, 1, (Indices("far"), Indices("permuted")), values="normal", h_q=64)


@pytest.fixture(scope="module")
def under_test():
    return on_emulator(KERNEL, KERNEL.variant(d_qk=576))


def test_rows_beyond_32_bits_are_right(under_test):
    run = run_case(under_test, CASE, Schedule())
    assert run.findings == [] and run.scores["dKV rows"].tiles == 2


def test_a_store_to_a_page_without_selected_rows_is_found_even_of_zeros(under_test):
    inputs, plan = CASE.inputs(), under_test.plan()
    described = plant_canaries(plan, inputs, KERNEL.launch(inputs, under_test.production))
    seen = under_test.driver.run(described, plan, Schedule(), True)
    assert judge_run(plan, inputs, seen, None).findings == []
    out = seen.outputs["dKV"]
    page = int(np.setdiff1d(np.arange(1000), out.stored)[0])
    for value in (0.0, 3.0):
        out.values.reshape(-1)[page * PAGE_BYTES // 4] = value
        stored = np.union1d(out.stored, [page])
        touched = replace(seen, outputs={**seen.outputs, "dKV": replace(out, stored=stored)})
        (found,) = judge_run(plan, inputs, touched, None).findings
        assert (found.kind, found.problem.row) == ("surplus", page * PAGE_BYTES // (576 * 4))


def test_rows_beside_selected_ones_hold_canaries():
    keys = np.array([10, 5000, 900_000])
    rows = watched(keys, 1 << 20, 2304)
    assert not np.isin(keys, rows).any() and {9, 11, 4999, 899_999} & set(rows.tolist())
    for key in keys:
        pages = np.unique(np.array([key * 2304, key * 2304 + 2303]) // PAGE_BYTES)
        assert set(rows_in_pages(pages, 2304, 1 << 20)) - {key} <= set(rows)
    assert watched(np.array([1]), 3, 64).tolist() == [0, 2]


def test_far_rows_straddle_the_ends_of_narrow_offsets():
    rows = far_rows(ROWS, 576)
    assert rows[0] == ROWS - 2 and {8191, 8192, 65535, 65536, 932_067, 932_068} <= set(rows.tolist())
    assert rows.max() < ROWS and far_rows(100, 576).tolist() == [98, 99]


def test_lazy_arrays_hold_what_they_say_and_are_refused_beyond_the_address_space():
    assert _engine.PAGE_BYTES == PAGE_BYTES
    for size in (100, 5 << 20, 40 << 20):
        made = lazy_filled(size, np.uint8, 0xFF)
        assert made[0] == made[-1] == 0xFF and made.flags.writeable
        made[7] = 1
        assert lazy_filled(size, np.uint8, 0xFF)[7] == 0xFF
        assert not lazy_zeros((size, 2), np.uint8)[-1].any()
    with pytest.raises(TooLarge):
        lazy_zeros(1 << 62, np.float64)
