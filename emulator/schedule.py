"""Schedules: which warp or asynchronous operation moves next, as a policy or as a list of decisions.

A scheduling point lies before each operation that other threads or engines can tell of (memory, barriers,
asynchronous issue, exit). Between two of them a warp runs undisturbed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.hang import WAITS, Names
from tileproof.emulator.reach import ProgramView

Policy = Literal["early", "late", "random", "late-newest", "late-random", "starve", "pct", "replay"]
BaseOrder = Literal["late", "early", "late-newest"]
POLICIES: tuple[Policy, ...] = enumeration("Policy", Policy)
SEEDED: tuple[Policy, ...] = ("random", "late-random", "starve", "pct")
# Where completions stand among what can move, and which of them comes first.
BASES: tuple[BaseOrder, ...] = enumeration(
    "CompletionOrder", BaseOrder, names="LastOldest FirstOldest LastNewest"
)
KINDS = enumeration("ActorKind", "w q s c", names="Warp Pipe Stores Copy", bits=8)
GIVES_UP = 1 << 63  # in the step of a decision (engine/schedule.hpp)
_HOLD = re.compile(r"([wqsc])(\d+)\.(\d+)\.(\d+)(?:\.(\d+))?@(\d+)(?:\+(\d+))?(!)?")
_DEPTH, _POINTS = 3, 4096


class Hold(NamedTuple):
    """One decision of a replay: from `step` on, `actor` moves only when nothing else can; or, marked "!", its
    mbarrier.try_wait of that step returns false where it would be suspended.

    `actor` and `step` are packed as in engine/schedule.hpp. As text: kind, CTA, warp and lane, for a copy its
    number among those of its thread, `@` step, and for a group of lanes that had to wait `+` how often it
    had tried: "w3.5.0@41+1" is warp 5 of CTA 3 of the grid, before its 42nd visible operation, its wait over.
    """

    actor: int
    step: int

    @property
    def kind(self) -> str:
        """ "w" a group of lanes, "q" a tensor pipeline, "s" TMEM stores of a warp, "c" a copy."""
        return KINDS[self.actor >> 38 & 3]

    @property
    def cta(self) -> int:
        """The CTA's number in the grid, x fastest."""
        return self.actor >> 40

    @property
    def warp(self) -> int:
        """The warp, of an operation the one that issued it."""
        return self.actor >> 33 & 31

    @property
    def lane(self) -> int:
        """Lowest lane of the group, or the lane that issued."""
        return self.actor >> 28 & 31

    @property
    def serial(self) -> int:
        """Of a copy: how many copies its thread had issued before."""
        return self.actor & 0xFFFFFFF

    @property
    def gives_up(self) -> bool:
        """A try_wait that returns false."""
        return bool(self.step & GIVES_UP)

    def __str__(self) -> str:
        serial = f".{self.serial}" if self.kind == "c" or self.serial else ""
        step = self.step & ~GIVES_UP
        step, tries = (step >> 8, step & 255) if self.kind == "w" else (step, 0)
        return (
            f"{self.kind}{self.cta}.{self.warp}.{self.lane}{serial}@{step}"
            + (f"+{tries}" if tries else "")
            + ("!" if self.gives_up else "")
        )

    @classmethod
    def parse(cls, text: str) -> Hold:
        """The hold of `str(hold)`."""
        found = _HOLD.fullmatch(text.strip())
        groups_only = found is not None and (found[7] or found[8])
        if (
            found is None
            or (found[1] == "c" if found[5] is None else found[1] not in ("c", "q"))
            or (groups_only and found[1] != "w")
        ):
            raise LaunchError(
                "a decision of a schedule cannot be read",
                where="schedule",
                expected='a hold such as "w0.5.0@41" or "c0.3.0.7@0"',
                found=repr(text[:60]),
            )
        cta, warp, lane, serial, step, tries = (int(part or 0) for part in found.groups()[1:7])
        actor = cta << 40 | KINDS.index(found[1]) << 38 | warp << 33 | lane << 28 | serial
        if found[1] != "w":
            return cls(actor, step)
        return cls(actor, step << 8 | tries | (GIVES_UP if found[8] else 0))


