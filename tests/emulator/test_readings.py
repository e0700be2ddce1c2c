# ruff: noqa: E501 - PTX lines are kept whole
"""Small programs for readings of docs/assumptions.md that a card can settle; `tools/card` repeats them there."""

from __future__ import annotations

import numpy as np

from tests.kit.ptx import CLUSTER_SYNC, Memory, alloc, clean, codes, dealloc, run


def test_a_warp_reads_its_own_quarter() -> None:
    """Every warp loads from lane 0 of the address, which is its own quarter only for warp 0."""
    memory = Memory()
    out = memory.empty(128, np.uint32)
    body = f"""{alloc(32)}
    shr.u32 %r1, %t, 5; shl.b32 %r2, %r1, 21; add.u32 %r2, %r2, %r100;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%t}}; tcgen05.wait::st.sync.aligned; bar.sync 0;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r3}}, [%r100]; tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r3; {dealloc(32)}"""
    result = run(body, [out], memory=memory, threads=128, shared_bytes=2048)
    assert codes(result) == {"tmem-lane-quarter"} and not result.errors
    assert (out.numpy() == np.arange(128)).all()


def test_a_pair_allocates_all_columns_twice() -> None:
    memory = Memory()
    out = memory.empty(2, np.uint32)
    part = f"{alloc(512, group=2)} {CLUSTER_SYNC} {dealloc(512, group=2)}"
    body = f"""{CLUSTER_SYNC} {part} {part} {CLUSTER_SYNC}
    mov.u32 %r1, %cluster_ctarank; mad.wide.u32 %rd1, %r1, 4, %a0; setp.eq.u32 %p1, %t, 0;
    add.u32 %r100, %r100, 7; @%p1 st.global.u32 [%rd1], %r100;"""
    clean(run(body, [out], memory=memory, threads=32, cluster=2, shared_bytes=2048))
    assert out.numpy().tolist() == [7, 7]


def test_match_all_of_lanes_that_have_not_exited() -> None:
    memory = Memory()
    out = memory.buffer(np.full(32, 9, np.uint32))
    body = """
    setp.ge.u32 %p1, %t, 16; @%p1 exit;
    match.all.sync.b32 %r1|%p2, 5, -1;
    mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r1;"""
    assert not run(body, [out], memory=memory).errors
    assert out.numpy().tolist() == [0xFFFF] * 16 + [9] * 16


def test_a_parameter_is_in_the_global_window() -> None:
    memory = Memory()
    out = memory.empty(1, np.uint32)
    body = """
    mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; isspacep.global %p1, %rd1; selp.b32 %r1, 1, 2, %p1;
    setp.eq.u32 %p2, %t, 0; @%p2 st.global.u32 [%a0], %r1;"""
    clean(run(body, [out], memory=memory))
    assert out.numpy().tolist() == [1]
