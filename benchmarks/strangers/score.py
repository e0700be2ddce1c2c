"""Logs of the strangers' kernels by seed, and whether an answer about a log is right.

An answer is right when its first cause, its barrier and a role that it names are as planted. A snapshot
shows no history: there an answer is right when it names where each warp stands and is not certain of a cause.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tileproof.spec.machine.types import UncheckedObject

from benchmarks.strangers import later_snapshots, later_wordings, snapshots, third_wordings, wordings
from benchmarks.strangers.kernels import FAMILIES, Case
from benchmarks.strangers.later_kernels import LATER
from benchmarks.strangers.machine import Event, Machine, Run
from benchmarks.strangers.mixed_wordings import mixed
from benchmarks.strangers.wordings import WARPS, Wording, address

SYNCCHECK = ("synccheck", "synccheck-warp")
ADDRESSES = ("calls", "json-address", "ptx", "calls-hex", "hex-cluster", "hex-ptx")  # barriers without names


@dataclass(frozen=True)
class StrangerLog:
    """A log, the case and run that it is of, and how it was printed."""

    name: str
    text: str
    case: Case
    run: Run
    wording: str
    said: Wording | None  # None: a snapshot


SETS = {
    "first": (FAMILIES, wordings.FIRST, snapshots.FIRST),
    "held": (FAMILIES, wordings.HELD, snapshots.HELD),
    "all": (FAMILIES, wordings.FIRST | wordings.HELD, snapshots.FIRST | snapshots.HELD),
    "later": (LATER, later_wordings.SEEN, later_snapshots.SEEN),
    "later-held": (LATER, later_wordings.HELD, later_snapshots.HELD),
    "third": (FAMILIES | LATER, third_wordings.SAID, third_wordings.SHOTS),
}


DRAWN = ("mixed", "mixed-held")  # each log has a wording of its own


def logs(seed: int, rounds: int, which: str) -> Iterator[StrangerLog]:
    """`rounds` logs of each mistake in each wording of a set of `SETS`."""
    rng = random.Random(seed)
    if which in DRAWN:
        yield from _mixed(seed, rounds, rng, which == "mixed-held")
        return
    families, said, shot = SETS[which]
    for turn in range(rounds):
        for family, (make, mistakes) in families.items():
            for mistake in mistakes:
                for name in [*said, *shot]:
                    case, run = _hung(make, mistake, rng)
                    damage = rng.choice(("none", "none", "jitter", "jitter", "prose", "lost"))
                    if name in said:
                        if case.truth and not set(case.needs) <= set(said[name].shows):
                            continue
                        text = _printed(said[name], run, damage, rng)
                    else:
                        if not run.blocked or (name in SYNCCHECK and "sync" not in _kinds(run)):
                            continue
                        text = shot[name](case.kernel, run)
                    title = f"{seed}.{turn} {family}:{mistake or 'clean'} {name} {damage}"
                    yield StrangerLog(title, text, case, run, name, said.get(name))


def _mixed(seed: int, rounds: int, rng: random.Random, held: bool) -> Iterator[StrangerLog]:
    """Logs whose wording is drawn for each, ten of each mistake."""
    for turn in range(10 * rounds):
        for family, (make, mistakes) in (FAMILIES | LATER).items():
            for mistake in mistakes:
                case, run = _hung(make, mistake, rng)
                damage = rng.choice(("none", "none", "jitter", "jitter", "prose", "lost"))
                said = mixed(rng, held)
                text = _printed(said, run, damage, rng)
                yield StrangerLog(
                    f"{seed}.{turn} {family}:{mistake or 'clean'} mixed {damage}",
                    text,
                    case,
                    run,
                    "mixed",
                    said,
                )


def _hung(make: Callable[[str, random.Random], Case], mistake: str, rng: random.Random) -> tuple[Case, Run]:
    """A run that hangs; the mistake may come too late in a short run."""
    for _ in range(50):
        case = make(mistake, random.Random(rng.random()))
        run = Machine(case.kernel, rng.randrange(1 << 30)).go()
        if bool(run.blocked) == (case.truth is not None):
            return case, run
    raise AssertionError(f"{mistake or 'clean'}: hangs or not, against its truth")


def _kinds(run: Run) -> set[str]:
    return {op.kind for op in run.blocked.values()}


def _printed(wording: Wording, run: Run, damage: str, rng: random.Random) -> str:
    events = list(run.events)
    if damage == "jitter":  # the order between roles is only roughly that of time
        turns: dict[object, float] = {}
        keyed = []
        for at, event in enumerate(events):
            turn = max(turns.get(event.who, 0), at + rng.uniform(0, 5))
            turns[event.who] = turn
            keyed.append((turn, at, event))
        events = [event for _, _, event in sorted(keyed, key=lambda item: item[:2])]
    if damage == "lost":
        del events[rng.randrange(len(events))]
    lines = [line for event in events if (line := wording.say(event)) is not None]
    if wording.head:
        lines.insert(0, wording.head)
    if damage == "prose":
        lines = ["building extension ...", "q: torch.Size([128, 576]) bf16", "compile took 31.2 s", *lines]
        lines += [
            "^CTraceback (most recent call last):",
            '  File "run.py", line 41, in <module>',
            "KeyboardInterrupt",
        ]
    return "\n".join([*lines, ""])


def key(name: str) -> str:
    """What two spellings of a barrier have in common."""
    flat = re.sub(r"[^a-z0-9]", "", name.split("[")[0].lower())
    return re.sub(r"mbar(rier)?$", "", flat)


def _roles(name: str) -> set[str]:
    """A role's names as compared: thread 128 is warp 4, and `mma warp 4` is both."""
    name = re.sub(r"thread (\d+)", lambda found: f"warp {int(found[1]) // 32}", name.lower())
    word, warp = re.fullmatch(r"(.*?)[\s_]*(?:warp[\s_]*(\d*))?", name).groups()  # type: ignore[union-attr]
    return {
        item
        for item in (word.removesuffix("_main").removesuffix("_warp"), f"warp {warp}" if warp else "")
        if item
    }


