"""The certificate: which launches stand for all their schedules, and what is open in the others."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import POLICIES, Memory, codes, init_barrier, run, wait

FULL, EMPTY, DATA = 1024, 1032, 2048
START = f"""{init_barrier(FULL)}
{init_barrier(EMPTY)}
fence.mbarrier_init.release.cluster;
bar.sync 0;
setp.lt.u32 %p1, %t, 32;
setp.eq.u32 %p2, %t, 32;"""
MEET = "bar.warp.sync -1;"
STORE, LOAD = f"@%p0 st.shared.b32 [{DATA}], %t;", f"ld.shared.b32 %r1, [{DATA}];"

TURNS = 4
EARLY = Schedule()


def arrive(offset: int, guard: str) -> str:
    return f"{guard} mbarrier.arrive.shared::cta.b64 _, [{offset}];"


def body(producer: str, consumer: str) -> str:
    """Warp 0 produces, warp 1 consumes."""
    return f"{START}\n@!%p1 bra CONSUMER;\n{producer}\nbra END;\nCONSUMER:\n{consumer}\nEND:"


def ring(*, free: bool = True, waited: bool = True, together: bool = True) -> str:
    """One buffer that warp 0 fills and warp 1 reads, `TURNS` times; without `free` it is never waited for."""
    producer, consumer = [], []
    for turn in range(TURNS):
        producer += [wait(EMPTY, 1 - turn % 2)] if free else []
        producer += [STORE, MEET if together else "", arrive(FULL, "@%p0")]
        consumer += [wait(FULL, turn % 2)] if waited else []
        consumer += [LOAD, MEET, arrive(EMPTY, "@%p2")]
    return body("\n".join(producer), "\n".join(consumer))


def launched(text: str, schedule: Schedule = EARLY, **how: object) -> RunResult:
    """The text with two warps and races."""
    return run(text, threads=64, shared_bytes=0x1000, races=True, schedule=schedule, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_ring_is_certified_under_every_schedule(schedule: Schedule) -> None:
    result = launched(ring(), schedule)
    assert not result.errors and result.certified
    due = result.certificate.obligations  # type: ignore[union-attr]
    assert (due.arrivals, due.waits, due.announcements) == (
        2 * TURNS + 3 * 2,
        2 * TURNS,
        0,
    )  # with 3 bar.sync
    assert "certified for all schedules" in str(result.certificate)


def test_a_launch_without_races_has_no_certificate() -> None:
    result = run(ring(), threads=64, shared_bytes=0x1000)
    assert result.certificate is None and not result.certified


def test_arrivals_that_do_not_wait_may_be_counted_in_the_phase_before() -> None:
    text = body(f"{arrive(FULL, '@%p0')}\n{wait(FULL)}", f"{wait(FULL)}\n{arrive(EMPTY, '@%p2')}")
    assert launched(text).certified
    # Two arrivals for one phase: a count of 1, by two warps that nothing orders.
    text = body(arrive(FULL, "@%p0"), arrive(FULL, "@%p2"))
    assert not launched(text).errors and not launched(text).certified
    result = launched(f"{text}\n{wait(FULL, 1)}")
    assert codes(result) == {"phase-overrun", "phase-lapped"} and not result.certified
    found = next(f for f in result.errors if f.code == "phase-overrun")
    assert found.machine.race is not None and found.machine.race.space == "mbarrier"
    assert "a wait for the end of the phase before" in found.cause
    # One thread's own arrivals are in order, and so are those with a barrier between them.
    assert launched(body(f"{arrive(FULL, '@%p0')}\n{arrive(FULL, '@%p0')}", "")).certified
    apart = f"{START}\n{arrive(FULL, '@%p0')}\nbar.sync 0;\n{arrive(FULL, '@%p2')}"
    assert launched(apart).certified


def test_a_wait_that_the_next_phase_does_not_come_after_may_be_lapped() -> None:
    text = body(wait(EMPTY, 1), arrive(EMPTY, "@%p2"))
    results = [launched(text, Schedule("random", seed)) for seed in range(12)]
    ended = [result for result in results if result.hang is None]
    assert 0 < len(ended) < len(results)
    assert all(codes(result) == {"phase-lapped"} for result in ended)
    assert not any(result.certified for result in results)


def test_a_wait_that_may_start_too_early() -> None:
    """Without the wait for phase 0 that for phase 1 passes at once."""
    consumer = f"{wait(FULL, 1)}\n{arrive(EMPTY, '@%p2')}"
    producer = f"{arrive(FULL, '@%p0')}\nbar.sync 1, 32;\n{arrive(FULL, '@%p0')}"
    result = launched(body(producer, consumer), Schedule("early"))
    assert "phase-lapped" in codes(result) and not result.certified


TWO_ARRIVALS = f"{body(arrive(FULL, '@%p0'), arrive(FULL, '@%p2'))}\n{wait(FULL, 1)}"
TOO_EARLY = body(
    f"{arrive(FULL, '@%p0')}\nbar.sync 1, 32;\n{arrive(FULL, '@%p0')}",
    f"{wait(FULL, 1)}\n{arrive(EMPTY, '@%p2')}",
)


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (TWO_ARRIVALS, "phase-overrun", "exchanged"),
        (TOO_EARLY, "phase-lapped", "exchanged"),
        (ring(waited=False), "phase-lapped", "race-unordered"),
    ],
)
def test_an_open_obligation_has_a_schedule_that_reverses_the_two_events(
    text: str, code: str, shown: str
) -> None:
    found = next(error for error in launched(text).errors if error.code == code)
    race = found.machine.race
    assert race is not None and race.reversed_by.startswith("replay:base=early:w")
    assert f"a schedule that reverses the two: {race.reversed_by}" in found.evidence
    reversed_ = launched(text, Schedule.parse(race.reversed_by))
    (held,) = reversed_.held_back
    assert (held.hold.kind, held.hold.warp) == ("w", race.warp)
    if shown != "exchanged":
        assert shown in codes(reversed_) - codes(launched(text))
        return
    pairs = {
        (place.ptx_line, place.race.ptx_line)
        for place in (error.machine for error in reversed_.errors)
        if place.race is not None
    }
    assert (race.ptx_line, found.machine.ptx_line) in pairs


def test_lanes_that_wait_apart() -> None:
    result = launched(ring(together=False))
    assert codes(result) == {"phase-lapped-lanes"} and not result.errors and not result.certified


@pytest.mark.parametrize("with_arrival", [True, False])
def test_bytes_are_announced_before_an_arrival_of_their_phase(with_arrival: bool) -> None:
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    copy = (
        f"@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{DATA}], [%a0], 16, [{FULL}];"
    )
    announce = f"@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{FULL}], 16;"
    before = [announce, copy, arrive(FULL, "@%p0")]
    if with_arrival:
        text = body("\n".join(before), wait(FULL))
        assert launched(text, args=[source], memory=memory).certified
        return
    # Warp 1 arrives for the phase, and nothing orders it after the announcement.
    text = body("\n".join(before[:2]) + f"\n{wait(FULL)}", arrive(FULL, "@%p2"))
    found = launched(text, args=[source], memory=memory)
    assert not found.certified and codes(found) & {"phase-overrun", "phase-lapped"}


@pytest.mark.parametrize(
    ("steps", "certified"),
    [
        ("first more copy other", True),  # as in CUTLASS: nothing is delivered before all is announced
        ("first copy more other", False),  # the first copy may end the phase before the second announcement
        ("plain more copy", False),  # the arrival alone may end it
    ],
)
def test_more_bytes_are_announced_after_an_arrival_with_bytes(steps: str, certified: bool) -> None:
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    text_of = {
        "first": f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 16;",
        "plain": arrive(FULL, "@%p0"),
        "more": f"@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{FULL}], 16;",
        **{
            name: "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
            f"[{at}], [%a0], 16, [{FULL}];"
            for name, at in (("copy", DATA), ("other", DATA + 16))
        },
    }
    late = Schedule("late")  # copies complete as late as they may, so that the phase is one in this run
    text = body("\n".join(text_of[step] for step in steps.split()), wait(FULL))
    found = launched(text, args=[source], memory=memory, schedule=late)
    assert found.certified == certified, found.certificate


@pytest.mark.parametrize("free", [True, False])
def test_a_ring_that_the_arrivals_of_copies_fill(free: bool) -> None:
    """As in CUTLASS's examples 67 and 68: the arrival of copies comes after what its thread waited for."""
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    copy = (
        f"@%p0 cp.async.ca.shared.global [{DATA}], [%a0], 16;\n"
        f"@%p0 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{FULL}];"
    )
    producer, consumer = [], []
    for turn in range(TURNS):
        producer += [wait(EMPTY, 1 - turn % 2) if free else "", MEET, copy]
        consumer += [wait(FULL, turn % 2), LOAD, MEET, arrive(EMPTY, "@%p2")]
    text = body("\n".join(producer), "\n".join(consumer))
    for schedule in (EARLY, Schedule("late"), Schedule("random", 3)):
        result = launched(text, args=[source], memory=memory, schedule=schedule)
        assert result.certified == free, result.certificate
        assert free == (not codes(result))


