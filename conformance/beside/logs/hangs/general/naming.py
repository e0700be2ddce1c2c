"""Which words of a log name roles and which name barriers: decided for the whole log, not for a line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.items import Row, RowWord, is_sync
from tileproof.conformance.beside.logs.hangs.words import PREPOSITIONS
from tileproof.conformance.beside.logs.hangs.words import ROLES as KNOWN_ROLES

_TAIL = 4  # tokens behind a role that may be of its name
_HEAD = 6  # words from the beginning of a row among which the role stands
_ACTS = ("role", "", "thread", "warp", "wg")  # labels before a role's name
Slot = tuple[str, str]
BESIDE: Slot = ("cta", "before")


def barrier_words(rows: Sequence[Row]) -> dict[str, float]:
    """How much each word, in lower case, looks like a barrier's name."""
    count: Counter[str] = Counter()
    keyed: Counter[str] = Counter()
    indexed: Counter[str] = Counter()
    spelt: dict[str, str] = {}
    for row in rows:
        for low, words in _by_text(row).items():
            count[low] += 1
            spelt.setdefault(low, words[0].text)
            keyed[low] += any(word.key == "barrier" for word in words)
            indexed[low] += any(word.indexed for word in words)
    found: dict[str, float] = {}
    synced = sum(any(is_sync(word.text) for word in row.words) for row in rows)
    for low, many in count.items():
        if is_sync(low):
            continue
        verbs = lexicon.verbs(spelt[low])
        if verbs and all(lexicon.verbs(part) or lexicon.field(part) for part in lexicon.split(spelt[low])):
            keyed[low] = 0  # `name=wait` names what happens
        score = 3.0 * keyed[low] / many + 1.5 * indexed[low] / many
        parts = lexicon.split(spelt[low])
        rest = [part for part in parts if not lexicon.verbs(part) and lexicon.field(part) != "barrier"]
        named = lexicon.is_state(spelt[low]) and (bool(rest) or not verbs)
        score += 2.0 * named + 0.5 * (len(parts) > 1)
        if verbs and not keyed[low]:
            score -= 1.0 if named and indexed[low] else 0.4 if len(parts) > len(verbs) and named else 2.5
        if lexicon.field(low) and not keyed[low]:
            score -= 3.0
        if many > 0.93 * (len(rows) - synced) and len(rows) - synced > 8:
            score -= 4.0
        if many == 1 and not keyed[low]:
            score -= 0.6 if indexed[low] or len(parts) > 1 else 1.2  # a state in a sentence: `empty split`
        found[low] = score
    return found


def _by_text(row: Row) -> dict[str, list[RowWord]]:
    found: dict[str, list[RowWord]] = {}
    for word in row.words:
        found.setdefault(word.text.lower(), []).append(word)
    return found


def slots_of(row: Row) -> dict[Slot, RowWord]:
    """The words of a row by their place: behind a label, from the beginning, or in front of the CTA."""
    found: dict[Slot, RowWord] = {}
    for at, word in enumerate(row.words):
        if word.raw and word.key in _ACTS:
            found.setdefault(("=", word.raw), word)
        if at < _HEAD:
            found.setdefault(("at", str(at)), word)
    cta = next((num for num in row.nums if num.field == "cta"), None)
    before = [word for word in row.words if cta is not None and cta.at - 4 <= word.at < cta.at]
    if before and len(before[-1].text) > 1:  # a letter tells two of a name apart
        found[BESIDE] = before[-1]
    return found


def role_slots(rows: Sequence[Row], barriers: dict[str, float]) -> list[tuple[Slot, float]]:
    """Where the role may stand, the likeliest first."""
    values: dict[Slot, Counter[str]] = defaultdict(Counter)
    keyed: Counter[Slot] = Counter()
    alone: Counter[Slot] = Counter()
    rows = [row for row in rows if not any("init" in lexicon.verbs(word.text) for word in row.words)] or rows
    for row in rows:
        for slot, word in slots_of(row).items():
            values[slot][word.text.lower()] += 1
            keyed[slot] += slot[0] == "=" and word.key in _ACTS and word.key != ""
            low = word.text.lower()
            if is_sync(word.text) or barriers.get(low, 0) > 1.2:  # a role may have an index too: loader.0
                alone[slot] += not any(
                    is_sync(other.text) or barriers.get(other.text.lower(), 0) > 1.2
                    for other in row.words
                    if other.text.lower() != low
                )
    scored = []
    for slot, words in values.items():
        total = sum(words.values())
        if total < 0.7 * len(rows) or len(words) > 40:
            continue
        verbal = sum(many for word, many in words.items() if _verbal(word))
        barred = alone[slot]
        known = sum(many for word, many in words.items() if _known(word))
        rare = sum(many == 1 for many in words.values())
        score = 4.0 * keyed[slot] / total + 1.5 * known / total + total / len(rows)
        score -= 2.0 * verbal / total + 3.0 * barred / total + 2.0 * rare / total
        score -= 1.2 * (len(words) == 1) + (0.08 * int(slot[1]) if slot[0] == "at" else 0.0)
        scored.append((slot, score))
    return sorted(scored, key=lambda item: -item[1])


def role_tail(row: Row, role: RowWord, barrier: RowWord | None) -> list[str]:
    """The words and the number behind a role that may be of its name: `softmax wg A`, `softmax 1`."""
    found: list[str] = []
    for at, token in enumerate(row.tokens[role.at + 1 : role.at + 1 + _TAIL], role.at + 1):
        if token[0].isdecimal():
            bare = any(num.at == at and not num.field for num in row.nums)
            return [*found, token] if bare else found
        then = row.tokens[at + 1] if at + 1 < len(row.tokens) else ""
        named = lexicon.field(token) in ("", "warp", "wg", "thread", "role") and not then[:1].isdecimal()
        if token in "-#._" and then[:1].isalnum():
            continue
        if (
            not (token[0].isalpha() and named)
            or lexicon.verbs(token)
            or token.lower() in PREPOSITIONS
            or (barrier is not None and token == barrier.text)
            or then in ("=", ":")
        ):
            return found
        found.append(token)
    return found


def _known(word: str) -> bool:
    stem = word.rstrip("0123456789_")
    return stem in KNOWN_ROLES or any(part in KNOWN_ROLES for part in lexicon.split(word))


def _verbal(word: str) -> bool:
    told = {*lexicon.verbs(word)}
    return bool(told - {"copy"}) and not _known(word)
