# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""redux, match, clocks, processor numbers, nanosleep; getctarank and isspacep."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, Schedule

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, clean, only, outputs, run, store

COVERS = "redux match nanosleep getctarank isspacep"

LANES = np.arange(32, dtype=np.uint32)
RNG = np.random.default_rng(9)
WORDS = RNG.integers(0, 1 << 32, 32, dtype=np.uint32)
LOAD = "mad.wide.u32 %rd1, %t, 4, %a1;\nld.global.u32 %r1, [%rd1];"


@pytest.mark.parametrize(
    "kind", ["and.b32", "or.b32", "xor.b32", "add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32"]
)
@pytest.mark.parametrize(
    "values",
    [WORDS, WORDS | 0xF0F0, np.full(32, 0x80000000, np.uint32), LANES - 16],
    ids=["any", "ones", "least", "about0"],
)
def test_redux_of_integers_in_two_groups(kind: str, values: np.ndarray) -> None:
    """Odd and even lanes name masks of their own in one instruction."""
    body = f"{LOAD}\nand.b32 %r3, %t, 1;\nshl.b32 %r2, 0x55555555, %r3;\nredux.sync.{kind} %r2, %r1, %r2;\n{store('%r2')}"
    name, type_ = kind.split(".")
    of = values.view(np.int32) if type_ == "s32" else values
    function = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
    }[name]
    want = np.array([function.reduce(of[lane % 2 :: 2], dtype=of.dtype) for lane in range(32)]).view(
        np.uint32
    )
    assert (outputs(body, extra=[values]) == want).all()


F = np.float32
NAN = F("nan")


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("words", ["", ".abs", ".NaN", ".abs.NaN"])
@pytest.mark.parametrize("values", [
    RNG.standard_normal(32).astype(F), np.array([0.0, -0.0] * 16, F), np.array([-0.0, 0.0] * 16, F), np.array([NAN, *range(-31, 0)], F),
    np.array([*range(1, 32), NAN], F), np.full(32, NAN, F), np.array([np.inf, -np.inf, *[1e-45, -1e-45] * 15], F),
], ids=["normal", "zeros", "zeros2", "first", "last", "nans", "extremes"])  # fmt: skip
def test_redux_of_f32(name: str, words: str, values: np.ndarray) -> None:
    body = f"{LOAD}\nmov.b32 %f1, %r1;\nredux.sync.{name}{words}.f32 %f1, %f1, -1;\nmov.b32 %r2, %f1;\n{store('%r2')}"
    kept = values[~np.isnan(values)]
    if not len(kept) or ("NaN" in words and len(kept) < 32):
        want = 0x7FFFFFFF
    else:
        if "abs" in words:
            kept = np.abs(kept)
        key = lambda v: (float(v), 0 if np.signbit(v) else 1)  # noqa: E731 - +0 is above -0
        want = int((min if name == "min" else max)(kept, key=key).view(np.uint32))
    assert (outputs(body, extra=[values]) == want).all()


def test_redux_waits_for_diverged_lanes_and_keeps_those_outside() -> None:
    """Lanes 0..15 come by another way than 16..31; lanes 30 and 31 take no part."""
    body = f"""
    mov.u32 %r2, 7; setp.lt.u32 %p1, %t, 16; @%p1 bra A; add.u32 %r1, %t, 100; bra B;
    A: add.u32 %r1, %t, 0;
    B: setp.lt.u32 %p2, %t, 30; @%p2 redux.sync.add.u32 %r2, %r1, 0x3fffffff;
    {store("%r2")}"""
    want = np.where(LANES < 30, sum(range(30)) + 14 * 100, 7)
    for schedule in POLICIES:
        assert (outputs(body, schedule=schedule) == want).all()


@pytest.mark.parametrize("line", ["redux.sync.add.u32 %r2, %t, 1;", "match.any.sync.b32 %r2, %t, 1;"])
def test_a_lane_that_its_mask_does_not_name(line: str) -> None:
    only(run(line, [Memory().empty(1, np.uint32)]), "sync-mask")


