"""The measure: emulator runs with planted hangs, in many wordings, damaged; and judges that must not pass."""

import pytest

from tests.kit.hang_logs.damage import DAMAGES
from tests.kit.hang_logs.judges import always_clear, explain
from tests.kit.hang_logs.score import Answer, HangLog, Score, logs, score
from tests.kit.hang_logs.wordings import WORDINGS

RUNS = 31  # each planted defect once


@pytest.fixture(scope="module")
def sample() -> list[HangLog]:
    return list(logs(5, RUNS))


def _score(sample: list[HangLog], judge) -> Score:  # type: ignore[no-untyped-def]
    found = Score()
    for log in sample:
        found.add(log, judge(log))
    return found


def test_the_planted_cause_comes_first_and_no_wrong_one_is_certain(sample: list[HangLog]) -> None:
    found = _score(sample, explain)
    assert found.passes(), found.table() + "\n" + "\n".join(found.wrong)


def test_the_sample_holds_every_wording_and_damage(sample: list[HangLog]) -> None:
    assert {log.wording for log in sample} == set(WORDINGS)
    assert {log.damage for log in sample} == set(DAMAGES)
    assert sum(log.truth is None for log in sample) == RUNS


def test_judges_that_are_always_sure_never_sure_or_silent_do_not_pass(sample: list[HangLog]) -> None:
    assert not _score(sample, always_clear).passes()
    assert not _score(sample, lambda log: Answer("unclear")).passes()
    assert not _score(sample, lambda log: Answer("no hang seen")).passes()

    def never_sure(log: HangLog) -> Answer:
        answer = explain(log)
        return Answer(answer.verdict, False, answer.open, answer.code, answer.barrier, answer.actors)

    assert not _score(sample, never_sure).passes()


def test_logs_are_the_same_for_a_seed() -> None:
    first, again = list(logs(3, 2)), list(logs(3, 2))
    assert [log.text for log in first] == [log.text for log in again]
    assert score(explain, 3, 2).wrong == score(explain, 3, 2).wrong


@pytest.mark.slow
def test_hangs_of_our_own_kernels() -> None:
    from tests.kit.hang_logs.kernels import kernel_logs

    found = _score(list(kernel_logs()), explain)
    assert found.share >= 0.95 and not found.certain, found.table() + "\n" + "\n".join(found.wrong)
