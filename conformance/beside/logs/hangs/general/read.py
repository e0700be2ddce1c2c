"""The events of a log by a general reading: fields by vocabulary and structure, in any order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.addresses import resolve_windows
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.items import Num, Row, Word, is_sync, scan
from tileproof.conformance.beside.logs.hangs.general.naming import Slot, barrier_words, role_slots, slots_of
from tileproof.conformance.beside.logs.hangs.general.rows import rows
from tileproof.conformance.beside.logs.hangs.log import OWN, PEER, Actor, Kind, Log, LogEvent
from tileproof.conformance.beside.logs.hangs.records import scope_of
from tileproof.conformance.beside.logs.hangs.settled import (
    drop_partial_stages,
    keep_host,
    look_at_head,
    resolve_meetings,
    resolve_rings,
    resolve_targets,
)
from tileproof.conformance.beside.logs.hangs.words import key_of

MAX_LINES = 6000
BARRIER = 0.9  # from which a word is taken for a barrier
BIG = 32  # a number from here on may count bytes


@dataclass(eq=False)
class Told:
    """A row with what its words mean. `phrase`: the words that are neither a role nor a barrier."""

    row: Row
    role: str = ""
    barrier: Word | None = None
    name: str = ""
    scope: str = "mbarrier"
    actor: Actor = Actor(0, "", -1)
    phrase: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    fields: dict[str, int] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)  # CTAs beside the actor's
    kind: str = ""

    @property
    def place(self) -> tuple[object, ...]:
        """The barrier, stage and CTA that the row concerns."""
        return self.name, self.fields.get("stage"), tuple(self.others)


def read_general(path: str, raw: list[str], members: Sequence[tuple[int, str]]) -> Log | None:
    """The log as the general reading has it; None where it finds no waits."""
    reading = tell(members)
    log = _log(path, raw, reading.told) if reading is not None else None
    if log is not None and reading is not None:
        log.inferred = reading.guessed
    return log


def tell(members: Sequence[tuple[int, str]]) -> _Reading | None:
    """What each row means; None where no reading finds barriers."""
    if not 4 <= len(members) <= MAX_LINES:
        return None
    scanned = scan(rows(members))
    scores = barrier_words(scanned)
    _learn_barriers(scanned, scores)
    _addresses(scanned, scores)
    best: tuple[float, _Reading] | None = None
    device = [row for row in scanned if _barrier_of(row, scores, None) is not None]
    if len(device) < 4:
        return None
    slots: list[Slot | None] = [slot for slot, score in role_slots(device, scores)[:4] if score > -0.3]
    for slot in [*slots, None]:
        reading = _Reading(scanned, scores, slot)
        value = _closure(reading.told) + (0.15 if slot is not None else 0.0)
        if best is None or value > best[0] + 0.02:
            best = value, reading
    return best[1] if best is not None else None


def _barrier_of(row: Row, scores: dict[str, float], role: Word | None) -> Word | None:
    """The word of a row that names its barrier."""
    sync = next((word for word in row.words if is_sync(word.text)), None)
    if sync is not None:
        return sync
    some = [(scores.get(word.text.lower(), 0.0), word) for word in row.words if word is not role]
    value, word = max(some, key=lambda item: item[0], default=(0.0, None))
    return word if value >= BARRIER else None


def _role_phrase(row: Row, role: Word, barrier: Word | None) -> list[str]:
    """The words behind a role's first up to a closing sign: `TMA Producer Warp]`."""
    more: list[str] = []
    for token in row.tokens[role.at + 1 : role.at + 5]:
        if token in "])|:>":
            return more
        told = {*lexicon.verbs(token)}
        if not token.isalpha() or told & {"wait", "done", "arrive"} or (barrier is not None and token == barrier.text):
            break
        more.append(token)
    return []


