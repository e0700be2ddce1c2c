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


_SMALL = ("--m=128", "--n=128", "--k=256")
_GROUPS = ("--m=128", "--n=128", "--k=128", "--groups=2")
_MIXED = ("--m=128", "--n=128", "--k=512")
_SCALED = "hopper_fp8_warp_specialized_gemm_with_blockwise_scaling"
_SCALED_GROUPS = "hopper_fp8_warp_specialized_grouped_gemm_with_blockwise_scaling"
# Program, arguments, and the finding that is an error. Each compiles for minutes.
HOPPER: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "49_hopper_gemm_with_collective_builder/49_collective_builder": (
        ("--m=128", "--n=128", "--k=128"),
        set(),
    ),
    "50_hopper_gemm_with_epilogue_swizzle/50_hopper_gemm_with_epilogue_swizzle": (_SMALL, set()),
    "54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm": (_SMALL, set()),
    "55_hopper_mixed_dtype_gemm/55_hopper_mixed_dtype_gemm": (_MIXED, set()),
    "57_hopper_grouped_gemm/57_hopper_grouped_gemm": (_GROUPS, set()),
    "62_hopper_sparse_gemm/62_hopper_sparse_gemm": (_SMALL, set()),
    "63_hopper_gemm_with_weight_prefetch/63_hopper_gemm_with_weight_prefetch": (_SMALL, set()),
    f"67_{_SCALED}/67_{_SCALED}": (("--m=256", "--n=256", "--k=256"), set()),
    f"68_{_SCALED_GROUPS}/68_{_SCALED_GROUPS}": (_GROUPS, set()),
    "69_hopper_mixed_dtype_grouped_gemm/69_hopper_mixed_dtype_grouped_gemm": ((*_MIXED, "--groups=2"), set()),
    "88_hopper_fmha/88_hopper_fmha": (("--b=1", "--h=1", "--q=128", "--k=128", "--d=64", "--verify"), set()),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOPPER, ids=lambda name: name[:30])
def test_hopper_programs_verify_themselves(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments, errors = HOPPER[name]
    example = Example("hopper", f"{name}.cu", (), unchecked, hopper=True)
    command = [str(example.program.path), *arguments, "--iterations=0"]
    done = recorder.record(command, run=True, processors=8, hopper=True)
    out = capfd.readouterr().out
    assert ("Passed" in out or "[OK]" in out) and "ailed" not in out
    assert (done.problem, done.failed, done.exit_code) == (None, [], 0)
    found = {f.code for findings in done.findings.values() for f in findings if f.severity == "error"}
    assert found == errors


def unchecked(replay: Replay, how: dict[str, Any]) -> Ran:
    raise AssertionError("the program checks its values")
