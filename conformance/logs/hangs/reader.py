"""Reads a printf log: each line's named fields, and the events (wait, done, arrive) that they make.

The grammar is one of fields, not of lines: a role or warpgroup, a CTA, a k-block, a barrier, a phase and a
verb are each found wherever they stand. A line that says only some of them goes on with the record before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tileproof.conformance.logs.hangs.line import Clause, Line, LineKind, LineReader
from tileproof.conformance.logs.hangs.log import Actor, Kind, Log, LogEvent, load
from tileproof.conformance.logs.hangs.merged import unmerge
from tileproof.conformance.logs.hangs.printed import is_printed, printed_runs, read_printed
from tileproof.conformance.logs.hangs.rewrite import NO_WORDS, Words
from tileproof.conformance.logs.hangs.runs import split_runs, split_streams, unstamped
from tileproof.conformance.logs.hangs.words import Vocabulary, key_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_GLUED = re.compile(r"(?<=\S)(?=\[[^\]\[]*\b(?:cta|block|blk)[^\]\[]*\])", re.IGNORECASE)
_TELLS = re.compile(r"[\d=:\[|#@_{]")  # signs of which each field has one
_POINTER = re.compile(r"\b0[xX][0-9a-fA-F]{8,}\b")
LONG = 4096  # characters of a line that are read; what is longer is no line of a printf
Progress = Callable[[int, int], None]


def read(path: Path, plan: KernelPlan | None = None) -> Log:
    """The log in `path`; TileproofError when it cannot be read, is no text, or tells of no barrier."""
    return read_text(load(path), str(path), plan)


def read_text(
    text: str,
    path: str = "log",
    plan: KernelPlan | None = None,
    words: Words = NO_WORDS,
    cluster: int = 0,
    progress: Progress | None = None,
) -> Log:
    """The events of `text`; names of `plan`'s barriers and roles are known beforehand.

    `words`: a user's own. `cluster`: CTAs of a cluster, 0 to find out. `progress` is called with lines read
    and their number. Where the text holds several runs, `runs` of the log are theirs.
    """
    raw = _lines(text)
    cut = bool(raw[-1].strip())
    if not raw[-1]:
        raw.pop()
    lines = [_ANSI.sub("", line).rstrip() if "\x1b" in line else line.rstrip() for line in raw]
    long = sum(len(line) > LONG for line in lines)
    if long:
        lines = [line[:LONG] for line in lines]
    barriers = [barrier.name for barrier in plan.barriers] if plan else []
    known = Vocabulary(
        frozenset(map(key_of, barriers)),
        frozenset(role.name.lower() for role in plan.roles) if plan else frozenset(),
        words.single,
    )
    parsed = LineReader(known, words)
    streams = split_streams(lines)
    if len(streams) == 1:  # a rank may stand behind the time
        streams = split_streams([line for _, line in unstamped(streams[0][1])])
    whole = Log(path, lines)
    for name, members in streams:
        members = unstamped(members)
        if is_printed(members):
            whole.runs += [read_printed(Log(path, lines), part) for part in printed_runs(name, members)]
            continue
        reader = _Reader(Log(path, lines, title=name), plan, parsed, cluster)
        for number, line in members:
            reader.take(number, line)
            if progress is not None and not number & 0xFFFF:
                progress(number, len(lines))
        reader.finish(cut and members[-1][0] == len(lines) if members else False)
        if long:
            reader.log.remarks.append(
                f"{long} lines are longer than {LONG} characters: the rest of each is not read"
            )
        whole.runs += split_runs(reader.log)
    for log in whole.runs:
        unmerge(log)
    told = [log for log in whole.runs if log.events]
    if not told:
        raise TileproofError(
            "nothing in the log tells of a barrier",
            where=path,
            expected="lines that name a role or warpgroup, a barrier, and wait, done or arrive",
            found=f"{len(lines)} lines, " + (f"such as: {_sample(lines)}" if lines else "none"),
            do="print one such line before and after each wait and after each arrive",
        )
    if len(told) == 1:
        told[0].unread = sorted({*told[0].unread, *(line for log in whole.runs for line in log.unread)})
        told[0].title = ""
        return told[0]
    whole.runs = told
    whole.events = sorted((event for log in told for event in log.events), key=lambda event: event.line)
    whole.notes = sorted(note for log in told for note in log.notes)
    whole.unread = sorted(line for log in told for line in log.unread)
    for log in told:
        whole.names |= log.names
    return whole


def _lines(text: str) -> list[str]:
    """The lines of a text; those of a log that was stored as one string with escaped ends, too."""
    raw = re.split(r"\r\n|\n|\r", text) if "\r" in text else text.split("\n")
    if len(raw) <= 3 and max(map(len, raw)) > LONG and text.count("\\n") > 10:
        raw = text.replace("\\r", "").replace('\\"', '"').split("\\n")
    return raw


def _sample(lines: list[str]) -> str:
    return next((line.strip()[:80] for line in lines if line.strip()), "")


def _is_prose(text: str, parsed: LineReader) -> bool:
    """Whether a line of several words has none that speaks of roles, waits or arrivals."""
    words = text.split()
    return len(words) > 3 and not any(parsed.speaks(word) for word in words)


_ACTOR_FIELDS = {"wg", "warp", "thread", "cta", "block", "rank", "group"}


@dataclass(eq=False)
class EventPlan:
    """How the event of one kind of line is made: values, and places of those that it leaves open (0:
    none).
    """

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


class _Reader:
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
        if _TELLS.search(text) is None and _is_prose(text, self._parsed):
            self._settle()
            self._log.unread.append(number)
            return
        if "0x" in text:
            text = _POINTER.sub("address", text)
        if text.count("[") > 1 and (text.count("[") > 2 or text.lower().count("cta") > 1):
            for piece in _GLUED.split(text):
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
        if pending is not None and _continues(pending, line):
            _merge(pending, line)
            return
        self._flush()
        self._pending = line

    def _settle(self) -> None:
        """Ends the record under way."""
        if self._quick is not None:
            self._make(*self._quick)
            self._quick = None
        self._flush()

    def _plan_of(self, kind: LineKind) -> EventPlan | bool:
        """How to make the event of such a line, where it tells of one barrier and an actor by itself."""
        line = kind.pattern
        if (
            len(line.clauses) != 1
            or not line.has_actor
            or not line.clauses[0].barrier
            or self._plan is not None
        ):
            return False
        clause = line.clauses[0]
        told = _kind(clause.verbs)
        if told is None or told == "touch" or any(what == "barrier" for _, what, _ in kind.clauses):
            return False
        if "block" in line.fields:
            return False  # the cluster's size is known at the end
        places = {name: (sign, at) for name, sign, at in kind.fields}
        if places.keys() & _ACTOR_FIELDS or clause.barrier.startswith("@"):
            return False
        name = next((one for one in ("k", "iteration", "tile") if one in line.fields), "")
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
            plan.actor = _actor(plan.line, 0)
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
            self._log.half_read += any(
                clause.verbs and ("wait" in clause.verbs or clause.barrier) for clause in line.clauses
            )
            return
        self._records.append((line, line.has_actor))

    def finish(self, cut: bool) -> None:
        """Makes the events of all records, then settles what needed the whole log."""
        self._settle()
        size = self._cluster_size()
        self._place(size)
        for line, acts in self._records:
            actor = _actor(line, size)
            made = self._events(line, actor) if acts else False
            if not made:
                if line.spaced and acts:
                    self._spaced.append((line, actor))
                elif acts and any(clause.verbs and "wait" in clause.verbs for clause in line.clauses):
                    self._log.unread.append(line.number)
                    self._log.half_read += 1
                self._log.notes.append((line.number, actor, _k(line)))
        self._resolve_spaced()
        self._resolve_touches()
        if cut:
            self._check_cut()
        log = self._log
        log.events.sort(key=lambda event: event.line)
        log.unread.sort()
        log.names = {key: _spelling(counts) for key, counts in self._names.items()}
        self._drop_torn_actors()
        self._drop_partial_stages()
        self._look_at_head()

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
            kind = _kind(verbs)
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
                _k(line),
                line.fields.get("phase"),
                bytes=line.bytes,
                size=line.fields.get("bytes", 0) if kind in ("arrive", "copy") else 0,
            )
            if kind == "touch":
                self._touches.append(replace(event, loose=not clause.adjacent_done))
            else:
                self._log.events.append(event)
            made = True
        return made

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

    def _resolve_spaced(self) -> None:
        """`P is ready`, `ds ready for WG3`: known barriers whose name is said in two words."""
        known = {event.barrier for event in self._log.events} | {event.barrier for event in self._touches}
        for line, actor in self._spaced:
            for key, mode in line.spaced:
                if key in known and mode:
                    kind: Kind = "done" if mode == "is" else "arrive"
                    self._log.events.append(
                        LogEvent(
                            line.number,
                            actor,
                            kind,
                            key,
                            None,
                            _k(line),
                            line.fields.get("phase"),
                            loose=True,
                        )
                    )

    def _resolve_touches(self) -> None:
        """A bare `done` ends a wait of roles that wait there; a role that never does has arrived."""
        waits = {(event.actor.role, event.barrier) for event in self._log.events if event.kind == "wait"}
        waited_on = {barrier for _, barrier in waits}
        for event in self._touches:
            if (event.actor.role, event.barrier) in waits or (
                event.barrier not in waited_on and not event.loose
            ):
                self._log.events.append(replace(event, loose=False))
            else:
                self._log.events.append(replace(event, kind="arrive", loose=True))

    def _check_cut(self) -> None:
        last = len(self._log.lines)
        names = Counter(event.barrier for event in self._log.events)
        tail = [event for event in self._log.events if event.line == last]
        for event in tail:
            longer = [key for key in names if key.startswith(event.barrier) and key != event.barrier]
            alike = [one for one in self._log.events if one.barrier == event.barrier and one is not event]
            unstaged = event.stage is None and alike and all(one.stage is not None for one in alike)
            if (names[event.barrier] == 1 and longer) or unstaged:
                self._log.events.remove(event)
                if names[event.barrier] == 1:
                    self._names.pop(event.barrier, None)
                self._log.unread.append(last)
        self._log.cut = True
        self._log.remarks.append(f"line {last}, the last one, has no end: it may have been cut")

    def _drop_torn_actors(self) -> None:
        """A few events that name no CTA, where nearly all do, are of torn lines."""
        events = self._log.events
        without = [event for event in events if event.actor.cta < 0]
        if without and len(without) <= 0.1 * len(events):
            self._log.unread += [event.line for event in without]
            self._log.events = [event for event in events if event.actor.cta >= 0]
            self._log.notes = [note for note in self._log.notes if note[1].cta >= 0]

    def _drop_partial_stages(self) -> None:
        """A barrier whose lines give a stage only sometimes is followed without stages; a few that give none
        are torn.
        """
        events = self._log.events
        every = Counter(event.barrier for event in events)
        without = Counter(event.barrier for event in events if event.stage is None)
        torn = {barrier for barrier, count in without.items() if count <= 0.1 * every[barrier]}
        partial = {barrier for barrier, count in without.items() if count < every[barrier]} - torn
        if torn:
            self._log.unread += [
                event.line for event in events if event.stage is None and event.barrier in torn
            ]
            events = [event for event in events if event.stage is not None or event.barrier not in torn]
        for event in events:
            if event.barrier in partial:
                event.stage = None
        self._log.events = events

    def _look_at_head(self) -> None:
        """Whether the first lines are gone: the device's printf buffer keeps the newest."""
        first: dict[Actor, LogEvent] = {}
        blocks: dict[Actor, int] = {}
        for event in self._log.events:
            first.setdefault(event.actor, event)
            if event.k is not None:
                blocks.setdefault(event.actor, event.k)
        begun = {(event.actor.role, event.barrier) for event in self._log.events if event.kind == "wait"}
        ends = [
            event
            for event in first.values()
            if event.kind == "done" and (event.actor.role, event.barrier) in begun
        ]
        later = [k for k in blocks.values() if k > 1]
        begun_late = sum(k > 0 for k in blocks.values()) * 2 > len(blocks) > 1
        if blocks and (
            min(blocks.values()) > 1 or begun_late or (ends and later) or len(ends) * 2 > len(first)
        ):
            self._log.head_missing = True
        # A role of one CTA that begins where the same role of another does not.
        for actor, k in blocks.items():
            twins = [
                other for one, other in blocks.items() if one.role == actor.role and one.group == actor.group
            ]
            if k > min(twins) + 1 and first[actor].kind != "wait":
                self._log.head_missing = True
        if self._log.head_missing:
            self._log.remarks.append(
                f"the head of the log is missing (it begins at k-block {min(blocks.values())}; the "
                f"device's printf "
                "buffer keeps the newest lines): the last known states count, not the numbers of phases"
            )