@dataclass
class Tally:
    """Counts of answers, and the names of those that are wrong, or wrong and certain."""

    logs: int = 0
    right: int = 0
    certain: int = 0  # right and certain
    wrong: list[str] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)
    by: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    def count(self, name: str, found: UncheckedObject | None, good: bool, labels: dict[str, str]) -> bool:
        """Counts an answer (None: the log was refused), also under each of its labels."""
        sure = found is not None and found["certainty"] == "certain"
        self.logs += 1
        self.right += good
        self.certain += good and sure
        if not good:
            self.wrong.append(name)
            if sure:
                self.lies.append(name)
        for kind, value in labels.items():
            self.by[kind, value, good] += 1
        return good

    def passes(self) -> bool:
        """At least 90% right, none wrong and certain."""
        return self.right >= 0.9 * self.logs and not self.lies

    def table(self) -> str:
        """Right answers by label."""
        rows = [
            f"{self.logs} logs: {self.right} right ({100 * self.right / max(self.logs, 1):.1f}%), "
            f"{self.certain} of them certain; {len(self.lies)} wrong and certain"
        ]
        for kind, value in sorted({(kind, value) for kind, value, _ in self.by}):
            good, bad = self.by[kind, value, True], self.by[kind, value, False]
            rows.append(f"{kind:8} {value:52} {good:4} of {good + bad:4}")
        return "\n".join(rows)


class Score(Tally):
    """Counts of answers to logs of the sets."""

    def add(self, log: StrangerLog, found: UncheckedObject | None) -> bool:
        """Counts an answer (None: the log was refused)."""
        labels = {
            "wording": log.wording,
            "mistake": f"{log.case.family}: {log.case.mistake or 'clean'}",
            "damage": log.name.split()[-1],
        }
        return self.count(log.name, found, found is not None and is_right(log, found), labels)

    def passes(self) -> bool:
        """As of every tally, and some answer certain."""
        return super().passes() and self.certain > 0.03 * self.logs


def is_right(log: StrangerLog, found: UncheckedObject) -> bool:
    """Whether a diagnosis says what was planted."""
    truth = log.case.truth
    if truth is None:
        return bool(found["outcome"] == "no hang seen")
    if log.said is None and log.wording not in SYNCCHECK:
        return _places_right(log, found)
    if found["outcome"] != "hang" or not found["causes"]:
        return False
    cause, root = found["causes"][0], found["root"]
    codes = set(truth.codes)
    if log.wording in SYNCCHECK:
        return cause["code"] in ("sync-missing",)
    assert log.said is not None
    if log.wording in ADDRESSES and "wrong-stage" in codes:
        codes |= {"wrong-barrier", "skipped-arrive", "lapped"}  # a stage is an address like any other
    if cause["code"] not in codes:
        return False
    bars = {key(bar) for bar in truth.bars}
    waited = [e.op for e in log.run.events if e.op.kind == "wait" and e.op.bar in truth.bars]
    bars |= {f"{address(op) & low:x}" for op in waited for low in (0xFFFFF, 0xFFFF)}
    if any(code in ("sync-missing", "alloc-blocked") for code in (cause["code"],)):
        pass  # these barriers are named by the explainer
    elif not any(item and item in key(root["barrier"]) for item in bars):
        return False
    allowed = {(name, who[1]) for who in truth.who for name in _roles(log.said.role(who))}
    named = [root["actor"], *([cause["culprit"]] if cause["culprit"] else [])]
    return any((name, item["cta"]) in allowed for item in named for name in _roles(item["role"]))


def _places_right(log: StrangerLog, found: UncheckedObject) -> bool:
    """Whether each warp that stands in a barrier is reported there, and no cause is called certain."""
    if found["outcome"] != "hang" or found["certainty"] == "certain":
        return False
    blocked = {(item["actor"]["cta"], re.sub(r"\D", "", item["actor"]["role"])) for item in found["blocked"]}
    for who, op in log.run.blocked.items():
        if op.kind == "stop":
            continue
        warp = WARPS[who[0]]
        if not {(who[1], str(warp)), (who[1], str(32 * warp))} & blocked:
            return False
    waits = [op for op in log.run.blocked.values() if op.kind == "wait"]
    names = " ".join(key(item["barrier"]) for item in found["blocked"])
    return all(key(op.bar) in names or f"{address(op) & 0xFFFF:x}" in names for op in waits)


def waits(run: Run) -> list[Event]:
    """The waits that a run printed."""
    return [event for event in run.events if event.op.kind == "wait"]