@pytest.mark.parametrize("copy", ["cp.async", "cp.async.bulk"])
def test_what_is_delivered_is_waited_for_before_the_exit(copy: str) -> None:
    """A delivery to the mbarrier of a CTA that has exited is an error under other schedules."""
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    text = {
        "cp.async": f"@%p0 cp.async.ca.shared.global [{DATA}], [%a0], 16;\n"
        f"@%p0 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{FULL}];",
        "cp.async.bulk": f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 16;\n"
        "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[{DATA}], [%a0], 16, [{FULL}];",
    }[copy]

    def at(end: str, schedule: Schedule = EARLY) -> RunResult:
        return launched(f"{START}\n{text}\n{end}", args=[source], memory=memory, schedule=schedule)

    assert at(wait(FULL)).certified
    (doubt,) = at("").certificate.doubts  # type: ignore[union-attr]
    assert doubt.reason == "open" and "after the CTA has exited" in doubt.text
    if copy == "cp.async":
        assert codes(at("", Schedule("late"))) == {"access-after-exit"}


def test_a_named_barrier_of_two_groups_in_no_order() -> None:
    barrier_1, barrier_2 = "bar.sync 1, 64;", "bar.sync 2, 64;"

    def text(first: str, second: str) -> str:
        parted = "setp.lt.u32 %p3, %t, 64;\n@!%p3 bra OTHERS;"
        return f"{START}\n{parted}\n{first}\nbra END;\nOTHERS:\n{second}\nEND:"

    def at(first: str, second: str) -> RunResult:
        return run(text(first, second), threads=128, shared_bytes=0x1000, races=True)

    assert at(barrier_1, barrier_2).certified
    assert "phase-overrun" in codes(at(barrier_1, barrier_1)) and not at(barrier_1, barrier_1).certified


