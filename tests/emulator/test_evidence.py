# ruff: noqa: E501 - PTX lines are kept whole
"""A finding does not hide others: reported once, then the values are judged."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Buffer, RunResult, Schedule, TensorMap

from tests.kit.ptx import Memory, alloc, clean, dealloc, init_barrier, run

DATA = np.arange(128, dtype=np.uint32) + 5
LATE = Schedule("late")
FILL = "mad.lo.u32 %r1, %t, 4, 2048; mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r2, [%rd1]; st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0;"
STORES = {
    "bulk": "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 512;",
    "tensor": "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%a2, {0}], [2048];",
}


def stored(
    kind: str, ending: str, schedule: Schedule, races: bool = False, strict: bool = False
) -> tuple[RunResult, np.ndarray]:
    memory = Memory()
    target = np.zeros(128, np.uint32)
    out: Buffer = memory.buffer(target)
    map_ = TensorMap.tiled(out, shape=(128,), strides=(), box=(128,))
    body = f"{init_barrier(1024)} {FILL} {STORES[kind]} @%p0 cp.async.bulk.commit_group; {ending}"
    args = [out, memory.buffer(DATA), map_]
    result = run(
        body,
        args,
        memory=memory,
        threads=128,
        shared_bytes=2048,
        schedule=schedule,
        races=races,
        strict=strict,
    )
    return result, target


@pytest.mark.parametrize("kind", STORES)
def test_a_store_never_waited_for_is_reported_once_and_completes(kind: str) -> None:
    for ending in ("@%p0 cp.async.bulk.wait_group 0;", "@%p0 cp.async.bulk.wait_group.read 0;"):
        for schedule in (LATE, Schedule("random", 4)):
            result, target = stored(kind, ending, schedule)
            clean(result)
            assert (target == DATA).all()
    result, target = stored(kind, "", LATE)
    (told,) = result.findings
    assert told.code == "bulk-store-at-exit" and told.severity == "warning" and told.count == 1
    assert told.machine.instruction.startswith("cp.async.bulk") and (target == DATA).all()


def test_strict_stops_there() -> None:
    result, target = stored("bulk", "", LATE, strict=True)
    assert [(f.code, f.severity) for f in result.findings] == [("bulk-store-at-exit", "error")]
    assert (target == 0).all()


def test_with_races_it_is_reported_in_every_schedule() -> None:
    """And once: what the late schedule shows besides is the same fault."""
    for kind in STORES:
        for schedule in (Schedule("early"), LATE):
            result, target = stored(kind, "", schedule, races=True)
            assert {f.code for f in result.findings} == {"race-store-exit"} and (target == DATA).all()
        result, _ = stored(kind, "", LATE, races=True, strict=True)
        assert [(f.code, f.severity) for f in result.findings] == [("race-store-exit", "error")]


def test_a_wrong_value_is_seen_beside_it() -> None:
    """The other defect: what is stored was overwritten first."""
    result, target = stored("bulk", "bar.sync 0; st.shared.u32 [%r1], 1;", LATE)
    assert {f.code for f in result.findings} == {"bulk-store-at-exit"} and (target == 1).all()


ST = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r51], {%r60, %r61};"
LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r62, %r63}, [%r51]; tcgen05.wait::ld.sync.aligned;"


@pytest.mark.parametrize("strict", [False, True])
def test_a_store_without_wait_st_is_reported_and_the_cells_hold_it(strict: bool) -> None:
    """Strict: they read as poison."""
    for waiting in (True, False):
        memory = Memory()
        out = memory.empty((128, 2), np.uint32)
        body = f"""{alloc(32)} and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50;
        mov.u32 %r60, %t; add.u32 %r61, %t, 1000;
        {ST} {"tcgen05.wait::st.sync.aligned;" if waiting else ""} {LD}
        mad.wide.u32 %rd1, %t, 8, %a0; st.global.v2.u32 [%rd1], {{%r62, %r63}};
        {dealloc(32)}"""
        result = run(body, [out], memory=memory, threads=128, shared_bytes=256, schedule=LATE, strict=strict)
        found = {f.code for f in result.findings}
        assert (found - {"async-pending-at-exit", "tmem-dealloc-in-flight"} if strict else found) == (
            set() if waiting else {"tmem-pending"}
        )
        right = np.stack([np.arange(128), np.arange(128) + 1000], 1)
        assert (out.numpy() == (right if waiting or not strict else 0xFFFFFFFF)).all()
