"""The backward of dense attention in float64, block by block: the loop of a FlashAttention backward.

Query head h uses KV head h // (heads per KV head). Per block of keys (n) and block of queries (m) in which
the mask lets some query see some key::

    delta = rowsum(o * dO)                    [m]            once per query
    P     = q k^T                             [m, n]
    S     = exp(P * sm_scale + bias - lse)    [m, n]         0 where the mask hides the key
    D     = kept ? S / (1 - p) : 0            [m, n]         dropout with probability p
    dD    = dO v^T                            [m, n]
    dP    = kept ? dD / (1 - p) : 0           [m, n]
    dB    = S * (dP - delta)                  [m, n]         gradient of the bias
    dS    = dB * sm_scale                     [m, n]
    dV   += D^T dO                            [n, d_v]       while the block of keys stays
    dK   += dS^T q                            [n, d_qk]
    dQ   += dS k                              [m, d_qk]      while the block of queries comes back

Which elements dropout keeps is taken from the inputs (a Philox stream). Nothing else is shared with the
stages of spec/problems/dense_attention_bwd, not the mask either; tests hold the two against each other.
reference/README.md shows how to step through.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from tileproof.reference.tile import F64, Tiles, TileValue
from tileproof.spec.problems.base import TileCoord

if TYPE_CHECKING:
    from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem, Inputs
    from tileproof.spec.problems.dense_attention_bwd.masks import Mask


def visible(mask: Mask, m: int, n: int) -> npt.NDArray[np.bool_]:
    """``bool [m, n]``: query i sees key j if ``d - left <= j <= d + right``, without a limit that is None.

    The diagonal d is i, or i + n - m where the mask counts from the bottom right.
    """
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    distance = j - i - (n - m if mask.align == "bottom right" else 0)
    seen = np.ones((m, n), dtype=bool)
    if mask.left is not None:
        seen &= distance >= -mask.left
    if mask.right is not None:
        seen &= distance <= mask.right
    return seen


def sequences_of(p: DenseProblem) -> list[tuple[int, int, int, int, int]]:
    """(batch, first query, queries, first key, keys) of each; packed sequences lie one after another."""
    if p.packed is None:
        return [(batch, 0, p.m, 0, p.n) for batch in range(p.b)]
    sequences, m0, n0 = [], 0, 0
    for m, n in p.packed:
        sequences.append((0, m0, m, n0, n))
        m0, n0 = m0 + m, n0 + n
    return sequences


class PairOfBlocks(NamedTuple):
    """Blocks of queries and keys; `lse` and `delta` ``[m, 1]``, `visible` and `kept` ``[m, n]``."""

    q: F64
    dO: F64
    k: F64
    v: F64
    lse: F64
    delta: F64
    bias: F64 | float
    visible: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]


def scores(
    pair: PairOfBlocks, p: DenseProblem, at: TileCoord, rows: slice, cols: slice
) -> Generator[TileValue, None, tuple[F64, F64, F64]]:
    """Yield the tiles ``[m, n]`` of a pair of blocks; return D, dB and dS."""
    rescale = 1 / (1 - p.dropout.p)

    P = pair.q @ pair.k.T
    yield TileValue("P", at, rows, cols, P)

    with np.errstate(over="ignore"):  # lse may be anything where a query sees no key
        S = np.where(pair.visible, np.exp(P * p.sm_scale + pair.bias - pair.lse), 0.0)
    yield TileValue("S", at, rows, cols, S)

    D = np.where(pair.kept, S * rescale, 0.0)
    yield TileValue("D", at, rows, cols, D)

    dD = pair.dO @ pair.v.T
    yield TileValue("dD", at, rows, cols, dD)

    dP = np.where(pair.kept, dD * rescale, 0.0)
    yield TileValue("dP", at, rows, cols, dP)

    dB = S * (dP - pair.delta)
    yield TileValue("dB", at, rows, cols, dB)

    dS = dB * p.sm_scale
    yield TileValue("dS", at, rows, cols, dS)
    return D, dB, dS


def tiles(inputs: Inputs, *, queries: int = 64, keys: int = 64) -> Tiles:
    """Yield every tile and every partial sum, in blocks of `queries` and `keys`; return delta ``[b, h, m]``,
    dQ ``[b, h, m, d_qk]``, dK ``[b, h_kv, n, d_qk]``, dV ``[b, h_kv, n, d_v]`` and dB ``[b, h, m, n]``.

    A group is a KV head of a sequence; its rows are the queries of its query heads, one head after another.
    A k-block is a pair of blocks, numbered in the order of the loop. Partial are dV and dK at a k-block, the
    sums over the pairs of this key block so far, dQ at a k-block, the sum of this query block so far, and
    dQ_part, what this k-block adds to it.
    """
    p = inputs.problem
    heads = p.h // p.h_kv
    # To [b, h, m, d] and [b, h_kv, n, d].
    q, o, dO = (x.astype(np.float64).swapaxes(1, 2) for x in (inputs.q, inputs.o, inputs.dO))
    K, V = (x.astype(np.float64).swapaxes(1, 2) for x in (inputs.k, inputs.v))
    lse, bias = inputs.lse.astype(np.float64), inputs.bias
    kept = inputs.kept
    delta = np.zeros((p.b, p.h, p.m))
    dQ, dB = np.zeros((p.b, p.h, p.m, p.d_qk)), np.zeros((p.b, p.h, p.m, p.n))
    dK, dV = np.zeros((p.b, p.h_kv, p.n, p.d_qk)), np.zeros((p.b, p.h_kv, p.n, p.d_v))
    column, of_qk, of_v = slice(0, 1), slice(0, p.d_qk), slice(0, p.d_v)

    sequences = sequences_of(p)
    for group in range(len(sequences) * p.h_kv):
        batch, m0, m, n0, n = sequences[group // p.h_kv]
        kv_head = group % p.h_kv
        seen = visible(p.mask, m, n)
        own_heads = range(kv_head * heads, (kv_head + 1) * heads)
        whole = TileCoord(group, 0, None)

        for position, head in enumerate(own_heads):
            of_head = batch, head, slice(m0, m0 + m)
            delta[of_head] = (o[of_head] * dO[of_head]).sum(axis=1)
            rows = slice(position * m, (position + 1) * m)
            yield TileValue("delta", whole, rows, column, delta[of_head].copy())

        k_block = 0
        for j in range(0, n, keys):
            cols = slice(j, min(j + keys, n))
            at_keys = batch, kv_head, slice(n0 + cols.start, n0 + cols.stop)
            k, v = K[at_keys], V[at_keys]  # [n, d_qk], [n, d_v] of this block
            dK_sum, dV_sum = np.zeros(k.shape), np.zeros(v.shape)

            for position, head in enumerate(own_heads):
                for i in range(0, m, queries):
                    block = slice(i, min(i + queries, m))
                    mask = seen[block, cols]
                    if not mask.any():
                        continue
                    at = TileCoord(group, 0, k_block)
                    rows = slice(position * m + block.start, position * m + block.stop)
                    at_rows = batch, head, slice(m0 + block.start, m0 + block.stop)
                    at_tile = (*at_rows, at_keys[2])
                    pair = PairOfBlocks(
                        q[at_rows], dO[at_rows], k, v, lse[at_rows][:, None], delta[at_rows][:, None],
                        0.0 if bias is None else bias[at_tile].astype(np.float64), mask, kept[at_tile],
                    )  # fmt: skip
                    D, dB[at_tile], dS = yield from scores(pair, p, at, rows, cols)

                    dV_sum = dV_sum + D.T @ dO[at_rows]
                    yield TileValue("dV", at, cols, of_v, dV_sum, partial=True)

                    dK_sum = dK_sum + dS.T @ q[at_rows]
                    yield TileValue("dK", at, cols, of_qk, dK_sum, partial=True)

                    dQ_part = dS @ k
                    yield TileValue("dQ_part", at, rows, of_qk, dQ_part, partial=True)

                    dQ[at_rows] += dQ_part
                    yield TileValue("dQ", at, rows, of_qk, dQ[at_rows].copy(), partial=True)
                    k_block += 1

            dK[at_keys], dV[at_keys] = dK_sum, dV_sum
            yield TileValue("dK", whole, cols, of_qk, dK_sum)
            yield TileValue("dV", whole, cols, of_v, dV_sum)

        for position, head in enumerate(own_heads):
            rows = slice(position * m, (position + 1) * m)
            yield TileValue("dQ", whole, rows, of_qk, dQ[batch, head, m0 : m0 + m].copy())
            of_bias = dB[batch, head, m0 : m0 + m, n0 : n0 + n]
            yield TileValue("dB", whole, rows, slice(0, n), of_bias.copy())

    return {"delta": delta, "dQ": dQ, "dK": dK, "dV": dV, "dB": dB}
