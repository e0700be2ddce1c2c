"""Reads a log by a user's line templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.accounts.trace import (
    Copy,
    CopyState,
    LoggedStep,
    LogTrace,
    StepKind,
)
from tileproof.conformance.beside.logs.hangs.log import Actor
from tileproof.conformance.beside.logs.hangs.template.pattern import Template, Values
from tileproof.spec.machine.errors import TileproofError

_KINDS: dict[str, StepKind] = {"wait": "wait", "done": "wait", "copy": "copy", "end": "end"}
_WHO = ("role", "roleid", "warp", "wg", "thread", "cta", "group")
_LIST = re.compile(r"\s*[+,&/|、]\s*|\s+(?:and|und|et|y)\s+")  # of the roles of an init line
_NAME_STAGE = re.compile(r"(.*\S)\s*(?:\[(\d+)\]|\((\d+)\)|\{(\d+)\}|#(\d+))$")


@dataclass(frozen=True)
class Records:
    """Values of the lines in order: (line, event, values); `unread`: the lines that no template matches."""

    made: list[tuple[int, str, Values]]
    unread: list[int]


@dataclass
class Tables:
    """A user's words: of an event, and other names of roles."""

    events: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)


def records(lines: Sequence[str], templates: Sequence[Template], tables: Tables) -> Records:
    """The values of every line by the first template that matches it."""
    made: list[tuple[int, str, Values]] = []
    unread: list[int] = []
    columns: list[Values] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _of_line(line, number, templates, tables)
        if columns and not found:
            cells = line.split("|")[1:]
            for column, cell in zip(columns, cells, strict=False):
                some = _of_line(cell, number, templates, tables) if cell.strip() else []
                found += [(event, {**column, **values}) for event, values in some]
        columns = [values for event, values in found if event == "columns"] or columns
        made += [(number, event, values) for event, values in found if event != "columns"]
        if not found and not any(number in template.lines[-1:] for template in templates):
            unread.append(number)
    return Records(made, unread)


def _of_line(
    line: str, number: int, templates: Sequence[Template], tables: Tables
) -> list[tuple[str, Values]]:
    """The events of a line, or of a table's cell."""
    made: list[tuple[str, Values]] = []
    for template in templates:
        found = template.read(line)
        if found is None:
            continue
        template.lines.append(number)
        for values in found:
            event = template.event or _event(str(values.get("event", "")), tables, template, number)
            made.append((event, values))
        if not template.also:
            break
    return made


def _event(word: str, tables: Tables, template: Template, line: int) -> str:
    found = tables.events.get(word.lower())
    if found is None:
        raise TileproofError(
            f"line {line}: the event {word!r} is unknown",
            where=template.text,
            found=word,
            do=f"--event wait={word} (or done, arrive, expect, copy, end, skip)",
        )
    return found


