# ruff: noqa: E501 - PTX lines are kept whole
"""cp.async.bulk.wait_group N: the N newest groups may be pending, the older ones not, whatever ends first."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import PtxError, RunResult, Schedule

from tests.kit.ptx import Memory, clean, run

DATA = np.arange(128, dtype=np.uint32)
STORE = "@%p0 cp.async.bulk.global.shared::cta.bulk_group"
COMMIT = "@%p0 cp.async.bulk.commit_group;"


def two_stores(read: str, newest: int) -> tuple[str, list[np.ndarray]]:
    """Stages 0 and 1 are stored, a group each; then stage 0 is filled again after wait_group.read `newest`."""
    source = f"""
    setp.eq.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 4, 2048; mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r2, [%rd1];
    st.shared.u32 [%r1], %r2; add.u32 %r3, %r2, 1000; st.shared.u32 [%r1+512], %r3;
    fence.proxy.async; bar.sync 0;
    {STORE} [%a0], [2048], 512; {COMMIT}
    {STORE} [%a0+512], [2560], 512; {COMMIT}
    @%p0 cp.async.bulk.wait_group{read} {newest}; bar.sync 0;
    add.u32 %r3, %r2, 2000; st.shared.u32 [%r1], %r3; fence.proxy.async; bar.sync 0;
    {STORE} [%a0+1024], [2048], 512; {COMMIT}
    @%p0 cp.async.bulk.wait_group 0;"""
    return source, [np.concatenate([DATA, DATA + 1000, DATA + 2000])]


def launched(newest: int, schedule: Schedule, read: str = ".read", races: bool = False) -> tuple[RunResult, bool]:  # fmt: skip
    body, [expected] = two_stores(read, newest)
    memory = Memory()
    target = np.zeros(384, np.uint32)
    args = [memory.buffer(target), memory.buffer(DATA)]
    result = run(body, args, memory=memory, threads=128, shared_bytes=3072, schedule=schedule, races=races)
    return result, bool((target == expected).all())


@pytest.mark.parametrize("read", [".read", ""])
def test_two_stores_are_right_in_every_schedule(read: str) -> None:
    for seed in range(200):
        result, right = launched(1, Schedule("random", seed), read)
        assert right, f"seed {seed}"
        clean(result)
    for policy in ("early", "late", "late-newest"):
        result, right = launched(1, Schedule(policy), read, races=True)  # type: ignore[arg-type]
        assert right and not result.findings


def test_a_wait_for_one_group_too_few_is_found() -> None:
    wrong = sum(not launched(2, Schedule("random", seed))[1] for seed in range(40))
    assert wrong >= 5
    for schedule in (Schedule("early"), Schedule("late"), Schedule("random", 3)):
        result, _ = launched(2, schedule, races=True)
        assert "race-copy-unwaited" in {f.code for f in result.errors}, schedule


def test_groups_that_end_out_of_order_leave_in_order() -> None:
    """Five groups; wait_group.read 3 needs the first two over, although any three others may be the ones that are."""
    stores = "\n".join(f"{STORE} [%a0+{512 * k}], [{2048 + 512 * k}], 512; {COMMIT}" for k in range(5))
    fill = "\n".join(f"add.u32 %r3, %r2, {1000 * k}; st.shared.u32 [%r1+{512 * k}], %r3;" for k in range(5))
    body = f"""
    setp.eq.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 4, 2048; mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r2, [%rd1];
    {fill}
    fence.proxy.async; bar.sync 0; {stores}
    @%p0 cp.async.bulk.wait_group.read 3; bar.sync 0;
    mov.u32 %r3, 7; st.shared.u32 [%r1], %r3; st.shared.u32 [%r1+512], %r3; bar.sync 0;
    @%p0 cp.async.bulk.wait_group 0;"""
    expected = np.concatenate([DATA + 1000 * k for k in range(5)])
    for seed in range(60):
        memory = Memory()
        target = np.zeros(640, np.uint32)
        args = [memory.buffer(target), memory.buffer(DATA)]
        clean(
            run(body, args, memory=memory, threads=128, shared_bytes=8192, schedule=Schedule("random", seed))
        )
        assert (target == expected).all(), seed


@pytest.mark.parametrize(
    "wait", ["cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read", "cp.async.wait_group"]
)
def test_a_negative_number_of_groups_is_refused(wait: str) -> None:
    """ptxas makes 63 of -1: a wait for nothing, where the text seems to wait for more than all."""
    clean(run(f"{wait} 0;", []))
    with pytest.raises(PtxError, match="an immediate count is needed, 0 or more"):
        run(f"{wait} -1;", [])
