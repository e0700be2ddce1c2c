"""The diagnosis of a hang as data."""

from __future__ import annotations

import re
from pathlib import Path

from tileproof.conformance.beside.logs.hangs import as_data
from tileproof.conformance.beside.logs.hangs.by_accounts import by_accounts, by_keys
from tileproof.conformance.beside.logs.hangs.cause import state
from tileproof.conformance.beside.logs.hangs.causes import HangCause, LoggedHang, copy, hangs
from tileproof.conformance.beside.logs.hangs.certainty import judged
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.graph_build import build, plan_role
from tileproof.conformance.beside.logs.hangs.histories import Wait
from tileproof.conformance.beside.logs.hangs.log import EXAMPLES, OWN, UNKNOWN_CTA, Actor, Log
from tileproof.conformance.beside.logs.hangs.reader import read
from tileproof.spec.plan import KernelPlan

WIDTH = 150


def diagnose(path: Path, plan: KernelPlan | None = None) -> as_data.Diagnosis:
    """Return the diagnosis of the log in `path` as data; TileproofError if there is nothing to diagnose."""
    return diagnosis(read(path, plan), plan)


def diagnosis(log: Log, plan: KernelPlan | None = None) -> as_data.Diagnosis:
    """Return the diagnosis of a parsed log as data.

    `outcome` is "hang", "no hang seen" or "unclear"; `certainty` of a hang is "certain" (the lines leave no
    other reading), "likely" or "open". Lines are numbers from 1; an actor is {"role", "cta", "cluster"}. For
    a log of several runs, the diagnosis is of the last run that hung, and `runs` has a row for each run.
    """
    if not log.runs:
        found = _of_run(log, plan)
        return (by_keys(log, found) if plan is None else None) or found
    every = [(run, _of_run(run, plan)) for run in log.runs]
    order = ("hang", "unclear", "no hang seen")
    worst = min(every, key=lambda answer: (order.index(answer[1]["outcome"]), -answer[1]["span"][1]))
    return {**worst[1], "runs": [_run(run, found) for run, found in every]}


def _run(log: Log, found: as_data.Diagnosis) -> as_data.RunRow:
    first = found["causes"][0] if found["causes"] else None
    return {
        "title": log.title,
        "lines": found["span"],
        "outcome": found["outcome"],
        "certainty": found["certainty"],
        "root": found["root"],
        "cause": first,
    }


def _of_run(log: Log, plan: KernelPlan | None) -> as_data.Diagnosis:
    found = _by_waits(log, plan)
    return by_accounts(log, found) if plan is None else found


def _by_waits(log: Log, plan: KernelPlan | None) -> as_data.Diagnosis:
    graph = build(log, plan)
    every = hangs(graph)
    told = judged(graph, every)
    strange = [line for line in log.unread if line not in log.host]
    return {
        "outcome": told.verdict,
        "certainty": told.certainty,
        "why": told.why,
        "title": log.title,
        "span": [log.events[0].line, log.events[-1].line] if log.events else [0, 0],
        "root": _root(graph, every[0]) if every else None,
        "causes": [_cause(graph, cause) for cause in every[0].causes] if every else [],
        "others": [_other(graph, hang) for hang in every[1:]],
        "blocked": [_blocked(graph, wait) for wait in graph.blocked],
        "actors": [_actor_row(graph, actor) for actor in sorted(graph.histories)],
        "barriers": _barriers(graph),
        "asymmetries": _asymmetries(graph),
        "facts": host_facts(log),
        "remarks": [*log.remarks, *_remarks(graph)],
        "read": {
            "lines": sum(bool(line.strip()) for line in log.lines),
            "events": len(log.events),
            "progress": len(log.notes),
            "host": len(log.host.intersection(log.unread)),
            "not_understood": len(strange),
            "examples": [_quote(graph, line) for line in strange[:EXAMPLES]],
        },
        "runs": [],
    }


_FACT = re.compile(r"^\s*(?P<name>[A-Za-z][\w ./()-]{0,40}?)\s*[:=]\s*(?P<value>[\w(\[{.+-].{0,80})$")


def host_facts(log: Log) -> dict[str, str]:
    """What the host printed as `name: value`: the device, shapes, the progress of the launch."""
    facts: dict[str, str] = {}
    for line in sorted(log.host):
        if found := _FACT.match(log.lines[line - 1]):
            facts.setdefault(found["name"], found["value"].strip())
    return facts


