"""What units of the machine do to small kernels made by hand: clocks that follow from the figures, and a
planted wrong figure that shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.beside.timing.model import Played, played
from tileproof.conformance.beside.timing.units import Origin, Units, Use
from tileproof.conformance.beside.timing.work import Phase, TimedOperation
from tileproof.emulator import Memory, Module
from tileproof.spec.machine.timing import HOPPER, Figure, Timing

HEAD = """.version 8.7
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<3>;
    .shared .align 128 .b8 room[32768];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, room;
    mov.f32 %f1, 0f3F800000;
"""
TAIL = """
    ret;
}
"""
CTA, WARP = (0, 0, 0), (0, 0, 0, 0)


def clocks(body: str, timing: Timing = HOPPER, threads: int = 32, alone: bool = True) -> float:
    """Clocks of a kernel with this body."""
    return run(body, threads).clocks(timing, "likely", alone).clocks


def run(body: str, threads: int = 32) -> Played:
    ptx = HEAD + body + TAIL
    module = Module.from_ptx(ptx)
    memory = Memory()
    out = memory.buffer(np.zeros(1 << 16, np.float32))
    result = module.launch(
        "kernel", grid=(1,), block=(threads,), args=[out], memory=memory, trace=True, path=True
    )  # fmt: skip
    assert not result.findings, result.findings
    assert result.trace is not None
    return played(module, ptx, "kernel", "sm_90", result, result.trace)


def with_figure(name: str, value: float) -> Timing:
    return HOPPER.fixed({name: value})


def loads(stride: int, count: int) -> str:
    lines = [f"mul.lo.u32 %r3, %r1, {stride};", "add.u32 %r3, %r3, %r2;", "st.shared.u32 [%r3], %r1;"]
    lines += ["bar.sync 0;", "mov.u32 %r5, 0;"]
    for _ in range(count):
        lines += ["ld.volatile.shared.u32 %r4, [%r3];", "xor.b32 %r5, %r5, %r4;"]
    return "\n".join([*lines, "st.global.u32 [%rd1], %r5;"])


@pytest.mark.parametrize(("stride", "ways"), [(16, 4), (128, 32)])
def test_lanes_that_meet_in_a_bank_come_one_after_the_other(stride: int, ways: int) -> None:
    few, more = (clocks(loads(stride, count)) for count in (8, 40))
    assert (more - few) / 32 == pytest.approx(HOPPER.quarter_pass.likely * ways, rel=0.05)


def test_a_wrong_figure_of_a_pass_is_seen() -> None:
    right, wrong = (clocks(loads(128, 32), timing) for timing in (HOPPER, with_figure("quarter_pass", 1.0)))
    assert wrong < 0.7 * right


def test_lanes_that_read_one_word_go_together() -> None:
    assert clocks(loads(128, 32)) > clocks(loads(0, 32)) + 0.9 * 32 * 31 * HOPPER.quarter_pass.likely


def bulk_store(wait: str) -> str:
    return f"""
    mov.u32 %r5, 1;
    st.shared.u32 [%r2], %r5;
    fence.proxy.async.shared::cta;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    mov.u32 %r6, 16384;
    // stores
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], %r6;
    cp.async.bulk.commit_group;
    {wait}
DONE:
""".replace(
        "    // stores\n",
        "".join(f"    st.shared.v4.u32 [%r2+{at}], {{%r5, %r5, %r5, %r5}};\n" for at in range(0, 16384, 16)),
    )


def test_wait_group_waits_for_the_store() -> None:
    none = clocks(bulk_store(""))
    read = clocks(bulk_store("cp.async.bulk.wait_group.read 0;")) - none
    done = clocks(bulk_store("cp.async.bulk.wait_group 0;")) - none
    assert read == pytest.approx(16384 / HOPPER.store_rate.likely + HOPPER.store_read.likely, rel=0.1)
    assert done - read == pytest.approx(HOPPER.store_done.likely, abs=2)
    slow = clocks(bulk_store("cp.async.bulk.wait_group 0;"), with_figure("store_rate", 8.0)) - none
    assert slow > 3 * done


def both(adds: int, reads: int) -> str:
    """Warp 0 adds 512 bytes an instruction, warp 1 reads as many by cp.async."""
    add = "\n".join(f"red.global.add.v4.f32 [%rd3+{512 * k}], {{%f1, %f1, %f1, %f1}};" for k in range(adds))
    read = "\n".join(f"cp.async.cg.shared.global [%r4+{512 * (k % 32)}], [%rd3+{65536 + 512 * k}], 16;"
                     for k in range(reads))  # fmt: skip
    return f"""
    and.b32 %r3, %r1, 31;
    shl.b32 %r3, %r3, 4;
    add.u32 %r4, %r2, %r3;
    cvt.u64.u32 %rd2, %r3;
    add.u64 %rd3, %rd1, %rd2;
    setp.gt.u32 %p1, %r1, 31;
    @%p1 bra READS;
    {add}
    bra DONE;