def _spelling(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


def _k(line: Line) -> int | None:
    for name in ("k", "iteration", "tile"):
        if name in line.fields:
            return line.fields[name]
    return None


def _actor(line: Line, cluster: int) -> Actor:
    fields = line.fields
    if "wg" in fields:
        role = f"WG{fields['wg']}" + (f" warp {fields['warp']}" if "warp" in fields else "")
    elif "warp" in fields:
        role = f"warp {fields['warp']}"
    elif line.role:
        role = line.role
    else:
        role = f"warp {fields['thread'] // 32}" if "thread" in fields else ""
    group, cta = fields.get("group", 0), fields.get("cta", fields.get("block", fields.get("rank", -1)))
    if cluster and "block" in fields:
        group, cta = fields["block"] // cluster, fields.get("cta", fields["block"] % cluster)
    elif cluster and cta >= cluster:
        group, cta = cta // cluster, cta % cluster
    return Actor(group, role, cta)


def _kind(verbs: list[str]) -> Literal["wait", "done", "arrive", "copy", "touch"] | None:
    """What a clause's verbs say together."""
    has = set(verbs)
    if "copy" in has:
        return "copy" if has <= {"copy", "done", "arrive"} else None
    if "waited" in has:
        return "wait" if "not" in has else "done"
    if verbs and verbs[0] == "arrive" and {"after", "wait"} <= has:
        return "arrive"
    if "wait" in has:
        ended = ("done" in has and "begin" not in has) or "after" in has
        return "done" if ended and "not" not in has else "wait"
    if "arrive" in has:
        return None if "not" in has else "arrive"
    if "done" in has:
        return "wait" if "not" in has else "touch"
    if "begin" in has:
        return "wait"
    return None


def _continues(record: Line, line: Line) -> bool:
    """Whether `line` goes on with `record`: it adds fields, repeats none, and says little else."""
    if record.complete and (line.complete or not line.fields):
        return False
    if not (record.has_actor or record.has_cta):
        return False
    if (line.has_actor and record.has_actor) or (line.has_cta and record.has_cta):
        return False
    if record.fields.keys() & line.fields.keys():
        return False
    adds = bool(line.fields or line.role) or any(clause.barrier or clause.verbs for clause in line.clauses)
    return adds and (line.said == 0 or (line.indented and line.said <= 3))


def _merge(record: Line, line: Line) -> None:
    record.fields |= line.fields
    record.role = record.role or line.role
    record.bytes |= line.bytes
    verbs = [verb for clause in record.clauses + line.clauses for verb in clause.verbs]
    named = [clause for clause in record.clauses + line.clauses if clause.barrier]
    if len(named) <= 1:
        whole = named[0] if named else Clause()
        whole.verbs = verbs
        whole.adjacent_done = True
        record.clauses = [whole]
    else:
        record.clauses += line.clauses
    if line.complete or not record.complete:
        record.number = line.number if named else record.number
