"""An interrupt prints what is known and how to resume: `explore`, `mutate`, `plant`."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.kernels.launch import jsonform

from tests.kit.launch_files import scale

module = import_module("tileproof.conformance.cli.plant")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jsonform.write(scale(), tmp_path / "launch.json")
    (tmp_path / "ref.py").write_text("def reference(x, factor):\n    return factor * x[:100]\n")
    return tmp_path


def interrupted(folder: Path, number: int, ready: Callable[[], bool], *given: str) -> dict[str, Any]:
    """The JSON of a command that gets a signal once it is `ready`."""
    with subprocess.Popen(
        [sys.executable, "-m", "tileproof", *given, "--json"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        while not ready() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    assert "Traceback" not in err, err
    if process.returncode == 2:  # before anything was judged
        assert "interrupted" in out + err
        return {}
    made: dict[str, Any] = json.loads(out)
    assert process.returncode in (1, 3) and made["interrupted"], err
    return made


def words(made: dict[str, Any]) -> list[str]:
    """The command that goes on, without the name of the program."""
    return shlex.split(made["resume"].partition(" keeps ")[0].partition("tileproof ")[2])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_explore(folder: Path, number: int) -> None:
    given = ("explore", "launch.json", "--sample", "--schedules", "200000", "--skip=3")
    made: dict[str, Any] = {}
    for seconds in (5, 15, 45):  # a busy machine may take long to start
        end = time.monotonic() + seconds
        made = interrupted(folder, number, lambda end=end: time.monotonic() > end, *given)  # type: ignore[misc]
        if made.get("schedules"):
            break
    assert made["verdict"] == "incomplete"
    assert made["schedules"] > 0 and sum(made["policies"].values()) == made["schedules"]
    assert words(made)[-1] == f"--skip={made['schedules'] + 3}" and made["resume"].count("--skip") == 1


def test_mutate(folder: Path) -> None:
    kept = folder / "kept.jsonl"
    given = ("mutate", "launch.json", "--expect", "ref.py", "-j", "1", "--resume", "kept.jsonl")
    made = interrupted(
        folder, signal.SIGINT, lambda: kept.exists() and kept.read_text().count("\n") > 5, *given
    )
    assert made["score"]["drawn"] > 0 and made["left"] > 0
    assert len(kept.read_text().splitlines()) >= made["score"]["drawn"]
    assert words(made)[:2] == ["mutate", "launch.json"]


def test_plant(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def run(kernel: object, variant: object, defect: Any, *_: object) -> tuple[str, str]:
        calls.append(defect.id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return "", "P"

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(sys, "argv", ["tileproof", "plant", "head128-part0", "--only", "x"])
    done = CliRunner().invoke(module.plant, ["head128-part0", "--json"], standalone_mode=False)
    made = json.loads(done.stdout)
    assert done.return_value == 3 and made["verdict"] == "incomplete"
    assert [row["defect"] for row in made["defects"]] == calls[:2]
    assert words(made)[:3] == ["plant", "head128-part0", f"--only={calls[2]}"] and "x" not in words(made)
