"""A trace in the Chrome trace event format (the "JSON Object Format" of its specification)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tileproof.emulator.trace import Event, Trace, TraceNames
from tileproof.emulator.trace_links import label, links, merged_arrivals
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import JsonObject

# Track numbers of a CTA's engines start here: above every warp.
_ENGINE_TRACKS = 1000
_ENGINE_OF = {"TMA load": "TMA", "TMA store": "TMA", "bulk copy": "TMA", "MMA": "tensor core",
              "commit": "tensor core", "tcgen05.cp": "tensor core", "TMEM store": "TMEM store"}  # fmt: skip
_TRACKS = ("TMA", "tensor core", "TMEM store")
_SUBTRACKS = 100_000  # distance between the number of a track and of its subtracks for overlapping slices
SHORTEST = 0.5  # of a slice: less than the step of one instruction, so that what follows is apart
_INSIDE = 0.25  # how far inside its slice an arrow begins or ends


def chrome(trace: Trace, names: TraceNames, findings: Sequence[Finding] = ()) -> JsonObject:
    """{"traceEvents": [...]}: waits, arrivals and asynchronous operations as slices, the rest as instants;
    each of `findings` is an instant at the last event of its warp, at its instruction where the trace has it.

    An arrow (flow events `s` and `f`) leads from the event that completed a phase to each wait for it. Slices
    of a track are nested or disjoint; other overlapping slices are on a second track of the same name.
    """
    writer = _Writer(trace, names)
    for finding in findings:
        writer.add_finding(finding)
    return writer.write()


@dataclass
class _Slice:
    """A slice on its track, with the arrows that begin or end in it."""

    begin: float
    long: float
    pid: int
    tid: int
    event: JsonObject
    flows: list[JsonObject] = field(default_factory=list)

    @property
    def end(self) -> float:
        return self.begin + self.long


class _Writer:
    def __init__(self, trace: Trace, names: TraceNames) -> None:
        self._trace, self._names = trace, names
        self._events: list[JsonObject] = []
        self._ctas: dict[tuple[int, int, int], int] = {}
        self._slices: list[_Slice] = []
        self._labels: dict[tuple[int, int], str] = {}

    def write(self) -> JsonObject:
        last, sources = self._operations()
        self._waits(last, sources)
        self._lay_out()
        for cta, pid in self._ctas.items():
            self._events.append(_meta("process_name", pid, 0, name=f"CTA {','.join(map(str, cta))}"))
            self._events.append(_meta("process_sort_index", pid, 0, sort_index=pid))
        other = {"time": "warp instructions executed (an order, not a duration)"}
        if self._trace.note:
            other["note"] = self._trace.note
        return {"traceEvents": self._events, "displayTimeUnit": "ms", "otherData": other}

    def _place(self, event: Event, engine: str = "") -> tuple[int, int]:
        pid = self._ctas.setdefault(event.cta, len(self._ctas))
        tid = _ENGINE_TRACKS + _TRACKS.index(_ENGINE_OF[engine]) if engine else event.warp
        name = _ENGINE_OF[engine] if engine else self._names.warp(event.rank, event.warp)
        self._labels.setdefault((pid, tid), name)
        return pid, tid

    def _slice(
        self, begin: Event, end: int, name: str, where: tuple[int, int], over: bool = True, **more: str
    ) -> _Slice:
        arguments = {"issued": self._names.place(begin), "what": self._names.what(begin), **more}
        if not over:
            arguments["never"] = "ended"
        long = max(end - begin.time, SHORTEST)
        event: JsonObject = {"ph": "X", "name": name, "cat": begin.kind, "ts": begin.time, "dur": long}
        made = _Slice(begin.time, long, *where, {**event, "args": arguments})
        self._slices.append(made)
        return made

    def _operations(self) -> tuple[int, dict[tuple[object, ...], _Slice]]:
        """Makes the slices of arrivals, operations and other waits.

        Returns the last time, and the slices that may complete a phase, by who did it.
        """
        issued: dict[tuple[object, int], Event] = {}
        waits: dict[tuple[object, ...], Event] = {}
        sources: dict[tuple[object, ...], _Slice] = {}
        waiting: set[tuple[object, ...]] = set()
        last = 0
        for event in merged_arrivals(self._trace):
            last = max(last, event.time)
            key = event.cta, event.warp, event.lane
            if event.object == "mbarrier" and (
                event.kind == "wait" or (event.kind == "pass" and key in waiting)
            ):
                (waiting.add if event.kind == "wait" else waiting.discard)(key)
                self._place(event)
            elif event.kind == "wait":
                waits[key] = event
            elif event.kind == "pass" and key in waits:
                begin = waits.pop(key)
                self._slice(begin, event.time, f"wait {self._names.target(begin)}", self._place(event))
            elif event.engine and event.kind.endswith("issue"):
                issued[(event.cta, event.op)] = event
            elif event.engine and event.kind.endswith("complete") and (event.cta, event.op) in issued:
                begin = issued.pop((event.cta, event.op))
                where = self._place(event, event.engine)
                sources[(event.cta, event.op)] = self._slice(begin, event.time, event.engine, where)
            elif event.kind == "arrive" and event.object == "mbarrier":
                made = self._slice(
                    event, event.time, f"arrive {self._names.target(event)}", self._place(event)
                )
                sources[(*key[:2], event.time, event.ptx_line)] = made
            else:
                self._instant(event)
        for begin in waits.values():
            name = f"wait {self._names.target(begin)} (never over)"
            self._slice(begin, last, name, self._place(begin), over=False)
        for begin in issued.values():
            name = f"{begin.engine} (never complete)"
            self._slice(begin, last, name, self._place(begin, begin.engine), over=False)
        return last, sources

    def add_finding(self, finding: Finding) -> None:
        """An instant with the finding's message, on its warp's track; of a CTA as a whole on its process."""
        at = finding.machine
        own = [event for event in self._trace if event.cta == at.cta and at.warp in (None, event.warp)]
        event = max(own, key=lambda event: (event.ptx_line == at.ptx_line, event.time), default=None)
        if event is None:
            return
        pid, tid = self._place(event)
        facts = {"message": finding.message, "cause": finding.cause, "evidence": list(finding.evidence)}
        self._events.append(
            {"ph": "i", "s": "p" if at.warp is None else "t", "name": f"finding {finding.code}",
             "cat": "finding", "ts": event.time, "pid": pid, "tid": tid, "args": facts}
        )  # fmt: skip

    def _instant(self, event: Event) -> None:
        pid, tid = self._place(event)
        self._events.append(
            {"ph": "i", "s": "t", "name": f"{event.kind} {self._names.target(event)}".strip(),
             "cat": event.kind, "ts": event.time, "pid": pid, "tid": tid,
             "args": {"what": self._names.what(event)}}
        )  # fmt: skip

    def _waits(self, last: int, sources: dict[tuple[object, ...], _Slice]) -> None:
        """Slices of the waits on mbarriers, each with the arrow that ends it."""
        for number, link in enumerate(links(self._trace), 1):
            begin, over = link.begin, link.end is not None
            name = f"wait {self._names.target(begin)}" + ("" if over else " (never over)")
            end = link.end.time if link.end is not None else last
            where = self._place(begin)
            made = self._slice(begin, end, name, where, over, **{"waited for": label(link, self._names)})
            if link.by is None or not over:
                continue
            by = link.by
            source = sources.get((by.cta, link.op) if link.op else (by.cta, by.warp, by.time, by.ptx_line))
            if source is not None:
                self._arrow(number, source, made, by.time)

    def _arrow(self, number: int, source: _Slice, target: _Slice, at: int) -> None:
        leave = max(min(max(at, source.begin), source.end) - _INSIDE, source.begin + _INSIDE)
        reach = max(target.end - _INSIDE, leave)
        if reach > target.end:
            return  # it passed in the step in which the phase completed
        flow: JsonObject = {"name": "completes", "cat": "waits for", "id": number}
        source.flows.append({**flow, "ph": "s", "ts": leave})
        target.flows.append({**flow, "ph": "f", "bp": "e", "ts": reach})

    def _lay_out(self) -> None:
        """Puts the slices on tracks on which they are nested or apart."""
        levels: dict[tuple[int, int], list[list[float]]] = {}
        used: set[tuple[int, int]] = set()
        for made in sorted(self._slices, key=lambda drawn: (drawn.begin, -drawn.long, drawn.pid, drawn.tid)):
            tracks = levels.setdefault((made.pid, made.tid), [])
            fits = (n for n, ends in enumerate(tracks) if _takes(ends, made.begin, made.end))
            level = next(fits, len(tracks))
            tracks[level:] = tracks[level:] or [[]]
            tracks[level].append(made.end)
            track = made.tid + level * _SUBTRACKS
            used.add((made.pid, track))
            for event in (*made.flows, made.event):
                self._events.append({**event, "pid": made.pid, "tid": track})
        for pid, tid in sorted({*self._labels, *used}):
            name = self._labels[(pid, tid % _SUBTRACKS)]
            self._events.append(_meta("thread_name", pid, tid, name=name))
            order = (tid % _SUBTRACKS) * 1000 + tid // _SUBTRACKS
            self._events.append(_meta("thread_sort_index", pid, tid, sort_index=order))


def _takes(ends: list[float], start: float, end: float) -> bool:
    """Whether a slice is nested in, or after, those of a track, of which `ends` are still open."""
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or ends[-1] >= end


def _meta(kind: str, pid: int, tid: int, **arguments: str | int) -> JsonObject:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments}
