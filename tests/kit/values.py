# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Operand values that find faults: the edges of each type, crossed, and raw random bits."""

from __future__ import annotations

import itertools

import numpy as np

F32_EDGES = np.array(
    [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001,
     0x3F800000, 0xBF800000, 0x3F800001, 0x3FC00000, 0x40490FDB, 0xC2C80000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
     0xFF800000, 0x7FC00000, 0x7F812345, 0xFFC12345, 0x33800000, 0x4B000001, 0xCB000000, 0x4F000000, 0xCF000000,
     0x4EFFFFFF, 0x4F800000, 0x3F000000, 0xBF000000, 0x40200000], dtype=np.uint32,
).view(np.float32)  # fmt: skip


def integer_edges(dtype: np.dtype | type) -> np.ndarray:
    """Values around 0, the powers of two and the ends of the type."""
    info = np.iinfo(dtype)
    bits = info.bits
    wanted = {0, 1, 2, 3, 5, 7, 31, 32, 100, 1 << (bits // 2), (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1,
              (1 << bits) - 2, 0x5A5A5A5A5A5A5A5A & ((1 << bits) - 1), (1 << (bits - 1)) + 1}  # fmt: skip
    return np.array(sorted(wanted), dtype=np.uint64).astype(f"u{bits // 8}").view(dtype)


def crossed(edges: np.ndarray, operands: int, seed: int, count: int = 1024) -> list[np.ndarray]:
    """`operands` arrays of `count`: the edges crossed (as many as fit), then raw bits from `seed`."""
    rng = np.random.default_rng(seed)
    raw = edges.dtype.itemsize
    combos = list(itertools.product(range(len(edges)), repeat=operands))
    chosen = (
        combos
        if len(combos) <= count - 128
        else [combos[i] for i in rng.permutation(len(combos))[: count - 128]]
    )
    picked = np.array(chosen)
    out = []
    for k in range(operands):
        random = rng.integers(0, 256, size=(count - len(chosen)) * raw, dtype=np.uint8).view(edges.dtype)
        out.append(np.concatenate([edges[picked[:, k]], random]))
    return out


def same_f32(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit, except that any NaN equals any NaN."""
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all(), f"NaN at {np.nonzero(np.isnan(got) != nan)[0][:5]}"
    different = (got.view(np.uint32) != want.view(np.uint32)) & ~nan
    assert not different.any(), (
        f"at {np.nonzero(different)[0][:5]}: {got[different][:5]} != {want[different][:5]}"
    )


def ftz(x: np.ndarray) -> np.ndarray:
    """Subnormals to zero of the same sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x).astype(np.float32)


def wide_values(seed: int) -> np.ndarray:
    """f32 around the range of the small types, ties and beyond included."""
    rng = np.random.default_rng(seed)
    near = (rng.integers(-4096, 4097, 400) / np.float32(2) ** rng.integers(0, 14, 400)).astype(np.float32)
    far = (rng.standard_normal(80) * np.float32(2) ** rng.integers(-30, 20, 80)).astype(np.float32)
    return np.concatenate([near, far, F32_EDGES])
