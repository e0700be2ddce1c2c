"""Other formulas: what a stage would hold if one known term were missing, doubled, stale or mistaken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.observe.tiles import F64, Chain, Reference, StageTile
from tileproof.reference import stages as formulas
from tileproof.spec import chain_bounds, numerics
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.tiling import k_blocks


@dataclass(frozen=True)
class Alternative:
    """The whole tile as `cause` would have left it, within `bound`."""

    cause: str
    value: F64
    bound: F64


Make = Callable[[Chain, StageTile, Reference], Iterator[Alternative]]


def alternatives(chain: Chain, tile: StageTile, reference: Reference) -> Iterator[Alternative]:
    """The alternatives to the formula of the tile's stage, on the operands that the kernel had."""
    if tile.stage in _STAGES:
        with np.errstate(invalid="ignore", over="ignore"):
            yield from _STAGES[tile.stage](chain, tile, reference)


def _softmax(chain: Chain, tile: StageTile, reference: Reference) -> Iterator[Alternative]:
    own = dict(reference.operands)
    scale, lse = own["sm_scale"], np.asarray(own["lse"], np.float64)
    changes: dict[str, dict[str, Any]] = {
        "slots that are no key are not masked": {"mask": np.ones_like(own["mask"])},
        "the factor log2(e) is missing": {"sm_scale": scale / LOG2_E},
        "sm_scale is missing": {"sm_scale": 1.0},
        "sm_scale is applied twice": {"sm_scale": scale * scale},
        "lse is taken as a natural logarithm": {"lse": lse * LOG2_E},
        "lse is not subtracted": {"lse": np.zeros_like(lse)},
        "lse is that of the neighbouring head": {"lse": lse.reshape(-1, 2)[:, ::-1].reshape(-1)},
        "lse is rounded to bf16": {"lse": numerics.round_bf16(lse)},
    }
    for cause, change in changes.items():
        operands = own | change
        yield Alternative(cause, formulas.S(**operands), numerics.bound_S(**operands, operand=tile.operand))


def _gradient(chain: Chain, tile: StageTile, reference: Reference) -> Iterator[Alternative]:
    own = reference.operands
    scale, S = own["sm_scale"], np.asarray(own["S"], np.float64)
    dP, delta = (np.asarray(own[x], np.float64) for x in ("dP", "delta"))
    D, zero = dP - delta[:, None], np.zeros(())
    P, lse, mask = (chain.operand(x, tile.coord, tile.rows, tile.cols) for x in ("P", "lse", "mask"))
    e_S = chain_bounds.softmax(np.asarray(P, np.float64), zero, lse, mask, scale)[1]
    copy = chain.copy_of("S", tile.coord)
    neighbours = delta.reshape(-1, 2)[:, ::-1].reshape(-1)
    for cause, s, error, difference, factor in (
        ("delta is not subtracted", S, e_S, dP, scale),
        ("delta is added", S, e_S, dP + delta[:, None], scale),
        ("delta is that of the neighbouring head", S, e_S, dP - neighbours[:, None], scale),
        ("sm_scale is missing", S, e_S, D, 1.0),
        ("sm_scale is applied twice", S, e_S, D, scale * scale),
        ("the scale is 1 / sqrt(d_qk), not sm_scale", S, e_S, D, chain.inputs.problem.d_qk**-0.5),
        ("it is made from the bf16 copy of S", copy, zero, D, scale),
    ):
        yield Alternative(
            cause, s * difference * factor, chain_bounds.gradient(s, error, difference, zero, factor)
        )


def _query_gradient(chain: Chain, tile: StageTile, reference: Reference) -> Iterator[Alternative]:
    dS, k = (np.asarray(reference.operands[x], np.float64) for x in ("dS", "k"))
    blocks, size = k_blocks(chain.inputs, tile.coord.token, chain.b_topk), chain.b_topk
    slot = np.arange(blocks * size)

    def sums(cause: str, weight: npt.NDArray[np.float64]) -> Alternative:
        bound = numerics.bound_dQ(dS * weight, k) if dS.size else np.zeros_like(reference.bound)
        return Alternative(cause, (dS * weight) @ k, bound)

    if blocks > 1:
        last = (slot // size == blocks - 1).astype(np.float64)
        yield sums("only the last k-block counts: each one cleared the accumulator", last)
    for block in range(blocks):
        here = (slot // size == block).astype(np.float64)
        yield sums(f"the contribution of k-block {block} is missing", 1 - here)
        yield sums(f"the contribution of k-block {block} was added twice", 1 + here)
    for part, words in enumerate(("first", "second")):
        half = (slot % size // (size // 2) == part).astype(np.float64)
        yield sums(f"the {words} half of every k-block's keys is missing", 1 - half)
    swapped = dS.reshape(len(dS), blocks, 2, size // 2)[:, :, [0, 0]].reshape(dS.shape)
    keys = k.reshape(blocks, 2, size // 2, -1)[:, [0, 0]].reshape(k.shape)
    yield Alternative(
        "the first half of every k-block's keys took the place of the second",
        swapped @ keys,
        numerics.bound_dQ(swapped, keys) if dS.size else np.zeros_like(reference.bound),
    )


def _key_gradient(chain: Chain, tile: StageTile, reference: Reference) -> Iterator[Alternative]:
    own: dict[str, Any] = {n: np.asarray(value, np.float64) for n, value in reference.operands.items()}
    changes: dict[str, dict[str, F64]] = {
        "S^T dO is missing": {"S": np.zeros_like(own["S"])},
        "dS^T q is missing": {"dS": np.zeros_like(own["dS"])},
        "S^T dO was added twice": {"S": 2 * own["S"]},
        "dS^T q was added twice": {"dS": 2 * own["dS"]},
        "S and dS are exchanged": {"S": own["dS"], "dS": own["S"]},
        "S stands in the place of dS": {"dS": own["S"]},
        "dS stands in the place of S": {"S": own["dS"]},
    }
    for other in range(k_blocks(chain.inputs, tile.coord.token, chain.b_topk)):
        if other != tile.coord.k_block:
            there = replace(tile.coord, k_block=other)
            for name in ("S", "dS"):
                changes[f"operand {name} is that of k-block {other} (stale buffer)"] = {
                    name: chain.copy_of(name, there)
                }
    for cause, change in changes.items():
        operands = own | change
        yield Alternative(cause, formulas.dKV(**operands), numerics.bound_dKV(**operands))


_STAGES: dict[str, Make] = {"S": _softmax, "dS": _gradient, "dQ": _query_gradient, "dKV": _key_gradient}