def _learn_barriers(scanned: Sequence[Row], scores: dict[str, float]) -> None:
    """Words in the place of a barrier: rows that differ from rows with a barrier in that word only."""
    seen: set[tuple[str, ...]] = set()
    rest: list[list[str]] = []
    count: Counter[str] = Counter()
    for row in scanned:
        words = [word.text.lower() for word in row.words]
        count.update({*words})
        barrier = _barrier_of(row, scores, None)
        if barrier is None:
            rest.append(words)
        elif not is_sync(barrier.text):
            at = row.words.index(barrier)
            seen.add((*words[1:at], "*", *words[at + 1 :]) if at else ("*", *words[1:]))
    found: Counter[str] = Counter()
    for words in rest:
        for at in range(1, len(words)):
            if len(words) > 2 and (*words[1:at], "*", *words[at + 1 :]) in seen:
                found[words[at]] += 1
    for word, many in found.items():
        if many >= 0.5 * count[word] and not lexicon.verbs(word) and not lexicon.field(word):
            scores[word] = max(scores[word], BARRIER + 0.1)


def _addresses(scanned: Sequence[Row], scores: dict[str, float]) -> None:
    """Barriers that are printed as addresses get the name that a table of the log gives them, or a word."""
    table: dict[int, tuple[str, int | None]] = {}
    for row in scanned:
        barrier = _barrier_of(row, scores, None)
        stage = next((num.value for num in row.nums if num.of is barrier and barrier is not None), None)
        told = {verb for word in row.words for verb in lexicon.verbs(word.text)}
        for num in row.nums:
            if num.hexed and barrier is not None and not is_sync(barrier.text) and not told & {"wait", "arrive", "done"}:
                table.setdefault(num.value, (barrier.text, stage))
    for row in scanned:
        if _barrier_of(row, scores, None) is not None:
            continue
        told = {verb for word in row.words for verb in lexicon.verbs(word.text)}
        num = next((n for n in row.nums if n.hexed and n.field in ("", "stage?", "barrier", "phase")), None)
        if num is None or not told & {"wait", "arrive", "done", "copy", "expect"}:
            continue
        name, stage = table.get(num.value, (f"@{num.value:#x}", None))
        word = Word(name, "barrier", at=num.at)
        row.words.append(word)
        num.field, num.of = ("stage?", word) if stage is not None else ("address", None)
        num.given = num.field
        num.value = stage if stage is not None else num.value
        scores[name.lower()] = 4.0


