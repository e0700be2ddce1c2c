# ruff: noqa: E501 - PTX lines are kept whole
"""cta_group::2 alloc, dealloc and relinquish: each CTA's part may block for the other's or not, so that the program must order them."""

from __future__ import annotations

import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import POLICIES, alloc, clean, codes, dealloc, only, run, wait

COVERS = "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit"

RANK = "mov.u32 %r90, %cluster_ctarank;\nsetp.eq.u32 %p9, %r90, 1;"
CLUSTER = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
ALLOC, DEALLOC = alloc(64, group=2), dealloc(64, group=2)
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r100], {%t};\ntcgen05.wait::st.sync.aligned;"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r60}, [%r100];\ntcgen05.wait::ld.sync.aligned;"
every_schedule = pytest.mark.parametrize("schedule", POLICIES, ids=str)
# An mbarrier that the other CTA arrives at: its address there is %r91.
BAR = 1152
SIGNAL = f"xor.b32 %r92, %r90, 1;\nmov.u32 %r91, {BAR};\nmapa.shared::cluster.u32 %r91, %r91, %r92;\nsetp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [{BAR}], 1;\n@%p0 fence.mbarrier_init.release.cluster;"
ARRIVE = "@%p0 mbarrier.arrive.SEM.cluster.shared::cluster.b64 _, [%r91];"
HANDSHAKE = ARRIVE.replace("SEM", "release") + wait(BAR)


def pair(body: str, schedule: Schedule | None = None) -> RunResult:
    return run(f"{RANK}\n{body}", cluster=2, shared_bytes=512, races=True, schedule=schedule)


def program(start: str = CLUSTER, made: str = CLUSTER, use: str = STORE + LOAD, end: str = CLUSTER) -> str:
    return f"{start}\n{ALLOC}\n{RELINQUISH}\n{made}\n{use}\n{end}\n{DEALLOC}"


@every_schedule
@pytest.mark.parametrize("start", [CLUSTER, RELAXED])
def test_a_pair_that_meets_before_alloc_and_before_dealloc(start: str, schedule: Schedule) -> None:
    clean(pair(program(start), schedule))


@every_schedule
def test_other_synchronisation_than_a_cluster_barrier_will_do(schedule: Schedule) -> None:
    """PTX ISA 9.7.16.5 has the barrier for illustration: each CTA's arrival at the other's mbarrier, too."""
    clean(pair(f"{SIGNAL}\n{program(RELAXED, '', STORE + LOAD, HANDSHAKE)}", schedule))


@pytest.mark.corpus("H24")
@every_schedule
def test_H24_an_alloc_before_the_other_cta_is_known_to_have_started(schedule: Schedule) -> None:
    found = [f for f in pair(program(start=""), schedule).findings if f.severity == "error"]
    assert {f.code for f in found} == {"pair-not-started"}
    assert found[0].machine.instruction.startswith("tcgen05.alloc") and "cluster barrier" in found[0].message


@pytest.mark.corpus("H24")
@every_schedule
def test_H24_a_dealloc_before_the_other_cta_has_allocated(schedule: Schedule) -> None:
    """What fails on a card in 96 of 96 launches (cutlass#3435): a barrier anywhere between the two mends it."""
    assert codes(pair(program(RELAXED, "", "", ""), schedule)) == {"pair-not-allocated"}
    clean(pair(program(RELAXED, CLUSTER, "", ""), schedule))
    clean(pair(program(RELAXED, "", "", CLUSTER), schedule))


@pytest.mark.corpus("H24")
@every_schedule
@pytest.mark.parametrize("use", [STORE, STORE + LOAD], ids=["store", "load"])
def test_H24_a_dealloc_while_the_other_cta_may_still_use_the_columns(use: str, schedule: Schedule) -> None:
    result = pair(program(RELAXED, CLUSTER, use, ""), schedule)
    assert codes(result) == {"pair-in-use"}
    finding = result.findings[0]
    assert finding.machine.race is not None and finding.machine.race.instruction.startswith(
        ("tcgen05.st", "tcgen05.ld", "tcgen05.dealloc")
    )


@every_schedule
def test_a_load_used_before_the_two_meet_lacks_only_its_wait(schedule: Schedule) -> None:
    """Each CTA uses what it loaded and meets the other without tcgen05.wait::ld, as example 72a of CUTLASS."""
    load, wait_ld = LOAD.split("\n")
    use = f"{load}\nadd.u32 %r9, %r60, 1;"
    right = pair(program(RELAXED, CLUSTER, f"{STORE}\n{use}\n{wait_ld}", CLUSTER), schedule)
    assert codes(right) == {"tmem-ld-not-waited"}
    errors = pair(program(RELAXED, CLUSTER, f"{STORE}\n{use}", CLUSTER), schedule).errors
    assert {f.code for f in errors} == {"race-tmem-released"}
    assert all("barrier.cluster.arrive" in f.message for f in errors)
    assert "pair-in-use" in codes(pair(program(RELAXED, CLUSTER, f"{STORE}\n{use}", ""), schedule))


@every_schedule
def test_a_store_issued_before_the_two_meet_lacks_only_its_wait(schedule: Schedule) -> None:
    store, wait_st = STORE.split("\n")
    clean(pair(program(RELAXED, CLUSTER, f"{store}\n{wait_st}", CLUSTER), schedule))
    errors = pair(program(RELAXED, CLUSTER, store, CLUSTER), schedule).errors
    told = {"tmem-dealloc-in-flight"} if schedule.policy == "late" else {"race-tmem-unwaited"}
    assert told <= {f.code for f in errors} <= {"race-tmem-unwaited", "tmem-dealloc-in-flight"}


