"""Waits that are printed when they return, `waited full[0], ok`, and reports of those that never do."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.lexicon import is_state, split, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of

PAIRED = 0.2  # of the ends come behind a row with the same words that begins the wait
_WORD = re.compile(r"[^\W\d]\w*")
_PAST = re.compile(
    r"\b(?:a?waited|has_waited|blocked_for|gewartet|attendu|esper[oó]|atteso|aspettato)\b", re.I
)
_ENDED = re.compile(
    r"[\s,;:(\[]*(?:->|=>)?\s*\b(?:ok(?:ay)?|done|returned|passed|success(?:ful(?:ly)?)?|completed?|finished"
    r"|ready|got)\b[)\].!]*\s*$",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"time[ds]?[\s_-]?out|\btrap(?:s|ped)?\b|\bstuck\b|\bhung\b|\bhangs?\b|dead[\s_-]?lock(?:ed)?"
    r"|\bg[ai]v(?:e|es|ing) up\b|watchdog|no progress|still (?:wait|block|spin|poll)\w*|never return\w*"
    r"|not return\w*|spin limit|expired",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"[\s,;(]*\b(?:after|for|since|within|in)?\s*[>=~]*\s*\d+(?:\.\d+)?\s*"
    r"(?:s|secs?|seconds?|ms|us|ns|cycles?|clocks?|clk|spins?|polls?|tries|retries|attempts)\b[)]?",
    re.I,
)
_MARKS = " \t,;:!*#|<>=-"


def with_begins(lines: Rows, seen: bool = False) -> Rows:
    """A row that says that a wait has returned becomes its begin and its end; a report, an open wait.

    `seen`: another source, such as a debugger, shows the open waits.
    """
    waits = [(at, text) for at, (_, text) in enumerate(lines) if "wait" in verbs_of(text)]
    reports = {at for at, (_, text) in enumerate(lines) if _REPORT.search(text) and _state(text)}
    ended = {at: row for at, text in waits if at not in reports and (row := _without_end(text)) is not None}
    others = [text for at, text in waits if at not in reports and at not in ended]
    if not ended and not any(map(_state, others)):  # no row begins a wait
        rows = ((at, _begun(text)) for at, (_, text) in enumerate(lines) if at not in reports)
        found = {at: row for at, row in rows if row is not None}
        first = min(reports, default=len(lines))
        unknown = sum(_state(text) and not verbs_of(text) for _, text in lines)  # these may begin the waits
        # Reports come when the kernel has hung.
        if 2 * sum(at < first for at in found) >= len(found) and unknown <= PAIRED * len(found):
            ended, others = found, []
    if len(ended) < 3 or not (reports or seen) or len(others) > PAIRED * len(ended):
        return lines
    heads = _heads(list(ended.values()))
    told: set[str] = set()
    out: Rows = []
    for at, (number, text) in enumerate(lines):
        if at in ended:
            out += [(number, ended[at]), (number, f"{ended[at]} done")]
        elif at not in reports:
            out.append((number, text))
        elif (row := _as_wait(text, heads)) not in told:
            told.add(row)
            out.append((number, row))
    return out


def _state(text: str) -> bool:
    return any(is_state(word) for word in _WORD.findall(text) if split(word) != ["bar"])


def _without_end(text: str) -> str | None:
    """A wait's row without the words for its end; None for a row that states no end."""
    past = _PAST.search(text)
    end = _ENDED.search(text)
    if (past is None and end is None) or not _state(text):
        return None
    row = text[: end.start()] if end is not None else text
    row = _PAST.sub("wait", row)
    return row if "wait" in verbs_of(row) else None


def _begun(text: str) -> str | None:
    """The row of a wait's beginning by that of its end, `mma passed full[0]`; None for another row."""
    if verbs_of(text) & {"wait", "arrive", "expect", "copy", "init"} or not _state(text):
        return None
    word = next(
        (word for word in _WORD.finditer(text) if "done" in verbs(word[0]) and not is_state(word[0])), None
    )
    return f"{text[: word.start()]}wait{text[word.end() :]}" if word is not None else None


def _heads(rows: list[str]) -> dict[str, str]:
    """What stands in front of the verb of the rows, by a pattern of its words; the longest first."""
    found: dict[str, str] = {}
    for row in rows:
        word = next((word for word in _WORD.finditer(row) if "wait" in verbs(word[0])), None)
        head = row[: word.start()] if word is not None else ""
        parts = re.findall(r"[^\W\d]+|\d+", head)
        if parts:
            pattern = r"[\W_]*".join(r"(\d+)" if part.isdecimal() else re.escape(part) for part in parts)
            found.setdefault(rf"(?<!\w){pattern}(?!\w)", head)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _as_wait(text: str, heads: dict[str, str]) -> str:
    """A report of an open wait, as the other rows print a wait: its actor in front, then the wait."""
    plain = _DURATION.sub(" ", text)
    hit = next(((found, head) for form, head in heads.items() if (found := re.search(form, plain))), None)
    front, before, behind = "", plain, ""
    if hit is not None:
        found, head = hit
        numbers = iter(found.groups())
        front = re.sub(r"\d+", lambda _: next(numbers), head)
        before, behind = plain[: found.start()], plain[found.end() :]
    rest = " ".join(filter(None, (_fields(part) for part in (before, behind))))
    return f"{front}wait {rest}"


def _fields(part: str) -> str:
    """A part of a report without the clauses that only say that a wait timed out."""
    clauses = re.split(r"[,;:]\s+|\s+-+\s+", part)
    kept = [re.sub(r"\s+", " ", _REPORT.sub(" ", each)).strip(_MARKS) for each in clauses]
    named = [_bare(each) if _state(each) else each for each in kept if re.search(r"\d", each) or _state(each)]
    return " ".join(named)


def _bare(clause: str) -> str:
    """A clause without the verbs in front of its barrier."""
    words = [word for word in clause.split() if not {*verbs_of(word)} & {"wait", "not"}]
    return " ".join(words)
