"""Rounding plans of sparse MLA: a kernel is inside the bounds of its own plan, and outside of another's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import F16, Polynomial
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.numerics import round_f32
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.forward import forward
from tileproof.spec.problems.sparse_mla_bwd.problem import SparseMlaBwd
from tileproof.spec.problems.sparse_mla_bwd.stages import PLAIN, STAGES, MlaRoundingPlan, stages

from tests.reference.test_rounding import Own, excess, small


def polynomial(degree: int) -> Polynomial:
    """2^f on [0, 1), interpolated at Chebyshev points."""
    made = np.polynomial.Chebyshev.interpolate(np.exp2, degree, (0, 1)).convert(kind=np.polynomial.Polynomial)
    return Polynomial(tuple(float(c) for c in round_f32(made.coef)))


CUBIC, QUARTIC = polynomial(3), polynomial(4)
PLANS = {
    "sm_scale at the end": (MlaRoundingPlan(late=True), {"dS", "dQ", "dKV"}),
    "a cubic": (MlaRoundingPlan(exp2=CUBIC), {"S"}),
    "a quartic": (MlaRoundingPlan(exp2=QUARTIC), {"S"}),
    "f16 operands": (MlaRoundingPlan(operand=F16), {"S", "dS"}),
    "S in f16": (MlaRoundingPlan(softmax=F16), {"S"}),
    "dS in f16": (MlaRoundingPlan(gradient=F16), {"dS"}),
    "all of it": (MlaRoundingPlan(F16, late=True, exp2=CUBIC), {"S", "dS", "dQ", "dKV"}),
}


def judged(made: MlaRoundingPlan, by: MlaRoundingPlan) -> dict[str, float]:
    """Stage -> largest error of a kernel with plan `made`, in units of the bound of plan `by`."""
    inputs = small(topk=128)
    walked = Evaluation(SparseMlaBwd(rounding=made), inputs, Tiling(64, 1), Rounded())
    own = Own(inputs, walked, SparseMlaBwd(rounding=by))
    worst = {}
    for name in stages(by):
        found, known = walked.whole(name, 0), own.whole(name, 0)
        worst[name] = excess(found.value, known.value.value, known.value.errors)
        if known.copy is not None:
            assert found.copy is not None
            held = known.copy.held
            outside = np.abs(found.copy - held.value) > held.errors
            worst[name] = max(worst[name], 2.0 if outside.any() else 0.0)
    return worst


@pytest.mark.parametrize("name", PLANS)
def test_a_kernel_keeps_the_bounds_of_its_own_plan_and_not_those_of_another(name: str) -> None:
    plan, apart = PLANS[name]
    assert max(judged(plan, plan).values()) <= 1.0
    by_plain = judged(plan, PLAIN)
    assert {stage for stage, ratio in by_plain.items() if ratio > 1.0} >= apart - {"dQ", "dKV"}
    assert any(ratio > 1.0 for ratio in judged(PLAIN, plan).values()) or plan.exp2 is not None


def test_the_plain_plan_is_what_the_problem_has() -> None:
    assert stages(PLAIN) is STAGES and SparseMlaBwd().stages is STAGES


def test_a_plan_is_in_print() -> None:
    plan = MlaRoundingPlan(F16, late=True, exp2=CUBIC)
    shown = stages(plan)
    assert any("polynomial of degree 3 on [0, 1]" in line for line in shown["S"].rounding)
    assert shown["S"].at_rest == "f32; f16 as operand" and shown["dQ"].at_rest == "f32; f16 as output"
    assert shown["dQ"].formula == "sum over k-blocks of sm_scale * dS k"
    assert shown["dKV"].formula == "sm_scale * dS^T q + S^T dO in the first d_v columns"
    assert stages(MlaRoundingPlan(gradient=F16))["dKV"].reads["dS"] == F16


@pytest.mark.parametrize("power", [CUBIC, QUARTIC])
def test_a_polynomial_is_within_its_error_and_a_worse_one_is_not(power: Polynomial) -> None:
    rng = np.random.default_rng(1)
    x = round_f32(np.concatenate([rng.uniform(-130, 120, 20_000), -np.exp2(rng.uniform(-40, 0, 2000))]))
    term = BOUND.exp2(Bounded(x), power)
    assert (np.abs(Rounded().exp2(x, power) - term.value) <= term.errors).all()
    assert power.approximation > 2.0**-24 and power.relative < 4 * power.approximation + 2.0**-18
    worse = replace(
        power, coefficients=(power.coefficients[0] * (1 + 3 * power.relative), *power.coefficients[1:])
    )
    assert (np.abs(Rounded().exp2(x, worse) - term.value) > term.errors).mean() > 0.3
    assert (
        np.abs(Rounded().exp2(x, power) - BOUND.exp2(Bounded(x)).value) > BOUND.exp2(Bounded(x)).errors
    ).any()


def test_lse_and_o_of_the_forward_are_stages() -> None:
    plan = MlaRoundingPlan(forward=True)
    inputs = small(topk=128)
    problem = SparseMlaBwd(rounding=plan)
    assert [*problem.stages][:5] == ["delta", "P", "LSE", "W", "O"]
    exact = Evaluation(problem, inputs, Tiling(64, 1), EXACT)
    o, lse = forward(inputs)
    assert np.allclose(exact.whole("LSE", 0).value, lse[0], rtol=1e-12, atol=0)
    assert np.allclose(exact.whole("O", 0).value, o[0], rtol=0, atol=1e-9 * np.abs(o).max())
    assert max(judged(plan, plan).values()) <= 1.0
    bound = Evaluation(problem, inputs, Tiling(64, 1), BOUND)
    known = bound.whole("LSE", 0).value
    assert (np.abs(known.errors / known.value) < 2.0**-12).all()
    assert (np.abs(known.value * np.log(2) - known.value) > known.errors).all()  # natural, not base 2
    out = bound.whole("O", 0).copy
    assert out is not None and (np.abs(0.8 * out.value - out.value) > out.errors).mean() > 0.3


def test_a_token_without_keys_has_no_forward() -> None:
    inputs = replace(small(), topk_length=np.zeros(1, np.int32))
    bound = Evaluation(SparseMlaBwd(rounding=MlaRoundingPlan(forward=True)), inputs, Tiling(64, 1), BOUND)
    assert bound.whole("LSE", 0).value.value.tolist() == [np.inf] * 64
    assert not bound.whole("O", 0).value.value.any()


def test_the_steps_of_a_good_polynomial_are_what_it_is_off_by() -> None:
    power = polynomial(8)
    assert power.approximation < 2.0**-22 < power.relative
    x = round_f32(np.random.default_rng(2).uniform(-20, 20, 20_000))
    off = np.abs(Rounded().exp2(x, power) / np.exp2(x) - 1).max()
    assert power.approximation < off <= power.relative
    term = BOUND.exp2(Bounded(x), power)
    assert (np.abs(Rounded().exp2(x, power) - term.value) <= term.errors).all()
    assert (term.errors / term.value > power.approximation + 3 * 2.0**-23).all()
