"""The model of a printf log: its lines, its actors, and the events (wait, done, arrive) of each actor."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tileproof.spec.machine.errors import TileproofError

GRID = 1 << 12  # CTAs that a mask of an arrival may name
MAX_BYTES = 64 << 20
EXAMPLES = 5
LONG = 4096  # characters of a line that are read; what is longer is no line of a printf
Kind = Literal["wait", "done", "arrive", "copy"]
# What a role waits on: an mbarrier, a barrier of a CTA's threads, the cluster barrier, or an allocation.
Scope = Literal["mbarrier", "cta", "cluster", "tmem"]
OWN = -1
PEER = -2  # the cluster's other CTA, until the log is read and its number is known

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


UNKNOWN_CTA = 1 << 20  # and above: CTAs that are told apart though the log does not name them


def cta_text(cta: int) -> str:
    """A CTA's rank, or a letter for a CTA that the log does not name."""
    if cta < UNKNOWN_CTA:
        return f"CTA {cta}"
    rank = cta - UNKNOWN_CTA
    return f"CTA {chr(ord('A') + rank)}" if rank < 26 else f"CTA number {rank + 1}"


class Actor(NamedTuple):
    """A role in a CTA of a cluster, as the log names them; CTA -1: the log names no CTA."""

    group: int
    role: str
    cta: int

    def __str__(self) -> str:
        cluster = f"cluster {self.group} " if self.group else ""
        return cluster + (f"{cta_text(self.cta)} " if self.cta >= 0 else "") + self.role


def ctas_of(mask: int) -> list[int]:
    """The ranks of a mask."""
    return [cta for cta in range(mask.bit_length()) if mask >> cta & 1] if mask > 0 else []


@dataclass(slots=True, eq=False)
class LogEvent:
    """An event that an actor printed; `loose`: inferred from surrounding words, without a clear verb."""

    line: int
    actor: Actor
    kind: Kind
    barrier: str
    stage: int | None = None
    k: int | None = None
    phase: int | None = None
    loose: bool = False
    bytes: bool = False
    size: int = 0  # bytes announced, or bytes of a copy; 0: unknown
    to: int = 0  # a mask of the CTAs that an arrival reaches; 0: unknown
    count: int = 1  # of arrivals
    owner: int = OWN  # the CTA that owns the barrier that a wait tests, where it is not the actor's own
    scope: Scope = "mbarrier"

    @property
    def cta(self) -> int:
        """The CTA that owns the barrier of a wait; -1: unknown."""
        return self.actor.cta if self.owner == OWN else self.owner

    def reaches(self, cta: int) -> bool:
        """Whether an arrival reaches the barrier of `cta`, as far as the log shows."""
        return self.to == 0 or not 0 <= cta < GRID or bool(self.to >> cta & 1)


@dataclass
class Log:
    """A parsed log. `lines`: the texts by number from 1; `unread`: the lines that gave no event; `host`:
    those of them that the host printed before or after the kernel's lines.

    `runs`: if the file holds several runs or ranks, the log of each (they share `lines`); `title` names the
    run. `head_missing`: the first lines are missing; `cut`: the last line is truncated. `merged`: roles of
    several CTAs print under the same name. `half_read`: lines that mention a wait or an arrival whose
    barrier or actor is unknown. `snapshot`: the log shows the places of warps, without history; `reports`:
    what synccheck reports at a line. `moved`: the lines of rows that were read in another order.
    """

    path: str
    lines: list[str]
    events: list[LogEvent] = field(default_factory=list)
    notes: list[tuple[int, Actor, int | None]] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    host: set[int] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    head_missing: bool = False
    merged: bool = False
    cut: bool = False
    half_read: int = 0
    exact: bool = False
    inferred: bool = False  # the meanings of its lines were learned from their order
    ordered: bool = False  # of those: which lines begin and end waits
    snapshot: bool = False
    reports: dict[int, str] = field(default_factory=dict)
    gaps: bool = False
    counts: dict[tuple[int, int, str, int], int] = field(default_factory=dict)
    title: str = ""
    runs: list[Log] = field(default_factory=list)
    moved: dict[int, int] = field(default_factory=dict)

    def name(self, barrier: str) -> str:
        """The barrier as the log spells it most often."""
        return self.names.get(barrier, barrier)

    def rename(self, of: Callable[[Actor], Actor]) -> None:
        """Give the actors of all events and notes the names that `of` has for them."""
        for event in self.events:
            event.actor = of(event.actor)
        self.notes = [(line, of(actor), k) for line, actor, k in self.notes]


def load(path: Path) -> str:
    """Return the text of the log in `path` ("-": standard input).

    Raises TileproofError if it cannot be read, is too large or is not text.
    """
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TileproofError(
            "the log cannot be read",
            where=str(path),
            found=getattr(error, "strerror", None) or str(error),
            do="give the text output of the run or the build",
        ) from None
    if len(data) > MAX_BYTES:
        raise TileproofError(
            "the log is too large",
            where=str(path),
            expected=f"at most {MAX_BYTES >> 20} MiB",
            found="a larger file",
            do="keep its end, where the hang is, or the part with the first errors",
        )
    return _decode(data, str(path))


def _decode(data: bytes, path: str) -> str:
    if not data.strip():
        raise TileproofError(
            "the log is empty", where=path, do="give the text that the kernel's printf or the build printed"
        )
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, errors="replace")
    strange = len(_CONTROL.findall(text[: 1 << 16]))
    if strange > 0.05 * len(text[: 1 << 16]):
        raise TileproofError(
            "the log is not text",
            where=path,
            expected="output of a kernel's printf or of a build",
            found=f"{strange} control or undecodable characters at its beginning",
            do="give the text log, not a binary trace or a core file",
        )
    return text
