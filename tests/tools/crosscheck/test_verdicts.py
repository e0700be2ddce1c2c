"""No opinion is never a pass: every way in which sentryward can end, its limits, and the exit codes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.cli import app as cli
from tileproof.conformance.cli.crosscheck import conclusion
from tileproof.kernels.registry import kernel
from tileproof.spec.problems.sparse_mla_bwd.case import one_token
from tileproof.tools.crosscheck import opinion
from tileproof.tools.crosscheck.opinion import Budget, Ended, Opinion, judged, run_limited, second_opinion
from tileproof.tools.crosscheck.programs import launch_of, programs

PASSED = {"synchronization": "passed", "memory": "passed", "equivalence": "not_requested"}


def report(result: str, checks: dict[str, str] | None = None, **rest: Any) -> str:
    return json.dumps({"result": result, "checks": checks or PASSED, "diagnostics": [], **rest})


@pytest.mark.parametrize(
    ("stdout", "code", "expected"),
    [
        (report("race_free"), 0, "fine"),
        (report("verified"), 0, "fine"),
        (report("race_free", {**PASSED, "memory": "incomplete"}), 0, "no opinion"),
        (report("race_free", {"synchronization": "passed"}), 0, "no opinion"),
        (report("race_free"), 1, "no opinion"),
        (report("race_free"), -9, "no opinion"),
        (report("potential_race", {**PASSED, "memory": "failed"}), 0, "error"),
        (report("not_wellsynced", {**PASSED, "synchronization": "failed"}), 0, "error"),
        (report("invalid_lifecycle"), 0, "error"),
        (report("timeout", {**PASSED, "memory": "failed"}), 2, "error"),
        *[
            (report(result), 2, "no opinion")
            for result in (
                "equivalence_not_proven", "unsupported", "invalid_input", "missing_input", "timeout", "new",
                "memory_budget_exceeded", "analysis_budget_exceeded", "allocation_failed", "tool_failure",
            )
        ],
        ("", -11, "no opinion"),
        ("[]", 0, "no opinion"),
        ("null", 0, "no opinion"),
        ('{"result": "race_free"}', 0, "no opinion"),
        ('{"result": "race_free", "checks": {}, "diagnostics": 7}', 0, "no opinion"),
        (report("race_free")[:-1], 0, "no opinion"),
        (report("race_free"), None, "no opinion"),
    ],
)  # fmt: skip
def test_every_end_has_its_verdict(stdout: str, code: int | None, expected: str) -> None:
    opinion = judged("tool", Ended(code, stdout, "", 1.0), Budget())
    assert opinion.outcome == expected
    assert opinion.kinds and (opinion.lines or expected == "fine")


def test_warnings_and_used_assumptions_are_said() -> None:
    used = [{"label": "Duplicate TMA stores", "triggered": True}, {"label": "other", "triggered": None}]
    opinion = judged(
        "tool", Ended(0, report("race_free", assumptions=used, warning_count=3), "", 1.0), Budget()
    )
    assert opinion.outcome == "fine"
    assert opinion.remarks == ("it assumes: Duplicate TMA stores", "3 warnings of its own")


@pytest.mark.parametrize(
    ("ours", "theirs", "code", "says"),
    [
        ("fine", "fine", 0, "No error found"),
        ("fine", "no opinion", 0, "no proof"),
        ("fine", "error", 1, "found by them."),
        ("error", "fine", 1, "found by us."),
        ("error", "no opinion", 1, "found by us."),
        ("error", "error", 1, "found by us and them."),
        ("no opinion", "fine", 2, "not checked"),
        ("no opinion", "no opinion", 2, "not checked"),
        ("no opinion", "error", 1, "found by them."),
    ],
)
def test_the_exit_code_and_the_words(ours: Any, theirs: Any, code: int, says: str) -> None:
    got, words = conclusion(Opinion("us", ours), Opinion("them", theirs))
    assert got == code and says in words


def test_a_process_past_its_time_is_ended_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = f"import os,time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = time.monotonic()
    ended = run_limited([sys.executable, "-c", parent], 3.0, 4096)
    assert ended.returncode is None and time.monotonic() - started < 20
    pid = int(pid_file.read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            break
        time.sleep(0.1)
    else:
        os.kill(pid, 0)
        pytest.fail("the child of the ended process lives on")


def test_a_process_gets_no_more_memory_than_its_budget() -> None:
    take = "x = bytearray(1 << 30)"
    assert run_limited([sys.executable, "-c", take], 60, 4096).returncode == 0
    ended = run_limited([sys.executable, "-c", take], 60, 512)
    assert ended.returncode == 1 and "MemoryError" in ended.stderr


class TestWithSentryward:
    """The real tool; skipped by name without it."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("sentryward", reason="sentryward, the extra `crosscheck`, is not installed")

    def test_too_little_time_is_no_opinion(self) -> None:
        found = kernel("head64")
        built = found.build(found.variant(d_qk=576))
        opinion = second_opinion(
            found.launch(one_token(576, 4, 64).inputs(), built),
            Budget(seconds=0.3),
        )
        assert opinion.outcome == "no opinion" and opinion.kinds[0] == "timeout"
        assert "0.3 seconds" in opinion.lines[0] or "ended after" in opinion.lines[0]

    @pytest.mark.parametrize("memory", [24, 160])
    def test_too_little_memory_is_no_opinion(self, memory: int) -> None:
        found = kernel("head64")
        built = found.build(found.variant(d_qk=576))
        opinion = second_opinion(
            found.launch(one_token(576, 4, 64).inputs(), built),
            Budget(memory=memory),
        )
        assert opinion.outcome == "no opinion" and opinion.kinds[0] != "unsupported"

    def test_our_kernels_get_no_opinion_for_the_instructions_it_lacks(self) -> None:
        found = kernel("head128-part0")
        built = found.build(found.variant(d_qk=576))
        opinion = second_opinion(found.launch(one_token(576, 1).inputs(), built))
        assert opinion.outcome == "no opinion" and opinion.kinds[0] == "unsupported"
        assert any("tile::gather4" in line for line in opinion.lines)
        assert opinion.remarks[0].startswith("8 wait loops")

    @pytest.mark.parametrize(
        ("words", "code", "says"),
        [
            (["pipeline"], 0, "No error found"),
            (["gather4"], 0, "no proof"),
            (["head128-part0", "--d-qk", "512", "--blocks", "1", "--schedules", "0"], 0, "no proof"),
            (["missing-arrive"], 1, "found by tileproof and sentryward"),
            (["out-of-bounds"], 1, "found by tileproof."),
            (["unwaited-phase"], 1, "found by sentryward"),
            (
                ["head128-part0", "--plant", "p-ready-not-committed", "--blocks", "1"],
                1,
                "found by tileproof.",
            ),
        ],
    )
    def test_the_command(self, capfd: Any, words: list[str], code: int, says: str) -> None:
        got, out, err = run(capfd, words)
        assert got == code and says in out and not err
        got, out, err = run(capfd, [*words, "--json"])
        result = json.loads(out)
        assert got == code and says in result["words"]
        assert result["verdict"] == {0: "clean", 1: "defect"}[code]
        assert [load["outcome"] for load in result["opinions"]].count("error") == words_of(says)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["no-such"], "there is no such kernel"),
            (["pipeline", "--plant", "p-ready-not-committed"], "no cases and no planted defects"),
            (["head64", "--d-qk", "77"], "has no such variant"),
            (["head64", "--plant", "p-ready-not-committed"], "the defect belongs to another kernel"),
            (["head128-part0", "--case", '{"d_qk":576,"tokens":[{},{}]}'], "one cluster at a time"),
            (["head128-part0", "--seconds", "0"], "--seconds"),
            (["head128-part0", "--seconds", "inf"], "a time budget must be finite"),
            (["head128-part0", "--memory", "1"], "--memory"),
        ],
    )
    def test_bad_use(self, capfd: Any, words: list[str], says: str) -> None:
        code, out, err = run(capfd, words)
        assert code == 2 and not out and says in err and "Traceback" not in err


def words_of(says: str) -> int:
    """How many tools a sentence of the conclusion names as finders."""
    return 0 if "found by" not in says else 2 if " and " in says else 1


def run(capfd: Any, words: list[str]) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(["crosscheck", *words])
    out, err = capfd.readouterr()
    return left.value.code, out, err


def test_without_sentryward_it_says_what_to_install(capfd: Any, monkeypatch: Any) -> None:
    def none(name: str) -> str:
        raise opinion.PackageNotFoundError(name)  # type: ignore[attr-defined]

    monkeypatch.setattr(opinion, "version", none)
    code, out, err = run(capfd, ["pipeline"])
    assert code == 2 and not out and "pip install sentryward==" in err
    with pytest.raises(opinion.TileproofError, match="not installed"):  # type: ignore[attr-defined]
        second_opinion(launch_of(programs()["pipeline"]))
