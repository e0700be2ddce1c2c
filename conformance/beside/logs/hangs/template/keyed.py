"""Reads logs whose lines name their fields: JSON objects, `key=value` lines, and CSV with a header.

The keys say what each value is, so that no order of words has to be inferred; which keys they are is decided
by the lexicon of the general reading.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.template.pattern import Values
from tileproof.conformance.beside.logs.hangs.template.records import STEPS, Record, Records

Row = tuple[int, dict[str, str]]  # line, values by key
LEAST_KEYS = 3
LEAST_SHARE = 0.6  # of the rows that are steps
_SAMPLE = 400  # lines
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^\s,;(]+(?:\([^)]*\))?)")
_STAGED = re.compile(r"(.*\w)\s*(?:[\[({](\d+)[\])}]|[.#/:@](\d+))$")
_AT = re.compile(r"(?P<role>.*\w)\s*(?:@\s*(?:cta)?|[(]\s*cta\s*)(?P<cta>\d+)\)?$", re.IGNORECASE)
_OF_CTA = re.compile(r"cta\s*(?P<cta>\d+)\s*[./: ]\s*(?P<role>\w.*)$", re.IGNORECASE)
_SENDER = re.compile(r"([^\W\d][\w.-]*)(?:@(\d+))?[^,;&|/]*")
_TARGETS = re.compile(r"(?:->|→|=>)\s*(.*)$")
_EVENT_KEYS = {"event", "ev", "op", "action", "act", "type", "kind", "verb", "what", "call", "msg"}
_SENDER_KEY = re.compile(r"by|from|.*(?:signal|arrive|producer|sender).*")
_COUNTS = {
    "init", "count", "arrival_count", "arrive_count", "init_count", "expected_arrivals", "expected",
    "arrivals",
}  # fmt: skip
_STAGES = {"stages", "slots", "depth", "ring", "nstages", "num_stages"}
_ENDS = {"exit", "exits", "exited", "return", "returns", "returned", "finished", "ended", "end", "retire"}
_LANDED = {"landed", "complete", "completed", "completes", "arrived"}  # of bytes: not an arrival of a role
_ROLE_KEYS = {"who", "role", "actor", "worker", "agent"}
_ONLY = {"count": ("arrive",), "bytes": ("expect", "copy")}  # fields of some events
_NAMES = ("bar", "barrier", "mbar", "mbarrier", "name", "id")


def keyed(lines: Sequence[str]) -> Records | None:
    """The records of a log of named fields; None where most lines are of another form."""
    if len(lines) > _SAMPLE and not _most(_rows(lines[:_SAMPLE]), lines[:_SAMPLE]):
        return None  # a long log of another form is not read to its end
    rows = _rows(lines)
    if not _most(rows, lines):
        return None
    event_key = _event_key(rows)
    if not event_key:
        return None
    made: list[Record] = []
    steps = 0
    fields = _fields(rows)
    for line, row in rows:
        found = list(_read(row, event_key, fields))
        steps += any(event in STEPS for event, _ in found)
        made += [(line, event, values) for event, values in found]
    if steps < LEAST_SHARE * len(rows):
        return None
    seen = {line for line, _, _ in made}
    return Records(made, [at for at, text in enumerate(lines, 1) if text.strip() and at not in seen])


def _most(rows: Sequence[Row], lines: Sequence[str]) -> bool:
    """Whether the rows are at least half of the lines with text."""
    return 2 * len(rows) >= sum(bool(line.strip()) for line in lines)


def _rows(lines: Sequence[str]) -> list[Row]:
    """The lines with three keys or more."""
    found: list[Row] = []
    header: list[str] = []
    for at, line in enumerate(lines, 1):
        text = line.strip()
        cells = _cells(text) if "," in text and text[0] != "{" else []
        if header and len(cells) == len(header):
            row = {key: cell for key, cell in zip(header, cells, strict=True) if cell}
        elif text.startswith("{"):
            row = _object(text.rstrip(","))
        else:
            row = {key.lower(): value.strip('"') for key, value in _PAIR.findall(text)}
            before = [cell for cell in cells if "=" not in cell]
            if row and before and not row.keys() & {*_NAMES}:
                row["name"] = before[-1].strip()  # what the pairs are about
            if len(cells) > LEAST_KEYS and sum(bool(lexicon.field(c)) or c in _EVENT_KEYS for c in cells) > 3:
                header = [cell.strip().lower() for cell in cells]
        if len(row) >= LEAST_KEYS:
            found.append((at, row))
    return found


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _object(text: str) -> dict[str, str]:
    """The members of a JSON object, those of objects in it included."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    row: dict[str, str] = {}
    for key, value in read.items() if isinstance(read, dict) else ():
        for name, each in value.items() if isinstance(value, dict) else ((key, value),):
            words = ", ".join(map(str, each)) if isinstance(each, list) else str(each)
            row[str(name).lower()] = words
    return row


