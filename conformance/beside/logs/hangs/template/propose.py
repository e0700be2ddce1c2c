"""Line templates inferred from a log that is not understood, with blanks for the user."""

from __future__ import annotations

import re
from collections import Counter

from tileproof.conformance.beside.logs.hangs.records import told_by
from tileproof.conformance.beside.logs.hangs.template.fields import FIELDS
from tileproof.conformance.beside.logs.hangs.words import Vocabulary

PROPOSED = 6  # templates that are proposed
_PARTS = re.compile(
    r"0[xX][0-9a-fA-F]+|\d+|(?:cta|warp|wg|blk|block|rank|ph|[WBCswkip])(?=\d+\b)|[^\W\d]\w*|\s+|."
)


def proposed(text: str) -> list[str]:
    """Templates of the commonest shapes of lines: `wait: [{?} {role}] ... {barrier}[{stage}] phase {phase}`.

    A number behind a field's name is that field; a word that differs from line to line is a blank, `{?}`.
    """
    shapes: dict[tuple[str, ...], list[list[str]]] = {}
    for line in text.splitlines():
        parts = _PARTS.findall(line.strip()[:400])
        if len(parts) > 3:
            shapes.setdefault(tuple(map(_kind, parts)), []).append(parts)
    known = Vocabulary()
    found: Counter[str] = Counter()
    for some in shapes.values():
        for template, count in _split(some, known):
            found[template] += count
    told = [item for item, count in found.most_common() if count > 1 and "{" in item]
    return told[:PROPOSED]


def _kind(part: str) -> str:
    return "0" if part[0].isdigit() else "a" if part[0].isalpha() or part[0] == "_" else part.strip() or " "


def _split(some: list[list[str]], known: Vocabulary) -> list[tuple[str, int]]:
    """The templates of lines of one shape, apart by their verbs and by words that few lines have."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for parts in some:
        key = tuple(part for part in parts if _kind(part) == "a" and known.word(part).kind == "verbs")
        groups.setdefault(key, []).append(parts)
    return [(_template(group, known), len(group)) for group in groups.values()]


def _template(group: list[list[str]], known: Vocabulary) -> str:
    made: list[str] = []
    used: set[str] = set()
    for at, part in enumerate(group[0]):
        column = {parts[at] for parts in group}
        kind = _kind(part)
        if kind == "0":
            made.append(_hole(_number_field(group[0], at, known), used))
        elif kind == "a" and len(column) > 1:
            words = Counter(known.word(word).kind for word in column)
            name = words.most_common(1)[0][0]
            made.append(_hole(name if name in ("role", "barrier") else "", used))
        elif kind == "a" and known.word(part).kind in ("barrier", "role") and len(group) > 1:
            made.append(_hole(known.word(part).kind, used))
        else:
            made.append({"{": "{{", "}": "}}"}.get(part, part))
    verbs = [verb for part in group[0] if _kind(part) == "a" for verb in known.word(part).verbs]
    event = told_by(verbs)
    if event == "arrive" and "bytes" in used:
        event = "expect"  # type: ignore[assignment]
    text = re.sub(r"\s+", " ", "".join(made))
    return f"{event if event not in (None, 'touch') else '?'}: {text}"


def _number_field(parts: list[str], at: int, known: Vocabulary) -> str:
    """The field that the word before a number names: `phase=1`, `CTA 0`, `full[1]`."""
    before = [part for part in parts[:at] if part.strip()]
    if before and before[-1] == "[" and len(before) > 1 and _kind(before[-2]) == "a":
        word = known.word(before[-2])
        return word.field if word.kind == "key" else "stage"
    for part in reversed(before[-3:]):
        if _kind(part) == "a":
            word = known.word(part)
            return {"iteration": "k", "tile": "k", "block": "cta", "rank": "cta", "target": "owner"}.get(
                word.field, word.field
            )
    return ""


def _hole(name: str, used: set[str]) -> str:
    if name not in FIELDS or name in used:
        return "{?}"
    used.add(name)
    return "{" + name + "}"
