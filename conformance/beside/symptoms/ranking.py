"""Ranks causes of symptoms: by the problem's stage graph, and by the bugs of the corpus."""

from __future__ import annotations

import tomllib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.beside.symptoms.words import Symptoms, final
from tileproof.spec.problems.base import ProblemType, upstream

WRONG, KIND, CONDITION = 2.0, 3.0, 2.0  # for what is wrong only, for another kind, for a condition
STAGE = 5.0  # for a stage that explains which outputs are wrong
UNEXPLAINED, UNSAID = 1.5, 0.5
MIN_SCORE = 1.0
STRANGE = {"hang", "crash", "unstable"}  # no stage by itself makes them
DERIVED = {"single", "all"}  # conditions that follow from the outputs


@dataclass(frozen=True)
class CorpusCause:
    """A cause of the table: see causes.toml."""

    cause: str
    rows: tuple[str, ...]
    needs: tuple[str, ...]
    hints: tuple[str, ...]
    check: str


@dataclass(frozen=True)
class RankedCause:
    """A cause with its score. `stages` is empty where the table names none, `rows` where no bug is named."""

    cause: str
    check: str
    score: float
    stages: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


def _table() -> tuple[CorpusCause, ...]:
    data = tomllib.loads(Path(__file__).with_name("causes.toml").read_text())
    return tuple(
        CorpusCause(row["cause"], tuple(row["rows"]), tuple(row["needs"]), tuple(row["hints"]), row["check"])
        for row in data["causes"]
    )


CAUSES = _table()


def ranked(problem: ProblemType, symptoms: Symptoms) -> list[RankedCause]:
    """Causes that fit, the likeliest first."""
    found = [*_corpus_causes(symptoms), *stage_causes(problem, symptoms)]
    return sorted(found, key=lambda item: -item.score)


def _corpus_causes(symptoms: Symptoms) -> list[RankedCause]:
    made = []
    for row in CAUSES:
        needed = [symptoms.kinds & set(need.split("|")) for need in row.needs]
        if not all(needed):
            continue
        explained = (symptoms.conditions | symptoms.kinds) & set(row.hints)
        score = (
            sum(WRONG if kinds == {"wrong"} else KIND for kinds in needed)
            + CONDITION * len(explained)
            - UNEXPLAINED * len(symptoms.conditions - DERIVED - explained)
            - UNEXPLAINED * len((symptoms.kinds & STRANGE).difference(*needed))
        )
        if score >= MIN_SCORE:
            made.append(RankedCause(row.cause, row.check, score, rows=row.rows))
    return made


def stage_causes(problem: ProblemType, symptoms: Symptoms) -> list[RankedCause]:
    """Stages whose error makes exactly the wrong outputs wrong, nearest to the outputs first."""
    if not symptoms.wrong:
        return []
    made = []
    for group in reversed(_groups(problem, symptoms.outputs)):
        reached = {
            name for name in problem.stages if name in group or set(group) & set(upstream(problem, name))
        }
        if not symptoms.wrong <= reached or symptoms.right & reached:
            continue
        unsaid = [name for name in final(problem) if name in reached and name not in symptoms.outputs]
        strange = len(symptoms.conditions - DERIVED) + len(symptoms.kinds & STRANGE)
        score = STAGE - UNSAID * len(unsaid) - UNEXPLAINED * strange
        read = list(dict.fromkeys(name for stage in group for name in problem.stages[stage].inputs))
        after = [name for name in final(problem) if name in reached]
        words = " or ".join(group)
        sources = ", ".join(name for name in read if name not in group)
        made.append(
            RankedCause(
                f"{words} is wrong, or what it reads ({sources}): it reaches {' and '.join(after)}",
                f"dump {words}; `tileproof tensors` compares it with the reference",
                score,
                group,
            )
        )
    return made


def _groups(problem: ProblemType, known: Container[str]) -> list[tuple[str, ...]]:
    """The stages in graph order, grouped if the outputs cannot distinguish them: one is read by the other
    alone, or the same stage reads both. Outputs, and stages of which something is known, stay alone.
    """
    readers = {
        name: frozenset(other for other, stage in problem.stages.items() if name in stage.inputs)
        for name in problem.stages
    }
    group_of: dict[str, tuple[str, ...]] = {name: (name,) for name in problem.stages}
    alone = {name for name in problem.stages if name in known or not readers[name]}

    def join(first: str, second: str) -> None:
        if not {first, second} & alone:
            both = {*group_of[first], *group_of[second]}
            whole = tuple(name for name in problem.stages if name in both)
            group_of.update(dict.fromkeys(whole, whole))

    def same_inputs(first: str, second: str) -> bool:
        return problem.stages[first].inputs == problem.stages[second].inputs

    for name, by in readers.items():
        for only in by if len(by) == 1 else ():
            if {other for other in problem.stages[only].inputs if other in problem.stages} == {name}:
                join(name, only)
            for other, also in readers.items():
                ready = upstream(problem, name) or upstream(problem, other)
                if also == by and (not ready or same_inputs(name, other)):
                    join(name, other)
    return list(dict.fromkeys(group_of[name] for name in problem.stages))
