"""`tileproof explore`: verdict, exit code, replay."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.explore import explore
from tileproof.conformance.cli.trace import trace
from tileproof.spec.machine.errors import TileproofError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long schedules are written into the working folder."""
    monkeypatch.chdir(tmp_path)


def explored(*args: str) -> tuple[int, Any]:
    """Exit code and the JSON of a run in this process."""
    done = CliRunner().invoke(explore, [*args, "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, json.loads(done.stdout)


def test_a_clean_kernel_passes_under_every_policy() -> None:
    code, result = explored("head64", "--blocks", "1", "--schedules", "20", "--sample")
    assert code == 0 and result["verdict"] == "clean" and result["findings"] == []
    assert result["schedules"] == 20 and len(result["policies"]) == 7


def test_added_rows_may_differ_by_their_order_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys of two tokens are one row: dKV sums in the order of the schedule; with no bound, a finding."""
    tokens = '"tokens":[{"order":"same"},{"order":"same"}]'
    case = f'{{"d_qk":576,"h_q":64,"s_kv":1,"blocks":2,{tokens},"values":"normal"}}'
    few = ("--schedules", "12", "--policies", "random", "--shrink", "0", "--no-races")
    args = ("head64", "--case", case, *few)
    assert explored(*args)[0] == 0
    from tileproof.conformance.explore.explored import Explored

    monkeypatch.setattr(Explored, "_bound", lambda self, name: None)
    code, result = explored(*args)
    assert code == 1 and {finding["place"] for finding in result["findings"]} == {"dKV"}


# Seven seeds of starve from 40 on: 47 starves a whole cluster, which shows the defect without a preemption.
PLANTED = ("head128-part0", "--plant", "q-not-waited-for", "--no-races")


def test_a_defect_is_found_named_and_replayed() -> None:
    code, result = explored(*PLANTED, "--policies", "starve", "--schedules", "7", "--seed", "40")
    assert code == 1 and result["verdict"] == "defect"
    assert "shared-pending" in {finding["code"] for finding in result["findings"]}
    pending = next(finding for finding in result["findings"] if finding["preemptions"] == 1)
    assert pending["minimal"]
    assert "TMA load" in pending["in_words"][1] and "warp 0 (load) of CTA" in pending["in_words"][1]
    words = shlex.split(pending["replay"])
    assert words[:3] == ["tileproof", "explore", "head128-part0"]
    code, again = explored(*words[2:])
    assert code == 1 and pending["place"] in {finding["place"] for finding in again["findings"]}
    # Without its one decision the replay shows nothing.
    assert explored(*words[2:-1], "replay:base=late")[0] == 0


def test_a_launch_that_takes_too_long_is_stopped() -> None:
    args = ("head64", "--blocks", "8", "--schedules", "2", "--shrink", "0", "--seconds-limit")
    assert explored(*args, "600")[0] == 0
    code, result = explored(*args, "0.002")
    assert code == 1 and {finding["code"] for finding in result["findings"]} == {"time-limit"}
    assert "--seconds-limit=0.002" in result["findings"][0]["replay"]
    done = CliRunner().invoke(trace, ["head64", "--seconds-limit", "0.002"], standalone_mode=False)
    assert done.return_value == 1 and "time-limit" in done.stderr


def test_a_schedule_can_be_traced() -> None:
    args = ["head128-part0", "--plant", "q-not-waited-for", "--blocks", "2", "--text", "--no-races"]
    texts = []
    for schedule in ("replay:base=late:c0.0.0.5@0", "replay:base=late"):
        done = CliRunner().invoke(trace, [*args, "--schedule", schedule], standalone_mode=False)
        texts.append(done.stdout)
        assert done.return_value == (1 if "@" in schedule else 0)
    assert texts[0] != texts[1]


def test_a_hang_is_reported_in_the_names_of_the_plan() -> None:
    code, result = explored("head128-part0", "--plant", "p-ready-to-one-cta", "--schedules", "6")
    assert code == 1
    (hang,) = result["findings"]
    assert hang["code"] == "hang" and hang["runs"] == 6 and "p_ready[0] of CTA 1" in hang["text"]
    assert hang["schedule"] == "early" and hang["preemptions"] == 0


def test_a_long_schedule_goes_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileproof.conformance.cli.explore.LONG", 0)
    folder = tmp_path / "new"
    seeds = ("--policies", "starve", "--schedules", "7", "--seed", "40")
    code, result = explored(*PLANTED, *seeds, "--out", str(folder))
    found = next(finding for finding in result["findings"] if finding["preemptions"])
    path = found["schedule"]
    assert code == 1 and path.startswith(f"@{folder}")
    assert Path(path[1:]).read_text().startswith("replay:base=")
    assert explored(*shlex.split(found["replay"])[2:])[0] == 1


def test_the_text_shows_verdict_findings_and_replay() -> None:
    done = CliRunner().invoke(explore, [*PLANTED, "--schedules", "12"], standalone_mode=False)
    assert done.return_value == 1 and done.stdout.startswith("DEFECT head128-part0 d_qk 576: 12 schedules")
    for text in ("1. error ", "seen under", "smallest schedule", "replay: tileproof explore head128-part0"):
        assert text in done.stdout
    args = ["head128-part0", "--schedules", "12"]
    for more, begin in (["--sample"], "12 schedules"), ([], "1 schedule (1 early)"):
        done = CliRunner().invoke(explore, [*args, *more], standalone_mode=False)
        assert done.return_value == 0
        assert done.stdout.startswith(f"CLEAN head128-part0 d_qk 576: {begin}")
        assert "certified for all schedules (" in done.stdout
        assert ("--sample runs the other schedules" in done.stdout) == (not more)


def test_a_launch_that_its_first_run_certifies_runs_once() -> None:
    code, result = explored("head64", "--blocks", "2", "--schedules", "12")
    assert code == 0 and result["schedules"] == 1 and result["policies"] == {"early": 1}
    assert result["certificate"] == {"launches": 1, "certified": 1, "part": 0, "reasons": {}}
    # Without race checking there is no certificate, and a planted defect has an open obligation.
    code, result = explored("head64", "--blocks", "2", "--schedules", "4", "--no-races")
    assert code == 0 and result["schedules"] == 4 and result["certificate"]["launches"] == 0
    code, result = explored("head128-part0", "--plant", "p0-p-not-free", "--schedules", "4", "--shrink", "0")
    assert code == 1 and result["schedules"] == 4 and result["certificate"]["certified"] == 0


def test_a_tutorial_of_nvidia_whose_slow_warp_is_lapped() -> None:
    """All warps wait on the mbarriers, and only warp 0 keeps the loop from going on (02_mma_tma_sm100.cu)."""
    tutorial = ("tutorial-02", "--blocks", "5", "--no-races", "--schedule")
    assert explored(*tutorial, "late")[0] == 0
    code, result = explored(*tutorial, "replay:base=late:w0.1.0@0")
    assert code == 1 and {
        finding["code"] for finding in result["findings"] if finding["severity"] == "error"
    } == {"hang"}
    with pytest.raises(TileproofError):
        explored("tutorial-02", "--plant", "q-not-waited-for")


def test_the_values_of_the_first_schedule_are_judged_tile_by_tile() -> None:
    """The same wrong tile under every schedule: no output depends on the schedule."""
    few = ("--plant", "rope-not-multiplied", "--schedules", "2", "--no-races")
    code, result = explored("head128-part0", *few)
    assert code == 1 and result["verdict"] == "defect"
    first = next(finding for finding in result["findings"] if finding["code"] == "wrong-value")
    assert first["place"].startswith("stage P, token 0, CTA") and "expected:" in first["text"]
    assert explored(*shlex.split(first["replay"])[2:])[0] == 1


@pytest.mark.parametrize(
    "args",
    [
        ("head512",), ("tutorial-09",), ("head64", "--d-qk", "100"), ("head64", "--plant", "nothing"),
        ("head64", "--plant", "q-not-waited-for"), ("head64", "--policies", "sometimes"),
        ("head64", "--schedule", "replay:x"), ("head64", "--schedule", "@/nowhere/at/all"),
        ("head64", "--case", "{}"),
    ],
)  # fmt: skip
def test_what_cannot_be_explored_is_an_error(args: tuple[str, ...]) -> None:
    with pytest.raises(TileproofError):
        explored(*args)
