"""An outside package with an operation, stages of rsqrt and div, and a CUDA kernel passes through `check`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.cli.app import main
from tileproof.spec import problems
from tileproof.spec.arithmetic import operation, registered

from tests.kit.paths import ROOT

PACKAGE = ROOT / "tests" / "kit" / "outside" / "rms_norm_backward"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(problems, "_registered", {})
    monkeypatch.setattr(operation, "_operations", dict(operation._operations))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package at a path that no test has loaded before."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "rms"))


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), standalone_mode=True)


def result_of(seen: Result) -> dict[str, Any]:
    (result,) = json.loads(seen.stdout)["results"]
    return dict(result)


def test_the_kernel_is_clean(package: Path) -> None:
    assert "cube" not in registered()
    seen = run("check", str(package), "--examples", "6", "--json")
    assert seen.exit_code == 0, seen.output
    result = result_of(seen)
    assert set(result["stages"]) == {"rstd", "mean", "dx", "dw"}
    assert all(
        stage["tiles"] >= 9 and 0 < stage["worst_error_over_bound"] <= 1
        for stage in result["stages"].values()
    )
    assert "cube" in registered()


@pytest.mark.parametrize(
    ("plant", "stage"),
    [
        ("no-eps", "rstd"),
        ("fast-root", "rstd"),
        ("no-mean", "mean"),
        ("square", "dx"),
        ("one-row-short", "dw"),
    ],
)
def test_a_planted_defect_is_found_in_its_stage(package: Path, plant: str, stage: str) -> None:
    seen = run("check", str(package), "--examples", "4", "--plant", plant, "--json")
    assert seen.exit_code == 1, seen.output
    assert {finding["problem"]["stage"] for finding in result_of(seen)["findings"]} == {stage}


def test_a_stage_with_an_unknown_operation_is_an_error_that_names_it(package: Path) -> None:
    file = package / "kernel.py"
    file.write_text(file.read_text().replace("m.rsqrt(", "m.rsqr("))
    seen = run("check", str(package), "--examples", "1")
    assert seen.exit_code == 2, seen.output
    assert "unknown operation rsqr: did you mean rsqrt" in seen.output and "stage rstd" in seen.output
    assert "Traceback" not in seen.output and "internal" not in seen.output