class _Maker:
    """Makes a trace of records, in two passes: names first."""

    def __init__(self, made: Records, tables: Tables) -> None:
        self.made, self.tables = made.made, tables
        self.trace = LogTrace()
        self.barriers: dict[tuple[int, int], Values] = {}
        self.roles: dict[tuple[str, int, int], str] = {}
        self.context: Values = {}
        self.last_k: dict[Actor, int] = {}
        self.owners = sorted({int(v["owner"]) for _, _, v in self.made if "owner" in v})
        self.warps: dict[tuple[str, int], set[int]] = {}

    def run(self) -> LogTrace:
        for _, event, values in self.made:
            if event in ("name", "init"):
                self._name(values)
        self._count_warps()
        for line, event, values in self.made:
            if event == "init":
                copy = self._copy(values, -1, 0)
                if "count" in values:
                    self.trace.inits[copy] = int(values["count"])
                for word in _LIST.split(str(values.get("role", ""))):
                    if not (role := word.strip("\"' ")):
                        continue
                    self.trace.feeds.setdefault(copy, set()).add(self.tables.roles.get(role.lower(), role))
            elif event == "actor":
                self._actor(values)
            elif event == "feeds":
                actor = self.actor({**self._who(values), **values})
                self.trace.feeds.setdefault(self._copy(values, actor.cta, actor.group), set()).add(actor.role)
            elif event == "state":
                self._state(line, values)
            elif event not in ("name", "skip"):
                self._step(line, event, {**self._who(values), **values})
        return self.trace

    def _actor(self, values: Values) -> None:
        if values.keys() & {"warp", "thread"} and "role" not in values:
            self.context.pop("role", None)
        self.context = {**self.context, **values}
        if "k" in values and values.keys() & {"role", "warp", "thread"}:
            actor = self.actor(self.context)
            self.last_k[actor] = self.trace.rounds[actor] = int(values["k"])

    def _who(self, values: Values) -> Values:
        """The context's actor, where a line names none."""
        missing = {key: value for key, value in self.context.items() if key not in values}
        named = any(key in values for key in ("role", "roleid", "warp", "thread"))
        return {} if named else missing

    def _name(self, values: Values) -> None:
        if "id" in values and "barrier" in values:
            owner = int(values.get("owner", -1))
            self.barriers[owner, int(values["id"])] = values
            self.barriers.setdefault((-1, int(values["id"])), values)
        if "role" in values:
            for key in ("roleid", "thread", "warp"):
                if key in values:
                    cta = int(values.get("cta", -1))
                    self.roles[key, cta, int(values[key])] = str(values["role"])
                    break

    def _count_warps(self) -> None:
        context: Values = {}
        for _, event, values in self.made:
            if event == "actor":
                context = {**context, **values}
            elif event not in ("name", "init", "skip"):
                whole = {**({} if {"role", "roleid", "warp", "thread"} & {*values} else context), **values}
                role, cta = self._role(whole), int(whole.get("cta", -1))
                warp = whole.get("warp", whole.get("thread"))
                if role and warp is not None:
                    self.warps.setdefault((role, cta), set()).add(int(warp))

    def _role(self, values: Values) -> str:
        role = str(values.get("role", ""))
        cta = int(values.get("cta", -1))
        for key in ("roleid", "thread", "warp"):
            if not role and key in values:
                number = int(values[key])
                role = self.roles.get((key, cta, number), self.roles.get((key, -1, number), ""))
        return self.tables.roles.get(role.lower(), role)

    def actor(self, values: Values) -> Actor:
        role = self._role(values)
        cta = int(values.get("cta", -1))
        group = int(values.get("group", 0))
        size = len(self.owners)
        if size > 1 and cta >= size:
            group, cta = (group or cta // size), cta % size
        if "warp" in values or "thread" in values:
            key, number = ("warp", values["warp"]) if "warp" in values else ("thread", values["thread"])
            if not role or len(self.warps.get((role, int(values.get("cta", -1))), ())) > 1:
                role = f"{role} {key} {number}".strip()
        if not role and "wg" in values:
            role = f"WG{values['wg']}"
        return Actor(group, role or "thread", cta)

    def _copy(self, values: Values, cta: int, group: int) -> Copy:
        if "barrier" not in values and "id" in values:
            number = int(values["id"])
            owner = int(values.get("owner", cta))
            known = self.barriers.get((owner, number)) or self.barriers.get((-1, number))
            values = {**(known or {"barrier": f"barrier {number:#x}"}), **values}
        name = str(values.get("barrier", ""))
        stage = int(values.get("stage", -1))
        inside = _NAME_STAGE.match(name) if stage < 0 else None
        if inside:
            name, stage = inside[1], int(next(item for item in inside.groups()[1:] if item))
        owner = int(values["owner"]) if "owner" in values else cta if self.owners or cta < 0 else -1
        if len(self.owners) > 1 and owner >= len(self.owners):
            owner %= len(self.owners)
        return Copy(group, name, stage, owner)

    def _copies(self, values: Values, actor: Actor) -> tuple[Copy, ...]:
        each = self._copy(values, actor.cta, actor.group)
        mask = int(values.get("mask", 0))
        if mask <= 0 or each.owner < 0:
            return (each,)
        return tuple(each._replace(owner=cta) for cta in range(mask.bit_length()) if mask >> cta & 1)

    def _state(self, line: int, values: Values) -> None:
        trace = self.trace
        if "passed" in values or "arrived" in values:
            trace.dump = True
            actor = self.actor({**self._who(values), **values})
            trace.steps.setdefault(actor, [])
            trace.lines_of.setdefault(actor, line)
            if "barrier" not in values and "id" not in values:
                return
            copy = self._copy(values, actor.cta, actor.group)
            for name, table in (("passed", trace.passed), ("arrived", trace.arrived)):
                if name in values:
                    table[actor, copy] = table.get((actor, copy), 0) + int(values[name])
            return
        copy = self._copy(values, -1, 0)
        trace.states[copy] = CopyState(
            line,
            int(values["completed"]) if "completed" in values else None,
            int(values["pending"]) if "pending" in values else None,
            int(values["txleft"]) if "txleft" in values else None,
        )
        if "count" in values:
            trace.inits[copy] = int(values["count"])

    def _step(self, line: int, event: str, values: Values) -> None:
        trace = self.trace
        actor = self.actor(values)
        steps = trace.steps.setdefault(actor, [])
        trace.lines_of[actor] = line
        if "k" in values:
            self.last_k[actor] = int(values["k"])
            trace.rounds[actor] = int(values["k"])
        k = self.last_k.get(actor)
        if event == "end":
            trace.ended[actor] = line
            trace.prints_ends = True
            steps.append(LoggedStep(line, "end", k=k))
            return
        if event == "done" and not {"barrier", "id"} & values.keys():
            waiting = [step for step in steps if step.kind == "wait" and not step.passed]
            if waiting:
                waiting[-1].passed, waiting[-1].end = True, line
            return
        copies = self._copies(values, actor)
        if event == "done":
            self._done(line, actor, copies, values, k)
            return
        size = int(values.get("bytes", 0))
        if event == "expect":
            steps.append(LoggedStep(line, "arrive", copies, k=k, bytes=size))
            return
        last = steps[-1] if steps else None
        phase = int(values["phase"]) if "phase" in values else None
        if event == "wait" and last is not None and last.kind == "wait" and not last.passed:
            if last.to == copies and last.phase == phase:
                return  # a spinning wait prints again, or another thread of the role
            last.passed = True
        if event == "arrive":
            if last is not None and last.kind == "wait" and not last.passed:
                last.passed, last.end = True, line
            same = last is not None and last.kind == "arrive" and last.line == line and not last.bytes
            if same and last is not None:  # one line that arrives on several barriers
                last.to += copies
                return
        steps.append(
            LoggedStep(line, _KINDS.get(event, "arrive"), copies, phase, k, int(values.get("count", 1)), size)
        )

    def _done(self, line: int, actor: Actor, copies: tuple[Copy, ...], values: Values, k: int | None) -> None:
        steps = self.trace.steps[actor]
        last = next((step for step in reversed(steps) if step.kind == "wait"), None)
        if last is not None and last.to == copies and not last.passed:
            last.passed, last.end = True, line
            last.ends = 1
            return
        phase = int(values["phase"]) if "phase" in values else None
        for step in reversed(steps[-40:]):
            if step.kind == "wait" and step.to == copies and step.ends and "k" in values and step.k == k:
                step.ends += 1  # several threads print under one name
                merged = self.trace.merged
                merged[actor] = max(merged.get(actor, 1), step.ends)
                return
        steps.append(LoggedStep(line, "wait", copies, phase, k, passed=True, end=line))


def trace_of(made: Records, tables: Tables) -> LogTrace:
    """The trace of records."""
    return _Maker(made, tables).run()
