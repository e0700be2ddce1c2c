"""Reads a printf log: each line's named fields, and the events (wait, done, arrive) that they make.

The grammar is one of fields, not of lines: a role or warpgroup, a CTA, a k-block, a barrier, a phase and a
verb are each found wherever they stand. A line that says only some of them goes on with the record before it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tileproof.conformance.logs.hangs.line import Clause, Line, parse
from tileproof.conformance.logs.hangs.words import Vocabulary, key_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

MAX_BYTES = 64 << 20
EXAMPLES = 5
Kind = Literal["wait", "done", "arrive"]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_GLUED = re.compile(r"(?<=\S)(?=\[[^\]\[]*\b(?:cta|block|blk)[^\]\[]*\])", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


@dataclass(frozen=True, order=True)
class Actor:
    """One role in one CTA of one cluster, as the log names them; CTA -1: the log names none."""

    group: int
    role: str
    cta: int

    def __str__(self) -> str:
        cluster = f"cluster {self.group} " if self.group else ""
        return cluster + (f"CTA {self.cta} " if self.cta >= 0 else "") + self.role


@dataclass(frozen=True)
class LogEvent:
    """One thing that an actor said; `loose`: read from the words around it, without a clear verb."""

    line: int
    actor: Actor
    kind: Kind
    barrier: str
    stage: int | None = None
    k: int | None = None
    phase: int | None = None
    loose: bool = False
    bytes: bool = False


@dataclass
class Log:
    """What was read. `lines` are the texts by number from 1; `unread` those that gave nothing."""

    path: str
    lines: list[str]
    events: list[LogEvent] = field(default_factory=list)
    notes: list[tuple[int, Actor, int | None]] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def name(self, barrier: str) -> str:
        """The barrier as the log spells it most often."""
        return self.names.get(barrier, barrier)


def read(path: Path, plan: KernelPlan | None = None) -> Log:
    """The log in `path`; TileproofError when it cannot be read, is no text, or tells of no barrier."""
    return read_text(load(path), str(path), plan)


def load(path: Path) -> str:
    """The text of the log in `path`; TileproofError when it cannot be read, is too large or no text."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TileproofError(
            "the log cannot be read",
            where=str(path),
            found=getattr(error, "strerror", None) or str(error),
            do="give a text file that the run or the build printed",
        ) from None
    if len(data) > MAX_BYTES:
        raise TileproofError(
            "the log is too large",
            where=str(path),
            expected=f"at most {MAX_BYTES >> 20} MiB",
            found="more than that",
            do="keep its end, where the hang is, or the part with the first errors",
        )
    return _decode(data, str(path))


def _decode(data: bytes, path: str) -> str:
    if not data.strip():
        raise TileproofError(
            "the log is empty", where=path, do="give the text that the kernel's printf or the build printed"
        )
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, errors="replace")
    strange = len(_CONTROL.findall(text[: 1 << 16]))
    if strange > 0.05 * len(text[: 1 << 16]):
        raise TileproofError(
            "the log is not text",
            where=path,
            expected="lines that a kernel's printf or a build made",
            found=f"{strange} control or undecodable characters at its beginning",
            do="give the text log, not a binary trace or a core file",
        )
    return text


def read_text(text: str, path: str = "log", plan: KernelPlan | None = None) -> Log:
    """The events of `text`; names of `plan`'s barriers and roles are known beforehand."""
    raw = re.split(r"\r\n|\n|\r", text)
    cut = bool(raw[-1].strip())
    if not raw[-1]:
        raw.pop()
    log = Log(path, [_ANSI.sub("", line).rstrip() for line in raw])
    reader = _Reader(log, plan)
    for number, line in enumerate(log.lines, 1):
        reader.take(number, line)
    reader.finish(cut)
    if not log.events:
        raise TileproofError(
            "nothing in the log tells of a barrier",
            where=path,
            expected="lines that name a role or warpgroup, a barrier, and wait, done or arrive",
            found=f"{len(log.lines)} lines, " + (f"such as: {_sample(log.lines)}" if log.lines else "none"),
            do="print one such line before and after each wait and after each arrive",
        )
    return log


