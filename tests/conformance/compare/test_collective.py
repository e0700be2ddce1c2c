"""Errors of a tile together: sums in any honest order pass, sums of fewer bits do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.compare.collective import collective
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.forms import BF16
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine import tensor_core
from tileproof.spec.numerics import round_bf16

F32 = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
ALL = (slice(None), slice(None))
CLASSES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
    "columns": lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, (1, shape[1])),
    "outliers": lambda rng, shape: rng.standard_normal(shape) * np.where(rng.random(shape) < 0.01, 2**10, 1),
    "large": lambda rng, shape: rng.standard_normal(shape) * 2.0**10,
    "wide integers": lambda rng, shape: rng.integers(-255, 256, shape),
    "first columns large": lambda rng, shape: rng.standard_normal(shape) * np.linspace(4, 0.01, shape[1]),
    "constant rows": lambda rng, shape: np.ones(shape) * rng.standard_normal((shape[0], 1)),
}


def draw(name: str, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return CLASSES[name](rng, (rows, columns)).astype(ml_dtypes.bfloat16)


def to_bits(x: F32, bits: int) -> F32:
    """To nearest even in so many significant bits."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 2.0**bits), exponent - bits).astype(np.float32)


def in_turn(products: F32, step: Callable[[F32], F32] = lambda x: x) -> F32:
    total: F32 = np.zeros(products.shape[0], np.float32)
    for column in products.T:
        total = step(total + column)
    return total


def by_lanes(products: F32, width: int = 32) -> F32:
    """Each lane its own columns, then a tree over the lanes: what a warp does."""
    lanes = in_turn(
        products.reshape(len(products), -1, width).transpose(0, 2, 1).reshape(-1, products.shape[1] // width)
    )
    lanes = lanes.reshape(len(products), width)
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    return lanes[:, 0]


def toward_zero(total: F32, column: F32) -> F32:
    exact = total.astype(np.float64) + column
    near = exact.astype(np.float32)
    return np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


ORDERS: dict[str, Callable[[F32], F32]] = {
    "in turn": in_turn,
    "backward": lambda x: in_turn(x[:, ::-1]),
    "lanes": by_lanes,
    "tree": lambda x: by_lanes(x, x.shape[1]),
    "numpy": lambda x: x.sum(axis=1, dtype=np.float32),
}


def row_sums(name: str, seed: int) -> tuple[F32, Bounded]:
    rng = np.random.default_rng(seed)
    o, dO = (draw(name, rng, 64, 512) for _ in range(2))
    return o.astype(np.float32) * dO.astype(np.float32), BOUND.rowsum(
        BOUND.read(BF16, o), BOUND.read(BF16, dO)
    )


@pytest.mark.parametrize("name", CLASSES)
def test_honest_orders_of_a_row_sum_raise_no_alarm(name: str) -> None:
    for seed in range(5):
        products, term = row_sums(name, seed)
        for words, order in ORDERS.items():
            assert collective(order(products), term, (slice(None),)) == "", words


@pytest.mark.slow
def test_no_false_alarm_in_20000_row_sums() -> None:
    for seed in range(20_000 // (len(CLASSES) * len(ORDERS))):
        for name in CLASSES:
            products, term = row_sums(name, 1000 + seed)
            for words, order in ORDERS.items():
                assert collective(order(products), term, (slice(None),)) == "", (name, seed, words)


LOST: dict[str, Callable[[F32], F32]] = {
    "the result in 13 bits": lambda x: to_bits(in_turn(x), 13),
    "the result in 14 bits": lambda x: to_bits(in_turn(x), 14),
    "each sum in tf32": lambda x: in_turn(x, lambda total: to_bits(total, 11)),
    "each sum in bf16": lambda x: in_turn(x, lambda total: to_bits(total, 8)),
    "the result truncated to 15 bits": lambda x: (in_turn(x).view(np.uint32) & 0xFFFFFE00).view(np.float32),
    "products in bf16": lambda x: in_turn(round_bf16(x).astype(np.float32)),
}


@pytest.mark.parametrize("words", LOST)
def test_a_row_sum_of_fewer_bits_is_found_although_no_element_leaves_its_bound(words: str) -> None:
    products, term = row_sums("normal", 3)
    found = LOST[words](products)
    assert collective(found, term, (slice(None),)) != ""
    if "result" in words:
        assert (np.abs(found - term.value) <= term.errors).all()


def test_additions_toward_zero_lean() -> None:
    products, term = row_sums("positive", 4)
    total: F32 = np.zeros(64, np.float32)
    for column in products.T:
        total = toward_zero(total, column).astype(np.float32)
    assert (np.abs(total - term.value) <= term.errors).all()
    assert "lean toward zero" in collective(total, term, (slice(None),))


def test_equal_terms_are_no_evidence() -> None:
    """Sums of 4096 equal terms: all roundings of a row go one way, far past what independent roundings do."""
    wide = np.ones((64, 4096))
    values = round_bf16(np.random.default_rng(1).standard_normal((64, 1)) * wide)
    term = BOUND.rowsum(Bounded(values), Bounded(round_bf16(wide / 3)))
    found = in_turn((values * round_bf16(wide / 3)).astype(np.float32))
    assert term.partial is not None and not term.partial.varied
    assert (np.abs(found - term.value) <= term.errors).all()
    assert collective(found, term, (slice(None),)) == ""
    object.__setattr__(term, "partial", replace(term.partial, sample=lambda: np.arange(8.0)[None]))
    assert collective(found, term, (slice(None),)) != ""


def product(name: str, seed: int, k: int = 576) -> tuple[np.ndarray, np.ndarray, Bounded]:
    rng = np.random.default_rng(seed)
    a, b = draw(name, rng, 32, k), draw(name, rng, 16, k)
    return a, b, BOUND.matmul(BOUND.read(BF16, a), BOUND.transpose(BOUND.read(BF16, b)))


@pytest.mark.parametrize("name", [*CLASSES])
def test_products_of_honest_machines_raise_no_alarm(name: str) -> None:
    for seed in range(3):
        a, b, term = product(name, seed)
        assert collective(tensor_core.matmul(a, b), term, ALL) == ""
        wide = a.astype(np.float32)[:, None] * b.astype(np.float32)[None]
        for order in (in_turn, by_lanes):
            found = order(wide.reshape(-1, a.shape[1])).reshape(term.value.shape)
            assert collective(found, term, ALL) == ""


@pytest.mark.parametrize(("bits", "steps"), [(11, False), (12, False), (11, True), (8, True)])
def test_products_of_fewer_bits_are_found(bits: int, steps: bool) -> None:
    a, b, term = product("normal", 7)
    wide = (a.astype(np.float32)[:, None] * b.astype(np.float32)[None]).reshape(-1, a.shape[1])
    found = in_turn(wide, lambda x: to_bits(x, bits)) if steps else to_bits(in_turn(wide), bits)
    assert collective(found.reshape(term.value.shape), term, ALL) != ""


def test_exact_and_endless_elements_are_left_out() -> None:
    exact = BOUND.rowsum(Bounded(np.ones((4, 8))), Bounded(np.ones((4, 8))))
    assert collective(np.full(4, 9, np.float32), exact, (slice(None),)) == ""
    endless = BOUND.rowsum(Bounded(np.full((4, 8), 2.0**100 / 3)), Bounded(np.full((4, 8), 2.0**27)))
    assert collective(np.full(4, np.inf, np.float32), endless, (slice(None),)) == ""
    assert collective(np.ones(4, np.float32), Bounded(np.ones(4), np.ones(4)), (slice(None),)) == ""
