"""The command that judges a kernel and its mutants on a card, here on the emulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.gemm.defects import ORDER, VALUES
from tileproof.tools.silicon.judged import judged, main, same_bits

KERNEL = kernel("sm90-gemm")
HERE = EmulatorDriver(races=False)


def test_the_kernel_and_its_mutants_are_distinguished() -> None:
    """The last mutant needs race checking, which this driver leaves out, and says so."""
    few = replace(KERNEL, defects=lambda: (VALUES[0], ORDER[-1]))
    found = judged(few, HERE, 2)
    assert found["kernel"]["verdict"] == "clean" and "races" in found["kernel"]["not_judged"][0]
    first, last = found["mutants"].values()
    assert first["verdict"] == "defect" and first["finding"] and first["repeated"]
    assert last["verdict"] == "clean" and "finding" not in last


def test_bits_are_compared_with_the_exact_tensor_core() -> None:
    exact = same_bits(KERNEL, replace(HERE, mma="exact"), 5)
    assert exact == {"launches": 5, "D": 5, "product": 5}
    assert same_bits(KERNEL, HERE, 20)["product"] < 20


def test_the_command_writes_its_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(KERNEL, defects=lambda: ())
    monkeypatch.setattr("tileproof.tools.silicon.judged.find_kernel", lambda name: few)
    out = tmp_path / "evidence.json"
    done = CliRunner().invoke(main, ["sm90-gemm", str(out), "--examples", "2", "--driver", "emulator"])
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text())["driver"] == "emulator" and "not judged: races" in done.output
