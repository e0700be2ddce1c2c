"""What a printf log is: its lines, the actors that it names, and the events (wait, done, arrive) of each."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tileproof.spec.machine.errors import TileproofError

MAX_BYTES = 64 << 20
EXAMPLES = 5
Kind = Literal["wait", "done", "arrive", "copy"]

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


UNKNOWN_CTA = 1 << 20  # and above: CTAs that are told apart though the log does not name them


def cta_text(cta: int) -> str:
    """A CTA's rank, or a letter for one that the log does not name."""
    if cta < UNKNOWN_CTA:
        return f"CTA {cta}"
    rank = cta - UNKNOWN_CTA
    return f"CTA {chr(ord('A') + rank)}" if rank < 26 else f"CTA number {rank + 1}"


class Actor(NamedTuple):
    """One role in one CTA of one cluster, as the log names them; CTA -1: the log names none."""

    group: int
    role: str
    cta: int

    def __str__(self) -> str:
        cluster = f"cluster {self.group} " if self.group else ""
        return cluster + (f"{cta_text(self.cta)} " if self.cta >= 0 else "") + self.role


@dataclass(slots=True, eq=False)
class LogEvent:
    """One thing that an actor said; `loose`: read from the words around it, without a clear verb."""

    line: int
    actor: Actor
    kind: Kind
    barrier: str
    stage: int | None = None
    k: int | None = None
    phase: int | None = None
    loose: bool = False
    bytes: bool = False
    size: int = 0  # of the bytes announced, or of a copy; 0: not told
    to: int = 0  # a mask of the CTAs that an arrival reaches; 0: not told
    count: int = 1  # of arrivals


@dataclass
class Log:
    """What was read. `lines` are the texts by number from 1; `unread` those that gave nothing.

    `runs`: where the file holds several runs or ranks, the log of each (they share `lines`); `title` says
    which one this is. `head_missing`: the first lines are gone, `cut`: the last one is cut. `merged`: roles
    of several CTAs speak as one. `half_read`: lines that speak of a wait or an arrival and could not be
    placed.
    """

    path: str
    lines: list[str]
    events: list[LogEvent] = field(default_factory=list)
    notes: list[tuple[int, Actor, int | None]] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    head_missing: bool = False
    merged: bool = False
    cut: bool = False
    half_read: int = 0
    exact: bool = False
    gaps: bool = False
    counts: dict[tuple[int, int, str, int], int] = field(default_factory=dict)
    title: str = ""
    runs: list[Log] = field(default_factory=list)

    def name(self, barrier: str) -> str:
        """The barrier as the log spells it most often."""
        return self.names.get(barrier, barrier)


def load(path: Path) -> str:
    """The text of the log in `path` ("-": standard input); TileproofError when it cannot be read, is too
    large or no text.
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
            do="give a text file that the run or the build printed",
        ) from None
    if len(data) > MAX_BYTES:
        raise TileproofError(
            "the log is too large",
            where=str(path),
            expected=f"at most {MAX_BYTES >> 20} MiB",
            found="more than that",
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
            expected="lines that a kernel's printf or a build made",
            found=f"{strange} control or undecodable characters at its beginning",
            do="give the text log, not a binary trace or a core file",
        )
    return text
