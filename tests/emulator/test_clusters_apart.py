# ruff: noqa: E501 - PTX lines are kept whole
"""Clusters on several threads of the host: the bits, findings and text of a single thread, whatever they share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Buffer, LaunchError, Memory, RunResult, Schedule, SmemRegion, Tap

from tests.kit.ptx import clean, codes, init_barrier, run

CLUSTERS = 12
THREADS = 3
# Enough work in each cluster for threads to be worth their start; %f9 ends as a number that depends on it.
WORK = """mov.u32 %r30, 0; mov.f32 %f9, 0f3F800000;
W: fma.rn.f32 %f9, %f9, 0f3F7FFFFF, 0f3A83126F; add.u32 %r30, %r30, 1; bar.sync 0; setp.lt.u32 %p7, %r30, 4000; @%p7 bra W;"""
# %r1: number of the cluster; %rd1: its word of %a0; %f1: a value of its own.
OWN = f"""{WORK} mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 4, %a0;
cvt.rn.f32.u32 %f1, %r1; mul.f32 %f1, %f1, 0f3DCCCCCD; fma.rn.f32 %f1, %f1, %f1, %f9; setp.eq.u32 %p0, %t, 0;"""


def launched(
    body: str, threads: int, words: int = 256, **launch: Any
) -> tuple[RunResult, np.ndarray, Buffer]:
    """The run on so many threads, and the buffer of words at %a0, which starts with 1.0; %a1 is not written."""
    memory = Memory()
    cells = np.ones(words, np.float32)
    lazy = memory.empty((words,), np.uint32, name="lazy")
    args = [memory.buffer(cells, name="cells"), lazy]
    result = run(OWN + body, args, memory=memory, grid=CLUSTERS, host_threads=threads, **launch)
    return result, cells, lazy


def both(body: str, apart: bool, **launch: Any) -> RunResult:
    """The result on several threads, which is that of a single thread; `apart`: whether threads could run."""
    single, cells, lazy = launched(body, 1, **launch)
    many, again, lazy_again = launched(body, THREADS, **launch)
    assert (single.host_threads, many.host_threads) == (1, THREADS if apart else 1)
    assert cells.tobytes() == again.tobytes()
    where = lazy.written()
    assert where.tobytes() == lazy_again.written().tobytes()
    assert (lazy.numpy()[where] == lazy_again.numpy()[where]).all()
    assert list(map(str, single.findings)) == list(map(str, many.findings))
    assert single.counters == many.counters
    assert (single.executed, single.stored, single.printf) == (many.executed, many.stored, many.printf)
    assert single.mbarriers == many.mbarriers
    captures = [
        [(capture.cta, capture.phase, capture.data.tobytes()) for capture in seen.captures]
        for seen in (single, many)
    ]
    assert captures[0] == captures[1]
    return many


@pytest.mark.parametrize("policy", ["early", "late", "late-newest"])
def test_rows_of_their_own(policy: str) -> None:
    """128 bytes for each cluster, of both buffers, and a reading of its own row."""
    body = """mul.lo.u32 %r2, %r1, 128; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %a0, %rd2; add.u64 %rd4, %a1, %rd2;
    mad.wide.u32 %rd3, %t, 4, %rd3; mad.wide.u32 %rd4, %t, 4, %rd4; st.global.f32 [%rd3], %f1; ld.global.u32 %r4, [%rd3]; st.global.u32 [%rd4], %r4;"""
    clean(both(body, True, words=32 * CLUSTERS, schedule=Schedule(policy)))  # type: ignore[arg-type]


ADDITIONS = {
    "words": "@%p0 red.global.add.f32 [%a0], %f1; @%p0 red.global.add.f32 [%a0+8], %f9;",
    "a row": "mad.wide.u32 %rd2, %t, 4, %a0; red.global.add.f32 [%rd2], %f1;",
    "vectors": "mad.wide.u32 %rd2, %t, 16, %a0; red.global.add.v4.f32 [%rd2], {%f1, %f9, %f1, %f9};",
    "generic": "@%p0 red.add.f32 [%a0], %f1;",
    "other operations": "@%p0 red.global.max.u32 [%a0], %r1; @%p0 red.global.inc.u32 [%a0+64], 7; @%p0 red.global.add.noftz.bf16x2 [%a0+128], %r1; @%p0 red.global.xor.b32 [%a0+160], %r30;",
    "a bulk copy": "shl.b32 %r5, %t, 2; add.u32 %r5, %r5, 2048; st.shared.f32 [%r5], %f1; fence.proxy.async; bar.sync 0; @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%a0], [2048], 128; @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;",
}


# The same values in the opposite order of the clusters.
OPPOSITE = """sub.u32 %r9, 11, %r1; cvt.rn.f32.u32 %f1, %r9; mul.f32 %f1, %f1, 0f3DCCCCCD; fma.rn.f32 %f1, %f1, %f1, %f9;"""


@pytest.mark.parametrize("body", ADDITIONS.values(), ids=ADDITIONS)
def test_additions_are_made_in_the_order_of_the_clusters(body: str) -> None:
    clean(both(body, True, shared_bytes=2176))
    if "%f1" in body:  # the sums show the order
        sums = [launched(order + body, 1, shared_bytes=2176)[1].tobytes() for order in ("", OPPOSITE)]
        assert sums[0] != sums[1]


def test_more_reductions_than_can_be_kept_run_on_a_single_thread() -> None:
    """80 MB of a late cluster, of which 2 GiB / 33 are kept."""
    body = """setp.eq.u32 %p2, %r1, 9; and.pred %p2, %p2, %p0; @!%p2 bra END; mov.u32 %r5, 0;
    MORE: cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [%a0], [2048], 131072; add.u32 %r5, %r5, 1;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; setp.lt.u32 %p3, %r5, 620; @%p3 bra MORE; END:"""
    filled = """shl.b32 %r6, %t, 2; add.u32 %r6, %r6, 2048; mov.u32 %r7, 0;
    FILL: st.shared.u32 [%r6], %r7; add.u32 %r6, %r6, 128; add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 1024; @%p4 bra FILL;
    fence.proxy.async; bar.sync 0;"""
    runs = [launched(filled + body, threads, words=32768, shared_bytes=132096) for threads in (1, 11)]
    assert [clean(result).host_threads for result, _, _ in runs] == [1, 1]
    assert runs[0][1].tobytes() == runs[1][1].tobytes()


def test_what_only_some_clusters_execute() -> None:
    body = "setp.ne.u32 %p2, %r1, 7; @%p2 bra END; add.u32 %r2, %r2, 1; END: mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.u32 [%rd2], %r1;"
    clean(both(body, True, words=8 * CLUSTERS))


# What makes clusters depend on each other, or must come in their order.
TOGETHER = {
    "a value of the cluster before": "@%p0 ld.global.f32 %f2, [%a0]; @%p0 add.f32 %f2, %f2, %f1; @%p0 st.global.f32 [%a0], %f2;",
    "the row of the next cluster, before it is written": "@%p0 ld.global.f32 %f2, [%rd1+32]; @%p0 st.global.f32 [%rd1], %f2;",
    "one word written by all": "@%p0 st.global.f32 [%a0+4], %f1;",
    "neighbours in a sector": "@%p0 st.global.f32 [%rd1], %f1;",
    "a ticket": "@%p0 atom.global.add.u32 %r2, [%a0+64], 1; @%p0 mad.wide.u32 %rd2, %r2, 32, %a0; @%p0 st.global.u32 [%rd2+128], %r1;",
    "a sum that is read": "@%p0 red.global.add.f32 [%a0], %f1; @%p0 ld.global.f32 %f2, [%a0]; @%p0 mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.f32 [%rd2+64], %f2;",
    "a sum that the last cluster reads": "setp.lt.u32 %p2, %r1, 11; and.pred %p3, %p2, %p0; @%p3 red.global.add.f32 [%a0], %f1; not.pred %p2, %p2; and.pred %p3, %p2, %p0; @%p3 ld.global.f32 %f2, [%a0]; @%p3 st.global.f32 [%a0+64], %f2;",
    "compare and swap": "@%p0 atom.global.cas.b32 %r2, [%a0], 1065353216, %r1;",
    "bytes that nobody has written, and that decide nothing": "setp.eq.u32 %p2, %r1, 9; @%p2 ld.global.u32 %r2, [%a1]; xor.b32 %r3, %r2, %r2; mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.u32 [%rd2], %r1;",
    "an address outside, in the last cluster": "setp.eq.u32 %p2, %r1, 11; and.pred %p2, %p2, %p0; mul.wide.u32 %rd2, %r1, 32; add.u64 %rd2, %rd2, %a0; @%p0 st.global.f32 [%rd2], %f1; @%p2 st.global.f32 [%a0+100000], %f1;",
    "what the last cluster overwrites": "mad.wide.u32 %rd2, %r1, 32, %a0; setp.eq.u32 %p2, %r1, 11; and.pred %p2, %p2, %p0; @%p0 ld.global.f32 %f2, [%a0]; @%p0 st.global.f32 [%rd2+64], %f2; @%p2 st.global.f32 [%a0], %f1;",
    "a cluster that computes for so long that the next cluster starts beside it": "mov.u32 %r31, 0; setp.ne.u32 %p2, %r1, 3; @%p2 bra SHORT; L: add.u32 %r31, %r31, 1; setp.lt.u32 %p3, %r31, 10000; @%p3 bra L; SHORT: mov.u32 %r2, %smid; mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.u32 [%rd2], %r2;",
    "the clock": "mov.u32 %r2, %clock; mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.u32 [%rd2], %r2;",
    "the clock, of a late cluster": "mad.wide.u32 %rd2, %r1, 32, %a0; setp.eq.u32 %p2, %r1, 9; mov.u32 %r2, 0; @%p2 mov.u32 %r2, %clock; @%p0 st.global.u32 [%rd2], %r2;",
    "a hang in one cluster": "setp.eq.u32 %p2, %r1, 5; mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.f32 [%rd2+64], %f1; @%p2 bar.sync 1, 64;",
}  # fmt: skip


@pytest.mark.parametrize("body", TOGETHER.values(), ids=TOGETHER)
def test_clusters_that_meet_run_on_one_thread(body: str) -> None:
    result = both(body, False)
    if "100000" in body:
        assert codes(result) == {"global-out-of-bounds"}


def test_flags_between_clusters() -> None:
    """The second waits for the first's word, which it wrote long ago, the first for nobody."""
    body = """setp.eq.u32 %p2, %r1, 0; @%p2 bra MINE; add.u64 %rd2, %rd1, -4;
    SPIN: ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.eq.u32 %p3, %r2, 1065353216; @%p3 bra SPIN;
    MINE: bar.warp.sync 0xffffffff; @%p0 st.release.gpu.global.u32 [%rd1], %r1;"""
    both(body, False)


