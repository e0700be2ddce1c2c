"""The lines of a log by a user's templates: the steps of each role, and the counts of a dump."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tileproof.conformance.beside.logs.hangs.accounts.loops import StatedLoop
from tileproof.conformance.beside.logs.hangs.log import Actor

StepKind = Literal["wait", "arrive", "copy", "end"]


class Copy(NamedTuple):
    """A barrier: its name, stage (-1: none), and the CTA and cluster in which it lies (-1: not printed)."""

    group: int
    barrier: str
    stage: int
    owner: int

    def __str__(self) -> str:
        stage = f"[{self.stage}]" if self.stage >= 0 else ""
        return self.barrier + stage + (f" in CTA {self.owner}" if self.owner >= 0 else "")


@dataclass(eq=False)
class LoggedStep:
    """A wait, an arrival of `count` threads, a copy, or the end of a role. `to`: the barriers it concerns,
    several for a multicast. `passed`: the wait ended. `turn`: the round of its role, counted over all
    tiles where `k` begins again in each.
    """

    line: int
    kind: StepKind
    to: tuple[Copy, ...] = ()
    phase: int | None = None
    k: int | None = None
    count: int = 1
    bytes: int = 0
    passed: bool = False
    end: int = 0
    ends: int = 0  # lines that end it: of several threads
    turn: int | None = None
    lone: bool = False  # a wait of which only the end is printed


@dataclass
class CopyState:
    """Of a dump: phases completed, arrivals and bytes that the current phase lacks; None: not printed."""

    line: int
    completed: int | None = None
    pending: int | None = None
    tx_left: int | None = None


@dataclass
class LogTrace:
    """`inits`: arrivals of a phase. `passed`, `arrived`, `announced`, `landed`: a dump's counts, of
    waits, arrivals and bytes. `ended`: the lines of roles' ends.

    `feeds`: roles that arrive on a barrier, as the log states them; `senders`: with their CTAs.
    `loops`: what roles do in a round, as the log states it.
    `dump`: the counts are of a dump, and the steps are only the waits at the end. `headless`: the first
    lines are missing, those of the roles of `cut`, or of any.
    """

    steps: dict[Actor, list[LoggedStep]] = field(default_factory=dict)
    inits: dict[Copy, int] = field(default_factory=dict)
    states: dict[Copy, CopyState] = field(default_factory=dict)
    passed: dict[tuple[Actor, Copy], int] = field(default_factory=dict)
    arrived: dict[tuple[Actor, Copy], int] = field(default_factory=dict)
    passed_in_all: dict[tuple[Actor, Copy], int] = field(default_factory=dict)  # stages of a barrier
    announced: dict[tuple[Actor, Copy], int] = field(default_factory=dict)
    landed: dict[tuple[Actor, Copy], int] = field(default_factory=dict)
    feeds: dict[Copy, set[str]] = field(default_factory=dict)
    senders: dict[Copy, set[tuple[str, int]]] = field(default_factory=dict)
    shared: set[Copy] = field(default_factory=set)  # the roles of all CTAs of a cluster arrive on them
    merged: dict[Actor, int] = field(default_factory=dict)  # threads that print under one name
    ended: dict[Actor, int] = field(default_factory=dict)
    rounds: dict[Actor, int] = field(default_factory=dict)
    lines_of: dict[Actor, int] = field(default_factory=dict)
    loops: list[StatedLoop] = field(default_factory=list)
    dump: bool = False
    headless: bool = False
    cut: set[Actor] = field(default_factory=set)
    prints_ends: bool = False

    def is_cut(self, actor: Actor) -> bool:
        """Whether the first lines of an actor may be missing."""
        return self.headless and (not self.cut or actor in self.cut)

    def init(self, copy: Copy) -> int:
        """Arrivals of a phase; 0: not printed."""
        whole = copy._replace(group=0, stage=-1)  # a line about all stages
        each = copy._replace(group=0)
        for place in (copy, each, each._replace(owner=-1), whole, whole._replace(owner=-1)):
            if place in self.inits:
                return self.inits[place]
        return 0

    def blocked(self, actor: Actor) -> LoggedStep | None:
        """The wait in which a role is at the end."""
        some = [step for step in self.steps[actor] if step.kind in ("wait", "arrive", "end")]
        return some[-1] if some and some[-1].kind == "wait" and not some[-1].passed else None
