"""Terms of the bounds, each against machine values that it must hold and against values that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.forms import BF16, F16, round_in
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine import tensor_core
from tileproof.spec.numerics import bound_scatter, round_bf16, round_f32

ONE = np.ones((1, 1))
U = 2.0**-24


def fits(found: float, term: Bounded) -> bool:
    return bool((np.abs(found - term.value) <= term.errors).all())


def f32(x: float) -> float:
    return float(np.float32(x))


def scalar(value: float, error: float = 0.0) -> Bounded:
    return Bounded(np.full((1, 1), value), np.full((1, 1), error) if error else 0.0)


def test_a_product_of_uncertain_factors() -> None:
    term = BOUND.mul(scalar(3.0, 0.25), scalar(-5.0, 0.5))
    assert fits(3.25 * -5.5, term) and fits(2.75 * -4.5, term) and not fits(3.25 * -5.51, term)


def test_a_product_is_rounded_once() -> None:
    a, b = 1 + 2.0**-12, 1 + 2.0**-13  # the product has 25 bits
    term = BOUND.mul(scalar(a), scalar(b))
    assert f32(a * b) != a * b and fits(f32(a * b), term)
    assert not fits(a * b * (1 + 1.1 * U), term)
    assert BOUND.mul(Bounded(np.asarray(0.25)), scalar(b)).errors <= 2.0**-149  # a power of two


def test_a_number_that_is_no_power_of_two_rounds() -> None:
    a = float(np.float32(1 / 3))
    term = BOUND.mul(Bounded(np.asarray(a)), scalar(float(np.float32(0.7))))
    assert fits(float(f32(a * float(np.float32(0.7)))), term) and term.errors.any()


def test_a_product_that_underflows() -> None:
    a = b = 1.25 * 2.0**-75
    assert f32(a * b) == 2.0**-149 and fits(2.0**-149, BOUND.mul(scalar(a), scalar(b)))


def test_a_sum_is_rounded_once_and_a_zero_adds_nothing() -> None:
    for how, sign in ((BOUND.add, 1), (BOUND.sub, -1)):
        exact = 1.0 + sign * 2.0**-25
        term = how(scalar(1.0), scalar(2.0**-25))
        assert fits(f32(exact), term) and not fits(exact * (1 + 1.1 * U), term)
        assert not how(scalar(1 / 3), scalar(0.0)).errors.any()


def products(a: list[float], b: list[float], error: float = 0.0) -> tuple[np.ndarray, np.ndarray, Bounded]:
    left, right = np.array([a]), np.array([b]).T
    uncertain = Bounded(right, np.full(right.shape, error)) if error else Bounded(right)
    return left, right, BOUND.matmul(Bounded(left), uncertain)


def test_the_errors_of_either_operand_reach_a_product() -> None:
    left, right, term = products([2.0, 4.0], [1.0, 1.0], 0.5)
    assert fits(float((left @ (right + 0.5)).item()), term) and not fits(
        float((left @ (right + 0.6)).item()), term
    )
    mirrored = BOUND.matmul(Bounded(left, np.full(left.shape, 0.5)), Bounded(right))
    assert fits(7.0, mirrored) and not fits(7.2, mirrored)


def test_sums_of_24_bits_are_exact_and_no_others() -> None:
    """2^23 + 2^23 is the most: an odd number above 2^24 is rounded."""
    *_, term = products([2.0**12, 2.0**12], [2.0**11, 2.0**11 - 2.0**-12])
    assert not term.errors.any() and term.value.item() == 2.0**24 - 1
    *_, term = products([2.0**12, 2.0**12, 1.0], [2.0**11, 2.0**11, 1.0])
    assert term.errors.all()  # 2^24 + 1
    *_, term = products([2.0**12, 2.0**12], [2.0**11, 2.0**11])
    assert not term.errors.any()


def test_sums_below_the_range_are_not_exact() -> None:
    """Products are multiples of 2^-150, which f32 does not hold."""
    left, right, term = products([2.0**-75, 2.0**-75], [3 * 2.0**-75, 2.0**-75])
    assert term.errors.all()
    assert fits(float(f32((left @ right).item())), term)
    for found in (0.0, 2.0**-148):
        assert fits(found, products([2.0**-75], [1.5 * 2.0**-75])[2]) or found


def test_a_sum_of_products_that_each_underflow() -> None:
    """Sixteen products of 2^-150 are lost in f32 one by one."""
    *_, term = products([2.0**-75] * 16, [2.0**-75] * 16)
    assert fits(0.0, term)


def test_subnormal_operands_align_as_if_they_were_normal() -> None:
    """Beside a product of a subnormal bf16 the tensor core loses bits of the others."""
    tiny, rest = 2.0**-133, [2.0**-22 + 2.0**-29]
    a, b = np.array([[tiny, *([2.0**-118] * 15)]]), np.array([[2.0**5, *(rest * 15)]])
    found = tensor_core.matmul(a, b)
    term = BOUND.matmul(Bounded(a), Bounded(b.T))
    assert found.astype(np.float64) != term.value and fits(float(found.item()), term)


@pytest.mark.parametrize("units", [1.0, 2.0**-100])
def test_rows_of_24_bits_are_exact_and_no_others(units: float) -> None:
    for extra, exact in ((0.0, True), (1.0, False)):
        sums = RowSums.of(1, 1)
        for value in (2.0**23, 2.0**23 - 1 + 2 * extra):
            sums.add(np.zeros(1, np.int64), ONE * value * units)
        assert bool(sums.exact().all()) == exact and bool((sums.bound() == 0).all()) == exact


def test_rows_carry_the_errors_of_their_tiles() -> None:
    bound = bound_scatter(ONE, 0.25 * ONE, ONE)
    assert 0.25 < bound.item() < 0.2501


def test_rows_of_subnormals_may_be_flushed() -> None:
    assert bound_scatter(2.0**-130 * ONE, 0 * ONE, ONE).item() >= 2.0**-130


def test_what_may_overflow_has_no_bound() -> None:
    *_, term = products([2.0**100, 1.0], [2.0**28, 1.0])
    assert np.isinf(term.errors).all()
    assert np.isinf(BOUND.mul(scalar(2.0**64), scalar(2.0**64)).errors).all()
    assert np.isinf(BOUND.add(scalar(2.0**127), scalar(2.0**127)).errors).all()
    assert np.isfinite(BOUND.add(scalar(2.0**126), scalar(2.0**126)).errors).all()


@pytest.mark.parametrize("form", [BF16, F16])
def test_a_rounded_copy_is_between_the_roundings_of_both_ends(form) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    value = round_f32(rng.standard_normal(2000))
    error = np.abs(value) * 2.0**-9
    held = BOUND.round_to(form, Bounded(value, error)).held
    for sign in (-1, 1):
        found = round_in(form, value + sign * error)
        assert (np.abs(found - held.value) <= held.errors).all()
    assert (np.abs(round_bf16(1.02 * value) - held.value) > held.errors).mean() > 0.5


def test_the_ends_of_a_copy_are_rounded_outward_on_the_way() -> None:
    """Just above a tie of bf16, closer to it than f32 resolves: only the upper end is above the tie."""
    tie = 1 + 2.0**-8
    held = BOUND.round_to(BF16, Bounded(np.array([tie]), np.array([2.0**-40]))).held
    assert held.value - held.errors <= 1.0 and held.value + held.errors >= 1 + 2.0**-7


def test_powers_below_the_normal_range_may_be_flushed() -> None:
    term = BOUND.exp2(scalar(-126.5))
    assert fits(0.0, term) and fits(2.0**-126.5, term) and not fits(2.0**-124, term)


def test_a_natural_logarithm_is_rounded_twice_after_its_instruction() -> None:
    value = float(np.log(100.0))
    term = BOUND.log(scalar(100.0))
    off = (1 + 2.0**-22) * (1 + U) ** 2
    assert fits(value * off, term) and not fits(value * (off + 2 * U), term)


def test_a_quotient_of_an_uncertain_divisor() -> None:
    term = BOUND.div(scalar(3.0), scalar(2.0, 0.5))
    assert fits(3.0 / 1.5, term) and fits(3.0 / 2.5, term) and not fits(3.0 / 1.45, term)
