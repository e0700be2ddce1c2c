"""CUTLASS's examples under `record --run`: their own verification runs on what the emulator computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.beside.record.recording import Replay
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import load
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch import jsonform

from tests.kit.outside.cutlass_cases import EXAMPLES
from tests.kit.outside.cutlass_example import Example, Ran, curand

try:
    curand()
except LaunchError as error:
    pytest.skip(str(error), allow_module_level=True)

PROGRAMS = {example.name: example for example in EXAMPLES}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "arguments", "kernel", "says"),
    [
        ("70-fp16", ("--m=256", "--n=256", "--k=128", "--iterations=0"), "device_kernel", "Passed"),
        pytest.param(
            "77-forward",
            ("--b=1", "--h=1", "--d=128", "--q=256", "--k=256", "--iterations=0", "--verify"),
            "Sm100Fmha",
            "[OK]",
            marks=pytest.mark.slow,  # it compiles for minutes
        ),
    ],
)
def test_its_own_verification_passes(
    name: str,
    arguments: tuple[str, ...],
    kernel: str,
    says: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = [str(PROGRAMS[name].program.path), *arguments]
    done = recorder.record(command, run=True, processors=8, wanted=kernel)
    assert says in capfd.readouterr().out
    # The forward's findings are defects of theirs, which docs/outside.md explains.
    assert (done.problem, done.failed, done.exit_code) == (None, [], 0)
    assert name == "77-forward" or not done.findings
    launchfile.write(done, tmp_path, name, kernel)
    launch = jsonform.read(tmp_path / "launch.json")
    (step,) = launch.launches
    assert kernel in step.entry
    assert contradictions(launch, load(launch)) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "source",
    [
        "54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu",
        pytest.param(
            "63_hopper_gemm_with_weight_prefetch/63_hopper_gemm_with_weight_prefetch.cu",
            marks=pytest.mark.slow,  # another program of the same templates
        ),
    ],
)
def test_hopper_programs_verify_themselves(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    example = Example("hopper", source, (), unchecked, hopper=True)
    command = [str(example.program.path), "--m=128", "--n=128", "--k=256", "--iterations=0"]
    done = recorder.record(command, run=True, processors=132, hopper=True)
    assert "Passed" in capfd.readouterr().out
    assert (done.problem, done.failed, done.exit_code) == (None, [], 0)
    assert not any(finding.severity == "error" for found in done.findings.values() for finding in found)


def unchecked(replay: Replay, how: dict[str, Any]) -> Ran:
    raise AssertionError("the program checks its values")
