"""A timed run in Chrome's trace format, which Perfetto reads: clocks are shown as microseconds."""

from __future__ import annotations

from collections.abc import Hashable

from tileproof.conformance.beside.timing.report import TimeNames
from tileproof.conformance.beside.timing.simulate import Timed
from tileproof.spec.machine.types import JsonObject


def chrome(timed: Timed, names: TimeNames) -> JsonObject:
    """A process per CTA; in it a track per warp with its waits, and a track per unit with its work."""
    events: list[JsonObject] = []
    ctas: dict[Hashable, int] = {
        cta: number for number, cta in enumerate(sorted({warp[:3] for warp in timed.ends}))
    }
    for place, number in ctas.items():
        events.append(_named("process_name", number, 0, f"CTA {place}"))
    for warp, spans in timed.waits.items():
        where = ctas[warp[:3]]
        events.append(_named("thread_name", where, warp[3], f"warp {warp[3]} ({names.role(warp)})"))
        for span in spans:
            name = f"waits for {names.cause(span.cause)}"
            events.append(_span(name, where, warp[3], span.begin, span.end, span.line))
    units = sorted({unit for unit, *_ in timed.spans})
    for unit, cta, begin, end, line in timed.spans:
        events.append(_span(unit, ctas[cta], 1000 + units.index(unit), begin, end, line))
    for where in ctas.values():
        events += [_named("thread_name", where, 1000 + at, unit) for at, unit in enumerate(units)]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _span(name: str, process: int, track: int, begin: float, end: float, line: int) -> JsonObject:
    return {
        "name": name, "ph": "X", "pid": process, "tid": track, "ts": begin, "dur": end - begin,
        "args": {"PTX line": line},
    }  # fmt: skip


def _named(what: str, process: int, track: int, name: str) -> JsonObject:
    return {"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
