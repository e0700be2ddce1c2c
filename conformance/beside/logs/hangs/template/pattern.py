"""One line template: its text, compiled to a regular expression.

    warp {warp} ({role}) waiting on {barrier}[{stage}] phase {parity}
    arrive: {role} commit -> {(}{barrier}@{owner}{)}

`EVENT:` in front names the event; without it, the template's own words do (`waiting`, `arrived`, `done`), or
the field `{event}`. Spaces match any number of spaces. `{*}` is any text, `{{` and `}}` are braces,
`{[}...{]}` is optional, `{(}...{)}` repeats, `{phase?}` may be absent or `-`. A number is decimal, or
hexadecimal behind 0x; `{id:x}` is hexadecimal without 0x, `{id:2x}` has two digits. `{ctas=2}` states what
a line means and does not print. `also EVENT:` lets later templates read the same line too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.log import GRID
from tileproof.conformance.beside.logs.hangs.records import told_by
from tileproof.conformance.beside.logs.hangs.template.fields import EVENTS, FIELDS, TEXTS
from tileproof.conformance.beside.logs.hangs.template.fields import field as field_of
from tileproof.conformance.beside.logs.hangs.words import Vocabulary
from tileproof.spec.machine.errors import TileproofError

Values = dict[str, str | int]
_TOKEN = re.compile(r"\{\{|\}\}|\{[*?()\[\]]\}|\{(\w+)(\??)(?::(\d*)(x?))?\}|\{(\w+)=([^{}]+)\}|\s+")
_PREFIX = re.compile(r"\s*(also\s+)?(\w+):(?!:)")
_INT = r"-?0[xX][0-9a-fA-F]+|0b[01]+|-?\d+"
_ON_A_BARRIER = ("wait", "arrive", "expect", "copy", "feeds")
_QUOTED = r"[^,;|&+{}<>\"'`«»]+?"
AND = "and|und|et|y"  # between the items of a list
_IN_LIST = r"[^\s,;|&+{}]+?"
_CTAS = r"\d+(?:\s*[+&/]\s*[^\W\d]*\d+)*"  # of a repeated part: `cta0+cta1`
_SIGNS = ",;+&/"  # between the items of a list


@dataclass(frozen=True)
class Repeat:
    """The repeated part of a template: the group of the whole, and the pattern of each."""

    group: str
    each: re.Pattern[str]


@dataclass(eq=False)
class Template:
    """`text` as the user wrote it; `event` is "" if a field of the line names it. Counts its lines."""

    text: str
    event: str
    pattern: re.Pattern[str]
    groups: dict[str, tuple[str, bool]]  # group: field, hexadecimal
    repeat: Repeat | None = None
    also: bool = False
    stated: dict[str, tuple[str, str | int]] = field(default_factory=dict)  # group: field and `{field=value}`
    lines: list[int] = field(default_factory=list)

    def read(self, line: str) -> list[Values] | None:
        """The values of a line, one set for each repetition; None if the line does not match."""
        found = self.pattern.match(line)
        if found is None:
            return None
        values = self._values(found)
        if self.repeat is None:
            return [values]
        every = map(self._values, self.repeat.each.finditer(found[self.repeat.group]))
        items = [item for item in every if item.get("barrier") not in AND.split("|")]
        # A count in the repeated part is its own, not the line's.
        return [{**values, **i, **({"listed": 1} if "arrived" in i else {})} for i in items] or None

    def _values(self, found: re.Match[str]) -> Values:
        values: Values = {}
        for group, text in found.groupdict().items():
            if group in self.stated and text is not None:
                values.setdefault(*self.stated[group])
            if group not in self.groups or text is None:
                continue
            name, is_hex = self.groups[group]
            if name in TEXTS:
                if text.strip():
                    values.setdefault(name, text.strip())
            elif name == "owner" and re.search(r"\d\s*[+&/]", text):
                ctas = {int(each) for each in re.findall(r"\d+", text)}
                values.setdefault("mask", sum(1 << cta for cta in ctas if cta < GRID))
            elif text not in ("", "-"):
                values.setdefault(name, _number(text, is_hex))
        return values


def _number(text: str, is_hex: bool) -> int:
    if is_hex:
        return int(text, 16)
    return int(text) if text.lstrip("-").isdecimal() else int(text, 0)


def names_context(text: str) -> bool:
    """Whether a template's lines name the barrier of the lines that follow."""
    return _event(text)[0] == "on"


