"""The tiled walk: every intermediate of the backward with its coordinates, and the outputs they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference import stages
from tileproof.reference.rounding import EXACT, Rounding
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs, Problem, key_mask
from tileproof.spec.problems.sparse_mla_bwd.tiling import TileCoord, gather, k_blocks, rows_of

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TileValue:
    """One tile of one stage.

    `rows` and `cols` are global: heads and slots for P, S, dP, dS; heads for delta (cols has length 1); heads
    and columns of q for dQ; slots and columns of kv for dKV. `operand` is the copy that the next MMA reads,
    where there is one (S, dS). dQ comes once a k-block, as the running sum, and once with k_block None, as
    the output.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: F64
    operand: F64 | None = None


@dataclass(frozen=True)
class Outputs:
    """delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]``, dKV ``[s_kv, d_qk]``, float64."""

    delta: F64
    dQ: F64
    dKV: F64


def walk(
    inputs: Inputs, b_topk: int = B_TOPK, ctas: int = 2, rounding: Rounding = EXACT
) -> Iterator[TileValue]:
    """Every tile: per token delta, then per k-block P, S, dP, dS, dQ per CTA and dKV, then dQ out."""
    p = inputs.problem
    mask = key_mask(inputs)
    every_column = slice(0, p.d_qk)
    for token in range(p.s_q):
        heads = [rows_of(p, cta, ctas) for cta in range(ctas)]
        q, dO, lse = inputs.q[token], inputs.dO[token], inputs.lse[token]
        delta = []
        for cta, rows in enumerate(heads):
            delta.append(stages.delta(inputs.o[token, rows], dO[rows], rounding))
            yield TileValue("delta", TileCoord(token, cta, None), rows, slice(0, 1), delta[cta])

        accumulator: list[F64] = [np.zeros((rows.stop - rows.start, p.d_qk)) for rows in heads]
        for k_block in range(k_blocks(inputs, token, b_topk)):
            cols = slice(k_block * b_topk, (k_block + 1) * b_topk)
            k = gather(inputs, token, cols)
            key = mask[token, cols]
            s_tiles, ds_tiles = [], []
            for cta, rows in enumerate(heads):
                coord = TileCoord(token, cta, k_block)
                P = stages.P(q[rows], k, rounding)
                yield TileValue("P", coord, rows, cols, P)
                S = stages.S(P, lse[rows], key, p.sm_scale, rounding)
                s_tiles.append(rounding.operand(S))
                yield TileValue("S", coord, rows, cols, S, s_tiles[cta])
                dP = stages.dP(dO[rows], k[:, : p.d_v], rounding)
                yield TileValue("dP", coord, rows, cols, dP)
                dS = stages.dS(S, dP, delta[cta], p.sm_scale, rounding)
                ds_tiles.append(rounding.operand(dS))
                yield TileValue("dS", coord, rows, cols, dS, ds_tiles[cta])
                accumulator[cta] = stages.dQ(ds_tiles[cta], k, accumulator[cta], rounding)
                yield TileValue("dQ", coord, rows, every_column, accumulator[cta])
            dKV = stages.dKV(np.concatenate(s_tiles), dO, np.concatenate(ds_tiles), q, rounding)
            yield TileValue("dKV", TileCoord(token, None, k_block), cols, every_column, dKV)

        for cta, rows in enumerate(heads):
            yield TileValue(
                "dQ", TileCoord(token, cta, None), rows, every_column, rounding.out(accumulator[cta])
            )


def outputs(inputs: Inputs, b_topk: int = B_TOPK, ctas: int = 2, rounding: Rounding = EXACT) -> Outputs:
    """The outputs that the walk adds up to."""
    p = inputs.problem
    mask = key_mask(inputs)
    result = Outputs(np.zeros((p.s_q, p.h_q)), np.zeros((p.s_q, p.h_q, p.d_qk)), np.zeros((p.s_kv, p.d_qk)))
    for tile in walk(inputs, b_topk, ctas, rounding):
        token = tile.coord.token
        if tile.stage == "delta":
            result.delta[token, tile.rows] = tile.value
        elif tile.stage == "dQ" and tile.coord.k_block is None:
            result.dQ[token, tile.rows] = tile.value
        elif tile.stage == "dKV":
            for slot in np.flatnonzero(mask[token, tile.rows]):
                row = inputs.indices[token, tile.rows.start + slot]
                result.dKV[row] = rounding.add(result.dKV[row], tile.value[slot])
    return result


def forward(inputs: Inputs) -> tuple[F64, F64]:
    """``o [s_q, h_q, d_v]`` and base-2 ``lse [s_q, h_q]`` in float64; no key: o = 0, lse = +inf."""
    p = inputs.problem
    mask = key_mask(inputs)
    o, lse = np.zeros((p.s_q, p.h_q, p.d_v)), np.full((p.s_q, p.h_q), np.inf)
    for token in range(p.s_q):
        if not mask[token].any():
            continue
        k = inputs.kv[inputs.indices[token][mask[token]]].astype(np.float64)
        logits = inputs.q[token].astype(np.float64) @ k.T * (p.sm_scale * LOG2_E)
        top = logits.max(axis=1, keepdims=True)
        weights = np.exp2(logits - top)
        total = weights.sum(axis=1, keepdims=True)
        o[token] = weights / total @ k[:, : p.d_v]
        lse[token] = (top + np.log2(total))[:, 0]
    return o, lse


def with_forward(problem: Problem, *, exact: bool = False, **arrays: Any) -> Inputs:
    """Inputs whose o and lse are those of the forward: in the kernel's dtypes, or in float64 when `exact`.

    `arrays` are q, kv, dO, indices and, if wanted, topk_length.
    """
    o = np.zeros((problem.s_q, problem.h_q, problem.d_v), dtype=arrays["q"].dtype)
    inputs = Inputs(problem, o=o, lse=np.zeros((problem.s_q, problem.h_q), np.float32), **arrays)
    o64, lse64 = forward(inputs)
    if exact:
        return replace(inputs, o=o64, lse=lse64)
    return replace(inputs, o=o64.astype(o.dtype), lse=lse64.astype(np.float32))
