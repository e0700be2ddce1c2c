# ruff: noqa: E501 - a case's words are kept whole
"""Cases of values, in CUDA: the inputs, and the outputs in float64 with their bounds."""

from __future__ import annotations

from functools import cache

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.tools.bugs.program import CudaCase

ULP = 2.0**-24  # of f32: half a unit in the last place, relative


def _case(
    rows: str,
    wrong: str,
    base: str,
    file: str,
    values: Array,
    codes: str,
    at: str = "",
    bounds: Array | None = None,
    **how: object,
) -> CudaCase:
    flat = tuple(float(value) for value in np.ravel(values))
    limits = () if bounds is None else tuple(float(bound) for bound in np.ravel(bounds))
    name = file.removesuffix(".cu").replace("_", "-")
    return CudaCase(
        name,
        tuple(rows.split()),
        wrong,
        base,
        "CUDA",
        file,
        "",
        flat,
        tuple(codes.split()),
        at,
        bounds=limits,
        **how,  # type: ignore[arg-type]
    )


def _padded_width() -> CudaCase:
    x = np.arange(320, dtype=np.float32) + 1
    return _case(
        "N26", "a row is stored as wide as it is padded: the next row's first columns are overwritten", "rows of 40 columns, padded to 64",
        "padded_width.cu", 2 * x, "race-unordered global-out-of-bounds", "out[row * 40 + c] =", inputs=(x,), threads=256,
    )  # fmt: skip


def _lazy_rescale() -> CudaCase:
    rng = np.random.default_rng(28)
    s = rng.normal(size=(32, 64)).astype(np.float32)
    s[:, 40] += 30  # an outlier: normal scores never grow by 8
    v = rng.normal(size=64).astype(np.float32)
    p = np.exp2(s.astype(np.float64) - s.max(1, keepdims=True))
    sums, parts = p.sum(1), (p * np.abs(v)).sum(1)
    value = (p * v).sum(1) / sums
    # exp2f within 2 ulp, its argument within half of 40 ulp, 64 products and additions, a quotient
    bound = (64 + 2 + 4 + 40) * 2 * ULP * (parts / sums + np.abs(value))
    return _case(
        "N28", "terms of before a jump of the maximum are rescaled in the denominator only: normal scores never show it",
        "softmax with a lazy maximum", "lazy_rescale.cu", value, "value", "a0[0]", bound, inputs=(s, v), threads=32,
    )  # fmt: skip


def _blocks_of_queries() -> CudaCase:
    q = np.arange(32, dtype=np.float32) - 7
    key = np.full(64, np.nan, np.float32)
    key[:48] = 0
    key[:45] = np.arange(45) % 5 - 2
    return _case(
        "N30", "keys are padded to the block size of the queries: rows that nobody wrote are multiplied", "a sum over blocks of keys",
        "blocks_of_queries.cu", q * key[:45].sum(), "value", "a0[0]", inputs=(q, key), threads=32,
    )  # fmt: skip


def _odd_atoms() -> CudaCase:
    x = np.arange(16 * 24, dtype=np.float32) + 1
    return _case(
        "N33", "atoms of 8 columns are exchanged in pairs, also the last of an odd number: it lands in the next row", "a staged tile of 24 columns",
        "odd_atoms.cu", x, "race-unordered", "tile[row * 24 + at * 8 + c] =", inputs=(x,), threads=128,
    )  # fmt: skip


def _first_pair_masked() -> CudaCase:
    s = np.random.default_rng(34).normal(size=(32, 8)).astype(np.float32)
    s[7, :2] = s[9, 2:4] = s[11, 6:] = -np.inf
    value = np.log2(np.exp2(s.astype(np.float64)).sum(1))
    # log2 of a sum with a relative error of 16 ulp, and the rounding of the result
    bound = 2 * ULP * (16 / np.log(2) + 2 + np.abs(value))
    return _case(
        "N34 I5", "a first pair of masked keys: the maximum is -inf, and -inf less -inf is NaN", "log-sum-exp of pairs of keys",
        "first_pair_masked.cu", value, "value", "a0[7]", bound, inputs=(s,), threads=32,
    )  # fmt: skip


def _product_in_bf16() -> CudaCase:
    x = (0.9 + 0.2 * np.random.default_rng(35).random((32, 64))).astype(np.float32)
    value = np.cumprod(x.astype(np.float64), axis=1)
    bound = np.arange(1, 65) * ULP * 1.01 * np.abs(value)  # each step rounds once
    return _case(
        "N35", "a cumulative product is kept in bf16: its error grows from step to step, as a bound for all steps cannot tell",
        "a cumulative product", "product_in_bf16.cu", value, "value", "a0[0]", bound, inputs=(x,), threads=32,
    )  # fmt: skip


def _lock_kept() -> CudaCase:
    return _case(
        "H35", "a block without a part returns with the lock taken: the other spins for ever", "two blocks and a spin lock", "lock_kept.cu",
        np.array([0, 3]), "hang livelock value", "while (*(volatile", inputs=(np.array([0, 3], np.int32),), begins=np.zeros(2, np.int32),
        threads=32, grid=2,
    )  # fmt: skip


@cache
def cases() -> tuple[CudaCase, ...]:
    """All cases in CUDA."""
    return (
        _padded_width(), _lazy_rescale(), _blocks_of_queries(), _odd_atoms(), _first_pair_masked(), _product_in_bf16(), _lock_kept(),
    )  # fmt: skip
