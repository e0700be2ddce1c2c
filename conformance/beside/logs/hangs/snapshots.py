"""Sessions of cuda-gdb, reports of compute-sanitizer synccheck, and timeouts: where each warp stands.

A snapshot has no history: it shows the waits of a hang, not which arrival is missing. cuda-gdb's "warp 4" is
a slot of the SM; the warp of a CTA follows from its thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tileproof.conformance.beside.logs.hangs.log import Actor, Log, LogEvent

Members = Sequence[tuple[int, str]]

_FOCUS = re.compile(
    r"Switching focus to CUDA kernel .*?block \((\d+),\s*(\d+),\s*(\d+)\), thread \((\d+),\s*(\d+),\s*(\d+)\)"
)
_FRAME = re.compile(r"^\s*#(\d+)\s+(?:0x[0-9a-f]+ in )?(?P<call>.+?) at (?P<at>\S+:\d+)\s*$", re.IGNORECASE)
_TEXT = re.compile(
    r"\b(?:\w+=)?0x[0-9a-f]+ \"(?P<text>[^\"]*)\"", re.IGNORECASE
)  # a string behind its address
_FUNCTION = re.compile(r"^\s*#\d+\s+(?:0x[0-9a-f]+ in )?(?P<name>[^\W\d]\w*)")
_SOURCE = re.compile(r"^(?P<line>\d+)\s+(?P<text>\S.*;.*)$")
_PLACE = "at_"
_BLOCKS = re.compile(r"wait|sync|arrive_and|alloc|barrier", re.IGNORECASE)
# info cuda threads: block, first thread, last block, last thread, count, PC, file, line
_THREADS = re.compile(
    r"^\s*\*?\s*\((\d+),\d+,\d+\)\s+\((\d+),\d+,\d+\)\s+\((\d+),\d+,\d+\)\s+\((\d+),\d+,\d+\)\s+\d+\s+"
    r"(?P<pc>0x[0-9a-f]+)(?:\s+(?P<file>\S+)\s+(?P<line>\d+))?\s*$"
)
# info cuda warps: slot, active lanes, divergent lanes, PC, kernel, block, first active thread
_WARPS = re.compile(
    r"^\s*\*?\s*\d+\s+0x[0-9a-f]+\s+0x[0-9a-f]+\s+(?P<pc>0x[0-9a-f]+)\s+\d+\s+\((\d+),\d+,\d+\)\s+\((\d+),\d+,\d+\)"
)
_ERROR = re.compile(r"^=+\s*Barrier error detected\.\s*(?P<what>.+?)\s*$")
_AT = re.compile(r"^=+\s+at (?P<where>.+?)(?: in (?P<place>\S+:\d+))?\s*$")
_BY = re.compile(r"^=+\s+by thread \((\d+),\d+,\d+\) in block \((\d+),\d+,\d+\)")
_PROMPT = re.compile(r"^\s*\((?:cuda-)?gdb\)\s*(?P<command>\w*)")
_RUNS = {"", "r", "run", "c", "continue", "start", "starti"}  # commands during which the kernel prints
_OF_TOOL = re.compile(
    r"^\s*(?:={6,}|\^C|\[(?:Switching|Inferior|New Thread|Thread|Detaching|Launch of|Termination of)\b|"
    r"(?:Thread \d+ .*|Program |CUDA thread .*)(?:received|hit)\b|Starting program|Reading symbols|"
    r"Using host|BlockIdx\s+ThreadIdx|Wp\s+Active)"
)
_OF_THREAD = re.compile(
    r"(?<![^\W_])(?:(?:thread|tid|t)\W{0,3}(?P<thread>\d+)|(?:warp|w)\W{0,3}(?P<warp>\d+))(?!\w)",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(
    r"time[d ]?\s?out|stuck|watchdog|dead ?lock|hung|\bhang\b|\bspin(?:s|ning)?\b|no progress", re.IGNORECASE
)


def is_debugger(members: Members) -> bool:
    """Whether these lines are of a cuda-gdb session."""
    return any(
        "(cuda-gdb)" in text or "Switching focus to CUDA" in text or _THREADS.match(text)
        for _, text in members
    )


def kernel_lines(members: Members) -> list[tuple[int, str]]:
    """The lines that the kernel printed in a session of cuda-gdb or under compute-sanitizer."""
    found: list[tuple[int, str]] = []
    runs = True
    for number, text in members:
        if prompt := _PROMPT.match(text):
            runs = prompt["command"].lower() in _RUNS
        elif _FOCUS.search(text) or _THREADS.match(text) or _WARPS.match(text):
            runs = False
        elif runs and not _OF_TOOL.match(text):
            found.append((number, text))
    return found


def roles_of_warps(history: Sequence[Log]) -> dict[tuple[int, int], str]:
    """The role of each CTA and warp, where lines of events print threads or warps."""
    found: dict[tuple[int, int], str] = {}
    for log in history:
        for event in log.events:
            if of := _OF_THREAD.search(log.lines[event.line - 1]):
                warp = int(of["thread"]) // 32 if of["thread"] else int(of["warp"])
                found.setdefault((event.actor.cta, warp), event.actor.role)
    return found


def roles_at_barriers(history: Sequence[Log]) -> dict[int, str]:
    """The role of each CTA that ends a history in a barrier of threads, where it is the only role there."""
    last = {event.actor: event for log in history for event in log.events}
    found: dict[int, list[str]] = {}
    for actor, event in last.items():
        if event.kind == "wait" and event.scope == "cta":
            found.setdefault(actor.cta, []).append(actor.role)
    return {cta: roles[0] for cta, roles in found.items() if len(roles) == 1}


def functions_of_warps(members: Members) -> dict[tuple[int, int], list[str]]:
    """The functions in the backtrace of each CTA and warp, in lower case, the innermost first."""
    found: dict[tuple[int, int], list[str]] = {}
    focus: tuple[int, int] | None = None
    for _, text in members:
        if switch := _FOCUS.search(text):
            focus = int(switch[1]), int(switch[4]) // 32
        elif focus is not None and (frame := _FUNCTION.match(text)):
            found.setdefault(focus, []).append(frame["name"].lower())
    return found


def add_stands(log: Log, stands: Log, functions: Mapping[tuple[int, int], list[str]]) -> None:
    """Add to a history the waits in which a debugger finds its actors, where these printed no line before."""
    last = {event.actor: event for event in sorted(log.events, key=lambda event: event.line)}
    by_warp = roles_of_warps([log])
    for event in stands.events:
        warp = int(event.actor.role.rpartition(" ")[2]) if event.actor.role.startswith("warp ") else -1
        place = event.actor.cta, warp
        names = [by_warp.get(place, ""), *functions.get(place, ())]
        actor = next((actor for name in names if (actor := Actor(0, name, place[0])) in last), None)
        known = not stands.name(event.barrier).startswith(_PLACE)  # a place in the source is no barrier
        if known and actor is not None and last[actor].kind != "wait":
            log.events.append(replace(event, actor=actor))
            log.names.setdefault(event.barrier, stands.name(event.barrier))


def is_sanitizer(members: Members) -> bool:
    """Whether these lines are a report of synccheck."""
    return any(_ERROR.match(text) for _, text in members)


def debugger_lines(members: Members) -> list[tuple[int, str]]:
    """The place of each warp, as lines of the grammar; a source line or frame counts before a table's row."""
    stands: dict[tuple[int, int], tuple[int, str]] = {}
    rows: dict[tuple[int, int], tuple[int, str]] = {}
    focus: tuple[int, int] | None = None
    for number, text in members:
        found = _FOCUS.search(text)
        if found:
            focus = int(found[1]), int(found[4]) // 32
            continue
        if (found := _THREADS.match(text)) or (found := _WARPS.match(text)):
            place = found["pc"]
            if found.re is _THREADS and found["file"]:
                place = f"{found['file']}:{found['line']}"
            block, thread = (found[1], found[2]) if found.re is _THREADS else (found[2], found[3])
            rows.setdefault((int(block), int(thread) // 32), (number, _plain(place)))
            continue
        call = ""
        if found := _FRAME.match(text):
            call = _TEXT.sub(r"barrier=\g<text>", found["call"])
        elif found := _SOURCE.match(text):
            call = found["text"]
        if focus is not None and focus not in stands and _BLOCKS.search(call) and "<<<" not in call:
            stands[focus] = number, call
    lines = [
        (number, f"block={block} warp={warp} {'' if 'wait' in call.lower() else 'wait '}{call}")
        for (block, warp), (number, call) in stands.items()
    ]
    lines += [
        (number, f"block={block} warp={warp} wait barrier={place}")
        for (block, warp), (number, place) in rows.items()
        if (block, warp) not in stands
    ]
    return sorted(lines)


def _plain(place: str) -> str:
    return _PLACE + re.sub(r"\W", "_", place)


def read_sanitizer(log: Log, members: Members, history: Sequence[Log] = ()) -> Log:
    """`log` with the threads that synccheck reports, each in a wait at the barrier's place.

    `history`: what the kernel printed, which may name their roles.
    """
    roles, waiting = roles_of_warps(history), roles_at_barriers(history)
    what = where = ""
    seen: set[tuple[Actor, str]] = set()
    for number, text in members:
        if found := _ERROR.match(text):
            what, where = found["what"], ""
        elif found := _AT.match(text):
            where = found["place"] or found["where"]
        elif (found := _BY.match(text)) and what:
            cta, warp = int(found[2]), int(found[1]) // 32
            actor = Actor(0, roles.get((cta, warp)) or waiting.get(cta, f"warp {warp}"), cta)
            barrier = f"barrier at {where}" if where else "barrier"
            if (actor, barrier) not in seen:
                seen.add((actor, barrier))
                log.names[barrier] = barrier
                log.events.append(LogEvent(number, actor, "wait", barrier, scope="cta"))
                log.reports[number] = what
    log.snapshot = bool(log.events)
    return log


def look_for_timeouts(log: Log) -> None:
    """Whether the log is of waits that timed out: each actor prints a single line, and no wait ends."""
    events = [event for event in log.events if event.kind != "arrive" or event.scope == "mbarrier"]
    waits = [event for event in events if event.kind == "wait"]
    alone = len({event.actor for event in waits}) == len({event.line for event in waits})
    if waits and len(waits) == len(events) and alone:
        log.snapshot = all(_TIMED_OUT.search(log.lines[event.line - 1]) for event in waits)
