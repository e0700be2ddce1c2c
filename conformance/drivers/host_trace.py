"""The trace of a Python function: what it writes into its outputs, in order."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.types import Index, Json, JsonObject


@dataclass(frozen=True)
class WriteEvent:
    """A write: seconds since the call began, the output, the index in words, how many elements."""

    seconds: float
    output: str
    index: str
    elements: int


class _Output(np.ndarray):
    """An output, or a part of an output, whose assignments are recorded."""

    name: str = ""
    events: list[WriteEvent] | None = None
    began: float = 0.0

    def __array_finalize__(self, whole: object) -> None:
        if isinstance(whole, _Output):
            self.name, self.events, self.began = whole.name, whole.events, whole.began

    def __setitem__(self, at: Index, value: Json) -> None:
        plain = self.view(np.ndarray)
        plain[at] = value
        if self.events is not None:
            seconds = time.perf_counter() - self.began
            self.events.append(WriteEvent(seconds, self.name, _words(at), int(np.size(plain[at]))))


def _words(at: Index) -> str:
    if isinstance(at, tuple):
        return ", ".join(map(_words, at))
    if isinstance(at, slice):
        step = f":{at.step}" if at.step is not None else ""
        return f"{'' if at.start is None else at.start}:{'' if at.stop is None else at.stop}{step}"
    return "..." if at is Ellipsis else str(at) if np.ndim(at) == 0 else f"{np.size(at)} places"


def writes(launch: LaunchFile) -> list[WriteEvent]:
    """Calls the launch's Python function once; what it raises passes through."""
    assert launch.call is not None
    events: list[WriteEvent] = []
    outputs = {}
    for outcome in launch.outcomes:
        outputs[outcome.name] = np.zeros(outcome.shape, dtype_of(outcome.dtype)).view(_Output)
        outputs[outcome.name].name, outputs[outcome.name].events = outcome.name, events
    began = time.perf_counter()
    for output in outputs.values():
        output.began = began
    launch.call.function(outputs)
    return events


def to_text(events: list[WriteEvent]) -> str:
    """A line a write."""
    lines = [
        f"{number:5}  {event.seconds * 1e3:9.3f} ms  "
        f"{event.output} [{event.index}], {event.elements} elements\n"
        for number, event in enumerate(events, 1)
    ]
    return "".join(lines)


def to_chrome(events: list[WriteEvent]) -> JsonObject:
    """Chrome trace JSON: an instant event a write, a row an output."""
    rows = {name: row for row, name in enumerate(dict.fromkeys(event.output for event in events), 1)}
    names: list[JsonObject] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": name}}
        for name, row in rows.items()
    ]
    marks: list[JsonObject] = [
        {
            "ph": "i", "s": "t", "name": f"{event.output} [{event.index}]", "pid": 1,
            "tid": rows[event.output],
            "ts": event.seconds * 1e6, "args": {"elements": event.elements},
        }
        for event in events
    ]  # fmt: skip
    return {"traceEvents": [*names, *marks]}
