"""Sections by actor with its present call and the calls that returned, as cuda-gdb and dumps print them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.general.lexicon import is_state, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of
from tileproof.conformance.beside.logs.hangs.lines.headings import heading

WARP = 32  # threads
ENDED = 0.1  # of the rows of histories state that a wait began or ended, where both are printed
_FOCUS = re.compile(r"\bblock \((\d+),\s*\d+,\s*\d+\), thread \((\d+),\s*\d+,\s*\d+\)")
_FRAME = re.compile(
    r"^\s*#(?P<at>\d+)\s+(?:0x[0-9a-f]+ in )?(?P<call>.+?)(?: at \S+:\d+)?\s*$", re.IGNORECASE
)
_FUNCTION = re.compile(r"(?P<name>[^\W\d]\w*)(?:<[^<>]*>)?\s*\(")
_TIMED = re.compile(r"^\s*\W{0,2}(?:[^\W\d]{1,5}\W{0,2})?(?<![\w.])\d+(?:\.\d+)?\W{0,2}\s+(?=\S)")
_PAST = re.compile(
    r"histor|return|past|previous|earlier|recent|oldest|trail|calls|finished|completed", re.IGNORECASE
)
_NEWEST = re.compile(r"newest first|latest first|most recent first|reverse", re.IGNORECASE)
_GONE = re.compile(r"\b(?:exit(?:ed|s)?|returned|left|ended|finished|gone|not resident)\b", re.IGNORECASE)
_NOWHERE = re.compile(r"\b(?:no|not|none|outside)\b", re.IGNORECASE)
_OPEN = re.compile(r"\bstill\b|in progress|unfinished|not (?:yet )?(?:returned|done)", re.IGNORECASE)
_ITEM = re.compile(r"[^\W\d]\w*")
_REMARK = re.compile(r"\(\s*\"(?P<text>[^\"]*)\"\s*\)")


@dataclass
class Section:
    """The lines of an actor: its name as the rows take it, its present call, and its history in order."""

    actor: str
    present: tuple[int, str] | None = None
    past: Rows = field(default_factory=list)
    start: int = 0  # the line that names the actor
    end: int = 0  # the last line of the section
    newest_first: bool = False
    framed: bool = False  # it has frames of a stack


def with_histories(lines: Rows, moved: dict[int, int]) -> Rows:
    """The rows of each actor's history with its name in front, then its present call, which has not returned.

    The numbers of rows rise. `moved` takes the lines of those that stand in another order.
    """
    found = _sections(lines)
    told = [section for section in found if section.past]
    if len({section.actor for section in found}) < len(found):
        return lines  # an actor has one section
    texts = [text for section in told for _, text in section.past]
    acts = sum(bool(verbs_of(text) & {"wait", "arrive"}) for text in texts)
    if (
        len(told) < 2
        or 2 * acts < len(texts)
        or not any(section.present is not None or section.framed for section in told)
    ):
        return lines
    heads = {_first_word(section.actor) for section in found}
    if 2 * sum(_first_word(text) in heads for text in texts) > len(texts):
        return lines  # the rows name their actors themselves
    calls = [text for section in told for _, text in section.past if _concerns(text)]
    ends = sum(bool(_told(text) & {"done", "begin"}) for text in calls) > ENDED * len(calls)
    first = min(section.start for section in found)
    front = [text for number, text in lines if number < first and "wait" in verbs_of(text)]
    if len(front) > len(found):  # events, of which some look like headings: a dump begins with its sections
        return lines
    out = [(number, text) for number, text in lines if number < first and _is_front(text)]
    for section in found:
        rows = section.past[::-1] if section.newest_first else section.past
        for at, (number, text) in zip(sorted(number for number, _ in rows), rows, strict=True):
            moved |= {at: number} if at != number else {}
            call = _TIMED.sub("", _TIMED.sub("", _REMARK.sub(r" \g<text>", text))).strip()
            row = f"{section.actor}: {call}"
            out.append((at, row))
            if not ends and not _OPEN.search(call) and (verbs_of(row) & {"wait"} or _meets(row)):
                out.append((at, f"{row} done"))
        again = bool(rows) and (_OPEN.search(rows[-1][1]) or (ends and _same(section.present, rows)))
        if section.present is not None and not again:
            moved |= {section.end: section.present[0]} if section.end not in dict(rows) else {}
            out.append((section.end, f"{section.actor}: {section.present[1].strip()}"))
    return out


def _first_word(text: str) -> str:
    word = _ITEM.search(text)
    return word[0].lower() if word is not None else ""


def _told(text: str) -> set[str]:
    """What the words of a text report, without the names of barriers."""
    said = [{*verbs(word)} for word in _ITEM.findall(text) if not is_state(word) or "wait" in verbs(word)]
    return set().union(*said)


def _same(present: tuple[int, str] | None, rows: Rows) -> bool:
    """Whether the last wait of a history, which has not ended there, is the present call."""
    names = {word for word in _ITEM.findall(present[1]) if is_state(word)} if present else set()
    last = rows[-1][1] if rows else ""
    return "wait" in verbs_of(last) and "done" not in _told(last) and bool(names & {*_ITEM.findall(last)})


def _is_front(text: str) -> bool:
    """A line in front of the sections that is no frame and no heading."""
    return _actor(text) is None and not (_FOCUS.search(text) or _FRAME.match(text) or _PAST.search(text))


def _meets(row: str) -> bool:
    """Whether a call waits for the other threads of a barrier that they reach together."""
    return (
        re.search(
            r"bar(?:rier)?_?\.?sync|__sync|named_?barrier|alloc|cluster[._]?(?:sync|wait)", row, re.IGNORECASE
        )
        is not None
    )


def _sections(lines: Rows) -> list[Section]:
    found: list[Section] = []
    past = closed = False
    for (number, text), (_, below) in zip(lines, [*lines, (0, "")][1:], strict=True):
        name = _actor(text, above=0 < _indent(below) > _indent(text))
        opened = _opened(text) if name is None else None
        begins = name is not None or opened is not None
        closed = closed and not begins
        open_end = found and found[-1].past and found[-1].end == found[-1].past[-1][0]
        if open_end and begins:
            found[-1].end = number  # no line of the section
        if name is not None:
            found.append(Section(name, start=number, end=number))
            past = False
        elif opened is not None:
            found.append(Section(opened[0], (number, opened[1]) if _waits(opened[1]) else None))
            found[-1].start = found[-1].end = number
            past = True
        elif not found or not text.strip():
            if found and found[-1].past and not closed:
                found[-1].end = number
                closed = True
            continue
        elif closed:
            continue
        elif (frame := _FRAME.match(text)) is not None:
            found[-1].framed = True
            _take_frame(found[-1], number, frame)
        elif _PAST.search(text) and (not _concerns(text) or text.rstrip().endswith(":")):
            past = True
            found[-1].newest_first = _NEWEST.search(text) is not None
        elif past and (not found[-1].past or (_TIMED.match(text) is not None) == _timed(found[-1])):
            found[-1].past.append((number, text))
            found[-1].end = number
        elif _concerns(text) and "wait" in verbs_of(text) and not _NOWHERE.search(text):
            found[-1].present = number, text.split(": ", 1)[-1]
            found[-1].end = max(number, found[-1].end)
    return found


def _waits(call: str) -> bool:
    return "wait" in verbs_of(call) and not _NOWHERE.match(call)


def _timed(section: Section) -> bool:
    return _TIMED.match(section.past[0][1]) is not None


def _concerns(text: str) -> bool:
    """Whether a line names a barrier."""
    return any(is_state(word) for word in _ITEM.findall(text))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _actor(text: str, above: bool = False) -> str | None:
    """The actor that a line names for the lines below it, also undrawn where those are indented; or None."""
    if (focus := _FOCUS.search(text)) is not None and "focus" in text.lower():
        return f"block {focus[1]} warp {int(focus[2]) // WARP}"
    if _PAST.search(text):
        return None
    head = heading(text, drawn=not above)
    if head is None or not (head.fields and head.inner):
        return None
    word = next(iter(head.words)) if len(head.words) == 1 else ""
    if not word or "warp" not in head.fields:
        return head.title
    return re.sub(rf"(?<!\w){word}(?!\w)", f"role={word}", head.title, flags=re.IGNORECASE)


def _opened(text: str) -> tuple[str, str] | None:
    """The actor that a line names in front of a colon, and its present call or its end behind."""
    title, colon, rest = text.partition(": ")
    if (
        not colon
        or text[:1].isspace()
        or _concerns(title)  # an event: a heading names no barrier
        or not (
            ("wait" in verbs_of(rest) and (_concerns(rest) or _meets(rest)))
            or _GONE.search(rest)
            or _NOWHERE.match(rest)
        )
    ):
        return None
    actor = _actor(f"{title}:")
    return (actor, rest.strip()) if actor is not None else None


def _take_frame(section: Section, number: int, frame: re.Match[str]) -> None:
    """Frame 0 is the present call, where it concerns a barrier; a frame of a function names the role."""
    call = frame["call"]
    blocked = "wait" in verbs_of(call) or _meets(call)
    if blocked and section.present is None and not call.lstrip().startswith("(no"):
        section.present = number, call
    elif not blocked and (function := _FUNCTION.match(call)) is not None:
        section.actor += f" role={function['name']}"