@every_schedule
@pytest.mark.parametrize("user", [0, 1])
def test_one_cta_uses_what_the_other_frees(user: int, schedule: Schedule) -> None:
    """Only one CTA touches its tensor memory; found in whichever order the two run."""
    use = f"setp.ne.u32 %p8, %r90, {user};\n@%p8 bra DONE;\n{STORE}\nDONE:"
    assert codes(pair(program(RELAXED, CLUSTER, use, ""), schedule)) == {"pair-in-use"}
    clean(pair(program(RELAXED, CLUSTER, use, CLUSTER), schedule))


@every_schedule
def test_relaxed_barriers_order_what_a_pair_executes(schedule: Schedule) -> None:
    """Alloc, use and dealloc in turn ask for execution order, which DeepGEMM's relaxed arrivals give."""
    clean(pair(program(RELAXED, RELAXED, STORE + LOAD, RELAXED), schedule))
    clean(pair(program(RELAXED, "", "", RELAXED), schedule))
    handshake = ARRIVE.replace("SEM", "relaxed") + wait(BAR)
    clean(pair(f"{SIGNAL}\n{program(RELAXED, RELAXED, STORE, handshake)}\n{CLUSTER}", schedule))
    late = f"{RELAXED}\n{ALLOC}\n{RELAXED}\n{STORE}\nbarrier.cluster.arrive.relaxed.aligned;\nLD\nbarrier.cluster.wait.aligned;\n{DEALLOC}"
    clean(pair(late.replace("LD", ""), schedule))
    assert codes(pair(late.replace("LD", LOAD), schedule)) == {"pair-in-use"}  # after its arrival
    body = f"{RELAXED}\n{ALLOC}\n{RELAXED}\n@%p9 bra ONE;\n{RELAXED}\n{DEALLOC}\nexit;\nONE: {DEALLOC}\n{RELAXED}"
    assert codes(pair(body, schedule)) == {"pair-may-hang"}


@every_schedule
def test_relaxed_barriers_order_no_memory(schedule: Schedule) -> None:
    """The same program, with a word of shared memory that one CTA writes and the other one reads."""
    word = "mov.u32 %r93, 1408;\nmapa.shared::cluster.u32 %r93, %r93, 0;\nsetp.eq.and.u32 %p8, %t, 0, %p9;"
    write = "setp.eq.u32 %p7, %t, 0;\n@%p7 st.shared.u32 [1408], %r90;"
    body = f"{RELAXED}\n{ALLOC}\n{word}\n{write}\nMEET\n@%p8 ld.shared::cluster.u32 %r94, [%r93];\n{CLUSTER}\n{DEALLOC}"
    assert codes(pair(body.replace("MEET", RELAXED), schedule)) == {"race-unordered"}
    clean(pair(body.replace("MEET", CLUSTER), schedule))


@every_schedule
def test_a_dealloc_after_the_other_is_over_may_hang(schedule: Schedule) -> None:
    """Table 48 of PTX ISA 9.7.16.5: CTA 1 frees, then meets CTA 0, which frees after the meeting."""
    body = f"{CLUSTER}\n{ALLOC}\n{CLUSTER}\n@%p9 bra ONE;\n{CLUSTER}\n{DEALLOC}\nexit;\nONE: {DEALLOC}\n{CLUSTER}"
    assert codes(pair(body, schedule)) == {"pair-may-hang"}


@every_schedule
@pytest.mark.parametrize("alone", [0, 1])
def test_a_part_that_is_never_done(alone: int, schedule: Schedule) -> None:
    """The other CTA leaves before its part: its warp blocks for ever, or not."""
    body = f"{CLUSTER}\nsetp.eq.u32 %p8, %r90, {1 - alone};\n@%p8 exit;\n{ALLOC}\n{CLUSTER}\n{DEALLOC}"
    finding = only(pair(body, schedule), "pair-left")
    assert f"CTA rank {1 - alone} " in finding.message
    clean(pair(body.replace(f"{1 - alone};\n@%p8", "7;\n@%p8"), schedule))


@every_schedule
def test_the_columns_are_free_when_both_have_freed_them(schedule: Schedule) -> None:
    """Each CTA allocates all columns twice: the second time there is room when both have freed the first."""
    big = (alloc(512, group=2), dealloc(512, group=2))
    once = f"{big[0]}\n{CLUSTER}\n{STORE}\n{LOAD}\n{CLUSTER}\n{big[1]}"
    clean(pair(f"{CLUSTER}\n{once}\n{once}", schedule))
    hung = only(pair(f"{CLUSTER}\n{once}\n@%p9 exit;\n{once}", schedule), "pair-left")
    assert "tcgen05.alloc" in hung.message


@every_schedule
def test_the_sizes_of_a_pair_differ(schedule: Schedule) -> None:
    body = f"{CLUSTER}\n@%p9 bra ONE;\n{alloc(64, group=2)}\nbra.uni END;\nONE: {alloc(32, group=2)}\nEND:"
    message = only(pair(body, schedule), "cta-pair").message
    assert "64 and 32 columns" in message or "32 and 64 columns" in message


@every_schedule
def test_dealloc_of_the_other_cta_group(schedule: Schedule) -> None:
    mixed, finding = pair(f"{CLUSTER}\n{ALLOC}\n{CLUSTER}\n{dealloc(64)}", schedule).findings[:2]
    assert mixed.code == "cta-group-mixed"
    assert finding.code == "tmem-dealloc" and "cta_group::1" in finding.message
