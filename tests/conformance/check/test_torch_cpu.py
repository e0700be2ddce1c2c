"""PyTorch's CPU flash attention, forward and backward: judged, its features discovered, refusals by name."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.check.property import check, replay
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.host.torch_cpu import host
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.dense_attention_bwd import features
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

NAMES = ("torch-cpu-flash", "torch-cpu-flash-f16", "torch-cpu-flash-f32")


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward_are_right(name: str) -> None:
    target = kernel(name)
    report = check(on_own_driver(target, target.variants[0]), examples=20, seed=0)
    assert report.failure is None, report.failure
    assert {"LSE", "O", "dQ", "dK", "dV"} <= set(report.scores)
    assert any("tiles of delta, P" in words for words in report.not_judged)
    assert any(words.startswith("problems with dropout") for words in report.not_judged)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_problems(name: str) -> None:
    target = kernel(name)
    report = check(on_own_driver(target, target.variants[0]), examples=500, seed=1)
    assert report.failure is None


def test_what_the_operator_takes_is_discovered() -> None:
    refused = dict(host.refusals())
    assert "do not support dropout" in refused[features.DROPOUT]
    assert "same head size" in refused[features.VALUE_HEAD]
    assert set(refused) == {features.DROPOUT, features.VALUE_HEAD, *host.PACKED}


@pytest.mark.parametrize("feature", [features.DROPOUT, features.VALUE_HEAD, features.PACKED])
def test_a_refused_case_is_refused_by_name_before_it_runs(feature: str) -> None:
    target = kernel("torch-cpu-flash")
    with pytest.raises(TileproofError, match=feature):
        replay(on_own_driver(target, target.variants[0]), features.sample(feature), Schedule())


@pytest.mark.parametrize("feature", features.FEATURES)
def test_a_sample_has_its_feature_and_can_lose_it(feature: str) -> None:
    case = features.sample(feature)
    assert feature in features.of(case.problem, case.bias)
    without = features.without(case, frozenset({feature}))
    assert feature not in features.of(without.problem, without.bias)


WRONG = {
    "dQ": lambda out: out["dQ"] * np.float32(1.02),
    "dK": lambda out: out["dK"] + np.abs(out["dK"]).max() * np.float32(0.02),
    "dV": lambda out: out["dV"][:, :, ::-1],
    "O": lambda out: out["O"] * np.float32(1.02),
    "LSE": lambda out: out["LSE"] + np.float32(0.01),
}


@pytest.mark.parametrize("stage", WRONG)
def test_a_wrong_output_is_found(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tileproof.kernels.host.torch_cpu import kernel as module

    right = module.run

    def wrong(inputs, outputs) -> None:
        right(inputs, outputs)
        outputs[stage][...] = WRONG[stage]({name: x.astype(np.float32) for name, x in outputs.items()})

    monkeypatch.setattr(module, "run", wrong)
    target = kernel("torch-cpu-flash")
    case = DenseCase(m=40, n=50, d_qk=32, d_v=32)
    report = replay(on_own_driver(target, target.variants[0]), case, Schedule())
    assert report.failure is not None and report.failure.findings[0].problem.stage == stage
