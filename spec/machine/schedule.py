"""Schedules: which warp or asynchronous operation moves next, as a policy or as a list of decisions.

A scheduling point precedes each operation that other threads or engines can observe (memory, barriers,
asynchronous issue, exit). Between two scheduling points a warp runs without interruption.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from tileproof.spec.machine.errors import LaunchError, did_you_mean

Policy = Literal["early", "late", "random", "late-newest", "late-random", "starve", "pct", "replay"]
BaseOrder = Literal["late", "early", "late-newest"]
ActorKind = Literal["w", "q", "s", "c"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
SEEDED: tuple[Policy, ...] = ("random", "late-random", "starve", "pct")  # policies that take a seed
# Where completions stand among what can move, and which of them comes first.
BASES: tuple[BaseOrder, ...] = get_args(BaseOrder)
KINDS: tuple[ActorKind, ...] = get_args(ActorKind)
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
        """The warp, or the warp that issued the operation."""
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
        """Parse `str(hold)`; raises LaunchError for other text."""
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
    """A legal choice of when asynchronous operations complete and which warp runs next.

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
    own from `seed`. `alone`: its TMEM bases are those of a processor that no other kernel uses.
    `initial_clusters` clusters start at once; 0: as many as policy and environment draw.
    """

    policy: Policy = "early"
    seed: int = 0
    depth: int = _DEPTH
    points: int = _POINTS
    base: BaseOrder = "late"
    decisions: tuple[Hold, ...] = ()
    environment: int = 0
    initial_clusters: int = 0
    alone: bool = False

    def __str__(self) -> str:
        """One word from which `parse` makes an equal schedule."""
        fields = [f"seed={self.seed}"] if self.policy in SEEDED else []
        if self.policy == "pct":
            fields += [f"depth={self.depth}", f"points={self.points}"]
        if self.policy == "replay":
            fields += [f"base={self.base}"]
        fields += [f"environment={self.environment}"] if self.environment else []
        fields += [f"initial_clusters={self.initial_clusters}"] if self.initial_clusters else []
        fields += ["alone=1"] if self.alone else []
        fields += [",".join(map(str, self.decisions))] if self.decisions else []
        return ":".join([self.policy, *fields])

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule of `str(schedule)`: "random:seed=7", "replay:base=late:w0.5.0@41,c0.3.0.7@0".
        LaunchError for other text.
        """
        policy, *parts = text.strip().split(":")
        schedule = cls(policy=policy)  # type: ignore[arg-type]
        for part in parts:
            name, equals, value = part.partition("=")
            if not equals:
                holds = tuple(Hold.parse(hold) for hold in part.split(",") if hold)
                schedule = replace(schedule, decisions=schedule.decisions + holds)
            elif name in ("seed", "depth", "points", "environment", "initial_clusters") and value.isdigit():
                schedule = replace(schedule, **{name: int(value)})  # type: ignore[arg-type]
            elif name == "alone" and value in ("0", "1"):
                schedule = replace(schedule, alone=value == "1")
            elif name == "base" and value in BASES:
                schedule = replace(schedule, base=value)  # type: ignore[arg-type]
            else:
                raise LaunchError(
                    "a schedule cannot be read", where=f"schedule {text[:60]!r}",
                    expected="seed, depth, points, environment, initial_clusters, alone, base or holds",
                    found=repr(part[:60]),
                )  # fmt: skip
        schedule.check()
        return schedule

    def check(self) -> None:
        """LaunchError when a field is out of range."""
        if not isinstance(self.policy, str) or self.policy not in POLICIES:
            raise LaunchError(
                "unknown schedule policy", expected=", ".join(POLICIES), found=repr(self.policy),
                do=did_you_mean(str(self.policy), POLICIES),
            )  # fmt: skip
        if not isinstance(self.base, str) or self.base not in BASES:
            raise LaunchError("unknown base of a replay", expected=", ".join(BASES), found=repr(self.base))
        for name, least in (("depth", 1), ("points", 1), ("environment", 0), ("initial_clusters", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value < 1 << 31:
                raise LaunchError(
                    f"{name} of a schedule is out of range",
                    expected=f"an integer from {least} to 2^31 - 1",
                    found=repr(value),
                )
        if not isinstance(self.alone, bool):
            raise LaunchError(
                "alone of a schedule is out of range", expected="True or False", found=repr(self.alone)
            )
        if not isinstance(self.seed, int):
            raise LaunchError("the seed of a schedule is not an integer", found=repr(self.seed))
        if not isinstance(self.decisions, tuple) or not all(isinstance(d, Hold) for d in self.decisions):
            raise LaunchError("the decisions of a schedule are a tuple of Hold", found=repr(self.decisions))
        if self.decisions and self.policy != "replay":
            raise LaunchError(
                "only a replay can have decisions", expected='policy "replay"', found=repr(self.policy)
            )

    def replayed(self, decisions: Iterable[Hold], base: BaseOrder = "late") -> Schedule:
        """Return the replay of `decisions` in the same environment."""
        return Schedule(
            "replay",
            base=base,
            decisions=tuple(decisions),
            environment=self.drawn_environment,
            initial_clusters=self.drawn_initial_clusters,
            alone=self.alone,
        )

    @property
    def drawn_environment(self) -> int:
        """The seed of the environment that is passed to the engine."""
        if self.policy != "random" or self.environment:
            return self.environment
        return (self.seed * 0x9E3779B1 + 0x7F4A7C15) % (1 << 31) or 1

    @property
    def drawn_initial_clusters(self) -> int:
        """The clusters that start at once, as the engine is given them; 0: as the environment draws."""
        if self.initial_clusters or self.policy != "starve" or self.seed % 8 != 7:
            return self.initial_clusters
        return 2 + self.seed // 8 % 2