class _Reading:
    """The rows by one choice of where the role stands."""

    def __init__(self, scanned: list[Row], scores: dict[str, float], slot: Slot | None) -> None:
        self.scores, self.slot = scores, slot
        self.guessed = False  # the meaning of a number or of a phrase was inferred from its behaviour
        for row in scanned:  # what another choice decided about numbers is undone
            for num in row.nums:
                num.field = num.given
        self.told = [self._tell(row) for row in scanned]
        self.acting = [told for told in self.told if told.barrier is not None]
        self._actors()
        self._numbers()
        self._events()

    def _tell(self, row: Row) -> Told:
        role = slots_of(row).get(self.slot) if self.slot is not None else None
        barrier = _barrier_of(row, self.scores, role)
        if role is not None and "init" in lexicon.verbs(role.text):
            role = None
        name = role.text if role is not None else ""
        tail = next((word for word in row.words if role is not None and word.at == role.at + 1), None)
        if tail is not None and tail.glued and tail is not barrier:  # TMA and what follows it in another script
            name += tail.text
        else:
            tail = None
        if role is not None:
            name = " ".join([name, *_role_phrase(row, role, barrier)])
        told = Told(row, name, barrier)
        if barrier is not None:
            told.name = barrier.text if is_sync(barrier.text) else barrier.text
            told.scope = scope_of(barrier.text)
        words = [word for word in row.words if word is not role and word is not barrier and word is not tail]
        told.phrase = tuple(word.text.lower() for word in words)
        told.verbs = tuple(verb for word in words for verb in lexicon.verbs(word.text))
        told.verbs += tuple(
            verb
            for label in row.labels
            if lexicon.field(label) in ("", "barrier")
            for verb in lexicon.verbs(label)
            if verb in ("wait", "done", "arrive", "copy")
        )
        if barrier is not None and not is_sync(barrier.text):
            parts = lexicon.split(barrier.text)
            edge = [verb for part in (parts[:1] + parts[-1:]) for verb in lexicon.verbs(part) if verb in ("wait",)]
            told.verbs += tuple(edge if len(parts) > 1 else ())
        return told

    # --- actors

    def _actors(self) -> None:
        """The CTA, warp and role of each row; a field that varies within a role's rows names no actor."""
        labelled = sum(bool(told.row.labelled("cta")) for told in self.acting)
        bare = labelled < 0.8 * len(self.acting) and self._bare_cta()
        for told in self.told:
            first: dict[str, int] = {}
            for num in told.row.nums:
                known = num.field
                if known == "cta" and (bare or "cta" in first):
                    told.others.append(num.value)
                    num.field = "other"
                elif known in ("cta", "warp", "wg", "thread", "group"):
                    first.setdefault(known, num.value)
            told.fields |= first
        self._blocks_of_rounds()
        self._context()
        warps: dict[tuple[str, int], set[int]] = defaultdict(set)
        for told in self.acting:
            if told.role and told.kind != "init":
                warps[told.role.lower(), told.fields.get("cta", -1)].add(self._warp(told))
        self.several = {role for (role, _), some in warps.items() if 1 < len(some - {-1}) <= 16}
        for told in self.told:
            told.actor = self._actor(told)

    @staticmethod
    def _warp(told: Told) -> int:
        fields = told.fields
        return fields["warp"] if "warp" in fields else fields["thread"] // 32 if "thread" in fields else -1

    def _context(self) -> None:
        """Headings name the actor of the rows below them, where those name none."""
        named = {"warp", "thread", "wg"}
        bare = [told for told in self.acting if not told.role and not named & told.fields.keys()]
        heads = [told for told in self.told if told.barrier is None and named & told.fields.keys()]
        if len(bare) < 0.6 * len(self.acting) or not heads:
            return
        current: Told | None = None
        for told in self.told:
            if told.barrier is None and named & told.fields.keys():
                current = told
                if not told.role:
                    told.role = next((w.text for w in told.row.words if not lexicon.field(w.text)), "")
            elif current is not None and told.barrier is not None:
                told.role = told.role or current.role
                told.fields = {**{k: v for k, v in current.fields.items() if k in {*named, "cta"}}, **told.fields}

    def _blocks_of_rounds(self) -> None:
        """`block` beside `CTA` is a k-block where it varies within a role's rows."""
        labels = Counter(num.label for told in self.acting for num in told.row.nums if num.field in ("cta", "other"))
        if len(labels) < 2:
            return
        main = next(iter(label for label in labels if label.startswith("cta")), "")
        for label in labels:
            if label == main or not main:
                continue
            beside = [t for t in self.acting if {main, label} <= {n.label for n in t.row.nums}]
            if len(beside) < 0.5 * labels[label]:
                continue
            values: dict[tuple[str, int | None], set[int]] = defaultdict(set)
            for told in beside:
                mine = next(n.value for n in told.row.nums if n.label == main)
                values[told.role, mine].update(n.value for n in told.row.nums if n.label == label)
            if sum(len(some) > 2 for some in values.values()) >= 0.5 * len(values):
                for told in self.told:
                    for num in told.row.nums:
                        if num.label == label:
                            if num.field == "other" and num.value in told.others:
                                told.others.remove(num.value)
                            num.field = "k"

    def _bare_cta(self) -> bool:
        """A number without a label before the barrier, with few values that are constant within an actor."""
        values: dict[int, Counter[int]] = defaultdict(Counter)
        for told in self.acting:
            for place, num in enumerate(self._bare_head(told)):
                values[place][num.value] += 1
        best = None
        for place, counts in values.items():
            if sum(counts.values()) < 0.9 * len(self.acting) or len(counts) > 16 or max(counts) > 255:
                continue
            if self._counts_up(place):
                continue
            if best is None or len(counts) < len(values[best]):
                best = place
        if best is None:
            return False
        for told in self.told:
            some = self._bare_head(told)
            if best < len(some):
                some[best].field = "own"
                told.fields["cta"] = some[best].value
        return True

    def _counts_up(self, place: int) -> bool:
        """Whether a number in front never falls within a role's rows: it counts rounds."""
        by: dict[str, list[int]] = defaultdict(list)
        for told in self.acting:
            some = self._bare_head(told)
            if place < len(some):
                by[told.role].append(some[place].value)
        pairs = [(a, b) for values in by.values() for a, b in pairwise(values)]
        return any(a != b for a, b in pairs) and sum(b >= a for a, b in pairs) >= 0.97 * len(pairs)

    @staticmethod
    def _bare_head(told: Told) -> list[Num]:
        end = told.barrier.at if told.barrier is not None else 1 << 30
        return [num for num in told.row.nums if not num.field and num.at < end] + [
            num for num in told.row.nums
            if num.field in ("stage?", "owner?") and num.of is not told.barrier and num.at < end
        ]

    def _actor(self, told: Told) -> Actor:
        fields = told.fields
        role = told.role.lower()
        if not role and "wg" in fields:
            role = f"WG{fields['wg']}"
        if not role and "warp" in fields:
            role = f"warp {fields['warp']}"
        if not role and "thread" in fields:
            role = f"warp {fields['thread'] // 32}"
        if role in self.several and self._warp(told) >= 0:
            role = f"{role} warp {self._warp(told)}"
        return Actor(fields.get("group", 0), role, fields.get("cta", -1))

    # --- numbers

    def _numbers(self) -> None:
        """The stage, phase, round and bytes of each row; numbers without a label by how they behave."""
        for told in self.told:
            fields = told.fields
            for num in told.row.nums:
                if num.field in ("stage?", "owner?") and num.of is not None and num.of is told.barrier:
                    num.field = num.field[:-1]
                if num.field in ("target", "owner", "other"):
                    if num.field != "other":
                        told.others.append(num.value)
                elif num.field in ("stage", "phase", "k", "bytes", "mask", "count"):
                    fields.setdefault(num.field, num.value)
        self._bare_numbers()
        self._rounds()
        for told in self.acting:
            if _inits(told) and "count" not in told.fields:
                rest = [n.value for n in told.row.nums if n.field in ("", "k", "phase", "stage?", "bytes") and n.label not in ("[]",)]
                if rest:
                    told.fields["count"] = rest[-1]

    def _rounds(self) -> None:
        """Rounds that are printed before the barrier, or in rows of their own."""
        waits = [t for t in self.acting if "wait" in t.verbs and t.scope == "mbarrier"]
        if waits and sum("k" in told.fields for told in waits) < 0.3 * len(waits):
            counted = [(t, n) for t in waits for n in t.row.nums if n.field == "count"]
            if len(counted) >= 0.8 * len(waits) and _rising(counted):
                for told in self.acting:
                    if "count" in told.fields and not _inits(told):
                        told.fields["k"] = told.fields.pop("count")
                return
            heads: dict[int, list[tuple[Told, Num]]] = defaultdict(list)
            for told in self.acting:
                for place, num in enumerate(self._bare_head(told)):
                    heads[place].append((told, num))
            for some in heads.values():
                values = {num.value for _, num in some}
                if len(some) > 0.8 * len(self.acting) and 2 < len(values) < 0.5 * len(some) and _rising(some):
                    self._set(some, "k")
                    return
            last: dict[Actor, int] = {}
            for told in self.told:
                if told.barrier is None and "k" in told.fields:
                    last[told.actor] = told.fields["k"]
                elif told.barrier is not None and told.actor in last:
                    told.fields.setdefault("k", last[told.actor])

    def _bare_numbers(self) -> None:
        """Numbers behind the barrier without a label."""
        lines: dict[str, list[tuple[Told, Num]]] = defaultdict(list)
        for told in self.acting:
            if told.scope != "mbarrier":
                continue
            after = [
                num for num in told.row.nums  # in front of it are the actor's
                if not num.field and told.barrier is not None and num.at > told.barrier.at
            ]
            for place, num in enumerate(after):
                mine = told.barrier is not None and num.label == told.barrier.text.lower()
                lines["" if mine else num.label or f"#{place}"].append((told, num))
        for label, some in lines.items():
            waits = [(t, n) for t, n in some if {"wait", "done"} & {*t.verbs}]
            stageless = all("stage" not in told.fields for told, _ in some)
            shared = stageless and label[:1] in "c#" and len(some) - len(waits) > 0.2 * len(waits)
            self._guess(waits, phased=not shared)
            self._guess([(t, n) for t, n in some if not {"wait", "done"} & {*t.verbs}])

    def _guess(self, some: list[tuple[Told, Num]], phased: bool = True) -> None:
        """Take numbers without a known label for what they behave like; `phased`: they may be phases."""
        waits = [(t, n) for t, n in some if "wait" in t.verbs or "done" in t.verbs]
        big = [n.value for t, n in some if n.value >= BIG]
        values = {n.value for _, n in some}
        for told, num in some:
            if num.value >= BIG and len(big) and {"expect", "copy"} & {*told.verbs} and "bytes" not in told.fields:
                told.fields["bytes"] = num.value
                num.field = "bytes"
        rest = [(t, n) for t, n in some if not n.field]
        if not rest:
            return
        stageless = sum("stage" not in t.fields for t, _ in rest)
        phaseless = sum("phase" not in t.fields for t, _ in waits)
        rising = _rising(rest)
        small = {n.value for _, n in rest}
        if rising and len(small) > 2:
            self._set(rest, "k")
        elif phased and small <= {0, 1} and waits and len(waits) >= 0.8 * len(rest) and phaseless and (_turns(waits) or not stageless):
            self._set(rest, "phase")
        elif stageless == len(rest) and max(small) < 16 and 0 in small:
            self._set(rest, "stage")
        elif small <= {0, 1} and phaseless:
            self._set(waits, "phase")

    def _set(self, some: list[tuple[Told, Num]], name: str) -> None:
        self.guessed |= name in ("phase", "stage")
        for told, num in some:
            num.field = name
            told.fields.setdefault(name, num.value)

    # --- events

    def _events(self) -> None:
        """What each row reports, by its words, and by what follows it in its actor."""
        after = self._after()
        kinds: dict[tuple[object, ...], str] = {}
        phrases: dict[tuple[object, ...], list[Told]] = defaultdict(list)
        for told in self.acting:
            phrases[self._sign(told)].append(told)
        for sign, some in phrases.items():
            kinds[sign] = _kind(some[0])
        follows: dict[tuple[object, ...], Counter[tuple[object, ...]]] = defaultdict(Counter)
        ends: Counter[tuple[object, ...]] = Counter()
        for told in self.acting:
            then = after.get(id(told))
            if then is None:
                ends[self._sign(told)] += 1
            elif then.place == told.place and then.fields.get("phase", told.fields.get("phase")) == told.fields.get(
                "phase", then.fields.get("phase")
            ):
                follows[self._sign(told)][self._sign(then)] += 1
            else:
                follows[self._sign(told)][()] += 1
        for sign, some in phrases.items():
            counts = follows[sign]
            total = sum(counts.values())
            if not total:
                continue
            then, many = counts.most_common(1)[0]
            phased = sum("phase" in told.fields for told in some) > 0.5 * len(some)
            if not then or many < 0.85 * total or total < 2:
                continue
            first, second = kinds[sign], kinds[then]
            before = {**kinds}
            unclear = ("", "begin", "arrive?", "done", "wait")
            if first in ("", "begin") and (second == "done" or (phased and second in ("", "arrive?"))):
                kinds[sign], kinds[then] = "wait", "done"
            elif first == "wait" and second in ("", "arrive?"):
                kinds[then] = "done"
            elif first == second == "wait" and sign != then:
                kinds[then] = "done"
            elif first == second == "done" and phased and sign != then and first in unclear:
                kinds[sign] = "wait"
            self.guessed |= before != kinds
        for sign, some in phrases.items():
            kind = kinds[sign]
            if kind in ("", "arrive?", "begin"):
                phased = sum("phase" in told.fields for told in some) > 0.5 * len(some)
                kind = "done" if phased and kind == "" else "arrive" if kind != "begin" else "wait"
            for told in some:
                told.kind = kind
        self._bare_ends()

    def _bare_ends(self) -> None:
        """Rows that report an end and name no barrier end the wait in which their actor is."""
        waits = sum(told.kind == "wait" for told in self.acting)
        if sum(told.kind == "done" for told in self.acting) > 0.5 * waits:
            return
        inside: dict[Actor, Told] = {}
        for told in self.told:
            if told.kind == "wait":
                inside[told.actor] = told
            elif told.barrier is None and told.verbs[:1] == ("done",) and told.actor in inside:
                wait = inside.pop(told.actor)
                told.barrier, told.name, told.scope = wait.barrier, wait.name, wait.scope
                told.fields = {**wait.fields, **told.fields}
                told.others, told.kind = wait.others, "done"
            elif told.kind:
                inside.pop(told.actor, None)

    @staticmethod
    def _sign(told: Told) -> tuple[object, ...]:
        names = told.phrase
        return (told.scope, "bytes" in told.fields, *names, *sorted({n.label for n in told.row.nums if n.label in "{}"}), _braces(told))

    def _after(self) -> dict[int, Told]:
        last: dict[Actor, Told] = {}
        found: dict[int, Told] = {}
        for told in self.told:
            if not told.row.words and not told.row.nums:
                continue
            if told.actor in last:
                found[id(last[told.actor])] = told
            last[told.actor] = told
        return found


