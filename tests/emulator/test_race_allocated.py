# ruff: noqa: E501 - PTX lines are kept whole
"""An access of tensor memory comes after the alloc of its columns in every schedule, not in this one alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine.descriptors import SmemDescriptor

from tests.kit.mma import Form
from tests.kit.ptx import (
    CLUSTER_SYNC,
    POLICIES,
    Memory,
    alloc,
    clean,
    codes,
    dealloc,
    init_barrier,
    run,
    wait,
)

COVERS = "tcgen05.alloc tcgen05.relinquish_alloc_permit tcgen05.st tcgen05.ld tcgen05.cp tcgen05.mma"

FORM = Form(128, 64)

PCT = [Schedule.parse(f"pct:seed={seed}:depth=3:points=60") for seed in range(12)]
RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
# Warp 0 allocates; warp 4, which reaches the lanes of warp 0, knows that all columns begin at 0.
OWN = """
shr.u32 %r101, %t, 5; setp.eq.u32 %p14, %r101, 0; setp.eq.u32 %p13, %r101, 4; mov.u32 %r100, 0;
@%p14 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 512;
MEET
@!%p13 bra NEXT;
USE
NEXT:
bar.sync 0;
@%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 512;
"""
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r100], {%t};\ntcgen05.wait::st.sync.aligned;"
BOTH = f"{STORE}\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r60}}, [%r100];\ntcgen05.wait::ld.sync.aligned;"


def own(meet: str, use: str = STORE, **how: Any) -> RunResult:
    body = OWN.replace("MEET", meet).replace("USE", use)
    return run(body, threads=160, shared_bytes=2048, races=True, **how)


@pytest.mark.parametrize("use", [STORE, BOTH], ids=["store", "store and load"])
def test_a_warp_that_does_not_wait_for_the_alloc(use: str) -> None:
    """Found in each run: before the alloc as an access that stops, after it as an access in no order."""
    found = [codes(own("", use, schedule=schedule)) for schedule in POLICIES + PCT]
    assert found[0] == {"race-tmem-allocated"}
    assert {"tmem-not-allocated"} in found
    assert all(each in ({"race-tmem-allocated"}, {"tmem-not-allocated"}) for each in found)
    finding = own("", use).findings[0]
    assert "whose tcgen05.alloc" in finding.message and "by warp 0" in finding.message
    assert not own("", use).certified


@pytest.mark.parametrize("use", [STORE, BOTH], ids=["store", "store and load"])
@pytest.mark.parametrize("meet", ["bar.sync 0;", "bar.sync 1, 160;"])
def test_a_warp_that_waits_for_the_alloc(meet: str, use: str) -> None:
    for schedule in POLICIES + PCT:
        assert clean(own(meet, use, schedule=schedule)).certified


def test_columns_that_are_allocated_again() -> None:
    """A warp that knows the first alloc does not know the second; before the dealloc it is in its way."""
    again = """bar.sync 0;
    @%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 512;
    @%p14 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 512;"""
    found = [own(again, schedule=schedule) for schedule in POLICIES + PCT]
    assert all(each.errors and not each.certified for each in found)
    assert {"race-tmem-allocated"} in map(codes, found)
    assert clean(own(f"{again}\nbar.sync 0;")).certified


def pair(made: str, **how: Any) -> tuple[RunResult, np.ndarray]:
    """CTA 0 copies to tensor memory of both CTAs, `made` after its own part of the allocation."""
    memory = Memory()
    out = memory.buffer(np.zeros(64, np.uint32))
    descriptor = SmemDescriptor(2048, 16, 128, "none").encode()
    body = f"""
    mov.u32 %r90, %cluster_ctarank; {init_barrier(1024)}
    shl.b32 %r1, %r90, 24; mad.lo.u32 %r1, %t, 16, %r1; mad.lo.u32 %r2, %r90, 100, %t; st.shared.v4.u32 [%r1+2048], {{%r2, %r2, %r2, %r2}};
    fence.proxy.async; {CLUSTER_SYNC} {alloc(32, group=2)} {made}
    setp.eq.u32 %p2, %r90, 0; and.pred %p2, %p2, %p0; @!%p2 bra ISSUED;
    mov.b16 %h1, 3; tcgen05.fence::after_thread_sync;
    tcgen05.cp.cta_group::2.32x128b.warpx4 [%r100], {descriptor};
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [1024], %h1;
    ISSUED: {wait(1024)}
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r60}}, [%r100]; tcgen05.wait::ld.sync.aligned;
    mad.lo.u32 %r3, %r90, 32, %t; mad.wide.u32 %rd1, %r3, 4, %a0; st.global.u32 [%rd1], %r60;
    tcgen05.fence::before_thread_sync; {CLUSTER_SYNC} {dealloc(32, group=2)}"""
    result = run(body, [out], memory=memory, cluster=2, shared_bytes=4096, races=True, **how)
    return result, out.numpy()


WANTED = np.concatenate([np.arange(32), 100 + np.arange(32)])


@pytest.mark.parametrize("made", [CLUSTER_SYNC, RELAXED])
def test_a_pair_that_meets_after_both_parts(made: str) -> None:
    for schedule in POLICIES + PCT:
        result, out = pair(made, schedule=schedule)
        assert clean(result).certified
        np.testing.assert_array_equal(out, WANTED)
        assert not pair(made, schedule=schedule, strict=True)[0].errors


def test_the_part_of_the_other_cta_is_asked_for_by_the_letter() -> None:
    """As in CUTLASS's kernels for pairs: no finding, and no certificate; an error with `strict`."""
    strict = set()
    for schedule in POLICIES + PCT:
        result, out = pair("", schedule=schedule)
        assert result.certificate is not None and not result.certified
        assert any("part of the allocation" in doubt.text for doubt in result.certificate.doubts)
        np.testing.assert_array_equal(out, WANTED)
        clean(result)
        found = {finding.code for finding in pair("", schedule=schedule, strict=True)[0].errors}
        assert found & {"pair-not-allocated", "tmem-not-allocated"}
        strict |= found
    assert "tmem-not-allocated" in strict  # so that the copy came first in one of these schedules