def test_captures_come_in_the_order_of_the_clusters() -> None:
    body = f"""{init_barrier(2048)} shl.b32 %r5, %t, 2; add.u32 %r5, %r5, 2560; st.shared.f32 [%r5], %f1; bar.sync 0;
    @%p0 mbarrier.arrive.shared.b64 _, [2048];"""
    tap = Tap("tile", 1024, SmemRegion(1536, 128))
    captures = both(body, True, shared_bytes=4096, taps=[tap]).captures
    assert [capture.cta[0] for capture in captures] == list(range(CLUSTERS))


@pytest.mark.parametrize(
    "option",
    [{"races": True}, {"trace": True}, {"schedule": Schedule("random", 3)}, {"clc": "grant"}],
    ids=str,
)
def test_what_follows_the_order_of_events_runs_on_one_thread(option: dict[str, Any]) -> None:
    result, _, _ = launched(
        "mad.wide.u32 %rd2, %r1, 32, %a0; @%p0 st.global.f32 [%rd2], %f1;", THREADS, **option
    )
    assert clean(result).host_threads == 1


def test_text_is_printed_in_the_order_of_the_clusters() -> None:
    body = """.local .align 8 .b8 buffer[8]; st.local.u32 [buffer], %r1; mov.u64 %rd1, buffer; cvta.local.u64 %rd1, %rd1;
    mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2; setp.lt.u32 %p2, %r1, 3; not.pred %p3, %p0; or.pred %p2, %p2, %p3; @%p2 bra END;
    { .param .b64 param0; st.param.b64 [param0], %rd2; .param .b64 param1; st.param.b64 [param1], %rd1; .param .b32 retval0;
    call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r9, [retval0]; } END:"""
    module = ".global .align 1 .b8 format[4] = {37, 100, 32, 0};"  # "%d "
    printed = both(body, False, module=module).printf
    assert printed == "".join(f"{cluster} " for cluster in range(3, CLUSTERS))