def _braces(told: Told) -> str:
    """Signs at the end of a line that open or close what it begins: `{` and `}`, `...`, `->`, `<-`."""
    text = told.row.text
    braces = "}" if "}" in text and "{" not in text else "{" if "{" in text and "}" not in text else ""
    marks = [sign for sign in ("->", "<-", "...", "=>") if sign in text]
    return "".join([*marks, *re.findall(r"(?<=\w)[+-](?=[\s;|]|$)", text)]) + braces


def _rising(some: list[tuple[Told, Num]]) -> bool:
    """Whether a number never falls within an actor."""
    by: dict[Actor, list[int]] = defaultdict(list)
    for told, num in some:
        by[told.actor].append(num.value)
    pairs = [(a, b) for values in by.values() for a, b in pairwise(values)]
    grows = sum(values[0] < values[-1] for values in by.values() if len(values) > 2)
    steady = bool(pairs) and sum(b >= a for a, b in pairs) >= 0.97 * len(pairs)
    return steady and 2 * grows >= sum(len(values) > 2 for values in by.values())


def _turns(some: list[tuple[Told, Num]]) -> bool:
    """Whether a number changes from round to round of an actor on a barrier."""
    by: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for told, num in some:
        by[told.actor, told.place].append(num.value)
    changes = [a != b for values in by.values() for a, b in pairwise(values)]
    return not changes or 0.2 <= sum(changes) / len(changes)


