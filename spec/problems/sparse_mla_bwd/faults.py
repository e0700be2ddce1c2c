"""Fault hypotheses: what a stage would hold if one known term were missing, doubled, stale or mistaken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tileproof.spec.numerics import LOG2_E, U_BF16, round_bf16
from tileproof.spec.problems.faults import F64, Alternative, FaultHypotheses, LaunchView, Operands, WrongTile
from tileproof.spec.problems.sparse_mla_bwd import coordinates, gathers
from tileproof.spec.problems.sparse_mla_bwd.inputs import D_V, Inputs
from tileproof.spec.problems.sparse_mla_bwd.shares import shares
from tileproof.spec.problems.sparse_mla_bwd.tiling import k_blocks

Make = Callable[[LaunchView, WrongTile], Iterator[Alternative]]
GATHER_ROWS = 4  # kv rows of one tile::gather4
WARP_LANES = 32
RING = 2  # k-blocks before, whose keys a buffer may still hold


class SparseMlaFaultHypotheses(FaultHypotheses):
    """The hypotheses by stage, gathered kv rows, and the codes of coordinate cases."""

    def alternatives(self, launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
        if tile.stage in _STAGES:
            with np.errstate(invalid="ignore", over="ignore"):
                yield from _STAGES[tile.stage](launched, tile)

    def operand_rows(
        self, launched: LaunchView, tile: WrongTile, a: F64, b: F64, names: tuple[str, str]
    ) -> str:
        if names[1] not in ("k", "v"):
            return ""
        return gathers.explain_rows(launched.inputs, tile, a, b, launched.tiling.ctas)

    def poison(self, launched: LaunchView, tile: WrongTile) -> str:
        tiles_of_keys = launched.stage(tile.stage).tile == ("h_q", "B_TOPK")
        return gathers.explain_poison(launched.inputs, tile) if tiles_of_keys else ""

    def scales(self, inputs: Inputs) -> Mapping[str, float]:
        p = inputs.problem
        return {
            "sm_scale": p.sm_scale,
            "1 / sm_scale": 1 / p.sm_scale,
            "log2(e)": LOG2_E,
            "sm_scale * log2(e)": p.sm_scale * LOG2_E,
            "1 / sqrt(d_qk)": p.d_qk**-0.5,
            "sqrt(d_qk)": p.d_qk**0.5,
        }

    def names(self, inputs: Inputs, stage: str, found: float) -> str:
        p = inputs.problem
        if stage not in ("P", "delta"):
            return ""
        origin = coordinates.decode(found, p.d_qk if stage == "P" else p.d_v)
        if origin is None:
            return "the value found is not a single coordinate: zero, a sum or a scaled value"
        first = origin.column_tile * coordinates.COLUMN_TILE
        columns = f"columns {first}..{first + coordinates.COLUMN_TILE - 1}"
        heads = f"a head congruent to {origin.head_class} modulo {coordinates.HEAD_CLASSES}"
        if stage == "P":
            return f"the value found comes from kv row {origin.row}, {columns}, and {heads}"
        token, head = divmod(origin.row, p.h_q)
        return f"the value found comes from dO of token {token}, head {head}, {columns}, and o of {heads}"

    def part(self, unit: str, low: int, high: int, size: int, ctas: int) -> str:
        count = high - low
        if unit == "slot" and count * ctas == size and low % count == 0:
            return f"the half of the keys that CTA {low // count} loads"
        if unit == "slot" and count == GATHER_ROWS and low % GATHER_ROWS == 0:
            return "one gather4"
        if unit == "column" and size > D_V and (low, high) in ((0, D_V), (D_V, size)):
            return "RoPE" if low else "NoPE"
        if unit == "head" and count == WARP_LANES and low % WARP_LANES == 0:
            return "the lanes of one warp"
        return ""


def _under(launched: LaunchView, tile: WrongTile, changes: Mapping[str, Operands]) -> Iterator[Alternative]:
    """The stage itself on changed operands; a plan's stage has not all of them."""
    stage = launched.stage(tile.stage)
    for cause, change in changes.items():
        if not set(change) <= set(stage.inputs):
            continue
        term = stage.bounded(copy=tile.copy, **{**tile.operands, **change})
        yield Alternative(cause, term.value, term.errors)