def _event_key(rows: Sequence[Row]) -> str:
    """The key whose values say what happens in the most rows."""
    told: Counter[str] = Counter()
    for _, row in rows:
        told.update(key for key in row if key in _EVENT_KEYS and _kind(row[key], row))
    return max(told, key=lambda key: told[key], default="")


def _kind(word: str, row: dict[str, str]) -> str:
    """The event that a value names; empty if none."""
    parts = set(lexicon.split(word))
    verbs = {verb for part in word.split() for verb in lexicon.verbs(part)}
    named = any(lexicon.field(key) == "barrier" for key in row)
    if not named:
        return "end" if parts & _ENDS else ""
    if parts & _LANDED and parts & {"tx", "bytes", "copy", "landed"}:
        return "skip"
    if "expect" in verbs:
        return "expect"
    if "wait" in verbs:
        return "done" if "done" in verbs else "wait"
    for verb, kind in (("copy", "copy"), ("arrive", "arrive"), ("done", "done"), ("begin", "wait")):
        if verb in verbs:
            return kind
    return ""


def _fields(rows: Sequence[Row]) -> dict[str, str]:
    """The field of each key. A block is a CTA where the lines name the round of the loop beside it."""
    keys = {key for _, row in rows for key in row}
    fields = {key: "role" if key in _ROLE_KEYS else lexicon.field(key) for key in keys}
    rounds = {key for key in keys if fields[key] == "k"}
    for key in keys:
        if fields[key] == "cta" and not key.startswith(("cta", "rank", "cluster")):
            beside = [bool(rounds & row.keys()) for _, row in rows if key in row]
            fields[key] = "cta" if 2 * sum(beside) > len(beside) else "k"
    return fields


def _read(row: dict[str, str], event_key: str, fields: dict[str, str]) -> Iterator[tuple[str, Values]]:
    """The events of a row."""
    kind = _kind(row.get(event_key, ""), row)
    sender = next((row[k] for k in row if _SENDER_KEY.fullmatch(k) and not row[k].isdecimal()), "")
    count = next((row[key] for key in row if key in _COUNTS and row[key].isdecimal()), "")
    if sender and count:
        yield from _init(row, sender, count)
    elif kind == "skip":
        yield "skip", {}
    elif kind:
        values, targets = _step(row, fields)
        if "role" not in values or ("barrier" not in values and kind != "end"):
            return
        for name, kinds in _ONLY.items():
            if kind not in kinds:
                values.pop(name, None)
        for cta in targets if kind not in ("wait", "done") else ():
            yield kind, {**values, "owner": cta}
        if not targets or kind in ("wait", "done"):
            yield kind, values


def _step(row: dict[str, str], fields: dict[str, str]) -> tuple[Values, list[int]]:
    """The values of a row about a step, and the CTAs that it reaches."""
    values: Values = {}
    targets: list[int] = []
    for key, text in row.items():
        field, digits = fields[key], re.findall(r"\d+", text)
        if field == "role":
            values |= _role(text)
        elif field == "barrier" and "barrier" not in values:
            values |= _barrier(text)
        elif field in ("target", "owner"):
            targets = [int(each) for each in digits]
        elif field in ("stage", "phase", "bytes", "count", "warp") and text.isdecimal():
            values[field] = int(text)
        elif field in ("k", "cta") and digits and key != "tile":
            values[field] = int(digits[0])
    return values, targets


def _init(row: dict[str, str], sender: str, count: str) -> Iterator[tuple[str, Values]]:
    """A barrier, with its count and the roles that arrive on it."""
    name = next((row[key] for key in _NAMES if key in row), "")
    if not name:
        return
    items = [item for item in re.split(r"[,;&/|]\s*", sender) if item.strip()]
    roles = [found[1] for item in items if (found := _SENDER.match(item.strip(" \"'[]()")))]
    reach = [re.findall(r"\d+", found[1]) for item in items if (found := _TARGETS.search(item))]
    values: Values = {**_barrier(name), "count": int(count), "role": ", ".join(dict.fromkeys(roles))}
    stages = next((row[key] for key in row if key in _STAGES and row[key].isdecimal()), "")
    if stages:
        values["stages"] = int(stages)
    several = re.search(r"(\d+) CTAs", sender)
    ctas = max([len(each) for each in reach] + ([int(several[1])] if several else []), default=1)
    if ctas > 1:
        values["ctas"] = ctas
    yield "init", values


def _role(text: str) -> Values:
    found = _AT.match(text) or _OF_CTA.match(text)
    return {"role": found["role"], "cta": int(found["cta"])} if found else {"role": text}


def _barrier(text: str) -> Values:
    found = _STAGED.match(text)
    return {"barrier": found[1], "stage": int(found[2] or found[3])} if found else {"barrier": text}
