"""`tileproof locate` on launch files of `check --save`: an own problem, and one of another package."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.spec import problems
from tileproof.spec.arithmetic import operation
from tileproof.spec.problems.tensors import normal_like

from tests.kit.paths import ROOT

RMS_NORM = ROOT / "tests" / "kit" / "outside" / "rms_norm_backward"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the package, which is forgotten after the test."""
    monkeypatch.setattr(problems, "_registered", {})
    monkeypatch.setattr(operation, "_operations", dict(operation._operations))
    return Path(shutil.copytree(RMS_NORM, tmp_path / "rms"))


def saved(kernel: str, case: dict[str, object], plant: str, folder: Path) -> Path:
    words = ["check", kernel, "--policy", "late", "--case", json.dumps(case), "--save", str(folder)]
    seen = CliRunner().invoke(main, [*words, *(["--plant", plant] if plant else [])])
    assert seen.exit_code == bool(plant), seen.output
    return folder


def located(launch: Path, problem: str, tensors: dict[str, str], *words: str) -> tuple[int, str]:
    pairs = [word for name, buffer in tensors.items() for word in ("--tensor", f"{name}={buffer}")]
    seen = CliRunner().invoke(main, ["locate", str(launch), "--problem", problem, *pairs, *words])
    return seen.exit_code, seen.output


@pytest.mark.parametrize(
    ("plant", "lost", "wrong"), [("", "", ""), ("no-mean", "mean", "dx"), ("square", "", "dx")]
)
def test_a_problem_of_another_package(
    plant: str, lost: str, wrong: str, package: Path, tmp_path: Path
) -> None:
    """Its tensors have the names of its data; rstd and mean are found where they are computed."""
    launch = saved(str(package), {"groups": 2, "blocks": 3}, plant, tmp_path / "saved")
    names = {name: name for name in ("x", "dy", "w", "dx", "dw")}
    code, text = located(launch, str(package), names, "--set", "eps=1e-5")
    assert code == bool(plant), text
    assert "rstd: rsqrt.approx.f32 rms_norm.cu:17" in text
    assert ("mean: div.rn.f32 rms_norm.cu:18" in text) == (lost != "mean")
    assert (f"First stages that are not found: {lost}\n" in text) == bool(lost)
    assert (f"1. {wrong} differs from the spec" in text) == bool(wrong)


SPARSE = {name: name for name in ("q", "kv", "o", "dO", "lse", "indices")} | {"dq": "dQ", "dkv": "dKV"}


@pytest.mark.parametrize("plant", ["h64-ds-without-delta", pytest.param("", marks=pytest.mark.slow)])
def test_sparse_mla_backward(plant: str, tmp_path: Path) -> None:
    """Without delta in dS, the stages before dS are found, and delta and dS are not."""
    case: dict[str, object] = {"d_qk": 512, "h_q": 64, "values": "normal"}
    launch = saved("head64", case, plant, tmp_path / "saved")
    code, text = located(launch, "sparse_mla_bwd", SPARSE, "--set", f"sm_scale={512**-0.5}")
    assert code == bool(plant), text
    found = re.findall(r"^  (\w+): (\S+)", text, re.MULTILINE)
    where = dict(found[:5])
    assert where["P"] == where["dP"] == "tcgen05.ld.sync.aligned.32x32b.x32.b32"
    assert where["S"] == "ex2.approx.ftz.f32"
    assert [name for name in ("delta", "dS") if where[name] == "not"] == (["delta", "dS"] if plant else [])
    assert ("First stages that are not found: delta\n" in text) == bool(plant)


def test_draws_keep_the_sign_and_what_is_not_finite() -> None:
    rng = np.random.default_rng(0)
    given = np.array([[0.5, 2.0, np.inf], [1.0, 0.0, 3.0]], np.float32)
    drawn = normal_like(given, rng)
    assert drawn.dtype == given.dtype and drawn[0, 2] == np.inf
    assert (drawn >= 0).all() and (drawn != given).sum() == 5
    assert (normal_like(-given, rng) <= 0).all()
    assert (normal_like(np.zeros(99), rng) < 0).any()
