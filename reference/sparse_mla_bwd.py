"""The backward of sparse MLA attention in float64, tile by tile as a kernel walks it.

One KV head; V is the first d_v columns of kv. Every token selects its keys by `indices`. A cluster works on a
token; each of its CTAs has some of the heads. Per token and block of `block` slots (B_TOPK)::

    delta = rowsum(o * dO)                         [heads]           once per token
    P     = q k^T                                  [heads, B_TOPK]
    S     = exp2(P * sm_scale * log2(e) - lse)     [heads, B_TOPK]   0 where the slot is no key
    dP    = dO v^T                                 [heads, B_TOPK]
    dS    = S * (dP - delta) * sm_scale            [heads, B_TOPK]
    dQ   += dS k                                   [heads, d_qk]
    dKV   = dS^T q, and S^T dO added to columns < d_v                [B_TOPK, d_qk]
                                                   then added to the rows `indices` of dKV [s_kv, d_qk]

An attention sink, one more logit per head without a value, enters through lse and o. Its gradient is::

    d_sink = -sum over tokens of exp2(sink * log2(e) - lse) * delta                             [heads]

Nothing here is shared with the stages of spec/problems/sparse_mla_bwd; tests hold the two against each other.
reference/README.md shows how to step through.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tileproof.reference.tile import F64, Outputs, Tiles, TileValue
from tileproof.spec.problems.base import TileCoord

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

LOG2_E = math.log2(math.e)


def sink_weight(sink: F64, lse: F64) -> F64:
    """``[heads]``: the sink's part of the softmax; all of it where lse is +inf and there is a sink."""
    with np.errstate(invalid="ignore"):
        share = np.exp2(np.minimum(sink * LOG2_E - lse, 0.0))  # above 0 where lse is rounded
    return np.where(np.isposinf(lse) & (sink > -np.inf), 1.0, share)


def tiles(inputs: Inputs, *, block: int = 64, ctas: int = 2, sink: F64 | None = None) -> Tiles:
    """Yield every tile and every partial sum; return delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]`` and
    dKV ``[s_kv, d_qk]``, and with a `sink` ``[h_q]`` (natural units) d_sink ``[h_q]``.

    `block` divides topk, `ctas` divides h_q. Partial are

    - dQ at (token, CTA, k-block): the sum up to and with this k-block;
    - dKV at (token, CTA, k-block): the sum over this CTA's heads. The cluster's, which is added to rows, is
      dKV at (token, None, k-block);
    - d_sink at (token, CTA, None): the sum up to and with this token.
    """
    p = inputs.problem
    q, kv, o, dO, lse = (x.astype(np.float64) for x in (inputs.q, inputs.kv, inputs.o, inputs.dO, inputs.lse))
    delta = np.zeros((p.s_q, p.h_q))
    dQ = np.zeros((p.s_q, p.h_q, p.d_qk))
    dKV = np.zeros((p.s_kv, p.d_qk))
    outputs: Outputs = {"delta": delta, "dQ": dQ, "dKV": dKV}
    if sink is not None:
        outputs["d_sink"] = d_sink = np.zeros(p.h_q)

    heads_of = [slice(cta * p.h_q // ctas, (cta + 1) * p.h_q // ctas) for cta in range(ctas)]
    column, all_columns = slice(0, 1), slice(0, p.d_qk)

    for token in range(p.s_q):
        # Slots that count: all, or the first topk_length, which may lie outside 0..topk.
        length = p.topk
        if inputs.topk_length is not None:
            length = min(max(int(inputs.topk_length[token]), 0), p.topk)

        for cta, heads in enumerate(heads_of):
            delta[token, heads] = (o[token, heads] * dO[token, heads]).sum(axis=1)
            yield TileValue("delta", TileCoord(token, cta, None), heads, column, delta[token, heads].copy())

            if sink is not None:
                d_sink[heads] -= sink_weight(sink[heads], lse[token, heads]) * delta[token, heads]
                at = TileCoord(token, cta, None)
                yield TileValue("d_sink", at, heads, column, d_sink[heads].copy(), partial=True)

        for k_block in range(-(-length // block)):
            # A slot is a key if it counts and its index is a row of kv; every other slot gathers zeros.
            slots = slice(k_block * block, (k_block + 1) * block)
            index = inputs.indices[token, slots].astype(np.int64)  # [B_TOPK]
            key = np.arange(slots.start, slots.stop) < length
            key &= (index >= 0) & (index < p.s_kv)
            k = np.zeros((block, p.d_qk))
            k[key] = kv[index[key]]
            v = k[:, : p.d_v]

            dKV_tile = np.zeros((block, p.d_qk))
            for cta, heads in enumerate(heads_of):
                at = TileCoord(token, cta, k_block)
                q_tile, dO_tile = q[token, heads], dO[token, heads]  # [heads, d_qk], [heads, d_v]

                P = q_tile @ k.T
                yield TileValue("P", at, heads, slots, P)

                with np.errstate(over="ignore", invalid="ignore"):  # lse is infinite where there is no key
                    S = np.where(key, np.exp2(P * p.sm_scale * LOG2_E - lse[token, heads, None]), 0.0)
                yield TileValue("S", at, heads, slots, S)

                dP = dO_tile @ v.T
                yield TileValue("dP", at, heads, slots, dP)

                dS = S * (dP - delta[token, heads, None]) * p.sm_scale
                yield TileValue("dS", at, heads, slots, dS)

                dQ[token, heads] += dS @ k
                yield TileValue("dQ", at, heads, all_columns, dQ[token, heads].copy(), partial=True)

                dKV_part = dS.T @ q_tile
                dKV_part[:, : p.d_v] += S.T @ dO_tile
                yield TileValue("dKV", at, slots, all_columns, dKV_part, partial=True)
                dKV_tile = dKV_tile + dKV_part

            yield TileValue("dKV", TileCoord(token, None, k_block), slots, all_columns, dKV_tile)
            np.add.at(dKV, index[key], dKV_tile[key])  # an index that repeats adds each time

        for cta, heads in enumerate(heads_of):
            yield TileValue("dQ", TileCoord(token, cta, None), heads, all_columns, dQ[token, heads].copy())

    return outputs
