"""The diagnosis of a log that a user's line templates read, in the form of the other readers' diagnosis."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.conformance.beside.logs.hangs import as_data
from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked, Ledger
from tileproof.conformance.beside.logs.hangs.accounts.missing import signs
from tileproof.conformance.beside.logs.hangs.accounts.reasons import Reasoner
from tileproof.conformance.beside.logs.hangs.log import EXAMPLES, LONG, Actor
from tileproof.conformance.beside.logs.hangs.template.fields import EVENTS
from tileproof.conformance.beside.logs.hangs.template.keyed import keyed
from tileproof.conformance.beside.logs.hangs.template.pattern import (
    Template,
    from_regex,
    names_context,
    parse,
)
from tileproof.conformance.beside.logs.hangs.template.read import trace_of
from tileproof.conformance.beside.logs.hangs.template.records import Records, Tables, records
from tileproof.spec.machine.errors import TileproofError

WIDTH = 150
_KEYS = "the meaning of the fields was inferred from their names"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


@dataclass
class UserLines:
    """A user's templates and words."""

    templates: list[Template] = field(default_factory=list)
    tables: Tables = field(default_factory=Tables)


def user_lines(
    lines: tuple[str, ...] = (),
    regexes: tuple[str, ...] = (),
    file: Path | None = None,
    events: tuple[str, ...] = (),
    roles: tuple[str, ...] = (),
) -> UserLines | None:
    """The templates and words of the command's options; None if there are none.

    A file has a template on each line, or `event wait=WORD`, `role NAME=WORD`, or a comment behind `#`.
    """
    rows = [("event", pair) for pair in events] + [("role", pair) for pair in roles]
    texts = [*lines]
    if file is not None:
        for line in file.read_text(encoding="utf-8").splitlines():
            head, _, rest = line.strip().partition(" ")
            if head in ("event", "role") and "=" in rest and ":" not in rest.split("=")[0]:
                rows.append((head, rest))
            elif line.strip() and not line.startswith("#"):
                texts.append(line)
    context = any(map(names_context, (*texts, *regexes)))
    every = [from_regex(line, context) for line in regexes]
    made = UserLines([*(parse(line, context) for line in lines), *every])
    made.templates += [parse(line, context) for line in texts[len(lines) :]]
    for kind, pair in rows:
        name, sign, words = pair.partition("=")
        if not sign or not name or not words:
            raise TileproofError(f"--{kind} needs NAME=WORD", where=pair, expected="wait=WORD, loader=WORD")
        if kind == "event" and name not in EVENTS:
            raise TileproofError(
                "unknown event",
                where=pair,
                found=name,
                expected=", ".join(EVENTS),
                do=f"--event wait={words}",
            )
        table = made.tables.events if kind == "event" else made.tables.roles
        table |= dict.fromkeys((word.strip().lower() for word in words.split(",")), name)
    if not made.templates:
        if rows:
            raise TileproofError("--event and --role need a line template", do="--line TEMPLATE")
        return None
    return made


def explained(text: str, path: str, user: UserLines) -> as_data.Diagnosis:
    """The diagnosis of `text` by a user's templates.

    TileproofError if no template matches a line, or none of its lines names a barrier.
    """
    lines = [_ANSI.sub("", line).rstrip()[:LONG] for line in text.splitlines()]
    for template in user.templates:
        template.lines.clear()
    made = records(lines, user.templates, user.tables)
    counts = [(template.text, len(template.lines)) for template in user.templates]
    if not made.made:
        shown = next((line.strip() for line in lines if line.strip()), "")
        raise TileproofError(
            "no line matches a template",
            where=path,
            found=f"{len(lines)} lines, the first: {shown[:WIDTH]}",
            expected="; ".join(text for text, _ in counts),
            do="compare the line with the template character by character; {*} matches any text",
        )
    answer = diagnosed(lines, made, user.tables, counts)
    if answer["certainty"] == "certain":
        return answer
    found = by_named_fields(lines, answer, len(made.made))
    return {**found, "templates": answer["templates"]} if found is not None else answer


def by_named_fields(lines: list[str], answer: as_data.Diagnosis, least: int = 0) -> as_data.Diagnosis | None:
    """The diagnosis of a log whose lines name their fields and state the counts of barriers, where they show
    a hang and at least `least` events; None for other logs. Its title, facts and remarks are of `answer`.
    """
    made = keyed(lines)
    if made is None or len(made.made) < least or not any(event == "init" for _, event, _ in made.made):
        return None  # without the counts of phases, the order of the waits tells more
    found = diagnosed(lines, made, Tables(), [], _KEYS)
    if found["outcome"] != "hang":
        return None
    return {**found, "title": answer["title"], "facts": answer["facts"], "remarks": answer["remarks"]}


def diagnosed(
    lines: list[str], made: Records, tables: Tables, counts: list[tuple[str, int]], doubt: str = ""
) -> as_data.Diagnosis:
    """The diagnosis of a log's records. `counts`: the templates, and how many lines each read. `doubt`: why
    no answer is certain.
    """
    trace = trace_of(made, tables)
    ledger = Ledger(trace)
    trace.loops = ledger.loops_in(lines, {line for line, event, _ in made.made if event != "skip"})
    reasons = Reasoner(ledger).reasons() if ledger.blocked else []
    view = LedgerView(lines, ledger)
    first = reasons[0] if reasons else None
    doubts = _doubts(ledger, reasons, lines, made.unread) if first is not None else []
    doubts = [doubt, *doubts] if doubt else doubts
    root = next((wait for wait in ledger.blocked if first and wait.actor == first.waiter), None)
    strange = made.unread
    return {
        "outcome": "hang" if first is not None else "no hang seen",
        "certainty": ("likely" if doubts else "certain") if first is not None else "",
        "why": tuple(doubts),
        "title": "",
        "span": [made.made[0][0], made.made[-1][0]],
        "root": view.root(first, root) if first is not None else None,
        "causes": [view.cause(reason) for reason in distinct(reasons)],
        "others": [],
        "blocked": [view.blocked(wait) for wait in ledger.blocked],
        "actors": [view.actor(actor) for actor in sorted(trace.steps)],
        "barriers": [],
        "asymmetries": [],
        "facts": {},
        "remarks": [],
        "runs": [],
        "templates": [{"template": text, "lines": count} for text, count in counts],
        "read": {
            "lines": sum(bool(line.strip()) for line in lines),
            "events": len(made.made),
            "progress": 0,
            "host": 0,
            "not_understood": len(strange),
            "examples": [view.quote(line) for line in strange[:EXAMPLES]],
        },
    }