READS:
    {read}
    cp.async.wait_all;
DONE:
    bar.sync 0;
"""


@pytest.mark.parametrize("alone", [True, False])
def test_additions_and_reads_share_l2(alone: bool) -> None:
    f = HOPPER.values("likely")
    added, read = 128 * 512, 128 * 512
    end = "addition_rate", "read_rate"
    a, r = (added / f[end[0]], read / f[end[1]]) if alone else (
        added / f["addition_rate_all"], read / f["read_rate_all"]
    )  # fmt: skip
    empty = clocks(both(1, 1), threads=64, alone=alone)
    together = clocks(both(128, 128), threads=64, alone=alone) - empty
    overlap = 1.0 if alone else f["l2_overlap"]  # an SM's port serves them in turn
    assert together == pytest.approx((a + r) / overlap, rel=0.12)
    figure, value = ("read_rate", 1e6) if alone else ("l2_overlap", 2.0)
    apart = clocks(both(128, 128), with_figure(figure, value), threads=64, alone=alone) - empty
    assert apart < 0.9 * together  # as if each had the unit for itself


def test_a_wait_without_a_group_to_wait_for_ends_at_once() -> None:
    """In a loop with two groups in flight the first wait has none: each wait keeps its own group."""
    copies = """
    shl.b32 %r3, %r1, 4;
    add.u32 %r4, %r2, %r3;
    cvt.u64.u32 %rd2, %r3;
    add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r5, 0;
STEP:
    .pragma "nounroll";
    cp.async.cg.shared.global [%r4], [%rd3], 16;
    cp.async.commit_group;
    cp.async.wait_group {allowed};
    add.u32 %r4, %r4, 512;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 16;
    @%p1 bra STEP;
    cp.async.wait_group 0;
"""
    serial, together = (clocks(copies.format(allowed=allowed)) for allowed in (0, 1))
    assert together == pytest.approx(serial / 2, rel=0.2)


def adds(row: int, count: int, fence: str = "fence.acq_rel.gpu;") -> str:
    """A warp adds `count` times, its lanes `row` bytes apart; only a fence waits for additions."""
    add = "\n".join(f"red.global.add.f32 [%rd3+{128 * k}], %f1;" for k in range(count))
    return f"""
    and.b32 %r3, %r1, 31;
    mul.lo.u32 %r3, %r3, {row};
    cvt.u64.u32 %rd2, %r3;
    add.u64 %rd3, %rd1, %rd2;
    {add}
    {fence}
    st.global.u32 [%rd1+262140], %r1;
