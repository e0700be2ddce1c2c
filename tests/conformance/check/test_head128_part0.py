"""The clean kernel on the emulator: no finding, both tensor-core modes, every policy, both widths."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase

KERNEL = kernel("head128-part0")
WHOLE = SparseCase(
    576,
    s_kv=200,
    blocks=4,
    tokens=(Indices("permuted"), Indices("random", holes=((5, -1),)), Indices("reversed", dead_blocks=(1,))),
    lengths=(256, 130, 0),
    values="coordinates",
    poison=True,
    garbage_tail=True,
)


@pytest.mark.parametrize("d_qk", (576, 512))
def test_clean_kernel_gives_no_finding(d_qk):
    report = engine.check(
        on_emulator(KERNEL, KERNEL.variant(d_qk=d_qk)), examples=40, seed=11, with_edges=False
    )
    assert report.failure is None, report.failure
    assert report.examples == 40 and report.scores["P"].tiles and report.agreed


@pytest.mark.parametrize("policy", ("early", "late", "random"))
@pytest.mark.parametrize("mma", ("fast", "exact"))
def test_policies_and_tensor_core_modes(policy, mma):
    verdict = run_case(on_emulator(KERNEL, KERNEL.variant(d_qk=576), mma=mma), WHOLE, Schedule(policy, 3))
    assert verdict.findings == []
    # Tokens of 256, 130 and 0 slots have 4, 3 and 0 k-blocks; two CTAs, two builds.
    assert verdict.scores["P"].tiles == 2 * 2 * (4 + 3)
    assert verdict.scores["P"].exact == verdict.scores["P"].elements
    assert verdict.scores["delta"].tiles == 2 * 2 * 3


def run(*words):
    command = [sys.executable, "-m", "tileproof.conformance.cli", "check", "head128-part0", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_line_exits_0_on_the_clean_kernel_and_1_on_a_planted_defect(tmp_path):
    clean = run("--d-qk", "576", "--examples", "5", "--no-edges", "--json")
    assert clean.returncode == 0
    assert json.loads(clean.stdout)["verdict"] == "clean"
    sarif, junit = tmp_path / "out.sarif", tmp_path / "out.xml"
    planted = run(
        "--d-qk", "576", "--examples", "20", "--no-edges", "--plant", "scale-in-p", "--json",
        "--sarif", str(sarif), "--junit", str(junit),
    )  # fmt: skip
    assert planted.returncode == json.loads(planted.stdout)["exit_code"] == 1
    (verdict,) = json.loads(planted.stdout)["verdicts"]
    assert (verdict["schema"], verdict["verdict"]) == ("tileproof-verdict", "defect")
    (found, *_) = json.loads(sarif.read_text())["runs"][0]["results"]
    names = [place["fullyQualifiedName"] for place in found["locations"][0]["logicalLocations"]]
    assert found["ruleId"] == "value" and names[1].endswith("/P") and "k-block" in names[2]
    assert verdict["findings"][0]["replay"] in (ElementTree.parse(junit).getroot()[0][0][0].text or "")
    result = json.loads(planted.stdout)["results"][0]
    assert result["findings"][0]["problem"]["stage"] == "P"
    replayed = run(
        "--case", result["case"], "--policy", result["schedule"]["policy"], "--plant", "scale-in-p"
    )
    assert replayed.returncode == 1
    assert "times 1 / sm_scale" in replayed.stdout and "replay:" in replayed.stdout
