"""An honest kernel's roundings stay inside every bound; each planted fault of arithmetic leaves one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from mla_problems import problems
from tileproof.reference import stages
from tileproof.reference.rounding import KernelRounding, Rounding
from tileproof.reference.walk import outputs, walk, with_forward
from tileproof.spec import numerics
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask, validate
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather

F64 = np.ndarray


def excess(found: F64, want: F64, bound: F64) -> float:
    """The largest |found - want| / bound; inf where the bound is 0 and the two differ."""
    error = np.abs(found - want)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / bound)
    return float(ratio.max(initial=0.0))


def judge(inputs: Inputs, rounding: Rounding) -> dict[str, float]:
    """Stage -> largest error in units of its bound, each judged on the inputs that the walk itself had."""
    p, mask = inputs.problem, key_mask(inputs)
    worst: dict[str, float] = {}
    own: dict[tuple[str, int | None], F64] = {}
    ds_all: dict[int | None, list[F64]] = {}

    def note(name: str, found: F64, want: F64, bound: F64) -> None:
        worst[name] = max(worst.get(name, 0.0), excess(found, want, bound))

    for tile in walk(inputs, rounding=rounding):
        token, cta, rows, cols = tile.coord.token, tile.coord.cta, tile.rows, tile.cols
        q, dO, o = (x[token, rows] for x in (inputs.q, inputs.dO, inputs.o))
        own[tile.stage, cta] = tile.value
        if tile.stage in ("P", "S", "dP", "dS"):
            k, key = gather(inputs, token, cols).astype(np.float64), mask[token, cols]
        if tile.stage == "delta":
            ds_all[cta] = []
            note("delta", tile.value, stages.delta(o, dO), numerics.bound("delta", o=o, dO=dO))
        elif tile.stage == "P":
            note("P", tile.value, stages.P(q, k), numerics.bound("P", q=q, k=k))
        elif tile.stage == "S":
            lse = inputs.lse[token, rows]
            given = {"P": own["P", cta], "lse": lse, "mask": key, "sm_scale": p.sm_scale}
            want = stages.S(**given)
            note("S", tile.value, want, numerics.bound("S", **given))
            note("S operand", tile.operand, want, numerics.bound("S", **given, operand=True))
            own["S operand", cta] = tile.operand
        elif tile.stage == "dP":
            note("dP", tile.value, stages.dP(dO, k[:, : p.d_v]), numerics.bound("dP", dO=dO, v=k[:, : p.d_v]))
        elif tile.stage == "dS":
            given = {s: own[s, cta] for s in ("S", "dP", "delta")} | {"sm_scale": p.sm_scale}
            want = stages.dS(**given)
            note("dS", tile.value, want, numerics.bound("dS", **given, operand=False))
            note("dS operand", tile.operand, want, numerics.bound("dS", **given))
            own["dS operand", cta] = tile.operand
            ds_all[cta].append(tile.operand)
        elif tile.stage == "dQ" and ds_all[cta]:
            ds = np.concatenate(ds_all[cta], axis=1)
            k_all = gather(inputs, token, slice(0, ds.shape[1])).astype(np.float64)
            out = tile.coord.k_block is None
            bound = numerics.bound("dQ", dS=ds, k=k_all, out=out)
            note("dQ out" if out else "dQ", tile.value, stages.dQ(ds, k_all), bound)
        elif tile.stage == "dKV":
            both = [np.concatenate([own[f"{s} operand", c] for c in (0, 1)]) for s in ("S", "dS")]
            given = {"S": both[0], "dO": inputs.dO[token], "dS": both[1], "q": inputs.q[token]}
            note("dKV", tile.value, stages.dKV(**given), numerics.bound("dKV", **given))
    return worst


STAGES = ("delta", "P", "S", "S operand", "dP", "dS", "dS operand", "dQ", "dQ out", "dKV")


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
def test_honest_roundings_stay_inside(inputs: Inputs) -> None:
    validate(inputs)
    for stage, ratio in judge(inputs, KernelRounding()).items():
        assert ratio <= 1.0, stage


def test_tensor_core_arithmetic_stays_inside() -> None:
    worst = judge(small(), KernelRounding(mma="tensor-core"))
    assert set(worst) == set(STAGES)
    assert max(worst.values()) <= 1.0


def test_bounds_are_not_idle() -> None:
    worst = judge(small(topk=128), KernelRounding())
    assert min(worst[s] for s in ("S operand", "dS operand", "dQ out")) > 0.3


@pytest.mark.parametrize("mma", ["f32", "tensor-core"])
def test_small_integers_are_exact(mma: str) -> None:
    inputs = small(integers=True)
    inputs = replace(inputs, o=inputs.dO)
    for tile in walk(inputs, rounding=KernelRounding(mma=mma)):  # type: ignore[arg-type]
        q, dO = inputs.q[0, tile.rows], inputs.dO[0, tile.rows]
        if tile.stage == "P":
            k = gather(inputs, 0, tile.cols)
            assert not numerics.bound("P", q=q, k=k).any()
            assert (tile.value == stages.P(q, k)).all()
        if tile.stage == "delta":
            assert not numerics.bound("delta", o=dO, dO=dO).any()
            assert (tile.value == stages.delta(dO, dO)).all()


@dataclass(frozen=True)
class Faulty(KernelRounding):
    """The honest model with one planted fault of arithmetic."""

    fault: str = ""

    def matmul(self, a: F64, b: F64, c: F64 | None = None) -> F64:
        if self.fault == "bf16 accumulator":
            return numerics.round_bf16(super().matmul(a, b, c))
        if self.fault == "one product lost":
            b = b.copy()
            b[0] = 0.0
        return super().matmul(a, b, c)

    def rowsum(self, a: F64, b: F64) -> F64:
        if self.fault == "half the row":
            return super().rowsum(a[..., :256], b[..., :256])
        if self.fault == "bf16 products":
            return super().rowsum(numerics.round_bf16(a * b), np.ones_like(b))
        return super().rowsum(a, b)

    def softmax(self, P: F64, lse: F64, sm_scale: float) -> F64:
        if self.fault == "bf16 log2(e)":
            return super().softmax(P * (1 + 2.0**-9), lse, sm_scale)
        if self.fault == "coarse ex2":
            return super().softmax(P, lse, sm_scale) * (1 + 2.0**-17)
        if self.fault == "natural exp":
            return super().softmax(P / numerics.LOG2_E, lse, sm_scale)
        return super().softmax(P, lse, sm_scale)

    def gradient(self, S: F64, dP: F64, delta: F64, sm_scale: float) -> F64:
        if self.fault == "bf16 S in dS":
            return super().gradient(numerics.round_bf16(S), dP, delta, sm_scale)
        if self.fault == "scale twice":
            return super().gradient(S, dP, delta, sm_scale**2)
        return super().gradient(S, dP, delta, sm_scale)

    def operand(self, x: F64) -> F64:
        if self.fault == "operand truncated":
            bits = np.float32(x).view(np.uint32) & np.uint32(0xFFFF0000)
            return bits.view(np.float32).astype(np.float64)
        return super().operand(x)

    def out(self, x: F64) -> F64:
        return numerics.round_bf16(x) * (1 + 2.0**-7) if self.fault == "out an ulp off" else super().out(x)


@pytest.mark.parametrize(
    ("fault", "stages_hit"),
    [
        ("bf16 accumulator", {"P", "dP", "dQ", "dKV"}),
        ("one product lost", {"P", "dP", "dQ", "dKV"}),
        ("half the row", {"delta"}),
        ("bf16 products", {"delta"}),
        ("bf16 log2(e)", {"S"}),
        ("coarse ex2", {"S"}),
        ("natural exp", {"S", "S operand"}),
        ("bf16 S in dS", {"dS"}),
        ("scale twice", {"dS", "dS operand"}),
        ("operand truncated", {"S operand", "dS operand"}),
        ("out an ulp off", {"dQ out"}),
    ],
)
def test_planted_fault_is_outside(fault: str, stages_hit: set[str]) -> None:
    worst = judge(small(topk=128), Faulty(fault=fault))
    red = {stage for stage, ratio in worst.items() if ratio > 1.0}
    assert stages_hit <= red
    # assume-guarantee: a stage that only takes the wrong one as an input stays inside
    assert {s.split()[0] for s in red} == {s.split()[0] for s in stages_hit}


def test_scatter_bound_covers_repeated_rows_and_catches_a_lost_addition() -> None:
    inputs = small(topk=128)
    inputs = replace(inputs, indices=(inputs.indices % 3).astype(np.int32))
    tiles = [t for t in walk(inputs, rounding=KernelRounding()) if t.stage == "dKV"]
    rounded = outputs(inputs, rounding=KernelRounding()).dKV
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
