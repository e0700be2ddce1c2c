"""Changes of the spec are found by its tests: a sample here, all of them where slow tests run."""

from __future__ import annotations

import pytest

from tests.kit.paths import ROOT
from tests.kit.spec_change_runs import tried
from tests.kit.spec_changes import CHANGES, CONSTANTS, STAGES, TERMS, Change

SAMPLE = ("EX2_RELATIVE = 2.0**-20", "dS adds delta")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=change.name, marks=() if change.name in SAMPLE else pytest.mark.slow)
        for change in CHANGES
    ],
)
def test_a_change_is_found(change: Change) -> None:
    outcome = tried(change)
    assert outcome.found, f"no test found it in {outcome.seconds:.0f} s: {outcome.output[-2000:]}"


def test_there_are_changes_of_every_kind_and_their_texts_stand_in_the_spec() -> None:
    assert len(CHANGES) >= 40 and len({change.name for change in CHANGES}) == len(CHANGES)
    counts = {each.name: (ROOT / "spec" / each.file).read_text().count(each.old) for each in CHANGES}
    assert set(counts.values()) == {1}, [name for name, count in counts.items() if count != 1]


def test_the_tests_pass_on_an_unchanged_copy() -> None:
    """What finds a change is the change."""
    outcome = tried(
        Change(
            "none",
            "numerics.py",
            "\nU_F32 = 2.0**-24\n",
            "\nU_F32 = 2.0**-24\n",
            (*CONSTANTS, *STAGES, *TERMS),
        )
    )
    assert not outcome.found and " passed" in outcome.output, outcome.output[-2000:]
