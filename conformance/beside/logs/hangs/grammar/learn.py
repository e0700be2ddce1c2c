"""The events of a log by its inferred grammar: threads, waits, barriers and numbers, from their order."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.conformance.beside.logs.hangs.addresses import resolve_windows
from tileproof.conformance.beside.logs.hangs.forms import operations
from tileproof.conformance.beside.logs.hangs.grammar.actors import LogThreads, find_threads, meaning
from tileproof.conformance.beside.logs.hangs.grammar.places import (
    Barriers,
    Numbers,
    find_barriers,
    find_numbers,
    label_barriers,
)
from tileproof.conformance.beside.logs.hangs.grammar.tokens import Said, said
from tileproof.conformance.beside.logs.hangs.grammar.waits import (
    BIG,
    LogWaits,
    Prior,
    also,
    find_waits,
    words_of,
)
from tileproof.conformance.beside.logs.hangs.languages import translate
from tileproof.conformance.beside.logs.hangs.log import GRID, OWN, PEER, Actor, Kind, Log, LogEvent
from tileproof.conformance.beside.logs.hangs.records import scope_of
from tileproof.conformance.beside.logs.hangs.settled import (
    complete_ends,
    drop_partial_stages,
    keep_host,
    look_at_head,
    resolve_meetings,
    resolve_rings,
    resolve_targets,
)
from tileproof.conformance.beside.logs.hangs.words import VERBS, Vocabulary, key_of

MAX_LINES = 4000  # of a log whose grammar is learned


@dataclass
class _Reading:
    """A choice of the meanings of a log's words and numbers."""

    lines: list[Said]
    waits: LogWaits
    threads: LogThreads
    barriers: Barriers
    numbers: Numbers
    arrivals: list[Said]


def learn(path: str, raw: list[str], members: Sequence[tuple[int, str]], known: Vocabulary) -> Log | None:
    """The log as its own grammar reads it; None where it shows none."""
    if not 8 <= len(members) <= MAX_LINES:
        return None
    prior = _prior(known)
    lines = said([(number, operations(text)) for number, text in members])
    best: tuple[float, LogWaits, LogThreads] | None = None
    for waits in find_waits(lines, prior):
        threads = find_threads(lines, waits, prior)
        if threads is not None and (best is None or waits.score - 6 * threads.broken > best[0]):
            best = waits.score - 6 * threads.broken, waits, threads
    if best is None:
        return None
    _, waits, threads = best
    after = {a.number: b for group in threads.of.values() for a, b in itertools.pairwise(group)}
    also(waits, lambda line: after.get(line.number))
    barriers = find_barriers(lines, waits, threads, prior)
    label_barriers(lines, barriers)
    arrivals = [
        line
        for group in threads.of.values()
        for line in group
        if line.number not in waits.begins and line.number not in waits.ends and barriers.of(line)
    ]
    numbers = find_numbers(lines, waits, threads, barriers, arrivals)
    return _log(path, raw, _Reading(lines, waits, threads, barriers, numbers, arrivals), prior)


def _prior(known: Vocabulary) -> Prior:
    seen: dict[str, set[str]] = {}

    def prior(word: str) -> set[str]:
        if word not in seen:
            found = {verb for part in translate(word).split() for verb in known.word(part).verbs}
            found |= {VERBS[part] for part in word.split("_") if part in VERBS}
            if known.word(word).kind in ("barrier", "sync"):
                found = {"barrier"}
            seen[word] = found
        return seen[word]

    return prior


def _log(path: str, raw: list[str], reading: _Reading, prior: Prior) -> Log:
    log = Log(path, raw, inferred=True)
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    kinds = _kinds(reading, prior)
    extra = _extra_words(reading)
    for key, group in reading.threads.of.items():
        actor = reading.threads.actors[key]
        for line in group:
            name = reading.barriers.of(line)
            kind = kinds.get(line.number)
            if not name or kind is None:
                log.notes.append((line.number, actor, line.numbers.get(reading.numbers.k)))
                continue
            event = _event(line, actor, kind, name, reading, extra)
            spellings[event.barrier][name] += 1
            log.events.append(event)
            if kind == "wait" and event.scope == "cta":
                log.events.insert(-1, _entered(event))
    complete_ends(log, says_owner=False)
    log.events.sort(key=lambda event: event.line)
    resolve_meetings(log)
    resolve_windows(log)
    resolve_targets(log)
    resolve_rings(log)
    log.events.sort(key=lambda event: event.line)
    log.names |= {
        barrier: min(some, key=lambda entry: (-some[entry], entry)) for barrier, some in spellings.items()
    }
    drop_partial_stages(log)
    look_at_head(log)
    told = {event.line for event in log.events} | {line for line, _, _ in log.notes}
    log.unread = [line.number for line in reading.lines if line.number not in told]
    log.host = set(log.unread)
    keep_host(log)
    log.notes.sort(key=lambda note: note[0])
    return log


