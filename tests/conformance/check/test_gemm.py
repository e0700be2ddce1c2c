"""NVIDIA's tutorials through the same check and trace as the kernels here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.cli.app import main
from tileproof.conformance.drivers.capture import Schedule
from tileproof.conformance.problems.gemm import GemmCase
from tileproof.conformance.problems.generators import from_json, small
from tileproof.kernels import tutorials
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

NAMES = list(tutorials.targets())


def checked(name: str, **changes: object) -> engine.Report:
    target = kernel(name)
    subject = on_emulator(replace(target, **changes), target.variants[0], races=False)
    case = replace(small(subject.plan(), 1), alpha=1.3, beta=-0.7)  # type: ignore[type-var]
    return engine.replay(subject, case, Schedule("late"))


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_conforms_tile_by_tile(name: str) -> None:
    report = checked(name)
    assert report.failure is None
    assert report.scores["D"].tiles == kernel(name).plan(kernel(name).variants[0]).cluster
    assert 0 < report.scores["D"].worst <= 1


def test_a_launch_with_alpha_and_beta_exchanged_is_found() -> None:
    own = kernel("tutorial-01").describe
    report = checked(
        "tutorial-01",
        describe=lambda inputs, *rest: own(replace(inputs, alpha=inputs.beta, beta=inputs.alpha), *rest),
    )
    assert report.failure is not None
    first = report.failure.findings[0]
    assert (first.stage, first.cta, first.wrong > first.elements // 2) == ("D", 0, True)


def test_generated_problems_pass_and_the_races_of_tutorial_01_are_told() -> None:
    target = kernel("tutorial-01")
    quiet = engine.check(on_emulator(target, target.variants[0], races=False), examples=4, seed=3)
    assert quiet.failure is None and quiet.examples == 2 + 4  # two edges
    case = GemmCase(128, 256)
    told = engine.replay(on_emulator(target, target.variants[0]), case, Schedule("early"))
    assert told.failure is not None
    assert {one.code for one in told.failure.findings} >= {"race-proxy-fence"}


def test_cases_survive_their_text() -> None:
    case = GemmCase(128, 256, m=2, k_tiles=3, alpha=0.7, values="tiny", seed=5)
    assert from_json(case.as_json()) == case
    for wrong in ('{"problem":"gemm"}', '{"problem":"gemm","step_m":128,"step_n":0}'):
        with pytest.raises(TileproofError):
            from_json(wrong)


def test_the_command_line_takes_a_tutorial(tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = CliRunner()
    words = ["check", "tutorial-01", "--no-races", "--examples", "2", "--json"]
    done = run.invoke(main, words)
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["results"][0]["stages"]) == {"D", "D from end to end"}
    trace = tmp_path / "trace.json"
    done = run.invoke(main, ["trace", "tutorial-02", "--blocks", "1", "--out", str(trace)])
    assert done.exit_code == 0 and json.loads(trace.read_text())
    assert run.invoke(main, ["check", "tutorial-01", "--stage", "dQ", "--examples", "1"]).exit_code == 2
