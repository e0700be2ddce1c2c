"""Shared memory on both sides of a .relaxed cluster barrier: by threads of its CTA, or by another CTA."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.ptx import POLICIES, codes, run

every_schedule = pytest.mark.parametrize("schedule", POLICIES, ids=str)
# Rank 1 uses its shared word; then rank 0 writes it: by a store, or by a bulk copy of 16 bytes.
BODY = """
mov.u32 %r90, %cluster_ctarank;
setp.eq.u32 %p0, %t, 0;
setp.eq.u32 %p1, %r90, 0;
and.pred %p2, %p0, %p1;
setp.ne.u32 %p3, %r90, 0;
mov.u32 %r9, 1024;
mapa.shared::cluster.u32 %r1, %r9, 1;
or.b32 %r8, %own, 2048;
@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
fence.mbarrier_init.release.cluster;
mov.u32 %r9, 2048;
mapa.shared::cluster.u32 %r7, %r9, 1;
st.shared.u32 [3072], 7;
barrier.cluster.arrive;
barrier.cluster.wait;
USE
BARRIER
ARRIVE
barrier.cluster.wait;
WRITE
barrier.cluster.arrive;
barrier.cluster.wait;
"""
READ = "@%p3 ld.shared.u32 %r2, [1024];"
WRITE = "@%p2 st.shared::cluster.u32 [%r1], 5;"
COPY = """
@%p2 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], 16;
@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 16, [%r7];
setp.eq.and.u32 %p4, %r90, 1, %p0;
@!%p4 bra DONE;
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r8], 0;
@!%p5 bra WAIT;
DONE:
"""


def handed(
    schedule: Schedule,
    *,
    use: str = "@%p3 st.shared.u32 [1024], 3;\nbar.sync 0;\n" + READ,
    barrier: str = "bar.sync 0;",
    arrive: str = "barrier.cluster.arrive.relaxed;",
    write: str = WRITE,
    strict: bool = False,
) -> RunResult:
    body = BODY.replace("USE", use).replace("BARRIER", barrier).replace("ARRIVE", arrive)
    return pair(body.replace("WRITE", write), schedule, strict)


def pair(body: str, schedule: Schedule, strict: bool = False) -> RunResult:
    """A cluster of two CTAs of two warps."""
    memory = Memory()
    return run(
        body,
        [memory.buffer(np.zeros(4, np.uint32))],
        memory=memory,
        threads=64,
        cluster=2,
        grid=2,
        races=True,
        shared_bytes=4096,
        schedule=schedule,
        strict=strict,
    )


USES = {
    "read": "@%p0 st.shared.u32 [1024], 3;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n" + READ,
    "written": "setp.eq.and.u32 %p6, %t, 33, %p3;\n@%p6 st.shared.u32 [1024], 3;",
}


@every_schedule
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("write", [WRITE, COPY], ids=["store", "copy"])
def test_its_cta_has_a_barrier(schedule: Schedule, use: str, write: str) -> None:
    result = handed(schedule, use=use, write=write)
    assert not result.errors
    assert "race-relaxed-barrier" in codes(result)
    strict = handed(schedule, use=use, write=write, strict=True)
    assert "race-relaxed-barrier" in {f.code for f in strict.errors}


@every_schedule
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_releasing_barrier_is_enough(schedule: Schedule, use: str) -> None:
    assert not set(codes(handed(schedule, use=use, arrive="barrier.cluster.arrive;"))) & {
        "race-relaxed-barrier",
        "race-unordered",
    }


@every_schedule
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("write", [WRITE, COPY], ids=["store", "copy"])
def test_without_a_barrier_of_its_cta_it_is_an_error(schedule: Schedule, use: str, write: str) -> None:
    assert {f.code for f in handed(schedule, use=use, barrier="", write=write).errors} == {"race-unordered"}


@every_schedule
def test_what_another_cta_reads_needs_the_release(schedule: Schedule) -> None:
    result = handed(schedule, use=USES["written"], write="@%p2 ld.shared::cluster.u32 %r2, [%r1];")
    assert {f.code for f in result.errors} == {"race-unordered"}


@every_schedule
def test_a_write_before_the_cluster_barrier_is_an_error(schedule: Schedule) -> None:
    result = handed(schedule, use=USES["read"] + "\n" + WRITE, write="")
    assert {f.code for f in result.errors} == {"race-unordered"}


# Warp 0 of each CTA writes the word, warp 1 reads it; between them a cluster barrier.
OWN = """
mov.u32 %r90, %cluster_ctarank;
setp.lt.u32 %p0, %t, 32;
setp.eq.u32 %p1, %t, 0;
@%p1 st.shared.u32 [1024], 3;
MEET
@!%p0 ld.shared.u32 %r2, [1024];
"""
RELAXED = "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;"


@every_schedule
@pytest.mark.parametrize(
    ("meet", "code"),
    [
        (RELAXED, "race-relaxed-barrier"),
        (f"{RELAXED}\n{RELAXED}", "race-relaxed-barrier"),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;", None),
        ("bar.warp.sync 0xffffffff;", "race-unordered"),
        ("@%p0 barrier.cluster.arrive.relaxed;\n@!%p0 barrier.cluster.arrive.relaxed;", "race-unordered"),
    ],
    ids=["relaxed", "twice", "release", "none", "no wait"],
)
def test_threads_of_one_cta(schedule: Schedule, meet: str, code: str | None) -> None:
    result = pair(OWN.replace("MEET", meet), schedule)
    found = {f.code: f.severity for f in result.findings}
    assert not code or found[code] == ("warning" if code == "race-relaxed-barrier" else "error")
    # A read before the write is of what nobody wrote.
    assert set(found) - {code} <= {"shared-uninitialised", "uninitialised-unused", "cluster-barrier-left"}


@every_schedule
def test_a_word_of_another_cta_needs_the_release(schedule: Schedule) -> None:
    read = (
        "mov.u32 %r9, 1024;\nmapa.shared::cluster.u32 %r1, %r9, 1;\n@!%p0 ld.shared::cluster.u32 %r2, [%r1];"
    )
    body = OWN.replace("MEET", RELAXED).replace("@!%p0 ld.shared.u32 %r2, [1024];", read)
    result = pair(f"{body}barrier.cluster.arrive;\nbarrier.cluster.wait;", schedule)
    assert "race-unordered" in {f.code for f in result.errors}
