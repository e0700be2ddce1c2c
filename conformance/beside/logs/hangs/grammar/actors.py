"""The thread that printed a line: the fields whose values separate the lines by thread.

A thread that waits prints nothing until its wait ends. The coarsest fields under which this holds name the
thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from tileproof.conformance.beside.logs.hangs.grammar.tokens import Said
from tileproof.conformance.beside.logs.hangs.grammar.waits import LogWaits, Prior
from tileproof.conformance.beside.logs.hangs.log import Actor
from tileproof.conformance.beside.logs.hangs.words import FIELDS, NEEDS_SIGN

HEAD = 16  # tokens in which a thread is named
COVERS = 0.72  # of the lines that show a field of the thread
THREADS = 96
SAMPLE = 700  # lines on which fields are tried
NEAR = 0.03  # of the waits that a coarser choice may break
BROKEN = 0.2  # of the waits; more show that the fields do not name threads

Slot = tuple[str, str]  # ("at", place) of a word or number, ("of", label) of a number, ("=", label) of a word
_THREAD = {"cta", "block", "rank", "group", "wg", "warp", "thread", "role"}


def meaning(label: str) -> str:
    """The field that a label is known to name; empty where it is unknown."""
    word, _, nth = label.partition("/")
    flat = word.replace("_", "").replace("-", "").lower()
    return FIELDS.get(flat, "") if not nth else ""


@dataclass
class LogThreads:
    """The threads of a log: their lines in order, the slots that name them, and the pairs of lines."""

    slots: tuple[Slot, ...]
    of: dict[tuple[Hashable, ...], list[Said]]
    broken: float  # of the waits: another line of the thread comes before their end
    actors: dict[tuple[Hashable, ...], Actor] = field(default_factory=dict)


def values_of(line: Said) -> dict[Slot, Hashable]:
    """The contents of each slot of a line."""
    found: dict[Slot, Hashable] = {}
    label, sign = "", False
    for at, token in enumerate(line.tokens):
        if token.word:
            if sign and label:
                found.setdefault(("=", label), token.text.lower())
            label, sign = token.text.lower(), False
        else:
            sign |= token.text in "=:"
        if at < HEAD and (token.word or token.value is not None):
            found["at", str(at)] = token.text.lower() if token.word else token.value
    found |= {("of", name): value for name, value in line.numbers.items()}
    return found


def find_threads(lines: Sequence[Said], waits: LogWaits, prior: Prior) -> LogThreads | None:
    """The threads of a log; None where no field separates its waits from each other."""
    sample = lines[:SAMPLE]
    shown = [values_of(line) for line in sample]
    slots, known = _slots(sample, shown)
    changed = {item.split("=")[0] for item in waits.verbs if "=" in item}
    verbs = {item for change in waits.changes for side in change for item in side if "=" not in item}
    others = [
        slot
        for slot in slots
        if slot not in known and slot[1] not in changed and not _tells(slot, shown, verbs, prior)
    ]
    tried: list[LogThreads] = []
    for size in range(4):
        for more in combinations(others, size):
            if (known or more) and len(known) + size <= 4:
                candidate = _threads((*known, *more), sample, shown, waits)
                if candidate is not None:
                    tried.append(candidate)
    if not tried:
        return None
    least = min(candidate.broken for candidate in tried)
    if least > BROKEN:
        return None
    good = [candidate for candidate in tried if candidate.broken <= least + NEAR]
    chosen = min(
        good,
        key=lambda candidate: (len(candidate.of), _bare(candidate), candidate.broken, len(candidate.slots)),
    )
    if len(lines) > len(sample):
        whole = _threads(chosen.slots, lines, [values_of(line) for line in lines], waits)
        chosen = whole or chosen
    if not any(_is_named(slot, at, chosen) for at, slot in enumerate(chosen.slots)):
        return None
    chosen.actors = _named(chosen)
    return chosen


def _bare(threads: LogThreads) -> int:
    """How many slots are numbers that are not known to name threads."""
    return sum(
        meaning(slot[1]) not in _THREAD and all(isinstance(key[at], int) for key in threads.of)
        for at, slot in enumerate(threads.slots)
    )


def _tells(slot: Slot, shown: list[dict[Slot, Hashable]], verbs: set[str], prior: Prior) -> bool:
    """Whether a fifth of a slot's contents are verbs of waits, or known barriers."""
    words = [value for row in shown if isinstance(value := row.get(slot), str)]
    told = sum(word in verbs or "barrier" in prior(word) for word in words)
    return told > 0.2 * len(shown)


def _is_named(slot: Slot, at: int, threads: LogThreads) -> bool:
    """Whether a slot has words, or numbers behind a word: bare numbers may be anything."""
    words = [value for key in threads.of if isinstance(value := key[at], str)]
    return any(len(word) > 2 or not word.isascii() for word in words) or (
        slot[0] == "of" and slot[1][:1].isalpha()
    )


