"""What CUTLASS's product of a block-scaled matrix by a vector is given, and what it must give."""

from __future__ import annotations

from typing import Any

import numpy as np
from tileproof.conformance.beside.record.recording import Replay
from tileproof.emulator.errors import LaunchError

from tests.kit.outside.cutlass_block_scaled import E2M1, E4M3, interleaved, packed, unpacked, with_rows_of_nan
from tests.kit.outside.cutlass_example import Check, Ran, kernel, put


def _operand(
    rng: np.random.Generator, rows: int, k: int, values: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Elements [rows, k] e2m1, three of four 0, and factors [rows, k / 16] e4m3, 1 or 2."""
    elements = rng.choice(values, (rows, k)) * (rng.integers(0, 4, (rows, k)) == 0)
    return elements.astype(E2M1), rng.choice((1.0, 2.0), (rows, k // 16)).astype(E4M3)


def vector(m: int, k: int, batch: int, st: float) -> Check:
    """For each of the batch D [m] e2m1 and a factor e4m3 for each 16 of it = A [m, k] by B [k], e2m1 with
    e4m3 factors of 16 elements.

    The kernel adds in f16: every term is a multiple of 1/2 and no sum reaches 1024, so that each is exact in
    any order. A factor is the largest magnitude of its 16 by `st` / 6, the elements are the sums by `st` and
    the reciprocal of the factor, each step an f32 (epilogue_with_scaling_factor.h, lines 189 to 210).
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay, "GemvBlockScaled")
        a, b, _c, d, sfa, sfb, sfd = replay.memory.buffers[2:9]
        rng = np.random.default_rng(47)
        matrix, column = [], []
        product = np.zeros((batch, m))
        for at in range(batch):
            left, left_by = _operand(rng, m, k, (-2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2))
            right, right_by = _operand(rng, 1, k, (-2, -1, 1, 2))
            matrix.append((packed(left), interleaved(with_rows_of_nan(left_by))))
            column.append((packed(right), interleaved(with_rows_of_nan(right_by))))
            scaled, other = (
                v.astype(np.float64) * np.repeat(f.astype(np.float64), 16, axis=1)
                for v, f in ((left, left_by), (right, right_by))
            )
            product[at] = (scaled @ other.T)[:, 0]
            if np.abs(scaled * other).sum(1).max() >= 1024:
                raise LaunchError("a sum of these operands may not be exact in f16")
        for buffer, parts in ((a, [x for x, _ in matrix]), (sfa, [x for _, x in matrix])):
            put(buffer, np.stack(parts))
        for buffer, parts in ((b, [x for x, _ in column]), (sfb, [x for _, x in column])):
            put(buffer, np.stack(parts))
        put(d, np.full(batch * m // 2, 0xFF, dtype=np.uint8))
        result = replay.run(launch, **how)
        sums = product.astype(np.float32).reshape(batch, m // 16, 16)
        factor = (np.abs(sums).max(-1) * (np.float32(st) / np.float32(6))).astype(E4M3)
        up = np.float32(1) / factor.astype(np.float32) * np.float32(st)
        expected = np.clip(sums * up[..., None], -6, 6).astype(E2M1).astype(np.float64)
        found = unpacked(d.numpy()).astype(np.float64).reshape(expected.shape)
        # The factors of 64 rows lie in the first 4 of 512 bytes (one column of a layout for 128).
        factors = sfd.numpy().view(E4M3).reshape(batch, -1, 512)[..., :4].reshape(batch, -1)[:, : m // 16]
        return Ran(
            (result,),
            {
                "D": (found, expected, 0.0),
                "factors": (factors.astype(np.float64), factor.astype(np.float64), 0.0),
            },
        )

    return check
