"""Descriptions of symptoms in words with their true causes, and how `tileproof diagnose` does on them.

A true cause is the stage that is wrong, or a row of the corpus that describes the bug. `planted` describes
planted defects and rows of the corpus; its author wrote it before reading the reader, and mended the reader
afterwards. `issues_1` to `issues_3` are public issues and pull requests in other words, gathered in turn and
graded before the reader was mended by them (34 of 52, 34 of 43, 16 of 20). The last was not used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tileproof.conformance.beside.symptoms.ranking import RankedCause, ranked
from tileproof.conformance.beside.symptoms.words import read_symptoms
from tileproof.spec.problems import problem_type

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "beside" / "symptom_exams"
EXAMS = ("planted", "issues_1", "issues_2", "issues_3")
PROBLEMS = {"sparse": "sparse_mla_bwd", "dense": "dense_attention_bwd"}
FIRST = 3


@dataclass(frozen=True)
class Description:
    problem: str
    causes: frozenset[str]
    source: str
    text: str


@dataclass(frozen=True)
class Grade:
    """Shares of descriptions whose cause is among the first three, and the causes that these name."""

    descriptions: int
    found: int
    names: float  # stages and rows that the first three name, on average
    outputs_only: int  # found where the reader sees which outputs are wrong, and nothing else
    same_three: int  # found by the three causes that are true most often here, for every description


def descriptions(exam: str) -> list[Description]:
    lines = [line for line in (FOLDER / f"{exam}.txt").read_text().splitlines() if line[0] != "#"]
    fields = (line.split("\t") for line in lines)
    return [Description(PROBLEMS[p], frozenset(causes.split(",")), *rest) for p, causes, *rest in fields]


def named(causes: list[RankedCause]) -> set[str]:
    """Stages and rows of the first causes."""
    return {name for cause in causes[:FIRST] for name in (*cause.stages, *cause.rows)}


def first(each: Description, outputs_only: bool = False) -> set[str]:
    kind = problem_type(each.problem)
    symptoms = read_symptoms(each.text, kind)
    if outputs_only:
        kinds = frozenset({"wrong"} if symptoms.wrong else ())
        none: frozenset[str] = frozenset()
        symptoms = replace(symptoms, kinds=kinds, conditions=none, concepts=kinds, stems=none, looks=None)
    return named(ranked(kind, symptoms))


def grade(exam: str) -> Grade:
    all_of = descriptions(exam)
    answers = [first(each) for each in all_of]
    left = list(all_of)
    for _ in range(FIRST):  # the most frequent cause of what is left
        ((often, _),) = Counter(name for each in left for name in each.causes).most_common(1)
        left = [each for each in left if often not in each.causes]
    return Grade(
        len(all_of),
        sum(bool(each.causes & answer) for each, answer in zip(all_of, answers, strict=True)),
        sum(map(len, answers)) / len(answers),
        sum(bool(each.causes & first(each, outputs_only=True)) for each in all_of),
        len(all_of) - len(left),
    )
