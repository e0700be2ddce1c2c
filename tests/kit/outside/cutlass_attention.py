"""What CUTLASS's attention kernels are given, and what they must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.beside.record.recording import Replay

from tests.kit.outside.cutlass_example import Check, Ran, kernel, put


@dataclass(frozen=True)
class Attention:
    """One head of attention in float64; `causal`: row i sees the keys up to i; `scale` is of Q K^T, by
    default one by the root of the head's width.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = False
    scale: float = 0.0

    @classmethod
    def draw(cls, rows: int, keys: int, d: int, causal: bool = False) -> Attention:
        rng = np.random.default_rng(5)
        q, k, v = (rng.standard_normal((n, d)).astype(np.float16) for n in (rows, keys, keys))
        return cls(q, k, v, causal)

    @property
    def scores(self) -> np.ndarray:
        scale = self.scale or 1 / np.sqrt(self.q.shape[1])
        s = self.q.astype(np.float64) @ self.k.astype(np.float64).T * scale
        return np.where(np.tri(*s.shape) > 0, s, -np.inf) if self.causal else s

    @property
    def lse(self) -> np.ndarray:
        """-inf where there is no key."""
        s = self.scores
        if not s.shape[1]:
            return np.full(len(s), -np.inf)
        best = s.max(1)
        return best + np.log(np.exp(s - best[:, None]).sum(1))

    @property
    def p(self) -> np.ndarray:
        return np.exp(self.scores - self.lse[:, None])


# Both operands of a product are f16: the one that was computed was rounded (relative 2^-11), and so is the
# result.
# What f32 adds is below the last term.
_F16 = 2.0**-10 + 2.0**-15


