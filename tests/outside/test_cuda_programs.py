"""CUDA programs over CUB, Thrust, cooperative groups, cuda::barrier, cuda::pipeline, WMMA and PyTorch's
memory-efficient attention backward: their own comparison passes under `record --run`, and `judge` finds no
error in the recording; planted errors are found.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tileproof.conformance.api.calls import judge
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.conformance.cli.locate import locate
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.machine.errors import TileproofError

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
    """The verdict on the recording; there is no reference, so it is not clean. Beside the schedules run those
    that reverse what the first run left open.
    """
    return judge(path, seconds=300, schedules=2)


SLOW = ("sorts",)  # of which the stable sort with a comparator and the merge run always


@pytest.mark.parametrize(
    ("name", "defines", "checks"),
    [
        pytest.param(name, (), checks, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, checks in CHECKS.items()
    ]
    + [("sorts", ("WITHOUT_RADIX",), 2)],
)
def test_a_right_program_has_no_error(
    name: str, defines: tuple[str, ...], checks: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines, path = recorded(name, tmp_path, capfd, defines)
    assert sum(line.endswith(": right") for line in lines) == checks == len(lines)
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


# Where the recording of mem_eff_backward.cu has the tensors of its problem.
SHAPES = {"q": 96, "k": 120, "v": 120, "lse": None, "o": 96, "dO": 96, "delta": None}
STAGES = ("delta", "P", "S", "dD", "dS")  # D is S, dP is dD without dropout; dB is dS / sm_scale
OUTPUTS = {"dq": 96, "dk": 120, "dv": 120}


def stages_of(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and output of `tileproof locate` on the recording."""
    words = [str(path), "--problem", "dense_attention_bwd_f16", "--rounding", "torch-efficient-f16"]
    words += ["--set", "sm_scale=0.125", "--set", "causal=0"]
    for number, (name, rows) in enumerate((SHAPES | OUTPUTS).items()):
        shape = f"float16[1,{rows},2,64]" if rows else "float32[1,2,96]"
        if name != "delta":
            words += ["--tensor", f"{name}=allocation {number}:{shape}"]
    code = locate.main(words, standalone_mode=False)
    return code, capsys.readouterr().out


def test_every_stage_of_the_attention_backward_is_found_in_registers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, path = recorded("mem_eff_backward", tmp_path, capfd)
    code, text = stages_of(path, capfd)
    assert code == 0, text
    assert all(f"  {name}: " in text for name in STAGES)
    assert "no register" not in text and "too few" not in text
    for stage in STAGES:
        assert re.search(rf"{stage}, from \S.*: (\d+) of \1 elements within", text)


# dP - delta, which is then multiplied by S; the planted kernel multiplies dP.
DIFFERENCE = re.compile(r"sub\.f32 (%f\d+), (%f\d+), (%f\d+);\n(?=mul\.f32 %f\d+, %f\d+, \1;)")


@pytest.mark.slow
def test_the_first_stage_that_is_not_found_is_the_wrong_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, path = recorded("mem_eff_backward", tmp_path, capfd)
    ptx = path.parent / "module-0.ptx"
    text, count = DIFFERENCE.subn(r"mov.f32 \1, \2;\n", ptx.read_text())
    assert count == 32
    ptx.write_text(text)
    code, text = stages_of(path, capfd)
    assert code == 1
    missing = re.findall(r"  (\w+): no register", text)
    assert missing == ["dS"]
    assert {"dQ", "dK"} <= set(re.findall(r"\d\. (\w+) (?:differs|is wrong)", text))
    assert "dV, from your S: 15360 of 15360" in text


def test_a_wrong_lse_is_refused_before_stages_are_searched(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, path = recorded("mem_eff_backward", tmp_path, capfd, arguments=("wrong-lse",))
    with pytest.raises(TileproofError, match="lse"):
        stages_of(path, capfd)


def test_a_wrong_value_is_reported_by_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines, _ = recorded("mem_eff_backward", tmp_path, capfd, arguments=("wrong-lse",))
    assert lines == ["dQ: WRONG", "dK: WRONG", "dV: WRONG"]
