"""`judge --many`: a line of JSON for each case; a case that ends its process costs itself only."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tileproof.kernels.launch import jsonform

from tests.kernels.foreign.test_isolation import ABLE
from tests.kit.launch_files import WITHOUT_WAIT, scale

REFERENCE = "def reference(x, factor):\n    return factor * x[:100]\n"
# The command with a case, by its name, that does this to its process.
DYING = """
import os, sys, time, ctypes
from tileproof.conformance.cli import many
verdict = many._verdict
many.MORE_S = 0.0
def dying(case, process):
    if "dies" in case.name:
        {}
    return verdict(case, process)
many._verdict = dying
from tileproof.conformance.cli.app import main
main()
"""
DEATHS = {
    "os._exit(0)": "its process ended with code 0",
    "ctypes.string_at(0)": "SIGSEGV",
    "bytearray(1 << 45)": "too much memory",
    "time.sleep(60)": "no verdict in 5 s",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jsonform.write(scale(), tmp_path / "right.json")
    jsonform.write(scale(*WITHOUT_WAIT), tmp_path / "wrong.json")
    (tmp_path / "ref.py").write_text(REFERENCE)
    return tmp_path


def answers(folder: Path, lines: list[Any], *words: str, program: str = "") -> tuple[int, dict[int, Any]]:
    start = ["-c", program] if program else ["-m", "tileproof"]
    done = subprocess.run(
        [sys.executable, *start, "judge", "--many", *words],
        input="".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines),
        cwd=folder, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(lines), done
    return done.returncode, {answer["number"]: answer for answer in told}


def test_paths_and_json_with_what_is_wrong_between_them(folder: Path) -> None:
    whole = json.loads((folder / "right.json").read_text())
    lines = [
        "right.json",
        {"launch": "wrong.json", "id": "second", "schedules": 4, "seed": 3},
        whole,
        {"launch": whole, "id": [1], "expect": None, "schedules": 2},
        "none.json",
        "{",
        {"launch": "right.json", "colour": 3},
        {"launch": "right.json", "seconds": -1},
        {"launch": "right.json", "expect": "none.py"},
    ]
    code, told = answers(folder, lines, "--expect", "ref.py")
    words = [told[number + 1]["verdict"] for number in range(len(lines))]
    assert words == ["clean", "defect", "clean", "incomplete", *["error"] * 5] and code == 1
    assert told[2]["id"] == "second" and told[2]["record"]["seed"] == 3 and told[2]["why"]
    assert told[4]["id"] == [1] and all(answer["exit_code"] == 2 for n, answer in told.items() if n > 4)
    assert answers(folder, lines[:1], "--expect", "ref.py")[0] == 0
    assert answers(folder, [])[0] == 2


@pytest.mark.parametrize("death", DEATHS)
def test_a_case_that_ends_its_process_costs_itself(folder: Path, death: str) -> None:
    jsonform.write(scale(), folder / "dies.json")
    lines = ["right.json", "dies.json", "right.json", "dies.json", "right.json"]
    code, told = answers(
        folder, lines, "--expect", "ref.py", "--schedules", "2", "--seconds", "5", "-j", "2",
        program=DYING.format(death),
    )  # fmt: skip
    assert [told[n]["verdict"] for n in range(1, 6)] == ["clean", "error", "clean", "error", "clean"]
    assert DEATHS[death] in told[2]["why"][0] and code == 2


def test_a_reference_that_ends_its_process_costs_its_case(folder: Path) -> None:
    (folder / "ends.py").write_text("import os\ndef reference(x, factor):\n    os._exit(0)\n")
    right = {"launch": "right.json", "schedules": 2}
    lines = [right, {**right, "expect": "ends.py"}, {**right, "expect": "ends.py"}, right]
    _, told = answers(folder, lines, "--expect", "ref.py", "-j", "1")
    assert [told[n]["verdict"] for n in range(1, 5)] == ["clean", "error", "error", "clean"]


def test_a_small_case_takes_little_processor_time(folder: Path) -> None:
    def used(cases: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert answers(folder, ["right.json"] * cases, "--expect", "ref.py", "-j", "1")[0] == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert (used(21) - used(1)) / 20 < 0.3


@ABLE
def test_many_in_isolation(folder: Path) -> None:
    (folder / "launch.py").write_text(
        "from pathlib import Path\nfrom tileproof.launches import read\n"
        "def launch():\n    try:\n        open('written', 'w')\n    except OSError:\n        pass\n"
        "    return read(Path(__file__).with_name('right.json'))\n"
    )
    _, told = answers(
        folder, ["launch.py", "right.json"], "--expect", "ref.py", "--isolate", "--schedules", "2"
    )
    assert [told[n]["verdict"] for n in (1, 2)] == ["clean", "clean"] and not (folder / "written").exists()
    assert told[1]["record"]["sections"]["trust"]["isolated"]
