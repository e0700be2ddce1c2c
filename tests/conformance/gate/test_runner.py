"""Checks in processes of their own, and results on disk: crashes, ends, cut-off files, full disks."""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.gate import runner
from tileproof.conformance.gate.model import CheckReport, GateCheck, GatedVariant
from tileproof.conformance.gate.runner import CheckJob
from tileproof.conformance.gate.store import ResultStore, RunIdentity, StoredResult, pack, unpack
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

KERNEL = kernel("head128-part0")
GATED = GatedVariant(KERNEL, KERNEL.variants[0])
IDENTITY = RunIdentity("quick", 0, False, "", {"k": "0" * 64}, "abc", False)


def passes(_gated: GatedVariant) -> CheckReport:
    return CheckReport("passed", executed=b"\1\0\3", schedules={"early": [0]}, details={"n": 1})


def fails(_gated: GatedVariant) -> CheckReport:
    return CheckReport("failed", "it is wrong")


def crashes(_gated: GatedVariant) -> CheckReport:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def leaves(_gated: GatedVariant) -> CheckReport:
    os._exit(7)


def raises(_gated: GatedVariant) -> CheckReport:
    raise ValueError("a bug")


def refuses(_gated: GatedVariant) -> CheckReport:
    raise TileproofError("it cannot be built", where="there")


def sleeps(_gated: GatedVariant) -> CheckReport:
    time.sleep(60)
    return CheckReport("passed")


def jobs(*functions: Callable[[GatedVariant], CheckReport], required: bool = True) -> list[CheckJob]:
    return [CheckJob(GateCheck(f.__name__, "", "quick", required, False, f), GATED, "k") for f in functions]


def stored(tmp_path: Path, resume: bool = False, identity: RunIdentity = IDENTITY) -> ResultStore:
    return ResultStore(tmp_path / "results.jsonl", identity, resume)


def ran(tmp_path: Path, *functions: Any, **how: Any) -> dict[str, StoredResult]:
    resume = how.pop("resume", False)
    store = stored(tmp_path, resume)
    try:
        found = runner.run(jobs(*functions), store, **how)
    finally:
        store.close()
    return {key.removeprefix("k: "): result for key, result in found.items()}


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (crashes, "its process was killed by SIGSEGV"),
        (leaves, "its process ended with code 7 and no result"),
        (raises, "internal error: ValueError: a bug"),
        (refuses, "it cannot be built"),
    ],
)
def test_a_check_that_does_not_end_is_named_and_the_others_go_on(
    tmp_path: Path, bad: Any, fault: str
) -> None:
    found = ran(tmp_path, passes, bad, fails, workers=2)
    check = found[bad.__name__].check
    assert check.outcome == "not run" and check.fault.startswith(fault)
    assert found["passes"].check.outcome == "passed" and found["fails"].check.outcome == "failed"
    assert stored(tmp_path, resume=True).done.keys() == {f"k: {f.__name__}" for f in (passes, bad, fails)}


def test_a_killed_process_is_named(tmp_path: Path) -> None:
    def killed(_gated: GatedVariant) -> CheckReport:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    assert ran(tmp_path, killed)["killed"].check.fault == "its process was killed by SIGKILL"


def test_results_are_written_as_they_come_and_are_not_run_again(tmp_path: Path) -> None:
    ran(tmp_path, passes)
    lines: list[str] = []
    found = ran(tmp_path, passes, fails, resume=True, progress=lines.append)
    assert len(lines) == 1 and "fails" in lines[0]
    assert unpack(found["passes"].executed) == b"\1\0\3"
    assert found["passes"].schedules == {"early": (0,)}


def test_a_line_that_was_cut_off_is_named_and_runs_again(tmp_path: Path) -> None:
    ran(tmp_path, passes, fails)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    store = stored(tmp_path, resume=True)
    store.close()
    assert list(store.done) == ["k: passes"] and "line 3 is truncated" in store.notes[0]
    ran(tmp_path, passes, fails, resume=True)
    assert stored(tmp_path, resume=True).done.keys() == {"k: passes", "k: fails"}


