# ruff: noqa: E501 - PTX lines are kept whole
"""Rows H21, R27 and N20 to N23 of the corpus: announced bytes, a grid that reads too early, NaN in a partial tile, padding
never written, 32-bit offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule, Stream

from tests.corpus.test_index_validity import has_nan, selected
from tests.kit.backward_cases import random_case
from tests.kit.corpus import SCHEDULES, changed, in_ptx, run, source
from tests.kit.ptx import kernel_text, parsed
from tests.kit.ptx import run as launched

EVERY_POLICY = [Schedule(p, s) for p in ("early", "late", "random", "starve", "pct") for s in range(4)]  # type: ignore[arg-type]


MORE = in_ptx(
    r"(mbarrier\.arrive\.expect_tx\S+ _, \[%r\d+\], )(%r\d+);",
    r"{ .reg .b32 more; add.s32 more, \2, 1024; \1more; }",
)


@pytest.mark.corpus("H21")
def test_H21_a_box_smaller_than_the_announced_bytes() -> None:
    inputs = random_case(41, topk=64)
    for schedule in SCHEDULES:
        assert run(inputs, schedule=schedule).clean
        bad = run(inputs, MORE, schedule=schedule, taps=False)
        assert "hang" in bad.codes
        missing = {w.tx for f in bad.run.findings for w in f.machine.waiting if w.tx}
        assert missing == {1024}


def backward(trigger: str, wait: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """delta = rowsum(dO * O) by a preprocess grid, then dS = P * (dP - delta) by a programmatic one; 64 rows."""
    rng = np.random.default_rng(45)
    o, do, p, dp = (rng.integers(-4, 5, 64).astype(np.float32) for _ in range(4))
    memory = Memory()
    delta, ds = memory.empty(64, np.float32, "delta"), memory.empty(64, np.float32, "dS")
    own = "".join(f"mad.wide.u32 %rd{n}, %t, 4, %a{n}; " for n in range(3))
    preprocess = f"""{own}{trigger} ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2];
    mul.f32 %f3, %f1, %f2; st.global.f32 [%rd0], %f3;"""
    main = f"""{own}mad.wide.u32 %rd3, %t, 4, %a3; ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; {wait}
    ld.global.f32 %f3, [%rd3]; sub.f32 %f2, %f2, %f3; mul.f32 %f1, %f1, %f2; st.global.f32 [%rd0], %f1;"""
    stream = Stream(memory)
    how: dict[str, Any] = {"grid": (1,), "block": (64,), "schedule": schedule}
    inputs = [memory.buffer(array) for array in (o, do, p, dp)]
    first = parsed(kernel_text(preprocess, [False] * 3, name="preprocess"))
    assert not stream.launch(first, "preprocess", args=[delta, *inputs[:2]], **how).findings
    second = parsed(kernel_text(main, [False] * 4, name="backward"))
    result = stream.launch(second, "backward", programmatic=True, args=[ds, *inputs[2:], delta], **how)
    return result, ds.numpy() - p * (dp - o * do)


@pytest.mark.corpus("R27")
def test_R27_a_programmatic_launch_reads_before_the_grid_before_it_wrote() -> None:
    trigger, wait = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"
    for schedule in EVERY_POLICY:
        for early, waits in ((trigger, wait), ("", wait), ("", "")):
            result, error = backward(early, waits, schedule)
            assert not result.findings and not error.any()
        bad, error = backward(trigger, "", schedule)
        (found,) = bad.errors
        assert found.code == "race-grids" and np.isnan(error).all()
        assert found.machine.race is not None and found.machine.race.buffer == "delta"
        assert "preprocess" in found.message and "griddepcontrol.wait before it" in found.machine.race.missing


@pytest.mark.corpus("N20")
def test_N20_nan_behind_the_last_key_of_a_partial_tile() -> None:
    rng = np.random.default_rng(42)
    indices = rng.integers(20, 60, (2, 64)).astype(np.int32)
    lengths = np.array([37, 50], np.int32)
    for token, length in enumerate(lengths):
        indices[token, length:] = 0  # row 0, which holds NaN
    inputs = random_case(43, s_kv=80, topk=64, indices=indices, topk_length=lengths)
    kv = inputs.kv.copy()
    kv[~selected(inputs)] = np.nan
    poisoned = changed(inputs, kv=kv)
    for schedule in SCHEDULES:
        seen = run(poisoned, schedule=schedule)
        assert seen.clean and not has_nan(seen.outputs["dQ"])
    row_0 = source(
        "load.cuh",
        (
            "c * kColTile, keys.of[g], kKeep",
            "c * kColTile, int4{max(keys.of[g].x, 0), max(keys.of[g].y, 0), max(keys.of[g].z, 0), "
            "max(keys.of[g].w, 0)}, kKeep",
        ),
    )
    bad = run(poisoned, row_0)
    assert bad.wrong == "P" and has_nan(bad.outputs["dQ"])  # the mask makes S 0, and 0 * NaN is NaN


@pytest.mark.corpus("N21")
def test_N21_only_the_columns_of_dV_are_nan() -> None:
    inputs = random_case(44, topk=64)
    selected_rows = selected(inputs)
    plant = source("mma.cuh", ("dkv_part(dO, s, part, false);", "dkv_part(dO, s, part, true);"))
    for schedule in SCHEDULES:
        right = run(inputs, schedule=schedule)
        assert right.clean
        bad = run(inputs, plant, schedule=schedule)
        assert bad.wrong == "dKV" and "tmem-uninitialised" in bad.codes
        nan = np.isnan(bad.outputs["dKV"])
        assert nan[selected_rows, :512].all() and not nan[:, 512:].any() and not nan[~selected_rows].any()
        assert (bad.outputs["dQ"] == right.outputs["dQ"]).all() and not has_nan(bad.outputs["delta"])


@pytest.mark.corpus("N22")
@pytest.mark.parametrize("cleared", [True, False])
def test_N22_padding_rows_that_nobody_writes(cleared: bool) -> None:
    """32 rows of one value, 29 of them real; a second launch takes the largest of all."""
    value = "selp.u32 %r2, %t, 0, %p1; mov.pred %p1, 1;" if cleared else "mov.u32 %r2, %t;"
    fill = f"setp.lt.u32 %p1, %t, 29; {value} mad.wide.u32 %rd1, %t, 4, %a0; @%p1 st.global.u32 [%rd1], %r2;"
    largest = "mad.wide.u32 %rd1, %t, 4, %a0; ld.global.u32 %r1, [%rd1]; red.global.max.u32 [%a1], %r1;"
    for schedule in EVERY_POLICY[:12]:
        memory = Memory()
        rows, top = memory.empty(32, np.uint32), memory.buffer(np.zeros(1, np.uint32))
        first = launched(fill, [rows], memory=memory, outputs=[rows], schedule=schedule)
        second = launched(largest, [rows, top], memory=memory, schedule=schedule)
        if cleared:
            assert not first.findings and not second.findings and top.numpy()[0] == 28
        else:
            (finding,) = first.errors
            assert finding.code == "output-unwritten"
            assert "12 of 128 bytes, the first at offset 116" in finding.message
            assert {f.code for f in second.errors} == {"global-uninitialised"} and top.numpy()[
                0
            ] == 0xFFFFFFFF


ROW = 1 << 18  # bytes: 64 heads of 2048 f16


@pytest.mark.corpus("N23")
@pytest.mark.parametrize("wide", [True, False])
def test_N23_rows_from_16384_on_need_64_bit_offsets(wide: bool) -> None:
    """Pages of zeros that nobody touches are not held in memory."""
    table = np.zeros((16385, ROW // 4), np.uint32)
    rows = np.array([0, 1, 16383, 16384], np.uint32)
    table[rows, 0] = 100 + rows
    memory = Memory()
    out = memory.empty(4, np.uint32)
    offset = (
        f"mad.wide.u32 %rd3, %r1, {ROW}, %a1;"
        if wide
        else f"mul.lo.u32 %r2, %r1, {ROW}; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %a1, %rd2;"
    )
    body = f"""mad.wide.u32 %rd1, %t, 4, %a2; ld.global.u32 %r1, [%rd1]; {offset}
    ld.global.u32 %r3, [%rd3]; mad.wide.u32 %rd4, %t, 4, %a0; st.global.u32 [%rd4], %r3;"""
    result = launched(body, [out, memory.buffer(table), memory.buffer(rows)], memory=memory, threads=4)
    assert not result.findings
    # In 32 bits row 16384 is row 0, inside the buffer: only the value is wrong.
    assert out.numpy().tolist() == [100, 101, 100 + 16383, 100 + 16384 if wide else 100]
