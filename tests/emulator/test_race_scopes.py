# ruff: noqa: E501 - PTX lines are kept whole
"""Scopes of releases, acquires, fences and atomics: between the CTAs of a cluster and between clusters."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import LaunchResult, Memory, Schedule

from tests.kit.ptx import POLICIES, clean, codes, run

every_schedule = pytest.mark.parametrize("schedule", POLICIES, ids=str)
# Rank 0 (or the CTA 0) writes the datum and raises the flag; the other one waits for the flag and reads the datum.
HANDED = """
mov.u32 %r90, %ctaid.x;
setp.ne.u32 %p0, %t, 0;
@%p0 bra DONE;
setp.ne.u32 %p1, %r90, 0;
@%p1 bra READER;
st.global.u32 [%a1], 7;
WRITE
bra DONE;
READER:
READ
setp.ne.u32 %p2, %r2, 1;
@%p2 bra READER;
ACQUIRED
ld.global.u32 %r3, [%a1];
DONE:
"""


def handed(write: str, read: str, acquired: str = "", *, cluster: int, schedule: Schedule) -> LaunchResult:
    memory = Memory()
    flag, datum = memory.buffer(np.zeros(1, np.uint32)), memory.buffer(np.zeros(1, np.uint32))
    body = HANDED.replace("WRITE", write).replace("READ\n", f"{read}\n").replace("ACQUIRED", acquired)
    return run(
        body, [flag, datum], memory=memory, cluster=cluster, grid=2, races=True, resident=2, schedule=schedule
    )


def edge(write: str, read: str) -> tuple[str, str]:
    return f"st.release.{write}.global.u32 [%a0], 1;", f"ld.acquire.{read}.global.u32 %r2, [%a0];"


@every_schedule
@pytest.mark.parametrize(
    ("cluster", "least"), [(2, "cluster"), (1, "gpu")], ids=["in a cluster", "between clusters"]
)
def test_release_and_acquire_reach_as_far_as_their_scopes(
    cluster: int, least: str, schedule: Schedule
) -> None:
    scopes = ["cta", "cluster", "gpu", "sys"]
    enough = scopes[scopes.index(least) :]
    for write in scopes:
        for read in (least, scopes[scopes.index(least) - 1]):
            result = handed(*edge(write, read), cluster=cluster, schedule=schedule)
            if write in enough and read in enough:
                clean(result)
            else:
                assert codes(result) == {"race-scope", "race-unordered" if cluster == 2 else "race-clusters"}


@every_schedule
def test_fences_reach_as_far_as_their_scopes(schedule: Schedule) -> None:
    def fenced(first: str, second: str) -> LaunchResult:
        return handed(
            f"fence.acq_rel.{first};\nst.relaxed.gpu.global.u32 [%a0], 1;", "ld.relaxed.gpu.global.u32 %r2, [%a0];",
            f"fence.acq_rel.{second};", cluster=2, schedule=schedule,
        )  # fmt: skip

    clean(fenced("cluster", "gpu"))
    clean(fenced(["sc", "sys"][1], "cluster"))
    for first, second in (("cta", "gpu"), ("gpu", "cta")):
        assert codes(fenced(first, second)) == {"race-unordered"}


@every_schedule
def test_membar_has_the_scope_of_its_level(schedule: Schedule) -> None:
    def fenced(level: str) -> LaunchResult:
        return handed(
            f"membar.{level};\nst.volatile.global.u32 [%a0], 1;", "ld.volatile.global.u32 %r2, [%a0];",
            "membar.gl;", cluster=1, schedule=schedule,
        )  # fmt: skip

    clean(fenced("gl"))
    clean(fenced("sys"))
    assert codes(fenced("cta")) == {"race-clusters"}


@every_schedule
def test_the_last_of_two_fences_does_not_take_back_the_wider_one(schedule: Schedule) -> None:
    write = "fence.acq_rel.gpu;\nfence.acq_rel.cta;\nst.relaxed.gpu.global.u32 [%a0], 1;"
    clean(handed(write, "ld.acquire.gpu.global.u32 %r2, [%a0];", cluster=1, schedule=schedule))


@every_schedule
def test_atomics_are_of_gpu_scope_by_default(schedule: Schedule) -> None:
    """PTX ISA 9.7.13.5: no data race between atomics whose scopes include each other (8.7)."""

    def counted(scope: str, cluster: int) -> LaunchResult:
        memory = Memory()
        count = memory.buffer(np.zeros(1, np.uint32))
        return run(f"red{scope}.global.add.u32 [%a0], 1;", [count], memory=memory, cluster=cluster, grid=2, races=True, resident=2, schedule=schedule)  # fmt: skip

    clean(counted("", 1))
    clean(counted(".relaxed.cluster", 2))
    assert codes(counted(".relaxed.cluster", 1)) == {"race-scope"}
    assert codes(counted(".relaxed.cta", 2)) == {"race-scope"}


BAR = 1088
SHARED = """
mov.u32 %r90, %cluster_ctarank;
setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [BAR], 1;
@%p0 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
setp.eq.u32 %p1, %r90, 0;
@%p1 bra WAITS;
mov.u32 %r91, BAR;
mapa.shared::cluster.u32 %r92, %r91, 0;
@%p0 st.shared::cluster.u32 [%r92+64], 7;
@%p0 mbarrier.arriveSEND.shared::cluster.b64 _, [%r92];
bra END;
WAITS: mbarrier.try_wait.parityTAKE.shared::cta.b64 %p2, [BAR], 0;
@!%p2 bra WAITS;
ld.shared.u32 %r3, [BAR+64];
END:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""


@pytest.mark.corpus("R23")
@every_schedule
@pytest.mark.parametrize(
    ("send", "take", "ordered"),
    [
        (".release.cluster", ".acquire.cluster", True), (".release.cluster", "", True), ("", "", True),
        (".release.cta", ".acquire.cluster", False), (".release.cluster", ".acquire.cta", False),
        (".relaxed.cluster", ".acquire.cluster", False), (".release.cluster", ".relaxed.cluster", False),
    ],
)  # fmt: skip
def test_R23_an_arrival_at_another_cta(send: str, take: str, ordered: bool, schedule: Schedule) -> None:
    body = SHARED.replace("SEND", send).replace("TAKE", take).replace("BAR", str(BAR))
    result = run(body, cluster=2, shared_bytes=512, races=True, schedule=schedule)
    if ordered:
        clean(result)
    else:
        assert "race-unordered" in codes(result)


@every_schedule
def test_an_arrival_of_the_own_cta_may_be_of_cta_scope(schedule: Schedule) -> None:
    body = f"""setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [{BAR}], 1;
    bar.sync 0;
    setp.eq.u32 %p1, %t, 32;
    @%p1 st.shared.u32 [{BAR + 64}], 7;
    @%p1 mbarrier.arrive.release.cta.shared::cta.b64 _, [{BAR}];
    WAITS: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [{BAR}], 0;
    @!%p2 bra WAITS;
    ld.shared.u32 %r3, [{BAR + 64}];"""
    clean(run(body, threads=64, shared_bytes=512, races=True, schedule=schedule))