def test_the_use_of_an_mbarrier_ends_before_its_inval() -> None:
    end = f"@%p0 mbarrier.inval.shared::cta.b64 [{FULL}];"
    used = f"{arrive(FULL, '@%p2')}\n{wait(FULL)}"
    assert launched(f"{START}\n@%p1 bra NEXT;\n{used}\nNEXT:\nbar.sync 0;\n{end}").certified
    assert "phase-overrun" in codes(launched(body(f"{wait(FULL)}\n{MEET}\n{end}", used), Schedule("late")))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("@%p0 atom.global.add.u32 %r1, [%a0], 1;\n@%p2 atom.global.add.u32 %r1, [%a0], 1;", "nothing"),
        ("atom.global.add.u32 %r1, [%a0], 1;", "lanes of atom"),
        ("@%p0 st.relaxed.gpu.global.u32 [%a0], 1;\n@%p2 ld.relaxed.gpu.global.u32 %r1, [%a0];", "nothing"),
        ("mov.u32 %r1, %clock;", "a clock is read"),
        ("mov.u32 %r1, %smid;", "%smid is read"),
        ("activemask.b32 %r1;", "which lanes run together"),
        ("red.global.add.f32 [%a0], 0f3F800000;\nbar.sync 0;\n@%p0 ld.global.f32 %f1, [%a0];", "a sum of"),
        ("red.global.add.u32 [%a0], 1;\nred.global.max.u32 [%a0], 7;", "nothing"),
        ("red.global.add.u32 [%a0], 1;\nbar.sync 0;\n@%p0 ld.global.u32 %r1, [%a0];", ""),
        ("red.global.add.f32 [%a0], 0f3F800000;", ""),
        ("@%p0 atom.global.add.u32 %r1, [%a0], 1;\nbar.sync 0;\n@%p2 atom.global.add.u32 %r1, [%a0], 1;", ""),
    ],
)  # fmt: skip
def test_what_the_schedule_decides(code: str, reason: str) -> None:
    memory = Memory()
    result = launched(f"{START}\n{code}", args=[memory.buffer(np.zeros(4, np.uint32))], memory=memory)
    assert not result.errors
    doubts = result.certificate.doubts  # type: ignore[union-attr]
    assert [doubt.reason for doubt in doubts] == ["order-decides"] * len(doubts)
    assert bool(doubts) == bool(reason) and all(reason in doubt.text for doubt in doubts[:1])


def test_a_result_that_is_not_true_yet() -> None:
    """A loop around the wait is certified; a branch past something else on false is not."""
    once = f"mbarrier.try_wait.parity.shared::cta.b64 %p4, [{FULL}], 0;"
    used = launched(body(f"{once}\n@%p4 bra END;\nst.shared.u32 [{DATA}], %t;", arrive(FULL, "@%p2")))
    assert any("another effect than to repeat it" in doubt.text for doubt in used.certificate.doubts)  # type: ignore[union-attr]
    loop = f"AGAIN:\n{once}\nselp.u32 %r1, 1, 0, %p4;\nsetp.eq.u32 %p5, %r1, 0;\n@%p5 bra AGAIN;"
    assert launched(body(loop, arrive(FULL, "@%p2"))).certified
    counted = loop.replace("selp.u32", "add.u32 %r2, %r2, 1;\nselp.u32")
    assert not launched(body(f"mov.u32 %r2, 0;\n{counted}", arrive(FULL, "@%p2"))).certified


def test_a_run_that_did_not_end() -> None:
    result = run("LOOP: bra LOOP;", races=True, instruction_limit=1000)
    assert [doubt.reason for doubt in result.certificate.doubts] == ["truncated"]  # type: ignore[union-attr]


def test_phases_that_nobody_waits_for_matter_to_nobody() -> None:
    """Arrivals that fall into any phase are an error as soon as some thread waits, before or after them."""
    arrives = f"{init_barrier(FULL)}\nbar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [{FULL}];\n{MEET}"
    for schedule in POLICIES:
        unasked = launched(arrives, schedule)
        assert codes(unasked) == set() and not unasked.certified
        assert [doubt.reason for doubt in unasked.certificate.doubts] == ["order-decides"]  # type: ignore[union-attr]
        late = launched(f"{arrives}\nbar.sync 0;\n{wait(FULL, 1)}", schedule)
        assert codes(late) == {"phase-overrun"} and not late.certified
