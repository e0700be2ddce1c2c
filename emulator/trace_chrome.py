"""A trace in the Chrome trace event format (the "JSON Object Format" of its specification)."""

from __future__ import annotations

from typing import Any

from tileproof.emulator.trace import Event, Trace, TraceNames

# Track numbers of a CTA's engines start here: above every warp.
_ENGINE_TRACKS = 1000
_ENGINE_OF = {"TMA load": "TMA", "TMA store": "TMA", "bulk copy": "TMA", "MMA": "tensor core",
              "commit": "tensor core", "tcgen05.cp": "tensor core", "TMEM store": "TMEM store"}  # fmt: skip
_TRACKS = ("TMA", "tensor core", "TMEM store")


def chrome(trace: Trace, names: TraceNames) -> dict[str, Any]:
    """{"traceEvents": [...]}: waits and asynchronous operations as slices, the rest as instants."""
    events: list[dict[str, Any]] = []
    ctas: dict[tuple[int, int, int], int] = {}
    tracks: set[tuple[int, int]] = set()
    waits: dict[tuple[int, int, int], Event] = {}
    issued: dict[tuple[int, int], Event] = {}
    last = 0

    def place(event: Event, engine: str = "") -> dict[str, int]:
        pid = ctas.setdefault(event.cta, len(ctas))
        tid = _ENGINE_TRACKS + _TRACKS.index(_ENGINE_OF[engine]) if engine else event.warp
        if (pid, tid) not in tracks:
            tracks.add((pid, tid))
            label = _ENGINE_OF[engine] if engine else names.warp(event.rank, event.warp)
            events.append(_meta("thread_name", pid, tid, name=label))
            events.append(_meta("thread_sort_index", pid, tid, sort_index=tid))
        return {"pid": pid, "tid": tid}

    def slice_of(begin: Event, end: int, name: str, where: dict[str, int], over: bool) -> None:
        arguments = {"issued": names.place(begin), "what": names.what(begin)}
        if not over:
            arguments["never"] = "ended"
        events.append(
            {"ph": "X", "name": name, "cat": begin.kind, "ts": begin.time, "dur": max(end - begin.time, 0),
             "args": arguments, **where}
        )  # fmt: skip

    for event in trace:
        last = max(last, event.time)
        key = (ctas.setdefault(event.cta, len(ctas)), event.warp, event.lane)
        if event.kind == "wait":
            waits[key] = event
        elif event.kind == "pass" and key in waits:
            begin = waits.pop(key)
            slice_of(begin, event.time, f"wait {names.target(begin)}", place(event), True)
        elif event.engine and event.kind.endswith("issue"):
            issued[(key[0], event.op)] = event
        elif event.engine and event.kind.endswith("complete"):
            begin = issued.pop((key[0], event.op))
            slice_of(begin, event.time, event.engine, place(event, event.engine), True)
        else:
            name = f"{event.kind} {names.target(event)}".strip()
            events.append(
                {"ph": "i", "s": "t", "name": name, "cat": event.kind, "ts": event.time,
                 "args": {"what": names.what(event)}, **place(event)}
            )  # fmt: skip
    for begin in waits.values():
        slice_of(begin, last, f"wait {names.target(begin)} (never over)", place(begin), False)
    for begin in issued.values():
        slice_of(begin, last, f"{begin.engine} (never complete)", place(begin, begin.engine), False)
    for cta, pid in ctas.items():
        events.append(_meta("process_name", pid, 0, name=f"CTA {','.join(map(str, cta))}"))
        events.append(_meta("process_sort_index", pid, 0, sort_index=pid))
    out: dict[str, Any] = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"time": "warp instructions executed, an order and no duration"},
    }
    if trace.note:
        out["otherData"]["note"] = trace.note
    return out


def _meta(kind: str, pid: int, tid: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments}
