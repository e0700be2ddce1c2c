"""Grades an explainer on the exams: logs of planted hangs in styles that it was not written for.

    python benchmarks/hang_strangers.py --exam second [--each 20] [--seed 0] [--show 20]

An answer is *correct* if its first cause, barrier and role are as planted; *hedged* if a later cause is, and
the answer is not certain; *not read* if the log is refused or no hang is seen; *wrong* otherwise.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tileproof.spec.machine.types import UncheckedObject

from benchmarks.strangers.exams import (
    eighteenth,
    eighth,
    eleventh,
    fifteenth,
    fifth,
    first,
    fourteenth,
    fourth,
    nineteenth,
    ninth,
    second,
    seventeenth,
    seventh,
    sixteenth,
    sixth,
    tenth,
    third,
    thirteenth,
    twelfth,
    twentieth,
    twentyfirst,
)
from benchmarks.strangers.exams.styles import Style
from benchmarks.strangers.kernels import FAMILIES, Case
from benchmarks.strangers.later_kernels import LATER
from benchmarks.strangers.machine import Run
from benchmarks.strangers.score import _hung as hung
from benchmarks.strangers.score import key

EXAMS = {
    "first": first.STYLES,
    "second": second.STYLES,
    "third": third.STYLES,
    "fourth": fourth.STYLES,
    "fifth": fifth.STYLES,
    "sixth": sixth.STYLES,
    "seventh": seventh.STYLES,
    "eighth": eighth.STYLES,
    "ninth": ninth.STYLES,
    "tenth": tenth.STYLES,
    "eleventh": eleventh.STYLES,
    "twelfth": twelfth.STYLES,
    "thirteenth": thirteenth.STYLES,
    "fourteenth": fourteenth.STYLES,
    "fifteenth": fifteenth.STYLES,
    "sixteenth": sixteenth.STYLES,
    "seventeenth": seventeenth.STYLES,
    "eighteenth": eighteenth.STYLES,
    "nineteenth": nineteenth.STYLES,
    "twentieth": twentieth.STYLES,
    "twentyfirst": twentyfirst.STYLES,
}
MISTAKES = [(make, mistake) for make, some in (FAMILIES | LATER).values() for mistake in some]
Answer = UncheckedObject | None


@dataclass(frozen=True)
class ExamLog:
    """A log, its style, and the case and run that it is of."""

    name: str
    text: str
    style: Style
    case: Case
    run: Run


def logs(exam: str, each: int, seed: int = 0) -> Iterator[ExamLog]:
    """`each` logs of every style of an exam: mistakes in turn, a seventh of them runs that end well."""
    at = 0
    for name, style in EXAMS[exam].items():
        rng = random.Random(f"{exam} {name} {seed}")
        made = 0
        while made < each:
            make, mistake = MISTAKES[at % len(MISTAKES)]
            at += 1
            case, run = hung(make, mistake, rng)
            if case.truth is not None and not set(case.needs) <= set(style.shows):
                continue
            made += 1
            if rng.random() < 0.5:
                _jitter(run, rng)
            title = f"{name}-{made} {case.family}:{mistake or 'clean'}"
            yield ExamLog(title, style.text(case, run, rng), style, case, run)


def _jitter(run: Run, rng: random.Random) -> None:
    """The order between roles is only roughly that of time."""
    last: dict[object, float] = {}
    keyed = []
    for at, event in enumerate(run.events):
        turn = last[event.who] = max(last.get(event.who, 0.0), at + rng.uniform(0, 5))
        keyed.append((turn, at, event))
    run.events[:] = [event for _, _, event in sorted(keyed, key=lambda item: item[:2])]


def verdict(log: ExamLog, found: Answer) -> str:
    """correct, hedged, not read or wrong."""
    truth = log.case.truth
    if found is None:
        return "not read"
    if truth is None:
        return {"hang": "wrong", "no hang seen": "correct"}.get(found["outcome"], "not read")
    if found["outcome"] != "hang" or not found["causes"] or found["root"] is None:
        return "not read"
    if _right(log, found, found["causes"][0]):
        return "correct"
    rest = found["causes"][1:] + [each["causes"][0] for each in found["others"] if each["causes"]]
    if found["certainty"] != "certain" and any(_right(log, found, cause, False) for cause in rest):
        return "hedged"
    return "wrong"


def _right(log: ExamLog, found: UncheckedObject, cause: UncheckedObject, barrier: bool = True) -> bool:
    truth = log.case.truth
    assert truth is not None
    if cause["code"] not in truth.codes:
        return False
    if cause["code"] not in ("sync-missing", "alloc-blocked") and barrier:
        reported = key(found["root"]["barrier"]) or found["root"]["barrier"]
        if not any(_named(key(log.style.bar(bar).rpartition(".")[2]), reported) for bar in truth.bars):
            return False
    allowed = {
        (name.lower(), cta)
        for role, cta in truth.who
        for name in (log.style.role(role), *log.style.aka(role))
    }
    named = [found["root"]["actor"], *([cause["culprit"]] if cause["culprit"] else [])]
    return any(
        item["cta"] in (cta, None) and role in item["role"].lower() for item in named for role, cta in allowed
    )


def _named(bar: str, reported: str) -> bool:
    """Whether an answer names a barrier; `acc_full` is a barrier of `acc_pipe`."""
    pipe = bar.removesuffix("pipe")
    return bar in reported or (pipe != bar and reported.startswith(pipe))


@dataclass
class ExamScore:
    """Counts of verdicts, by style and by mistake."""

    count: Counter[str] = field(default_factory=Counter)
    by: Counter[tuple[str, str]] = field(default_factory=Counter)
    certain: int = 0
    lies: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add(self, log: ExamLog, found: Answer) -> str:
        """Count an answer (None: the log was refused)."""
        result = verdict(log, found)
        sure = found is not None and found["certainty"] == "certain"
        self.count[result] += 1
        self.certain += sure and result == "correct"
        style, mistake = log.name.split("-")[0] + "", log.name.split(" ", 1)[1]
        style = log.name.split(" ")[0].rpartition("-")[0]
        self.by[style, result] += 1
        self.by["  " + mistake, result] += 1
        if result != "correct":
            code = [cause["code"] for cause in found["causes"][:2]] if found else []
            self.failed.append(f"{log.name}: {result} {found['outcome'] if found else 'refused'} {code}")
        if sure and result == "wrong":
            self.lies.append(log.name)
        return result

    @property
    def n(self) -> int:
        return sum(self.count.values())

    def table(self) -> str:
        """The figures, then the rows of styles and mistakes."""
        c = self.count
        rows = [
            f"{self.n} logs: {c['correct']} correct ({100 * c['correct'] / max(self.n, 1):.1f}%, "
            f"{self.certain} of them certain), {c['hedged']} hedged, {c['not read']} not read, "
            f"{c['wrong']} wrong, {len(self.lies)} of them certain"
        ]
        for name in sorted({name for name, _ in self.by}):
            counts = {each: self.by[name, each] for each in ("correct", "hedged", "not read", "wrong")}
            rows.append(f"{name:48} {counts['correct']:4} of {sum(counts.values()):4}  {counts}")
        return "\n".join(rows)


def grade(explain: Callable[[str], Answer], exam: str, each: int, seed: int = 0) -> ExamScore:
    """The score of an explainer on an exam."""
    score = ExamScore()
    for log in logs(exam, each, seed):
        score.add(log, explain(log.text))
    return score
