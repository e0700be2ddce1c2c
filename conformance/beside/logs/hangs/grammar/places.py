"""Which words or numbers of a line name its barrier, and which numbers are its stage, phase and k-block."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.grammar.actors import LogThreads, meaning
from tileproof.conformance.beside.logs.hangs.grammar.tokens import Said
from tileproof.conformance.beside.logs.hangs.grammar.waits import BIG, LogWaits, Prior, words_of

ALWAYS = 0.95  # of the lines of waits in which a word stands that names no barrier
TURNS = 0.4  # of the waits of a thread on a barrier must change the phase, less those that do not
_OWN = "<barrier>"  # the label of numbers behind a barrier's name


@dataclass
class Barriers:
    """The words that name barriers, or the label of the numbers that do."""

    words: set[str] = field(default_factory=set)
    label: str = ""

    def of(self, line: Said) -> str:
        """The barrier that a line names; empty if none."""
        if self.label:
            value = line.numbers.get(self.label)
            if value is None:
                return ""
            hexed = line.texts.get(self.label, "")[:2].lower() == "0x"
            return f"@{value:#x}" if hexed else f"#{value}"
        return next((word for word in line.words if word.lower() in self.words), "")


@dataclass(frozen=True)
class Numbers:
    """The labels of the numbers of lines; empty where no number is of that kind."""

    stage: str = ""
    phase: str = ""
    k: str = ""
    owner: str = ""


def find_barriers(lines: Sequence[Said], waits: LogWaits, threads: LogThreads, prior: Prior) -> Barriers:
    """What names the barriers: the words that vary from wait to wait, else numbers."""
    told = [line for line in lines if line.number in waits.begins or line.number in waits.ends]
    actors = {str(part) for key in threads.of for part in key if isinstance(part, str)}
    changed = {item for entry in waits.changes for side in entry for item in side if "=" not in item}
    counts = Counter(word for line in told for word in words_of(line))
    varying = {
        word
        for word, count in counts.items()
        if count < ALWAYS * len(told) and word not in actors and word not in changed and not meaning(word)
    }
    known = {word for word in counts if "barrier" in prior(word)}
    if known and sum(bool(known & words_of(line)) for line in told) > ALWAYS * len(told):
        return Barriers(known | _further(lines, prior))
    alone: set[str] = set()
    open_lines = []
    for line in told:
        mine = [word.lower() for word in line.words if word.lower() in varying]
        if len(set(mine)) == 1:
            alone.add(mine[0])
        elif mine:
            open_lines.append(mine)
    for mine in open_lines:
        if not alone & set(mine):
            alone.add(max(mine, key=lambda word: ("barrier" in prior(word), "_" in word, -mine.index(word))))
    named = sum(bool(alone & words_of(line)) for line in told)
    if alone and named > 0.8 * len(told):
        return Barriers(alone)
    label = _numbered(told, threads)
    if label:
        return Barriers(label=label)
    if alone:
        return Barriers(alone)
    rest = [word for word in counts if word not in actors | changed and not meaning(word) and not prior(word)]
    rest.sort(key=lambda word: ("_" in word, -sum(word in words_of(line) for line in lines)))
    return Barriers(set(rest[-1:]))


def _further(lines: Sequence[Said], prior: Prior) -> set[str]:
    return {word for line in lines for word in words_of(line) if "barrier" in prior(word)}


def _numbered(told: Sequence[Said], threads: LogThreads) -> str:
    """The label whose values are waited on by a single role each: addresses and numbers of barriers."""
    actor_of = {line.number: threads.actors[key] for key, group in threads.of.items() for line in group}
    roles: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    counts: Counter[str] = Counter()
    hexed: Counter[str] = Counter()
    slots = {slot[1] for slot in threads.slots if slot[0] == "of"}
    for line in told:
        if line.number not in actor_of:
            continue
        for label, value in line.numbers.items():
            if label not in slots:
                roles[label][value].add(actor_of[line.number].role)
                counts[label] += 1
                hexed[label] += line.texts[label][:2].lower() == "0x" and value >= 256
    best, label = 0.0, ""
    for entry, values in roles.items():
        if counts[entry] < 0.9 * len(told) or len(values) < 2:
            continue
        alone = sum(len(some) == 1 for some in values.values()) / len(values)
        every = len({role for some in values.values() for role in some})
        score = alone + 2.0 * (hexed[entry] > 0.9 * counts[entry]) + (meaning(entry) == "")
        if ((alone > 0.7 and every > 1) or score > 2.5) and score > best:
            best, label = score, entry
    return label


def label_barriers(lines: Sequence[Said], barriers: Barriers) -> None:
    """Give numbers behind a barrier's name the same label in all lines."""
    for line in lines:
        for table in (line.numbers, line.texts):
            for label in [*table]:
                word, slash, nth = label.partition("/")
                if word in barriers.words:
                    table[_OWN + slash + nth] = table.pop(label)  # type: ignore[assignment]