def _kind(told: Told) -> str:
    """What a row reports by its words: wait, done, arrive, copy, init; empty if they do not show it."""
    has = {*told.verbs}
    signs = _braces(told)
    if told.scope != "mbarrier":
        if "arrive" in has and "wait" not in has:
            return "arrive"
        if signs.startswith("<-") or signs.endswith("}"):
            return "done"
        if has & {"done"} and not has & {"begin"} and "not" not in has:
            return "done"
        return "wait" if has & {"wait", "begin"} or signs else "wait?"
    if _inits(told):
        return "init"
    sized = "bytes" in told.fields
    if "not" in has and has & {"wait"} and not has & {"done", "arrive"}:
        return "done"
    if "arrive" in has and "wait" not in has:
        return "copy" if "copy" in has and sized and "expect" not in has else "arrive"
    if "arrive" in has and sized:
        return "arrive"
    if "expect" in has and "wait" not in has:
        return "arrive"
    if "copy" in has and "wait" not in has and (sized or "done" not in has):
        return "copy"
    if "wait" in has:
        if signs.startswith("<-") or signs.endswith("}"):
            return "done"
        ended = "done" in has and "not" not in has and not ("begin" in has and told.verbs.index("begin") > -1 and "done" not in told.verbs[-1:])
        return "done" if ended else "wait"
    if "done" in has:
        return "wait" if "not" in has else "done"
    if "begin" in has:
        return "begin"
    return ""


