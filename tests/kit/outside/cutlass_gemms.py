"""What CUTLASS's matrix products are given, and what they must give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.beside.record.recording import Replay

from tests.kit.outside.cutlass_example import Check, Ran, kernel, of, put


def gemm(m: int, n: int, k: int, dtype: Any = np.float16) -> Check:
    """D [m, n] column-major f32 = A [m, k] B [n, k]^T, small integers as `dtype`: exact."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        (a, _), (b, _), (c, _), (_d, out) = of(replay, dtype, dtype, np.float32, np.float32)
        rng = np.random.default_rng(7)
        left, right = (rng.integers(-4, 5, (rows, k)).astype(dtype) for rows in (m, n))
        put(a, left)
        put(b, right)
        put(c, np.zeros((n, m), dtype=np.float32))
        result = replay.run(launch, **how)
        expected = left.astype(np.float64) @ right.astype(np.float64).T
        return Ran((result,), {"D": (out.reshape(n, m).T.astype(np.float64), expected, 0.0)})

    return check


def fp8(m: int, n: int, k: int) -> Check:
    """D [m, n] column-major e4m3 = relu(A [m, k] B [n, k]^T), aux without the relu; the program's own
    inputs.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        buffers = replay.memory.buffers
        a, b, d, aux = (buffers[at].numpy().view(ml_dtypes.float8_e4m3fn) for at in (0, 1, 3, 5))
        left, right = a.reshape(m, k).astype(np.float64), b.reshape(n, k).astype(np.float64)
        result = replay.run(launch, **how)
        product = np.clip(left @ right.T, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        found, before = (x.reshape(n, m).T.astype(np.float64) for x in (d, aux))
        return Ran((result,), {"D": (found, np.maximum(product, 0), 0.0), "aux": (before, product, 0.0)})

    return check


def grouped(m: int, n: int, k: int, groups: int) -> Check:
    """For each group D [m, n] column-major f16 = alpha A [m, k] B [n, k]^T + beta C, e4m3 operands, alpha and
    beta of its own; by one CTA an MMA and, in a second launch, by two.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        rng = np.random.default_rng(11)
        results, outputs = [], {}
        for name in ("one", "two"):
            launch = kernel(replay)
            a, b, c, d, _reference, alpha, beta = replay.memory.buffers[:7]
            left, right = (
                rng.integers(-2, 3, (groups, rows, k)).astype(ml_dtypes.float8_e4m3fn) for rows in (m, n)
            )
            start = rng.integers(-4, 5, (groups, n, m)).astype(np.float16)
            for buffer, values in ((a, left), (b, right), (c, start)):
                put(buffer, values)
            put(d, np.full((groups, n, m), np.nan, dtype=np.float16))
            results.append(replay.run(launch, **how))
            product = np.einsum("gik,gjk->gji", left.astype(np.float64), right.astype(np.float64))
            scale, add = (x.numpy().view(np.float32).astype(np.float64)[:, None, None] for x in (alpha, beta))
            expected = (scale * product + add * start.astype(np.float64)).astype(np.float16)
            found = d.numpy().view(np.float16).reshape(groups, n, m)
            outputs[name] = (found.astype(np.float64), expected.astype(np.float64), 0.0)
        return Ran(tuple(results), outputs)

    return check


