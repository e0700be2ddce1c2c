"""The attention sink: the reference agrees with autograd, d_sink in f32 with its bound; no limit is a NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.kernels.host import sparse_mla_sink as host
from tileproof.reference import oracle
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd import sink_exact as sink
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, validate

from tests.kit.mla_problems import outputs, problems

TOLERANCE = 1e-11
LIMITS = [-np.inf, -2.4e38, 0.5, 2e38, 2.4e38, np.inf]  # corpus H8 and N4

quick = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def logits(seed: int, h_q: int, spread: float) -> np.ndarray:  # type: ignore[type-arg]
    """``[h_q]``: normal logits of standard deviation `spread`, one in eight of them -inf (no sink)."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(h_q) * spread
    return np.where(rng.random(h_q) < 1 / 8, -np.inf, values)


def with_sink(inputs: Inputs, values: np.ndarray, exact: bool) -> Inputs:  # type: ignore[type-arg]
    return sink.with_forward(
        inputs.problem,
        values,
        exact=exact,
        q=inputs.q,
        kv=inputs.kv,
        dO=inputs.dO,
        indices=inputs.indices,
        topk_length=inputs.topk_length,
    )


def far(got: np.ndarray, want: np.ndarray, terms: np.ndarray) -> float:  # type: ignore[type-arg]
    """Largest difference relative to the largest value, or to a thousandth of the terms it is a sum of."""
    scale = max(np.abs(want).max(), 1e-3 * np.abs(terms).max())
    return float(np.abs(got - want).max() / scale) if scale else float(np.abs(got - want).max())


def disagreement(inputs: Inputs, values: np.ndarray) -> float:  # type: ignore[type-arg]
    """Of delta, dQ, dKV and d_sink by the reference and by autograd."""
    got = outputs(inputs)
    want, want_sink = oracle.gradients_with_sink(inputs, values)
    delta = np.abs(inputs.o * inputs.dO.astype(np.float64)).sum(-1)
    worst = far(contract.d_sink(inputs.lse, got["delta"], values), want_sink, delta.sum(0))
    worst = max(worst, far(got["delta"], want["delta"], delta))
    # The terms of dQ and dKV: a gradient that cancels is measured against what a token's dO and scores allow.
    p = inputs.problem
    scale = delta.max() * p.sm_scale
    worst = max(worst, far(got["dQ"], want["dQ"], scale * np.abs(inputs.kv.astype(np.float64)).max()))
    dO_size = np.abs(inputs.dO.astype(np.float64)).max() + scale * np.abs(inputs.q.astype(np.float64)).max()
    return max(worst, far(got["dKV"], want["dKV"], dO_size))


@quick
@given(problems(exact=True), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 8.0, 60.0]))
def test_reference_equals_autograd(inputs: Inputs, seed: int, spread: float) -> None:
    values = logits(seed, inputs.problem.h_q, spread)
    assert disagreement(with_sink(inputs, values, True), values) <= TOLERANCE


def drawn_inputs(seed: int = 0, **changes: Any) -> Inputs:
    rng = np.random.default_rng(seed)

    def values(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)

    indices = rng.integers(-1, 40, (3, 64)).astype(np.int32)
    arrays: dict[str, Any] = {
        "q": values(3, 64, 512),
        "kv": values(40, 512),
        "dO": values(3, 64, 512),
        "indices": indices,
    }
    return with_forward(Problem(3, 40, 64, 512, 64, 512**-0.5), **{**arrays, **changes})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lse, delta, s: -contract.d_sink(lse, delta, s),
        lambda lse, delta, s: contract.d_sink(lse, delta, s / LOG2_E),
        lambda lse, delta, s: contract.d_sink(lse / LOG2_E, delta, s),
        lambda lse, delta, s: contract.d_sink(lse[:1], delta[:1], s),
        lambda lse, delta, s: contract.d_sink(lse, delta, s) * (1 + 1e-10),
    ],
    ids=["sign", "sink in base 2", "lse in base e", "one token only", "off by 1e-10"],
)
def test_a_wrong_d_sink_disagrees(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    values = logits(1, 64, 1.0)
    inputs = with_sink(drawn_inputs(), values, True)
    delta = outputs(inputs)["delta"]
    want = oracle.gradients_with_sink(inputs, values)[1]
    terms = np.abs(inputs.o * inputs.dO.astype(np.float64)).sum((0, 2))
    assert far(contract.d_sink(inputs.lse, delta, values), want, terms) <= TOLERANCE
    assert far(wrong(inputs.lse, delta, values), want, terms) > TOLERANCE  # type: ignore[operator]


@quick
@given(problems(), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 8.0, 60.0]))
def test_f32_on_the_host_is_inside_its_bound(inputs: Inputs, seed: int, spread: float) -> None:
    values = logits(seed, inputs.problem.h_q, spread).astype(np.float32)
    inputs = with_sink(inputs, values, False)
    delta = outputs(inputs)["delta"].astype(np.float32)
    got = host.d_sink(inputs.lse, delta, values)
    exact, bound = (
        contract.d_sink(inputs.lse, delta, values),
        contract.bound_d_sink(inputs.lse, delta, values),
    )
    assert got.dtype == np.float32
    assert (np.abs(got - exact) <= bound).all()
    assert (np.abs(contract.d_sink_over(Rounded(), inputs.lse, delta, values) - exact) <= bound).all()
    assert (bound <= 2.0**-12 * np.abs(delta).sum(axis=0) + 2.0**-100).all()


