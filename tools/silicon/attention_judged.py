"""Problems of a PyTorch attention kernel, judged by the bounds of its plan, and their failures.

Every problem runs; failing ones are put together by stage and by what marks them, and the smallest of each
kind is made smaller and explained. Needs no engine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tileproof.conformance.cases.generators import smaller
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.not_judged import not_judged
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.conformance.compare.compare import StageScore
from tileproof.conformance.drivers.spoiled import Spoiled
from tileproof.kernels.host.torch_cuda import card, worker
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import lines
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.problems.cases import OwnCase
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

SHRINK_SECONDS = 20.0  # of a kind of failure
WHEN = Schedule()


@dataclass
class Tally:
    """What was compared of each stage, what failed (by kind) and what the operator raised (by its words)."""

    done: int = 0
    seconds: float = 0.0
    starts: int = 0  # of processes that call the operators
    scores: dict[str, StageScore] = field(default_factory=dict)
    failing: dict[str, list[OwnCase]] = field(default_factory=dict)
    raised: dict[str, list[OwnCase]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Counts `other` in."""
        self.done += other.done
        self.seconds += other.seconds
        self.starts += other.starts
        for stage, score in other.scores.items():
            self.scores.setdefault(stage, StageScore()).add(score)
        for mine, theirs in ((self.failing, other.failing), (self.raised, other.raised)):
            for what, cases in theirs.items():
                mine.setdefault(what, []).extend(cases)

    def as_dict(self) -> UncheckedObject:
        """For an evidence file, without what failed."""
        return {
            "examples": self.done,
            "process seconds": round(self.seconds, 1),
            "starts of its worker": self.starts,
            "stages": {
                stage: {"elements": s.elements, "exact": s.exact, "worst": s.worst, "unbounded": s.unbounded}
                for stage, s in self.scores.items()
            },
            "raised": {
                said: {"examples": len(cases), "one": cases[0].as_json()}
                for said, cases in self.raised.items()
            },
        }


def opened(name: str) -> KernelUnderTest:
    """The kernel on its own driver; TileproofError when it takes nothing here."""
    target = kernel(name)
    return on_own_driver(target, target.variants[0])


def surveyed(name: str, examples: int, seed: int) -> UncheckedObject:
    """What a kernel refuses, what of it cannot be judged, whether wrong outputs are found, its problems."""
    try:
        under_test = opened(name)
        plan = under_test.plan()
    except TileproofError as error:
        return {"kernel": name, "refused": str(error)}
    runs = [*engine.edge_runs(plan, "early", seed), *engine.drawn(plan, "early", seed, examples)]
    return {
        "kernel": name,
        "refuses": dict(plan.refuses),
        "controls": _controls(name),
        "not_judged": list(not_judged(plan, under_test.driver, False)),
        "cases": [case for case, _ in runs],
        "found": dict(card.FOUND),
    }


def tallied(name: str, cases: Iterable[OwnCase], until: float) -> Tally:
    """The problems `cases` of a kernel, as many as begin before the time `until` (time.time())."""
    under_test, tally, began = opened(name), Tally(), time.time()
    calls = worker.of_process(os.getpid())
    starts = calls.starts
    for case in cases:
        if time.time() > until:
            break
        verdict = run_case(under_test, case, WHEN, explain=False)
        tally.done += 1
        for stage, score in verdict.scores.items():
            tally.scores.setdefault(stage, StageScore()).add(score)
        if verdict.findings:
            first = verdict.findings[0]
            if first.code == "host-fault":
                tally.raised.setdefault(first.message[:160], []).append(case)
                continue
            what = f"{first.kind} {first.problem.stage or first.code}, {condition(case)}"
            tally.failing.setdefault(what, []).append(case)
    tally.seconds, tally.starts = time.time() - began, calls.starts - starts
    return tally


def condition(case: DenseCase) -> str:
    """What marks a case among those that fail, in words."""
    p = case.problem
    limited = p.mask.left is not None or p.mask.right is not None
    marks = []
    if any(sequence.m == 0 or sequence.n == 0 for sequence in p.sequences):
        marks.append("a sequence without queries or keys")
    elif p.packed is not None:
        marks.append("packed sequences")
    if (
        limited
        and p.mask.align == "bottom right"
        and any(sequence.m > sequence.n for sequence in p.sequences)
    ):
        marks.append("more queries than keys, limits from the bottom right")
    elif limited and any(sequence.m < sequence.n for sequence in p.sequences):
        marks.append("more keys than queries, with limits")
    return ", ".join([*marks, *(["low logits"] if case.values == "low" else [])]) or "other"


def _controls(name: str) -> dict[str, bool]:
    """Whether each output is found when it is a twentieth too large."""
    target = kernel(name)
    under_test = on_own_driver(target, target.variants[0])
    form = next((form for form in ("f16", "f32") if name.endswith(form)), "bf16")
    case, found = DenseCase(form, m=40, n=50), {}
    for stage in under_test.plan().stages:
        spoiled = replace(under_test, driver=Spoiled(stage))
        findings = run_case(spoiled, case, WHEN, explain=False).findings
        found[stage] = any(finding.problem.stage == stage for finding in findings)
    return found


def smallest(name: str, cases: list[OwnCase], seconds: float = SHRINK_SECONDS) -> UncheckedObject:
    """How many fail so, the smallest of them made smaller, and what is wrong with it."""
    under_test, ends = opened(name), time.monotonic() + seconds
    case = min(cases, key=lambda case: case.problem.m * case.problem.n * case.problem.h * case.problem.d_qk)
    kind = run_case(under_test, case, WHEN, explain=False).findings
    looking = bool(kind)
    while looking and time.monotonic() < ends:
        looking = False
        for other in smaller(under_test.plan(), case):
            found = run_case(under_test, other, WHEN, explain=False).findings
            if found and found[0].problem.stage == kind[0].problem.stage:
                case, looking = other, True
                break
            if time.monotonic() > ends:
                break
    found = run_case(under_test, case, WHEN).findings
    return {
        "examples": len(cases),
        "cases": [case.as_json() for case in cases[:8]],
        "smallest": case.as_json(),
        "findings": [lines(finding) for finding in found[:4]],
    }


def judged(name: str, examples: int, seed: int, seconds: float) -> UncheckedObject:
    """One kernel in this process, for at most `seconds` and the shrinking of what fails."""
    survey = surveyed(name, examples, seed)
    survey.pop("found", None)
    cases = survey.pop("cases", None)
    if cases is None:
        return survey
    tally = tallied(name, cases, time.time() + seconds)
    failing = {what: smallest(name, found) for what, found in tally.failing.items()}
    return survey | tally.as_dict() | {"complete": tally.done == len(cases), "failing": failing}