def builders(m: int, n: int, k: int, alpha: float, beta: float, programs: int) -> Check:
    """D [m, n] column-major f16 = alpha A [m, k] B [n, k]^T + beta C by each of the example's kernels, f16
    small integers: rounded once.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        rng = np.random.default_rng(37)
        results, outputs = [], {}
        sizes = [2 * m * k, 2 * n * k] + 3 * [2 * m * n]
        for at in range(programs):
            launch = kernel(replay)
            buffers = replay.memory.buffers  # the last that were made, a workspace perhaps behind them
            first = max(i for i in range(len(buffers)) if [b.bytes for b in buffers[i : i + 5]] == sizes)
            a, b, c, d = buffers[first : first + 4]
            left, right, start = (
                rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k), (n, m))
            )
            for buffer, values in ((a, left), (b, right), (c, start)):
                put(buffer, values)
            put(d, np.full((n, m), np.nan, dtype=np.float16))
            results.append(replay.run(launch, **how))
            product = right.astype(np.float64) @ left.astype(np.float64).T
            expected = (alpha * product + beta * start.astype(np.float64)).astype(np.float16)
            found = d.numpy().view(np.float16).reshape(n, m)
            outputs[f"D {at}"] = (found.astype(np.float64), expected.astype(np.float64), 0.0)
        return Ran(tuple(results), outputs)

    return check


def emulated(m: int, n: int, k: int) -> Check:
    """D [m, n] column-major f32 = A [m, k] B [n, k]^T, f32 operands as three bf16 each and nine products."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        (a, _), (b, _), (c, _), (_d, out) = of(replay, *[np.float32] * 4)
        rng = np.random.default_rng(13)
        left, right = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n))
        put(a, left)
        put(b, right)
        put(c, np.zeros((n, m), dtype=np.float32))
        result = replay.run(launch, **how)
        left, right = left.astype(np.float64), right.astype(np.float64)
        # The split is exact (24 bits in three of 8). The k / 16 steps of the leading products are added up in
        # f32, each sum cut off at 2^-23 of what has come together; the other products are below 2^-8 of them,
        # and the parts are added with their scales.
        most = (1.02 * k / 16 + 16) * 2.0**-23 * (np.abs(left) @ np.abs(right).T)
        return Ran((result,), {"D": (out.reshape(n, m).T.astype(np.float64), left @ right.T, most)})

    return check


def blockwise(m: int, n: int, k: int, rows_a: int = 128, groups: int = 1) -> Check:
    """For each group D [m, n] column-major e4m3 = the sum over blocks of 128 along k of e4m3 products, each
    scaled in f32 by a factor of its `rows_a` rows of A and one of its 128 columns of B.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        a, b, _c, d, _reference, sfa, sfb = replay.memory.buffers[:7]
        rng = np.random.default_rng(17)
        left, right = (
            rng.integers(-2, 3, (groups, rows, k)).astype(ml_dtypes.float8_e4m3fn) for rows in (m, n)
        )
        put(a, left)
        put(b, right)
        put(d, np.full((groups, n, m), np.nan, dtype=ml_dtypes.float8_e4m3fn))
        expected = np.zeros((groups, m, n))
        scale = []
        for buffer, rows, group in ((sfa, m, rows_a), (sfb, n, 128)):  # rows / group factors a block of k
            factors = 2.0 ** rng.integers(-3, 1, (groups, k // 128, rows // group)) * 0.75
            put(buffer, factors.astype(np.float32))
            scale.append(np.repeat(factors, group, axis=2))
        by_row, by_column = scale
        for at in range(k // 128):
            step = slice(128 * at, 128 * at + 128)
            block_a, other = (x[:, :, step].astype(np.float64) for x in (left, right))
            expected += (
                by_row[:, at, :, None] * by_column[:, at, None, :] * (block_a @ other.transpose(0, 2, 1))
            )
        result = replay.run(launch, **how)
        rounded = np.clip(expected, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        found = d.numpy().view(ml_dtypes.float8_e4m3fn).reshape(groups, n, m).transpose(0, 2, 1)
        return Ran((result,), {"D": (found.astype(np.float64), rounded, 0.0)})

    return check


def tutorial(m: int, n: int, k: int) -> Check:
    """D [m, n] = A [m, k] B [n, k]^T of CuTe's tutorial, f16 and column-major; the program's own signs."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay, "gemm_device")
        (_, a), (_, b), (_, d) = of(replay, *[np.float16] * 3)
        left, right = a.reshape(k, m).T.astype(np.float64), b.reshape(k, n).T.astype(np.float64)
        result = replay.run(launch, **how)
        return Ran((result,), {"D": (d.reshape(n, m).T.astype(np.float64), left @ right.T, 0.0)})

    return check
