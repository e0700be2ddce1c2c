"""Collects the lines of a log into records, and the records into events."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from tileproof.conformance.beside.logs.hangs.addresses import resolve_windows
from tileproof.conformance.beside.logs.hangs.line import LineKind, LineReader
from tileproof.conformance.beside.logs.hangs.line_fields import Clause, Line
from tileproof.conformance.beside.logs.hangs.log import OWN, PEER, Actor, Kind, Log, LogEvent, Scope
from tileproof.conformance.beside.logs.hangs.records import (
    actor_of,
    block_of,
    continues,
    mask_of,
    merge,
    scope_of,
    targets_of,
    told_by,
)
from tileproof.conformance.beside.logs.hangs.settled import (
    check_cut,
    drop_partial_stages,
    drop_torn_actors,
    keep_host,
    look_at_head,
    pair_waits,
    resolve_meetings,
    resolve_rings,
    resolve_spaced,
    resolve_targets,
    resolve_touches,
)
from tileproof.conformance.beside.logs.hangs.words import key_of
from tileproof.spec.plan import KernelPlan

_GLUED = re.compile(r"(?<=\S)(?=\[[^\]\[]*\b(?:cta|block|blk)[^\]\[]*\])", re.IGNORECASE)
_BARRIER_ADDRESS = re.compile(
    r"(?:wait|arrive|commit|expect|bar|bulk|load|copy)[\w.:]*\W{0,3}(?:\w+\s*[=(]\s*)*0[xX]", re.IGNORECASE
)
_COMMENT = re.compile(r"\s*(?:#(?!\s?\d)|//)")  # in front of the first event
_TELLS = re.compile(r"[\d=:\[|#@_{]")  # signs of which each field has one
_POINTER = re.compile(r"\b0[xX][0-9a-fA-F]{8,}\b")
_TARGETED = {"target", "mask", "peer"}
_ACTOR_FIELDS = {"wg", "warp", "thread", "cta", "block", "rank", "group"}


def _is_prose(text: str, parsed: LineReader) -> bool:
    """Whether a line of several words has no word for a role, a wait or an arrival."""
    words = text.split()
    return len(words) > 3 and not any(parsed.speaks(word) for word in words)


@dataclass(eq=False)
class EventPlan:
    """How to make the event of a line template: its values, and the positions of open values (0: none)."""

    kind: LineKind
    line: Line
    event: Kind
    barrier: str
    name: str
    stage: int | None
    stage_at: int
    k: int | None
    k_at: int
    phase: int | None
    phase_at: int
    size: int
    size_at: int
    actor: Actor | None = None
    made: int = 0


class Collector:
    """Collects lines into records and records into events."""

    def __init__(self, log: Log, plan: KernelPlan | None, parsed: LineReader, cluster: int) -> None:
        self.log = self._log = log
        self._plan = plan
        self._parsed = parsed
        self._cluster = cluster
        self._names = {
            key_of(barrier.name): Counter({barrier.name: 1 << 30})
            for barrier in (plan.barriers if plan else ())
        }
        self._keys: dict[str, str] = {}
        self._pending: Line | None = None
        self._touches: list[LogEvent] = []
        self._spaced: list[tuple[Line, Actor]] = []
        self._records: list[tuple[Line, bool]] = []
        self._quick: tuple[int, EventPlan, list[str]] | None = None
        self._plans: list[EventPlan] = []

    def take(self, number: int, text: str) -> None:
        if not text:
            return
        comment = _COMMENT.match(text) is not None and not self._records and self._pending is None
        if comment or (_TELLS.search(text) is None and _is_prose(text, self._parsed)):
            self._settle()
            self._log.unread.append(number)
            self._log.host.add(number)
            return
        if "0x" in text and _BARRIER_ADDRESS.search(text) is None:
            text = _POINTER.sub("address", text)
        if text.count("[") > 1 and (text.count("[") > 2 or text.lower().count("cta") > 1):
            first, *rest = _GLUED.split(text)
            if rest and " " not in first.strip():  # a role: loader[cta=0]
                first += rest.pop(0)
            for piece in (first, *rest):
                self._take_one(number, piece)
        else:
            self._take_one(number, text)

    def _take_one(self, number: int, text: str) -> None:
        kind, parts = self._parsed.kind(text)
        plan = kind.plan
        if plan is None:
            plan = kind.plan = self._plan_of(kind)
        quick = self._quick
        if quick is not None:
            self._quick = None
            if kind.pattern.has_actor:
                self._make(*quick)
            else:  # it may go on with that record
                self._pending = self._parsed.filled(quick[1].kind, quick[2])
                self._pending.number = quick[0]
        if isinstance(plan, EventPlan):
            self._flush()
            self._quick = number, plan, parts
            return
        line = self._parsed.filled(kind, parts)
        line.number = number
        pending = self._pending
        if pending is not None and continues(pending, line):
            merge(pending, line)
            return
        self._flush()
        self._pending = line

    def _settle(self) -> None:
        """End the current record."""
        if self._quick is not None:
            self._make(*self._quick)
            self._quick = None
        self._flush()

    def _plan_of(self, kind: LineKind) -> EventPlan | bool:
        """How to make the event of such a line, if it has a barrier and an actor."""
        line = kind.pattern
        if (
            len(line.clauses) != 1
            or not line.has_actor
            or not line.clauses[0].barrier
            or self._plan is not None
        ):
            return False
        clause = line.clauses[0]
        told = told_by(clause.verbs)
        if line.fields.keys() & _TARGETED or scope_of(clause.barrier) != "mbarrier":
            return False
        if told is None or told == "touch" or any(what == "barrier" for _, what, _ in kind.clauses):
            return False
        if "block" in line.fields:
            return False  # the cluster's size is known at the end
        places = {name: (sign, at) for name, sign, at in kind.fields}
        if places.keys() & _ACTOR_FIELDS or clause.barrier.startswith("@"):
            return False
        name = next((field for field in ("k", "iteration", "tile") if field in line.fields), "")
        stage: int | None = clause.stage if clause.stage is not None else line.fields.get("stage")
        stage_at = next((at for _, what, at in kind.clauses if what == "stage"), 0)
        if clause.stage is None and "stage" in places:
            stage_at = places["stage"][1]
        sign, k_at = places.get(name, (1, 0))
        sized = told in ("arrive", "copy")
        return EventPlan(
            kind=kind,
            line=line,
            event=told,
            barrier=key_of(clause.barrier),
            name=clause.barrier,
            stage=stage,
            stage_at=stage_at,
            k=line.fields.get(name),
            k_at=sign * k_at,
            phase=line.fields.get("phase"),
            phase_at=places.get("phase", (1, 0))[1],
            size=line.fields.get("bytes", 0) if sized else 0,
            size_at=places.get("bytes", (1, 0))[1] if sized else 0,
        )

    def _make(self, number: int, plan: EventPlan, parts: list[str]) -> None:
        if plan.actor is None:
            plan.actor = actor_of(plan.line, 0)
            self._plans.append(plan)
        plan.made += 1
        k_at = plan.k_at
        self._log.events.append(
            LogEvent(
                number,
                plan.actor,
                plan.event,
                plan.barrier,
                int(parts[plan.stage_at]) if plan.stage_at else plan.stage,
                plan.k if not k_at else int(parts[k_at]) if k_at > 0 else -int(parts[-k_at]),
                int(parts[plan.phase_at]) if plan.phase_at else plan.phase,
                False,
                plan.line.bytes,
                int(parts[plan.size_at]) if plan.size_at else plan.size,
            )
        )

    def _flush(self) -> None:
        line, self._pending = self._pending, None
        if line is None:
            return
        if not line.has_actor and not (line.has_cta and not line.complete):
            self._log.unread.append(line.number)
            told = any(clause.verbs and ("wait" in clause.verbs or clause.barrier) for clause in line.clauses)
            self._log.half_read += told
            if not told and not line.has_cta:
                self._log.host.add(line.number)
            return
        self._records.append((line, line.has_actor))

    def finish(self, cut: bool) -> None:
        """Makes the events of all records, then settles what needed the whole log."""
        self._settle()
        size = self._cluster_size()
        self._place(size)
        for line, acts in self._records:
            actor = actor_of(line, size)
            made = self._events(line, actor) if acts else False
            if not made:
                if line.spaced and acts:
                    self._spaced.append((line, actor))
                elif acts and any(clause.verbs and "wait" in clause.verbs for clause in line.clauses):
                    self._log.unread.append(line.number)
                    self._log.half_read += 1
                self._log.notes.append((line.number, actor, block_of(line)))
        resolve_spaced(self._log, self._spaced, self._touches)
        resolve_touches(self._log, self._touches)
        pair_waits(self._log)
        resolve_meetings(self._log)
        resolve_windows(self._log)
        resolve_targets(self._log)
        resolve_rings(self._log)
        if cut:
            check_cut(self._log, self._names)
        log = self._log
        log.events.sort(key=lambda event: event.line)
        log.unread.sort()
        log.names = {key: _spelling(counts) for key, counts in self._names.items()}
        drop_torn_actors(log)
        drop_partial_stages(log)
        look_at_head(log)
        keep_host(log)

    def _place(self, size: int) -> None:
        """Counts the names of the events that were made at once, and puts their actors into clusters."""
        for plan in self._plans:
            self._names.setdefault(plan.barrier, Counter())[plan.name] += plan.made
            plan.made = 0
            plan.actor = None
        moved: dict[Actor, Actor] = {}
        for event in self._log.events if size else ():
            if event.actor.cta >= size:
                group, cta = divmod(event.actor.cta, size)
                event.actor = moved.setdefault(event.actor, event.actor._replace(group=group, cta=cta))

    def _cluster_size(self) -> int:
        """CTAs of a cluster, where the log numbers blocks of the whole grid; 0 when it does not."""
        if self._cluster or self._plan is not None:
            return self._cluster or (self._plan.cluster if self._plan is not None else 0)
        both = [line.fields["cta"] for line, _ in self._records if {"cta", "block"} <= line.fields.keys()]
        return max(both) + 1 if both else 0

    def _events(self, line: Line, actor: Actor) -> bool:
        made = False
        verbs: list[str] = []
        for clause in line.clauses:
            verbs = clause.verbs or verbs
            if not clause.barrier:
                continue
            scope = scope_of(clause.barrier)
            if scope != "mbarrier":
                made = self._meet(line, actor, clause, scope)
                continue
            kind = told_by(verbs)
            if kind is None:
                continue
            name = self._resolve(clause)
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = key_of(name)
            counts = self._names.get(key)
            if counts is None:
                counts = self._names[key] = Counter()
            counts[name] += 1
            stage = clause.stage if clause.stage is not None else line.fields.get("stage")
            event = LogEvent(
                line.number,
                actor,
                "done" if kind == "touch" else kind,
                key,
                stage,
                block_of(line),
                line.fields.get("phase"),
                bytes=line.bytes,
                size=line.fields.get("bytes", 0) if kind in ("arrive", "copy") else 0,
                to=mask_of(line) if kind in ("arrive", "copy") else 0,
                owner=self._owner(line, actor) if kind in ("wait", "done", "touch") else OWN,
            )
            if kind == "touch":
                self._touches.append(replace(event, loose=not clause.adjacent_done))
            else:
                self._log.events.append(event)
            made = True
        return made

    @staticmethod
    def _owner(line: Line, actor: Actor) -> int:
        """The CTA whose barrier a line waits on."""
        told = targets_of(line)
        if told:
            return told[0] if told[0] != actor.cta else OWN
        return PEER if "peer" in line.fields else OWN

    def _meet(self, line: Line, actor: Actor, clause: Clause, scope: Scope) -> bool:
        """The events of a barrier of threads or of the cluster, or of an allocation.

        To enter a barrier of threads is to arrive on it and to wait; columns that are freed arrive.
        """
        has = set(clause.verbs)
        key = key_of(clause.barrier)
        self._names.setdefault(key, Counter())[clause.barrier] += 1
        kinds: tuple[Kind, ...] = ("arrive", "wait") if scope == "cta" else ("wait",)
        if "arrive" in has:
            kinds = ("arrive",) if "wait" not in has else ("arrive", "wait")
        elif has & {"done", "after", "waited"} and "not" not in has and not has & {"begin"}:
            kinds = ("done",)
        for kind in kinds:
            self._log.events.append(LogEvent(line.number, actor, kind, key, k=block_of(line), scope=scope))
        return True

    def _resolve(self, clause: Clause) -> str:
        """The plan's name of a barrier that is given by its offset or by its name's beginning."""
        name = clause.barrier
        if self._plan is None:
            return name
        if name.startswith("@"):
            for barrier in self._plan.barriers:
                for stage in range(barrier.stages):
                    if barrier.offset_of(stage) == int(name[1:], 0):
                        clause.stage = stage if barrier.stages > 1 else clause.stage
                        return barrier.name
        key = key_of(name)
        alike = [barrier.name for barrier in self._plan.barriers if key_of(barrier.name).startswith(key)]
        return alike[0] if len(alike) == 1 else name


def _spelling(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))
