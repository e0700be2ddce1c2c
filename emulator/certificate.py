"""The certificate of a launch: the engine's doubts, and instructions whose result the schedule decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.engine_types import RawRun
from tileproof.emulator.plain_waits import Waits
from tileproof.emulator.program import Decoded
from tileproof.emulator.result import reversing
from tileproof.emulator.slots import layout_of
from tileproof.emulator.unused_waits import used_states
from tileproof.spec.machine.certificate import Certificate, Doubt, Obligations, Reason, from_findings
from tileproof.spec.machine.finding import Finding

# Instructions whose result the schedule decides, or which the certificate does not cover; by the beginning of
# the opcode.
_BY_OPCODE: tuple[tuple[str, Reason, str], ...] = (
    ("clusterlaunchcontrol.", "order-decides", "which CTA claims a cluster"),
    ("activemask", "order-decides", "which lanes run together"),
    ("mbarrier.pending_count", "order-decides", "how many arrivals came before"),
    ("multimem.", "unsupported", "multimem instructions"),
    ("discard.", "unsupported", "discard, after which its bytes are undefined"),
)
OTHER_COLUMN = "early:environment=1"  # a schedule in which an allocation begins elsewhere
NOT_CERTIFIED = "an earlier grid that may still run is not certified"
_CLOCK = "clock"
_UNUSED = layout_of("mbarrier.wait").modifiers.index("unused")
_PLACES = re.compile(r"%(?:smid|nsmid|warpid|nwarpid|gridid|pm\d+(?:_64)?)\b")


def certificate(
    raw: RawRun,
    decoded: Decoded,
    body: str,
    findings: tuple[Finding, ...],
    chosen: Sequence[int] | None = None,
    overlaps: Sequence[_engine.GridRecord] = (),
) -> Certificate:
    """Return the certificate of a launch with race checking; `raw` is the engine's result, `body` the PTX of
    the entry, `findings` all findings, accepted findings included, `chosen` the clusters that ran (None:
    all). `overlaps`: grids of earlier launches that may still run.
    """
    ran = (np.frombuffer(raw["executed"], np.uint8) & 1).tobytes()
    if ran not in decoded.doubts:
        decoded.doubts[ran] = tuple(_by_code(ran, decoded, body))
    doubts = (*from_findings(findings), *_by_engine(raw), *decoded.doubts[ran])
    doubts += tuple(
        Doubt("unsupported", f"{NOT_CERTIFIED}: {grid.where or grid.kernel}")
        for grid in overlaps
        if not grid.certified
    )
    if any(what == "findings" for what, _ in raw["limited"]):
        doubts += (Doubt("truncated", "more findings than are kept, of which each may leave an order open"),)
    due = Obligations(**raw["obligations"])
    part = chosen is not None or any(grid.part for grid in overlaps)
    return Certificate(due, doubts, raw["sums"], raw["additions"], part)


def _by_engine(raw: RawRun) -> Iterator[Doubt]:
    for found in raw["doubts"]:
        schedule = OTHER_COLUMN if found["first_column"] else ""
        if "hold" in found:
            schedule = str(reversing(*found["hold"]))
        yield Doubt(
            found["reason"], found["text"], found["line"], found["source"], found["instruction"],
            found["count"], schedule,
        )  # fmt: skip


def _by_code(executed: bytes, decoded: Decoded, body: str) -> Iterator[Doubt]:
    """Yield what was executed and depends on the schedule by itself; of an opcode the first instruction."""
    if decoded.schedule_dependent is None:
        decoded.schedule_dependent = tuple(_schedule_dependent(decoded, body))
    first = dict[int, int]()
    for at, name, doubt in decoded.schedule_dependent:
        if (at < 0 or executed[at] & 1) and (name < 0 or first.setdefault(name, at) == at):
            yield doubt


def _schedule_dependent(decoded: Decoded, body: str) -> Iterator[tuple[int, int, Doubt]]:
    """Yield instructions whose execution is a doubt, with the number of the opcode where a doubt about its
    first instruction is enough, else -1; with instruction -1, what holds for any execution.
    """
    code, opcodes = decoded.code, decoded.names
    handlers, names = code["handler"], code["name"].tolist()
    clock, wait, inval = (_engine.handlers()[name] for name in (_CLOCK, "mbarrier.wait", "mbarrier.inval"))

    def doubt(at: int, reason: Reason, text: str) -> Doubt:
        source = int(code[at]["source"])
        place = decoded.sources[source] if source >= 0 else ""
        return Doubt(reason, text, int(code[at]["line"]), place, opcodes[names[at]])

    by_name = {name: tuple(_by_opcode(opcode)) for name, opcode in enumerate(opcodes)}
    clocks = set(np.flatnonzero(handlers == clock).tolist())
    for at, name in enumerate(names):
        if at in clocks:
            yield at, -1, doubt(at, "order-decides", "a clock is read")
        else:
            for reason, text in by_name[name]:
                yield at, name, doubt(at, reason, text)
    if found := _PLACES.search(body):
        yield -1, -1, Doubt("order-decides", f"{found[0]} is read: the place of a thread is not fixed")
    for at in used_states(code, decoded.vec):
        text = "the state of an arrival, which has the number of pending arrivals, is used as a value"
        yield at, -1, doubt(at, "order-decides", text)
    waits, unused = Waits(code, decoded.vec, decoded.constants), code["m"][:, _UNUSED] != 0
    for at in np.flatnonzero((handlers == wait) & ~unused).tolist():
        if not waits.plain(at):
            text = "a false result of a wait has another effect than to repeat it"
            yield at, -1, doubt(at, "order-decides", text)
    # `mbarrier-inval-unwaited` asks whether any wait has passed; these pass or give up.
    if (handlers == inval).any():
        for at in np.flatnonzero((handlers == wait) & unused).tolist():
            text = "a wait whose result is unused, in a kernel with mbarrier.inval"
            yield at, -1, doubt(at, "order-decides", text)


def _by_opcode(opcode: str) -> Iterator[tuple[Reason, str]]:
    for begin, reason, text in _BY_OPCODE:
        if opcode.startswith(begin):
            yield reason, text
    if opcode.startswith("cp.async.mbarrier.arrive") and ".noinc" not in opcode:
        yield "unsupported", "cp.async.mbarrier.arrive without .noinc"
    if opcode.startswith("cp.reduce.async.bulk.tensor") and re.search(r"\.(min|max)\b", opcode):
        yield "unsupported", "min or max by a tensor map, whose type is not followed"
    if ".noComplete" in opcode:
        yield "unsupported", "an arrival with .noComplete, which must not be the last of its phase"