def distinct(reasons: list[LoggedReason]) -> list[LoggedReason]:
    """The first reason of each cause and actor."""
    found: dict[tuple[str, Actor | None], LoggedReason] = {}
    for reason in reasons:
        found.setdefault((reason.code, reason.culprit), reason)
    return list(found.values())[:6]


def _doubts(ledger: Ledger, reasons: list[LoggedReason], lines: list[str], unread: list[int]) -> list[str]:
    """Why an answer is not certain."""
    first, doubts = reasons[0], []
    if not first.sure:
        doubts.append("another reading of the lines fits, or the cause depends on counts alone")
    rivals = [each for each in reasons[1:] if each.weight >= first.weight - 3 and each.code != first.code]
    if rivals:
        doubts.append(f"a second cause is equally well supported: {rivals[0].code}, {rivals[0].what}")
    names = {copy.barrier for copy in ledger.copies if len(copy.barrier) > 2}
    lost = [line for line in unread if any(name in lines[line - 1] for name in names)]
    if lost:
        doubts.append(f"{len(lost)} lines that name a barrier match no template (line {lost[0]})")
    doubts += signs(ledger, Reasoner(ledger).parities())
    if any(re.fullmatch(r"thread \d+", actor.role) for actor in ledger.trace.steps):
        doubts.append("roles are numbers of threads: no template gives their names")
    if ledger.trace.dump:
        doubts.append("a dump shows counts, not their order")
    if ledger.trace.headless:
        doubts.append("the first lines of a role are missing")
    if ledger.trace.feeds and (ledger.by_states or not ledger.made):
        doubts.append("arrivals are not printed")
    return doubts


class LedgerView:
    """Parts of a diagnosis by accounts, as data."""

    def __init__(self, lines: list[str], ledger: Ledger) -> None:
        self.lines, self.ledger = lines, ledger

    def quote(self, line: int) -> as_data.Quote:
        return {"line": line, "text": self.lines[line - 1].strip()[:WIDTH] if line else ""}

    @staticmethod
    def name(actor: Actor) -> as_data.ActorName:
        return {
            "role": actor.role,
            "cta": actor.cta if actor.cta >= 0 else None,
            "name": str(actor),
            "cluster": actor.group,
        }

    def wait(self, wait: Blocked) -> as_data.WaitRow:
        copy = wait.copy
        return {
            "actor": self.name(wait.actor),
            "barrier": copy.barrier,
            "stage": copy.stage if copy.stage >= 0 else None,
            "copy": str(copy),
            "phase": wait.step.phase,
            "k": wait.step.k,
            "line": wait.step.line,
        }

    def root(self, reason: LoggedReason, wait: Blocked | None) -> as_data.RootRow:
        """The wait at fault; of a wait that ended, its barrier and line."""
        copy = reason.copy
        if wait is not None and wait.copy == copy:
            whole = self.wait(wait)
        else:
            whole = {
                "actor": self.name(reason.waiter),
                "barrier": copy.barrier,
                "stage": copy.stage if copy.stage >= 0 else None,
                "copy": str(copy),
                "phase": None,
                "k": None,
                "line": reason.lines[0],
            }
        init, threads = self.ledger.init(copy), self.ledger.threads[copy]
        state = f"{init} arrivals a phase, {threads} came" if init else ""
        return {**whole, "state": state, "stopped": False, "waits_behind_it": []}

    def cause(self, reason: LoggedReason) -> as_data.CauseRow:
        lines = sorted({line for line in reason.lines if line})
        return {
            "code": reason.code,
            "what": reason.what,
            "also": [],
            "copies": "",
            "fix": reason.fix,
            "culprit": self.name(reason.culprit) if reason.culprit is not None else None,
            "shows": [self.quote(line) for line in lines[:3]],
            "lines": [self.quote(line) for line in lines],
        }

    def blocked(self, wait: Blocked) -> as_data.BlockedRow:
        ledger = self.ledger
        stuck = {each.actor for each in ledger.blocked}
        lacks = ledger.lacks(wait)
        return {
            **self.wait(wait),
            "waits_for": [
                {
                    **self.name(actor),
                    "arrivals": ledger.made.get((actor, wait.copy), 0),
                    "needed": wait.need,
                    "blocked": actor in stuck,
                }
                for actor in lacks
            ],
            "root": not any(actor in stuck for actor in lacks),
        }

    def actor(self, actor: Actor) -> as_data.ActorRow:
        ledger, trace = self.ledger, self.ledger.trace
        step = trace.blocked(actor)
        return {
            **self.name(actor),
            "plan_role": "",
            "k": trace.rounds.get(actor),
            "waits_on": str(step.to[0]) if step is not None else None,
            "passed": sum(each.passed for each in trace.steps[actor]),
            "arrivals": sum(count for (who, _), count in ledger.made.items() if who == actor),
            "last": self.quote(trace.lines_of.get(actor, 0)),
        }