@pytest.mark.parametrize("bits", [32, 64])
def test_match(bits: int) -> None:
    """Values that differ in their upper half only, where there is one."""
    value = "and.b32 %r1, %t, 3;" + ("mov.b64 %rd1, {%r0, %r1};" if bits == 64 else "")
    source = "%rd1" if bits == 64 else "%r1"
    body = f"mov.u32 %r0, 5; {value}\nmatch.any.sync.b{bits} %r2, {source}, -1;\n{store('%r2')}"
    assert (
        outputs(body) == [sum(1 << k for k in range(32) if k % 4 == lane % 4) for lane in range(32)]
    ).all()
    agreed = f"""
    mov.u32 %r0, 5; {value}
    and.b32 %r3, %t, 4; shl.b32 %r4, 0x0f0f0f0f, %r3; setp.eq.u32 %p3, %r3, 0;
    @%p3 mov.u32 %r1, 9; @%p3 mov.b64 %rd1, 9;
    match.all.sync.b{bits} %r2|%p1, {source}, %r4;
    selp.b32 %r5, 1, 0, %p1; xor.b32 %r2, %r2, %r5;
    {store("%r2")}"""
    assert (outputs(agreed) == np.where(LANES & 4, 0, 0x0F0F0F0F ^ 1)).all()


def test_match_all_without_its_predicate_and_without_its_mask() -> None:
    assert (outputs(f"match.all.sync.b32 %r2, 4, -1;\n{store('%r2')}") == 0xFFFFFFFF).all()
    assert (
        outputs(f"match.all.sync.b32 _|%p1, %t, -1;\nselp.b32 %r2, 1, 0, %p1;\n{store('%r2')}") == 0
    ).all()


@pytest.mark.parametrize("clock", ["%clock64", "%globaltimer"])
def test_clocks_never_go_back(clock: str) -> None:
    """Two readings by one thread, and one by another warp behind a barrier."""
    body = f"""
    mov.u64 %rd1, {clock}; add.u32 %r1, %t, 1; mov.u64 %rd2, {clock}; setp.gt.u64 %p1, %rd2, %rd1;
    setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u64 [1024], %rd2;
    bar.sync 0; ld.shared.u64 %rd3, [1024]; mov.u64 %rd4, {clock}; setp.gt.and.u64 %p1, %rd4, %rd3, %p1;
    selp.b32 %r2, 1, 0, %p1;
    {store("%r2")}"""
    for schedule in POLICIES:
        assert (outputs(body, 64, threads=64, shared_bytes=64, schedule=schedule) == 1).all()


def test_a_loop_until_a_clock_ends_and_halves_agree() -> None:
    body = f"""
    mov.u32 %r1, %clock; mov.u32 %r5, %clock_hi; mov.u32 %r6, %globaltimer_hi; mov.u32 %r7, %globaltimer_lo;
    L: mov.u32 %r2, %clock; sub.u32 %r3, %r2, %r1; setp.lt.u32 %p1, %r3, 5000; @%p1 bra L;
    sub.u32 %r7, %r7, %r1; or.b32 %r5, %r5, %r6; shl.b32 %r5, %r5, 8; or.b32 %r7, %r7, %r5;
    {store("%r7")}"""
    seen = outputs(body)
    assert (seen > 0).all() and (seen < 32).all()