def test_little_work_is_not_worth_threads() -> None:
    memory = Memory()
    out = memory.buffer(np.zeros(64, np.float32))
    body = "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 32, %a0; st.global.u32 [%rd1], %r1;"
    assert run(body, [out], memory=memory, grid=8, host_threads=8).host_threads == 1


@pytest.mark.parametrize("count", [0, -1, 257, 1.5, "2"])
def test_what_is_no_number_of_threads(count: Any) -> None:
    with pytest.raises(LaunchError, match="host_threads"):
        launched("", count)


# An access of each cluster: operation, and which word (of 32 that all share, or of its own 32).
OPERATIONS = {
    "load": "@%p0 ld.global.u32 %r20, [{at}]; @%p0 xor.b32 %r21, %r21, %r20;",
    "store": "@%p0 st.global.u32 [{at}], %r21;",
    "add": "@%p0 red.global.add.f32 [{at}], %f1;",
    "max": "@%p0 red.global.max.u32 [{at}], %r21;",
    "exchange": "@%p0 atom.global.exch.b32 %r20, [{at}], %r21; @%p0 xor.b32 %r21, %r21, %r20;",
}
ACCESS = st.tuples(
    st.sampled_from(sorted(OPERATIONS)), st.sampled_from(["own", "own", "shared"]), st.integers(0, 3)
)


