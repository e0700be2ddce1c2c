"""What CUTLASS's products for mixtures of experts are given, and what they must give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.beside.record.recording import Replay
from tileproof.emulator import Buffer

from tests.kit.outside.cutlass_block_scaled import E2M1, E4M3, interleaved, packed, with_rows_of_nan
from tests.kit.outside.cutlass_example import Check, Ran, kernel, put


def _last(replay: Replay, sizes: list[int]) -> list[Buffer]:
    """The last allocations in a row that have these sizes in bytes."""
    buffers = replay.memory.buffers
    found = [i for i in range(len(buffers)) if [b.bytes for b in buffers[i : i + len(sizes)]] == sizes]
    return list(buffers[found[-1] :])


def _judged(d: Buffer, expected: np.ndarray, tokens: Sequence[int], name: str) -> dict[str, Any]:
    """D [experts, n, m] f16 against [experts, n, m] float64; what lies behind an expert's tokens is not D."""
    found = d.numpy().view(np.float16).reshape(expected.shape).astype(np.float64)
    wanted = expected.astype(np.float16).astype(np.float64)
    return {f"{name} {at}": (found[at, :n], wanted[at, :n], 0.0) for at, n in enumerate(tokens)}


def experts(m: int, n: int, k: int, tokens: Sequence[int], programs: int = 1) -> Check:
    """For each expert, one for each number of `tokens` up to n, D [m, tokens] column-major f16 = A [m, k]
    B [tokens, k]^T, e4m3 small integers, in allocations for n tokens, by each of the kernels: exact.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        rng = np.random.default_rng(53)
        count = len(tokens)
        results = []
        outputs: dict[str, Any] = {}
        for program in range(programs):
            launch = kernel(replay)
            a, b, c, d = _last(replay, [count * m * k, count * n * k] + 3 * [2 * count * m * n])[:4]
            left, right = (
                rng.integers(-2, 3, (count, rows, k)).astype(ml_dtypes.float8_e4m3fn) for rows in (m, n)
            )
            for at, most in enumerate(tokens):
                right[at, most:] = np.nan  # rows that nothing may use
            for buffer, values in ((a, left), (b, right), (c, np.zeros((count, n, m), dtype=np.float16))):
                put(buffer, values)
            put(d, np.full((count, n, m), np.nan, dtype=np.float16))
            results.append(replay.run(launch, **how))
            product = right.astype(np.float64) @ left.astype(np.float64).transpose(0, 2, 1)
            outputs |= _judged(d, product, tokens, f"D {program}")
        return Ran(tuple(results), outputs)

    return check


def block_scaled_experts(m: int, n: int, k: int, tokens: Sequence[int], programs: int = 1) -> Check:
    """The same of e2m1 with e4m3 factors of 16 elements: sums that are exact in f32, rounded once."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        rng = np.random.default_rng(59)
        count = len(tokens)
        results = []
        outputs: dict[str, Any] = {}
        for program in range(programs):
            launch = kernel(replay)
            sizes = [count * m * k // 2, count * n * k // 2] + 3 * [2 * count * m * n]
            a, b, c, d, _reference, _factors, _constant, sfa, sfb, _sfd = _last(replay, sizes)[:10]
            product = np.zeros((count, n, m))
            data: dict[str, list[np.ndarray]] = {"a": [], "b": [], "sfa": [], "sfb": []}
            for at, most in enumerate(tokens):
                values = []
                for side, rows in (("a", m), ("b", n)):
                    elements = rng.integers(0, 16, (rows, k)).astype(np.uint8).view(E2M1)
                    factors = (2.0 ** rng.integers(-1, 2, (rows, k // 16))).astype(E4M3)
                    if side == "b":
                        factors[most:] = np.nan  # rows that nothing may use
                    data[side].append(packed(elements))
                    data[f"sf{side}"].append(interleaved(with_rows_of_nan(factors)))
                    values.append(elements.astype(np.float64) * np.repeat(factors.astype(np.float64), 16, 1))
                product[at] = values[1] @ values[0].T
            for buffer, side in ((a, "a"), (b, "b"), (sfa, "sfa"), (sfb, "sfb")):
                put(buffer, np.stack(data[side]))
            put(c, np.zeros((count, n, m), dtype=np.float16))
            put(d, np.full((count, n, m), np.nan, dtype=np.float16))
            results.append(replay.run(launch, **how))
            outputs |= _judged(d, product, tokens, f"D {program}")
        return Ran(tuple(results), outputs)

    return check