def _name(actor: Actor) -> as_data.ActorName:
    return {
        "role": actor.role,
        "cta": actor.cta if 0 <= actor.cta < UNKNOWN_CTA else None,
        "name": str(actor),
        "cluster": actor.group,
    }


def _quote(graph: WaitGraph, line: int) -> as_data.Quote:
    line = graph.log.moved.get(line, line)
    return {"line": line, "text": graph.log.lines[line - 1].strip()[:WIDTH]}


def _wait(graph: WaitGraph, wait: Wait) -> as_data.WaitRow:
    event = wait.event
    return {
        "actor": _name(wait.actor),
        "barrier": graph.log.name(event.barrier),
        "stage": event.stage,
        "phase": event.phase,
        "k": event.k,
        "line": graph.log.moved.get(event.line, event.line),
        "copy": copy(graph, wait),
    }


def _root(graph: WaitGraph, hang: LoggedHang) -> as_data.RootRow:
    root = hang.root
    behind = sorted(graph.dependents.get(root.actor, ()))
    return {
        **_wait(graph, root),
        "state": str(state(graph, root) or ""),
        "stopped": hang.stopped,
        "waits_behind_it": [_name(actor) for actor in behind],
    }


def _cause(graph: WaitGraph, cause: HangCause) -> as_data.CauseRow:
    return {
        "code": cause.code,
        "what": cause.what,
        "also": cause.also,
        "copies": cause.copies,
        "fix": cause.fix,
        "culprit": _name(cause.culprit) if cause.culprit is not None else None,
        "shows": [_quote(graph, line) for line in dict.fromkeys(cause.show)],
        "lines": [_quote(graph, line) for line in cause.lines],
    }


def _other(graph: WaitGraph, hang: LoggedHang) -> as_data.OtherHang:
    return {"root": _root(graph, hang), "causes": [_cause(graph, cause) for cause in hang.causes]}


def _blocked(graph: WaitGraph, wait: Wait) -> as_data.BlockedRow:
    blocked = {wait.actor for wait in graph.blocked}
    for_whom: list[as_data.ProducerRow] = [
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
        "waits_for": for_whom,
        "root": wait in graph.roots,
    }


def _actor_row(graph: WaitGraph, actor: Actor) -> as_data.ActorRow:
    history = graph.histories[actor]
    wait = history.blocked
    return {
        **_name(actor),
        "plan_role": plan_role(graph.plan, actor) if graph.plan and actor.role else "",
        "k": history.last_k,
        "waits_on": copy(graph, wait) if wait else None,
        "passed": sum(wait.passed for wait in history.waits),
        "arrivals": sum(map(len, history.arrives.values())),
        "last": _quote(graph, history.last_line),
    }


def _barriers(graph: WaitGraph) -> list[as_data.BarrierRow]:
    """Per barrier, stage and CTA: waits begun, waits ended, arrivals made by that CTA, phases waited for."""
    rows: dict[tuple[int, str, int, int], as_data.BarrierRow] = {}
    for actor, history in graph.histories.items():
        places = {wait.place for wait in history.waits} | {p for p, some in history.arrives.items() if some}
        for place in places:
            barrier, stage = place.barrier, place.stage
            owner = actor.cta if place.owner == OWN else place.owner
            key = actor.group, barrier, -1 if stage is None else stage, owner
            row = rows.setdefault(
                key,
                {
                    "barrier": graph.log.name(barrier),
                    "stage": stage,
                    "cta": owner if 0 <= owner < UNKNOWN_CTA else None,
                    "name": str(actor),
                    "cluster": actor.group,
                    "waits": 0,
                    "done": 0,
                    "arrivals": 0,
                    "phases": {},
                },
            )
            waits = history.on(place)
            row["waits"] += len(waits)
            row["done"] += sum(wait.passed for wait in waits)
            row["arrivals"] += len(history.arrives.get(place, ()))
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
        remarks.append("print a line before each wait too, to show what each role waits for at the end")
    elif not graph.says_done and not graph.log.snapshot:
        remarks.append(
            "no line reports the end of a wait: each role's last wait is assumed open, and a run that "
            "finished would look the same"
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
            f"{loose} events were inferred from vague wording, such as a barrier's name without a verb"
        )
    if graph.plan is not None:
        known = {barrier.name.replace("_", "").lower() for barrier in graph.plan.barriers}
        other = sorted(
            {graph.log.name(event.barrier) for event in graph.log.events if event.barrier not in known}
        )
        if other:
            remarks.append(f"the plan of {graph.plan.name} has no barrier called {', '.join(other)}")
    return remarks
