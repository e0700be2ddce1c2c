"""Schedules in the format of the engine, and its record of the decisions that a replay reached."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tileproof.emulator.engine_types import EngineSchedule, RawHold
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.hang import WAITS, Names
from tileproof.emulator.reach import ProgramView
from tileproof.spec.machine.schedule import BASES, KINDS, POLICIES, BaseOrder, Hold, Schedule

# The build reads these words: those of `spec.machine.schedule`, whose types the engine does not see.
_POLICIES = enumeration("Policy", "early late random late-newest late-random starve pct replay")
_BASES = enumeration("CompletionOrder", "late early late-newest", names="LastOldest FirstOldest LastNewest")
_KINDS = enumeration("ActorKind", "w q s c", names="Warp Pipe Stores Copy", bits=8)
assert (_POLICIES, _BASES, _KINDS) == (POLICIES, BASES, KINDS)


def for_engine(schedule: Schedule, record: BaseOrder | None = None) -> EngineSchedule:
    """Return the fields of a schedule in the format of the engine; `record`: the base of its decisions."""
    pairs = np.array([tuple(hold) for hold in schedule.decisions], np.uint64)
    return {
        "depth": schedule.depth,
        "points": schedule.points,
        "environment": schedule.drawn_environment,
        "alone": schedule.alone,
        "together": schedule.drawn_initial_clusters,
        "base": BASES.index(schedule.base),
        "record": record is not None,
        "record_base": BASES.index(record or "late"),
        "decisions": pairs.tobytes(),
    }


@dataclass(frozen=True)
class HeldBack:
    """A decision that a replay reached: the actor that was held back, before which operation, and its
    interval.

    `start` and `end` count scheduling points; `end` None: it never moved again. `waited` names what a group
    of lanes had waited for where it was held back after that wait was over; `barrier` is the mbarrier's byte
    offset in the CTA's shared memory, or the number of a named barrier. `at` is PTX line and source in words;
    `others`: the grid has several clusters; `visible`: the instruction is the operation that waits, not one
    before it.
    """

    hold: Hold
    cta: tuple[int, int, int]
    rank: int
    others: bool
    ptx_line: int
    at: str
    instruction: str
    visible: bool
    engine: str
    waited: str
    barrier: int | None
    phase: int | None
    start: int
    end: int | None

    def text(self, names: Names | None = None) -> str:
        """Return the decision as a sentence."""
        names = names or Names()
        who = names.warp(self.rank, self.hold.warp)
        who += f" (CTA {','.join(map(str, self.cta))} of the grid)" if self.others else ""
        if self.hold.kind == "w":
            who += f" (lanes from {self.hold.lane})" if self.hold.lane else ""
            if self.hold.gives_up and self.barrier is not None:
                barrier = names.mbarrier(self.rank, self.barrier)
                return f"{who} tries {barrier} once: {self.instruction} at {self.at} returns false"
            if self.waited == "mbarrier" and self.barrier is not None and self.phase is not None:
                phase = names.phase(self.barrier, self.phase - 1)
                who += f", its wait for {phase} of {names.mbarrier(self.rank, self.barrier)} over,"
            elif self.waited == "named":
                who += f", its wait at named barrier {self.barrier} over,"
            what = (
                f"{who} is held back "
                + (f"before {self.instruction} " if self.visible else "")
                + f"at {self.at}"
            )
        else:
            number = self.hold.serial if self.hold.kind == "c" else self.hold.step
            half = "the write to global memory of " if self.hold.kind == "c" and self.hold.step else ""
            issued = f"issued at {self.at}, does not complete"
            what = f"{half}{self.engine} number {number} of {who}, {issued}"
        return what + (
            " before the end" if self.end is None else f" for {self.end - self.start - 1} moves of others"
        )


def held_back(
    raw: list[RawHold], view: ProgramView, grid: tuple[int, int, int], cluster: tuple[int, int, int]
) -> tuple[HeldBack, ...]:
    """Convert the engine's record of the decisions that a replay reached."""
    found = []
    for data in raw:
        hold = Hold(data["actor"], data["step"])
        cta = (hold.cta % grid[0], hold.cta // grid[0] % grid[1], hold.cta // (grid[0] * grid[1]))
        x, y, z = (at % size for at, size in zip(cta, cluster, strict=True))
        found.append(
            HeldBack(
                hold=hold,
                cta=cta,
                rank=x + cluster[0] * (y + cluster[1] * z),
                others=grid != cluster,
                ptx_line=view.line(data["pc"]),
                at=view.at(data["pc"]),
                instruction=view.instruction(data["pc"]),
                visible=data["visible"],
                engine=data["engine"],
                waited=WAITS[data["wait"]],
                barrier=data["barrier"] if data["barrier"] >= 0 else None,
                phase=data["phase"] if data["phase"] >= 0 else None,
                start=data["from"],
                end=data["to"] or None,
            )
        )
    return tuple(found)


def decisions_of(raw: bytes) -> tuple[Hold, ...]:
    """Return the recorded decisions."""
    pairs = np.frombuffer(raw, dtype=np.uint64).reshape(-1, 2).tolist()
    return tuple(Hold(actor, step) for actor, step in pairs)
