# ruff: noqa: E501 - PTX lines are kept whole
"""State of a CTA, warp or barrier that an instruction changes and another reads: where no order fixes it, no run
is certified. Programs of an adversary, each of which was certified in a schedule that another contradicted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Module, RunResult, Schedule, TensorMap
from tileproof.spec.machine.descriptors import SmemDescriptor

from tests.kit.mma import Form
from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, alloc, dealloc, init_barrier, kernel_text, run, wait

COVERS = "tcgen05.mma barrier.cluster.arrive barrier.cluster.wait mbarrier.expect_tx cp.async.bulk"

SCHEDULES = (
    POLICIES
    + [Schedule("late-newest"), *(Schedule("random", seed) for seed in range(3, 15))]
    + [Schedule.parse(f"pct:seed={seed}:depth=3:points=60") for seed in range(12)]
)
WARPS = "shr.u32 %r101, %t, 5; setp.eq.u32 %p2, %r101, 1; setp.eq.u32 %p4, %t, 32; setp.eq.u32 %p0, %t, 0;"
MEET, SPLIT = "barrier.cluster.arrive; barrier.cluster.wait;", "barrier.cluster.arrive.aligned;"
FORM = Form(128, 64)


def same(value: str, first: str, between: str = "") -> str:
    """Warp 0 runs `first`, warp 1 stores `value` to the same word."""
    return f"{WARPS} mov.u32 %r1, 1; mov.u32 %r2, 2; @%p2 bra B; {first} {between} bra E; B: {between} @%p4 st.global.u32 [%a0], {value}; E:"


READ = "@%p0 ld.global.u32 %r3, [%a0]; @%p0 st.global.u32 [%a0], %r2; @%p0 st.global.u32 [%a0+4], %r3;"
WRITES = "@%p0 st.global.u32 [%a0], %r1; @%p0 st.global.u32 [%a0], %r2;"
CTAS = "mov.u32 %r90, %ctaid.x; mad.lo.u32 %r4, %r90, 32, %t; mad.wide.u32 %rd1, %r4, 4, %a0;"
OUT = "mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r9;"
LANES = f"""mov.u32 %r1, 0x3; setp.gt.u32 %p1, %t, 1; @%p1 mov.u32 %r1, 0xc; mov.u32 %r9, 0; setp.eq.u32 %p9, %t, 77;
setp.eq.u32 %p0, %t, %t; mad.lo.u32 %r5, %t, 4, 1280; setp.gt.u32 %p4, %t, 3; @%p4 bra X; setp.eq.u32 %p5, %t, 1; @%p5 bra Y;
setp.eq.u32 %p6, %t, 2; @%p6 bra Z; setp.eq.u32 %p7, %t, 3; @%p7 bra V; st.shared.u32 [%r5], %t; @%p9 bra X; bra L;
V: st.shared.u32 [%r5], %t; @%p9 bra X; bra L; Z: st.shared.u32 [%r5], %t; @%p9 bra X; bra L; Y: st.shared.u32 [%r5], %t; @%p9 bra X;
L: vote.sync.ballot.b32 %r9, %p0, %r1; {OUT} X:"""


def announced(size: int) -> str:
    """Both warps announce and deliver `size` bytes in a phase."""
    return f"""{init_barrier(1024, 2)} and.b32 %r1, %t, 31; setp.ne.u32 %p4, %r1, 0; @%p4 bra E;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [1024], {size};
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [1024], {size};
    mbarrier.arrive.shared::cta.b64 %rd1, [1024]; E: {wait(1024)}"""


def copied(end: str) -> str:
    """CTA 0 copies 16 bytes of its shared memory to CTA 1, which waits for them; then `end`."""
    return f"""{init_barrier(1024)} {WARPS} mov.u32 %r90, %cluster_ctarank; setp.eq.u32 %p5, %r90, 0; fence.mbarrier_init.release.cluster;
    mov.u32 %r91, 0x1000400; mov.u32 %r1, 0; @%p5 bra S;
    @%p0 st.shared.v4.u32 [%r91+256], {{%r1, %r1, %r1, %r1}}; fence.proxy.async;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%r91], 16; {CLUSTER_SYNC}
    RW: mbarrier.try_wait.parity.shared::cta.b64 %p15, [%r91], 0; @!%p15 bra RW; {end} exit;
    S: mov.u32 %r1, 7; @%p0 st.shared.v4.u32 [1280], {{%r1, %r1, %r1, %r1}}; fence.proxy.async; {CLUSTER_SYNC}
    mov.u32 %r2, 0x1000500; mov.u32 %r3, 0x1000400;
    @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [1280], 16, [%r3]; {end} exit;"""


def product(usage: str, d: str = "%r100", barrier: int = 1024) -> str:
    a, b = (SmemDescriptor(2048 + at, 2048, 128, "none").encode() for at in (0, 4096))
    return f"""mov.u64 %rd5, {a}; mov.u64 %rd6, {b};
    tcgen05.mma.cta_group::1.kind::f16{usage} [{d}], %rd5, %rd6, %r103, %p3;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{barrier}];"""


def products(body: str) -> str:
    return f"""{init_barrier(1024)} @%p0 mbarrier.init.shared.b64 [1032], 1; mov.u32 %r1, 0; mov.u32 %r2, 2048;
    ZERO: mad.lo.u32 %r3, %t, 16, %r2; st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}}; add.u32 %r2, %r2, 1024;
    setp.lt.u32 %p1, %r2, 10240; @%p1 bra ZERO; fence.proxy.async; {alloc(512)} bar.sync 0; tcgen05.fence::after_thread_sync;
    mov.u32 %r103, {FORM.idesc}; setp.ne.u32 %p3, %t, %t; add.u32 %r102, %r100, 64;
    {body} {dealloc(512)}"""


FILL, USE = ".collector::a::fill", ".collector::a::lastuse"
TWO_LANES = f"setp.eq.u32 %p9, %t, 1; @%p0 bra F; @!%p9 bra I; {product(USE, '%r102', 1032)} bra I; F: {product(FILL)} I: {wait(1024)} {wait(1032)}"
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [1024];"
UNUSED = f"{WARPS} @%p2 bra B; @%p0 ld.global.u32 %r1, [%a0]; MEET exit; B: MEET mov.u32 %r2, 3; @%p4 st.global.u32 [%a0], %r2; @%p4 ld.relaxed.gpu.global.u32 %r3, [%a0+64]; @%p4 st.relaxed.gpu.global.u32 [%a0+128], %r2;"

# The program, how it is launched, and a program with an order, which is certified.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a store of the value that hides a read": (same("%r2", READ), {"threads": 64}, same("%r1", "", "bar.sync 0;")),
    "a store of the value that hides a store": (same("%r2", WRITES), {"threads": 64}, same("%r2", WRITES).replace("B:", "B: bar.sync 1, 64;").replace(" bra E;", " bar.sync 1, 64; bra E;")),
    "an addition that leaves what is stored": (same("%r1", "@%p0 red.global.add.u32 [%a0], 1;"), {"threads": 64}, ""),
    "two arrivals at the cluster barrier for a wait": (f"{WARPS} @%p2 bra B; {SPLIT} barrier.cluster.wait.aligned; {SPLIT} barrier.cluster.wait.aligned; bra E; B: {SPLIT} {SPLIT} barrier.cluster.wait.aligned; E:", {"threads": 64}, f"{WARPS} {SPLIT} barrier.cluster.wait.aligned; {SPLIT} barrier.cluster.wait.aligned;"),
    "more bytes than a phase counts": (announced(600_000), {"threads": 64, "shared_bytes": 2048}, announced(500_000)),
    "a source that exits before its copy": (copied(""), {"cluster": 2, "shared_bytes": 4096}, copied(CLUSTER_SYNC)),
    "a product whose lanes are all masked": (products("@!%p0 bra I; mov.u32 %r1, 0xffffffff; " + product("").replace("%r103, %p3", "%r103, {%r1, %r1, %r1, %r1}, %p3") + f" I: {wait(1024)}"), {"threads": 64, "shared_bytes": 16384}, products(f"@!%p0 bra I; {product('')} I: {wait(1024)}")),
    "a collector buffer that two lanes share": (products(TWO_LANES), {"threads": 64, "shared_bytes": 16384}, products(TWO_LANES.replace(USE, "").replace(FILL, ""))),
    "a commit that nothing waits for": (f"{init_barrier(1024)} {COMMIT}", {"shared_bytes": 2048}, f"{init_barrier(1024)} fence.mbarrier_init.release.cluster; bar.sync 0; {COMMIT} {wait(1024)}"),
    "a read whose result is unused": (UNUSED.replace("MEET", ""), {"threads": 64}, UNUSED.replace("MEET", "bar.sync 1, 64;")),
}  # fmt: skip
# Programs that are right in every schedule, and were not everywhere.
RIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    "lanes of two groups at the cluster barrier": (f"setp.lt.u32 %p1, %t, 16; @%p1 bra B; {MEET} {MEET} exit; B: {MEET} {MEET}", {}),
    "two groups of lanes at a vote": (LANES, {"shared_bytes": 2048}),
    "a register that is read before it is written": (f"{CTAS} mov.u32 %r1, %r50; add.u32 %r50, %r90, 7; st.global.u32 [%rd1], %r1;", {"grid": 2}),
    "a local word that is read before it is written": (f".local .align 4 .b8 lm[16]; {CTAS} ld.local.u32 %r1, [lm]; add.u32 %r2, %r90, 7; st.local.u32 [lm], %r2; st.global.u32 [%rd1], %r1;", {"grid": 2}),
    "a collector buffer of the CTA before": (products(f"mov.u32 %r90, %ctaid.x; setp.eq.u32 %p7, %r90, 0; @!%p0 bra I; @%p7 bra F; {product(USE)} bra I; F: {product(FILL)} I: {wait(1024)}"), {"threads": 64, "shared_bytes": 16384, "grid": 2}),
}  # fmt: skip


def outcomes(body: str, how: dict[str, Any]) -> list[tuple[RunResult, tuple[frozenset[str], bytes]]]:
    found = []
    for schedule in SCHEDULES:
        memory = Memory()
        out = memory.buffer(np.zeros(64, np.uint32))
        result = run(body, [out], memory=memory, races=True, schedule=schedule, **how)
        found.append((result, (frozenset(each.code for each in result.findings), out.numpy().tobytes())))
    return found


@pytest.mark.parametrize("name", CASES)
def test_an_order_that_nothing_fixes(name: str) -> None:
    body, how, right = CASES[name]
    assert not any(result.certified for result, _ in outcomes(body, how))
    if right:
        assert all(result.certified for result, _ in outcomes(right, how)), run(right, [Memory().buffer(np.zeros(64, np.uint32))], races=True, **how).certificate  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_the_same_in_every_schedule(name: str) -> None:
    found = outcomes(*RIGHT[name])
    assert len({outcome for _, outcome in found}) == 1
    assert not found[0][0].errors and all(result.certified for result, _ in found)


def test_the_smaller_of_two_types() -> None:
    """Bulk reductions by maps of u32 and s32: the last decides."""
    reduce = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.{}.bulk_group [%a{}, {{%r3}}], [{}];"
    body = f"""{WARPS} @!%p0 exit; mov.u32 %r1, 5; mov.u32 %r2, 0x80000001; mov.u32 %r3, 0;
    st.shared.v4.u32 [1152], {{%r1, %r1, %r1, %r1}}; st.shared.v4.u32 [1280], {{%r2, %r2, %r2, %r2}}; fence.proxy.async;
    {reduce.format("min", 1, 1152)} {reduce.format("min", 2, 1280)} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    seen = set()
    for schedule in SCHEDULES:
        memory = Memory()
        out = memory.buffer(np.full(64, 9, np.uint32))
        maps = [
            TensorMap.tiled(out, shape=[64], strides=[], box=[4], dtype=dtype)
            for dtype in (np.uint32, np.int32)
        ]
        result = run(body, [out, *maps], memory=memory, races=True, schedule=schedule, shared_bytes=2048)
        assert not result.certified
        seen.add(int(out.numpy()[0]))
    assert seen == {5, 0x80000001}


FUNCTION = """.func (.param .b32 out) f() { .reg .b32 %r<2>; mov.u32 %r1, %smid; st.param.b32 [out], %r1; ret; }
"""
CALL = "{ .param .b32 got; call (got), f, (); ld.param.b32 %r3, [got]; } setp.eq.u32 %p0, %t, 0; mov.u32 %r90, %ctaid.x; mad.wide.u32 %rd5, %r90, 4, %a0; @%p0 st.global.u32 [%rd5], %r3;"


def test_the_place_of_a_thread_is_read_in_a_function() -> None:
    """Another entry of the module may read it."""
    other = ".visible .entry other() { .reg .b32 %r<2>; mov.u32 %r1, %smid; ret; }\n"
    places = {"%smid": False, "%laneid": True}
    for place, certified in places.items():
        module = Module.from_ptx(kernel_text(CALL, [False], FUNCTION.replace("%smid", place)) + other)
        memory = Memory()
        out = memory.buffer(np.zeros(64, np.uint32))
        result = module.launch("k", grid=(2, 1, 1), block=(32, 1, 1), args=[out], memory=memory, races=True)
        assert result.certified is certified, result.certificate
