"""The trace of a Python function: every write of it, in order; options without a meaning are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.drivers import host_trace
from tileproof.kernels.called import call
from tileproof.kernels.compile import Built
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.types import Json


def of(function) -> LaunchFile:
    outputs = [LaunchBuffer.output("a", (4, 6), np.float32), LaunchBuffer.output("b", (3,), np.float32)]
    return call(Built("f", "", Path(), None, ""), {}, outputs, function)


def test_writes_come_in_order_with_their_places() -> None:
    def function(outputs) -> None:
        outputs["b"][...] = 1
        outputs["a"][1, 2:5] = 2
        outputs["a"][0][3] = 4  # through a view
        outputs["a"][np.array([0, 2])] += 1

    events = host_trace.writes(of(function))
    told = [(event.output, event.index, event.elements) for event in events]
    assert told == [("b", "...", 3), ("a", "1, 2:5", 3), ("a", "3", 1), ("a", "2 places", 12)]
    assert [event.seconds for event in events] == sorted(event.seconds for event in events)
    chrome: Json = host_trace.to_chrome(events)["traceEvents"]
    assert next(event["name"] for event in chrome if event["ph"] == "i") == "b [...]"


def test_a_function_that_writes_nothing_has_no_events() -> None:
    assert host_trace.writes(of(lambda outputs: None)) == []


def test_stages_come_as_the_blocked_backward_makes_them(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    assert CliRunner().invoke(main, ["trace", "blocked", "--out", str(out)]).exit_code == 0
    names = [
        event["name"].split()[0] for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "i"
    ]
    first = list(dict.fromkeys(names))
    assert first == ["delta", "P", "S", "dD", "dP", "D", "dS", "dQ", "dB", "dK", "dV"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "blocked", "--role", "mma"], "no schedule, roles"),
        (["explore", "blocked"], "a Python function: it has no PTX"),
    ],
)
def test_what_has_no_meaning_for_a_function_is_refused_by_name(words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code != 0 and said in f"{result.output}{result.exception}".replace("\n", " ")
