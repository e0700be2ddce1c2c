# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""elect, shfl, vote, activemask, bar.warp.sync: converged, diverged, guarded, with groups of lanes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule

from tests.kit.ptx import POLICIES, Memory, clean, only, outputs, run, store

COVERS = "elect.sync shfl vote activemask bar.warp.sync"

ALL = "0xffffffff"
LANES = np.arange(32)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@settings(max_examples=12, deadline=None)
@given(b=st.integers(0, 40), clamp=st.integers(0, 31), segment=st.sampled_from([0, 16, 24, 28, 30, 31]))
def test_shfl_formula(mode: str, b: int, clamp: int, segment: int) -> None:
    """The pseudo-code of PTX ISA 9.7.9.6, lane by lane."""
    c = segment << 8 | clamp
    body = f"""
    mad.lo.u32 %r1, %t, 3, 100;
    shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, {ALL};
    selp.b32 %r3, 0x10000, 0, %p1; or.b32 %r2, %r2, %r3;
    {store("%r2")}"""
    want = []
    for lane in range(32):
        bval = b & 31
        maximum, minimum = lane & segment | clamp & ~segment & 31, lane & segment
        j = {
            "up": lane - bval,
            "down": lane + bval,
            "bfly": lane ^ bval,
            "idx": minimum | bval & ~segment & 31,
        }[mode]
        ok = j >= maximum if mode == "up" else j <= maximum
        want.append((3 * (j if ok else lane) + 100) | (0x10000 if ok else 0))
    assert outputs(body).tolist() == want


def test_shfl_of_a_lane_by_lane_index_in_place() -> None:
    body = (
        f"sub.u32 %r1, 31, %t;\nmov.u32 %r2, %t;\nshfl.sync.idx.b32 %r2, %r2, %r1, 31, {ALL};\n{store('%r2')}"
    )
    assert (outputs(body) == 31 - LANES).all()


def test_a_butterfly_sum() -> None:
    steps = "\n".join(
        f"shfl.sync.bfly.b32 %r2, %r1, {n}, 31, {ALL}; add.u32 %r1, %r1, %r2;" for n in (16, 8, 4, 2, 1)
    )
    assert (outputs(f"mul.lo.u32 %r1, %t, %t;\n{steps}\n{store('%r1')}") == (LANES**2).sum()).all()


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0xFFFF0000, 0x00000F00, 0x80000000])
def test_elect_takes_the_lowest_lane_of_the_mask(mask: int) -> None:
    body = f"""
    mov.u32 %r9, 99; setp.ne.u32 %p2, %t, %t;
    mov.u32 %r1, %lanemask_eq; and.b32 %r1, %r1, {mask}; setp.ne.u32 %p3, %r1, 0;
    @%p3 elect.sync %r9|%p2, {mask};
    selp.b32 %r2, 256, 0, %p2; add.u32 %r2, %r2, %r9;
    {store("%r2")}"""
    leader = (mask & -mask).bit_length() - 1
    want = [(leader if mask >> lane & 1 else 99) + (256 if lane == leader else 0) for lane in range(32)]
    assert outputs(body).tolist() == want


def test_elect_without_the_lane_number() -> None:
    body = f"elect.sync _|%p1, -1;\nselp.b32 %r2, 1, 0, %p1;\n{store('%r2')}"
    assert (outputs(body) == (LANES == 0)).all()


@pytest.mark.parametrize("value", [0, 0xFFFFFFFF, 0x0000FFFF, 1, 0xDEADBEEF])
def test_votes(value: int) -> None:
    body = f"""
    mov.u32 %r1, %lanemask_eq; and.b32 %r1, %r1, {value}; setp.ne.u32 %p1, %r1, 0;
    vote.sync.all.pred %p2, %p1, {ALL}; vote.sync.any.pred %p3, %p1, {ALL}; vote.sync.uni.pred %p4, %p1, {ALL};
    vote.sync.ballot.b32 %r2, %p1, {ALL}; vote.sync.ballot.b32 %r3, !%p1, {ALL}; vote.sync.all.pred %p5, !%p1, {ALL};
    selp.b32 %r4, 1, 0, %p2; selp.b32 %r5, 2, 0, %p3; selp.b32 %r6, 4, 0, %p4; selp.b32 %r7, 8, 0, %p5;
    or.b32 %r4, %r4, %r5; or.b32 %r4, %r4, %r6; or.b32 %r4, %r4, %r7;
    {store("%r4")} {store("%r2", argument="%a1")} {store("%r3", argument="%a2")}"""
    first, second = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    got = outputs(body, extra=[first, second])
    full = 0xFFFFFFFF
    want = (value == full) + 2 * (value != 0) + 4 * (value in (0, full)) + 8 * (value == 0)
    assert (got == want).all() and (first == value).all() and (second == value ^ full).all()


