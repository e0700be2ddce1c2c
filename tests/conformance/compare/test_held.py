"""What is known beyond a bound: bits of MMA stages in a plan's order, and what a value is rounded to."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.compare.compare import Comparison, compare
from tileproof.conformance.compare.held import ORDERED, ROUNDED, Ordered
from tileproof.conformance.compare.lane_sums import fused, lane_sums
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.emulator.products import products
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.forms import BF16, F16, round_in
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine import tensor_core
from tileproof.spec.numerics import round_bf16, round_f32
from tileproof.spec.plan import LaneOrder, ProductOrder
from tileproof.spec.plans import head64
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

PLAN = head64.plan(576)
INPUTS = SparseCase(576, 90, tokens=(Indices("permuted"),), values="normal", seed=5, h_q=64).inputs()
ROWS = COLS = slice(0, 64)
Q, K = INPUTS.q[0].astype(np.float32), INPUTS.kv[INPUTS.indices[0]].astype(np.float32)


def in_order(*runs: tuple[int, int], exact: bool = False) -> np.ndarray:
    total = np.zeros((64, 64), np.float32)
    for first, end in runs or PLAN.ordered[0].runs[0]:
        total = products(total, Q[:, first:end], K[:, first:end].T, exact=exact)
    return total


def judged(value: np.ndarray, *, exact: bool = False, plan=PLAN) -> Comparison:  # type: ignore[no-untyped-def]
    tile = StageTile("P", TileCoord(0, 0, 0), ROWS, COLS, value, np.ones((64, 64), bool))
    chain = Chain(INPUTS, {tile.key: tile}, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 1))

    def arithmetic(total, a, b, f16):  # type: ignore[no-untyped-def]
        return products(total, a, b, exact=exact, f16=f16)

    return compare(chain, [tile], Ordered(plan, arithmetic))


@pytest.mark.parametrize("exact", [False, True])
def test_the_order_of_the_plan_is_right_and_another_is_not(exact: bool) -> None:
    right = judged(in_order(exact=exact), exact=exact)
    assert not right.divergences and right.scores["P"].exact == 64 * 64
    (wrong,) = judged(in_order((0, 576), exact=exact), exact=exact).divergences
    assert wrong.why == ORDERED and wrong.wrong.mean() > 0.5
    assert wrong.reference.held is not None and not wrong.reference.held.errors.any()
    assert judged(in_order(exact=not exact), exact=exact).divergences
    open_order = replace(PLAN, ordered=(ProductOrder("dP"),))
    assert not judged(in_order((0, 576), exact=exact), exact=exact, plan=open_order).divergences


@pytest.mark.parametrize("dropped", [1, 8, 11])
def test_lost_bits_are_found_though_each_element_is_within_its_bound(dropped: int) -> None:
    value = (in_order().view(np.uint32) & np.uint32(2**32 - 2**dropped)).view(np.float32)
    (wrong,) = judged(value).divergences
    assert wrong.why == ORDERED


def test_a_value_past_its_bound_is_wrong_as_before() -> None:
    (wrong,) = judged(2 * in_order()).divergences
    assert wrong.why == ""


def test_products_are_those_of_the_spec_and_of_fused_additions() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((5, 70)).astype(ml_dtypes.bfloat16).astype(np.float32) for _ in range(2))
    a[2, 3], b[1, 60] = np.inf, np.nan
    start = rng.standard_normal((5, 5)).astype(np.float32)
    want = tensor_core.matmul(np.pad(a, ((0, 0), (0, 10))), np.pad(b, ((0, 0), (0, 10))), start)
    np.testing.assert_array_equal(products(start, a, b.T, exact=True), want)
    small, half = np.full((1, 16), 2.0**-24, np.float32), np.full((16, 1), 2.0**-24, np.float32)
    zero = np.zeros((1, 1), np.float32)
    got = products(zero, small, half, exact=True, f16=True)
    assert got == tensor_core.matmul(small, half.T, zero, tensor_core.F16_EMIN)
    total = start.copy()
    with np.errstate(invalid="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k : k + 1] * b[:, k : k + 1].T
    np.testing.assert_array_equal(products(start, a, b.T), total)
    assert products(np.zeros((3, 0), np.float32), a[:3], b.T[:, :0]).shape == (3, 0)
    assert (products(start, a[:, :0], b.T[:0]) == start).all()


def half_up(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64) + 0x8000
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("form", [BF16, F16])
@pytest.mark.parametrize("relative", [0.0, 2.0**-24, 2.0**-20, 2.0**-9])
def test_the_rounding_of_any_value_of_an_interval_is_held(form, relative: float) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    value = round_f32(rng.standard_normal(4000) * 2.0 ** rng.integers(-30, 12, 4000))
    error = np.abs(value) * relative
    term = BOUND.round_to(form, Bounded(value, error if relative else 0.0))
    held = term.held
    for share in (-1.0, -0.3, 0.0, 0.6, 1.0):
        found = round_in(form, value + share * error)
        assert (np.abs(found - held.value) <= held.errors).all()
        assert (np.abs(found - term.value) <= term.errors).all()
    assert ((held.errors == 0).mean() > 0.99) == (relative < 2.0**-15)


def test_a_fused_addition_is_rounded_once() -> None:
    def once(*terms: np.floating) -> float:
        return float(fused(*(np.array([term], np.float32) for term in terms))[0])

    half, tie = np.float32(2.0**-12), np.float32(1 + 2.0**-23)
    assert once(half, half, np.float32(1)) == np.float32(1)  # a tie, to even
    assert once(half, half, tie) == np.float32(1 + 2.0**-22)
    tiny = np.float32(2.0**-60)
    for sign in (1, -1):  # float64 alone would round to the tie first
        exact = once(np.float32(1 + sign * 2.0**-23), np.float32(2.0**-24), np.float32(1))
        assert exact == (np.float32(1 + 2.0**-23) if sign > 0 else np.float32(1))
    assert once(tiny, tiny, np.float32(1)) == 1
    near = np.float64(1) + 2.0**-24
    assert once(np.float32(near - 1), np.float32(1), np.float32(1)) == np.float32(1)


def lanes(order: LaneOrder, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums element by element, by numbers that math.fma would give."""
    found = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        parts = []
        for part in range(order.parts):
            width = len(x) // order.parts
            held = [np.float32(0)] * order.lanes
            for column in range(width):
                at, lane = part * width + column, column // order.vector % order.lanes
                held[lane] = np.float32(Fraction(x[at]) * Fraction(y[at]) + Fraction(float(held[lane])))
            while len(held) > 1:
                half = len(held) // 2
                held = [low + high for low, high in zip(held[:half], held[half:], strict=True)]
            parts.append(held[0])
        found.append(sum(parts[1:], parts[0]))
    return np.array(found, np.float32)


