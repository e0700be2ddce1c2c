"""The events of a log by a general reading: fields by vocabulary and structure, in any order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.addresses import resolve_windows
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.barriers import addresses, barrier_of, learn_barriers
from tileproof.conformance.beside.logs.hangs.general.items import Row, scan
from tileproof.conformance.beside.logs.hangs.general.naming import BESIDE, Slot, barrier_words, role_slots
from tileproof.conformance.beside.logs.hangs.general.reading import LogReading, closure
from tileproof.conformance.beside.logs.hangs.general.rows import rows
from tileproof.conformance.beside.logs.hangs.general.told import Told
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
from tileproof.conformance.beside.logs.hangs.words import key_of

MAX_LINES = 6000
APART = 0.97  # of the waits: where so many are explained, no names need more words
GAIN = 0.05  # by which a reading with longer names must explain more
CLOSED = 0.75  # of the waits: where words explain so many, the order of rows is not asked


def read_general(path: str, raw: list[str], members: Sequence[tuple[int, str]]) -> Log | None:
    """The log as the general reading has it; None where it finds no waits."""
    reading = tell(members)
    log = _log(path, raw, reading.told) if reading is not None else None
    if log is not None and reading is not None:
        log.inferred, log.ordered = reading.guessed, reading.turned
    return log


def tell(members: Sequence[tuple[int, str]]) -> LogReading | None:
    """What each row means; None where no reading finds barriers."""
    if not 4 <= len(members) <= MAX_LINES:
        return None
    scanned = scan(rows(members))
    scores = barrier_words(scanned)
    learn_barriers(scanned, scores)
    addresses(scanned, scores)
    best: tuple[float, LogReading] | None = None
    device = [row for row in scanned if barrier_of(row, scores, None) is not None]
    if len(device) < 4:
        return None
    slots: list[Slot | None] = [slot for slot, score in role_slots(device, scores)[:4] if score > -0.3]
    slots.sort(key=lambda slot: slot == BESIDE)  # where no other explains the rows
    for slot in [*slots, None]:
        for turns in (False, True):
            reading = LogReading(scanned, scores, slot, turns)
            value = closure(reading.told) + (0.15 if slot is not None else 0.0)
            if not any(told.kind == "wait" and told.scope == "mbarrier" for told in reading.acting):
                value -= 0.5
            if (not turns or reading.turned) and (
                best is None or value > best[0] + (0.15 if slot == BESIDE else 0.1 if turns else 0.02)
            ):
                best = value, reading
            if value > CLOSED + (0.15 if slot is not None else 0.0):
                break
    return _apart(best[1], scanned, scores) if best is not None else None


def _apart(reading: LogReading, scanned: list[Row], scores: dict[str, float]) -> LogReading:
    """The reading, or that with the words behind a role in its name, where these separate its histories."""
    value = closure(reading.told)
    if reading.slot is None or value >= APART:
        return reading
    wide = LogReading(scanned, scores, reading.slot, reading.turned, wide=True)
    if closure(wide.told) > value + GAIN and _act(wide):
        return wide
    # The rows have the fields of the reading that was made last.
    return LogReading(scanned, scores, reading.slot, reading.turned)


def _act(reading: LogReading) -> bool:
    """Whether each actor does several things: a name that took up what happens does not."""
    kinds: dict[Actor, Counter[str]] = defaultdict(Counter)
    for told in reading.acting:
        kinds[told.actor][told.kind] += 1
    return all(len(some) > 1 for some in kinds.values() if some.total() > 2)


def _log(path: str, raw: list[str], told: list[Told]) -> Log | None:
    log = Log(path, raw)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    _meetings(told)
    for each in told:
        if each.kind == "init" and "count" in each.fields:
            key = 0, each.fields.get("cta", -1), key_of(each.name), each.fields.get("stage", -1)
            log.counts[key] = each.fields["count"]
            continue
        if (
            not each.kind
            or each.kind == "init"
            or each.barrier is None
            or not (each.actor.role or each.actor.cta >= 0)
        ):
            if each.actor.role and each.actor.role != "" and each.barrier is None:
                log.notes.append((each.row.number, each.actor, each.fields.get("k")))
            elif each.barrier is not None and {"wait", "arrive"} & {*each.verbs} and each.kind != "init":
                log.half_read += 1
            continue
        event = _event(each)
        names[event.barrier][each.name] += 1
        if event.kind == "wait" and event.scope == "cta":
            log.events.append(
                LogEvent(event.line, event.actor, "arrive", event.barrier, k=event.k, scope="cta")
            )
        log.events.append(event)
    if not any(event.kind == "wait" for event in log.events):
        return None
    acting = {event.actor for event in log.events}
    log.notes = [note for note in log.notes if note[1] in acting]
    complete_ends(log, says_owner=True)
    resolve_meetings(log)
    resolve_windows(log)
    resolve_targets(log)
    resolve_rings(log)
    log.events.sort(key=lambda event: event.line)
    log.names |= {key: min(some, key=lambda name: (-some[name], name)) for key, some in names.items()}
    drop_partial_stages(log)
    look_at_head(log)
    seen = {event.line for event in log.events} | {line for line, _, _ in log.notes}
    log.unread = [each.row.number for each in told if each.row.number not in seen]
    log.host = set(log.unread)
    keep_host(log)
    return log


def _meetings(told: list[Told]) -> None:
    """Rows about a barrier of threads, in turn the beginning and the end where no word tells which."""
    inside: dict[tuple[Actor, str], bool] = {}
    for each in told:
        key = each.actor, each.name
        if each.kind == "done":
            inside.pop(key, None)
        elif each.kind == "wait?":
            each.kind = "done" if inside.get(key) else "wait"
            inside[key] = not inside.get(key, False)


def _event(told: Told) -> LogEvent:
    fields = told.fields
    kind: Kind = told.kind if told.kind in ("wait", "done", "arrive", "copy") else "arrive"  # type: ignore[assignment]
    scope = scope_of(told.name)
    key = told.name if told.name.startswith("@") else key_of(told.name)
    if scope != "mbarrier":
        return LogEvent(told.row.number, told.actor, kind, key, k=fields.get("k"), scope=scope)
    event = LogEvent(
        told.row.number, told.actor, kind, key, fields.get("stage"), fields.get("k"),
        fields.get("phase") if kind in ("wait", "done") else None,
    )  # fmt: skip
    peer = any(word in ("peer", "remote") for word in told.phrase)
    if kind in ("arrive", "copy"):
        event.size = fields.get("bytes", 0)
        said = "expect" in told.verbs or any(lexicon.field(label) == "bytes" for label in told.row.labels)
        event.bytes = event.size > 0 or said
        event.count = fields.get("count", 1) or 1
        event.to = (
            fields.get("mask", 0)
            or sum(1 << cta for cta in {*told.others} if 0 <= cta < GRID)
            or (PEER if peer else 0)
        )
    elif told.others:
        event.owner = told.others[0] if told.others[0] != told.actor.cta else OWN
    elif peer:
        event.owner = PEER
    return event
