"""The blocked implementation: every stage is judged, a defect planted in each is found and named."""

from __future__ import annotations

import pytest
from tileproof.conformance.check.property import check
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.conformance.mutants.defects import planted_reference
from tileproof.kernels.edit import InStage
from tileproof.kernels.host.blocked.mutants import MUTANTS
from tileproof.kernels.registry import kernel

STAGES = {"delta", "P", "S", "D", "dD", "dP", "dS", "dB", "dQ", "dK", "dV"}
CAUSES = {
    "blocked-delta": "o * o instead of o * dO",
    "blocked-s-lse": "lse is not subtracted",
    "blocked-s-base": "lse is taken as one in base 2",
    "blocked-s-mask": "not masked",
    "blocked-s-scale": "sm_scale is missing",
    "blocked-s-bias": "the bias counts in base 2",
    "blocked-d-kept": "nothing is dropped",
    "blocked-d-rescale": "what is kept is not multiplied by 1 / (1 - p)",
    "blocked-d-narrow": "rounded towards zero",
    "blocked-dp-kept": "nothing is dropped",
    "blocked-ds-delta": "delta is not subtracted",
    "blocked-ds-scale": "sm_scale is missing",
    "blocked-db-scale": "sm_scale is applied to it",
    "blocked-dq-last": "the contribution of key block 0 is missing",
    "blocked-dv-last": "the contribution of query block 0 is missing",
    "blocked-dv-s": "S stands in the place of D",
}


@pytest.mark.parametrize(("name", "examples"), [("blocked", 25), ("blocked-f16", 10), ("blocked-f32", 10)])
def test_every_stage_is_judged_and_right(name: str, examples: int) -> None:
    target = kernel(name)
    report = check(on_own_driver(target, target.variants[0]), examples=examples, seed=0)
    assert report.failure is None and report.examples > examples
    assert set(report.scores) >= STAGES
    assert not any("tiles of" in words for words in report.not_judged)


@pytest.mark.parametrize("planted", MUTANTS, ids=lambda one: one.id)
def test_a_planted_defect_is_found_in_its_stage(planted) -> None:
    target = kernel("blocked")
    with planted_reference(planted):
        under_test = on_own_driver(target, target.variants[0], planted=planted)
        report = check(under_test, examples=40, seed=0, shrink_seconds=2.0)
    assert report.failure is not None, "the defect survives"
    assert isinstance(planted.expected, InStage)
    first = report.failure.findings[0]
    assert first.stage == planted.expected.stage
    assert CAUSES.get(planted.id, "") in first.cause


def test_every_stage_has_a_planted_defect() -> None:
    assert {one.expected.stage for one in MUTANTS if isinstance(one.expected, InStage)} == STAGES
