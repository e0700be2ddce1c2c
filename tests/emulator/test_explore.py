"""Exploring a launch: what it finds, how small it makes the schedule, and that a clean launch stays clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, RunResult, Schedule
from tileproof.emulator.explore import EXPLORED, explore, planned
from tileproof.emulator.schedule_run import OUTPUT, ScheduleRunner, Signature
from tileproof.emulator.shrink import shrink
from tileproof.spec.machine.schedule import SEEDED

from tests.kit import programs
from tests.kit.programs import Program

CLEAN = [programs.NOT_LAPPED, programs.EACH_WAITED, programs.ADDED, programs.POLLING, programs.HEARTBEAT]


@pytest.mark.parametrize("program", CLEAN)
def test_clean_programs_have_no_finding(program: Program) -> None:
    result = explore(program, schedules=120)
    assert result.causes == [] and not result.failed
    assert result.schedules == 120 and set(result.policies) == set(EXPLORED)


def test_a_lapped_waiter_is_found_and_shrunk_to_one_preemption() -> None:
    result = explore(programs.LAPPED, schedules=60)
    assert result.failed and {cause.signature.code for cause in result.causes} == {"hang"}
    for cause in result.causes:
        assert cause.shrunk is not None and cause.shrunk.minimal
        assert {"early", "late", "late-newest"}.isdisjoint(cause.by_policy)
    best = min(result.causes, key=lambda d: len(d.shrunk.schedule.decisions))  # type: ignore[union-attr]
    assert best.shrunk is not None
    (hold,) = best.shrunk.schedule.decisions
    assert (hold.kind, hold.warp) == ("w", 2)
    assert programs.LAPPED.codes(Schedule.parse(str(best.shrunk.schedule))) == {"hang"}
    words = best.shrunk.lines()
    assert len(words) == 2 and words[1].startswith("warp 2 of CTA 0") and "is held back before" in words[1]


def test_a_window_is_shrunk_to_its_two_preemptions() -> None:
    points = programs.WINDOW(schedule=Schedule("late"))[0].counters.schedule_points
    seen = [s for n in range(6000) if programs.WINDOW.codes(s := Schedule("pct", n, 3, points))]
    seen += [s for n in range(2000) if programs.WINDOW.codes(s := Schedule("random", n))]
    assert {schedule.policy for schedule in seen} == {"pct", "random"}
    finding = programs.WINDOW(schedule=seen[0])[0].errors[0]
    for start in (seen[:1], seen[-1:], seen):
        small = shrink(ScheduleRunner(programs.WINDOW), Signature.of(finding), start)
        assert small.minimal and len(small.schedule.decisions) == 2
        assert [held.hold.warp for held in small.held_back] == [1, 0]
        assert small.held_back[0].instruction.startswith("st") and small.held_back[1].instruction.startswith(
            "ld"
        )
        # Neither of them alone shows it.
        for hold in small.schedule.decisions:
            assert not programs.WINDOW.codes(Schedule("replay", base=small.schedule.base, decisions=(hold,)))


def test_what_a_plain_policy_shows_needs_no_preemption() -> None:
    result = explore(programs.IN_ORDER, schedules=30)
    (cause,) = result.causes
    assert cause.shrunk is not None and cause.shrunk.schedule == Schedule("late-newest")
    (cause,) = explore(programs.NO_WAIT, schedules=30).causes
    assert cause.shrunk is not None and cause.shrunk.schedule == Schedule("late")


def test_the_smallest_schedule_keeps_the_finding_and_its_instruction() -> None:
    result = explore(programs.IN_ORDER, schedules=[Schedule("late-random", seed) for seed in range(12)])
    (cause,) = result.causes
    assert cause.shrunk is not None and cause.shrunk.signature == cause.signature
    assert cause.smallest is cause.shrunk.finding and cause.smallest.message == cause.finding.message
    run, _ = programs.IN_ORDER(schedule=cause.shrunk.schedule)
    assert [Signature.of(finding) for finding in run.errors] == [cause.signature]


def test_outputs_that_depend_on_the_schedule() -> None:
    result = explore(programs.LAST_WINS, schedules=40)
    (cause,) = result.causes
    assert cause.signature == Signature(OUTPUT, "out") and cause.severity == "error"
    assert "1 of 64 elements of out" in cause.finding.message
    assert cause.shrunk is not None and len(cause.shrunk.schedule.decisions) == 1
    ours = programs.LAST_WINS(schedule=cause.shrunk.schedule)[1]["out"]
    assert (ours != programs.LAST_WINS(schedule=Schedule("early"))[1]["out"]).sum() == 1
    # A comparison that allows it finds nothing.
    loose = explore(programs.LAST_WINS, schedules=40, compare=lambda name, a, b: np.zeros(a.shape, bool))
    assert not loose.causes


def test_the_same_exploration_twice_and_over_one_process_or_two() -> None:
    runs = [explore(programs.LAPPED, schedules=40, processes=n, shrink_seconds=5) for n in (1, 2, 2)]
    assert all(run.causes == runs[0].causes for run in runs)
    assert runs[0].causes
    other = explore(programs.LAPPED, schedules=40, seed=1000)
    assert [d.schedules for d in other.causes] != [d.schedules for d in runs[0].causes]


def test_planned_schedules() -> None:
    every = planned(100)
    assert len(every) == 100 == len(set(every))
    assert [s.policy for s in every[:3]] == ["early", "late", "late-newest"]
    assert {s.policy for s in every[3:]} == set(SEEDED)
    assert {s.depth for s in every if s.policy == "pct"} == {2, 3, 4, 5}
    assert planned(5, ["starve"], seed=7) == [Schedule("starve", seed) for seed in range(7, 12)]
    assert planned(9, ["late", "early"]) == [Schedule("early"), Schedule("late")]
    with pytest.raises(LaunchError, match="policy"):
        planned(3, ["replay"])


def test_progress_is_reported_and_an_error_of_the_launch_passes_through() -> None:
    told: list[tuple[str, int, int]] = []
    explore(programs.LAPPED, schedules=20, progress=lambda *what: told.append(what))
    assert [done for what, done, _ in told if what == "schedules"] == list(range(1, 21))
    assert [what for what, _, _ in told][-1] == "shrinking"

    def breaks(**how: Any) -> tuple[RunResult, dict[str, np.ndarray]]:
        if how["schedule"].policy == "pct":
            raise LaunchError("no launch", where="here")
        return programs.EACH_WAITED(**how)

    for processes in (1, 2):
        with pytest.raises(Exception, match="no launch"):
            explore(breaks, schedules=20, processes=processes)


def test_findings_of_the_race_checker_are_explored_too() -> None:
    result = explore(programs.LAST_WINS, schedules=8, races=True)
    assert any(cause.signature.code.startswith("race") for cause in result.causes)
    assert not explore(programs.ADDED, schedules=8, races=True).failed


def test_a_certified_launch_runs_once_and_any_other_as_often_as_planned() -> None:
    once = explore(programs.EACH_WAITED, schedules=8, races=True)
    assert once.covered and once.certificate and (once.schedules, once.planned) == (1, 1)
    assert once.policies == {"early": 1} and once.points and once.executed
    sampled = explore(programs.EACH_WAITED, schedules=8, races=True, sample=True)
    assert sampled.certificate and not sampled.covered and sampled.schedules == 8
    polling = explore(programs.POLLING, schedules=8, races=True)
    assert polling.certificate is not None and not polling.certificate and polling.schedules == 8
    assert explore(programs.EACH_WAITED, schedules=8).certificate is None
    given = explore(programs.EACH_WAITED, schedules=[Schedule("late")], races=True)
    assert given.schedules == 1 and given.policies == {"late": 1} and not given.covered
