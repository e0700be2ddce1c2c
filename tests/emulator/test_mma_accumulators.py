# ruff: noqa: E501 - PTX lines are kept whole
"""The engine keeps what it knows of an accumulator and of operands' addresses from MMA to MMA: never too long."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import POLICIES, Memory, alloc, clean, dealloc, init_barrier, only, run, used, wait

M, N = 128, 64
BYTES, COPIED = 0xA000, 0x8000  # of shared memory, and written


def commit_and_wait(parity: int) -> str:
    return f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [1024]; {wait(1024, parity)} tcgen05.fence::after_thread_sync;"


def mma(accumulates: bool) -> str:
    return f"setp.{'eq' if accumulates else 'ne'}.u32 %p3, %t, %t; @%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], %a2, %a3, %r56, %p3;"


LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r60, %r61}, [%r51]; tcgen05.wait::ld.sync.aligned; mad.wide.u32 %rd3, %t, 8, %a0; st.global.v2.u32 [%rd3], {%r60, %r61};"


def program(between: str, last: str) -> str:
    """Two MMAs into the same D, what comes between, a third that accumulates; then columns 0 and 1 of D."""
    return f"""{init_barrier(1024)} @%p0 mbarrier.init.shared.b64 [1032], 1; {alloc(64)}
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [1032], {COPIED};
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a1], {COPIED}, [1032];
    {wait(1032)}
    and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; cvt.u32.u64 %r56, %a4;
    {mma(False)} {mma(True)} {commit_and_wait(0)}
    {between} bar.sync 0; tcgen05.fence::after_thread_sync;
    {mma(True)} {commit_and_wait(1)}
    {LOAD} {last}
    {dealloc(64)}"""


def launched(
    between: str,
    last: str = "",
    image: np.ndarray | None = None,
    a: int = 0,
    b: int = 0,
    idesc: int = 0,
    **how: Any,
) -> tuple[np.ndarray, RunResult]:
    """Columns 0 and 1 of D; A and B are ones, or as their descriptors have them in `image`."""
    memory = Memory()
    out = memory.empty((128, 2), np.float32)
    args = [
        out, memory.buffer(np.full(COPIED // 2, 0x3F80, np.uint16) if image is None else image),
        a or SmemDescriptor(2048, 2048, 128, "none").encode(),
        b or SmemDescriptor(2048 + 0x4000, 1024, 128, "none").encode(),
        idesc or InstructionDescriptor(M, N, "bf16", "bf16", "f32").encode(),
    ]  # fmt: skip
    result = run(program(between, last), args, memory=memory, threads=128, shared_bytes=BYTES, **how)
    return out.numpy(), result


STORE = "mov.b32 %r70, {value}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {{%r70}}; tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;"


def test_three_mmas_add_up() -> None:
    for schedule in POLICIES:
        for races in (False, True):
            got, result = launched("", schedule=schedule, races=races)
            assert not result.errors  # the order of the program is not that of a kernel
            assert (got == 48).all()


def test_a_store_between_is_what_the_next_mma_adds_to() -> None:
    for schedule in POLICIES:
        got, result = launched(STORE.format(value="0x42c80000"), schedule=schedule)
        clean(result)
        assert (got == [116, 48]).all()


UNWRITTEN = "ld.shared.u32 %r70, [40000]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {%r70}; tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;"


def test_an_accumulator_that_was_freed_is_found() -> None:
    for schedule in POLICIES:
        _, result = launched(f"bar.sync 0; {dealloc(64)} {alloc(64)}", used("%r60"), schedule=schedule)
        assert "tcgen05.mma accumulates onto" in only(result, "tmem-uninitialised").message


def test_an_accumulator_with_a_value_that_nobody_wrote_is_found() -> None:
    for schedule in POLICIES:
        _, result = launched(UNWRITTEN, used("%r60"), schedule=schedule)
        assert "shared byte" in only(result, "shared-uninitialised").message


OFFSETS = st.one_of(st.integers(0, 40).map(lambda n: 16 * n), st.integers(0, 3).map(lambda n: 1024 * n))
OPERAND = st.tuples(
    OFFSETS, OFFSETS, st.sampled_from(["none", "32B", "64B", "128B"]), st.sampled_from(["K", "MN"])
)


@settings(max_examples=60)
@given(OPERAND, OPERAND, st.integers(0, 99))
def test_addresses_of_any_strides_are_those_without_a_table(a: Any, b: Any, seed: int) -> None:
    """A launch that somebody listens to computes the address of each chunk."""
    rng = np.random.default_rng(seed)
    image = (rng.standard_normal(COPIED // 4).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    image = np.concatenate([image, image[::-1]])
    first, second = (SmemDescriptor(2048 + 0x4000 * at, *how[:3]).encode() for at, how in enumerate((a, b)))
    idesc = InstructionDescriptor(
        M, N, "bf16", "bf16", "f32", a_mn_major=a[3] == "MN", b_mn_major=b[3] == "MN"
    ).encode()
    runs = [
        launched("", "", image, first, second, idesc, schedule=Schedule("early"), races=races)
        for races in (False, True)
    ]
    (quick, quick_result), (slow, slow_result) = runs
    assert {finding.code for finding in quick_result.errors} == {
        finding.code for finding in slow_result.errors
    }
    if not quick_result.stopped:
        np.testing.assert_array_equal(quick.view(np.uint32), slow.view(np.uint32))