def test_each_resident_cta_has_a_processor() -> None:
    body = f"mov.u32 %r1, %smid; mov.u32 %r2, %nsmid; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r2, 1000, %r1;\n{CLUSTER_SYNC}\n{store('%r1', '%r3')}"
    seen = outputs(body, 8, grid=8, cluster=2, threads=1, resident=4)
    assert (seen // 1000 == 148).all() and (seen % 1000 < 8).all()
    assert (seen[1::2] % 1000 == seen[::2] % 1000 + 1).all()


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 3), Schedule("pct", 3)], ids=str)
def test_nanosleep_gives_way(schedule: Schedule) -> None:
    """Warp 0 polls with nanosleep until warp 1 has stored; both directions."""
    body = f"""
    mov.u32 %r9, 0; setp.ge.u32 %p1, %t, 32; @%p1 bra GIVE;
    L: ld.relaxed.gpu.global.u32 %r9, [%a1]; setp.ne.u32 %p2, %r9, 0; @%p2 bra DONE; nanosleep.u32 100; bra L;
    GIVE: nanosleep.u32 1000; mov.u32 %r9, 3; st.relaxed.gpu.global.u32 [%a1], %r9;
    DONE: {store("%r9")}"""
    assert (outputs(body, 64, threads=64, extra=[np.zeros(1, np.uint32)], schedule=schedule) == 3).all()


def test_nanosleep_hands_the_turn_over() -> None:
    """Two warps that both go on for ever alternate where they sleep: neither gets far ahead."""
    body = f"""
    mov.u32 %r1, 0; shr.u32 %r4, %t, 5; and.b32 %r5, %t, 31; setp.eq.u32 %p3, %r5, 0;
    L: add.u32 %r1, %r1, 1; nanosleep.u32 20; setp.lt.u32 %p1, %r1, 50; @%p1 bra L;
    mov.u64 %rd1, %clock64; cvt.u32.u64 %r2, %rd1; {store("%r2")}"""
    seen = outputs(body, 64, threads=64, schedule=Schedule("early"))
    assert abs(int(seen[0]) - int(seen[32])) < 100  # one after the other they would be 200 apart


def test_ranks_of_addresses() -> None:
    body = f"""
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u32 %r3, 1024;
    mapa.shared::cluster.u32 %r4, %r3, %r2; getctarank.shared::cluster.u32 %r5, %r4;
    cvt.u64.u32 %rd1, %r4; cvta.shared.u64 %rd1, %rd1; getctarank.u64 %r6, %rd1;
    mad.lo.u32 %r6, %r6, 16, %r5;
    {store("%r6", "%r1")}"""
    assert outputs(body, 2, threads=1, cluster=2, shared_bytes=64).tolist() == [0x11, 0]
    only(run("getctarank.u64 %r1, %a0;", [Memory().empty(1, np.uint32)], threads=1), "shared-no-such-cta")
    only(
        run("getctarank.shared::cluster.u32 %r1, 0x5000000;", [Memory().empty(1, np.uint32)], threads=1),
        "shared-no-such-cta",
    )


def test_windows_of_addresses() -> None:
    """One bit for each of .global .local .shared::cta .shared::cluster .param; .shared is ::cta."""
    tests = "\n".join(
        f"isspacep.{space} %p1, %rd1; selp.b32 %r2, {1 << k}, 0, %p1; or.b32 %r1, %r1, %r2;"
        for k, space in enumerate(
            ["global", "local", "shared::cta", "shared::cluster", "param", "shared", "param::entry"]
        )
    )
    ways = {
        "mov.b64 %rd1, %a0;": 0b0000001,
        ".local .b32 mine; mov.b64 %rd1, mine; cvta.local.u64 %rd1, %rd1;": 0b0000010,
        "mov.u64 %rd1, 1024; cvta.shared.u64 %rd1, %rd1;": 0b0101100,
        "mov.u32 %r3, 1024; mapa.shared::cluster.u32 %r3, %r3, 1; cvt.u64.u32 %rd1, %r3; cvta.shared.u64 %rd1, %rd1;": 0b0001000,
        "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1;": 0b1010001,
    }
    for way, want in ways.items():
        body = f"mov.u32 %r8, %cluster_ctarank; mov.u32 %r1, 0; {way}\n{tests}\n{store('%r1', '%r8')}"
        seen = outputs(body, 2, threads=1, cluster=2, shared_bytes=64)
        assert seen[0] == want, way


def test_shared_by_default_is_of_the_own_cta() -> None:
    clean(run("isspacep.shared %p1, %a0;", [Memory().empty(1, np.uint32)]))
