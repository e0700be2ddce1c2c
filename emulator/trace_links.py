"""Links in a trace: each wait on an mbarrier with the event that completed its phase.

Also a shorter trace: the arrivals that the lanes of a warp make by one instruction as one event, and the
events of chosen warps and barriers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tileproof.emulator.trace import Event, Trace, TraceNames
from tileproof.spec.machine.errors import TileproofError, did_you_mean


@dataclass(frozen=True)
class Link:
    """A wait of a warp's lanes on an mbarrier. `end`: None when it is never over.

    by: the event that completed the awaited phase: `warp` of CTA `rank` arrived, or issued the operation that
    did; None when the phase never completed, or the trace lost it. op: that operation, 0 for an arrival.
    """

    begin: Event
    end: Event | None
    by: Event | None
    op: int


def merged_arrivals(events: Iterable[Event]) -> list[Event]:
    """The events, where a warp's arrivals by one instruction at one phase are a single event: lanes and
    values together."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if last is not None and event.kind == "arrive" and _alike(last, event):
            out[-1] = replace(last, lanes=last.lanes | _lane(event), value=last.value + event.value)
        elif event.kind == "arrive":
            out.append(replace(event, lanes=_lane(event)))
        else:
            out.append(event)
    return out


def _alike(first: Event, second: Event) -> bool:
    return all(
        getattr(first, name) == getattr(second, name)
        for name in ("kind", "time", "object", "cta", "warp", "barrier", "to_rank", "phase", "ptx_line", "op")
    )


def _lane(event: Event) -> int:
    return event.lanes or (1 << event.lane if event.lane >= 0 else 0)


def links(trace: Trace) -> list[Link]:
    """Each wait on an mbarrier of a trace, in the order in which they began."""
    waits: dict[tuple[object, ...], int] = {}
    found: list[tuple[Event, Event | None]] = []
    phases: dict[tuple[object, ...], tuple[Event, int]] = {}
    completing: list[tuple[tuple[object, ...], Event]] = []
    for event in trace:
        key: tuple[object, ...] = event.cta, event.warp, event.lane
        if completing and event.time != completing[0][1].time:
            completing.clear()
        if event.kind == "phase":
            phase = trace.cluster_of(event), event.to_rank, event.barrier, event.phase
            phases[phase] = event, 0
            completing.append((phase, event))
        elif event.engine and event.kind.endswith("complete"):
            for at, done in completing:
                if (done.cta, done.warp, done.lane, done.ptx_line) == (*key, event.ptx_line):
                    phases[at] = done, event.op
        elif event.object == "mbarrier" and event.kind == "wait":
            waits[key] = len(found)
            found.append((event, None))
        elif event.object == "mbarrier" and event.kind == "pass" and key in waits:
            at_wait = waits.pop(key)
            found[at_wait] = found[at_wait][0], event
    made = []
    for begin, end in found:
        by, op = phases.get((trace.cluster_of(begin), begin.rank, begin.barrier, begin.phase), (None, 0))
        made.append(Link(begin, end, by, op))
    return made


def chosen(trace: Trace, names: TraceNames, roles: Iterable[str], barriers: Iterable[str]) -> Trace:
    """The trace with the events of these roles and barriers only; no names, no choice.

    A role is a warp's name, with or without its number; a barrier is its name, without or with its stage. An
    operation stays when its issuer's role does and, where barriers are chosen, it acts on one of them. Raises
    TileproofError for a name that the trace does not have.
    """
    roles, barriers = list(roles), list(barriers)
    rows, known_roles, known_barriers = [], set(), set()
    touched = _operations(trace, names, barriers) if barriers else set()
    for index, event in enumerate(trace):
        role, barrier = names.warp(event.rank, event.warp), _barrier(event, names)
        known_roles.add(role.split(" (")[0])
        known_barriers |= {barrier.split("[")[0]} if barrier else set()
        if roles and not any(_is(role, asked, " (") for asked in roles):
            continue
        if barriers and not (
            any(_is(barrier, asked, "[") for asked in barriers) or (event.cta, event.op) in touched
        ):
            continue
        rows.append(index)
    for asked, known, what in ((roles, known_roles, "role"), (barriers, known_barriers, "barrier")):
        for wanted in asked:
            if not any(_is(name, wanted, " (") or _is(wanted, name, "[") for name in known):
                raise TileproofError(
                    f"no {what} of this name is in the trace",
                    where=wanted,
                    expected=", ".join(sorted(known)),
                    found=wanted,
                    do=did_you_mean(wanted, sorted(known)),
                )
    return trace.only(rows)


def _is(name: str, asked: str, before: str) -> bool:
    return name == asked or name.split(before)[0] == asked


def _barrier(event: Event, names: TraceNames) -> str:
    if event.object == "mbarrier" and event.barrier is not None:
        return names.mbarrier(event.barrier)
    return names.target(event) if event.object == "named barrier" else ""


def _operations(trace: Trace, names: TraceNames, barriers: list[str]) -> set[tuple[object, int]]:
    """The operations, with their CTAs, that arrive on or deliver to one of these barriers."""
    found: set[tuple[object, int]] = set()
    acted: list[Event] = []
    for event in trace:
        if acted and event.time != acted[0].time:
            acted.clear()
        if event.kind in ("arrive", "deliver") and any(
            _is(_barrier(event, names), asked, "[") for asked in barriers
        ):
            acted.append(event)
        elif event.engine and event.kind.endswith("complete"):
            here = (event.cta, event.warp, event.lane, event.ptx_line)
            if any((act.cta, act.warp, act.lane, act.ptx_line) == here for act in acted):
                found.add((event.cta, event.op))
    return found


def label(link: Link, names: TraceNames, warp: Callable[[int, int], str] | None = None) -> str:
    """Who a wait waited for: `load of rank 0, TMA load`, or why that is not known."""
    if link.by is None:
        return "nothing completed it" if link.end is None else "completed before, or not in this trace"
    who = (warp or names.warp)(link.by.rank, link.by.warp)
    return f"{who} of rank {link.by.rank}" if link.by.rank != link.begin.rank else who
