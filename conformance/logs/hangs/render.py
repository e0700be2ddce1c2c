"""The diagnosis of a hang as data and as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tileproof.conformance.logs.hangs.causes import HangCause, causes, copy
from tileproof.conformance.logs.hangs.graph import Wait, WaitGraph, build, plan_role
from tileproof.conformance.logs.hangs.log import EXAMPLES, Actor, Log, read
from tileproof.spec.plan import KernelPlan

WIDTH = 150


def diagnose(path: Path, plan: KernelPlan | None = None) -> dict[str, Any]:
    """The diagnosis of the log in `path`, as data; TileproofError when there is nothing to diagnose."""
    return diagnosis(read(path, plan), plan)


def diagnosis(log: Log, plan: KernelPlan | None = None) -> dict[str, Any]:
    """The diagnosis of a log that was read, as data.

    `verdict` is "hang", "no hang seen" or "unclear" (no line ever says that a wait began, or none that one
    ended). Lines are numbers from 1; an actor is {"role", "cta", "cluster"}.
    """
    graph = build(log, plan)
    found = causes(graph)
    return {
        "verdict": graph.verdict,
        "root": _root(graph) if graph.roots else None,
        "causes": [_cause(graph, cause) for cause in found],
        "blocked": [_blocked(graph, wait) for wait in graph.blocked],
        "actors": [_actor_row(graph, actor) for actor in sorted(graph.histories)],
        "barriers": _barriers(graph),
        "asymmetries": _asymmetries(graph),
        "remarks": [*log.remarks, *_remarks(graph)],
        "read": {
            "lines": sum(bool(line.strip()) for line in log.lines),
            "events": len(log.events),
            "progress": len(log.notes),
            "not_understood": len(log.unread),
            "examples": [_quote(graph, line) for line in log.unread[:EXAMPLES]],
        },
    }


def _name(actor: Actor) -> dict[str, Any]:
    return {"role": actor.role, "cta": actor.cta if actor.cta >= 0 else None, "cluster": actor.group}


def _quote(graph: WaitGraph, line: int) -> dict[str, Any]:
    return {"line": line, "text": graph.log.lines[line - 1].strip()[:WIDTH]}


def _wait(graph: WaitGraph, wait: Wait) -> dict[str, Any]:
    event = wait.event
    return {
        "actor": _name(wait.actor),
        "barrier": graph.log.name(event.barrier),
        "stage": event.stage,
        "phase": event.phase,
        "k": event.k,
        "line": event.line,
    }


def _root(graph: WaitGraph) -> dict[str, Any]:
    root = graph.roots[0]
    behind = sorted(graph.dependents[root.actor])
    return {
        **_wait(graph, root),
        "copy": copy(graph, root),
        "waits_behind_it": [_name(actor) for actor in behind],
    }


def _cause(graph: WaitGraph, cause: HangCause) -> dict[str, Any]:
    return {
        "code": cause.code,
        "what": cause.what,
        "also": cause.also,
        "lines": [_quote(graph, line) for line in cause.lines],
    }


def _blocked(graph: WaitGraph, wait: Wait) -> dict[str, Any]:
    blocked = {one.actor for one in graph.blocked}
    for_whom = [
        {
            **_name(edge.producer),
            "arrivals": edge.made,
            "needed": edge.need,
            "blocked": edge.producer in blocked,
        }
        for edge in graph.edges[wait.actor]
    ]
    return {
        **_wait(graph, wait),
        "copy": copy(graph, wait),
        "waits_for": for_whom,
        "root": wait in graph.roots,
    }


def _actor_row(graph: WaitGraph, actor: Actor) -> dict[str, Any]:
    history = graph.histories[actor]
    wait = history.blocked
    return {
        **_name(actor),
        "plan_role": plan_role(graph.plan, actor) if graph.plan and actor.role else "",
        "k": history.last_k,
        "waits_on": copy(graph, wait) if wait else None,
        "passed": sum(one.passed for one in history.waits),
        "arrivals": sum(map(len, history.arrives.values())),
        "last": _quote(graph, history.last_line),
    }


def _barriers(graph: WaitGraph) -> list[dict[str, Any]]:
    """Per barrier, stage and CTA: waits begun, waits ended, arrivals made by that CTA, phases waited for."""
    rows: dict[tuple[int, str, int, int], dict[str, Any]] = {}
    for actor, history in graph.histories.items():
        places = {wait.place for wait in history.waits} | {p for p, some in history.arrives.items() if some}
        for barrier, stage in places:
            key = actor.group, barrier, -1 if stage is None else stage, actor.cta
            row = rows.setdefault(
                key,
                {
                    "barrier": graph.log.name(barrier),
                    "stage": stage,
                    "cta": actor.cta if actor.cta >= 0 else None,
                    "cluster": actor.group,
                    "waits": 0,
                    "done": 0,
                    "arrivals": 0,
                    "phases": {},
                },
            )
            waits = history.on((barrier, stage))
            row["waits"] += len(waits)
            row["done"] += sum(wait.passed for wait in waits)
            row["arrivals"] += len(history.arrives.get((barrier, stage), ()))
            for wait in waits:
                if wait.event.phase is not None:
                    seen = row["phases"].setdefault(str(wait.event.phase), {"waits": 0, "done": 0})
                    seen["waits"] += 1
                    seen["done"] += wait.passed
    return [rows[key] for key in sorted(rows)]


def _asymmetries(graph: WaitGraph) -> list[str]:
    """Waits at which one CTA is blocked and the same role of another CTA passed."""
    found = []
    for wait in graph.blocked:
        for peer in graph.peers(wait.actor):
            for other in graph.histories[peer].on(wait.place):
                if other.passed and other.ordinal == wait.ordinal:
                    line = other.done.line if other.done else other.moved_on
                    found.append(
                        f"{peer} passed {copy(graph, other)} (line {line}); {wait.actor} still waits on "
                        f"{copy(graph, wait)} (line {wait.event.line})"
                    )
    return found


def _remarks(graph: WaitGraph) -> list[str]:
    remarks = []
    if not graph.says_wait:
        remarks.append("print a line before each wait too: what a role waits for at the end is then known")
    elif not graph.says_done:
        remarks.append(
            "no line says that a wait ended: each role's last wait is taken as open, and a run that ended "
            "well would look the same"
        )
    said = {(event.actor.role, event.barrier) for event in graph.log.events if event.kind == "done"}
    lost = [
        w
        for h in graph.histories.values()
        for w in h.waits
        if w.moved_on and (w.actor.role, w.event.barrier) in said
    ]
    if lost:
        first = min(lost, key=lambda wait: wait.event.line)
        remarks.append(
            f"{len(lost)} waits have no line that ends them though their role went on, first "
            f"{copy(graph, first)} of {first.actor} at line {first.event.line}: lines were lost, or several "
            "threads print as one role"
        )
    loose = sum(event.loose for event in graph.log.events)
    if loose:
        remarks.append(
            f"{loose} events were read from loose wording, such as a line that names a barrier and no verb"
        )
    if graph.plan is not None:
        known = {barrier.name.replace("_", "").lower() for barrier in graph.plan.barriers}
        other = sorted(
            {graph.log.name(event.barrier) for event in graph.log.events if event.barrier not in known}
        )
        if other:
            remarks.append(f"the plan of {graph.plan.name} has no barrier called {', '.join(other)}")
    return remarks


def _who(actor: dict[str, Any]) -> str:
    return str(Actor(actor["cluster"], actor["role"], -1 if actor["cta"] is None else actor["cta"]))


def text(result: dict[str, Any]) -> str:
    """The diagnosis in words."""
    out: list[str] = []
    root = result["root"]
    if root is None and result["verdict"] == "unclear":
        out.append("UNCLEAR: no line is printed before a wait, so nothing shows who is in one.")
    elif root is None:
        out.append("NO HANG SEEN: every wait that began was done, or its role went on.")
    else:
        title = "HANG" if result["verdict"] == "hang" else "UNCLEAR, but if this run hung"
        out.append(
            f"{title}: {_who(root['actor'])} waits on {root['copy']}{_phase(root)}, line {root['line']}."
        )
        behind = ", ".join(map(_who, root["waits_behind_it"]))
        out.append(
            f"Behind it waits: {behind}." if behind else "No other wait that the log shows is behind it."
        )
        out += ["", "Likeliest causes:"]
        for number, cause in enumerate(result["causes"], 1):
            out.append(f" {number}. {cause['code']}: {cause['what']}")
            out += [f"    {also}" for also in cause["also"]]
            out += [f"    {quote['line']:>6} | {quote['text']}" for quote in cause["lines"]]
        out += ["", "Who waits for whom:"]
        out += [f"  {line}" for blocked in result["blocked"] for line in _blocked_lines(blocked)]
    if result["asymmetries"]:
        out += ["", "CTAs differ:", *(f"  {line}" for line in result["asymmetries"])]
    out += ["", "Last seen of each:"]
    for actor in result["actors"]:
        if actor["role"]:
            planned = f" ({actor['plan_role']})" if actor["plan_role"] not in ("", actor["role"]) else ""
            did = f"{actor['passed']} waits passed, {actor['arrivals']} arrivals"
            last = f"line {actor['last']['line']} | {actor['last']['text']}"
            out.append(f"  {_who(actor)}{planned}: {did}; {last}")
    counts = result["read"]
    out += ["", *(f"Remark: {remark}." for remark in result["remarks"])]
    did = f"{counts['events']} events, {counts['progress']} of progress"
    did += f", {counts['not_understood']} not understood"
    out.append(
        f"Read {counts['lines']} lines with text: {did}" + (", such as:" if counts["examples"] else ".")
    )
    out += [f"    {quote['line']:>6} | {quote['text']}" for quote in counts["examples"]]
    return "\n".join(out)


def _phase(wait: dict[str, Any]) -> str:
    parts = [
        f"{label} {wait[key]}"
        for key, label in (("phase", "phase"), ("k", "k-block"))
        if wait[key] is not None
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _blocked_lines(blocked: dict[str, Any]) -> list[str]:
    head = f"{_who(blocked['actor'])} on {blocked['copy']}{_phase(blocked)}, line {blocked['line']}"
    if not blocked["waits_for"]:
        return [head + ": ROOT, nobody whom the log shows still owes an arrival"]
    lines = [head + (": ROOT" if blocked["root"] else "")]
    for edge in blocked["waits_for"]:
        state = "which is blocked itself" if edge["blocked"] else "which waits for nothing that is printed"
        lines.append(f"  -> {_who(edge)}, {state}: {edge['arrivals']} of {edge['needed']} arrivals")
    return lines
