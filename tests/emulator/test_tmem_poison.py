# ruff: noqa: E501 - PTX lines are kept whole
"""Tensor memory never written: loading it is legal, what depends on its value is the defect."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import POLICIES, Memory, alloc, clean, dealloc, line_of, only, run, used

ST = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r51], {%r60, %r61};\ntcgen05.wait::st.sync.aligned;"
LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r62, %r63, %r64, %r65}, [%r51];"  # two columns are padding
WAIT = "tcgen05.wait::ld.sync.aligned;"


def text(use: str) -> str:
    return f"""{alloc(32)} and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50;
    mov.u32 %r60, %t; add.u32 %r61, %t, 1000; setp.lt.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 7; mad.wide.u32 %rd1, %t, 8, %a0;
    {ST}
    {LD}
    {WAIT}
    st.global.v2.u32 [%rd1], {{%r62, %r63}};
    {use}
    {dealloc(32)}"""


def launched(use: str, schedule: Schedule) -> RunResult:
    memory = Memory()
    out = memory.empty((32, 2), np.uint32)
    result = run(text(use), [out], memory=memory, threads=32, shared_bytes=512, schedule=schedule)
    assert (out.numpy() == np.stack([np.arange(32), np.arange(32) + 1000], 1)).all()
    return result


DROPPED = {
    "never used": "",
    "loaded again": f"{LD} {WAIT} {LD} {WAIT}",
    "overwritten": "mov.u32 %r64, 5; mov.b64 {%r65, %r66}, %rd1; add.u32 %r9, %r64, %r65;",
    "overwritten by a product of the warp": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r60, %r60, %r60, %r60}, {%r60, %r60}, {%f1, %f2, %f3, %f4}; mov.b32 %r64, 0; mov.b32 %r65, 0; add.u32 %r9, %r64, %r65;",
    "overwritten by a vote and a shuffle": "vote.sync.ballot.b32 %r64, %p1, -1; shfl.sync.idx.b32 %r65|%p3, %r60, 0, 31, -1; add.u32 %r9, %r64, %r65;",
    "used by no lane": "@%p1 add.u32 %r9, %r64, 1;",
    "a part of a pair": "mov.b64 %rd2, {%r62, %r65}; mov.b64 {%r67, %r68}, %rd2; st.global.u32 [%rd1], %r67;",
    "copied": "mov.b32 %r66, %r64; mov.b64 %rd2, {%r64, %r65}; mov.b64 {%r67, %r68}, %rd2;",
}
USED = {
    "arithmetic": (f"add.u32 %r9, %r64, 1; {used('%r9')}", 32),
    "a single lane": ("@%p2 add.u32 %r9, %r64, 1; @%p2 st.global.u32 [%rd1], %r9; @%p2 st.global.u32 [%rd1], %r62;", 1),
    "store": ("st.global.u32 [%rd1], %r64; st.global.u32 [%rd1], %r62;", 32),
    "back to tensor memory": (f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51+4], {{%r65}}; tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r66}}, [%r51+4]; {WAIT} {used('%r66')}", 32),
    "a copy": ("mov.b32 %r66, %r64; mov.b32 %r67, %r66; mul.lo.u32 %r9, %r67, 2;" + used("%r9"), 32),
    "a part of a pair": ("mov.b64 %rd2, {%r62, %r65}; mov.b64 {%r67, %r68}, %rd2; add.u32 %r9, %r68, 1;" + used("%r9"), 32),
    "before it is overwritten": ("add.u32 %r64, %r64, 1;" + used("%r64"), 32),
    "the address of a store": ("@%p2 st.shared.u32 [%r64], %r60;", 1),
    "an mbarrier": ("@%p2 mbarrier.arrive.shared.b64 _, [%r64];", 1),
    "the destination of a copy": ("@%p2 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r64], [%rd1], 16, [1024];", 1),
    "the source of a store by a copy engine": ("@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r64], 16;", 1),
    "a named barrier": ("bar.sync %r64, 32;", 32),
    "the columns to free": ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r64, 32;", 32),
    "the accumulator of an MMA": ("@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r64], %rd1, %rd1, %r60, %p1;", 1),
}  # fmt: skip


@pytest.mark.parametrize("how", DROPPED)
def test_padding_that_is_dropped_is_silent(how: str) -> None:
    for schedule in POLICIES:
        clean(launched(DROPPED[how], schedule))


COMPUTED = {
    "arithmetic": "add.u32 %r9, %r64, 1;",
    "a predicate": "setp.eq.u32 %p3, %r64, 1; @%p3 mov.u32 %r9, 5;",
    "a store to shared memory": "mad.lo.u32 %r9, %t, 4, 1152; st.shared.u32 [%r9], %r64; ld.shared.u32 %r9, [%r9];",
}


@pytest.mark.parametrize("how", COMPUTED)
def test_a_result_that_is_dropped_is_a_note(how: str) -> None:
    for schedule in POLICIES:
        finding = only(launched(COMPUTED[how], schedule), "uninitialised-unused")
        assert finding.severity == "note" and "TMEM lane" in finding.message


@pytest.mark.parametrize("how", USED)
def test_its_use_is_found(how: str) -> None:
    use, lanes = USED[how]
    for schedule in POLICIES:
        finding = only(launched(use, schedule), "tmem-uninitialised")
        assert finding.machine.ptx_line == line_of(text(use), LD, [False]) and finding.count == lanes
        assert finding.machine.address % 32 in (2, 3) and "uses the value" in finding.message


def test_a_use_without_wait_ld_counts_too() -> None:
    body = text("").replace(WAIT, "add.u32 %r9, %r65, 1;" + used("%r9"))
    memory = Memory()
    result = run(body, [memory.empty((32, 2), np.uint32)], memory=memory, threads=32, shared_bytes=256, schedule=Schedule("late"))  # fmt: skip
    assert {"tmem-uninitialised", "tmem-ld-not-waited"} == {f.code for f in result.findings}
