"""What CUTLASS's block-scaled products are given, and what they must give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.beside.record.recording import Replay
from tileproof.emulator import Buffer

from tests.kit.outside.cutlass_example import Check, Ran, kernel, put

E2M1, E4M3, E8M0 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


def packed(values: np.ndarray) -> np.ndarray:
    """e2m1 values as bytes, two in each, the first in the low half (PTX ISA 5.2.3)."""
    bits = values.astype(E2M1).view(np.uint8) & 15
    return bits[..., ::2] | bits[..., 1::2] << 4


def unpacked(data: np.ndarray) -> np.ndarray:
    return np.stack([data & 15, data >> 4], axis=-1).reshape(*data.shape[:-1], -1).view(E2M1)


def interleaved(scales: np.ndarray) -> np.ndarray:
    """Scale factors [rows, groups] in their layout: blocks of 128 rows and 4 groups, 512 bytes each, in which
    row r and group g lie at 16 (r mod 32) + 4 (r div 32) + g (PTX ISA 9.7.16.10.7, as CUTLASS stores it).
    """
    rows, groups = scales.shape
    blocks = scales.reshape(
        rows // 128, 4, 32, groups // 4, 4
    )  # row block, r div 32, r mod 32, group block, g
    return blocks.transpose(0, 3, 2, 1, 4).reshape(-1)


def with_rows_of_nan(factors: np.ndarray) -> np.ndarray:
    """With rows of NaN, which nothing may use, up to a multiple of 128."""
    rows, groups = factors.shape
    return np.concatenate([factors, np.full((-rows % 128, groups), np.nan, dtype=factors.dtype)])


def in_order(data: np.ndarray, rows: int, groups: int) -> np.ndarray:
    """The inverse of `interleaved`."""
    return data.reshape(rows // 128, groups // 4, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows, groups)


def _draw(
    rng: np.random.Generator,
    element: Any,
    scale: Any,
    rows: int,
    k: int,
    group: int,
    data: Buffer,
    by: Buffer,
) -> np.ndarray:
    """Writes an operand [rows, k] and its scale factors, and returns their product in float64. Sums of what
    is drawn are multiples of 1/16 below 2^17: exact in f32.
    """
    if element is E2M1:
        values = rng.integers(0, 16, (rows, k)).astype(np.uint8).view(E2M1)
        put(data, packed(values))
    else:
        values = rng.integers(-6, 7, (rows, k)).astype(element)
        put(data, values)
    factors = 2.0 ** rng.integers(-1, 2, (rows, k // group))
    put(by, interleaved(factors.astype(scale)))
    return values.astype(np.float64) * np.repeat(factors, group, axis=1)


def block_scaled(m: int, n: int, k: int, a_type: Any, b_type: Any, scale: Any, group: int) -> Check:
    """D [m, n] bf16 = A [m, k] B [n, k]^T, each `group` elements along k with a factor of type `scale`: exact
    sums, rounded once.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        a, b, _c, d, _reference, sfa, sfb = replay.memory.buffers[:7]
        rng = np.random.default_rng(29)
        left = _draw(rng, a_type, scale, m, k, group, a, sfa)
        right = _draw(rng, b_type, scale, n, k, group, b, sfb)
        put(d, np.full((m, n), np.nan, dtype=ml_dtypes.bfloat16))
        result = replay.run(launch, **how)
        found = d.numpy().view(ml_dtypes.bfloat16).reshape(m, n).astype(np.float64)
        expected = (left @ right.T).astype(ml_dtypes.bfloat16).astype(np.float64)
        return Ran((result,), {"D": (found, expected, 0.0)})

    return check


def quantised(m: int, n: int, k: int) -> Check:
    """D [m, n] e2m1 with a ue8m0 factor for 16 columns of a row, of the product that `block_scaled` has with
    e2m1 operands and e4m3 factors, times 2 (the program's constant).

    A factor is the largest magnitude of its 16 times 2 / 6, rounded up to a power of two; where that is one
    already, the error of the reciprocal of 6 may double it. An element is the product times 2 by the factor,
    rounded to nearest: exact for the factor found.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        a, b, _c, d, _reference, _factors, _constant, sfa, sfb, sfd = replay.memory.buffers[:10]
        rng = np.random.default_rng(31)
        left = _draw(rng, E2M1, E4M3, m, k, 16, a, sfa)
        right = _draw(rng, E2M1, E4M3, n, k, 16, b, sfb)
        put(d, np.full((m, n // 2), 0xFF, dtype=np.uint8))
        result = replay.run(launch, **how)
        product = (left @ right.T).reshape(m, n // 16, 16)
        third = np.abs(product).max(-1) / 3
        exponent = np.ceil(np.log2(third))
        tie = third == 2.0**exponent
        factor = in_order(sfd.numpy().view(E8M0), m, n // 16).astype(np.float64)
        allowed = np.where(tie & (factor == 2.0 ** (exponent + 1)), factor, 2.0**exponent)
        expected = np.clip(2 * product / factor[..., None], -6, 6).astype(E2M1).astype(np.float64)
        found = unpacked(d.numpy().reshape(m, n // 2)).astype(np.float64).reshape(product.shape)
        return Ran((result,), {"D": (found, expected, 0.0), "factors": (factor, allowed, 0.0)})

    return check


def grouped_block_scaled(m: int, n: int, k: int, groups: int) -> Check:
    """For each group D [m, n] f16 = alpha A [m, k] B [n, k]^T + beta C, e2m1 with e4m3 factors of 16
    elements, alpha and beta the program's; by one CTA an MMA and, in a second launch, by two. Rounded once.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        rng = np.random.default_rng(43)
        results, outputs = [], {}
        for name in ("one", "two"):
            launch = kernel(replay)
            buffers = replay.memory.buffers
            at = {buffer.address: buffer for buffer in buffers}
            first = next(i for i, b in enumerate(buffers) if b.bytes == 12 * groups) + 1  # behind the sizes
            pointers = [b.numpy().view(np.uint64) for b in buffers[first : first + 6]]
            scale, add = (b.numpy().view(np.float32) for b in buffers[first - 3 : first - 1])
            expected = []
            for group in range(groups):
                a, b, sfa, sfb, c, d = (at[int(pointer[group])] for pointer in pointers)
                left = _draw(rng, E2M1, E4M3, m, k, 16, a, sfa)
                right = _draw(rng, E2M1, E4M3, n, k, 16, b, sfb)
                start = rng.integers(-4, 5, (m, n)).astype(np.float16)
                put(c, start)
                put(d, np.full((m, n), np.nan, dtype=np.float16))
                value = float(scale[group]) * (left @ right.T) + float(add[group]) * start
                expected.append((d, value.astype(np.float16).astype(np.float64)))
            results.append(replay.run(launch, **how))
            for group, (d, value) in enumerate(expected):
                found = d.numpy().view(np.float16).reshape(m, n).astype(np.float64)
                outputs[f"{name} {group}"] = (found, value, 0.0)
        return Ran(tuple(results), outputs)

    return check
