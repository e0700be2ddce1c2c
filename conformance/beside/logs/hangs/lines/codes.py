"""Legends of codes by field: `enum Role { LOAD = 0 }`, `ops: 1=wait 2=done`, `bar 0 = full`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, split
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of

HEAD = 300  # lines in front of the rows that may have a legend
_CODE = r"(?:0[xX][0-9a-fA-F]+|\d{1,3}|[A-F]\d)"
_NAME = r"[^\W\d][\w.+]*"
_ENUM = re.compile(
    rf"\benum\b(?:\s+(?:class|struct))?(?:\s+(?P<name>{_NAME}))?(?:\s*:\s*[\w: ]+?)?\s*"
    rf"\{{(?P<body>[^{{}}]*)\}}\s*(?P<behind>{_NAME})?"
)
_MEMBER = re.compile(rf"(?P<name>{_NAME})\s*(?:=\s*(?P<code>{_CODE}))?\s*$")
_PAIR = re.compile(
    rf"(?<![\w.])[\"']?(?P<code>{_CODE})[\"']?\s*(?:=>?|:|->)\s*[\"']?"
    r"(?P<means>[^\W\d][\w.+/]*(?: [^\W\d][\w.+/]*(?![\w.]*\s*[=:]))*)[\"']?"
    rf"(?:\s*\((?P<column>\w+)\s*=\s*(?P<as>\w+)\))?"
)
_BACK = re.compile(rf"(?<![\w.])[\"']?(?P<means>{_NAME})[\"']?\s*(?:=|:)\s*(?P<code>{_CODE})(?![\w.])")
_TITLE = re.compile(rf"(?P<name>{_NAME})[\"']?\s*(?:codes?\s*)?[:=]?\s*[\[{{(]?\s*$")
_DEFINED = re.compile(
    rf"^\W*(?:#\s*define\s+|(?:static\s+)?(?:constexpr|const)\s+(?:\w+\s+)+?)(?P<name>{_NAME})\s*=?\s*(?P<code>{_CODE})\b"
)
_ROW = re.compile(
    rf"^\W*(?P<name>[^\W\d]+?)[\s_#\[]*(?P<code>\d{{1,3}})\]?(?:\s+(?:cta|block)\s?\d+)?"
    rf"\s*(?:=>?|:|->|\bis\b|\s)\s*(?P<means>{_NAME}(?:\[\d+\])?)(?![\w.]*\s*[=:])"
    r"(?:\s*@?\s*(?:cta|block|rank)\s?(?P<cta>\d+))?"
)


class Meaning(NamedTuple):
    """What a code means, and the column that it gives another name."""

    name: str
    column: str = ""
    field: str = ""
    cta: str = ""  # the CTA of a barrier


class Codes:
    """The names of the codes of a field."""

    def __init__(self, title: str, names: dict[str, Meaning]) -> None:
        self.title = title
        self.names = names

    @property
    def speaks(self) -> bool:
        """Whether the codes are of what happens."""
        return sum(bool({"wait", "arrive"} & verbs_of(each.name)) for each in self.names.values()) > 1

    def of(self, cell: str) -> Meaning | None:
        """The meaning of a cell: a number of any base and width, also behind the letter of its legend."""
        if cell in self.names:
            return self.names[cell]
        bare = cell[len(self.title) :] if cell.lower().startswith(self.title.lower()) else cell
        return self.names.get(_canonical(bare))

    def is_of(self, name: str) -> bool:
        """Whether a column or a key may have these codes: their names have a part in common."""
        mine, other = _stem(self.title), _stem(name)
        begins = mine.startswith(other) or other.startswith(mine)
        if mine == other or (begins and min(len(mine), len(other)) > 1):
            return True
        known = field(self.title) or field(mine)
        if known and known == (field(name) or field(other)):
            return True
        parts = {*map(_stem, split(name))} & {*map(_stem, split(self.title))}
        return bool(parts & {mine, other})


def _stem(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()).removesuffix("s")


def _canonical(code: str) -> str:
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", code):
        return str(int(code, 16))
    return str(int(code)) if code.isdecimal() else code


def legends(lines: Rows) -> tuple[list[Codes], set[int]]:
    """The legends of a log, and the places of their lines."""
    head = [text for _, text in lines[:HEAD]]
    found: list[Codes] = []
    used: set[int] = set()
    for title, names, places in (*_enums(head), *_lists(head), *_defined(head), *_rows(head)):
        if len({*names.values()}) > 1 and not places & used:
            found.append(Codes(title, names))
            used |= places
    return found, used


def _enums(head: list[str]) -> Iterator[tuple[str, dict[str, Meaning], set[int]]]:
    text = "\n".join(head)
    for each in _ENUM.finditer(text):
        names: dict[str, Meaning] = {}
        code = -1
        for part in re.sub(r"//.*", "", each["body"]).split(","):
            member = _MEMBER.search(part.strip())
            if member is not None:
                given = member["code"] or ""
                code = int(_canonical(given)) if given[:1].isdecimal() else code + 1
                names[str(code)] = Meaning(member["name"])
        first = text.count("\n", 0, each.start())
        yield each["name"] or each["behind"] or "", names, {*range(first, first + each[0].count("\n") + 1)}


def _lists(head: list[str]) -> Iterator[tuple[str, dict[str, Meaning], set[int]]]:
    """Lines with pairs of codes and names behind a title, also over several lines."""
    title, places = "", set[int]()
    names: dict[str, Meaning] = {}
    for at, text in enumerate(head):
        pairs = [*_PAIR.finditer(text)]
        back = [*_BACK.finditer(text)] if len(pairs) < 2 else []
        some = pairs if len(pairs) > 1 else back
        codes = [_canonical(each["code"]) for each in some]
        # A row of values has the same numbers again; a legend counts up.
        again = len({*codes}) < len(codes) or (back and codes != [str(n) for n in range(len(codes))])
        if len(some) < 2 or again:
            continue
        told = {code: _meaning(each) for code, each in zip(codes, some, strict=True)}
        before = _TITLE.search(text[: some[0].start()])
        if before is None:
            if places and max(places) == at - 1 and not {*told} & {*names}:
                names |= told
                places.add(at)
            continue
        if names:
            yield title, names, places
        title, names, places = before["name"], told, {at}
    if names:
        yield title, names, places


def _meaning(found: re.Match[str]) -> Meaning:
    said = found.groupdict()
    return Meaning(said["means"].strip(), said.get("column") or "", said.get("as") or "")


def _defined(head: list[str]) -> Iterator[tuple[str, dict[str, Meaning], set[int]]]:
    """Constants by the first word of their names: `EV_WAIT`, `ROLE_LOAD`."""
    groups: dict[str, tuple[dict[str, Meaning], set[int]]] = {}
    for at, text in enumerate(head):
        each = _DEFINED.match(text)
        parts = split(each["name"]) if each is not None else []
        if each is not None and len(parts) > 1:
            names, places = groups.setdefault(parts[0], ({}, set()))
            names[_canonical(each["code"])] = Meaning("_".join(parts[1:]))
            places.add(at)
    for title, (names, places) in groups.items():
        yield title, names, places


def _rows(head: list[str]) -> Iterator[tuple[str, dict[str, Meaning], set[int]]]:
    """Lines that each give a number of a field its name: `bar 0 = full[0] init 1`."""
    groups: dict[str, tuple[list[tuple[str, str, str]], set[int]]] = {}
    for at, text in enumerate(head):
        each = _ROW.match(text)
        if each is not None and not {"wait", "arrive"} & verbs_of(f"{each['name']} {each['means']}"):
            pairs, places = groups.setdefault(each["name"], ([], set()))
            pairs.append((_canonical(each["code"]), each["means"], each["cta"] or ""))
            places.add(at)
    for title, (pairs, places) in groups.items():
        # Each number has its name once, or the same name again.
        if len({*pairs}) == len({code for code, _, _ in pairs}):
            yield title, {code: Meaning(name, cta=cta) for code, name, cta in pairs}, places
