"""Which rows begin a wait and which end it, by the order of rows in their actor, without their words.

An actor that waits prints nothing until its wait ends: a row that begins a wait is the actor's last, or the
row that ends the wait follows it, with the same barrier and numbers. An announcement and its copy follow each
other so too, but carry bytes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.items import Num
from tileproof.conformance.beside.logs.hangs.general.told import Told, braces
from tileproof.conformance.beside.logs.hangs.log import Actor

FOLLOWS = 0.9  # of the rows that begin a wait; fewer are no waits
BYTES = 64  # a number from here on may count bytes
OFTEN = 0.6  # of the rows; a number in more of them is no size of a copy
TOLD = 0.3  # of the rows of mbarriers must be of waits
CODED = 0.95  # of the rows have the number that is the code of an event
CODES = 10  # kinds of events
_RUN = re.compile(r"(?<![^\w\s])(?:>{2,}|<{2,}|\?+|!+)(?![^\w\s])")  # signs that tell an event
_ENDS = {"wait", "done", "begin", "not"}


class Sign(NamedTuple):
    """What rows of the same event share."""

    scope: str
    words: tuple[str, ...]
    sized: bool


@dataclass(frozen=True)
class Turn:
    """A row that begins a wait and the row that ends it: the words of both, and of either alone."""

    scope: str
    both: frozenset[str]
    lost: frozenset[str]
    new: frozenset[str]

    def of(self, told: Told) -> str:
        """Whether a row begins (`wait`) or ends (`done`) a wait by the words that change."""
        words = frozenset(_words(told))
        begins, ends = self.lost <= words, self.new <= words
        if told.scope != self.scope and not (self.lost and self.new):
            return ""
        if not (self.lost and self.new) and not self.both <= words:
            return ""
        if self.lost and begins and not (self.new and ends):
            return "wait"
        if self.new and ends and not (self.lost and begins):
            return "done"
        if not self.lost and not self.new & words:
            return "wait"
        return "done" if not self.new and not self.lost & words else ""


def find_turns(acting: Sequence[Told]) -> bool:
    """Set `turn` and the verbs of each row by the order of rows; False where no rows follow so."""
    pairs = _pairs(acting)
    if not any(first.scope == "mbarrier" for first, _ in pairs):
        _find_codes(acting)
        pairs = _pairs(acting)
    turns = [
        Turn(first.scope, frozenset(first.words) & {*then.words}, _less(first, then), _less(then, first))
        for first, then in pairs
    ]
    known = {first: "wait" for first, _ in pairs} | {then: "done" for _, then in pairs}
    for told in acting:
        told.turn = known.get(_sign(told), "")
        if not told.turn and not _sized(told) and not _arrives(told):
            told.turn = next((turn for each in turns if (turn := each.of(told))), "")
    plain = [told for told in acting if told.scope == "mbarrier"]
    if not pairs or sum(bool(told.turn) for told in plain) < TOLD * len(plain):
        return False
    for told in acting:
        if told.turn:
            told.verbs = ("wait",) if told.turn == "wait" else ("wait", "done")
        elif told.scope == "mbarrier" and not {"init", "wait"} & {*told.verbs}:
            told.verbs = tuple(verb for verb in told.verbs if verb not in _ENDS) or ("arrive",)
    return True


def _arrives(told: Told) -> bool:
    """Whether the words of a row of a cluster's or of threads' barrier say that it arrives only."""
    return told.scope != "mbarrier" and "arrive" in told.verbs and "wait" not in told.verbs


def _sign(told: Told) -> Sign:
    return Sign(told.scope, _words(told), _sized(told))


def _words(told: Told) -> tuple[str, ...]:
    """What may tell an event: the words of a row, its labels, and signs such as `->` or `wait+`."""
    before = told.row.tokens[told.barrier.at - 1] if told.barrier is not None and told.barrier.at else ""
    signs = {braces(told), *_RUN.findall(told.row.text), "" if before.isalnum() else before}
    return tuple(sorted({*told.phrase, *told.row.labels, *signs} - {""}))


def _find_codes(acting: Sequence[Told]) -> None:
    """Events that are numbers, `ev=1`: a number with a label of its own in nearly all rows, of few values."""
    values: dict[str, Counter[int]] = defaultdict(Counter)
    for told in acting:
        for num in told.row.nums:
            if not num.field and num.label[:1].isalpha():
                values[num.label][num.value] += 1
    for label, counts in values.items():
        if counts.total() < CODED * len(acting) or not 3 <= len(counts) <= CODES:
            continue
        for told in acting:
            for num in told.row.nums:
                if num.label == label and not num.field:
                    num.field = "event"
                    told.phrase += (f"{label}={num.value}",)


def _less(first: Sign, then: Sign) -> frozenset[str]:
    return frozenset(first.words) - {*then.words}


def _sized(told: Told) -> bool:
    return told.scope == "mbarrier" and any(num.field == "bytes" for num in told.row.nums)


def find_sizes(acting: Sequence[Told]) -> None:
    """Numbers that count bytes without a word for it: multiples of 16, in several rows, not in most."""
    counts: Counter[int] = Counter()
    rows = Counter(told.role for told in acting)
    heads: Counter[tuple[str, int]] = Counter()  # in front of the barrier; in all rows of a role: its thread
    for told in acting:
        counts.update({num.value for num in told.row.nums if not num.field})
        end = told.barrier.at if told.barrier is not None else 0
        heads.update({(told.role, num.value) for num in told.row.nums if not num.field and num.at < end})
    for told in acting:
        if told.scope != "mbarrier" or told.row.labelled("bytes") or "wait" in told.verbs:
            continue
        for num in told.row.nums:
            often = 1 < counts[num.value] <= OFTEN * len(acting)
            often = often and heads[told.role, num.value] < OFTEN * rows[told.role]
            if not num.field and not num.hexed and num.value >= BYTES and num.value % 16 == 0 and often:
                num.field = "bytes"
                break


def _behind(told: Told) -> list[Num]:
    return [
        num
        for num in told.row.nums
        if told.barrier is not None and num.at > told.barrier.at and not num.hexed
    ]


def _same(first: Told, then: Told) -> bool:
    """Whether two rows name the same barrier, and either has all numbers behind it that the other has."""
    if first.name != then.name:
        return False
    mine, its = (Counter(num.value for num in _behind(told)) for told in (first, then))
    return not mine - its or not its - mine


def _pairs(acting: Sequence[Told]) -> list[tuple[Sign, Sign]]:
    """The signs that follow each other, the most frequent first; each sign is of a single pair."""
    by: dict[Actor, list[Told]] = defaultdict(list)
    for told in acting:
        by[told.actor].append(told)
    alone = {_sign(told) for told in acting if _arrives(told)}
    nexts: Counter[Sign] = Counter()
    befores: Counter[Sign] = Counter()
    follows: Counter[tuple[Sign, Sign]] = Counter()
    for some in by.values():
        for before, after in pairwise(some):
            mine, its = _sign(before), _sign(after)
            nexts[mine] += 1
            befores[its] += 1
            follows[mine, its] += mine != its and _same(before, after)
    found: list[tuple[Sign, Sign]] = []
    taken: set[Sign] = set()
    for (first, then), many in follows.most_common():
        if many < 2 or not _free(first, then, alone | taken):
            continue
        if many >= FOLLOWS * nexts[first] and many >= FOLLOWS * befores[then]:
            found.append((first, then))
            taken |= {first, then}
    return found + _wordings(follows, nexts, befores, taken | alone)


def _free(first: Sign, then: Sign, known: set[Sign]) -> bool:
    """Whether two signs may be a wait and its end: of a scope, without bytes, neither known already."""
    return first.scope == then.scope and not first.sized | then.sized and not {first, then} & known


def _wordings(
    follows: Counter[tuple[Sign, Sign]], nexts: Counter[Sign], befores: Counter[Sign], known: set[Sign]
) -> list[tuple[Sign, Sign]]:
    """Pairs of waits that a log tells in several wordings: any beginning is followed by any of the ends."""
    begun: Counter[Sign] = Counter()
    ended: Counter[Sign] = Counter()
    free = {pair: many for pair, many in follows.items() if many and _free(*pair, known)}
    for (first, then), many in free.items():
        begun[first] += many
        ended[then] += many
    begins = {sign for sign, many in begun.items() if many > 1 and many >= FOLLOWS * nexts[sign]}
    ends = {sign for sign, many in ended.items() if many > 1 and many >= FOLLOWS * befores[sign]}
    return [pair for pair in free if pair[0] in begins - ends and pair[1] in ends - begins]


def find_copies(plain: Sequence[Told], turned: bool) -> None:
    """Of two rows with the same bytes on a barrier, the second is the copy, where no word tells."""
    last: dict[Actor, Told] = {}
    for told in plain:
        before = last.get(told.actor)
        if (
            before is not None
            and not told.turn
            and _sized(told)
            and _sized(before)
            and told.name == before.name
            and _words(told) != _words(before)
            and not {"copy", "expect"} & {*told.verbs}
            and "copy" not in before.verbs
        ):
            told.verbs, told.turn = ("copy",), "copy" if turned else ""
        last[told.actor] = told