def test_the_bound_catches_a_share_rounded_to_bf16() -> None:
    values = logits(2, 64, 1.0).astype(np.float32)
    inputs = with_sink(drawn_inputs(2), values, False)
    delta = outputs(inputs)["delta"].astype(np.float32)
    coarse = -(contract.share(inputs.lse, values).astype(inputs.q.dtype).astype(np.float64) * delta).sum(0)
    error = np.abs(coarse - contract.d_sink(inputs.lse, delta, values))
    assert (error > contract.bound_d_sink(inputs.lse, delta, values)).any()


def test_text_value_and_bound_of_d_sink_are_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign that is changed in the stage changes all three."""
    values = logits(7, 64, 1.0).astype(np.float32)
    inputs = with_sink(drawn_inputs(7), values, False)
    delta = outputs(inputs)["delta"].astype(np.float32)
    exact, host_value = contract.d_sink(inputs.lse, delta, values), host.d_sink(inputs.lse, delta, values)
    assert contract.STAGES["d_sink"].formula == "-sum over s_q of share * delta"
    turned = contract.STAGES["d_sink"].with_function(lambda m, share, delta: m.colsum(share, delta))
    monkeypatch.setattr(contract, "STAGES", {**contract.STAGES, "d_sink": turned})
    assert turned.formula == "sum over s_q of share * delta"
    assert (contract.d_sink(inputs.lse, delta, values) == -exact).all()
    error = np.abs(host_value - contract.d_sink(inputs.lse, delta, values))
    assert (error > contract.bound_d_sink(inputs.lse, delta, values))[exact != 0].all()


@pytest.mark.parametrize("value", LIMITS)
def test_the_limits_of_the_sink(value: float) -> None:
    values = np.full(64, value, dtype=np.float32)
    plain = drawn_inputs(3)
    inputs = with_sink(plain, values, False)
    owned = np.isposinf(contract.base2(values))
    validate(inputs, owned=owned)
    found = outputs(inputs)
    for delta in (found["delta"].astype(np.float32), np.ones((3, 64), np.float32)):
        got, exact = host.d_sink(inputs.lse, delta, values), contract.d_sink(inputs.lse, delta, values)
        assert np.isfinite(got).all() and np.isfinite(exact).all()
        assert (np.abs(got - exact) <= contract.bound_d_sink(inputs.lse, delta, values)).all()
        if np.isposinf(contract.base2(values)).all():  # all of the mass, whatever delta says
            assert (exact == -delta.astype(np.float64).sum(0)).all()
        if value < 0:
            assert not exact.any() and not got.any()
    if value > 1:
        assert not found["delta"].any() and not found["dQ"].any() and not found["dKV"].any()
    if value < 0:
        assert (inputs.lse == plain.lse).all() and (inputs.o == plain.o).all()
    assert np.isfinite(found["dQ"]).all() and np.isfinite(found["dKV"]).all()


def test_a_token_without_keys_adds_nothing() -> None:
    values = logits(4, 64, 1.0).astype(np.float32)
    indices = np.full((3, 64), -1, np.int32)
    inputs = with_sink(drawn_inputs(4, indices=indices), values, False)
    assert np.isposinf(inputs.lse[:, np.isneginf(values)]).all()
    np.testing.assert_array_equal(
        contract.share(inputs.lse, values) > 0.99, np.isfinite(values)[None].repeat(3, 0)
    )
    assert not host.d_sink(inputs.lse, outputs(inputs)["delta"].astype(np.float32), values).any()


def test_an_lse_without_the_sink_is_refused() -> None:
    values = np.full(64, 9.0, np.float32)
    keys = drawn_inputs(5)
    delta = np.ones((3, 64), np.float32)
    with pytest.raises(TileproofError, match="lse of the keys alone"):
        host.d_sink(keys.lse, delta, values)
    folded = contract.fold_lse(keys.lse, values).astype(np.float32)
    host.d_sink(folded, delta, values)
    np.testing.assert_allclose(folded, with_sink(keys, values, False).lse, rtol=2**-22)


def test_bad_input_of_d_sink() -> None:
    lse, delta, values = (
        np.zeros((3, 64), np.float32),
        np.zeros((3, 64), np.float32),
        np.zeros(64, np.float32),
    )
    for wrong in (
        (lse.astype(np.float64), delta, values),
        (lse, delta[:2], values),
        (lse, delta, values[:1]),
        (lse, delta, np.full(64, np.nan, np.float32)),
    ):
        with pytest.raises(TileproofError):
            host.d_sink(*wrong)


def test_an_infinite_lse_with_keys_needs_a_sink_that_owns_the_head() -> None:
    values = np.full(64, np.inf, np.float32)
    inputs = with_sink(drawn_inputs(6), values, False)
    with pytest.raises(TileproofError, match="lse has"):
        validate(inputs)
    owned = np.ones(64, bool)
    owned[3] = False
    with pytest.raises(TileproofError, match="lse has"):
        validate(inputs, owned=owned)
    validate(inputs, owned=np.ones(64, bool))
    with pytest.raises(TileproofError, match="lse has"):
        validate(replace(inputs, lse=-inputs.lse), owned=np.ones(64, bool))