PERMIT = """
shr.u32 %r101, %t, 5; setp.eq.u32 %p14, %r101, 0;
@%p14 bra FIRST;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 512;
bar.sync 0;
ld.shared.u32 %r100, [1088];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 512;
bra END;
FIRST: RELINQUISH
END:
"""


def permit(relinquish: str, schedule: Schedule) -> RunResult:
    word = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
    body = PERMIT.replace("RELINQUISH", relinquish.replace("GIVE", word))
    return run(body, threads=64, shared_bytes=2048, races=True, schedule=schedule)


def test_a_permit_that_is_given_up_in_no_order_with_an_alloc() -> None:
    found = [permit("GIVE\nbar.sync 0;", schedule) for schedule in POLICIES + PCT]
    assert {frozenset(codes(each)) for each in found} == {frozenset(), frozenset({"tmem-alloc"})}
    assert not any(each.certified for each in found)
    for schedule in POLICIES + PCT:
        assert clean(permit("bar.sync 0;\nGIVE", schedule)).certified


def products(first: str, second: str, between: str, schedule: Schedule) -> RunResult:
    """Warp 0 and warp 1 multiply the same matrices into columns of their own."""
    a, b = (SmemDescriptor(2048 + at, 2048, 128, "none").encode() for at in (0, 4096))
    product = "tcgen05.mma.cta_group::1.kind::f16{} [%r102], {}, {}, %r103, %p3;\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{}];"
    body = f"""
    {init_barrier(1024)} @%p0 mbarrier.init.shared.b64 [1032], 1; mov.u32 %r1, 0; mov.u32 %r2, 2048;
    ZERO: mad.lo.u32 %r3, %t, 16, %r2; st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}}; add.u32 %r2, %r2, 1024;
    setp.lt.u32 %p1, %r2, 10240; @%p1 bra ZERO;
    fence.proxy.async; {alloc(512)} bar.sync 0; tcgen05.fence::after_thread_sync;
    mov.u32 %r103, {FORM.idesc}; setp.ne.u32 %p3, %t, %t; mov.u32 %r102, %r100;
    mov.u64 %rd5, {a}; mov.u64 %rd6, {b};
    setp.eq.u32 %p4, %t, 32;
    @!%p0 bra SECOND; {product.format(first, "%rd5", "%rd6", 1024)}
    SECOND: {between}
    @!%p4 bra ISSUED; add.u32 %r102, %r100, 64; {product.format(second, "%rd5", "%rd6", 1032)}
    ISSUED: {wait(1024)} {wait(1032)}
    {dealloc(512)}"""
    return run(body, threads=64, shared_bytes=16384, races=True, schedule=schedule)


FILL, USE = ".collector::a::fill", ".collector::a::lastuse"


def test_a_collector_buffer_that_two_warps_share() -> None:
    """Without an order, the second may read the buffer before the first fills it: `mma-collector`."""
    found = [products(FILL, USE, "", schedule) for schedule in POLICIES + PCT]
    assert {"mma-collector"} in map(codes, found) and set() in map(codes, found)
    assert not any(each.certified for each in found)
    for schedule in POLICIES + PCT:
        assert clean(products(FILL, USE, "bar.sync 0;", schedule)).certified
        assert clean(products("", "", "", schedule)).certified  # neither keeps the matrix