def test_ballot_before_sync_is_a_spelling_of_ptxas() -> None:
    body = f"setp.lt.u32 %p1, %t, 5;\nvote.ballot.sync.b32 %r2, %p1, {ALL};\n{store('%r2')}"
    assert (outputs(body) == 31).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_groups_with_masks_of_their_own(schedule: Schedule) -> None:
    """Half-warps pass their own member masks to one instruction: each group votes, elects and shuffles for itself."""
    body = f"""
    setp.lt.u32 %p1, %t, 16; selp.b32 %r1, 0x0000ffff, 0xffff0000, %p1;
    and.b32 %r2, %t, 5; setp.eq.u32 %p2, %r2, 5;
    vote.sync.ballot.b32 %r3, %p2, %r1;
    elect.sync %r4|%p3, %r1;
    vote.sync.any.pred %p4, %p1, %r1;
    shfl.sync.bfly.b32 %r5, %t, 15, 31, %r1;
    selp.b32 %r6, 64, 0, %p3; selp.b32 %r7, 128, 0, %p4; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r4; mad.lo.u32 %r6, %r5, 256, %r6;
    {store("%r3")} {store("%r6", argument="%a1")}"""
    second = np.zeros(32, np.uint32)
    got = outputs(body, extra=[second], schedule=schedule)
    votes = sum(1 << lane for lane in range(32) if lane & 5 == 5)
    assert got.tolist() == [votes & 0xFFFF] * 16 + [votes & 0xFFFF0000] * 16
    want = [
        (16 if lane > 15 else 0) + 64 * (lane % 16 == 0) + 128 * (lane < 16) + 256 * (lane ^ 15)
        for lane in range(32)
    ]
    assert second.tolist() == want


def test_a_guarded_sync_touches_its_lanes_only() -> None:
    """@p shfl.sync with p's lanes as member mask: the other lanes keep their registers."""
    body = f"""
    setp.lt.u32 %p1, %t, 8; mov.u32 %r1, 77; add.u32 %r2, %t, 1000;
    @%p1 shfl.sync.bfly.b32 %r1, %r2, 7, 31, 0x000000ff;
    @%p1 bar.warp.sync 0xff;
    {store("%r1")}"""
    assert outputs(body).tolist() == [1000 + (lane ^ 7) if lane < 8 else 77 for lane in range(32)]


def test_activemask_is_the_lanes_that_run_together() -> None:
    body = f"""
    setp.lt.u32 %p1, %t, 5; @%p1 bra LOW;
    activemask.b32 %r1; bra.uni DONE;
    LOW: activemask.b32 %r1;
    DONE: {store("%r1")}"""
    assert outputs(body).tolist() == [0x1F] * 5 + [0xFFFFFFE0] * 27


@pytest.mark.parametrize("schedule", POLICIES)
def test_diverged_lanes_gather_at_a_sync(schedule: Schedule) -> None:
    """Both sides of a branch come to one warp barrier after different lengths of way."""
    body = f"""
    and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, 0;
    @%p1 bra EVEN;
    add.u32 %r3, %r3, 1; add.u32 %r3, %r3, 1; bra.uni MEET;
    EVEN: mov.u32 %r3, 7;
    MEET: bar.warp.sync {ALL};
    vote.sync.ballot.b32 %r4, %p1, {ALL};
    add.u32 %r4, %r4, %r3; {store("%r4")}"""
    assert (outputs(body, schedule=schedule) == 0x55555555 + np.where(LANES & 1, 2, 7)).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_warp_barrier_inside_diverged_code(schedule: Schedule) -> None:
    """The lanes of each side synchronise among themselves, in a loop, while the other side does likewise."""
    body = f"""
    .shared .b32 cell[32];
    mov.u32 %r10, cell; mad.lo.u32 %r11, %t, 4, %r10; xor.b32 %r12, %t, 1; mad.lo.u32 %r12, %r12, 4, %r10;
    mov.u32 %r5, 0; mov.u32 %r6, 0;
    setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;
    HIGH: st.shared.u32 [%r11], %t; bar.warp.sync 0xffff0000; ld.shared.u32 %r7, [%r12]; add.u32 %r6, %r6, %r7; bar.warp.sync 0xffff0000;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra HIGH; bra.uni DONE;
    LOW: st.shared.u32 [%r11], %t; bar.warp.sync 0x0000ffff; ld.shared.u32 %r7, [%r12]; add.u32 %r6, %r6, %r7; bar.warp.sync 0x0000ffff;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra LOW;
    DONE: {store("%r6")}"""
    assert (outputs(body, schedule=schedule) == (LANES ^ 1) * np.where(LANES < 16, 5, 3)).all()


@pytest.mark.parametrize(
    ("body", "lane"),
    [("setp.eq.u32 %p1, %t, 3;\n@%p1 bar.warp.sync 0x4;", 3), ("setp.lt.u32 %p1, %t, 3;\n@%p1 bar.warp.sync 0xff;", 0),
     ("vote.sync.ballot.b32 %r1, %p1, 0xfffffff0;", 0)],
)  # fmt: skip
def test_a_wrong_member_mask(body: str, lane: int) -> None:
    assert only(run(body), "sync-mask").machine.lane == lane


def test_a_member_that_takes_part_cleanly() -> None:
    clean(run("setp.lt.u32 %p1, %t, 3;\n@%p1 bar.warp.sync 0x7;"))


def test_shfl_from_a_lane_outside_the_mask() -> None:
    body = "setp.lt.u32 %p1, %t, 16;\n@%p1 shfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff;"
    assert only(run(body), "shfl-inactive").machine.lane == 0
    clean(run(body.replace("20,", "12,")))


def test_registers_of_different_warps_are_their_own() -> None:
    memory = Memory()
    out = memory.empty(256, np.uint32)
    clean(
        run(
            f"mov.u32 %r1, %t;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, {ALL};\n{store('%r2')}",
            [out],
            memory=memory,
            threads=256,
        )
    )
    assert (out.numpy() == np.arange(256) // 32 * 32).all()
