"""The picture of a trace: what is shown, the picture in docs/, and the command's choices."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cases.generators import small
from tileproof.conformance.cli.trace import trace
from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.names import PlanTraceNames
from tileproof.conformance.planted.defects import build_planted, planted_on
from tileproof.conformance.report.trace_picture import TracePicture, collect
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule

from tests.kit.paths import ROOT

PICTURE = ROOT / "docs" / "trace-head64.png"


def shown(plant: str = "") -> TracePicture:
    found = kernel("head128-part0")
    plan = found.plan(found.variants[0])
    built = build_planted(found, found.variants[0], planted_on(found, plant) if plant else None)
    inputs = small(plan, 2).inputs()
    launch = found.launch(inputs, built)
    _, events = emulator.run_traced(launch, plan, schedule=Schedule("random", 0))
    return collect(events, PlanTraceNames(plan, inputs))


def test_waits_have_the_name_of_their_barrier_and_an_arrow_from_what_ended_them() -> None:
    picture = shown()
    waits = [bar for bar in picture.bars if bar.what == "wait"]
    ready = [bar for bar in waits if bar.text.startswith("p_ready") and bar.by is not None]
    assert {bar.row[2] for bar in ready} == {"p_consumer"}
    assert {bar.by[0][2] for bar in ready if bar.by is not None} == {"tensor core"}
    assert any(bar.text.endswith(" k0") for bar in waits)
    for bar in waits:
        assert bar.begin <= bar.end and (bar.by is None or bar.by[1] <= bar.end)
    for bar, other in permutations(picture.bars, 2):
        if (bar.row, bar.level) == (other.row, other.level):
            apart = bar.end <= other.begin or other.end <= bar.begin
            assert apart or "commit" in (bar.what, other.what)


def test_a_hang_shows_waits_that_are_never_over() -> None:
    never = [bar for bar in shown("p-ready-to-one-cta").bars if bar.what == "never over"]
    assert any(bar.row[0].endswith("CTA 1") and bar.text.startswith("p_ready") for bar in never)
    assert all(bar.by is None for bar in never)


def pixels(path: Path) -> Any:
    image = pytest.importorskip("matplotlib.image")
    return image.imread(path)


def test_the_picture_in_docs_is_what_its_command_draws(tmp_path: Path) -> None:
    command = "trace head64 --blocks 2 --picture trace-head64.png"
    assert f"tileproof {command}" in (ROOT / "docs" / "trace.md").read_text()
    made = tmp_path / "made.png"
    args = [str(made) if word.endswith(".png") else word for word in command.split()[1:]]
    assert CliRunner().invoke(trace, args, standalone_mode=False).return_value == 0
    same = pixels(made).shape == pixels(PICTURE).shape and np.array_equal(pixels(made), pixels(PICTURE))
    assert same, f"draw it anew: .venv/bin/tileproof {command}"


def test_choices_of_the_command(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    args = ["head128-part0", "--blocks", "1", "--role", "mma", "--barrier", "p_ready", "--out", str(out)]
    assert CliRunner().invoke(trace, args, standalone_mode=False).return_value == 0
    events = json.loads(out.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "tensor core" in tracks and all(name == "tensor core" or name.startswith("mma") for name in tracks)
    wrong = CliRunner().invoke(trace, [*args, "--role", "nobody"], standalone_mode=False)
    assert isinstance(wrong.exception, TileproofError) and "p_consumer" in str(wrong.exception.expected)
