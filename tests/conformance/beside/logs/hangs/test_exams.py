"""Logs of planted hangs in styles that the reader was not written for: no exam may fall below its figure."""

import pytest

from benchmarks.hang_strangers import explain
from benchmarks.strangers.exams.grade import grade

EACH = 4  # logs of each style


@pytest.mark.parametrize(
    ("exam", "correct"),
    [
        ("first", 0.95),
        ("second", 0.88),
        ("third", 0.9),
        ("fourth", 0.93),
        ("fifth", 0.85),
        ("ninth", 0.88),
        ("eleventh", 0.9),
    ],
)
def test_an_exam_keeps_its_figure(exam: str, correct: float) -> None:
    score = grade(explain, exam, EACH)
    assert score.count["correct"] >= correct * score.n, score.table()
    assert not score.lies, score.table()
