"""The accounts of a log that words read, with what its first lines state of barriers and of clusters."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs import as_data
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Ledger
from tileproof.conformance.beside.logs.hangs.accounts.missing import signs
from tileproof.conformance.beside.logs.hangs.accounts.reasons import Reasoner
from tileproof.conformance.beside.logs.hangs.accounts.trace import LogTrace
from tileproof.conformance.beside.logs.hangs.declared import declared, working
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.log import OWN, UNKNOWN_CTA, Actor, Log, LogEvent, ctas_of
from tileproof.conformance.beside.logs.hangs.template.explain import LedgerView, by_named_fields, distinct
from tileproof.conformance.beside.logs.hangs.template.pattern import Values
from tileproof.conformance.beside.logs.hangs.template.read import trace_of
from tileproof.conformance.beside.logs.hangs.template.records import Record, Records, Tables

_SIGNED = ("producer-stopped",)  # that missing lines would show as well
_LEAST = {"wrong-barrier": 95, "wrong-parity": 90, "too-few-arrivals": 90, "never-arrived": 100}
_RATHER = 70  # the least weight of any other cause
_BESIDES = "the accounts of the barriers name this cause, and the waits alone another: {}"


def by_accounts(log: Log, found: as_data.Diagnosis) -> as_data.Diagnosis:
    """A diagnosis by waits, with the root and causes of the accounts in front where these are well supported;
    it is then not certain. Where both name the same cause, it stands as it is.
    """
    ledger = ledger_of(log) if found["outcome"] == "hang" else None
    if ledger is None or not ledger.trace.inits:
        return found  # without the counts of phases, the order of the waits tells more
    reasoner = Reasoner(ledger)
    reasons = reasoner.reasons()
    if not reasons or reasons[0].weight < _LEAST.get(reasons[0].code, _RATHER):
        return found
    first = reasons[0]
    if first.code in _SIGNED and signs(ledger, reasoner.parities()):
        return found
    mine = found["causes"][0]
    root = found["root"]
    if mine["code"] == first.code and root is not None and root["barrier"] == first.copy.barrier:
        return found
    view = LedgerView(log.lines, ledger)
    wait = next((wait for wait in ledger.blocked if wait.actor == first.waiter), None)
    return {
        **found,
        "certainty": "open" if found["certainty"] == "open" else "likely",
        "why": (_BESIDES.format(mine["code"]), *found["why"]),
        "root": view.root(first, wait),
        "causes": [*map(view.cause, distinct(reasons)), *found["causes"]][:6],
        "others": [],
    }


def by_keys(log: Log, found: as_data.Diagnosis) -> as_data.Diagnosis | None:
    """The diagnosis of a log whose lines name their fields and state the counts of barriers, where the
    diagnosis by waits is not certain; None for other logs, and where no hang is seen.
    """
    if found["certainty"] == "certain" or log.snapshot or log.exact:
        return None
    return by_named_fields(log.lines, found)


def ledger_of(log: Log) -> Ledger | None:
    """The accounts of a log; None where its actors or barriers are not mbarriers of known roles."""
    if log.snapshot or log.merged or log.reports or log.exact or not log.events:
        return None
    events = working(log)
    if any(event.scope != "mbarrier" or event.actor.cta >= UNKNOWN_CTA for event in events):
        return None
    made = [*_stated(log), *(each for event in events for each in _records(log, event)), *_ends(log)]
    made.sort(key=lambda record: record[0])
    trace: LogTrace = trace_of(Records(made, []), Tables())
    trace.headless = log.head_missing
    ledger = Ledger(trace)
    trace.loops = ledger.loops_in(log.lines, {line for line, _, _ in made})
    return ledger if ledger.blocked else None


def _stated(log: Log) -> list[Record]:
    found: list[Record] = []
    several = {event.owner for event in log.events} - {OWN} or any(event.to for event in log.events)
    for each in declared(log):
        values: Values = {"barrier": each.barrier}
        if each.count:
            values["count"] = each.count
        if each.roles:
            values["role"] = ", ".join(each.roles)
        if several and each.shared:
            values["ctas"] = 2
        if several and each.owner >= 0 and not each.shared:
            values["owner"] = each.owner
        found.append((each.line, "init", values))
    return found


def _who(actor: Actor) -> Values:
    values: Values = {"role": actor.role or "thread"}
    if actor.cta >= 0:
        values["cta"] = actor.cta
    if actor.group:
        values["group"] = actor.group
    return values


def _records(log: Log, event: LogEvent) -> list[Record]:
    values: Values = {**_who(event.actor), "barrier": log.name(event.barrier)}
    for name, value in (("stage", event.stage), ("k", event.k), ("phase", event.phase)):
        if value is not None:
            values[name] = value
    kind = "expect" if event.kind == "arrive" and event.size else event.kind
    if kind in ("expect", "copy"):
        values["bytes"] = event.size
    elif kind == "arrive" and event.count > 1:
        values["count"] = event.count
    targets = ctas_of(event.to) if event.owner == OWN else [event.owner]
    if not targets:
        return [(event.line, kind, values)]
    return [(event.line, kind, {**values, "owner": cta}) for cta in targets]


def _ends(log: Log) -> list[Record]:
    """The last line of a role that names no barrier and reports an end."""
    last = {event.actor: event for event in sorted(log.events, key=lambda event: event.line)}
    found = []
    for line, actor, _ in log.notes:
        words = {verb for word in log.lines[line - 1].split() for verb in lexicon.verbs(word.strip(".,;:()"))}
        event = last.get(actor)
        if event is not None and line > event.line and "done" in words and event.kind != "wait":
            found.append((line, "end", _who(actor)))
    return found
