"""Examples of `check` saved as folders, which `judge` judges without kernels and without a compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.check.saved import dump_plan, load_plan
from tileproof.conformance.cli.app import main
from tileproof.kernels.registry import kernels

KERNEL, PLANTED = "sm100-gemm-bias", "g100-bias-of-the-first-columns"

# A machine without this checkout: no kernels of its own, and no compiler.
ELSEWHERE = """
import sys
from tileproof.kernels import registry, toolchain
from tileproof.conformance.cli.app import main

def refuse(*_, **__):
    raise AssertionError("a compiler was asked for")

registry.own = lambda: {}
registry._every.cache_clear()
toolchain.find = refuse
main(sys.argv[1:])
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The saved failing example of a planted kernel, moved elsewhere, and the finding of `check`."""
    work = tmp_path_factory.mktemp("checked")
    words = ("check", KERNEL, "--plant", PLANTED, "--examples", "3", "--save", str(work / "saved"), "--json")
    done = run(*words)
    assert done.exit_code == 1 and f"saved: tileproof judge {work / 'saved'}" in done.stderr
    moved = tmp_path_factory.mktemp("elsewhere") / "case"
    shutil.move(work / "saved", moved)
    return moved, json.loads(done.stdout)["results"][0]["findings"][0]


def elsewhere(folder: Path, *words: str) -> dict[str, Any]:
    """The verdict of `judge` in a process that has no kernels and no compiler."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, "judge", str(folder), "--json", "-", *words],
        cwd=folder.parent, env={"PATH": "", "TILEPROOF_CACHE": str(folder.parent / "empty")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["exit_code"] == done.returncode
    return made


def test_the_same_finding_elsewhere(failing: tuple[Path, dict[str, Any]]) -> None:
    moved, before = failing
    made = elsewhere(moved, "--schedules", "2")
    assert made["verdict"] == "defect"
    after = made["findings"][0]
    for name in ("code", "message", "expected", "found", "bound", "wrong", "elements", "pattern", "cause"):
        assert after[name] == before[name], name
    assert after["cause"]
    for name in ("stage", "group", "cta", "k_block", "row", "column", "lane", "tmem_column"):
        assert after["problem"][name] == before["problem"].get(name), name
    assert not (moved.parent / "empty").exists()


def test_the_gate_judges_the_stages_of_a_saved_example(
    failing: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    moved, before = failing
    done = run("gate", str(moved), "--out", str(tmp_path / "gate"), "--json")
    (judged,) = json.loads(done.stdout)["kernels"]
    assert done.exit_code == 1 and judged["verdict"] == "defect"
    assert judged["findings"][0]["message"] == before["message"]
    assert f"tileproof judge {moved}" in judged["findings"][0]["replay"]


def test_explore_judges_the_stages_of_a_saved_example(failing: tuple[Path, dict[str, Any]]) -> None:
    moved, before = failing
    done = run("explore", str(moved), "--json", "--schedules", "2", "--processes", "1")
    made = json.loads(done.stdout)
    assert done.exit_code == 1 and not made["not_judged"]
    row = next(row for row in made["findings"] if row["finding"].get("problem", {}).get("stage"))
    assert row["finding"]["message"] == before["message"]
    assert f"tileproof explore {moved}" in row["replay"]


def test_explore_asks_a_reference_of_a_saved_example(failing: tuple[Path, dict[str, Any]]) -> None:
    moved, _ = failing
    done = run("explore", str(moved), "--json", "--expect", str(moved / "missing.py"))
    assert done.exit_code == 2 and "missing.py" in done.output


def test_the_trace_of_a_saved_example_has_the_names_of_its_plan(failing: tuple[Path, dict[str, Any]]) -> None:
    moved, _ = failing
    done = run("trace", str(moved), "--text")
    barriers = [at.name for at in kernels()[KERNEL].plan(kernels()[KERNEL].variants[0]).barriers]
    assert any(f"{name}[" in done.stdout for name in barriers), done.stdout[:2000]


def test_expected_tiles_hold_what_the_finding_expects(failing: tuple[Path, dict[str, Any]]) -> None:
    moved, before = failing
    tiles, at = np.load(moved / "expected.npz"), before["problem"]
    ends = f"/{at['group']}/{at['cta']}/"
    names = [name for name in tiles if name.startswith(at["stage"] + ends) and name.endswith("/value")]
    shown = []
    for name in names:
        first_row, first_column = map(int, name.split("/")[4:6])
        row, column = at["row"] - first_row, at["column"] - first_column
        if 0 <= row < tiles[name].shape[0] and 0 <= column < tiles[name].shape[1]:
            shown.append((tiles[name][row, column], tiles[name.replace("value", "bound")][row, column]))
    # Where the products have a declared order, the finding expects their very bits.
    assert any(abs(before["expected"] - value) <= bound for value, bound in shown)


def test_a_mended_folder_is_clean_and_a_changed_input_is_refused(
    failing: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """The PTX of the right kernel in place of the planted: the folder is what is judged."""
    moved, _ = failing
    copy = shutil.copytree(moved, tmp_path / "copy")
    kernel = kernels()[KERNEL]
    (variant,) = [size for size in kernel.variants if kernel.entry(size) in (copy / "kernel.ptx").read_text()]
    (copy / "kernel.ptx").write_text(kernel.build(variant).ptx)
    (copy / "probe.ptx").write_text(kernel.build(variant, True).ptx)
    assert elsewhere(copy, "--schedules", "2")["verdict"] == "clean"
    data = json.loads((copy / "case.json").read_text())
    (copy / "case.json").write_text(json.dumps({**data, "inputs_sha256": "0" * 64}))
    made = elsewhere(copy, "--schedules", "2")
    stages = next(check for check in made["checks"] if check["name"] == "stages")
    assert made["verdict"] == "incomplete" and "other inputs" in stages["reason"]


def test_without_the_problem_type_the_launch_alone_is_judged(
    failing: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy = shutil.copytree(failing[0], tmp_path / "copy")
    data = json.loads((copy / "case.json").read_text())
    data["plan"]["problem"] = data["problem"] = "somebody-elses"
    (copy / "case.json").write_text(json.dumps(data))
    made = elsewhere(copy, "--schedules", "2")
    outcomes = {check["name"]: check["outcome"] for check in made["checks"]}
    assert made["verdict"] == "incomplete"
    assert outcomes["machine"] == outcomes["races"] == "passed" and outcomes["stages"] == "not run"
    reason = next(check["reason"] for check in made["checks"] if check["name"] == "stages")
    assert "(somebody-elses)" in reason
    assert reason.endswith(f"saved with the finding: {failing[1]['message']}")
    (copy / "case.json").write_text(json.dumps({**data, "schema_version": 9}))
    assert elsewhere(copy)["checks"][0]["details"]["errors"][0]["found"] == "('tileproof-case', 9)"


@pytest.mark.parametrize(
    ("file", "changes", "what"),
    [
        ("kernel.ptx", None, "there is no such file"),
        ("probe.ptx", None, "there is no such file"),
        ("launch.json", None, "the folder has no launch.json"),
        ("case.json", {"variant": [1]}, "a field of the saved case has another type"),
        ("case.json", {"case": 5}, "a field of the saved case has another type"),
        ("case.json", {"schedule": {"policy": "erly", "seed": 0}}, "the schedule of the saved case is wrong"),
        ("launch.json", {"modules": [{"name": "m", "code": {"kind": "ptx", "text": ""}}]}, "not the launch"),
    ],
)
def test_a_damaged_folder_is_refused(
    failing: tuple[Path, dict[str, Any]], tmp_path: Path, file: str, changes: dict[str, Any] | None, what: str
) -> None:
    copy = shutil.copytree(failing[0], tmp_path / "copy")
    if changes is None:
        (copy / file).unlink()
    else:
        data = json.loads((copy / file).read_text()) | changes
        (copy / file).write_text(json.dumps(data))
    done = run("judge", str(copy), "--json", "-")
    error = json.loads(done.stdout)["checks"][0]["details"]["errors"][0]
    assert done.exit_code == 2 and what in error["what"] and error["expected"]
    if "schedule" in (changes or {}):
        assert error["do"].startswith("did you mean early")


def test_a_failing_example_is_saved_by_itself(folder: Path) -> None:
    done = run("check", KERNEL, "--plant", PLANTED, "--examples", "2", "--no-edges")
    (saved,) = (folder / "build" / "failing").iterdir()
    assert done.exit_code == 1 and f"tileproof judge build/failing/{saved.name}" in done.stderr
    assert run("trace", str(saved)).exit_code == 0  # a launch file to every other command


def test_any_case_can_be_saved(folder: Path) -> None:
    case = json.loads(run("judge", KERNEL, "--schedules", "2", "--json", "-").stdout)["sections"]["case"]
    words = ("check", KERNEL, f"--case={case['case']}", "--policy", "random", "--schedule-seed", "5")
    assert run(*words, "--save", "right").exit_code == 0
    assert json.loads(Path("right/case.json").read_text())["schedule"] == {"policy": "random", "seed": 5}
    made = json.loads(run("judge", "right", "--schedules", "2", "--json", "-").stdout)
    assert made["verdict"] == "clean" and made["schedules"][0]["policy"] == "random"
    (Path("file")).write_text("")
    assert run(*words, "--save", "file/below").exit_code == 2
    assert not Path("build").exists()


@pytest.mark.parametrize("name", ["head64", "head128-columns", "sm90-gemm", "cutlass-fmha-bwd"])
def test_plans_are_data(name: str) -> None:
    kernel = kernels()[name]
    for variant in kernel.variants:
        plan = kernel.plan(variant)
        assert load_plan(json.loads(json.dumps(dump_plan(plan)))) == plan