def _softmax(launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
    lse, mask = (tile.operands[name] for name in ("lse", "mask"))
    P = tile.operands["P"].value
    p = launched.inputs.problem
    factor = p.sm_scale
    log2 = factor * LOG2_E

    def exponent(wanted: F64) -> Operands:
        """P that gives this exponent."""
        return {"P": (wanted + lse.value[:, None]) / log2}

    yield from _under(
        launched,
        tile,
        {
            "slots without a key are not masked": {"mask": np.ones_like(mask)},
            "slots that are keys are masked": {"mask": np.zeros_like(mask)},
            "the factor log2(e) is missing": {"sm_scale": factor / LOG2_E},
            "sm_scale is missing": {"sm_scale": 1.0},
            "sm_scale is applied twice": {"sm_scale": factor * factor},
            "the scale is 1 / sqrt(d_qk), not sm_scale": {"sm_scale": p.d_qk**-0.5},
            "lse is taken as a natural logarithm": {"lse": lse.value * LOG2_E},
            "lse is a natural logarithm, and taken to base 2": {"lse": lse.value / LOG2_E},
            "P is taken as 0: its load from tensor memory was lost": {"P": np.zeros_like(P)},
            "lse is not subtracted": {"lse": np.zeros_like(lse.value)},
            "lse is that of the neighbouring head": {"lse": _neighbours(lse.value)},
            "the exponent is P - lse * scale, not P * scale - lse": exponent(P - lse.value[:, None] * log2),
            "the exponent is scale - lse * P, not P * scale - lse": exponent(log2 - lse.value[:, None] * P),
            "lse is rounded to bf16": {"lse": round_bf16(lse.value)},
            **{f"lse is that of {words}": {"lse": other} for words, other in _moved(lse.value)},
            **{f"the mask is that of {words}": {"mask": other} for words, other in _other_slots(mask)},
            **{words: {"mask": other} for words, other in _conditions(launched.inputs, tile)},
            **{words: {"P": other} for words, other in shares(launched, tile, "P")},
        },
    )


def _value_gradient(launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
    dO, v = (tile.operands[name].value for name in ("dO", "v"))
    x, token = launched.inputs, tile.coord.group
    index = x.indices[token, tile.cols]
    k = np.where((index >= 0) & (index < x.problem.s_kv), index, 0)
    keys = x.kv[k].astype(np.float64) * v.any(axis=1, keepdims=True)  # no key: a row of zeros
    changes: dict[str, Operands] = {"V is the last d_v columns of kv, not the first": {"v": keys[:, -D_V:]}}
    o = x.o[token].astype(np.float64).reshape(-1, *dO.shape)[tile.coord.cta or 0]
    changes["o is in the place of dO"] = {"dO": o}
    yield from _under(launched, tile, changes)


def _gradient(launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
    delta, dP = (tile.operands[name].value for name in ("delta", "dP"))
    p = launched.inputs.problem
    if tile.copy:
        S = launched.copy_of("S", tile.coord)
        yield Alternative("S is in the place of dS: the store of dS was lost", S, 2 * U_BF16 * np.abs(S))
    late = "sm_scale" not in tile.operands
    here = {"sm_scale is applied here, not at the end": {"S": tile.operands["S"].value * p.sm_scale}}
    yield from _under(
        launched,
        tile,
        {
            **(here if late else {}),
            "delta is not subtracted": {"delta": np.zeros_like(delta)},
            "delta is added": {"delta": -delta},
            "delta is that of the neighbouring head": {"delta": _neighbours(delta)},
            "sm_scale is missing": {"sm_scale": 1.0},
            "sm_scale is applied twice": {"sm_scale": p.sm_scale * p.sm_scale},
            "the scale is 1 / sqrt(d_qk), not sm_scale": {"sm_scale": p.d_qk**-0.5},
            "it is made from the bf16 copy of S": {"S": launched.copy_of("S", tile.coord)},
            "dP - delta is rounded to bf16": {
                "dP": round_bf16(dP - delta[:, None]),
                "delta": np.zeros_like(delta),
            },
            "dP is taken as 0: its load from tensor memory was lost": {"dP": np.zeros_like(dP)},
            "P is in the place of dP: the load of dP was lost, or loaded P": {
                "dP": launched.value_of("P", tile.coord)
            },
            **{f"delta is that of {words}": {"delta": other} for words, other in _moved(delta)},
            **{words: {"dP": other} for words, other in shares(launched, tile, "dP")},
        },
    )


def _moved(heads: F64) -> Iterator[tuple[str, F64]]:
    """The value of a head so many further, for each head; in the same CTA."""
    for step in (1, 2, 4, 8, 16, 32):
        yield f"the head {step} further", np.roll(heads, -step)
        yield f"the head {step} before", np.roll(heads, step)


def _other_slots(mask: npt.NDArray[np.generic]) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """The mask of a slot so many further, or of one half; what is behind the tile's or its half's end is no
    key.
    """
    for halves in (1, 2):
        parts = mask.reshape(*mask.shape[:-1], halves, -1)
        for step in (1, 2, 4, 8, 16, 32):
            if step >= parts.shape[-1]:
                continue
            none = np.zeros_like(parts[..., :step])
            later = np.concatenate((parts[..., step:], none), -1)
            before = np.concatenate((none, parts[..., :-step]), -1)
            where = ", within its half" if halves == 2 else ""
            yield f"the slot {step} further{where}", later.reshape(mask.shape)
            yield f"the slot {step} before{where}", before.reshape(mask.shape)
    first = mask.reshape(*mask.shape[:-1], 2, -1)
    yield "the other half", first[..., ::-1, :].reshape(mask.shape)


def _conditions(inputs: Inputs, tile: WrongTile) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Masks in which one of the three conditions of a key is missing, or some are the other way round."""
    p, token = inputs.problem, tile.coord.group
    index = inputs.indices[token, tile.cols]
    length = p.topk if inputs.topk_length is None else int(inputs.topk_length[token])
    slot = np.arange(tile.cols.start, tile.cols.stop) < length
    low, high = index >= 0, index < p.s_kv
    yield "the mask is the other way round", ~(slot & low & high)
    yield "slots beyond topk_length are not masked", low & high
    yield "slots of a negative index are not masked", slot & high
    yield "slots of an index beyond the last row are not masked", slot & low
    yield "of the conditions of a key all but the last are the other way round", ~(slot & low) & high
    yield "of the conditions of a key the last is the other way round", slot & low & ~high


def _neighbours(heads: F64) -> F64:
    """Every pair of heads exchanged."""
    return heads.reshape(-1, 2)[:, ::-1].reshape(-1)


def _query_gradient(launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
    dS, k = (tile.operands[name].value for name in ("dS", "k"))
    size = launched.tiling.block
    slot = np.arange(dS.shape[-1])  # of the tile: a kernel that skips k-blocks has fewer than the token
    blocks = -(-len(slot) // size)

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
    for block in range(1, blocks):
        for behind in range(1, min(block, RING) + 1):
            stale, own = k.copy(), slot[block * size : (block + 1) * size]
            stale[own] = k[own - behind * size]
            words = f"the keys of k-block {block} are those of k-block {block - behind} (stale buffer)"
            changes[words] = {"k": stale}
    for part, words in enumerate(("first", "second")):
        half = (slot % size // (size // 2) == part).astype(np.float64)
        changes[f"the {words} half of every k-block's keys is missing"] = weighted(1 - half)
    changes["the first half of every k-block's keys took the place of the second"] = {
        "dS": dS.reshape(len(dS), blocks, 2, size // 2)[:, :, [0, 0]].reshape(dS.shape),
        "k": k.reshape(blocks, 2, size // 2, -1)[:, [0, 0]].reshape(k.shape),
    }
    yield from _under(launched, tile, changes)


def _key_gradient(launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
    S, dS = (tile.operands[name].value for name in ("S", "dS"))
    changes: dict[str, Operands] = {
        "S^T dO is missing": {"S": np.zeros_like(S)},
        "dS^T q is missing": {"dS": np.zeros_like(dS)},
        "S^T dO was added twice": {"S": 2 * S},
        "dS^T q was added twice": {"dS": 2 * dS},
        "S and dS are exchanged": {"S": dS, "dS": S},
        "S is used instead of dS": {"dS": S},
        "dS is used instead of S": {"S": dS},
    }
    for other in range(k_blocks(launched.inputs, tile.coord.group, launched.tiling.block)):
        if other != tile.coord.k_block:
            there = replace(tile.coord, k_block=other)
            for name in ("S", "dS"):
                changes[f"operand {name} is that of k-block {other} (stale buffer)"] = {
                    name: launched.copy_of(name, there)
                }
            changes[f"dS of k-block {other} is in the place of S: the store of S was lost"] = {
                "S": launched.copy_of("dS", there)
            }
    yield from _under(launched, tile, changes)


_STAGES: dict[str, Make] = {
    "S": _softmax, "dP": _value_gradient, "dS": _gradient, "dQ": _query_gradient, "dKV": _key_gradient,
}  # fmt: skip