@pytest.mark.parametrize("parts", [1, 2])
def test_sums_of_lanes_are_in_the_order_of_the_plan(parts: int) -> None:
    order = LaneOrder("delta", parts)
    a, b = (INPUTS.o[0].astype(np.float32), INPUTS.dO[0].astype(np.float32))
    sums = lane_sums(order, a, b)
    assert sums is not None
    np.testing.assert_array_equal(sums, lanes(order, a, b))
    assert (sums != lane_sums(LaneOrder("delta", 3 - parts), a, b)).any()
    assert lane_sums(order, a[:, :100], b[:, :100]) is None


@pytest.mark.parametrize("dropped", [1, 2, 8])
def test_lost_bits_of_delta_are_found(dropped: int) -> None:
    order = LaneOrder("delta")
    sums = lane_sums(order, INPUTS.o[0].astype(np.float32), INPUTS.dO[0].astype(np.float32))
    assert sums is not None

    def unused(*_: object) -> Any:
        raise AssertionError("delta is no product of a tensor core")

    def found(value: np.ndarray) -> Comparison:
        tile = StageTile(
            "delta", TileCoord(0, None, 0), ROWS, slice(0, 1), value[:, None], np.full((64, 1), True)
        )
        chain = Chain(INPUTS, {tile.key: tile}, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 1))
        return compare(chain, [tile], Ordered(replace(PLAN, sums_in_order=(order,)), unused))

    right = found(sums)
    assert not right.divergences and right.scores["delta"].exact == 64
    (wrong,) = found((sums.view(np.uint32) & np.uint32(2**32 - 2**dropped)).view(np.float32)).divergences
    assert wrong.why == ORDERED


def test_other_roundings_are_not_held() -> None:
    rng = np.random.default_rng(3)
    value = round_f32(rng.integers(-(2**10), 2**10, 4000) / 8)  # many ties
    held = BOUND.round_to(BF16, Bounded(value)).held
    assert not held.errors.any()
    assert (half_up(value) != held.value).mean() > 0.02
    truncated = (value.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert (truncated != held.value).mean() > 0.2
    normal = round_f32(rng.standard_normal(100_000))
    twice = round_bf16(round_in(F16, normal))
    known = BOUND.round_to(BF16, Bounded(normal, np.abs(normal) * 2.0**-22)).held
    assert (np.abs(twice - known.value) > known.errors).mean() > 0.01  # one rounding too many


def test_infinities_and_what_may_be_anything() -> None:
    value = np.array([np.inf, 1.0, 3e38, 3.4e38, np.nan, 1.0])
    error = np.array([0.0, np.inf, 1e37, 1e36, 0.0, 0.0])
    held = BOUND.round_to(BF16, Bounded(value, error)).held
    assert held.errors[5] == 0 and held.value[5] == 1
    assert np.isinf(held.errors[1])
    assert held.value[0] == np.inf and held.errors[0] == 0


def test_a_copy_that_is_rounded_up_a_little_too_early_is_found() -> None:
    inputs = INPUTS
    coord = TileCoord(0, 0, 0)
    chain = Chain(inputs, {}, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 1))
    value = chain.whole("S", 0).value.value
    right = round_bf16(value).astype(ml_dtypes.bfloat16)
    bits = value.astype(np.float32).view(np.uint32)
    coarse = ((bits & 0xFFFF0000) + 0x10000 * ((bits & 0xFFFF) > 0x7F00)).astype(np.uint32).view(np.float32)

    def found(copy: np.ndarray) -> Comparison:
        tile = StageTile("S", coord, ROWS, COLS, copy, np.ones((64, 64), bool), operand=True)
        P = StageTile(
            "P", coord, ROWS, COLS, chain.whole("P", 0).value.value.astype(np.float32), tile.written
        )
        own = Chain(inputs, {tile.key: tile, P.key: P}, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 1))
        return compare(own, [tile])

    assert not found(right).divergences
    (wrong,) = found(coarse.astype(ml_dtypes.bfloat16)).divergences
    assert wrong.why in ("", ROUNDED) and 0 < wrong.wrong.mean() < 0.02
