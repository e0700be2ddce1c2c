"""Long tests in turns: each has one, and the list names tests that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import long_tests

ROOT = Path(__file__).parents[2]
TESTS = [f"tests/test_a.py::test_{number}" for number in range(90)]
LOG = """
12.00s call     tests/a/test_b.py::test_c[x y]
1.50s setup    tests/a/test_b.py::test_c[x y]
2.90s call     tests/a/test_b.py::test_d
0.20s teardown tests/a/test_b.py::test_d
1.00s call     tests/a/test_b.py::test_e
"""


def test_in_three_days_every_test_runs() -> None:
    long = dict.fromkeys(TESTS[:60], 9.0)
    runs = [set(TESTS) - long_tests.another_turn(TESTS, long, str(day)) for day in (7, 8, 9)]
    assert set.union(*runs) == set(TESTS)
    assert set.intersection(*runs) == set(TESTS[60:])
    assert all(10 < len(run - set(TESTS[60:])) < 30 for run in runs)
    assert long_tests.another_turn(TESTS, long, "all") == set()


def test_the_seconds_of_a_test_are_those_of_its_parts() -> None:
    assert long_tests.long_in(LOG) == {
        "tests/a/test_b.py::test_c[x y]": 13.5,
        "tests/a/test_b.py::test_d": 3.1,
    }


def test_the_list_names_tests_that_exist() -> None:
    """A renamed test would run every day, and be missing from the list."""
    for test in long_tests.listed():
        file, _, name = test.partition("::")
        function = re.sub(r"\[.*", "", name, flags=re.DOTALL).rpartition("::")[2]
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), test


@pytest.mark.parametrize(("turn", "code"), [("333", 0), ("all", 0), ("tomorrow", 4)])
def test_the_option(turn: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--long", turn, __file__],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert ("expected all or the number of a day" in done.stderr) == (code == 4)
