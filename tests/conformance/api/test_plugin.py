"""`tileproof.run`, `tileproof.judge`, and the pytest plugin: fixtures, marker, time, assertion texts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import tileproof
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.kernels.launch import jsonform
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

from tests.kit.judging import plugin_is_installed, times
from tests.kit.launch_files import SIZE, WITHOUT_WAIT, scale

pytest_plugins = ("pytester",)
CONFTEST = "from tests.kit.launch_files import WITHOUT_WAIT, scale\n"


def test_run_and_judge_are_the_packages() -> None:
    run = tileproof.run(scale(), schedule="random", seed=3)
    assert not run.findings and (run.outputs["out"].values == 2 * (1 + np.arange(SIZE))).all()
    assert str(run.schedule) == "random:seed=3" and not run.stopped and run.causes == ()
    verdict = tileproof.judge(scale(*WITHOUT_WAIT), times, schedules=2)
    assert verdict.verdict == "defect" and tileproof.page(verdict).startswith("DEFECT scale")
    with pytest.raises(AttributeError):
        tileproof.nothing  # noqa: B018


def test_what_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "launch.json"
    jsonform.write(scale(), path)
    (tmp_path / "ref.py").write_text("def reference(x, factor):\n    return factor * x[:100]\n")
    assert tileproof.judge(tmp_path, str(tmp_path / "ref.py"), schedules=2).verdict == "clean"
    assert tileproof.run(path).outputs["out"].values.shape == (SIZE,)
    for call in (lambda: tileproof.run(3), lambda: tileproof.judge(scale(), 3)):  # type: ignore[arg-type]
        with pytest.raises(TileproofError):
            call()
    with pytest.raises(TileproofError, match="no such entry"):
        tileproof.run(scale(entry="no"))


def plugged(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """pytest with the plugin over a test file."""
    root = Path(__file__).parents[3]
    pytester.syspathinsert(root)
    pytester.makepyfile(test_it=CONFTEST + text)
    plugin = () if plugin_is_installed() else ("-p", "tileproof.conformance.api.plugin")
    return pytester.runpytest_inprocess(*plugin, "-p", "no:cacheprovider", *options)


def test_fixtures_and_marker(pytester: pytest.Pytester) -> None:
    done = plugged(
        pytester,
        """
import pytest
from tests.kit.judging import times

def test_clean(tileproof_judge):
    verdict = tileproof_judge(scale(), times, schedules=2)
    assert len(verdict.checks) > 5

def test_wrong(tileproof_judge):
    tileproof_judge(scale(*WITHOUT_WAIT), times, schedules=2)

@pytest.mark.tileproof(policies=("late",), races=False)
def test_marked(tileproof_judge):
    verdict = tileproof_judge(scale(), times, accept=("incomplete",))
    assert [schedule.policy for schedule in verdict.schedules] == ["late"]

@pytest.mark.tileproof(races=False)
class TestInner:
    @pytest.mark.tileproof(schedule="late")
    def test_run(self, tileproof_run):
        assert str(tileproof_run(scale()).schedule) == "early"

@pytest.mark.tileproof(speed=3)
def test_bad_marker(tileproof_run):
    tileproof_run(scale())
""",
        "--strict-markers",
    )
    done.assert_outcomes(passed=2, failed=3)
    text = done.stdout.str()
    assert "DEFECT scale: scale" in text and "shared-uninitialised" in text
    assert "the marker tileproof takes seconds, schedules" in text


def test_assertions_are_readable(pytester: pytest.Pytester) -> None:
    done = plugged(
        pytester,
        """
def test_findings(tileproof_run):
    assert tileproof_run(scale(*WITHOUT_WAIT)).errors == ()

def test_verdict(tileproof_judge):
    verdict = tileproof_judge(scale(), accept=("incomplete",), schedules=2)
    assert verdict == "clean"
""",
    )
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        [
            "*findings == ()*",
            "*error shared-uninitialised:*",
            "*a verdict == 'clean'*",
            "*INCOMPLETE scale: scale*",
        ]
    )


def test_time_is_shared_by_the_examples_of_a_hypothesis_test(pytester: pytest.Pytester) -> None:
    done = plugged(
        pytester,
        """
import time
from hypothesis import given, settings, strategies as st
from tileproof.conformance.api import calls as api

