"""Row sums that go wrong at one step of every lane: each planted step is named, noise is not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.diagnose.chains import MASKS, explain_chain
from tileproof.conformance.diagnose.faults import Product

ROWS = np.arange(2, 64, 4)  # one head of each batch of four


def product(seed: int = 5) -> Product:
    """delta of 64 heads."""
    a, b = np.random.default_rng(seed).standard_normal((2, 64, 512))
    return Product("rowsum", a, b, ("o", "dO"))


def summed(right: Product, step=None, exchange=None, ctas: int = 1):
    """delta as 32 lanes sum it, 16 rows a warp: `step(n, x, y, z)` is the sum after element n of a lane's
    columns, `exchange(mask, value)` what the lanes have after an exchange.
    """
    a, b = (
        operand.reshape(64, 2, 32, 8).transpose(1, 3, 0, 2).reshape(ctas, -1, 64, 32)
        for operand in (right.a, right.b)
    )
    result = np.zeros((64, 1))
    for cta in range(ctas):
        sums = np.zeros((64, 32))
        for n, (x, y) in enumerate(zip(a[cta], b[cta], strict=True)):
            sums = step(n, x, y, sums) if step else x * y + sums
        for mask in MASKS:
            other = sums[:, np.arange(32) ^ mask]
            sums = exchange(mask, sums, other) if exchange else sums + other
        result[:, 0] += sums[np.arange(64), np.arange(64) % 16]
    return result


def told(right: Product, changed) -> str:
    found = right.value()
    found[ROWS] = changed[ROWS]
    return explain_chain(right, found, right.bound(), (ROWS, np.arange(1)))


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x, y, z: x * z + y, "operand dO and the sum so far are exchanged"),
        (lambda x, y, z: z * y + x, "operand o and the sum so far are exchanged"),
        (lambda x, y, z: x * y + y, "operand dO of element 5 instead of the sum so far"),
        (lambda x, y, z: x * x + z, "operand o of element 5 instead of operand dO"),
    ],
)
def test_another_operand_of_one_product(wrong, says, ctas):
    right = product()
    changed = summed(right, lambda n, x, y, z: wrong(x, y, z) if n == 5 else x * y + z, ctas=ctas)
    assert told(right, changed) == f"in every lane's sum of products, at its element 5: {says}"


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda own, other: own, "that exchange is missing"),
        (lambda own, other: own + own, "twice its own"),
        (lambda own, other: other + other, "twice the other's"),
        (lambda own, other: own + own[:, np.arange(32) ^ 3], "twice its own"),  # which comes to that
    ],
)
def test_another_operand_of_one_exchange(wrong, says, ctas):
    right = product()
    changed = summed(
        right, exchange=lambda m, own, other: wrong(own, other) if m == 4 else own + other, ctas=ctas
    )
    assert told(right, changed) == f"where the lanes add the value of lane l ^ 4: {says}"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda word: word << 15, "operand dO is its word shifted left by 15"),
        (lambda word: word, "operand dO is its whole word"),
        (lambda word: word & 0, "that product is missing"),
    ],
)
def test_an_element_taken_out_of_its_word_wrongly(wrong, says):
    right = product()
    o, dO = (operand.astype(ml_dtypes.bfloat16).astype(np.float64) for operand in (right.a, right.b))
    right = Product("rowsum", o, dO, ("o", "dO"))
    halves = dO.astype(np.float32).view(np.uint32) >> 16
    words = halves[:, ::2] | halves[:, 1::2] << 16
    moved = dO.reshape(64, 256, 2).copy()
    moved[:, 3::4, 0] = wrong(words).view(np.float32)[:, 3::4].astype(np.float64)  # element 6 of each access
    change = (right.a.reshape(64, 256, 2) * (moved - dO.reshape(64, 256, 2))).sum(axis=(1, 2))
    changed = right.value() + change[:, None]
    assert told(right, changed) == f"in every lane's sum of products, at its element 6: {says}"


def test_right_sums_and_noise_say_nothing():
    right = product()
    assert np.allclose(summed(right), right.value()) and np.allclose(summed(right, ctas=2), right.value())
    noise = right.value() + np.random.default_rng(7).standard_normal((64, 1))
    assert told(right, noise) == ""


def test_a_sum_of_other_rows_is_not_named_a_step():
    right = product()
    assert told(right, np.roll(right.value(), 1)) == ""