def find_numbers(
    lines: Sequence[Said], waits: LogWaits, threads: LogThreads, barriers: Barriers, arrivals: Sequence[Said]
) -> Numbers:
    """The labels of stage, phase, k-block and owner that explain the waits best."""
    slots = {slot[1] for slot in threads.slots if slot[0] == "of"}
    begins = [line for line in waits.begins.values() if barriers.of(line)]
    labels = Counter(label for line in begins for label in line.numbers if label not in slots)
    usual = [label for label, count in labels.items() if count >= 0.6 * len(begins)]
    usual = [label for label in usual if label != barriers.label]
    k = _rising(usual, lines, threads, arrivals)
    rest = [label for label in usual if label != k]
    order = _by_place(begins, threads, barriers)
    binary = [
        label for label in rest if {line.numbers[label] for line in begins if label in line.numbers} <= {0, 1}
    ]
    stays = Counter(label for line in arrivals for label in line.numbers)
    best, found = -9.0, ("", "")
    for phase in ("", *binary):
        for stage in ("", *rest):
            if stage and (stage == phase or max(line.numbers.get(stage, 0) for line in begins) > 31):
                continue
            turns = _alternates(order, phase, stage) if phase else 0.2
            if phase and turns < TURNS:
                continue
            score = turns
            score += 0.4 * (meaning(phase) == "phase") - 0.4 * (meaning(stage) == "phase")
            score += 0.3 * (meaning(stage) == "stage" or stage == _OWN)
            if arrivals and stage:
                score += 0.5 * (stays[stage] / len(arrivals)) - 0.2
            if arrivals and phase:
                score -= 0.5 * (stays[phase] / len(arrivals))
            if score > best:
                best, found = score, (stage, phase)
    owner = _owner(begins, labels, threads, {k, *found})
    return Numbers(found[0], found[1], k, owner)


def _rising(usual: list[str], lines: Sequence[Said], threads: LogThreads, arrivals: Sequence[Said]) -> str:
    """The label whose numbers grow within each thread, slowly: the k-block."""
    best, found = 0.0, ""
    for label in usual:
        steps: list[int] = []
        for group in threads.of.values():
            values = [line.numbers[label] for line in group if label in line.numbers]
            steps += [b - a for a, b in pairwise(values)]
        if not steps or not any(steps):
            continue
        rises = sum(step >= 0 for step in steps) / len(steps)
        small = sum(0 <= step <= 1 for step in steps) / len(steps)
        known = meaning(label) in ("k", "iteration", "tile")
        on = sum(label in line.numbers for line in arrivals) / max(len(arrivals), 1)
        score = rises + 0.3 * small + 0.5 * known + 0.2 * on - 0.6 * (label.startswith(_OWN))
        if (rises > 0.9 or (known and rises > 0.7)) and score > best:
            best, found = score, label
    return found


def _by_place(
    begins: Sequence[Said], threads: LogThreads, barriers: Barriers
) -> dict[tuple[Hashable, str], list[Said]]:
    actor_of = {line.number: key for key, group in threads.of.items() for line in group}
    found: dict[tuple[Hashable, str], list[Said]] = defaultdict(list)
    for line in sorted(begins, key=lambda line: line.number):
        if line.number in actor_of:
            found[actor_of[line.number], barriers.of(line)].append(line)
    return found


def _alternates(order: dict[tuple[Hashable, str], list[Said]], phase: str, stage: str) -> float:
    """How often the phase changes from a wait of a thread on a barrier and stage to the next."""
    changes = same = 0
    for group in order.values():
        last: dict[int | None, int] = {}
        for line in group:
            value, at = line.numbers.get(phase), line.numbers.get(stage)
            if value is None:
                continue
            if at in last:
                changes += last[at] != value
                same += last[at] == value
            last[at] = value
    total = changes + same
    return (changes - same) / total if total > 1 else TURNS


def _owner(begins: Sequence[Said], labels: Counter[str], threads: LogThreads, taken: set[str]) -> str:
    """The label of numbers that only some waits have, and that name a CTA other than the thread's."""
    ctas = {actor.cta for actor in threads.actors.values()}
    cta_of = {line.number: threads.actors[key].cta for key, group in threads.of.items() for line in group}
    for label, count in labels.items():
        values = [
            (line.numbers[label], cta_of.get(line.number, -1)) for line in begins if label in line.numbers
        ]
        if label in taken or any(value >= BIG or value not in ctas for value, _ in values):
            continue
        known = meaning(label) == "target" or label.partition("/")[0] in ("cta", "blk", "block")
        if all(value != cta for value, cta in values) and (count < 0.7 * len(begins) or known):
            return label
        if known and label.partition("/")[0] not in {slot[1] for slot in threads.slots}:
            return label
    return ""