asked = []
def judge(launch, expect, seconds, **how):
    asked.append(seconds)
    return Verdict()
class Verdict:
    verdict = "clean"

def test_alone(tileproof_judge, monkeypatch):
    monkeypatch.setattr(api, "judge", judge)
    tileproof_judge(None)
    tileproof_judge(None, seconds=2)
    assert asked == [30, 2]

@settings(max_examples=10, deadline=None)
@given(st.integers(1, 9))
def test_many(tileproof_judge, n):
    before, api.judge = api.judge, judge
    tileproof_judge(None)
    api.judge = before
    assert asked[-1] == 3

@settings(max_examples=10, deadline=1000)
@given(st.integers(1, 9))
def test_deadline(tileproof_judge, n):
    before, api.judge = api.judge, judge
    tileproof_judge(None, seconds=20)
    api.judge = before
    assert asked[-1] == 0.5

@settings(max_examples=6, deadline=None)
@given(st.integers(1, 2))
def test_shrinks(tileproof_judge, n):
    edits = WITHOUT_WAIT if n > 1 else ()
    tileproof_judge(scale(*edits), lambda x, factor: factor * x[:100], schedules=2)
""",
        "--tileproof-seconds=30",
    )
    done.assert_outcomes(passed=3, failed=1)
    assert "n=2" in done.stdout.str() and "DEFECT scale" in done.stdout.str()


WRONG_REFERENCE = "def reference(x, factor):\n    return factor * x[:100] + 1\n"
REPLAYED = """
import json
import shlex
from pathlib import Path
from tileproof.kernels.launch import jsonform
from tileproof.kernels.registry import kernel

{definition}

@__import__("pytest").mark.tileproof(seed=3, policies=("late",))
def test_wrong(tileproof_judge):
    jsonform.write(scale({edits}), Path("launch.json"))
    tileproof_judge("launch.json", {expect})
"""


@pytest.mark.parametrize(
    ("edits", "definition", "expect"),
    [
        ("", "", '"ref.py:reference"'),
        ("", WRONG_REFERENCE, "reference"),
        ("*WITHOUT_WAIT", "", "None"),
    ],
)
def test_the_replay_of_a_planted_failure_finds_it_again(
    pytester: pytest.Pytester, edits: str, definition: str, expect: str
) -> None:
    pytester.makepyfile(ref=WRONG_REFERENCE)
    text = REPLAYED.format(edits=edits, definition=definition, expect=expect)
    done = plugged(pytester, text)
    done.assert_outcomes(failed=1)
    page = [line.removeprefix("E").strip() for line in done.outlines]
    first = page.index(next(line for line in page if line.startswith("1. ")))
    replay = next(line for line in page[first:] if line.startswith("replay:"))
    _, program, *words = shlex.split(replay)
    assert program == "tileproof"
    again = CliRunner().invoke(main, [*words, "--json", "-"])
    found = json.loads(again.stdout)["findings"]
    headlines = [finding["message"] for finding in found]
    assert again.exit_code == 1 and any(page[first].endswith(message) for message in headlines), page
    values = [finding for finding in found if finding["check"] == "values"]
    assert bool(values) == (expect != "None")
    if values:
        assert f"where:    {values[0]['problem']['array']}[{values[0]['problem']['index'][0]}]" in page


# ---- a kernel with a plan


def test_a_kernel_is_judged_by_its_name() -> None:
    verdict = tileproof.judge("sm100-gemm-bias", schedules=2, policies=("early", "late"))
    assert verdict.verdict == "clean" and verdict.sections["case"]["problem"] == "gemm_bias"
    again = tileproof.judge(
        kernel("sm100-gemm-bias"), case=verdict.sections["case"]["case"], policies=("late",)
    )
    assert again.sections["case"] == verdict.sections["case"]
    # A single schedule shows nothing of others.
    assert again.verdict == "incomplete" and "1 schedules were run" in " ".join(again.why)


def test_what_a_kernel_does_not_take_is_refused() -> None:
    with pytest.raises(TileproofError, match="takes no expect"):
        tileproof.judge("sm100-gemm-bias", times)
    with pytest.raises(TileproofError, match="takes no variant"):
        tileproof.judge(scale(), variant="size=3")
    with pytest.raises(TileproofError, match="sm100-gemm-bias"):
        tileproof.judge("sm100-gemm-biass")
