"""Mutants of a launch file: drawn from its PTX, judged by its own runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.launched import OriginalLaunch, judge_one, original
from tileproof.conformance.cli.app import main
from tileproof.conformance.judging.reference import load
from tileproof.kernels.launch import jsonform
from tileproof.spec.machine.errors import TileproofError

from tests.kit.newcomer import WAIT, write_scale


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_scale(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def base(expect: bool) -> OriginalLaunch:
    file = jsonform.read(Path("scale.json"))
    return original(file, None, load("ref.py") if expect else None, "quick")


def changed(launch: OriginalLaunch, old: str, new: str) -> Drawn:
    """The mutant with a text of its PTX replaced, on the first line that holds it."""
    number, line = next((n, text) for n, text in enumerate(launch.code.lines, 1) if old in text)
    return Drawn(0, "by hand", old, (("PTX", number),), lines={number: line.replace(old, new)})


@pytest.mark.parametrize("expect", [True, False])
def test_a_removed_wait_is_killed_as_a_race_at_its_place(folder: Path, expect: bool) -> None:
    launch = base(expect)
    found = judge_one(launch, changed(launch, WAIT.strip(), ""))
    assert (found.outcome, found.by, found.kind) == ("killed", "race-copy-unwaited", "machine")
    other = judge_one(launch, changed(launch, "ld.shared.f32 %f1, [%r2]", "ld.shared.f32 %f1, [%r2+8]"))
    assert other.outcome == "killed" and other.place


def test_a_wrong_value_is_killed_by_the_reference_or_by_the_original(folder: Path) -> None:
    mutant = ("mul.f32 %f1, %f1, %f2", "add.f32 %f1, %f1, %f2")
    by_reference = judge_one(base(True), changed(base(True), *mutant))
    by_original = judge_one(base(False), changed(base(False), *mutant))
    assert (by_reference.outcome, by_reference.by) == ("killed", "value out")
    assert (by_original.outcome, by_original.by) == ("killed", "value out")
    assert "reference" in by_reference.message and "original" in by_original.message


def test_the_bound_of_the_reference_is_not_the_bits_of_the_original(folder: Path) -> None:
    """A last bit inside the reference's bound survives with --expect, and is killed without it."""
    mutant = ("mul.f32 %f1, %f1, %f2;", "fma.rn.f32 %f1, %f1, %f2, 0f35800000;")  # plus 2^-20
    assert judge_one(base(False), changed(base(False), *mutant)).outcome == "killed"
    assert judge_one(base(True), changed(base(True), *mutant)).outcome == "survived"


def test_an_endless_loop_is_killed_by_the_limit_of_instructions(folder: Path) -> None:
    launch = base(True)
    found = judge_one(launch, changed(launch, "mov.u32 %r2, tile;", "L: bra L; mov.u32 %r2, tile;"))
    assert found.outcome == "killed" and found.by in ("instruction-limit", "hang", "not read")


def test_a_launch_with_a_finding_has_no_mutants(folder: Path) -> None:
    with pytest.raises(TileproofError, match="the launch is not clean"):
        original(jsonform.read(Path("broken.json")), None, None, "quick")


def mutated(*words: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(main, ["mutate", *words, "-j", "2", "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_the_command(folder: Path) -> None:
    words = ("scale.json", "--expect", "ref.py", "--count", "8", "--seed", "1")
    code, made = mutated(*words)
    outcomes = [row["outcome"] for row in made["mutants"]]
    assert code == int("survived" in outcomes) and outcomes.count("killed") >= 3
    assert len({tuple(row["at"]) for row in made["mutants"]}) > 3  # every line of the PTX is a place
    again = mutated(*words)[1]["mutants"]
    assert [(row["what"], row["outcome"]) for row in again] == [
        (row["what"], row["outcome"]) for row in made["mutants"]
    ]
    assert mutated("scale.json", "--entry", "none")[1]["error"]["expected"] == "scale"


def test_the_gate_adds_the_score_of_a_launch_file(folder: Path) -> None:
    words = ["gate", "scale.json", "--expect", "ref.py", "--out", "g", "--mutants", "4", "--json"]
    done = CliRunner().invoke(main, words)
    (judged,) = json.loads(done.stdout)["kernels"]
    saved = json.loads(Path("g/evidence.json").read_text())["kernels"][0]["sections"]["mutation"]
    assert judged["sections"]["mutation"] == saved and saved["drawn"] == 4 and saved["kernel"] == "scale"