@dataclass(frozen=True)
class Schedule:
    """When asynchronous operations complete and which warp runs next, among what is legal.

    A launch is a function of its inputs and its schedule.

    "early": each operation completes when issued.
    "late", "late-newest", "late-random": warps in turn, each until it must wait; an operation completes only
    when no warp can go on: the oldest, the newest, or by a priority drawn for its engine or instruction.
    "random": warps, clusters, completions and TMEM bases drawn from `seed`.
    "starve": one warp, CTA or asynchronous engine drawn from `seed` moves only when nothing else can;
    with every eighth seed one cluster of those that start together, where the grid has several.
    "pct": the priorities of Burckhardt et al., ASPLOS 2010, with `depth` - 1 changes among the first `points`
    scheduling points; a bug that `depth` ordered events make is met with probability at least
    1 / (actors * points^(depth - 1)).
    "replay": `base` ("late", "late-newest", or "early": completions before anything else) with `decisions`.
    `environment` seeds the order of clusters and the TMEM bases; 0: in order, first fit. "random" draws its
    own from `seed`. `together` clusters start at once; 0: as many as policy and environment draw.
    """

    policy: Policy = "early"
    seed: int = 0
    depth: int = _DEPTH
    points: int = _POINTS
    base: BaseOrder = "late"
    decisions: tuple[Hold, ...] = ()
    environment: int = 0
    together: int = 0

    def __str__(self) -> str:
        """One word from which `parse` makes an equal schedule."""
        fields = [f"seed={self.seed}"] if self.policy in SEEDED else []
        if self.policy == "pct":
            fields += [f"depth={self.depth}", f"points={self.points}"]
        if self.policy == "replay":
            fields += [f"base={self.base}"]
        fields += [f"environment={self.environment}"] if self.environment else []
        fields += [f"together={self.together}"] if self.together else []
        fields += [",".join(map(str, self.decisions))] if self.decisions else []
        return ":".join([self.policy, *fields])

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule of `str(schedule)`: "random:seed=7", "replay:base=late:w0.5.0@41,c0.3.0.7@0"."""
        policy, *parts = text.strip().split(":")
        schedule = cls(policy=policy)  # type: ignore[arg-type]
        for part in parts:
            name, equals, value = part.partition("=")
            if not equals:
                holds = tuple(Hold.parse(one) for one in part.split(",") if one)
                schedule = replace(schedule, decisions=schedule.decisions + holds)
            elif name in ("seed", "depth", "points", "environment", "together") and value.isdigit():
                schedule = replace(schedule, **{name: int(value)})  # type: ignore[arg-type]
            elif name == "base" and value in BASES:
                schedule = replace(schedule, base=value)  # type: ignore[arg-type]
            else:
                raise LaunchError(
                    "a schedule cannot be read", where=f"schedule {text[:60]!r}",
                    expected="seed, depth, points, environment, together, base or holds",
                    found=repr(part[:60]),
                )  # fmt: skip
        schedule.check()
        return schedule

    def check(self) -> None:
        """LaunchError when a field is out of range."""
        if self.policy not in POLICIES:
            raise LaunchError(
                "unknown schedule policy", expected=", ".join(POLICIES), found=repr(self.policy)
            )
        if self.base not in BASES:
            raise LaunchError("unknown base of a replay", expected=", ".join(BASES), found=repr(self.base))
        for name, least in (("depth", 1), ("points", 1), ("environment", 0), ("together", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value < 1 << 31:
                raise LaunchError(
                    f"{name} of a schedule",
                    expected=f"an integer from {least} to 2^31 - 1",
                    found=repr(value),
                )
        if self.decisions and self.policy != "replay":
            raise LaunchError(
                "only a replay follows decisions", expected='policy "replay"', found=repr(self.policy)
            )

    def replayed(self, decisions: Iterable[Hold], base: BaseOrder = "late") -> Schedule:
        """The replay in the same environment that follows `decisions`."""
        return Schedule(
            "replay",
            base=base,
            decisions=tuple(decisions),
            environment=self.drawn_environment,
            together=self.drawn_together,
        )

    @property
    def drawn_environment(self) -> int:
        """The environment's seed that the engine is given."""
        if self.policy != "random" or self.environment:
            return self.environment
        return (self.seed * 0x9E3779B1 + 0x7F4A7C15) % (1 << 31) or 1

    @property
    def drawn_together(self) -> int:
        """The clusters that start at once, as the engine is given them; 0: as the environment draws."""
        if self.together or self.policy != "starve" or self.seed % 8 != 7:
            return self.together
        return 2 + self.seed // 8 % 2

    def for_engine(self, record: BaseOrder | None = None) -> dict[str, Any]:
        """The fields as the engine reads them."""
        pairs = np.array([tuple(hold) for hold in self.decisions], dtype=np.uint64)
        return {
            "depth": self.depth,
            "points": self.points,
            "environment": self.drawn_environment,
            "together": self.drawn_together,
            "base": BASES.index(self.base),
            "record": record is not None,
            "record_base": BASES.index(record or "late"),
            "decisions": pairs.tobytes(),
        }


@dataclass(frozen=True)
class HeldBack:
    """A decision that a replay came to: who was held back before what, and from when to when.

    `start` and `end` count scheduling points; `end` None: it never moved again. `waited` names what a group
    of lanes had waited for where it was held back after that wait was over; `barrier` is the mbarrier's byte
    offset in the CTA's shared memory, or the number of a named one. `at` is PTX line and source in words;
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
        """One sentence."""
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
    raw: list[dict[str, Any]], view: ProgramView, grid: tuple[int, int, int], cluster: tuple[int, int, int]
) -> tuple[HeldBack, ...]:
    """The engine's record of the decisions that a replay came to."""
    found = []
    for one in raw:
        hold = Hold(one["actor"], one["step"])
        cta = (hold.cta % grid[0], hold.cta // grid[0] % grid[1], hold.cta // (grid[0] * grid[1]))
        x, y, z = (at % size for at, size in zip(cta, cluster, strict=True))
        found.append(
            HeldBack(
                hold=hold,
                cta=cta,
                rank=x + cluster[0] * (y + cluster[1] * z),
                others=grid != cluster,
                ptx_line=view.line(one["pc"]),
                at=view.at(one["pc"]),
                instruction=view.instruction(one["pc"]),
                visible=one["visible"],
                engine=one["engine"],
                waited=WAITS[one["wait"]],
                barrier=one["barrier"] if one["barrier"] >= 0 else None,
                phase=one["phase"] if one["phase"] >= 0 else None,
                start=one["from"],
                end=one["to"] or None,
            )
        )
    return tuple(found)


def decisions_of(raw: bytes) -> tuple[Hold, ...]:
    """The recorded decisions."""
    pairs = np.frombuffer(raw, dtype=np.uint64).reshape(-1, 2).tolist()
    return tuple(Hold(actor, step) for actor, step in pairs)
