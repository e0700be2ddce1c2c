"""Reads a log by a user's line templates."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.accounts.trace import (
    Copy,
    CopyState,
    LoggedStep,
    LogTrace,
    StepKind,
)
from tileproof.conformance.beside.logs.hangs.log import Actor, ctas_of
from tileproof.conformance.beside.logs.hangs.template.clusters import LoggedClusters
from tileproof.conformance.beside.logs.hangs.template.names import LoggedNames, with_ctas
from tileproof.conformance.beside.logs.hangs.template.pattern import AND, Values
from tileproof.conformance.beside.logs.hangs.template.records import STEPS, Records, Tables

_KINDS: dict[str, StepKind] = {"wait": "wait", "done": "wait", "copy": "copy", "end": "end"}
_WHO = ("role", "roleid", "warp", "wg", "thread", "cta", "group")
_IDENTITY = {"role", "roleid", "warp", "thread"}
_OF_ROLE = {"passed", "arrived", "announced", "landed"}
_OF_BARRIER = {"completed", "pending", "txleft", "arrived", "announced", "landed"}
_WHICH = ("barrier", "id", "stage", "owner")  # fields that say which barrier it is
_LIST = re.compile(r"\s*[+,&/|、]\s*|\s+(?:" + AND + r")\s+")  # of the roles of an init line
_NAME_STAGE = re.compile(r"(.*\S)\s*(?:\[(\d+)\]|\((\d+)\)|\{(\d+)\}|#(\d+))$")


def _of_role(values: Values, who: Values) -> set[str]:
    """Counts of a state line that are a role's: the others are of a barrier's current phase."""
    found = values.keys() & _OF_ROLE
    if "listed" in values and values.keys() & _IDENTITY:
        return found
    alone = not values.keys() & {"completed", "pending", "txleft"}
    if alone and (values.keys() & _IDENTITY or (who.keys() & _IDENTITY and "count" not in values)):
        return found
    return found & {"passed"}


def _flat(name: str) -> str:
    """What two spellings of a name have in common."""
    return re.sub(r"[\s._-]", "", name.lower())


class _Maker:
    """Makes a trace of records, in two passes: names first."""

    def __init__(self, made: Records, tables: Tables) -> None:
        self.made, self.tables = with_ctas(made.made), tables
        self.trace = LogTrace()
        self.names = LoggedNames()
        self.context: Values = {}
        self.begins: set[str] = set()  # what the first line about each actor names
        self.on: Values = {}  # the barrier of the lines that follow
        self.about: Values = {}  # the barrier of the line before
        self.last: dict[Actor, tuple[int, int | None]] = {}  # tile and k
        self.arrived: dict[Actor, tuple[int, int]] = {}  # line and part of the last arrival
        self.rounds = 1 + max((int(v["k"]) for _, _, v in self.made if "k" in v), default=0)  # of a tile
        self.clusters = LoggedClusters(self.made)
        self.stages: dict[str, set[int]] = {}
        for _, event, values in self.made:
            if event not in ("name", "init") and "stage" in values and "barrier" in values:
                self.stages.setdefault(str(values["barrier"]), set()).add(int(values["stage"]))
        made_by = [v for _, event, v in self.made if event not in ("init", "feeds")]
        self.printing = {str(v["role"]) for v in made_by if "role" in v}
        self.spelled: dict[str, str] = {}  # roles and barriers, as their steps spell them
        for _, _, values in sorted(self.made, key=lambda record: record[1] not in (*STEPS, "actor")):
            for name in (str(values[key]) for key in ("role", "barrier") if key in values):
                self.spelled.setdefault(_flat(name), name)
        self.warps: dict[tuple[str, int], set[int]] = {}

    def run(self) -> LogTrace:
        for _, event, values in self.made:
            if event in ("name", "init"):
                self.names.add(values)
        self.names.lay_out()
        self._count_warps()
        for line, event, values in self.made:
            if event == "on":
                self.on = self.about = values
            elif event in ("init", "state"):
                values = self._of_barrier(values, self.about)
                self._init(values) if event == "init" else self._state(line, values)
            elif event == "actor":
                self._actor(values)
            elif event == "tail":
                self._tail({**self._who(values), **values})
            elif event == "feeds":
                values = self._of_barrier(values, self.on)
                actor = self.actor({**self._who(values), **values})
                self.trace.feeds.setdefault(self._copy(values, actor.cta, actor.group), set()).add(actor.role)
            elif event not in ("name", "skip", "newest"):
                values = self._of_barrier(values, self.on)
                self._step(line, event, {**self._who(values), **values})
        self._count_turns()
        return self.trace

    def _count_turns(self) -> None:
        """Number the rounds of all tiles in order: tiles may have different numbers of rounds."""
        steps = [step for steps in self.trace.steps.values() for step in steps]
        turns = {step.turn for step in steps if step.turn is not None and step.turn >= 0}
        order = {turn: at for at, turn in enumerate(sorted(turns), min(turns, default=0))}
        for step in steps if any("tile" in values for _, _, values in self.made) else ():
            step.turn = order.get(step.turn, step.turn) if step.turn is not None else None

    def _of_barrier(self, values: Values, context: Values) -> Values:
        """The values of a line, with the barrier of the context where the line names none."""
        if values.keys() & {"barrier", "id"}:
            if not self.on.keys() & {"barrier", "id"}:
                values = {**self.on, **values}  # a line above names the CTA of the barriers that follow
            self.about = {key: each for key, each in values.items() if key in _WHICH}
            return values
        return {**context, **values}

    def _init(self, values: Values) -> None:
        copy = self._copy(values, -1, 0, whole=True)
        if "count" in values:
            self.trace.inits[copy] = int(values["count"])
        if int(values.get("ctas", 1)) > 1:
            self.trace.shared.add(copy)
        named = "cta" in values and ("owner" in values or "mask" in values or copy in self.trace.shared)
        fed = [copy._replace(owner=each) for each in ctas_of(int(values.get("mask", 0)))] or [copy]
        for word in _LIST.split(str(values.get("role", ""))):
            if role := word.strip("\"'[]() "):
                for each in fed:
                    self.trace.feeds.setdefault(each, set()).add(self._named(role))
                    if named:
                        sender = self._named(role), self.clusters.rank(int(values["cta"]))
                        self.trace.senders.setdefault(each, set()).add(sender)
            if re.search(r"\s", role) and role not in self.printing:
                break  # other text, whose role no line has, follows the list

    def _tail(self, values: Values) -> None:
        if int(values.get("lost", 1)) and not (self.trace.headless and not self.trace.cut):
            self.trace.headless = True
            self.trace.cut = self.trace.cut | {self.actor(values)} if values.keys() & _IDENTITY else set()

    def _actor(self, values: Values) -> None:
        names = values.keys() & _IDENTITY
        self.begins = self.begins or names
        if names & self.begins:  # other lines of it, behind this one, name the same actor more closely
            self.context = {key: each for key, each in self.context.items() if key not in _IDENTITY}
        self.context = {**self.context, **values}
        if values.keys() & {"k", "tile"} and values.keys() & _IDENTITY:
            self._round(self.actor(self.context), values, "actor")

    def _who(self, values: Values) -> Values:
        """The context's actor, where a line names none."""
        missing = {key: value for key, value in self.context.items() if key not in values}
        return {} if values.keys() & _IDENTITY else missing

    def _count_warps(self) -> None:
        context: Values = {}
        for _, event, values in self.made:
            if event == "actor":
                context = {**context, **values}
            elif event not in ("name", "init", "skip"):
                whole = {**({} if values.keys() & _IDENTITY else context), **values}
                role, cta = self._role(whole), int(whole.get("cta", -1))
                warp = whole.get("warp", whole.get("thread"))
                if role and warp is not None:
                    self.warps.setdefault((role, cta), set()).add(int(warp))

    def _role(self, values: Values) -> str:
        return self._named(str(values.get("role", "")) or self.names.role(values))

    def _named(self, role: str) -> str:
        """A role by the user's name for it, or as its steps spell it: `epi.0` in a dump may be `epi0`."""
        return self.tables.roles.get(role.lower()) or self.spelled.get(_flat(role), role)

    def actor(self, values: Values) -> Actor:
        role = self._role(values)
        cta = int(values.get("cta", -1))
        group = int(values.get("group", 0))
        cluster, cta = self.clusters.place(cta)
        group = group or cluster
        if "warp" in values or "thread" in values:
            key, number = ("warp", values["warp"]) if "warp" in values else ("thread", values["thread"])
            if not role or len(self.warps.get((role, int(values.get("cta", -1))), ())) > 1:
                role = f"{role} {key} {number}".strip()
        if not role and "wg" in values:
            role = f"WG{values['wg']}"
        return Actor(group, role or "thread", cta)

    def _copy(self, values: Values, cta: int, group: int, whole: bool = False) -> Copy:
        """The barrier of a line; `whole`: without a stage, all of its stages."""
        if "barrier" not in values and "id" in values:
            values = {**self.names.barrier(int(values.get("owner", cta)), int(values["id"])), **values}
        name = str(values.get("barrier", ""))
        name = self.spelled.get(_flat(name), name)
        stage = int(values.get("stage", -1))
        inside = _NAME_STAGE.match(name) if stage < 0 else None
        if inside:
            name, stage = inside[1], int(next(item for item in inside.groups()[1:] if item))
        if stage < 0 and not whole and self.stages.get(name) == {0}:
            stage = 0  # its only stage, which some lines print
        owner = cta if self.clusters.named or cta < 0 else -1
        owner = self.clusters.rank(int(values["owner"])) if "owner" in values else owner
        return Copy(group, name, stage, owner)

    def _copies(self, values: Values, actor: Actor) -> tuple[Copy, ...]:
        each = self._copy(values, actor.cta, actor.group)
        if each.owner < 0:
            return (each,)
        return tuple(each._replace(owner=cta) for cta in ctas_of(int(values.get("mask", 0)))) or (each,)

    def _state(self, line: int, values: Values) -> None:
        who = {**self._who(values), **values}
        if "owner" in values and "cta" not in who:
            who["cta"] = values["owner"]  # a role without a CTA is in the barrier's
        some = _of_role(values, who)
        if some:
            self._role_state(line, values, self.actor(who), some)
        if values.keys() & _OF_BARRIER - some:
            self._barrier_state(line, values, who)

    def _role_state(self, line: int, values: Values, actor: Actor, some: set[str]) -> None:
        """Counts of a role, on a barrier or for none."""
        trace = self.trace
        trace.dump = True
        trace.steps.setdefault(actor, [])
        trace.lines_of.setdefault(actor, line)
        if "barrier" not in values and "id" not in values:
            return
        staged = len(self.stages.get(str(values.get("barrier", "")), ())) > 1
        whole = staged and "stage" not in values and "passed" in values
        copy = self._copy(values, actor.cta, actor.group, whole)
        tables = {
            "passed": trace.passed_in_all if whole else trace.passed,
            "arrived": trace.arrived,
            "announced": trace.announced,
        }
        for name, table in {**tables, "landed": trace.landed}.items():
            if name in some:
                table[actor, copy] = table.get((actor, copy), 0) + int(values[name])

    def _barrier_state(self, line: int, values: Values, who: Values) -> None:
        """The current phase of a barrier."""
        trace = self.trace
        cluster, cta = self.clusters.place(int(who.get("cta", -1)))
        copy = self._copy(values, cta, int(who.get("group", cluster)))
        if "count" in values:
            trace.inits[copy] = int(values["count"])
        pending, left = values.get("pending"), values.get("txleft")
        if pending is None and "arrived" in values and "listed" not in values and trace.init(copy):
            pending = trace.init(copy) - int(values["arrived"])
        if left is None and values.keys() >= {"announced", "landed"}:
            left = int(values["announced"]) - int(values["landed"])
        known = [None if item is None else int(item) for item in (values.get("completed"), pending, left)]
        trace.states[copy] = CopyState(line, *known)

    def _round(self, actor: Actor, values: Values, event: str) -> tuple[int | None, int | None]:
        """The k of a step, by its line or a line before it, and the turn: its round over all tiles."""
        tile, k = self.last.get(actor, (0, None))
        if "tile" in values:
            tile = int(values["tile"])
        if "k" in values:
            k = self.trace.rounds[actor] = int(values["k"])
        elif "tile" in values and self.rounds == 1:  # no line has a k
            k = self.trace.rounds[actor] = tile
            return k, k
        elif "tile" in values and event == "wait":
            k = None  # a wait of the outer loop
        self.last[actor] = tile, k
        return k, k if k is None or k < 0 else tile * self.rounds + k

    def _step(self, line: int, event: str, values: Values) -> None:
        trace = self.trace
        actor = self.actor(values)
        steps = trace.steps.setdefault(actor, [])
        trace.lines_of[actor] = line
        k, turn = self._round(actor, values, event)
        if event == "end":
            trace.ended[actor] = line
            trace.prints_ends = True
            steps.append(LoggedStep(line, "end", k=k, turn=turn))
            return
        if event == "done" and not {"barrier", "id"} & values.keys():
            waiting = [step for step in steps if step.kind == "wait" and not step.passed]
            if waiting:
                waiting[-1].passed, waiting[-1].end = True, line
            return
        copies = self._copies(values, actor)
        if event == "done":
            self._done(line, actor, copies, values, (k, turn))
            return
        size = int(values.get("bytes", 0))
        if event == "expect":
            steps.append(LoggedStep(line, "arrive", copies, k=k, bytes=size, turn=turn))
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
            place = line, int(values.get("part", 0))
            same = last is not None and last.kind == "arrive" and self.arrived.get(actor) == place
            same = same and not (last is not None and last.bytes)
            self.arrived[actor] = place
            if same and last is not None:  # one line that arrives on several barriers
                last.to += copies
                return
        count = int(values.get("count", 1))
        steps.append(LoggedStep(line, _KINDS.get(event, "arrive"), copies, phase, k, count, size, turn=turn))

    def _done(
        self, line: int, actor: Actor, copies: tuple[Copy, ...], values: Values,
        place: tuple[int | None, int | None],
    ) -> None:  # fmt: skip
        k, turn = place
        steps = self.trace.steps[actor]
        last = next((step for step in reversed(steps) if step.kind == "wait"), None)
        if last is not None and last.to == copies and not last.passed:
            last.passed, last.end = True, line
            last.ends = 1
            return
        phase = int(values["phase"]) if "phase" in values else None
        for step in reversed(steps[-40:]):
            if (
                step.kind == "wait"
                and step.to == copies
                and step.ends
                and "k" in values
                and step.turn == turn
            ):
                step.ends += 1  # several threads print under one name
                merged = self.trace.merged
                merged[actor] = max(merged.get(actor, 1), step.ends)
                return
        steps.append(LoggedStep(line, "wait", copies, phase, k, passed=True, end=line, turn=turn, lone=True))


def trace_of(made: Records, tables: Tables) -> LogTrace:
    """The trace of records."""
    return _Maker(made, tables).run()