def _inits(told: Told) -> bool:
    """Whether a row initialises a barrier, or states its arrivals, outside a role's work."""
    has = {*told.verbs}
    return ("init" in has and "wait" not in has) or (
        "count" in told.fields and not has & {"wait", "done"} and not {"warp", "thread"} & told.fields.keys()
        and not told.row.labelled("k") and (not has & {"arrive", "copy"} or not told.role)
    )


def _closure(told: list[Told]) -> float:
    """The share of waits that end before their actor does anything else, or at which it ends."""
    by: dict[Actor, list[Told]] = defaultdict(list)
    for each in told:
        if each.kind in ("wait", "done", "arrive"):
            by[each.actor].append(each)
    good = total = 0
    for some in by.values():
        for at, each in enumerate(some):
            if each.kind == "wait":
                total += 1
                then = some[at + 1] if at + 1 < len(some) else None
                good += then is None or (then.kind == "done" and then.name == each.name)
            elif each.kind == "done" and (not at or some[at - 1].kind != "wait"):
                total += 1
    return good / total if total else 0.0


def _log(path: str, raw: list[str], told: list[Told]) -> Log | None:
    log = Log(path, raw)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    _meetings(told)
    for each in told:
        if each.kind == "init" and "count" in each.fields:
            key = 0, each.fields.get("cta", -1), key_of(each.name), each.fields.get("stage", -1)
            log.counts[key] = each.fields["count"]
            continue
        if not each.kind or each.kind == "init" or each.barrier is None or not (each.actor.role or each.actor.cta >= 0):
            if each.actor.role and each.actor.role != "" and each.barrier is None:
                log.notes.append((each.row.number, each.actor, each.fields.get("k")))
            continue
        event = _event(each)
        names[event.barrier][each.name] += 1
        if event.kind == "wait" and event.scope == "cta":
            log.events.append(LogEvent(event.line, event.actor, "arrive", event.barrier, k=event.k, scope="cta"))
        log.events.append(event)
    if not any(event.kind == "wait" for event in log.events):
        return None
    acting = {event.actor for event in log.events}
    log.notes = [note for note in log.notes if note[1] in acting]
    _complete(log)
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


def _complete(log: Log) -> None:
    """An end that prints no phase, stage or round is of the wait before it in its actor."""
    last: dict[Actor, LogEvent] = {}
    for event in sorted(log.events, key=lambda each: each.line):
        before = last.get(event.actor)
        if event.kind == "done" and before is not None and before.barrier == event.barrier:
            event.phase = before.phase if event.phase is None else event.phase
            event.stage = before.stage if event.stage is None else event.stage
            event.k = before.k if event.k is None else event.k
            event.owner = before.owner if event.owner == OWN else event.owner
        if event.kind == "wait":
            last[event.actor] = event


def _meetings(told: list[Told]) -> None:
    """Rows about a barrier of threads, in turn the beginning and the end where no word tells which."""
    inside: dict[tuple[Actor, str], bool] = {}
    for each in told:
        if each.kind == "wait?":
            key = each.actor, each.name
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
        event.bytes = event.size > 0
        event.count = fields.get("count", 1) or 1
        event.to = fields.get("mask", 0) or sum(1 << cta for cta in {*told.others} if 0 <= cta < 63) or (PEER if peer else 0)
    elif told.others:
        event.owner = told.others[0] if told.others[0] != told.actor.cta else OWN
    elif peer:
        event.owner = PEER
    return event
