# ruff: noqa: E501 - PTX lines are kept whole
"""Multicast with several receivers: gather4 that brings each CTA its peer's rows too, and NVIDIA's multicast product
(tutorial 03, 4 x 4 CTAs), whose copies and commits go astray."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tileproof.emulator import Finding, RunResult, Schedule, TensorMap
from tileproof.kernels.tutorials import plan_of

from tests.kit import tutorials
from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, init_barrier, run, wait

FULL, TILE = 1024, 2048  # shared addresses of the mbarrier and of the tile: 8 rows of 64 bytes
BYTES = 8 * 64


def gathered(mask: str, schedule: Schedule, bytes_: int = BYTES) -> tuple[RunResult, np.ndarray]:
    """Each CTA of a pair gathers four rows and sends them to the CTAs of `mask`; both read all eight."""
    memory = Memory()
    table = np.random.default_rng(3).integers(0, 2**32, (10, 16), dtype=np.uint32)
    m = TensorMap.tiled(memory.buffer(table), shape=(16, 10), strides=(64,), box=(16, 1))
    out = memory.empty((2, 8, 16), np.uint32)
    body = f"""
    mov.u32 %r20, %cluster_ctarank; {init_barrier(FULL)} fence.mbarrier_init.release.cluster;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], {bytes_}; {CLUSTER_SYNC}
    mad.lo.u32 %r21, %r20, 256, {TILE}; add.u32 %r21, %r21, %own; shl.b32 %r22, %r20, 2; add.u32 %r23, %r22, 1; add.u32 %r24, %r22, 2; add.u32 %r25, %r22, 3;
    {mask}
    @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster [%r21], [%a1, {{0, %r25, %r22, %r24, %r23}}], [{FULL}], %h1;
    {wait(FULL)}
    mad.lo.u32 %r30, %t, 4, {TILE}; add.u32 %r30, %r30, %own; ld.shared.u32 %r31, [%r30];
    mad.lo.u32 %r32, %r20, 128, %t; mad.wide.u32 %rd31, %r32, 4, %a0; st.global.u32 [%rd31], %r31; {CLUSTER_SYNC}"""
    result = run(
        body,
        [out, m],
        memory=memory,
        cluster=2,
        threads=128,
        shared_bytes=4096,
        schedule=schedule,
        races=True,
    )
    rows = np.concatenate([table[[4 * cta + 3, 4 * cta, 4 * cta + 2, 4 * cta + 1]] for cta in range(2)])
    return result, out.numpy() == rows


TO_BOTH = "mov.b16 %h1, 3;"
TO_ITSELF = "mov.u32 %r26, 1; shl.b32 %r26, %r26, %r20; cvt.u16.u32 %h1, %r26;"


@pytest.mark.parametrize("schedule", POLICIES)
def test_each_cta_gathers_half_of_the_rows_for_both(schedule: Schedule) -> None:
    result, right = gathered(TO_BOTH, schedule)
    assert not result.findings and right.all()
    (hang,) = gathered(TO_ITSELF, schedule)[0].errors
    assert hang.code == "hang"
    assert all(f"lacks 0 of 1 arrivals and {BYTES // 2} bytes" in w.waits_for for w in hang.machine.waiting)


def test_half_of_the_bytes_let_a_cta_read_before_its_peers_rows_are_there() -> None:
    seen = {
        f.code
        for seed in range(8)
        for f in gathered(TO_BOTH, Schedule("random", seed), BYTES // 2)[0].findings
        if f.severity == "error"
    }
    assert seen & {"shared-pending", "shared-uninitialised", "race-copy-unwaited"}


# ---- NVIDIA's product: each CTA loads a quarter of a row's A and of a column's B for all that share it

TUTORIAL = tutorials.TUTORIALS[2]
COPY = (
    r"(cp\.async\.bulk\.tensor\S+multicast::cluster\S* \[%r\d+\], \[%rd\d+, \{[^}]*\}\], \[%r\d+\]), %rs\d+"
)
COMMIT = r"(tcgen05\.commit\S+multicast::cluster\.b64 \[%r\d+\]), %rs\d+"
FREE = plan_of(TUTORIAL).barrier("mma").offset  # of the commits of all that share a CTA's operands


def launched(image: str, races: bool = False) -> RunResult:
    """Tutorial 03 over two tiles along K, with this PTX."""
    inputs = tutorials.product(TUTORIAL, 2)
    launch = tutorials.launch_of(TUTORIAL, inputs).with_ptx(image)
    return tutorials.run(TUTORIAL, inputs, Schedule(), launch=launch, races=races)[1]


def ptx() -> str:
    return tutorials.launch_of(TUTORIAL, tutorials.product(TUTORIAL, 2)).ptx


def test_copies_that_reach_one_cta_only() -> None:
    image, places = re.subn(COPY, r"\1, 1", ptx())
    (hang,) = launched(image).errors
    assert places and hang.code == "hang"
    lacking = {
        w.cluster_rank for w in hang.machine.waiting if "lacks 0 of 1 arrivals and 49152 bytes" in w.waits_for
    }
    assert lacking == set(range(1, 16))


def test_commits_that_reach_one_cta_only() -> None:
    image, places = re.subn(COMMIT, r"\1, 1", ptx())
    (hang,) = launched(image).errors
    assert places and hang.code == "hang"
    assert any(w.cluster_rank and "lacks 7 of 7 arrivals" in w.waits_for for w in hang.machine.waiting)


def test_operands_that_are_loaded_before_all_that_share_them_have_committed() -> None:
    text = ptx()
    barriers = "|".join(re.findall(rf"add\.s32\s+(%r\d+), %r\d+, {FREE};", text))
    wait = rf"mbarrier\.try_wait\S+ P1, \[(?:{barriers})\], %r\d+;"

    def overtaken(image: str) -> list[Finding]:
        found = (f for f in launched(image, races=True).errors if f.code == "race-mma-unwaited")
        return [f for f in found if "multicast" in f.machine.instruction]

    assert not overtaken(text)
    image, places = re.subn(wait, "setp.eq.u32 P1, 0, 0;", text)
    (first, *_) = overtaken(image)
    assert places and first.machine.race is not None
    assert (
        first.machine.race.instruction.startswith("tcgen05.mma")
        and "tcgen05.commit" in first.machine.race.missing
    )
