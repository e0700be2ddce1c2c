"""Which lines begin a wait and which end it: pairs of lines that differ by the same words.

The second line of such a pair comes later than the first, for each barrier and role; the first stands alone
only where a thread hangs. An arrival and the copy that completes it are such pairs too, but carry bytes and
no parity, and only threads that load print them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.grammar.tokens import Said

BIG = 64  # a number from here on counts bytes or threads
WINDOW = 90  # lines from the beginning of a wait to its end, for the search of what changes
CHOICES = 4  # of the signature that is a wait's
CHANGED = 6  # words and numbers that change
Change = tuple[frozenset[str], frozenset[str]]  # what only the first line of a pair has, and only the second
Prior = Callable[[str], set[str]]  # what a word is known to say


@dataclass
class PairChange:
    """A change from a line to a later line, and how it occurs."""

    change: Change
    pairs: list[tuple[Said, Said]] = field(default_factory=list)
    shared: frozenset[str] = frozenset()  # words of all of its lines
    labels: frozenset[str] = frozenset()  # of numbers in all of its lines
    open: list[Said] = field(default_factory=list)  # first lines without a second
    score: float = 0.0


@dataclass
class LogWaits:
    """The lines that begin and end waits, the words that say so, and the score of this choice."""

    begins: dict[int, Said] = field(default_factory=dict)
    ends: dict[int, Said] = field(default_factory=dict)
    pairs: list[tuple[Said, Said]] = field(default_factory=list)
    open: list[Said] = field(default_factory=list)
    verbs: set[str] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    rest: list[PairChange] = field(default_factory=list)  # not taken
    score: float = 0.0

    def take(self, signature: PairChange) -> None:
        """Add the lines of a signature."""
        for first, then in signature.pairs:
            if not {first.number, then.number} & (self.begins.keys() | self.ends.keys()):
                self.begins[first.number], self.ends[then.number] = first, then
                self.pairs.append((first, then))
        for line in signature.open:
            if line.number not in self.begins.keys() | self.ends.keys():
                self.begins[line.number] = line
                self.open.append(line)
        self.changes.append(signature.change)
        self.verbs |= signature.change[0] | signature.change[1] | signature.shared


def words_of(line: Said) -> frozenset[str]:
    """The words of a line, in lower case."""
    return frozenset(word.lower() for word in line.words)


def find_waits(lines: Sequence[Said], prior: Prior) -> list[LogWaits]:
    """The choices of waits of a log, the likeliest first; none where no pairs of lines behave like waits."""
    signatures = _signatures(lines)
    if any(_worded(signature) for signature in signatures):
        signatures = [signature for signature in signatures if _worded(signature)]
    most_pairs = max((len(signature.pairs) for signature in signatures), default=1)
    for signature in signatures:
        _complete(signature, lines)
        signature.score = _score(signature, prior) + 2.0 * len(signature.pairs) / most_pairs
    signatures = sorted(
        (signature for signature in signatures if signature.score > 0), key=lambda signature: -signature.score
    )
    choices = []
    for best in signatures[:CHOICES]:
        waits = LogWaits(score=best.score)
        waits.rest = [signature for signature in signatures if signature is not best]
        for signature in (best, *(signature for signature in waits.rest if _same(signature, best))):
            waits.take(signature)
        _alike(lines, waits)
        choices.append(waits)
    return choices


def _worded(signature: PairChange) -> bool:
    return any("=" not in item for item in signature.change[0] | signature.change[1])


def _same(signature: PairChange, best: PairChange) -> bool:
    """Whether a further signature shares its words with the best."""
    (lost, new), (lost_best, new_best) = signature.change, best.change
    return signature.score >= 1.0 and bool(lost & lost_best or new & new_best)


def also(waits: LogWaits, follows: Callable[[Said], Said | None]) -> None:
    """Take the further signatures whose second line always follows the first in its thread, where some thread
    ends in a first line or the pairs have no numbers of their own.
    """
    for signature in waits.rest:
        fresh = [
            (first, then)
            for first, then in signature.pairs
            if not {first.number, then.number} & (waits.begins.keys() | waits.ends.keys())
        ]
        if len(fresh) < max(2, 0.7 * len(signature.pairs)):
            continue
        close = sum(follows(first) is then for first, then in fresh)
        last = [line for line in signature.open if follows(line) is None]
        hangs = len(last) == len(signature.open) > 0
        if close >= 0.95 * len(fresh) and hangs and signature.score >= 0.8:
            waits.take(signature)


def _signatures(lines: Sequence[Said]) -> list[PairChange]:
    """The changes that occur in several places, always in the same order."""
    places: dict[frozenset[str], list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        places[line.items].append(at)
    tried: Counter[Change] = Counter()
    for at, line in enumerate(lines[:1200]):
        for other in lines[at + 1 : at + 1 + WINDOW]:
            lost, new = line.items - other.items, other.items - line.items
            if 0 < len(lost) + len(new) <= CHANGED and _says(lost, new) and len(line.items & other.items) > 1:
                tried[lost, new] += 1
    found = []
    for change, count in tried.most_common(400):
        if count < 3:
            break
        signature = _paired(change, lines, places)
        if signature is not None:
            found.append(signature)
    return found


def _paired(
    change: Change, lines: Sequence[Said], places: dict[frozenset[str], list[int]]
) -> PairChange | None:
    lost, new = change
    signature, forward, backward = PairChange(change), 0, 0
    for items, firsts in places.items():
        if not lost <= items or new & items:
            continue
        seconds = places.get(items - lost | new)
        if seconds is None:
            continue
        ordered = all(a < b for a, b in zip(firsts, seconds, strict=False))
        forward, backward = forward + ordered, backward + (not ordered)
        if ordered:
            signature.pairs += [(lines[a], lines[b]) for a, b in zip(firsts, seconds, strict=False)]
    if len(signature.pairs) < 3 or backward > 0.08 * forward:
        return None
    both = [line for pair in signature.pairs for line in pair]
    signature.shared = frozenset.intersection(*map(words_of, both))
    signature.labels = frozenset.intersection(*(frozenset(line.numbers) for line in both))
    return signature


def _says(lost: frozenset[str], new: frozenset[str]) -> bool:
    """Whether a change is of words, or of a single number with few values, as codes of events have."""
    if any("=" not in item for item in lost | new):
        return True
    return len(lost) == len(new) == 1 and next(iter(lost)).split("=")[0] == next(iter(new)).split("=")[0]


def _complete(signature: PairChange, lines: Sequence[Said]) -> None:
    """Find the first lines of a signature that have no second line."""
    lost, new = signature.change
    known = {id(line) for pair in signature.pairs for line in pair}
    shapes = {words_of(first) for first, _ in signature.pairs}
    ends = {words_of(then) for _, then in signature.pairs}
    for line in lines:
        if id(line) in known or not lost <= line.items or new & line.items:
            continue
        words = words_of(line)
        coded = any("=" in item for item in lost | new)
        if words in ends and not coded:
            continue
        if words in shapes or (signature.shared <= words and signature.labels <= line.numbers.keys()):
            signature.open.append(line)


def _score(signature: PairChange, prior: Prior) -> float:
    """How much a signature behaves like the begin and the end of a wait."""
    lost, new = signature.change
    count = len(signature.pairs)
    contexts = {words_of(first) for first, _ in signature.pairs}
    score = min(len(contexts), 6) * 0.4 + (1.0 if _flips(signature) else 0.0)
    score += 1.0 * bool(signature.open) - 3.0 * max(
        len(signature.open) / (count + len(signature.open)) - 0.3, 0.0
    )
    sized = sum(any(value >= BIG for value in first.numbers.values()) for first, _ in signature.pairs)
    score -= 2.0 * sized / count
    if all("=" in item for item in lost | new):
        score -= 1.5
    begins = set().union(*(prior(word) for word in lost | signature.shared))
    ends = set().union(*(prior(word) for word in new))
    gone = set().union(*(prior(word) for word in lost))
    score += 2.0 * bool(ends & {"done", "after", "waited"}) + 1.5 * ("wait" in begins)
    score -= 3.0 * bool((ends | gone) & {"copy", "arrive"} and "wait" not in begins)
    return score - 2.0 * bool(gone & {"done", "after"} and not ends & {"done", "after"})


def _flips(signature: PairChange) -> bool:
    """Whether most pairs have a number that is 0 or 1, and both occur."""
    values: dict[str, Counter[int]] = defaultdict(Counter)
    for first, _ in signature.pairs:
        for label, value in first.numbers.items():
            values[label][value] += 1
    return any(
        set(counts) == {0, 1} and sum(counts.values()) >= 0.6 * len(signature.pairs)
        for counts in values.values()
    )


def _alike(lines: Sequence[Said], waits: LogWaits) -> None:
    """Lines with the words of a begin or of an end, whose other line is lost."""
    firsts = {words_of(line) for line in waits.begins.values()}
    seconds = {words_of(line) for line in waits.ends.values()}
    for line in lines:
        if line.number in waits.begins or line.number in waits.ends:
            continue
        words = words_of(line)
        if words in firsts and words not in seconds:
            waits.begins[line.number] = line
            waits.open.append(line)
        elif words in seconds and words not in firsts:
            waits.ends[line.number] = line
