"""CUDA programs over CUB, Thrust, cooperative groups, cuda::barrier, cuda::pipeline, WMMA and PyTorch's
memory-efficient attention backward: their own comparison passes under `record --run`, and `judge` finds no
error in the recording; planted errors are found.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tileproof.conformance.api.calls import judge
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.conformance.verdict.contract import VerdictRecord

FOLDER = Path(__file__).parent.parent / "kit/outside/cuda"
CHECKS = {  # what each program compares
    "functions": 1,
    "groups": 5,
    "pipelines": 3,
    "reductions": 8,
    "sorts": 4,
    "mem_eff_backward": 3,
}
TORCH = [Path(torch.__file__).parent / "include"]  # its headers have the attention backward
pytestmark = pytest.mark.timeout(900)


def recorded(
    name: str,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    defines: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
) -> tuple[list[str], Path]:
    """What the program prints, and the recording of all its launches."""
    program = build(FOLDER / f"{name}.cu", defines, TORCH if name.startswith("mem_eff") else ())
    capfd.readouterr()
    done = recorder.record([str(program.path), *arguments], run=True, processors=4)
    assert (done.problem, done.failed) == (None, [])
    launchfile.write(done, folder, name)
    return capfd.readouterr().out.splitlines(), folder / "launch.json"


def judged(path: Path) -> VerdictRecord:
    """The verdict on the recording; there is no reference, so it is not clean."""
    return judge(path, seconds=300, schedules=6)


@pytest.mark.parametrize("name", CHECKS)
def test_a_right_program_has_no_error(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines, path = recorded(name, tmp_path, capfd)
    assert sum(line.endswith(": right") for line in lines) == CHECKS[name] == len(lines)
    verdict = judged(path)
    assert verdict.verdict == "incomplete" and not verdict.findings


@pytest.mark.parametrize(
    ("name", "define", "code"),
    [("groups", "WITHOUT_BARRIER", "race-clusters"), ("pipelines", "WITHOUT_WAIT", "race-copy-unwaited")],
)
def test_a_planted_error_is_found(
    name: str, define: str, code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, path = recorded(name, tmp_path, capfd, (define,))
    verdict = judged(path)
    assert verdict.verdict == "defect" and code in {finding.code for finding in verdict.findings}


def test_a_wrong_value_is_told_by_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines, _ = recorded("mem_eff_backward", tmp_path, capfd, arguments=("wrong-lse",))
    assert lines == ["dQ: WRONG", "dK: WRONG", "dV: WRONG"]