"""


def test_an_addition_over_32_rows_takes_as_long_as_on_silicon() -> None:
    """9.4 times a coalesced addition with every SM busy, 6.7 times with one CTA (additions.cu)."""
    for alone, times in ((False, 9.4), (True, 6.7)):
        row, rows = (
            clocks(adds(step, 64), alone=alone) - clocks(adds(step, 16), alone=alone) for step in (4, 2048)
        )
        assert rows / row == pytest.approx(times, rel=0.1)
    cheap = with_figure("addition_line", 0.0)
    assert clocks(adds(2048, 64), cheap, alone=False) < 0.7 * clocks(adds(2048, 64), alone=False)


def test_a_fence_waits_for_the_additions_before_it() -> None:
    none, fenced = (clocks(adds(2048, 16, fence)) for fence in ("", "fence.acq_rel.gpu;"))
    f = HOPPER.values("likely")
    assert fenced - none > f["memory_barrier"] + f["memory_barrier_global"]


def test_a_working_set_beside_l2_takes_memory_s_time() -> None:
    played_, held = run(adds(4, 256)), HOPPER.l2_bytes.likely * 1e6
    within, beyond = (
        played_.clocks(HOPPER, "likely", False, working_set=used).clocks for used in (held, 10 * held)
    )
    assert within == played_.clocks(HOPPER, "likely", False).clocks
    assert beyond > 1.5 * within


def units(figures: Timing = HOPPER) -> tuple[Units, list[tuple[float, Callable[[float], None]]]]:
    later: list[tuple[float, Callable[[float], None]]] = []

    def contribute(time: float, phase: Phase, origin: Origin) -> None:
        del time, phase, origin

    f = figures.values("likely")
    made = Units(f, True, Use(), lambda time, what: later.append((time, what)), contribute, {})
    return made, later


def test_shared_memory_takes_what_operands_of_mmas_leave() -> None:
    """M 64, N 64: 32 clocks, all reads. M 128, N 256 with A in tensor memory: 128 clocks, 64 of reads."""
    exact = HOPPER.fixed({"shared_rate": 128.0, "shared_beside_mma": 0.0, "mma_issue": 0.0})
    full, _ = units(exact)
    full.start(TimedOperation(0, "MMA", 64 << 16 | 64 | 1 << 32, CTA, 0), WARP, 0.0)
    assert full.through(CTA, 10, 0.0, 0) == 32 + 10
    half, _ = units(exact)
    half.start(TimedOperation(0, "MMA", 128 << 16 | 256 | 1 << 33, CTA, 0), WARP, 0.0)
    assert half.through(CTA, 10, 0.0, 0) == 20
    assert half.through(CTA, 1000, 20.0, 0) == 128 + 1000 - 54
    beside, _ = units(replace(exact, shared_beside_mma=Figure(0.25, 0.25, 0.25, "", "planted")))
    beside.start(TimedOperation(0, "MMA", 64 << 16 | 64 | 1 << 32, CTA, 0), WARP, 0.0)
    assert beside.through(CTA, 4, 0.0, 0) == 16


def test_mmas_of_a_pair_keep_both_tensor_cores() -> None:
    pair, _ = units()
    pair.twins = {CTA: (1, 0, 0)}
    pair.start(TimedOperation(0, "MMA", 256 << 16 | 256 | 1 << 34, CTA, 0), WARP, 0.0)
    assert pair.tensor_done[CTA] == pair.tensor_done[(1, 0, 0)] > 128


def test_remote_stores_want_whole_segments() -> None:
    whole, later = units()
    whole.start(TimedOperation(0, "remote store", 512, CTA, 0, places=[CTA]), WARP, 0.0)
    broken, others = units()
    broken.start(TimedOperation(0, "remote store", 512, CTA, 0, scattered=1.0, places=[CTA]), WARP, 0.0)
    latency = HOPPER.remote_store_latency.likely
    assert (others[0][0] - latency) / (later[0][0] - latency) == HOPPER.remote_store_scattered.likely


def copies_of(lanes: int) -> str:
    return f"""
    mov.u32 %r4, room;
    add.u32 %r4, %r4, 16384;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra MADE;
    mbarrier.init.shared.b64 [%r4], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r4], {128 * lanes};
MADE:
    bar.sync 0;
    setp.ge.u32 %p2, %r1, {lanes};
    @%p2 bra WAIT;
    shl.b32 %r3, %r1, 7;
    add.u32 %r5, %r2, %r3;
    cvt.u64.u32 %rd2, %r3;
    add.u64 %rd3, %rd1, %rd2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd3], 128, [%r4];
WAIT:
    mov.u32 %r6, 0;
LOOK:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r4], %r6;
    @!%p1 bra LOOK;
"""


def test_lanes_that_copy_take_turns() -> None:
    """ptxas makes a loop over the lanes: 37 clocks of stalls, and until a copy's sources are read."""
    few, many = (clocks(copies_of(lanes)) for lanes in (2, 18))
    each = (many - few) / 16
    assert 40 < each < 70
    slow = (
        clocks(copies_of(18), with_figure("branch", 108.0))
        - clocks(copies_of(2), with_figure("branch", 108.0))
    ) / 16
    assert slow == pytest.approx(each + 108 - HOPPER.branch.likely, rel=0.1)
