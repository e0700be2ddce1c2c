"""Barriers of all threads of a PTX entry: what follows them, and what they make redundant."""

from __future__ import annotations

import re

from tileproof.conformance.beside.mutate.code import ALU, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.fences import AFTER, ASYNC, LEARNS, ORDERED, TELLS
from tileproof.conformance.beside.mutate.flow import Flow, meets

_BARRIER = re.compile(r"bar\.(?!warp)|barrier")  # of a CTA or a cluster


def _all(line: CodeLine) -> bool:
    """Whether it is the barrier of all threads of the CTA, in one (barrier 0, for `bar` is `barrier.cta`)."""
    return line.opcode == "bar.sync" and line.operands == ("0",) and not line.guard


def _issues_nothing(line: CodeLine) -> bool:
    return not ORDERED.match(line.opcode)


def _everything(line: CodeLine) -> bool:
    return True


def beyond(code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why no operation of tensor memory is on the other side of the barrier next to a fence, in a cluster of
    one CTA; "" if unknown.
    """
    start = code.at[at.number]
    if any(_BARRIER.match(line.opcode) and not _all(line) for line in code.code):
        return ""  # threads may meet elsewhere
    if AFTER.match(at.opcode):
        # The barrier in front of it is the first of its thread, so of every thread, and comes before any
        # operation: what other threads issue behind it, nothing has told this one of.
        first = (*flow.after, (0,))

        def fresh(line: CodeLine) -> bool:
            return _all(line) and meets(
                code, code.at[line.number], flow.before, lambda _: False, lambda other: not _all(other), True
            )

        if meets(
            code, len(code.code), first, _all, lambda line: not ASYNC.match(line.opcode), True
        ) and meets(code, start, flow.before, fresh, lambda line: not LEARNS.match(line.opcode)):
            return "no operation of tensor memory is issued before the barrier in front of it"
        return ""
    if not at.opcode.startswith("tcgen05.fence::before_thread_sync"):
        return ""
    if not meets(code, start, flow.after, _all, lambda line: not TELLS.match(line.opcode)):
        return ""
    # Every thread that is still there comes to a barrier of that round, or leaves before; and behind none of
    # these is anything issued.
    rounds = _rounds(code, flow)
    here = {rounds.get(n) for n in _next(code, flow, start)}
    if len(here) != 1 or None in here:
        return ""
    met = [n for n, number in rounds.items() if number in here]
    if all(meets(code, n, flow.after, lambda _: False, _issues_nothing, True) for n in met):
        return "no operation of tensor memory is issued behind the barrier that follows it"
    return ""


def _rounds(code: PtxCode, flow: Flow) -> dict[int, int]:
    """The number of barriers of all threads before each; {} if it differs between paths."""
    every = sum(1 for line in code.code if _all(line))
    found: dict[int, int] = {}
    pending, seen = [(0, 0)], {(0, 0)}
    while pending:
        n, before = pending.pop()
        here = _all(code.code[n])
        if here and (found.setdefault(n, before) != before or before > every):
            return {}
        for after in flow.after[n]:
            state = (after, before + here)
            if after >= 0 and state not in seen:
                seen.add(state)
                pending.append(state)
    return found


def _next(code: PtxCode, flow: Flow, start: int) -> set[int]:
    """The first barriers of all threads after an instruction."""
    found, seen, pending = set[int](), {start}, list(flow.after[start])
    while pending:
        n = pending.pop()
        if n < 0 or n in seen:
            continue
        seen.add(n)
        if _all(code.code[n]):
            found.add(n)
        else:
            pending += flow.after[n]
    return found


def before_all(code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why `bar.warp.sync` of all lanes may be removed or moved after the following fences; "" if unproved."""
    if drawn.operator not in ("remove-sync", "move") or not code.alone:
        return ""
    both = [code.code[code.at[n]] for n in drawn.lines if n in code.at]
    for line in both:
        if (line.opcode, line.operands, line.guard) != ("bar.warp.sync", ("-1",), ""):
            continue
        behind = list[CodeLine]()
        for other in code.code[code.at[line.number] + 1 :]:
            # Of a label between, or a branch, other lanes may come another way.
            if other.block != line.block or other.guard:
                break
            behind.append(other)
            if _all(other):
                break
            if not (other.opcode.startswith("tcgen05.fence::before") or ALU.match(other.opcode)):
                break
        if behind and _all(behind[-1]) and all(other in (line, *behind[:-1]) for other in both):
            return (
                "every lane continues from it to the barrier of all threads, without an access to "
                "memory between"
            )
    return ""


def twice(code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why the barrier of all threads may be doubled; "" if unproved."""
    flow = Flow.of(code) if drawn.operator == "duplicate" and _all(at) and code.alone else None
    if flow is None or any(_BARRIER.match(line.opcode) and not _all(line) for line in code.code):
        return ""
    every = [n for n, line in enumerate(code.code) if _all(line)]
    # Every thread comes to each of them, and to none again: so to all in one order.
    if all(_once(code, flow, n) for n in every):
        return (
            "every thread reaches it once, and all barriers in the same order: all threads meet there twice"
        )
    return ""


def renamed(code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why all threads may meet at a barrier of another number; "" when it is not known that they do."""
    match = re.match(r"0 is (\d+): bar\.sync 0$", drawn.what) if drawn.operator == "immediate" else None
    flow = Flow.of(code) if match and _all(at) and code.alone else None
    if match is None or flow is None or not 0 < int(match[1]) < 16:
        return ""
    if any(_BARRIER.match(line.opcode) and not _all(line) for line in code.code):
        return ""  # another may have that number
    # Else one thread may stand at this barrier while another stands at a barrier elsewhere.
    if all(_once(code, flow, n) for n, line in enumerate(code.code) if _all(line)):
        return "every thread reaches it once, and all barriers in the same order: no other thread meets there"
    return ""


def _once(code: PtxCode, flow: Flow, n: int) -> bool:
    """Whether every path reaches an instruction exactly once."""

    def here(line: CodeLine) -> bool:
        return line is code.code[n]

    if not meets(code, len(code.code), (*flow.after, (0,)), here, _everything):
        return False
    seen, pending = set[int](), list(flow.after[n])
    while pending:
        m = pending.pop()
        if m == n:
            return False
        if m >= 0 and m not in seen:
            seen.add(m)
            pending += flow.after[m]
    return True
