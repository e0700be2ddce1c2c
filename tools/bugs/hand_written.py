# ruff: noqa: E501 - PTX lines are kept whole
"""Cases written by hand in PTX: a body in a right and a wrong form, with its arguments and right values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.tools.bugs import text
from tileproof.tools.bugs.program import MapCase, PtxCase
from tileproof.tools.bugs.text import (
    AFTER,
    BEFORE,
    CLEAR,
    LD,
    QUARTER,
    ST,
    WAIT_LD,
    WAIT_ST,
    alloc,
    dealloc,
    init_barrier,
    wait,
)

OWN = "mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1],"
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
LONE = "setp.ne.u32 %p1, %t, 0; @%p1 exit; mov.u32 %r1, %cluster_ctarank;"


def u32(*values: int) -> Array:
    """An array of words."""
    return np.array(values, np.uint32)


def _made(
    name: str,
    rows: str,
    wrong: str,
    base: str,
    right: str,
    other: str,
    values: Sequence[float],
    codes: str,
    at: str = "",
    **how: object,
) -> PtxCase:
    return PtxCase(
        name,
        tuple(rows.split()),
        wrong,
        base,
        "PTX",
        right,
        other,
        tuple(values),
        tuple(codes.split()),
        at,
        **how,  # type: ignore[arg-type]
    )


def _early_exit() -> PtxCase:
    def body(early: str) -> str:
        return f"""setp.ge.u32 %p1, %t, 32; mov.u32 %r1, 0; ld.global.u32 %r3, [%a1]; {OWN} 7; @%p1 bra OTHER;
    LOOP: bar.sync 1, 64;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 3; @%p2 bra LOOP; bra.uni END;
    OTHER: setp.ge.u32 %p3, %r1, %r3; @%p3 bra EARLY;
    bar.sync 1, 64; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 3; @%p2 bra OTHER; bra.uni END;
    EARLY: {early}
    END:"""

    every = "bar.sync 1, 64; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 3; @%p2 bra EARLY;"
    return _made(
        "early-exit-arrives-once", "H20", "a warp that leaves its loop early arrives once for all rounds that are left",
        "named barrier of two warps, three rounds", body(every), body("bar.arrive 1, 64;"), [7] * 64, "hang", "LOOP: bar.sync 1, 64;", inputs=(u32(0),),
    )  # fmt: skip


def _retires() -> PtxCase:
    def body(meets: str) -> str:
        return f"""{LONE} setp.ne.u32 %p2, %r1, 0; mbarrier.init.shared::cta.b64 [1024], 1;
    mad.wide.u32 %rd1, %r1, 4, %a0; st.global.u32 [%rd1], 7;
    fence.mbarrier_init.release.cluster; {MEET} @%p2 bra END;
    mapa.shared::cluster.u32 %r2, 1024, 1;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    END: {meets}"""

    return _made(
        "cta-exits-under-arrival", "H23 H30", "a CTA exits without a cluster barrier while its peer may still arrive at its mbarrier",
        "remote arrival in a cluster", body(MEET), body(""), [7, 7], "access-after-exit race-exit", "mbarrier.arrive.release.cluster", threads=32, cluster=2,
    )  # fmt: skip


def _pair(name: str, rows: str, wrong: str, count: str, codes: str, at: str) -> PtxCase:
    def body(count: str) -> str:
        return f"""{LONE} mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r10, 0; mov.u32 %r11, 0;
    mad.wide.u32 %rd1, %r1, 4, %a2; ld.global.u32 %r2, [%rd1];
    xor.b32 %r4, %r1, 1; mad.wide.u32 %rd1, %r4, 4, %a2; ld.global.u32 %r3, [%rd1]; {count}
    mbarrier.init.shared::cta.b64 [1024], 2; mbarrier.init.shared::cta.b64 [1032], 1;
    fence.mbarrier_init.release.cluster; {MEET}
    mapa.shared::cluster.u32 %r5, 1024, 0; mapa.shared::cluster.u32 %r6, 1032, 1; mapa.shared::cluster.u32 %r7, 1040, 1;
    setp.ne.u32 %p2, %r1, 0;
    STEP: setp.ge.u32 %p3, %r10, %r2; @%p3 bra DONE; and.b32 %r8, %r10, 1; xor.b32 %r9, %r8, 1;
    FREE: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [1032], %r9; @!%p4 bra FREE;
    mad.lo.u32 %r12, %r1, 8, %r10; mad.wide.u32 %rd2, %r12, 4, %a1; ld.global.u32 %r13, [%rd2]; st.shared.u32 [1040], %r13;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5]; add.u32 %r10, %r10, 1; @%p2 bra STEP;
    FULL: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [1024], %r8; @!%p4 bra FULL;
    ld.shared.u32 %r14, [1040]; ld.shared::cluster.u32 %r15, [%r7]; add.u32 %r11, %r11, %r14; add.u32 %r11, %r11, %r15;
    mbarrier.arrive.shared::cta.b64 _, [1032]; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; bra STEP;
    DONE: @!%p2 st.global.u32 [%a0], %r11; {MEET}"""

    steps = u32(3, 5)
    values = 10 ** np.arange(8, dtype=np.uint32).reshape(1, 8) * np.array([[1], [2]], np.uint32)
    values = (values * (np.arange(8) < steps[:, None])).astype(np.uint32)
    return _made(
        name, rows, wrong, "a CTA pair that sums tiles of both", body("max.u32 %r2, %r2, %r3;"), body(count),
        [int(values.sum())], codes, at, begins=u32(0), inputs=(values, steps), threads=32, cluster=2,
    )  # fmt: skip


def _freed_while_read() -> PtxCase:
    def body(waits: str) -> str:
        return f"""{init_barrier(1024)} @%p0 mbarrier.init.shared::cta.b64 [1032], 128; bar.sync 0;
        {alloc(32)} {QUARTER} {CLEAR} add.u32 %r70, %t, 5; {ST} {WAIT_ST} {LD} {WAIT_LD} {OWN} %r60;
        {BEFORE} mbarrier.arrive.shared::cta.b64 _, [1032]; shr.u32 %r2, %t, 5; setp.ne.u32 %p3, %r2, 0; @%p3 exit;
        {waits} {AFTER}
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"""

    return _made(
        "tmem-freed-while-read", "H33", "the warp that owns tensor memory frees it without waiting for the warps that read it",
        "four warps read tensor memory", body(wait(1032)), body(""), [n + 5 for n in range(128)], "race-unordered race-tmem-released tmem-not-allocated",
        "tcgen05.dealloc", threads=128,
    )  # fmt: skip


def _never_allocated() -> PtxCase:
    access = f"{CLEAR}\n{ST}\n{WAIT_ST} {LD} {WAIT_LD} {OWN} %r60;"
    return _made(
        "tmem-never-allocated", "H36", "tensor memory is used at address 0 without tcgen05.alloc", "a round trip through tensor memory",
        f"{alloc(32)} {QUARTER} {access} {dealloc(32)}", f"mov.u32 %r100, 0; mov.u32 %r101, 0; shr.u32 %r101, %t, 5; {QUARTER} {access}",
        [0] * 128, "tmem-not-allocated", "tcgen05.st", threads=128,
    )  # fmt: skip


def _staging_reused() -> PtxCase:
    def body(reads: str) -> str:
        tiles = "".join(
            f"""add.u32 %r2, %t, {100 * tile};
            st.shared.u32 [%r1], %r2;
            fence.proxy.async; bar.sync 0; @!%p0 bra.uni NEXT{tile};
            add.u64 %rd2, %a0, {256 * tile}; cp.async.bulk.global.shared::cta.bulk_group [%rd2], [2048], 256; cp.async.bulk.commit_group; {reads}
            NEXT{tile}: bar.sync 0;"""
            for tile in range(3)
        )
        return (
            f"setp.eq.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 4, 2048; {tiles} @%p0 cp.async.bulk.wait_group 0;"
        )

    values = np.concatenate([100 * tile + np.arange(64) for tile in range(3)])
    return _made(
        "staging-reused", "R31", "the staging tile is filled again while the bulk store of the tile before may still read it",
        "three tiles through a staging buffer", body("cp.async.bulk.wait_group.read 0;"), body(""), values.tolist(),
        "race-copy-unwaited", "st.shared.u32", missing="its bulk group",
    )  # fmt: skip


def _barrier_left_out() -> PtxCase:
    def body(gone: int) -> str:
        steps = ("st.shared.u32 [%r1], %r2;", "ld.shared.u32 %r3, [%r4]; add.u32 %r2, %r2, %r3;") * 4
        lines = [line + ("" if at == gone else " bar.sync 0;") for at, line in enumerate(steps)]
        start = "mad.lo.u32 %r1, %t, 4, 2048; xor.b32 %r5, %t, 63; mad.lo.u32 %r4, %r5, 4, 2048; mov.u32 %r2, %t;\n"
        return start + "\n".join(lines) + f"\n{OWN} %r2;"

    return _made(
        "barrier-left-out", "R32", "a barrier between exchanges through shared memory is left out", "four exchanges of a row",
        body(-1), body(3), [8 * 63] * 64, "race-unordered", "st.shared.u32",
    )  # fmt: skip


def _bulk_zeros() -> PtxCase:
    def body(sync: str) -> str:
        return f"""mad.lo.u32 %r1, %t, 4, 2048; add.u32 %r2, %t, 1; st.shared.u32 [%r1], %r2; bar.sync 0;
        setp.ne.u32 %p1, %t, 0; @%p1 bra.uni ALL;
        mov.u32 %r6, 2048; st.bulk.weak.shared::cta [%r6], 128, 0;
        ALL: {sync} ld.shared.u32 %r3, [%r1]; {OWN} %r3;"""

    return _made(
        "bulk-zeros-unordered", "R33", "shared memory that one thread clears by st.bulk is read without a barrier", "a tile cleared by st.bulk",
        body("bar.sync 0;"), body(""), [0] * 32 + list(range(33, 65)), "race-unordered", "st.bulk",
    )  # fmt: skip


def _round_trip() -> PtxCase:
    def body(sync: str) -> str:
        stores = "".join(
            f"xor.b32 %r4, %r2, {chunk}; mad.lo.u32 %r4, %r4, 4, %r3; add.u32 %r5, %r6, {chunk};\nst.shared.u32 [%r4], %r5;\n"
            for chunk in range(8)
        )
        return f"""and.b32 %r2, %t, 7; mad.lo.u32 %r3, %t, 32, 2048; shl.b32 %r6, %t, 3; {stores} {sync}
        shr.u32 %r7, %t, 3; and.b32 %r8, %t, 7; xor.b32 %r9, %r7, %r8; mad.lo.u32 %r10, %r8, 32, 2048; mad.lo.u32 %r10, %r9, 4, %r10;
        ld.shared.u32 %r11, [%r10]; {OWN} %r11;"""

    return _made(
        "round-trip-without-barrier", "R34", "a tile is transposed through shared memory without a barrier", "a swizzled round trip",
        body("bar.sync 0;"), body(""), np.arange(64).reshape(8, 8).T.ravel().tolist(), "race-unordered", "ld.shared.u32 %r11",
    )  # fmt: skip


def _neighbours_row() -> PtxCase:
    def body(shift: int) -> str:
        return f"""mov.u32 %r1, %ctaid.x; add.u32 %r2, %r1, {shift}; and.b32 %r2, %r2, 1; mad.lo.u32 %r3, %r2, 64, %t;
        mad.wide.u32 %rd1, %r3, 4, %a0;
        ld.global.u32 %r4, [%rd1];
        add.u32 %r4, %r4, 1; mad.lo.u32 %r5, %r1, 64, %t; mad.wide.u32 %rd2, %r5, 4, %a0; st.global.u32 [%rd2], %r4;"""

    return _made(
        "reads-neighbours-row", "R35", "a block reads the row that its neighbour changes in place", "two blocks, a row each",
        body(0), body(1), [11] * 64 + [21] * 64, "race-clusters", "ld.global.u32", begins=np.repeat(u32(10, 20), 64), grid=2,
    )  # fmt: skip


def _cleared_too_little() -> PtxCase:
    def body(cleared: int) -> str:
        return f"""mad.wide.u32 %rd1, %t, 4, %a0; setp.lt.u32 %p1, %t, {cleared}; @%p1 st.global.f32 [%rd1], 0f00000000;
        red.global.add.f32 [%rd1], 0f3F800000;"""

    return _made(
        "less-cleared-than-added", "N27", "fewer elements are cleared than the kernel adds to", "clear, then add",
        body(64), body(61), [1.0] * 64, "global-uninitialised", "red.global.add",
    )  # fmt: skip


def _stored_over_s() -> PtxCase:
    def body(released: str) -> str:
        return f"""{alloc(32)} {QUARTER} {CLEAR} add.u32 %r70, %t, 5; setp.lt.u32 %p6, %t, 128;
        @!%p6 bra.uni MEET; {ST} {WAIT_ST}
        {LD}
        {released}
        MEET: {BEFORE} bar.sync 0; {AFTER} @%p6 bra.uni REST;
        {ST}
        {WAIT_ST} bra.uni END;
        REST: {WAIT_LD} {OWN} %r60;
        END: {BEFORE} {dealloc(32)}"""

    return _made(
        "p-stored-over-s", "H31 R20", "the columns of S are released without tcgen05.wait::ld, and another warp stores P over them",
        "S loaded by one warpgroup, P stored over it by another", body(WAIT_LD), body(""), [n + 5 for n in range(128)],
        "race-tmem-unwaited", "tcgen05.ld", missing="tcgen05.wait::ld", threads=256,
    )  # fmt: skip


def _aliases_upper_half() -> PtxCase:
    def body(column: int) -> str:
        return f"""{alloc(32)} {QUARTER} {CLEAR} shr.u32 %r2, %t, 7; mad.lo.u32 %r51, %r2, 8, %r51; add.u32 %r70, %t, 5;
        {ST} {WAIT_ST} {BEFORE} bar.sync 0; {AFTER}
        {LD}
        {WAIT_LD} {OWN} %r60; setp.ge.u32 %p6, %t, 128; @%p6 bra.uni MEET; add.u32 %r51, %r51, {column};
        {ST}
        {WAIT_ST}
        MEET: {BEFORE} {dealloc(32)}"""

    return _made(
        "p-over-upper-half-of-s", "H32", "P is stored to the columns of the upper half of S, which another warpgroup still reads",
        "S in two halves, P beside it", body(16), body(8), [n + 5 for n in range(256)], "race-unordered", "tcgen05.st",
        threads=256, cluster=2,
    )  # fmt: skip


def _phase_of_the_tile() -> PtxCase:
    barriers = " ".join(
        f"@%p0 mbarrier.init.shared::cta.b64 [{1024 + 8 * n}], 32;" for n in range(4)
    )  # full 0 1, empty 0 1

    def body(round_: str) -> str:
        walk = "and.b32 %r2, %r1, 1; mad.lo.u32 %r4, %r2, 8, 1024; and.b32 %r5, %t, 31; mad.lo.u32 %r6, %r2, 128, 2048; mad.lo.u32 %r6, %r5, 4, %r6;"
        return f"""{text.ELECT} {barriers} bar.sync 0; mov.u32 %r1, 0; mov.u32 %r7, 0; setp.ge.u32 %p1, %t, 32; @%p1 bra.uni PRODUCE;
        CONSUME: {walk} shr.u32 %r3, %r1, 1; and.b32 %r3, %r3, 1;
        {wait("%r4", "%r3")}
        ld.shared.u32 %r8, [%r6]; add.u32 %r7, %r7, %r8; mbarrier.arrive.shared::cta.b64 _, [%r4+16];
        add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 6; @%p2 bra.uni CONSUME; {OWN} %r7; exit;
        PRODUCE: {walk} {round_} xor.b32 %r3, %r3, 1; and.b32 %r3, %r3, 1; add.u32 %r9, %r4, 16;
        PRODUCER:
        mbarrier.try_wait.parity.shared::cta.b64 %p15, [%r9], %r3; // producer
        @!%p15 bra PRODUCER;
        mad.lo.u32 %r8, %r1, 100, %r5; st.shared.u32 [%r6], %r8; mbarrier.arrive.shared::cta.b64 _, [%r4];
        add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 6; @%p2 bra.uni PRODUCE;"""

    return _made(
        "phase-of-the-tile", "H34 H22", "the producer waits for the phase of the tile's number, not of the ring's round",
        "a ring of two stages", body("shr.u32 %r3, %r1, 1;"), body("mov.u32 %r3, %r1;"), [1500 + 6 * n for n in range(32)], "hang", "// producer",
    )  # fmt: skip


def _past_the_last_block() -> PtxCase:
    body = f"""{init_barrier(1024)} @!%p0 bra.uni WAIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], 256;
        cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a1, {{0}}], [1024];
        WAIT: {wait(1024)} mad.lo.u32 %r1, %t, 4, 2048; ld.shared.u32 %r2, [%r1]; {OWN} %r2;"""
    return MapCase(
        "map-past-the-last-block", ("N29",), "the tensor map covers whole blocks: the last block's copy brings rows of the next sequence",
        "a TMA copy of a partial block", "PTX", body, body, (*np.arange(1.0, 41.0).tolist(), *[0.0] * 24), ("value",), "a0[40]",
        inputs=(np.arange(1, 65, dtype=np.float32),), extents=(40, 64),
    )  # fmt: skip


@cache
def cases() -> tuple[PtxCase, ...]:
    """All cases that are written by hand in PTX."""
    first = "setp.ne.u32 %p5, %r1, 0; @%p5 mov.u32 %r2, %r3;"
    return (
        _early_exit(),
        _retires(),
        _pair("pair-with-own-counts", "H25", "the CTAs of a pair walk as many tiles as each has, though they share every tile", "", "hang", "mbarrier.try_wait"),
        _pair("pair-with-count-of-first", "N31", "both CTAs of a pair take the tile count of the first", first, "value", "a0[0]"),
        _freed_while_read(),
        _never_allocated(),
        _staging_reused(),
        _barrier_left_out(),
        _bulk_zeros(),
        _round_trip(),
        _neighbours_row(),
        _cleared_too_little(),
        _stored_over_s(),
        _aliases_upper_half(),
        _phase_of_the_tile(),
        _past_the_last_block(),
    )  # fmt: skip
