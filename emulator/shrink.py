"""Shrinks a schedule that shows a finding to the fewest decisions over a deterministic base.

Delta debugging (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002) over
the recorded decisions; each try is one launch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Unpack

from tileproof.emulator.hang import Names
from tileproof.emulator.options import LaunchKeywords, RunKeywords
from tileproof.emulator.result import RunResult
from tileproof.emulator.schedule import HeldBack
from tileproof.emulator.schedule_run import ScheduleRunner, Signature
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import BASES, BaseOrder, Hold, Policy, Schedule

_FIXED: tuple[Policy, ...] = ("early", "late", "late-newest")
_FEW: tuple[Policy, ...] = ("replay", "starve", "pct", "late-random", "random")  # few decisions come first
_STARTS = 3  # recorded schedules that are made smaller; the smallest result counts
_SEVERAL = 7  # from so few decisions on, every subset is tried
_SINGLES = 64  # actors of which it is tried whether holding back that one alone is enough
_MANY = 2000  # with more decisions than that, a policy that takes few is tried first
_OTHERS = 40  # schedules of that policy
_WORDS: dict[BaseOrder, str] = {
    "late": "warps run in turn until they must wait; when none can, the oldest operation completes",
    "late-newest": "warps run in turn until they must wait; when none can, the newest operation completes",
    "early": "warps run in turn until they must wait; every operation completes before a warp goes on",
}


@dataclass(frozen=True)
class Shrunk:
    """A small schedule that shows `finding` (None: no schedule showed it again). `recorded` decisions were
    shrunk in `tries` launches; `minimal`: the finding needs each decision that is left.
    """

    signature: Signature
    schedule: Schedule
    held_back: tuple[HeldBack, ...]
    finding: Finding | None
    recorded: int
    tries: int
    minimal: bool

    def lines(self, names: Names | None = None) -> list[str]:
        """The schedule in words: its base, then a decision a line."""
        if self.schedule.policy == "early":
            return ["warps run in turn until they must wait; every operation completes as it is issued"]
        if self.schedule.policy in _FIXED:
            return [_WORDS[self.schedule.policy]]  # type: ignore[index]
        if self.schedule.policy != "replay":
            return [f"as the policy {self.schedule.policy} chooses from its seed"]
        return [_WORDS[self.schedule.base], *(held.text(names) for held in self.held_back)]


class _Search:
    def __init__(
        self, runner: ScheduleRunner, signature: Signature, seconds: float, how: LaunchKeywords
    ) -> None:
        self.runner, self.signature, self.how = runner, signature, how
        self.deadline = time.process_time() + seconds
        self.tries = 0

    @property
    def over(self) -> bool:
        return time.process_time() > self.deadline

    def shows(self, schedule: Schedule) -> RunResult | None:
        """The run's result when it has the finding."""
        self.tries += 1
        outcome, result = self.runner.run(schedule, **self.how)
        return result if any(seen.signature == self.signature for seen in outcome.seen) else None

    def recorded(self, schedule: Schedule, base: BaseOrder) -> Schedule:
        """A run under `schedule` as its decisions beside `base`."""
        how: RunKeywords = {**self.how, "schedule": schedule, "record": base}
        result, _ = self.runner.launch(**how)
        return schedule.replayed(result.decisions, base)

    def reproduced(self, like: Schedule, holds: Sequence[Hold]) -> tuple[Hold, ...] | None:
        """The decisions that the replay came to when it has the finding."""
        result = self.shows(replace(like, decisions=tuple(holds)))
        return None if result is None else tuple(held.hold for held in result.held_back)

    def minimise(self, start: Schedule) -> tuple[Schedule, bool]:
        """The replay with fewer decisions; true if none can be removed."""
        like, holds = start, start.decisions
        plain = replace(like, environment=0)
        if plain != like and self.reproduced(plain, holds) is not None:
            like = plain
        holds = self._single(like, self._prefix(like, holds))
        # Before the first try of a wait rather than after it: that does not depend on who was late before.
        first = tuple(Hold(h.actor, h.step & ~255) if h.kind == "w" else h for h in holds)
        if (
            first != holds
            and (fewer := self.reproduced(like, first)) is not None
            and len(fewer) <= len(holds)
        ):
            holds = fewer
        holds, minimal = self._ddmin(like, holds)
        if minimal and 2 <= len(holds) <= _SEVERAL:
            holds = self._least(like, holds)
        return replace(like, decisions=holds), minimal

    def _prefix(self, like: Schedule, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        """What came after the finding does not matter; found by halving, as if it were monotonic."""
        low, high = 0, len(holds)
        while low < high and not self.over:
            middle = (low + high) // 2
            if (fewer := self.reproduced(like, holds[:middle])) is not None:
                holds, high = fewer, min(middle, len(fewer))
            else:
                low = middle + 1
        return holds

    def _single(self, like: Schedule, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        """One actor held back from its first decision on, when that alone shows the finding; else `holds`."""
        first = {hold.actor: hold for hold in reversed(holds)}
        for hold in sorted(first.values(), key=holds.index, reverse=True)[:_SINGLES]:
            if len(holds) <= _SEVERAL or self.over:
                break
            if (fewer := self.reproduced(like, [hold])) is not None:
                return fewer
        return holds

    def _least(self, like: Schedule, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        """The smallest subset that shows the finding; subsets with a single decision removed are known not
        to."""
        for size in range(len(holds) - 1):
            for some in combinations(holds, size):
                if self.over:
                    return holds
                if self.reproduced(like, some) is not None:
                    return some
        return holds

    def _ddmin(self, like: Schedule, holds: tuple[Hold, ...]) -> tuple[tuple[Hold, ...], bool]:
        parts = 2
        while holds:
            size = -(-len(holds) // parts)
            for at in range(0, len(holds), size):
                if self.over:
                    return holds, False
                if (fewer := self.reproduced(like, holds[:at] + holds[at + size :])) is not None:
                    holds, parts = fewer, max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    return holds, True
                parts = min(parts * 2, len(holds))
        return holds, True


def shrink(
    runner: ScheduleRunner,
    signature: Signature,
    schedules: Sequence[Schedule],
    *,
    seconds: float = 20.0,
    **how: Unpack[LaunchKeywords],
) -> Shrunk:
    """The smallest schedule found that shows `signature`, starting from `schedules`, which do.

    Ends after `seconds` of CPU time with the best result so far.
    """
    search = _Search(runner, signature, seconds, how)
    for policy in _FIXED:
        if any(s.policy == policy for s in schedules) and search.shows(Schedule(policy)):
            return _result(search, Schedule(policy), 0, True)
    best: tuple[Schedule, int, bool] | None = None
    for start in _recorded(search, schedules)[:_STARTS]:
        if best is not None and search.over:
            break
        small, minimal = search.minimise(start)
        if best is None or len(small.decisions) < len(best[0].decisions):
            best = small, len(start.decisions), minimal
        if len(small.decisions) <= 1:
            break
    return _result(search, *(best or (schedules[0], 0, False)))


def _recorded(search: _Search, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Replays that do what the schedules did, those with the fewest decisions first."""
    found: list[Schedule] = []
    for schedule in sorted(schedules, key=lambda s: _FEW.index(s.policy))[: 2 * _STARTS]:
        if schedule.policy == "replay":
            found.append(schedule)
            continue
        for base in BASES:
            found.append(search.recorded(schedule, base))
            search.tries += 1
    if found and min(len(s.decisions) for s in found) > _MANY:
        found += _others(search)
    return sorted(found, key=lambda s: len(s.decisions))


def _others(search: _Search) -> list[Schedule]:
    """A replay of a "pct" schedule that also shows the finding, if a few seeds find it."""
    points = search.runner.launch(schedule=Schedule("late"), **search.how)[0].counters.schedule_points
    for seed in range(_OTHERS):
        schedule = Schedule("pct", seed, 2 + seed % 3, max(points, 1))
        if search.shows(schedule) is not None:
            return [search.recorded(schedule, "late")]
    return []


def _result(search: _Search, schedule: Schedule, recorded: int, minimal: bool) -> Shrunk:
    outcome, result = search.runner.run(schedule, **search.how)
    found = next((seen.finding for seen in outcome.seen if seen.signature == search.signature), None)
    return Shrunk(
        search.signature,
        schedule,
        result.held_back,
        found,
        recorded,
        search.tries,
        minimal and found is not None,
    )
