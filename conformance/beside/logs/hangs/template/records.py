"""What each line of a log says, by the first of a user's templates that matches it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.template.joined import joined
from tileproof.conformance.beside.logs.hangs.template.pattern import Template, Values
from tileproof.spec.machine.errors import TileproofError

_BETWEEN = (" < ", " <- ", " << ", " > ", " -> ", " >> ", "←", "→", " | ", ";", "、", ",")  # parts of a line
_OPEN, _CLOSE = "([{", ")]}"
STEPS = ("wait", "done", "arrive", "expect", "copy", "end")
Record = tuple[int, str, Values]


@dataclass(frozen=True)
class Records:
    """Values of the lines in order: (line, event, values); `unread`: the lines that no template matches."""

    made: list[Record]
    unread: list[int]


@dataclass
class Tables:
    """A user's words: of an event, and other names of roles."""

    events: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)


def records(lines: Sequence[str], templates: Sequence[Template], tables: Tables) -> Records:
    """The values of every line; objects over several lines are read as one line where more templates match
    then.
    """
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    found = _records(numbered, templates, tables)
    whole = joined(numbered)
    if len(whole) < len(numbered):
        counts = [list(template.lines) for template in templates]
        for template in templates:
            template.lines.clear()
        other = _records(whole, templates, tables)
        if _amount(other) > _amount(found):
            return other
        for template, before in zip(templates, counts, strict=True):
            template.lines[:] = before
    return found


def _amount(found: Records) -> tuple[int, int]:
    """How much a reading has: fields, and steps and states."""
    some = [values for _, event, values in found.made if event in (*STEPS, "state", "init")]
    return sum(map(len, some)), len(some)


def _records(numbered: Sequence[tuple[int, str]], templates: Sequence[Template], tables: Tables) -> Records:
    made: list[Record] = []
    unread: list[int] = []
    columns: list[Values] = []
    for number, line in numbered:
        found = _of_line(line, number, templates, tables)
        if columns and not found:
            cells = line.split("|")[1:]
            for column, cell in zip(columns, cells, strict=False):
                some = _of_line(cell, number, templates, tables) if cell.strip() else []
                found += [(event, {**column, **values}) for event, values in some]
        columns = [values for event, values in found if event == "columns"] or columns
        for event, values in found:
            if event == "parts":
                parts = list(_of_parts(values, number, templates, tables))
                made += [(number, each, some) for each, some in parts]
                if not parts:
                    unread.append(number)
            elif event != "columns":
                made.append((number, event, values))
        if not found and not any(number in template.lines[-1:] for template in templates):
            unread.append(number)
    return Records(_in_order(made), unread)


def _of_parts(
    values: Values, number: int, templates: Sequence[Template], tables: Tables
) -> Iterator[tuple[str, Values]]:
    """The events of a line's parts, cut at the sign at which the most parts match templates."""
    rest = {name: each for name, each in values.items() if name != "parts"}
    text = str(values.get("parts", ""))
    best: list[list[tuple[str, Values]]] = []
    for between in _BETWEEN:
        if between not in text:
            continue
        some = [_of_line(part, number, templates, tables) for part in _cut(text, between)]
        if sum(map(bool, some)) > sum(map(bool, best)):
            best = some
    best = best or [_of_line(_plain(text), number, templates, tables)]
    for at, found in enumerate(best):
        for event, each in found:
            if event != "parts":
                yield event, {**rest, **each, "part": at}


def _cut(text: str, between: str) -> Iterator[str]:
    """The parts of a text between signs outside of brackets and quotes."""
    depth, quote, start, at = 0, "", 0, 0
    while at < len(text):
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char == '"':
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif depth <= 0 and text.startswith(between, at):
            yield _plain(text[start:at])
            at = start = at + len(between)
            continue
        at += 1
    yield _plain(text[start:])


def _plain(part: str) -> str:
    return part.strip().strip("\"'")


def _in_order(made: list[Record]) -> list[Record]:
    """The records with each history in the order of time, where a line says that the newest stands first."""
    out: list[Record] = []
    history: list[Record] = []
    newest = False
    for record in made:
        if newest and record[1] in (*STEPS, "skip"):
            history.append(record)
            continue
        out += history[::-1]
        history = []
        newest = newest or record[1] == "newest"
        out.append(record)
    return out + history[::-1]


def _of_line(
    line: str, number: int, templates: Sequence[Template], tables: Tables
) -> list[tuple[str, Values]]:
    """The events of a line, of its part, or of a table's cell."""
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
