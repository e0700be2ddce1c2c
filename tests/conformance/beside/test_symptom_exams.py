"""Descriptions by people: the true cause is among the first three at least as often as was measured."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.problems import problem_type

from tests.kit.symptom_exams import EXAMS, descriptions, grade

# Of the last, no description was read when the reader was mended.
FOUND = {"planted": 0.93, "issues_1": 0.94, "issues_2": 0.88, "issues_3": 0.8}
NAMES = 4.5


@pytest.mark.parametrize("exam", EXAMS)
def test_the_true_cause_is_among_the_first_three(exam: str) -> None:
    made = grade(exam)
    assert made.found >= FOUND[exam] * made.descriptions
    assert made.names <= NAMES
    assert made.found > max(made.outputs_only, made.same_three)


@pytest.mark.parametrize("exam", EXAMS)
def test_true_causes_exist(exam: str) -> None:
    for each in descriptions(exam):
        assert each.causes <= {*ROWS, *problem_type(each.problem).stages}, each