def _entered(event: LogEvent) -> LogEvent:
    return LogEvent(event.line, event.actor, "arrive", event.barrier, k=event.k, scope="cta")


def _kinds(reading: _Reading, prior: Prior) -> dict[int, Kind]:
    """The event of each line: waits, and arrivals and copies among the other lines that name a barrier."""
    found: dict[int, Kind] = dict.fromkeys(reading.waits.begins, "wait")
    found |= dict.fromkeys(reading.waits.ends, "done")
    arrivals = {line.number for line in reading.arrivals}
    second: Counter[frozenset[str]] = Counter()
    every: Counter[frozenset[str]] = Counter()
    shape_of: dict[int, frozenset[str]] = {}
    names = reading.barriers.words
    for group in reading.threads.of.values():
        before: Said | None = None
        for line in group:
            if line.number not in arrivals:
                before = None
                continue
            shape = words_of(line) - names
            shape_of[line.number] = shape
            every[shape] += 1
            if (
                before is not None
                and shape != words_of(before) - names
                and _same_place(before, line, reading)
            ):
                second[shape] += 1
            before = line
    for number, shape in shape_of.items():
        told = set().union(*(prior(word) for word in shape))
        if "copy" in told and "arrive" not in told:
            found[number] = "copy"
        elif "arrive" in told or second[shape] < 0.7 * every[shape]:
            found[number] = "arrive"
        else:
            found[number] = "copy"
    return found


def _same_place(entry: Said, other: Said, reading: _Reading) -> bool:
    """Whether two lines of a thread name the same barrier, stage and k-block, with bytes."""
    numbers = reading.numbers
    same = all(
        entry.numbers.get(label) == other.numbers.get(label) for label in (numbers.stage, numbers.k) if label
    )
    return same and reading.barriers.of(entry) == reading.barriers.of(other) and _bytes(other, reading) > 0


def _bytes(line: Said, reading: _Reading) -> int:
    used = {reading.numbers.stage, reading.numbers.k, reading.barriers.label}
    return max(
        (value for label, value in line.numbers.items() if value >= BIG and label not in used), default=0
    )


def _event(line: Said, actor: Actor, kind: Kind, name: str, reading: _Reading, extra: set[str]) -> LogEvent:
    numbers = reading.numbers
    scope = scope_of(name)
    event = LogEvent(
        line.number,
        actor,
        kind,
        name if name[0] in "@#" else key_of(name),
        line.numbers.get(numbers.stage),
        line.numbers.get(numbers.k),
        line.numbers.get(numbers.phase) if kind in ("wait", "done") else None,
        scope=scope,
    )
    if scope != "mbarrier":
        event.stage = event.phase = None
        return event
    if kind in ("arrive", "copy"):
        event.size = _bytes(line, reading)
        event.bytes = event.size > 0
        event.to = _reach(line, actor, reading)
    elif numbers.owner in line.numbers:
        owner = line.numbers[numbers.owner]
        event.owner = owner if owner != actor.cta else OWN
    elif extra & words_of(line):
        event.owner = PEER
    return event


def _extra_words(reading: _Reading) -> set[str]:
    """Words that some waits have beside their barrier, and other waits on the barrier lack: of a peer."""
    ctas = {actor.cta for actor in reading.threads.actors.values()}
    if reading.numbers.owner or len(ctas) != 2:
        return set()
    by: dict[str, list[frozenset[str]]] = defaultdict(list)
    for line in reading.waits.begins.values():
        by[reading.barriers.of(line)].append(words_of(line))
    found: set[str] = set()
    for some in by.values():
        shared = frozenset.intersection(*some)
        found |= {word for words in some for word in words - shared}
    actors = {str(part) for key in reading.threads.of for part in key}
    return {word for word in found if word not in actors and word in ("peer", "remote", "other")}


def _reach(line: Said, actor: Actor, reading: _Reading) -> int:
    """The CTAs that an arrival reaches, as a mask; 0 if unknown."""
    numbers = reading.numbers
    slots = {slot[1] for slot in reading.threads.slots if slot[0] == "of"}
    used = {numbers.stage, numbers.k, numbers.phase, reading.barriers.label, *slots}
    ctas = {entry.cta for entry in reading.threads.actors.values()}
    rest = {
        label: value
        for label, value in line.numbers.items()
        if label not in used and 0 <= value < BIG and not label.startswith("<barrier>")
    }
    masks = [value for label, value in rest.items() if meaning(label) == "mask" or _based(line, label)]
    if masks:
        return masks[0]
    known = {
        label.partition("/")[0]
        for label in rest
        if meaning(label.partition("/")[0]) in ("target", "cta", "block", "rank")
    }
    told = [value for label, value in rest.items() if label.partition("/")[0] in known and value in ctas]
    if told and len(ctas) > 1:
        return sum(1 << value for value in {*told} if 0 <= value < GRID)
    return 0


def _based(line: Said, label: str) -> bool:
    return line.texts[label][:2].lower() in ("0x", "0b")
