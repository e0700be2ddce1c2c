"""Reads the output of tileproof_log.cuh: no heuristics, and missing lines are detected by their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.log import Actor, Kind, Log, LogEvent

MARK = "tp1 "
_LINE = re.compile(
    r"tp1 (?P<group>\d+) (?P<cta>\d+)/(?P<ctas>\d+) (?P<role>\S+) (?P<number>\d+) "
    r"(?:end|k=(?P<k>-?\d+) (?P<verb>init|wait|pass|arrive|expect|copy) (?P<barrier>\S+)\[(?P<stage>-?\d+)\] "
    r"(?:count|p|n|tx)=(?P<value>\d+) to=(?P<to>\d+))\s*$"
)
_KINDS: dict[str, Kind] = {
    "wait": "wait",
    "pass": "done",
    "arrive": "arrive",
    "expect": "arrive",
    "copy": "copy",
}


def is_printed(members: Sequence[tuple[int, str]]) -> bool:
    """Whether any of these lines was printed by tileproof_log.cuh."""
    return any(MARK in text for _, text in members)


@dataclass(frozen=True)
class PrintedRun:
    """The numbered lines of a run; `title` is empty if there is only one run."""

    title: str
    members: Sequence[tuple[int, str]]


def printed_runs(name: str, members: Sequence[tuple[int, str]]) -> list[PrintedRun]:
    """The runs of a stream: a role that begins again at number 0 begins a new run."""
    edges = [0]
    last: dict[tuple[str, ...], int] = {}
    for at, (_, text) in enumerate(members):
        found = _LINE.match(text, max(text.find(MARK), 0))
        if found is None:
            continue
        who, number = (found["group"], found["cta"], found["role"]), int(found["number"])
        if number == 0 and last.get(who, 0) > 0:
            edges.append(at)
            last.clear()
        last[who] = number
    parts = [members[first:end] for first, end in pairwise([*edges, len(members)])]
    return [
        PrintedRun(" ".join(filter(None, (name, f"run {number}" if len(parts) > 1 else ""))), part)
        for number, part in enumerate(parts, 1)
    ]


def read_printed(log: Log, run: PrintedRun) -> Log:
    """`log` with the events of the header's lines of a run; others are left unread."""
    members, log.title = run.members, run.title
    numbers: dict[Actor, list[int]] = {}
    torn = 0
    for line, text in members:
        at = text.find(MARK)
        found = _LINE.match(text, at) if at >= 0 else None
        if found is None:
            if text.strip():
                log.unread.append(line)
            torn += at >= 0
            continue
        actor = Actor(int(found["group"]), found["role"], int(found["cta"]))
        numbers.setdefault(actor, []).append(int(found["number"]))
        verb = found["verb"]
        if verb is None:
            log.notes.append((line, actor, None))
            continue
        place = found["barrier"], int(found["stage"])
        value = int(found["value"])
        if verb == "init":
            log.counts[actor.group, actor.cta, *place] = value
            continue
        log.names[place[0]] = place[0]
        k = int(found["k"])
        waits = verb in ("wait", "pass")
        log.events.append(
            LogEvent(
                line,
                actor,
                _KINDS[verb],
                place[0],
                place[1],
                k if k >= 0 else None,
                value if waits else None,
                bytes=verb == "expect",
                size=value if verb in ("expect", "copy") else 0,
                to=int(found["to"]),
                count=value if verb == "arrive" else 1,
            )
        )
    _complete(log, numbers, torn)
    return log


def _complete(log: Log, numbers: dict[Actor, list[int]], torn: int) -> None:
    """Whether every line of every role is there, by their numbers."""
    missing = {actor: sorted({*range(max(some) + 1)} - {*some}) for actor, some in numbers.items()}
    twice = [actor for actor, some in numbers.items() if len({*some}) < len(some)]
    gone = {actor: some for actor, some in missing.items() if some}
    if twice:
        names = ", ".join(map(str, twice[:4]))
        log.remarks.append(
            f"{names}: several threads print as the same role; print from a single thread per role"
        )
    for actor, some in list(gone.items())[:4]:
        log.remarks.append(f"{len(some)} lines of {actor} are missing, the first is its number {some[0]}")
    log.head_missing = any(some[0] == 0 for some in gone.values())
    log.gaps = bool(gone or twice or torn)
    log.exact = not log.gaps
