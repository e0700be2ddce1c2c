"""A correct kernel's roundings stay inside every bound; each planted fault of arithmetic exceeds a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tileproof.reference.evaluate import Evaluation
from tileproof.spec import numerics
from tileproof.spec.arithmetic import F32, Form
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.operations import functions
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, validate
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD, SparseMlaBwd
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather

from tests.kit.mla_problems import outputs, problems, walk

F64 = np.ndarray


def excess(found: F64, want: F64, bound: F64) -> float:
    """The largest |found - want| / bound; inf where the bound is 0 and the two differ."""
    error = np.abs(found - want)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / bound)
    return float(ratio.max(initial=0.0))


class Own(Evaluation):
    """Bounds on an evaluation over another arithmetic: each stage on the inputs that it had there."""

    def __init__(self, inputs: Inputs, walked: Evaluation, problem: SparseMlaBwd = SPARSE_MLA_BWD) -> None:
        super().__init__(problem, inputs, walked.tiling, BOUND)
        self.walked = walked

    def earlier(self, name: str, group: int, form: Form) -> Any:
        key = (name, group, form)
        if key not in self._given:
            self._given[key] = Bounded(self.walked.earlier(name, group, form))
        return self._given[key]


def judge(inputs: Inputs, m: Any, problem: SparseMlaBwd = SPARSE_MLA_BWD) -> dict[str, float]:
    """Stage -> largest error in units of its bound, each judged on the inputs that the walk itself had."""
    walked = Evaluation(problem, inputs, Tiling(64, 2), m)
    own = Own(inputs, walked)
    worst: dict[str, float] = {}
    for token in range(inputs.problem.s_q):
        for name in STAGES:
            for cta in (0, 1) if own.partial(name) else (None,):
                found, known = walked.whole(name, token, cta), own.whole(name, token, cta)
                pairs = [(name, found.value, known.value)]
                if known.copy is not None:
                    pairs.append((f"{name} {known.use}", found.copy, known.copy))
                for words, value, term in pairs:
                    ratio = excess(value, term.value, term.errors)
                    worst[words] = max(worst.get(words, 0.0), ratio)
    return worst


ALL = ("delta", "P", "S", "S operand", "dP", "dS", "dS operand", "dQ", "dQ output", "dKV")


def small(scale: float = 1.0, h_q: int = 64, topk: int = 64, integers: bool = False) -> Inputs:
    rng = np.random.default_rng(11)
    problem = Problem(s_q=1, s_kv=70, h_q=h_q, d_qk=576, topk=topk, sm_scale=576**-0.5)

    def values(*shape: int) -> np.ndarray:
        x = rng.integers(-3, 4, shape) if integers else rng.standard_normal(shape) * scale
        return x.astype(ml_dtypes.bfloat16)

    index = rng.integers(-2, 71, (1, topk)).astype(np.int32)
    return with_forward(
        problem, q=values(1, h_q, 576), kv=values(70, 576), dO=values(1, h_q, 512), indices=index
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(scales=(1.0, 1e-3, 8.0, 1e-18)))
def test_correct_roundings_stay_inside(inputs: Inputs) -> None:
    validate(inputs)
    for stage, ratio in judge(inputs, Rounded()).items():
        assert ratio <= 1.0, stage


def test_tensor_core_arithmetic_stays_inside() -> None:
    worst = judge(small(), Rounded(mma="tensor-core"))
    assert set(worst) == set(ALL)
    assert max(worst.values()) <= 1.0


def test_bounds_are_not_idle() -> None:
    worst = judge(small(topk=128), Rounded())
    assert min(worst[s] for s in ("S operand", "dS operand", "dQ output")) > 0.3


@pytest.mark.parametrize("mma", ["f32", "tensor-core"])
def test_small_integers_are_exact(mma: str) -> None:
    inputs = small(integers=True)
    inputs = replace(inputs, o=inputs.dO)
    for tile in walk(inputs, m=Rounded(mma=mma)):  # type: ignore[arg-type]
        q, dO = inputs.q[0, tile.rows], inputs.dO[0, tile.rows]
        if tile.stage == "P":
            k = gather(inputs, 0, tile.cols)
            assert not STAGES["P"].bound(q=q, k=k).any()
            assert (tile.value == STAGES["P"].exact(q=q, k=k)).all()
        if tile.stage == "delta":
            assert not STAGES["delta"].bound(o=dO, dO=dO).any()
            assert (tile.value == STAGES["delta"].exact(o=dO, dO=dO)).all()


@dataclass(frozen=True)
class Faulty(Rounded):
    """The correct model with one planted fault of arithmetic."""

    fault: str = ""

    def accumulate(self, total: F64, a: F64, b: F64) -> F64:
        if self.fault == "bf16 accumulator":
            return numerics.round_bf16(self.operation("accumulate")(total, a, b))
        if self.fault == "one product lost":
            b = b.copy()
            b[0] = 0.0
        return self.operation("accumulate")(total, a, b)

    def rowsum(self, a: F64, b: F64, products: Form = F32) -> F64:
        if self.fault == "half the row":
            return self.operation("rowsum")(a[..., :256], b[..., :256])
        if self.fault == "bf16 products":
            return self.operation("rowsum")(numerics.round_bf16(a * b), np.ones_like(b))
        return self.operation("rowsum")(a, b, products)

    def exp2(self, a: F64) -> F64:
        if self.fault == "coarse ex2":
            return self.operation("exp2")(a) * (1 + 2.0**-17)
        if self.fault == "ex2 with a relative error of 2^-2":
            return self.operation("exp2")(a) * (1 + 2.0**-2)
        return self.operation("exp2")(a)

    def constant(self, name: str, value: float) -> F64:
        if self.fault == "bf16 log2(e)":
            value *= 1 + 2.0**-9
        if self.fault == "natural exp":
            value = 1.0
        return self.operation("constant")(name, value)

    def mul(self, *factors: F64) -> F64:
        # Of dS alone: its first factor is S.
        if self.fault == "bf16 S in dS" and factors[0].ndim == 2:
            factors = (numerics.round_bf16(factors[0]), *factors[1:])
        if self.fault == "scale twice" and factors[0].ndim == 2:
            factors = (*factors, factors[-1])
        return self.operation("mul")(*factors)

    def round_to(self, form: Form, a: F64) -> F64:
        if self.fault == "operand truncated" and a.shape[1] == 128:
            bits = np.float32(a).view(np.uint32) & np.uint32(0xFFFF0000)
            return np.asarray(bits.view(np.float32).astype(np.float64))
        if self.fault == "out an ulp off" and a.shape[1] == 576:
            return self.operation("round_to")(form, a) * (1 + 2.0**-7)
        return self.operation("round_to")(form, a)


@pytest.mark.parametrize(
    ("fault", "stages_hit"),
    [
        ("bf16 accumulator", {"P", "dP", "dQ", "dKV"}),
        ("one product lost", {"P", "dP", "dQ", "dKV"}),
        ("half the row", {"delta"}),
        ("bf16 products", {"delta"}),
        ("bf16 log2(e)", {"S"}),
        ("coarse ex2", {"S"}),
        ("ex2 with a relative error of 2^-2", {"S", "S operand"}),
        ("natural exp", {"S", "S operand"}),
        ("bf16 S in dS", {"dS"}),
        ("scale twice", {"dS", "dS operand"}),
        ("operand truncated", {"S operand", "dS operand"}),
        ("out an ulp off", {"dQ output"}),
    ],
)
def test_planted_fault_is_outside(fault: str, stages_hit: set[str]) -> None:
    worst = judge(small(topk=128), Faulty(fault=fault))
    red = {stage for stage, ratio in worst.items() if ratio > 1.0}
    assert stages_hit <= red
    # assume-guarantee: a stage that only takes the wrong stage as an input stays inside
    assert {s.split()[0] for s in red} == {s.split()[0] for s in stages_hit}


def without(stage: str, *dropped: str) -> SparseMlaBwd:
    """The spec with an operation of a stage left out, as `dropped` says."""
    known = STAGES[stage]

    class Less:
        def __init__(self, m: Any) -> None:
            self.m = m

        def __getattr__(self, name: str) -> Any:
            if name == "round_to" and name in dropped:
                return lambda form, a: a
            if name == "select" and name in dropped:
                return lambda mask, a: a
            return getattr(self.m, name)

    def compute(m: Any, *terms: Any) -> Any:
        return known.compute(Less(m), *terms)

    return SparseMlaBwd({stage: known.with_function(compute)})


@pytest.mark.parametrize("stage", ["S", "dS", "dQ"])
def test_a_dropped_bf16_rounding_in_the_spec_makes_a_correct_kernel_wrong(stage: str) -> None:
    """The bound of a spec that does not round is what the rounding kernel does not keep."""
    inputs = small(topk=128)
    walked = Evaluation(SPARSE_MLA_BWD, inputs, Tiling(64, 2), Rounded())
    own = Own(inputs, walked, without(stage, "round_to"))
    found, known = walked.whole(stage, 0), own.whole(stage, 0)
    assert found.copy is not None and known.copy is not None
    assert excess(found.copy, known.copy.value, known.copy.errors) > 1.0
    known = Own(inputs, walked).whole(stage, 0)
    assert known.copy is not None
    assert excess(found.copy, known.copy.value, known.copy.errors) <= 1.0


def test_a_spec_without_its_mask_is_outside() -> None:
    inputs = small(topk=128)
    unmasked = without("S", "select")
    assert judge(inputs, Rounded(), unmasked)["S"] > 1.0
    assert judge(inputs, Rounded())["S"] <= 1.0


def test_an_ex2_four_times_too_coarse_in_the_spec_lets_errors_pass_that_the_bound_now_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = "ex2 with a relative error of 2^-2"
    assert judge(small(), Faulty(fault=fault))["S"] > 1.0
    monkeypatch.setattr(functions, "EX2_RELATIVE", 2.0**-2 * (1 + 2.0**-10))
    assert judge(small(), Faulty(fault=fault))["S"] <= 1.0


def test_scatter_bound_covers_repeated_rows_and_catches_a_lost_addition() -> None:
    inputs = small(topk=128)
    inputs = replace(inputs, indices=(inputs.indices % 3).astype(np.int32))
    tiles = [t for t in walk(inputs, m=Rounded()) if t.stage == "dKV"]
    rounded = outputs(inputs, m=Rounded())["dKV"]
    want, magnitude, count = np.zeros_like(rounded), np.zeros_like(rounded), np.zeros((70, 1))
    for tile in tiles:
        row = inputs.indices[0, tile.rows]
        np.add.at(want, row, tile.value)
        np.add.at(magnitude, row, np.abs(tile.value))
        np.add.at(count, row, 1.0)
    bound = numerics.bound_scatter(magnitude, np.zeros_like(magnitude), count)
    assert excess(rounded, want, bound) <= 1.0
    lost = rounded.copy()
    lost[inputs.indices[0, 0]] -= tiles[0].value[0]
    assert excess(lost, want, bound) > 1.0