def parse(text: str, context: bool = False) -> Template:
    """The template of a user's text; TileproofError where it is none.

    With `context`, an `on` template names the barrier of lines that have none.
    """
    event, also, body = _event(text)
    build = _Builder(text)
    pattern, repeat = build.whole(body.strip())
    template = Template(text, event, pattern, build.groups, repeat, also, build.stated)
    return _checked(template, build.words, context)


def from_regex(text: str, context: bool = False) -> Template:
    """The template of `[EVENT:] REGEX`, whose named groups are fields (`(?P<barrier>...)`)."""
    event, also, body = _event(text)
    try:
        pattern = re.compile(body.strip())
    except re.error as error:
        raise TileproofError("not a regular expression", where=text, found=str(error)) from error
    groups = {name: (field_of(name.rstrip("_0123456789"), text), False) for name in pattern.groupindex}
    words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\(\?P<\w+>|\\[a-zA-Z]", " ", body))
    return _checked(Template(text, event, pattern, groups, None, also), words, context)


def _event(text: str) -> tuple[str, bool, str]:
    if text.lstrip().startswith("?:"):
        raise TileproofError(
            "a line template whose event is a blank", where=text, expected=", ".join(EVENTS), do="wait: ..."
        )
    found = _PREFIX.match(text)
    if found is None or found[2].lower() not in (*EVENTS, "commit"):
        return "", False, text
    event = found[2].lower()
    return "arrive" if event == "commit" else event, bool(found[1]), text[found.end() :]


def _checked(template: Template, words: list[str], context: bool) -> Template:
    fields = {name for name, _ in (*template.groups.values(), *template.stated.values())}
    if not template.event and "event" not in fields:
        known = Vocabulary()
        told: str | None = told_by([verb for word in words for verb in known.word(word).verbs])
        if told is None or told == "touch":
            told = (
                "init" if {"init", "initialised", "initialized"} & {word.lower() for word in words} else None
            )
        if told is None:
            raise TileproofError(
                "a line template without an event",
                where=template.text,
                expected="EVENT: in front of it, with EVENT of " + ", ".join(EVENTS),
                do=f"wait: {template.text}",
            )
        template.event = told
    if not fields and template.event not in ("skip", "end", "tail", "newest"):
        raise TileproofError(
            "a line template without a field", where=template.text, expected=", ".join(FIELDS)
        )
    bare = not fields & {"barrier", "id"}
    if bare and (
        (template.event == "on" and "owner" not in fields)
        or (template.event in _ON_A_BARRIER and not context)
    ):
        raise TileproofError(
            "a line template of a wait or an arrival without its barrier",
            where=template.text,
            do="put {barrier}, or {id} for its number, where the line names it; `on:` for a line above it",
        )
    return template


class _Builder:
    """Compiles a template's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.groups: dict[str, tuple[str, bool]] = {}
        self.stated: dict[str, tuple[str, str | int]] = {}
        self.words: list[str] = []
        self.senders = False  # whether the repeated part is a role and where it arrives

    def whole(self, body: str) -> tuple[re.Pattern[str], Repeat | None]:
        before, inner, after = self._parts(body)
        made = "".join(self._pieces(before, False))
        repeat = None
        if inner is not None:
            self.senders = "{role" in inner
            each = "".join(self._pieces(inner, True))
            made += "(?P<repeat>.+?)"
            if re.match(r"\s*\{\*\}", after):  # any text follows: the list does not end at a sign
                made += rf"(?<![{_SIGNS}])(?<![{_SIGNS}]\s)(?!\s*[{_SIGNS}]\s*\w)"
            repeat = Repeat("repeat", re.compile(each))
        made += "".join(self._pieces(after, False))
        return re.compile(rf"\s*{made}\s*$"), repeat

    def _parts(self, body: str) -> tuple[str, str | None, str]:
        opened, closed = body.count("{(}"), body.count("{)}")
        if opened != closed or opened > 1 or body.find("{)}") < body.find("{(}"):
            raise self._error("{(} and {)} occur once, in this order")
        if not opened:
            return body, None, ""
        before, rest = body.split("{(}")
        if before.count("{[}") > before.count("{]}"):
            raise self._error(
                "{(} ... {)} does not stand in {[} ... {]}: write two templates, with the list and without"
            )
        inner, after = rest.split("{)}")
        return before, inner, after

    def _pieces(self, body: str, listed: bool) -> Iterator[str]:
        at, opened, name_last = 0, 0, False
        for found in _TOKEN.finditer(body):
            if found.start() > at:
                yield self._literal(body[at : found.start()])
                name_last &= opened > 0
            at = found.end()
            token = found[0]
            if token.isspace():
                yield r"\s+" if found.start() else r"\s*"
                name_last &= opened > 0
            elif token in ("{{", "}}"):
                yield re.escape(token[0])
                name_last &= opened > 0
            elif token == "{*}":
                yield (r"(?![\w.])" if name_last else "") + (".*?" if listed or at < len(body) else ".*")
                name_last = False
            elif token == "{?}":
                raise self._error("{?} is a blank: put a field, {*} or the text there")
            elif token == "{[}":
                opened += 1
                yield "(?:"
            elif token == "{]}":
                opened -= 1
                yield ")?"
            elif found[5] is not None:
                yield self._state(found[5], found[6].strip())
            elif found[1] is None:
                raise self._error(f"{token} is not allowed here")
            else:
                quoted = body[: found.start()][-1:] in ("<", '"', "'", "`", "«")
                piece, named = self._hole(found, listed, quoted)
                yield piece
                name_last = named or (name_last and opened > 0)
        if at < len(body):
            yield self._literal(body[at:])
            name_last = False
        if opened:
            raise self._error("{[} and {]} do not match")
        if listed and name_last:
            yield r"(?=[\s,;|&+)\]}]|$)"

    def _state(self, name: str, value: str) -> str:
        """An empty group for `{name=value}`: it matches where its part of the template does."""
        name = field_of(name, self.text)
        if name not in TEXTS and not re.fullmatch(_INT, value):
            raise self._error(f"{{{name}={value}}}: the value is not a number")
        group = f"s{len(self.stated)}"
        self.stated[group] = name, value if name in TEXTS else _number(value, False)
        return f"(?P<{group}>)"

    def _literal(self, text: str) -> str:
        if re.search(r"\{\w*|\w*\}", text) and ("{" in text or "}" in text):
            raise self._error("a brace of the line is written {{ or }}")
        self.words += re.findall(r"\w[\w.]*", text)
        return re.escape(text)

    def _hole(self, found: re.Match[str], listed: bool, quoted: bool) -> tuple[str, bool]:
        name = field_of(found[1], self.text)
        group = f"f{len(self.groups)}"
        self.groups[group] = name, bool(found[4])
        if name in TEXTS and not found[3]:
            made = (_QUOTED if quoted else _IN_LIST) if listed else r"\S.*?"
        elif found[3]:
            made = ("[0-9a-fA-F]" if found[4] else r"\w" if name in TEXTS else r"\d") + f"{{{found[3]}}}"
        else:
            made = r"(?:0[xX])?[0-9a-fA-F]+" if found[4] else _INT
            if listed and name == "owner" and self.senders:
                made = _CTAS
        if found[2]:
            made += "|-|"
        return f"(?P<{group}>{made})", name in TEXTS and not found[3]

    def _error(self, what: str) -> TileproofError:
        return TileproofError(what, where=self.text, expected="a line template (tileproof explain --help)")