def test_a_corrupt_line_between_others_costs_only_its_own_check(tmp_path: Path) -> None:
    ran(tmp_path, passes, fails)
    path = tmp_path / "results.jsonl"
    lines = path.read_text().splitlines()
    data = json.loads(lines[1])
    data["executed"] = "no base64"
    path.write_text("\n".join([lines[0], json.dumps(data), lines[2]]) + "\n")
    store = stored(tmp_path, resume=True)
    assert list(store.done) == ["k: fails"] and "line 2" in store.notes[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not the results of a gate"),
        ("PK\3\4\n", "not the results of a gate"),
        ('{"schema": "other"}\n', "not the results of a gate"),
        ('{"schema": "tileproof-gate-run", "schema_version": 7}\n', "another schema version"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "results.jsonl").write_text(text)
    with pytest.raises(TileproofError, match=what):
        stored(tmp_path, resume=True)
    assert (tmp_path / "results.jsonl").read_text() == text


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"profile": "full"}, {"programs": {"k": "1" * 64}}, {"tool_commit": "def"}],
)
def test_results_of_another_run_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    ran(tmp_path, passes)
    with pytest.raises(TileproofError, match=f"another run[^$]*{next(iter(other))}"):
        stored(tmp_path, resume=True, identity=replace(IDENTITY, **other))


def test_without_keep_going_nothing_begins_after_a_failure(tmp_path: Path) -> None:
    found = ran(tmp_path, fails, passes, keep_going=False)
    assert found["passes"].check.outcome == "not run" and "keep-going" in found["passes"].check.reason
    assert "k: passes" not in stored(tmp_path, resume=True).done  # it can still be run


def test_the_time_limit_ends_what_runs(tmp_path: Path) -> None:
    began = time.monotonic()
    found = ran(tmp_path, passes, sleeps, fails, seconds=1.5)
    assert time.monotonic() - began < 20
    assert found["passes"].check.outcome == "passed"
    assert [found[n].check.reason for n in ("sleeps", "fails")] == ["--max-seconds were over"] * 2
    assert stored(tmp_path, resume=True).done.keys() == {"k: passes"}


def test_what_takes_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_gated: GatedVariant) -> CheckReport:
        time.sleep(1.5)
        return CheckReport("passed")

    monkeypatch.setattr(runner, "STILL_S", 0.5)
    lines: list[str] = []
    ran(tmp_path, passes, slow, progress=lines.append)
    assert "[1/2] still running: k: slow" in lines and "passed" in lines[-1]


@pytest.mark.parametrize("what", [Stopped, KeyboardInterrupt])
def test_a_signal_loses_nothing_and_leaves_no_process(tmp_path: Path, what: type[BaseException]) -> None:
    def stop(line: str) -> None:
        raise what

    with pytest.raises(what):
        ran(tmp_path, passes, sleeps, workers=2, progress=stop)
    assert stored(tmp_path, resume=True).done.keys() == {"k: passes"}
    assert not multiprocessing.active_children()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    os.symlink("/dev/full", tmp_path / "results.jsonl")
    with pytest.raises(TileproofError, match=r"cannot be written[^$]*No space left"):
        stored(tmp_path)


def test_a_disk_that_fills_up_keeps_what_was_written(tmp_path: Path) -> None:
    store = stored(tmp_path)
    full = open("/dev/full", "wb")  # noqa: SIM115 - the store closes it
    real = store._file
    filled: list[Any] = []

    def fill(line: str) -> None:
        if not filled:
            filled.append(line)
            store._file = full

    with pytest.raises(TileproofError, match=r"No space left[^$]*--resume"):
        runner.run(jobs(passes, fails), store, progress=fill)
    real.close()
    assert stored(tmp_path, resume=True).done.keys() == {"k: passes"}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TileproofError, match="cannot be written"):
        ResultStore(tmp_path / "file" / "results.jsonl", IDENTITY, False)


def test_executed_bytes_are_packed() -> None:
    assert unpack(pack(b"\0\1" * 500)) == b"\0\1" * 500 and pack(b"") == "" and unpack("") == b""
