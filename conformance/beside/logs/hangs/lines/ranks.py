"""The CTA's rank in front of each row under any label, `r1 LOAD`, `(cluster_idx=1) mma`."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of
from tileproof.conformance.beside.logs.hangs.lines.headings import SHORT

SHARE = 0.8  # of the rows begin with the label
RANKS = 16  # more CTAs than a cluster has
FALLS = 0.04  # of a role's rows have a lower number than its row before: a count of turns only rises
_FIRST = re.compile(
    r"^(?P<open>(?:.{0,80}?[\w-]\.\w+:\d+[\])])?\W*)"  # a logger prints file and line in front
    r"(?P<label>[^\W\d]+?)(?P<sign>[_#]|\s*[=:]\s*|\s?)(?P<number>\d{1,2})"
    r"(?:\.(?=[^\W\d])|(?![\w.]))(?P<close>[)\]>:|,]*\s*)"
    r"(?=\W*(?P<role>[^\W\d]\w*))"
)
_BEHIND = re.compile(r"^(?P<open>\W*)(?P<role>[^\W\d]\w+)[(@](?P<number>\d{1,2})\)?\s*[:|,>]\s*")
_LABELLED = re.compile(r"(?<![\w.])(?P<label>[^\W\d]\w*?)(?:[_#]|\s*[=:]\s*|\s?)[{\[(]?\d")


def with_ranks(lines: Rows) -> Rows:
    """A number in front of rows is the CTA, where rows of a role take several in turn; no field is a CTA."""
    lines = _behind_roles(lines)
    found = [_FIRST.match(text) for _, text in lines]
    acts = [bool(verbs_of(text) & {"wait", "arrive"}) for _, text in lines]
    some = [each["label"] for each, act in zip(found, acts, strict=True) if each is not None and act]
    label = max({*some}, key=some.count, default="")
    if not label or some.count(label) < SHARE * sum(acts) or not _may_be_rank(label):
        return lines
    if any(
        _names_cta(text[each.end() :] if each else text) for (_, text), each in zip(lines, found, strict=True)
    ):
        return lines
    by: dict[str, list[int]] = defaultdict(list)
    for each in found:
        if each is not None and each["label"] == label:
            by[each["role"]].append(int(each["number"]))
    values = {value for some in by.values() for value in some}
    falls = sum(then < at for some in by.values() for at, then in pairwise(some))
    shared = sum(len({*some}) > 1 for some in by.values())
    alone = len(values) == 1 and field(label) == "group"
    in_turn = len(values) > 1 and shared and falls >= FALLS * sum(map(len, by.values()))
    if not (alone or in_turn) or max(values) >= RANKS:
        return lines
    others = re.compile(rf"(?<![\w.]){re.escape(label)}\s*[=:]\s*(?=[{{\[(]?\d)")
    return [
        (
            number,
            f"{each['open']}cta={each['number']}{each['close'] or ' '}"
            + others.sub("cta=", text[each.end() :]),
        )
        if each is not None and each["label"] == label
        else (number, others.sub("cta=", text))
        for (number, text), each in zip(lines, found, strict=True)
    ]


def _behind_roles(lines: Rows) -> Rows:
    """The rows with the CTA in front of the role, where it stands behind it: `mma_loop(0): wait ...`."""
    found = [_BEHIND.match(text) for _, text in lines]
    acts = sum(bool(verbs_of(text) & {"wait", "arrive"}) for _, text in lines)
    by: dict[str, list[int]] = defaultdict(list)
    for each in found:
        if each is not None:
            by[each["role"]].append(int(each["number"]))
    values = {value for some in by.values() for value in some}
    falls = sum(then < at for some in by.values() for at, then in pairwise(some))
    own = sum(
        each is not None and _names_cta(text[each.end() :])
        for (_, text), each in zip(lines, found, strict=True)
    )
    many = sum(map(len, by.values()))
    if many < SHARE * acts or own > 0.5 * many or not 1 < len(values) <= RANKS or max(values) >= RANKS:
        return lines
    if falls < FALLS * many or any(is_state(role) or verbs_of(role) & {"wait", "arrive"} for role in by):
        return lines
    return [
        (number, f"{each['open']}cta={each['number']} {each['role']}: {text[each.end() :]}" if each else text)
        for (number, text), each in zip(lines, found, strict=True)
    ]


def _may_be_rank(label: str) -> bool:
    """A label without a meaning, or of clusters: a log of few CTAs prints the ranks in its cluster."""
    return (
        label.lower() not in SHORT
        and field(label) in ("", "group", "owner")
        and not verbs(label)
        and not is_state(label)
    )


def _names_cta(text: str) -> bool:
    """Whether a field of the actor behind the first is a CTA."""
    return any(field(found["label"]) == "cta" for found in _LABELLED.finditer(text))