def _rounded(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A product with its bound of error, where `left` was rounded to f16 and the result is f16."""
    right = right.astype(np.float64)
    return left @ right, _F16 * (np.abs(left) @ np.abs(right))


def _judged(attention: Attention) -> tuple[np.ndarray, np.ndarray]:
    """O of one head in float64 and the bound of its error: P is rounded to the type of V relative to the
    largest of its row, the result to f16; what f32 adds is small.
    """
    relative, absolute = _STEP[attention.v.dtype]
    v, p = attention.v.astype(np.float64), attention.p
    value = p @ v
    moved = relative * p + absolute * p.max(1, keepdims=True, initial=0)
    return value, 1.01 * moved @ np.abs(v) + 2.0**-11 * np.abs(value) + 2.0**-15 * (p @ np.abs(v))


# Half of the step between two values next to 1 and 0: how far rounding moves a number, relative and absolute.
_STEP = {np.dtype(np.float16): (2.0**-11, 2.0**-25), np.dtype(ml_dtypes.float8_e4m3fn): (2.0**-4, 2.0**-10)}


def forward(
    lengths: Sequence[tuple[int, int]],
    d: int,
    heads: int = 1,
    kv_heads: int = 1,
    causal: bool = False,
    packed: bool = False,
    dtype: Any = np.float16,
) -> Check:
    """O f16 and the log-sum-exp f32 of sequences of (queries, keys); head h reads the keys of head
    h / (heads / kv_heads). `packed`: sequences of several lengths lie one after the other, O after as many
    bytes that nothing uses.
    """
    rows, keys = (sum(pair[side] for pair in lengths) for side in (0, 1))

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = kernel(replay)
        rng = np.random.default_rng(5)
        q, k, v = (
            rng.standard_normal((n, h, d)).astype(dtype)
            for n, h in ((rows, heads), (keys, kv_heads), (keys, kv_heads))
        )
        buffers = replay.memory.buffers
        for buffer, values in zip(buffers, (q, k, v), strict=False):
            buffer.write(values)  # the program allocates K and V for as many heads as Q has
        result = replay.run(launch, **how)
        o = buffers[3].numpy().view(np.float16)[-rows * heads * d :].reshape(rows, heads, d)
        lse = buffers[4].numpy().view(np.float32)
        found, expected, most, sums, wanted = [], [], [], [], []
        row = key = 0
        for queries, seen in lengths:
            for head in range(heads):
                at, other = slice(row, row + queries), (slice(key, key + seen), head * kv_heads // heads)
                attention = Attention(q[at, head], k[other], v[other], causal)
                value, bound = _judged(attention)
                found.append(o[at, head])
                expected.append(value)
                most.append(bound)
                first = head * rows + row if packed else (row * heads + head * queries)
                sums.append(lse[first : first + queries])
                wanted.append(attention.lse)
            row, key = row + queries, key + seen
        o64, lse64 = np.concatenate(found).astype(np.float64), np.concatenate(sums).astype(np.float64)
        return Ran(
            (result,),
            {
                "O": (o64, np.concatenate(expected), np.concatenate(most)),
                "lse": (lse64, np.concatenate(wanted), 1e-5),
            },
        )

    return check


def latent(batch: int, page: int) -> Check:
    """Attention of 128 heads over latent keys of 512, which are the values too, and 64 rotated ones, in
    pages: a first launch with a persistent grid, a second without. The program draws the lengths.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        results = []
        outputs: dict[str, tuple[np.ndarray, np.ndarray, Any]] = {}
        for name in ("persistent", "individual"):
            launch = kernel(replay)
            rng = np.random.default_rng(23)
            q_, o_, lse_, _, _, lengths, table, cache_ = (b for b in replay.memory.buffers[-8:])
            q = rng.standard_normal((batch, 128, 576)).astype(np.float16)
            cache = rng.standard_normal((cache_.bytes // (page * 1152), page, 576)).astype(np.float16)
            put(q_, q)
            put(cache_, cache)
            results.append(replay.run(launch, **how))
            pages = table.numpy().view(np.int32).reshape(batch, -1)
            o = o_.numpy().view(np.float16).reshape(batch, 128, 512).astype(np.float64)
            lse = lse_.numpy().view(np.float32).reshape(batch, 128).astype(np.float64)
            for at, keys in enumerate(lengths.numpy().view(np.int32)):
                k = cache[pages[at, : -(-keys // page)]].reshape(-1, 576)[:keys]
                attention = Attention(q[at], k, k[:, :512], scale=1 / np.sqrt(128 + 64))
                outputs[f"{name} O {at}"] = (o[at], *_judged(attention))
                outputs[f"{name} lse {at}"] = (lse[at], attention.lse, 1e-5)
        return Ran(tuple(results), outputs)

    return check


def backward(rows: int, keys: int, d: int, causal: bool = False) -> Check:
    """Three launches: the row sums of O dO, the gradients, dQ from f32 to f16."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        attention = Attention.draw(rows, keys, d, causal)
        do = np.random.default_rng(6).standard_normal((rows, d)).astype(np.float16)
        p, scale = attention.p, 1 / np.sqrt(d)
        o = (p @ attention.v.astype(np.float64)).astype(np.float16)
        launch = kernel(replay)
        buffers = list(replay.memory.buffers)
        given = {
            0: attention.q,
            1: attention.k,
            2: attention.v,
            3: o,
            4: attention.lse.astype(np.float32),
            8: do,
        }
        for at, values in given.items():
            put(buffers[at], values)
        results = [replay.run(launch, **how)]
        results += [replay.run(kernel(replay), **how) for _ in range(2)]
        dq, dk, dv = (
            buffers[at].numpy().view(np.float16).reshape(-1, d).astype(np.float64) for at in (5, 6, 7)
        )
        left, right = do.astype(np.float64), attention.v.astype(np.float64)
        # The example multiplies O and dO in f16 (fmha_kernel_bwd_sum_OdO.hpp, line 143).
        delta = (o * do).astype(np.float64).sum(1, keepdims=True)
        ds = p * (left @ right.T - delta) * scale
        # dP and delta are sums of d terms in f32; dS, unscaled, may be a subnormal of f16.
        sums = np.abs(left) @ np.abs(right).T + (np.abs(o * do).astype(np.float64)).sum(1, keepdims=True)
        most = (p * sums * d * 2.0**-24 + 2.0**-25) * scale

        def gradient(a: np.ndarray, b: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, bound = _rounded(a, b)
            return value, bound + error @ np.abs(b.astype(np.float64)) + 2.0**-25

        return Ran(
            tuple(results),
            {
                "dQ": (dq, *gradient(ds, attention.k, most)),
                "dK": (dk, *gradient(ds.T, attention.q, most.T)),
                "dV": (dv, *_rounded(p.T, do)),
            },
        )

    return check