@settings(max_examples=int(os.environ.get("EMULATOR_EXAMPLES", "20")), deadline=None)
@given(st.lists(st.tuples(ACCESS, st.integers(0, CLUSTERS)), min_size=1, max_size=6))
def test_drawn_programs(accesses: list[tuple[tuple[str, str, int], int]]) -> None:
    """Accesses of all clusters, or of a single cluster (the number below CLUSTERS), to words that all or a single cluster have."""
    body = "mul.lo.u32 %r2, %r1, 128; cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd2, %a0; mov.u32 %r21, %r1; setp.eq.u32 %p1, %t, 0;"
    for (operation, place, word), who in accesses:
        at = f"%rd2+{256 + 4 * word}" if place == "own" else f"%a0+{32 * word}"
        only = (
            f"setp.eq.u32 %p2, %r1, {who}; and.pred %p0, %p1, %p2;"
            if who < CLUSTERS
            else "and.pred %p0, %p1, %p1;"
        )
        body += only + OPERATIONS[operation].format(at=at)
    body += "and.pred %p0, %p1, %p1; @%p0 st.global.u32 [%rd2+288], %r21;"
    single, cells, _ = launched(body, 1, words=1024)
    many, again, _ = launched(body, THREADS, words=1024)
    assert cells.tobytes() == again.tobytes()
    assert single.counters == many.counters and not many.findings


@pytest.mark.parametrize("cluster", range(1, CLUSTERS, 2))
def test_a_cluster_stops_with_stores_on_their_way(cluster: int) -> None:
    """The operations of a host's thread end after it."""
    stores = " ".join(
        f"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5+{128 * k}], %t, [%r6];"
        for k in range(40)
    )
    body = f"""{init_barrier(1280)} shl.b32 %r5, %t, 2; add.u32 %r5, %r5, 2048; mov.u32 %r6, 1280;
    mapa.shared::cluster.u32 %r5, %r5, 0; mapa.shared::cluster.u32 %r6, %r6, 0;
    setp.ne.u32 %p1, %r1, {cluster}; @%p1 exit; {stores} @%p0 st.global.f32 [%rd1+2], %f1;"""
    assert "misaligned" in codes(both(body, False, schedule=Schedule("late"), shared_bytes=0x3000))
