"""The gate on kernels that are Python functions: what has a meaning for them runs, and finds faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.gate.checks import controls, relations, stages
from tileproof.conformance.gate.evidence import verdict_on
from tileproof.conformance.gate.model import GatedVariant, checks
from tileproof.conformance.gate.runner import CheckJob, in_process
from tileproof.conformance.planted.defects import defect, planted_reference
from tileproof.kernels.host.blocked import kernel as blocked
from tileproof.kernels.registry import kernel

FUNCTIONS = {"stage conformance", "determinism", "metamorphic relations", "planted controls"}


def gated(name: str) -> GatedVariant:
    target = kernel(name)
    return GatedVariant(target, target.variants[0])


def result(name: str, on: GatedVariant) -> Any:
    return in_process(CheckJob(checks()[name], on, on.key))


def test_a_right_function_is_clean() -> None:
    """PyTorch's, whose controls are its outputs made wrong; checks of PTX are not asked for."""
    on = gated("torch-cpu-flash")
    results = [result(check.name, on) for check in checks().values() if not check.release]
    assert {result.check.name for result in results if result.check.outcome == "passed"} == FUNCTIONS
    rest = [result.check for result in results if result.check.name not in FUNCTIONS]
    assert all(
        check.outcome == "not run" and not check.required and "no PTX" in check.reason for check in rest
    )
    tried = [control for result in results for control in result.controls]
    assert {control.expected for control in tried if control.fired} == {"LSE", "O", "dQ", "dK", "dV"}
    assert verdict_on(on, results, interrupted=False).verdict == "clean"


def test_a_planted_defect_fails_it_with_a_replay() -> None:
    planted = defect("blocked-dq-last")
    on = replace(gated("blocked"), planted=planted)
    with planted_reference(planted):
        report = stages.stages(on)
    assert report.outcome == "failed" and report.findings[0].problem.stage == "dQ"
    assert report.details["failure"]["replay"].startswith("tileproof check blocked '--case=")
    assert "no trace" in report.details["failure"]["trace"][0]


def test_its_own_planted_defects_are_its_controls() -> None:
    report = controls.controls(gated("blocked"))
    assert report.outcome == "passed"
    assert {control.expected for control in report.controls} >= {
        "delta",
        "P",
        "S",
        "D",
        "dD",
        "dP",
        "dS",
        "dB",
        "dQ",
    }


def changed(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    right = blocked.backward

    def wrong(inputs: Any, rows: int, cols: int, outputs: Mapping[str, np.ndarray]) -> None:
        right(inputs, rows, cols, outputs)
        change(outputs)

    monkeypatch.setattr(blocked, "backward", wrong)


def test_a_function_that_is_not_repeated_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    on = gated("blocked")
    assert stages.determinism(on).outcome == "passed"
    calls = iter(range(100))
    changed(monkeypatch, lambda outputs: outputs["dQ"].__setitem__((0, 0, 0, 0), next(calls)))
    report = stages.determinism(on)
    assert report.outcome == "failed" and "output dQ" in report.reason


def test_a_relation_that_does_not_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, lambda outputs: outputs["dV"].__setitem__(..., 1))
    assert relations.relations(gated("blocked")).outcome == "failed"
