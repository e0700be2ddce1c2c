"""Fault hypotheses: what a stage would hold if one known term were missing, doubled, stale or mistaken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.exact import F64
from tileproof.spec.numerics import LOG2_E, round_bf16
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs
from tileproof.spec.problems.sparse_mla_bwd.tiling import k_blocks
from tileproof.spec.stage import Stage

Operands = Mapping[str, Any]


class Launched(Protocol):
    """What a hypothesis may ask of the launch: its inputs, and the operands that the kernel had."""

    inputs: Inputs
    b_topk: int

    def stage(self, name: str) -> Stage:
        """The stage of that name."""

    def copy_of(self, name: str, coord: TileCoord) -> F64:
        """The rounded copy of a tile that the kernel's MMAs read."""


@dataclass(frozen=True)
class Alternative:
    """The whole tile as `cause` would have left it, within `bound`."""

    cause: str
    value: F64
    bound: F64


@dataclass(frozen=True)
class Tile:
    """The tile in question: stage, place, operands, and whether its rounded copy is what is seen."""

    stage: str
    coord: TileCoord
    operands: Operands
    copy: bool


Make = Callable[[Launched, Tile], Iterator[Alternative]]


def alternatives(launched: Launched, tile: Tile) -> Iterator[Alternative]:
    """The alternatives to the formula of the tile's stage, on the operands that the kernel had."""
    if tile.stage in _STAGES:
        with np.errstate(invalid="ignore", over="ignore"):
            yield from _STAGES[tile.stage](launched, tile)


def _under(launched: Launched, tile: Tile, changes: Mapping[str, Operands]) -> Iterator[Alternative]:
    """The stage itself on changed operands."""
    stage = launched.stage(tile.stage)
    for cause, change in changes.items():
        term = stage.bounded(copy=tile.copy, **{**tile.operands, **change})
        yield Alternative(cause, term.value, term.errors)


def _softmax(launched: Launched, tile: Tile) -> Iterator[Alternative]:
    lse, mask = (tile.operands[name] for name in ("lse", "mask"))
    factor = launched.inputs.problem.sm_scale
    yield from _under(
        launched,
        tile,
        {
            "slots that are no key are not masked": {"mask": np.ones_like(mask)},
            "the factor log2(e) is missing": {"sm_scale": factor / LOG2_E},
            "sm_scale is missing": {"sm_scale": 1.0},
            "sm_scale is applied twice": {"sm_scale": factor * factor},
            "lse is taken as a natural logarithm": {"lse": lse.value * LOG2_E},
            "lse is not subtracted": {"lse": np.zeros_like(lse.value)},
            "lse is that of the neighbouring head": {"lse": _neighbours(lse.value)},
            "lse is rounded to bf16": {"lse": round_bf16(lse.value)},
        },
    )


def _gradient(launched: Launched, tile: Tile) -> Iterator[Alternative]:
    delta = tile.operands["delta"].value
    p = launched.inputs.problem
    yield from _under(
        launched,
        tile,
        {
            "delta is not subtracted": {"delta": np.zeros_like(delta)},
            "delta is added": {"delta": -delta},
            "delta is that of the neighbouring head": {"delta": _neighbours(delta)},
            "sm_scale is missing": {"sm_scale": 1.0},
            "sm_scale is applied twice": {"sm_scale": p.sm_scale * p.sm_scale},
            "the scale is 1 / sqrt(d_qk), not sm_scale": {"sm_scale": p.d_qk**-0.5},
            "it is made from the bf16 copy of S": {"S": launched.copy_of("S", tile.coord)},
        },
    )


def _neighbours(heads: F64) -> F64:
    """Every pair of heads exchanged."""
    return heads.reshape(-1, 2)[:, ::-1].reshape(-1)


def _query_gradient(launched: Launched, tile: Tile) -> Iterator[Alternative]:
    dS, k = (tile.operands[name].value for name in ("dS", "k"))
    blocks, size = k_blocks(launched.inputs, tile.coord.token, launched.b_topk), launched.b_topk
    slot = np.arange(blocks * size)

    def weighted(weight: npt.NDArray[np.float64]) -> Operands:
        return {"dS": dS * weight}

    changes: dict[str, Operands] = {}
    if blocks > 1:
        last = (slot // size == blocks - 1).astype(np.float64)
        changes["only the last k-block counts: each one cleared the accumulator"] = weighted(last)
    for block in range(blocks):
        here = (slot // size == block).astype(np.float64)
        changes[f"the contribution of k-block {block} is missing"] = weighted(1 - here)
        changes[f"the contribution of k-block {block} was added twice"] = weighted(1 + here)
    for part, words in enumerate(("first", "second")):
        half = (slot % size // (size // 2) == part).astype(np.float64)
        changes[f"the {words} half of every k-block's keys is missing"] = weighted(1 - half)
    changes["the first half of every k-block's keys took the place of the second"] = {
        "dS": dS.reshape(len(dS), blocks, 2, size // 2)[:, :, [0, 0]].reshape(dS.shape),
        "k": k.reshape(blocks, 2, size // 2, -1)[:, [0, 0]].reshape(k.shape),
    }
    yield from _under(launched, tile, changes)


def _key_gradient(launched: Launched, tile: Tile) -> Iterator[Alternative]:
    S, dS = (tile.operands[name].value for name in ("S", "dS"))
    changes: dict[str, Operands] = {
        "S^T dO is missing": {"S": np.zeros_like(S)},
        "dS^T q is missing": {"dS": np.zeros_like(dS)},
        "S^T dO was added twice": {"S": 2 * S},
        "dS^T q was added twice": {"dS": 2 * dS},
        "S and dS are exchanged": {"S": dS, "dS": S},
        "S stands in the place of dS": {"dS": S},
        "dS stands in the place of S": {"S": dS},
    }
    for other in range(k_blocks(launched.inputs, tile.coord.token, launched.b_topk)):
        if other != tile.coord.k_block:
            there = replace(tile.coord, k_block=other)
            for name in ("S", "dS"):
                changes[f"operand {name} is that of k-block {other} (stale buffer)"] = {
                    name: launched.copy_of(name, there)
                }
    yield from _under(launched, tile, changes)


_STAGES: dict[str, Make] = {"S": _softmax, "dS": _gradient, "dQ": _query_gradient, "dKV": _key_gradient}
