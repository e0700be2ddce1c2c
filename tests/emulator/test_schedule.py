"""Schedules: what each policy shows that others hide, replays, records, and their text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileproof.emulator import Hold, LaunchError, Schedule
from tileproof.spec.machine.schedule import BASES, KINDS, POLICIES, SEEDED

from tests.kit import programs
from tests.kit.programs import Program

FIXED = [Schedule("early"), Schedule("late"), Schedule("late-newest")]
SEEDS = 24
EVERY = [*FIXED, *(Schedule(policy, seed, points=60) for policy in SEEDED for seed in range(6))]
PROGRAMS = [
    programs.LAPPED,
    programs.NOT_LAPPED,
    programs.IN_ORDER,
    programs.WINDOW,
    programs.LAST_WINS,
    programs.POLLING,
]


def found(program: Program, *schedules: Schedule) -> list[set[str]]:
    """The codes under each schedule."""
    return [program.codes(schedule) for schedule in schedules]


def seeded(policy: str, count: int = SEEDS, **fields: int) -> list[Schedule]:
    return [Schedule(policy, seed, **fields) for seed in range(count)]  # type: ignore[arg-type]


# --- what a policy shows


def test_late_shows_a_copy_that_is_not_waited_for_and_early_hides_it() -> None:
    assert found(programs.NO_WAIT, *FIXED) == [set(), {"shared-pending"}, {"shared-pending"}]
    assert not any(found(programs.EACH_WAITED, *FIXED))


def test_only_another_order_of_completions_shows_that_one_was_relied_on() -> None:
    assert found(programs.IN_ORDER, *FIXED) == [set(), set(), {"shared-pending"}]
    assert {"shared-pending"} in found(programs.IN_ORDER, *seeded("late-random"))


def test_late_random_completes_in_orders_that_are_neither_oldest_nor_newest_first() -> None:
    assert not any(found(programs.SECOND_FIRST, *FIXED))
    assert {"trap"} in found(programs.SECOND_FIRST, *seeded("late-random"))


@pytest.mark.parametrize("policy", SEEDED)
def test_every_policy_with_a_seed_lets_a_wait_give_up(policy: str) -> None:
    assert not any(found(programs.TRIED_ONCE, *FIXED))
    assert {"shared-pending"} in found(programs.TRIED_ONCE, *seeded(policy, 64))
    assert not any(found(programs.TRIED_AGAIN, *FIXED, *seeded(policy, 64)))


def test_starving_a_warp_shows_that_it_can_be_lapped() -> None:
    assert not any(found(programs.LAPPED, *FIXED, *seeded("late-random")))
    assert {"hang"} in found(programs.LAPPED, *seeded("starve"))
    hang = next(r for s in seeded("starve") if (r := programs.LAPPED(schedule=s)[0]).errors).errors[0]
    assert any(waiting.warp == 2 and waiting.barrier is not None for waiting in hang.machine.waiting)
    assert not any(found(programs.NOT_LAPPED, *EVERY, *seeded("starve", 64)))


def test_starving_cannot_show_a_window_of_two_preemptions() -> None:
    assert not any(found(programs.WINDOW, *FIXED, *seeded("starve", 200), *seeded("late-random", 50)))


def test_pct_finds_a_bug_of_depth_three_at_least_as_often_as_its_bound() -> None:
    points = programs.WINDOW(schedule=Schedule("late"))[0].counters.schedule_points
    bound = 1 / (2 * points**2)
    tries = math.ceil(math.log(1e6) / bound)  # at the bound, all but one in a million such tests would see it
    first = next(s for s in seeded("pct", tries, points=points) if programs.WINDOW.codes(s))
    assert programs.WINDOW.codes(first) == {"trap"} == programs.WINDOW.codes(first)
    count = 20_000
    hits = sum(bool(codes) for codes in found(programs.WINDOW, *seeded("pct", count, points=points)))
    expected = count * bound
    assert hits >= expected - 3.7 * math.sqrt(expected)  # fewer: once in 10^4 samples at the bound
    # One change of priority makes one preemption, and the bug needs two.
    assert not any(found(programs.WINDOW, *seeded("pct", 500, depth=2, points=points)))


# --- replays


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_record_replays_bit_for_bit(program: Program) -> None:
    for schedule in EVERY[1:]:
        plain, outputs = program(schedule=schedule, trace=True)
        for base in BASES:
            recorded, _ = program(schedule=schedule, trace=True, record=base)
            again, same = program(schedule=schedule.replayed(recorded.decisions, base), trace=True)
            for other in (recorded, again):
                assert other.counters == plain.counters and other.findings == plain.findings
                assert other.trace is not None and plain.trace is not None
                assert other.trace.to_text() == plain.trace.to_text()
            assert (same["out"] == outputs["out"]).all()
            assert [held.hold for held in again.held_back] == list(recorded.decisions)


def test_a_replay_without_its_decisions_is_another_run() -> None:
    schedule = next(s for s in seeded("starve", 64) if programs.LAPPED.codes(s))
    recorded, _ = programs.LAPPED(schedule=schedule, record="late")
    assert recorded.decisions
    assert programs.LAPPED.codes(schedule.replayed(recorded.decisions)) == {"hang"}
    assert not programs.LAPPED.codes(schedule.replayed(()))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("policy", POLICIES[:-1])
def test_the_same_schedule_twice(program: Program, policy: str) -> None:
    runs = [program(schedule=Schedule(policy, 3, points=60), trace=True) for _ in range(2)]  # type: ignore[arg-type]
    (first_result, first), (second_result, second) = runs
    assert first_result.counters == second_result.counters and first_result.findings == second_result.findings
    assert (
        first_result.trace is not None
        and second_result.trace is not None
        and first_result.trace.to_text() == second_result.trace.to_text()
    )
    assert (first["out"] == second["out"]).all()


def test_seeds_make_different_runs() -> None:
    for policy in ("random", "starve", "pct"):
        texts = set()
        for seed in range(12):
            result, _ = programs.NOT_LAPPED(schedule=Schedule(policy, seed, points=80), trace=True)  # type: ignore[arg-type]
            assert result.trace is not None
            texts.add(result.trace.to_text())
        assert len(texts) > 3, policy


def test_held_back_says_who_and_where() -> None:
    held = Schedule("replay", decisions=(Hold.parse("w0.2.0@1"),))
    result, _ = programs.LAPPED(schedule=held)
    assert {f.code for f in result.errors} == {"hang"}
    (hold,) = result.held_back
    assert hold.hold == held.decisions[0] and hold.instruction.startswith("mbarrier.try_wait")
    assert (
        hold.text().startswith("warp 2 of CTA 0") and "is held back before mbarrier.try_wait" in hold.text()
    )
    copy = Schedule("replay", base="early", decisions=(Hold.parse("c0.0.0.0@0"),))
    result, _ = programs.IN_ORDER(schedule=copy)
    assert {f.code for f in result.errors} == {"shared-pending"}
    text = result.held_back[0].text()
    assert (
        text.startswith("bulk copy number 0 of warp 0 of CTA 0, issued at line")
        and "does not complete" in text
    )


def test_a_decision_about_one_cluster_of_several() -> None:
    held = Schedule("replay", decisions=(Hold.parse("w1.2.0@1"),))
    result, _ = programs.LAPPED(schedule=held, grid=2)
    assert [f.machine.cta for f in result.errors] == [(1, 0, 0)]
    assert "(CTA 1,0,0 of the grid)" in result.held_back[0].text()
    assert not programs.LAPPED(schedule=Schedule("replay"), grid=2)[0].errors
    for schedule in (s for s in EVERY if s.policy in ("random", "starve")):
        plain, _ = programs.NOT_LAPPED(schedule=schedule, grid=3, trace=True)
        recorded, _ = programs.NOT_LAPPED(schedule=schedule, grid=3, record="late")
        again, _ = programs.NOT_LAPPED(schedule=schedule.replayed(recorded.decisions), grid=3, trace=True)
        assert again.trace.to_text() == plain.trace.to_text()  # type: ignore[union-attr]


def test_a_decision_that_never_comes_up_is_not_among_those_followed() -> None:
    held = Schedule("replay", decisions=(Hold.parse("w0.2.0@4000"), Hold.parse("c5.0.0.0@0")))
    result, _ = programs.NOT_LAPPED(schedule=held)
    assert not result.findings and not result.held_back


# --- who must not be starved


@pytest.mark.parametrize("program", [programs.POLLING, programs.HEARTBEAT])
def test_those_who_poll_let_the_others_move(program: Program) -> None:
    assert not any(found(program, *EVERY, *seeded("starve", 40), *seeded("pct", 40, points=40)))


def test_polling_for_what_never_comes_is_a_livelock_under_every_policy() -> None:
    for schedule in EVERY:
        assert programs.NEVER_SET.codes(schedule) == {"livelock"}, schedule


# --- text

HOLDS = st.builds(
    lambda kind, cta, warp, lane, serial, step, tries: Hold(
        cta << 40 | KINDS.index(kind) << 38 | warp << 33 | lane << 28 | (serial if kind == "c" else 0),
        step << 8 | tries if kind == "w" else step,
    ),
    st.sampled_from(KINDS), st.integers(0, 2**20), st.integers(0, 31), st.integers(0, 31),
    st.integers(0, 2**27), st.integers(0, 2**31), st.integers(0, 255),
)  # fmt: skip


@given(
    st.sampled_from(POLICIES), st.integers(0, 2**63), st.integers(1, 9), st.integers(1, 10**6),
    st.sampled_from(BASES), st.lists(HOLDS, max_size=5), st.integers(0, 2**31 - 1),
)  # fmt: skip
def test_a_schedule_is_read_back_from_its_text(
    policy: str, seed: int, depth: int, points: int, base: str, holds: list[Hold], environment: int
) -> None:
    schedule = Schedule(
        policy,  # type: ignore[arg-type]
        seed if policy in SEEDED else 0,
        depth if policy == "pct" else 3,
        points if policy == "pct" else 4096,
        base if policy == "replay" else "late",  # type: ignore[arg-type]
        tuple(holds) if policy == "replay" else (),
        environment,
    )
    assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize(
    "text",
    [
        "", "sometimes", "pct:depth=0", "random:seed=x", "replay:base=never", "replay:w0.1@3",
        "replay:c0.1.2@3", "replay:q0.1.2@3+1", "late:w0.0.0@1", "random:decisions=1",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        Schedule.parse(text)


def test_an_early_launch_cannot_be_recorded() -> None:
    with pytest.raises(LaunchError, match="no decisions"):
        programs.LAPPED(schedule=Schedule("early"), record="late")
