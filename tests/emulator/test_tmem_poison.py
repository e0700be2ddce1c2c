# ruff: noqa: E501 - PTX lines are kept whole
"""Tensor memory never written: loading it is legal, using a register that holds it is the defect."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import LaunchResult, Schedule

from tests.kit.ptx import POLICIES, Memory, alloc, clean, dealloc, line_of, only, run

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


def launched(use: str, schedule: Schedule) -> LaunchResult:
    memory = Memory()
    out = memory.empty((32, 2), np.uint32)
    result = run(text(use), [out], memory=memory, threads=32, shared_bytes=256, schedule=schedule)
    assert (out.numpy() == np.stack([np.arange(32), np.arange(32) + 1000], 1)).all()
    return result


DROPPED = {
    "never used": "",
    "loaded again": f"{LD} {WAIT} {LD} {WAIT}",
    "overwritten": "mov.u32 %r64, 5; mov.b64 {%r65, %r66}, %rd1; add.u32 %r9, %r64, %r65;",
    "used by no lane": "@%p1 add.u32 %r9, %r64, 1;",
    "copied": "mov.b32 %r66, %r64; mov.b64 %rd2, {%r64, %r65}; mov.b64 {%r67, %r68}, %rd2;",
}
USED = {
    "arithmetic": ("add.u32 %r9, %r64, 1;", 32),
    "one lane": ("@%p2 add.u32 %r9, %r64, 1;", 1),
    "store": ("st.global.u32 [%rd1], %r64; st.global.u32 [%rd1], %r62;", 32),
    "back to tensor memory": ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51+4], {%r65}; tcgen05.wait::st.sync.aligned;", 32),
    "a copy": ("mov.b32 %r66, %r64; mov.b32 %r67, %r66; mul.lo.u32 %r9, %r67, 2;", 32),
    "a part of a pair": ("mov.b64 %rd2, {%r62, %r65}; mov.b64 {%r67, %r68}, %rd2; add.u32 %r9, %r68, 1;", 32),
    "before it is overwritten": ("add.u32 %r64, %r64, 1;", 32),
}  # fmt: skip


@pytest.mark.parametrize("how", DROPPED)
def test_padding_that_is_dropped_is_silent(how: str) -> None:
    for schedule in POLICIES:
        clean(launched(DROPPED[how], schedule))


@pytest.mark.parametrize("how", USED)
def test_its_use_is_found(how: str) -> None:
    use, lanes = USED[how]
    for schedule in POLICIES:
        finding = only(launched(use, schedule), "tmem-uninitialised")
        assert finding.ptx_line == line_of(text(use), LD, [False]) and finding.count == lanes
        assert finding.address % 32 in (2, 3) and "uses the value" in finding.message


def test_a_use_without_wait_ld_counts_too() -> None:
    body = text("").replace(WAIT, "add.u32 %r9, %r65, 1;")
    memory = Memory()
    result = run(body, [memory.empty((32, 2), np.uint32)], memory=memory, threads=32, shared_bytes=256, schedule=Schedule("late"))  # fmt: skip
    assert {"tmem-uninitialised", "tmem-ld-not-waited"} == {f.code for f in result.findings}
