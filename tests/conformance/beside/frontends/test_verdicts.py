"""A block's verdict and its launch files: the gate's schema, and launches that run again elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tileproof.spec.machine.finding_text import place

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

import numpy as np
import torch
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.placing import PlacedLaunch
from tileproof.conformance.verdict import jsonform
from tileproof.emulator import Schedule
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch.reading import read
from tileproof.tools.bugs import triton_kernels, triton_programs
from tileproof.triton import EmulatedRun, emulate

from tests.kit.outside import host_kernels
from tests.kit.paths import ROOT


def checked(run: EmulatedRun) -> dict[str, object]:
    """The verdict's JSON, held against the published schema."""
    data = json.loads(jsonform.text(run.verdict()))
    schema = json.loads((ROOT / "conformance" / "verdict" / "verdict.schema.json").read_text())
    jsonschema.validate(data, schema)
    return dict(data)


def test_a_right_block_is_incomplete_and_says_what_was_not_shown() -> None:
    with emulate(policy="random", seed=5) as run:
        assert triton_programs.add("") and triton_programs.product("")
    data = checked(run)
    assert (data["verdict"], data["exit_code"], data["seed"]) == ("incomplete", 3, 5)
    outcomes = {check.name: check.outcome for check in run.verdict().checks}
    assert outcomes == {"machine": "passed", "races": "passed", "values": "not run", "schedules": "not run"}
    program = run.verdict().program
    assert program.kernel == "add, product" and program.toolchain.startswith("Triton 3.")
    # Two steps along K leave out the copies of a longer pipeline, which is named.
    assert any("cp.async.bulk.tensor" in why and "triton_kernels.py" in why for why in run.verdict().why)


def test_a_wrong_block_is_a_defect_at_its_line() -> None:
    with emulate(raises=False) as run:
        triton_programs.add("")
        triton_programs.add("mask")
        triton_programs.softmax("race")
    made = run.verdict()
    assert checked(run)["exit_code"] == 1
    assert [(finding.check, finding.code) for finding in made.findings] == [
        ("machine", "global-out-of-bounds"),
        ("races", "race-clusters"),
    ]
    assert made.findings[0].machine.source == triton_programs.planted_line("add", "mask")
    assert place(made.findings[0]).startswith("launch 2, add, CTA")


def test_what_was_not_run_is_not_shown() -> None:
    with emulate(races=False) as run:
        triton_programs.add("")
    assert {check.name: check.outcome for check in run.verdict().checks}["races"] == "not run"
    with emulate() as run:
        pass
    made = run.verdict()
    assert made.verdict == "incomplete" and made.coverage is None and "nothing was launched" in made.why[0]


def test_launches_are_saved_as_they_began_and_run_again(tmp_path: Path) -> None:
    x, out = torch.randn(128, 128), torch.zeros(128, 128)
    with emulate() as run:
        host_kernels.doubled[(2,)](x, out, 128, 128, 64, 64)  # descriptors in scratch memory
        a, b, c = (torch.ones(256, 128, dtype=torch.float16) for _ in range(2)), 0, torch.zeros(256, 256)
        del b
        triton_kernels.product[(2, 2, 1)](
            *triton_programs._maps(*a, box=(128, 64)), c, 256, 128, 128, 128, 64, ""
        )
    x.fill_(7)  # after the launch: the file has what it was before
    paths = run.save(tmp_path)
    assert [path.parent.name for path in paths] == ["1-doubled", "2-product"]
    for path, name, expected in zip(paths, ("out", "c"), (out, c), strict=True):
        file = read(path)
        modules = load(file)
        assert not contradictions(file, modules)
        placed = PlacedLaunch(file, modules)
        (result,) = placed.run(lambda number, launch: {"races": True, "schedule": Schedule("late")})
        assert not result.errors
        assert np.array_equal(placed.buffers[name].numpy(), expected.numpy())
    assert run.last.file().buffers[0].bytes == 256 * 128 * 2


def test_a_launch_runs_again_under_another_schedule() -> None:
    x, out = torch.arange(1000.0), torch.zeros(1000)
    with emulate() as run:
        host_kernels.add[(4,)](x, x, out, 1000, BLOCK=256)
    result, outputs = run.last.launch.again(Schedule("pct", 3), races=True)
    assert not result.errors and np.array_equal(outputs["out"].view(np.float32), 2 * np.arange(1000.0))


def test_what_was_not_kept_cannot_be_saved(tmp_path: Path) -> None:
    with emulate(keep=100) as run:
        host_kernels.add[(1,)](*(torch.zeros(100),) * 3, 100, BLOCK=128)
    assert "so the launch cannot run again" in run.notes[0]
    with pytest.raises(LaunchError, match="were not kept"):
        run.save(tmp_path)
    with pytest.raises(LaunchError, match="were not kept"):
        run.last.launch.again(Schedule())


def sums(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What `add` should give; x and y have its tensors' names."""
    return {"out": x + y}


def test_a_right_launch_is_judged_clean_with_a_reference() -> None:
    x, y, out = torch.rand(1000), torch.rand(1000), torch.zeros(1000)
    with emulate() as run:
        host_kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
    (made,) = run.judge({"add": sums}, seconds=20, schedules=4, processes=1)
    assert made.verdict == "clean", made.why
    assert sum(schedule.launches for schedule in made.schedules) == 1  # certified
    with pytest.raises(LaunchError, match="was not launched"):
        run.judge({"other": sums})
    with pytest.raises(LaunchError, match="not a tensor of the launch"):
        run.last.judge(outputs=["z"])


def test_a_wrong_value_and_an_order_that_breaks_the_kernel_are_found_by_judging() -> None:
    x, out = torch.rand(1000), torch.zeros(1000)
    with emulate() as run:
        host_kernels.add[(4,)](x, x, out, 1000, BLOCK=256)
    made = run.last.judge(lambda x: {"out": 3 * x}, seconds=20, schedules=2, processes=1)
    assert made.verdict == "defect" and {finding.check for finding in made.findings} == {"values"}
    # Without races: what several warps leave at one place is another under another order.
    with emulate(races=False) as run:
        triton_programs.add("race")
    made = run.last.judge(seconds=30, schedules=8, processes=1)
    assert made.verdict == "defect" and {finding.check for finding in made.findings} == {"schedules"}
