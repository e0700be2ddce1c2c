"""Cases by seed, and the score of a judge over them.

A case is a planted pipeline's emulator run in one wording with one damage. An answer is right when its first
cause is the planted one, about the planted barrier and one of the actors that a careful reader would name; it
is *wrongly certain* when it is not right and says that it is certain.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.kit.hang_logs.damage import DAMAGES, Told
from tests.kit.hang_logs.emulated import Emulated, run
from tests.kit.hang_logs.programs import FAMILIES, Planted, Truth, shape
from tests.kit.hang_logs.wordings import WORDINGS, Wording, _pipeline, lines
from tests.kit.pipelines import Said, Who


@dataclass(frozen=True)
class HangLog:
    """A log and what a right answer says; `truth` None: the run ended well; `open`: only "unclear" is
    right.
    """

    name: str
    text: str
    truth: Truth | None
    labels: dict[str, str]
    wording: str
    damage: str
    defect: str

    @property
    def open(self) -> bool:
        """Whether nothing in the log tells roles apart."""
        return WORDINGS[self.wording].open

    @property
    def words(self) -> str:
        """The text of the --words file that it needs, empty for none."""
        return WORDINGS[self.wording].words


@dataclass(frozen=True)
class Answer:
    """`verdict`: hang, no hang seen or unclear; `actors`: those that the first cause names, lower case; CTA
    -1: unknown. `open`: it says that the cause is open."""

    verdict: str
    certain: bool = False
    open: bool = False
    code: str = ""
    barrier: str = ""
    actors: tuple[Who, ...] = ()
    culprit: Who | None = None


Judge = Callable[[HangLog], Answer]


@dataclass
class Score:
    """Counts over logs; `wrong` and `certain` list the names of those answered wrongly, and so with
    certainty.
    """

    logs: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    certain: list[str] = field(default_factory=list)
    sure: int = 0  # undamaged hangs that are answered rightly and with certainty
    plain: int = 0  # undamaged hangs
    by: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """The share of right answers."""
        return self.right / max(self.logs, 1)

    @property
    def sure_share(self) -> float:
        """The share of undamaged hangs that are answered with certainty, and rightly."""
        return self.sure / max(self.plain, 1)

    def passes(self) -> bool:
        """95% right, none wrong and certain, and a judge that is never certain does not pass either."""
        return self.share >= 0.95 and not self.certain and self.sure_share >= 0.03

    def add(self, log: HangLog, answer: Answer) -> None:
        """Counts one answer."""
        right = is_right(log, answer)
        self.logs += 1
        self.right += right
        if not right:
            self.wrong.append(log.name)
            if answer.certain:
                self.certain.append(log.name)
        if log.damage == "none" and log.truth is not None and not log.open:
            self.plain += 1
            self.sure += right and answer.certain
        for kind, value in (("damage", log.damage), ("wording", log.wording), ("defect", log.defect)):
            self.by[kind, value, right] += 1

    def table(self) -> str:
        """Right answers by damage, wording and defect."""
        keys = sorted({(kind, value) for kind, value, _ in self.by})
        rows = [
            f"{kind:8} {value:28} {self.by[kind, value, True]:5} of "
            f"{self.by[kind, value, True] + self.by[kind, value, False]:5}"
            for kind, value in keys
        ]
        head = f"{self.logs} logs, {100 * self.share:.1f}% right, {len(self.certain)} wrong with certainty"
        return "\n".join([head + f", {100 * self.sure_share:.0f}% of the undamaged certain", *rows])


def key(name: str) -> str:
    """What two spellings of one barrier have in common."""
    flat = re.sub(r"[^a-z0-9]", "", name.split("[")[0].lower())
    return re.sub(r"^m?bar(?=.)|m?bar$|pipeline", "", flat)


def _keys(name: str, wording: str) -> set[str]:
    base, full = _pipeline(name)
    pipeline = {key(base + ("_full" if full else "_empty"))} if wording == "cutlass" else set()
    return {key(name), *pipeline}


def is_right(log: HangLog, answer: Answer) -> bool:
    """Whether an answer says what was planted."""
    if log.open:
        return answer.verdict == "unclear"
    if log.truth is None:
        return answer.verdict == "no hang seen"
    if DAMAGES[log.damage].gone and (answer.open or answer.verdict == "unclear"):
        return True
    codes = log.truth.codes
    if "bytes-missing" in codes and not WORDINGS[log.wording].bytes:
        codes = (
            *codes,
            "too-few-arrivals",
            "wrong-copy",
        )  # nothing tells of bytes: the phase lacks something
    untold = log.damage in ("head-cut", "deep-cut", "lost-lines", "cut-end") or log.wording in (
        "german",
        "chinese",
    )
    if "k-count" in codes and untold:
        codes = (*codes, "producer-stopped")  # the line that says that the loop ended may be gone
    if log.damage in ("head-cut", "deep-cut"):
        codes = (*codes, "before-the-log")  # the right root; what was done lies in the part that is missing
    told = answer.verdict == "hang" and answer.code in codes
    blind = not DAMAGES[log.damage].cta
    if told and log.truth.stopper is not None and answer.culprit is not None:
        role, cta = log.truth.stopper
        if answer.culprit[0].lower() == log.labels[role].lower() and (blind or answer.culprit[1] == cta):
            return True
    barriers = {key for name in log.truth.barriers for key in _keys(name, log.wording)}
    if not told or key(answer.barrier) not in barriers:
        return False
    allowed = {(log.labels[role].lower(), cta) for role, cta in log.truth.actors}
    named = {(role.lower(), cta) for role, cta in answer.actors}
    if blind:
        return {role for role, _ in named} <= {role for role, _ in allowed} and bool(named)
    return bool(named) and named <= allowed


def planted_runs(seed: int, count: int) -> Iterator[tuple[Planted, Emulated, Emulated]]:
    """`count` runs that hang, each with a clean run of the same pipeline; every defect in turn."""
    rng = random.Random(seed)
    every = [(family, defect) for family, (_, defects) in FAMILIES.items() for defect in defects]
    rng.shuffle(every)
    made = 0
    while made < count:
        family, defect = every[made % len(every)]
        program = shape(family, rng)
        make = FAMILIES[family][0]
        planted = make(program, defect, rng.randint(0, min(3, program.blocks - 2)))
        turn = rng.randint(0, 1 << 20)
        hung = run(planted, turn)
        if not hung.blocked:
            continue  # a stage is its own neighbour in a ring of one, and the like
        yield planted, hung, run(make(program, "", 0), turn)
        made += 1


def logs(seed: int, runs: int, each: int = 6) -> Iterator[HangLog]:
    """`each` logs of each of `runs` planted runs, and one of the clean run beside it."""
    rng = random.Random(seed + 1)
    names, damages = list(WORDINGS), list(DAMAGES)
    turn = 0
    for number, (planted, hung, clean) in enumerate(planted_runs(seed, runs)):
        for part in range(each + 1):
            wording, damage = names[turn % len(names)], damages[rng.randrange(len(damages))]
            turn += 1
            yield a_log(planted, hung, clean, wording, damage, rng, f"{seed}.{number}.{part}", part == each)


def a_log(
    planted: Planted, hung: Emulated, clean: Emulated, wording: str, damage: str, rng: random.Random,
    number: str = "", well: bool = False,
) -> HangLog:  # fmt: skip
    """One log; `well`: of the clean run instead, without damage to what it says."""
    roles = planted.shape.roles
    how = WORDINGS[wording]
    if well:
        damage = damage if damage in ("none", "prefixed", "torn") else "none"
    run_ = clean if well else hung
    told = Told(
        lines(run_.said, how, roles),
        lines(clean.said, how, roles),
        lines(_open(run_), how, roles),
        _last(run_, how),
    )
    text = DAMAGES[damage].text(told, rng)
    labels = {role: how.label(role, roles) for role in roles}
    name = f"{number} {planted.family}:{'clean' if well else planted.defect} {wording} {damage}"
    defect = f"{planted.family}:{'clean' if well else planted.defect}"
    return HangLog(name, text, None if well else planted.truth, labels, wording, damage, defect)


def _open(run_: Emulated) -> tuple[Said, ...]:
    """What the actors that are in a printed wait at the end said last."""
    last = {said.who: said for said in run_.said}
    return tuple(last[who] for who, op in run_.blocked if op.kind == "wait")


def _last(run_: Emulated, how: Wording) -> int:
    """The index, among the printed records, of the first that is some actor's last one."""
    printed = [said for said in run_.said if said.kind != "copy" or how.copies]
    last = {said.who: at for at, said in enumerate(printed)}
    return min(last.values())


def score(judge: Judge, seed: int, runs: int, each: int = 6) -> Score:
    """The score of `judge` over the logs of a seed."""
    found = Score()
    for log in logs(seed, runs, each):
        found.add(log, judge(log))
    return found