def _slots(lines: Sequence[Said], shown: list[dict[Slot, Hashable]]) -> tuple[list[Slot], tuple[Slot, ...]]:
    """The slots that may name threads, the first of each partition, and those that are known to."""
    values: dict[Slot, Counter[Hashable]] = defaultdict(Counter)
    for row in shown:
        for slot, value in row.items():
            values[slot][value] += 1
    total = len(lines)
    fit: list[Slot] = []
    seen: set[tuple[int, ...]] = set()
    order = sorted(values, key=lambda slot: (slot[0] == "at", slot[0] != "of"))
    for slot in order:
        counts = values[slot]
        if sum(counts.values()) < COVERS * total or not 2 <= len(counts) <= 48:
            continue
        if sum(count for count in counts.values() if count == 1) > 0.2 * total:
            continue
        ids: dict[Hashable, int] = {}
        partition = tuple(ids.setdefault(row.get(slot), len(ids)) for row in shown)
        if partition in seen:
            continue
        seen.add(partition)
        fit.append(slot)
    known = tuple(
        slot
        for slot in fit
        if slot[0] != "at" and meaning(slot[1]) in _THREAD and slot[1] not in NEEDS_SIGN - {"w", "t", "who"}
    )
    return fit[:14], known[:3]


def _threads(
    chosen: tuple[Slot, ...], lines: Sequence[Said], shown: list[dict[Slot, Hashable]], waits: LogWaits
) -> LogThreads | None:
    of: dict[tuple[Hashable, ...], list[Said]] = {}
    thread: dict[int, tuple[Hashable, ...]] = {}
    for line, row in zip(lines, shown, strict=True):
        key = tuple(row.get(slot) for slot in chosen)
        if None not in key:
            of.setdefault(key, []).append(line)
            thread[line.number] = key
    if not 1 <= len(of) <= THREADS or sum(map(len, of.values())) < 0.6 * len(lines):
        return None
    after = {a.number: b.number for group in of.values() for a, b in pairwise(group)}
    pairs = [(a, b) for a, b in waits.pairs if a.number in thread or b.number in thread]
    if not pairs:
        return None
    broken = sum(after.get(a.number) != b.number for a, b in pairs)
    broken += sum(line.number in after for line in waits.open if line.number in thread)
    return LogThreads(chosen, of, broken / (len(pairs) + len(waits.open)))


def _named(threads: LogThreads) -> dict[tuple[Hashable, ...], Actor]:
    """The actor of each thread: words and warps are its role, the other number is its CTA."""
    kinds = [_kind(slot, at, threads) for at, slot in enumerate(threads.slots)]
    if "cta" not in kinds and kinds.count("number") > 1 and "role" not in kinds:
        numbers = [at for at, kind in enumerate(kinds) if kind == "number"]
        few = min(numbers, key=lambda at: len({key[at] for key in threads.of}))
        kinds[few] = "cta"
    elif "cta" not in kinds and "number" in kinds and ("role" in kinds or "warp" in kinds):
        kinds[kinds.index("number")] = "cta"
    alone = -1 if "cta" in kinds else _only_cta(threads)
    words = {} if "role" in kinds else _role_words(threads)
    actors = {}
    for key in threads.of:
        cta, group, names = alone, 0, [words[key]] if key in words else []
        for slot, kind, value in zip(threads.slots, kinds, key, strict=True):
            if kind == "cta":
                cta = value if isinstance(value, int) else -1
            elif kind == "group":
                group = value if isinstance(value, int) else 0
            elif kind == "thread" and isinstance(value, int):
                names.append(f"warp {value // 32}")
            elif kind == "wg":
                names.append(f"WG{value}")
            elif isinstance(value, int):
                label = slot[1] if kind == "number" and not slot[1].isdecimal() else "warp"
                names.append(f"{label} {value}")
            else:
                names.append(str(value))
        actors[key] = Actor(group, " ".join(names), cta)
    return actors


def _role_words(threads: LogThreads) -> dict[tuple[Hashable, ...], str]:
    """The word at a place of the head, the same in most lines of a thread and not in all threads."""
    for at in range(HEAD):
        found: dict[tuple[Hashable, ...], str] = {}
        for key, group in threads.of.items():
            there = [line.tokens[at].text.lower() for line in group if at < len(line.tokens)]
            word, count = Counter(there).most_common(1)[0] if there else ("", 0)
            if count >= 0.6 * len(group) and (word[:1].isalpha() or word[:1] == "_"):
                found[key] = word
        if len(found) == len(threads.of) and len({*found.values()}) > 1:
            return found
    return {}


def _kind(slot: Slot, at: int, threads: LogThreads) -> str:
    known = meaning(slot[1]) if slot[0] != "at" else ""
    if known in ("cta", "block", "rank"):
        return "cta"
    if known in _THREAD:
        return known
    return "number" if all(isinstance(key[at], int) for key in threads.of) else "role"


def _only_cta(threads: LogThreads) -> int:
    """The CTA of a log that names a single CTA: a number at the head that is the same in all lines."""
    lines = [line for group in threads.of.values() for line in group]
    shared = set.intersection(*(set(line.numbers.items()) for line in lines))
    known = [value for label, value in shared if meaning(label) in ("cta", "block", "rank")]
    rest = [value for label, value in shared if not meaning(label) and value == 0]
    return next(iter([*known, *rest]), -1)
