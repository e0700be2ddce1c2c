# ruff: noqa: E501 - PTX lines are kept whole
"""Tensor memory released to others: before wait::ld although the registers were used, before wait::st."""

from __future__ import annotations

import pytest
from tileproof.emulator import Finding, RunResult, Schedule

from tests.emulator.test_races import (
    AFTER,
    BAR,
    BEFORE,
    CLEAR,
    DONE,
    LD,
    MMA,
    QUARTER,
    READY,
    ST,
    SYNC,
    WAIT_LD,
    WAIT_ST,
    tensor,
)
from tests.kit.ptx import POLICIES, alloc, init_barrier, run, wait

BAR2 = 1032
USE = "add.u32 %r9, %r60, 1;"
NEXT = f"{MMA}\n@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR}];\n{wait(BAR, 1)}"
INIT2 = f"@%p0 mbarrier.init.shared::cta.b64 [{BAR2}], 128;\nbar.sync 0;"
RELEASES = {
    "named barrier": ("", SYNC),
    "mbarrier": (f"{INIT2}\n", f"mbarrier.arrive.shared::cta.b64 _, [{BAR2}];\n{wait(BAR2)}"),
    "cluster barrier": ("", "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"),
}


def found(result: RunResult) -> dict[str, Finding]:
    return {f.code: f for f in result.findings}


@pytest.mark.corpus("R20")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_cells_are_released_after_wait_ld(release: str, schedule: Schedule) -> None:
    before, edge = RELEASES[release]

    def at(wait_ld: str) -> dict[str, Finding]:
        return found(
            tensor(
                f"{before}{READY}\n{MMA}\n{DONE}\n{LD}\n{USE}\n{wait_ld}\n{BEFORE}\n{edge}\n{AFTER}\n{NEXT}",
                schedule,
            )
        )

    right = at(WAIT_LD)
    assert {f.severity for f in right.values()} <= {"note"}
    wrong = at("")
    assert "tmem-ld-not-waited" in wrong
    error = wrong["race-tmem-released"]
    assert error.severity == "error" and error.machine.race is not None
    assert error.machine.instruction.startswith("tcgen05.mma") and error.machine.race.instruction.startswith(
        "tcgen05.ld"
    )
    assert (
        f"its {edge.split()[0].rstrip(';')}" in error.machine.race.missing
        and "wait::ld" in error.machine.race.missing
    )


@pytest.mark.corpus("R20")
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_dealloc_is_a_release(schedule: Schedule) -> None:
    def at(wait_ld: str, threads: int) -> dict[str, Finding]:
        last = "bar.sync 0;" if threads > 32 else ""
        body = f"{init_barrier(BAR)} {alloc(32)} {QUARTER}\n{CLEAR}\n{ST} {WAIT_ST}\n{LD}\n{USE}\n{wait_ld}\n{last}\nsetp.lt.u32 %p14, %t, 32;\n@%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"
        return found(run(body, threads=threads, shared_bytes=0x4000, schedule=schedule, races=True))

    for threads in (32, 64):
        assert set(at(WAIT_LD, threads)) <= {"tmem-ld-not-waited"}
        error = at("", threads)["race-tmem-released"]
        assert error.machine.instruction.startswith("tcgen05.dealloc")


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_an_arrival_elsewhere_before_wait_ld_releases_nothing(schedule: Schedule) -> None:
    # A barrier between the use and the wait is no mistake as long as nobody touches the cells behind it.
    body = f"{READY}\n{MMA}\n{DONE}\n{LD}\n{USE}\n{SYNC}\n{WAIT_LD}\n{BEFORE}\n{SYNC}\n{AFTER}\n{NEXT}"
    assert set(found(tensor(body, schedule))) <= {"tmem-ld-not-waited", "race-mbarrier-init-fence"}


def test_the_warp_itself_stores_over_what_it_loads() -> None:
    # An anti-dependence in one warp: the use does not order the read (PTX ISA 9.7.16.6.4.5). CUTLASS scales
    # accumulators in place without the wait: a warning. Without the use it is an error.
    def at(use: str, edge: str, strict: bool = False) -> dict[str, str]:
        body = f"{CLEAR}\n{ST} {WAIT_ST}\n{LD}\n{use}\n{edge}\n{ST} {WAIT_ST}\n{WAIT_LD}"
        return {code: f.severity for code, f in found(tensor(body, Schedule(), strict=strict)).items()}

    used = {"tmem-ld-not-waited": "note"}
    assert at(USE, WAIT_LD) == at(USE, WAIT_LD, strict=True) == used
    assert at(USE, "") == used | {"race-tmem-reused": "warning"}
    assert at(USE, "", strict=True) == used | {"race-tmem-reused": "error"}
    assert at("", "") == {"race-tmem-unwaited": "error"}


@pytest.mark.corpus("R21")
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_statistics_are_published_after_wait_st(schedule: Schedule) -> None:
    # cutlass#3653: warps 0-3 store a row's statistics, arrive; warps 4-7 of the same lanes load them.
    def at(wait_st: str) -> set[str]:
        body = f"""{init_barrier(BAR, 128)} {alloc(32)} {QUARTER}\n{CLEAR}\nsetp.ge.u32 %p1, %t, 128;\n@%p1 bra READER;
{ST}\n{wait_st}\n{BEFORE}\nmbarrier.arrive.shared::cta.b64 _, [{BAR}];\nbra END;\nREADER:\n{wait(BAR)}\n{AFTER}\n{LD} {WAIT_LD}\nEND:
bar.sync 0;\n{WAIT_ST}\nbar.sync 0;\nsetp.lt.u32 %p14, %t, 32;\n@%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"""
        return set(found(run(body, threads=256, shared_bytes=0x4000, schedule=schedule, races=True)))

    assert at(WAIT_ST) == set()
    assert at("") & {"race-tmem-unwaited", "tmem-pending", "tmem-uninitialised"}
    if schedule.policy == "early":
        assert at("") == {"race-tmem-unwaited"}


@pytest.mark.corpus("R22")
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_load_by_lanes_that_have_nothing_to_do_keeps_the_columns(schedule: Schedule) -> None:
    # cutlass#3652: warps whose rows are past the end load all the same and skip the use, and with it the wait.
    def at(wait_ld: str) -> dict[str, Finding]:
        body = f"""{init_barrier(BAR)} {alloc(32)} {QUARTER}\n{CLEAR}\n{ST} {WAIT_ST}\n{LD}\nsetp.ge.u32 %p1, %t, 64;\n{wait_ld}\n@%p1 bra IDLE;
{WAIT_LD}\n{USE}\nIDLE:\nbar.sync 0;\nsetp.lt.u32 %p14, %t, 32;\n@%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"""
        return found(run(body, threads=128, shared_bytes=0x4000, schedule=schedule, races=True))

    assert set(at(WAIT_LD)) == set()
    wrong = at("")
    assert set(wrong) == {"race-tmem-unwaited"}
    assert (
        wrong["race-tmem-unwaited"].machine.race is not None
        and wrong["race-tmem-unwaited"].machine.race.warp >= 2
    )
