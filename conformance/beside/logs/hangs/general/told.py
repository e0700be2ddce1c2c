"""What the words of a row mean: a wait, its end, an arrival, a copy, or the count of a barrier."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.general.items import Row, RowWord
from tileproof.conformance.beside.logs.hangs.log import Actor

NOBODY = Actor(0, "", -1)


@dataclass(eq=False)
class Told:
    """A row with what its words mean. `phrase`: the words that are neither a role nor a barrier."""

    row: Row
    role: str = ""
    barrier: RowWord | None = None
    name: str = ""
    scope: str = "mbarrier"
    actor: Actor = NOBODY
    phrase: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    fields: dict[str, int] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)  # CTAs beside the actor's
    kind: str = ""
    turn: str = ""  # wait or done, by the order of rows

    @property
    def place(self) -> tuple[object, ...]:
        """The barrier, stage and CTA that the row concerns."""
        return self.name, self.fields.get("stage"), tuple(self.others)


def braces(told: Told) -> str:
    """Signs at the end of a line that open or close what it begins: `{` and `}`, `...`, `->`, `<-`."""
    text = told.row.text
    braces = "}" if "}" in text and "{" not in text else "{" if "{" in text and "}" not in text else ""
    edges = re.findall(r"\b([01])\s*[-=]>\s*([01])\b", text)  # of a signal: 0->1
    marks = ["".join(edge) for edge in edges] or [sign for sign in ("->", "<-", "...", "=>") if sign in text]
    return "".join([*marks, *re.findall(r"(?<=\w)[+-](?=[\s;|]|$)", text)]) + braces


def kind_of(told: Told) -> str:
    """What a row reports by its words: wait, done, arrive, copy, init; empty if they do not show it."""
    return told.turn or _by_words(told, {*told.verbs}, braces(told))


def _by_words(told: Told, has: set[str], signs: str) -> str:
    if told.scope != "mbarrier":
        if "arrive" in has and "wait" not in has:
            return "arrive"
        if signs.startswith("<-") or signs.endswith("}"):
            return "done"
        if has & {"done"} and not has & {"begin"} and "not" not in has:
            return "done"
        return "wait" if has & {"wait", "begin"} or signs else "wait?"
    if inits(told):
        return "init"
    sized = "bytes" in told.fields
    if "not" in has and has & {"wait"} and not has & {"done", "arrive"}:
        return "done"
    if "arrive" in has and "wait" not in has:
        return "copy" if "copy" in has and sized and "expect" not in has else "arrive"
    if "arrive" in has and sized:
        return "arrive"
    if "expect" in has and "wait" not in has:
        return "arrive"
    if "copy" in has and "wait" not in has and (sized or "done" not in has):
        return "copy"
    if "wait" in has:
        if signs.startswith("<-") or signs.endswith("}"):
            return "done"
        ended = (
            "done" in has
            and "not" not in has
            and not ("begin" in has and told.verbs.index("begin") > -1 and "done" not in told.verbs[-1:])
        )
        return "done" if ended else "wait"
    if "done" in has:
        return "wait" if "not" in has else "done"
    if "begin" in has:
        return "begin"
    return ""


def inits(told: Told) -> bool:
    """Whether a row initialises a barrier, or states its arrivals, outside a role's work."""
    has = {*told.verbs}
    return ("init" in has and "wait" not in has) or (
        "count" in told.fields
        and not has & {"wait", "done"}
        and not {"warp", "thread"} & told.fields.keys()
        and not told.row.labelled("k")
        and (not has & {"arrive", "copy"} or not told.role)
    )