def _sample(lines: list[str]) -> str:
    return next((line.strip()[:80] for line in lines if line.strip()), "")


class _Reader:
    """Collects lines into records and records into events."""

    def __init__(self, log: Log, plan: KernelPlan | None) -> None:
        self._log = log
        barriers = [barrier.name for barrier in plan.barriers] if plan else []
        self._plan = plan
        self._words = Vocabulary(
            frozenset(map(key_of, barriers)),
            frozenset(role.name.lower() for role in plan.roles) if plan else frozenset(),
        )
        self._names = {key_of(name): Counter({name: 1 << 30}) for name in barriers}
        self._pending: Line | None = None
        self._touches: list[LogEvent] = []
        self._spaced: list[tuple[Line, Actor]] = []
        self._records: list[tuple[Line, bool]] = []

    def take(self, number: int, text: str) -> None:
        if not text.strip():
            return
        if text.lower().count("cta") > 1 or text.count("[") > 2:
            for piece in _GLUED.split(text):
                self._take_one(number, piece)
        else:
            self._take_one(number, text)

    def _take_one(self, number: int, text: str) -> None:
        line = parse(text, self._words)
        line.number = number
        pending = self._pending
        if pending is not None and _continues(pending, line):
            _merge(pending, line)
            return
        self._flush()
        self._pending = line

    def _flush(self) -> None:
        line, self._pending = self._pending, None
        if line is None:
            return
        if not line.has_actor and not (line.has_cta and not line.complete):
            self._log.unread.append(line.number)
            return
        self._records.append((line, line.has_actor))

    def finish(self, cut: bool) -> None:
        """Makes the events of all records, then settles what needed the whole log."""
        self._flush()
        size = self._cluster_size()
        for line, acts in self._records:
            actor = _actor(line, size)
            made = self._events(line, actor) if acts else False
            if not made:
                if line.spaced and acts:
                    self._spaced.append((line, actor))
                elif acts and any(clause.verbs and "wait" in clause.verbs for clause in line.clauses):
                    self._log.unread.append(line.number)
                self._log.notes.append((line.number, actor, _k(line)))
        self._resolve_spaced()
        self._resolve_touches()
        if cut:
            self._check_cut()
        log = self._log
        log.events.sort(key=lambda event: event.line)
        log.unread.sort()
        log.names = {key: _spelling(counts) for key, counts in self._names.items()}
        self._drop_partial_stages()
        self._look_at_head()

    def _cluster_size(self) -> int:
        """CTAs of a cluster, where the log numbers blocks of the whole grid; 0 when it does not."""
        if self._plan is not None:
            return self._plan.cluster
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
            key = key_of(name)
            self._names.setdefault(key, Counter())[name] += 1
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
            if names[event.barrier] == 1 and longer:
                self._log.events.remove(event)
                self._names.pop(event.barrier, None)
                self._log.unread.append(last)
        self._log.remarks.append(f"line {last}, the last one, has no end: it may have been cut")

    def _drop_partial_stages(self) -> None:
        """A barrier whose lines give a stage only sometimes is followed without stages."""
        without = {event.barrier for event in self._log.events if event.stage is None}
        self._log.events = [
            replace(event, stage=None) if event.stage is not None and event.barrier in without else event
            for event in self._log.events
        ]

    def _look_at_head(self) -> None:
        first: dict[Actor, int] = {}
        for event in self._log.events:
            if event.k is not None:
                first.setdefault(event.actor, event.k)
        if first and min(first.values()) > 1:
            self._log.remarks.append(
                f"the log begins at k-block {min(first.values())}: earlier lines are missing (the device's "
                "printf buffer keeps the newest), so numbers of phases count from there"
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


def _kind(verbs: list[str]) -> Literal["wait", "done", "arrive", "touch"] | None:
    """What a clause's verbs say together."""
    has = set(verbs)
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
