"""Known mistakes of a dense attention backward: hypotheses by stage, factors, words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.dense_attention_bwd.inputs import MAX_SPLITS, Inputs
from tileproof.spec.problems.dense_attention_bwd.stages import part_names
from tileproof.spec.problems.faults import (
    F64,
    Alternative,
    FaultHypotheses,
    LaunchView,
    Mask,
    Operands,
    WrongTile,
)

Make = Callable[[LaunchView, WrongTile], Mapping[str, Operands]]


class DenseFaultHypotheses(FaultHypotheses):
    """The hypotheses by stage: the stage itself on changed operands; `by_key_block`: those of that walk."""

    def __init__(self, by_key_block: bool = False) -> None:
        self._stages = _KEY_BLOCK if by_key_block else _STAGES

    def alternatives(self, launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
        if tile.stage not in self._stages:
            return
        with np.errstate(invalid="ignore", over="ignore"):
            stage = launched.stage(tile.stage)
            for cause, change in self._stages[tile.stage](launched, tile).items():
                if set(change) <= set(stage.inputs):
                    term = stage.bounded(copy=tile.copy, **{**tile.operands, **change})
                    yield Alternative(cause, term.value, term.errors)

    def scales(self, inputs: Inputs) -> Mapping[str, float]:
        p = inputs.problem
        return {
            "sm_scale": p.sm_scale,
            "1 / sm_scale": 1 / p.sm_scale,
            "log2(e)": LOG2_E,
            "1 / log2(e)": 1 / LOG2_E,
            "1 / (1 - p)": p.dropout.rescale,
            "1 - p": 1 - p.dropout.p,
        }


def _softmax(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    operands = tile.operands
    lse, mask, P = operands["lse"].value, operands["mask"], operands["P"].value
    scale = launched.inputs.problem.sm_scale
    changes: dict[str, Operands] = {
        "keys that a query does not see are not masked": {"mask": np.ones_like(mask)},
        "sm_scale is missing": {"sm_scale": 1.0},
        "sm_scale is applied twice": {"sm_scale": scale * scale},
        "lse is not subtracted": {"lse": np.zeros_like(lse)},
        "lse is taken as base 2": {"lse": lse / LOG2_E},
        "lse is taken as base e": {"lse": lse * LOG2_E},
        "lse is that of the next query": {"lse": np.roll(lse, -1)},
        "P is taken as 0": {"P": np.zeros_like(P)},
    }
    if "bias" in operands:
        bias = operands["bias"].value
        changes |= {
            "the bias is missing": {"bias": np.zeros_like(bias)},
            "the bias counts in base 2": {"bias": bias / LOG2_E},
            "the bias is scaled": {"bias": bias * scale},
            "the bias is subtracted": {"bias": -bias},
        }
    for words, moved in _limits(mask):
        changes[f"the mask's limit is {words}"] = {"mask": moved}
    return changes


def _limits(mask: Mask) -> Iterator[tuple[str, Mask]]:
    """The mask with a limit one key further out or in."""
    right, left = np.zeros_like(mask), np.zeros_like(mask)
    right[:, 1:], left[:, :-1] = mask[:, :-1], mask[:, 1:]
    yield "one key too far to the right", mask | right
    yield "one key too far to the left", mask | left
    yield "one key short on the right", mask & left
    yield "one key short on the left", mask & right


def _dropped(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    kept = tile.operands["kept"]
    every = np.ones_like(kept)
    return {
        "nothing is dropped": {"kept": every},
        "nothing is dropped or scaled": {"kept": every, "rescale": 1.0},
        "what is kept is not multiplied by 1 / (1 - p)": {"rescale": 1.0},
        "what was to be kept is dropped": {"kept": ~kept},
        "the dropout is that of the next query": {"kept": np.roll(kept, -1, axis=0)},
        "the dropout is that of the next key": {"kept": np.roll(kept, -1, axis=1)},
    }


def _gradient(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    delta, dP = (tile.operands[name].value for name in ("delta", "dP"))
    scale = launched.inputs.problem.sm_scale
    return {
        "delta is not subtracted": {"delta": np.zeros_like(delta)},
        "delta is added": {"delta": -delta},
        "delta is that of the next query": {"delta": np.roll(delta, -1)},
        "dP is taken as 0": {"dP": np.zeros_like(dP)},
        "sm_scale is missing": {"sm_scale": 1.0},
        "sm_scale is applied twice": {"sm_scale": scale * scale},
    }


def _bias_gradient(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    delta, S = tile.operands["delta"].value, tile.operands["S"]
    scale = launched.inputs.problem.sm_scale
    return {
        "delta is not subtracted": {"delta": np.zeros_like(delta)},
        "sm_scale is applied to it": {"S": Bounded(S.value * scale, S.errors * scale + 2.0**-140)},
    }


def _sums(names: tuple[str, str], axis: str) -> Make:
    """A product over a walked axis: blocks of it that are missing, or alone."""

    def changes(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
        name = names[0]
        operand: F64 = tile.operands[name].value
        along = launched.stage(tile.stage).axes[name].index(axis)
        total, heads = operand.shape[along], launched.inputs.problem.heads if axis == "m" else 1
        size = launched.tiling.block
        if axis == "n":
            size = launched.tiling.tile("n") if launched.tiling.shape else max(total, 1)
        place = np.arange(total) % (total // heads) // size + np.arange(total) // (total // heads) * 1000
        kind = "key" if axis == "n" else "query"
        found: dict[str, Operands] = {}
        numbers = np.unique(place)
        for number in numbers:
            where = "" if heads == 1 else f" of head {number // 1000}"
            here = np.expand_dims((place == number).astype(np.float64), 1 - along)
            words = f"{kind} block {number % 1000}{where}"
            found[f"the contribution of {words} is missing"] = {name: operand * (1 - here)}
            found[f"the contribution of {words} was added twice"] = {name: operand * (1 + here)}
            found[f"only {words} counts: the others were cleared"] = {name: operand * here}
        return found

    return changes


def _part(number: int) -> Make:
    """A run's part of dQ: key blocks of it that are missing or alone, or a run of other blocks."""

    def changes(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
        split = np.asarray(getattr(tile.operands["split"], "value", tile.operands["split"]))
        own = np.flatnonzero(split == number)
        keys = launched.tiling.tile("n") if launched.tiling.shape else max(len(split), 1)
        end = -(-len(split) // keys) * keys  # where the run of a split without keys lies
        first, last = (int(own[0]), int(own[-1]) + 1) if len(own) else (end, end)
        found: dict[str, Operands] = {}
        for words, start, stop in (
            ("begins one key block too early", first - keys, last),
            ("begins one key block too late", min(first + keys, last), last),
            ("ends one key block too early", first, max((last - 1) // keys * keys, first)),
            ("ends one key block too late", first, last + keys),
        ):
            run = range(max(start, 0), min(stop, len(split)))
            if run != range(first, min(last, len(split))):
                moved = np.zeros_like(split)
                moved[run.start : run.stop] = number
                found[f"the run of split {number} {words}"] = {"split": moved}
        return found | dict(_sums(("dS", "k"), "n")(launched, tile))

    return changes


def _sum_of_parts(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    if "dQ_1" not in tile.operands:
        return _sums(("dS", "k"), "n")(launched, tile)
    found: dict[str, Operands] = {}
    for name in part_names(MAX_SPLITS):
        part = tile.operands[name].value
        if part.any():
            number = name.removeprefix("dQ_")
            found[f"the part of split {number} is missing"] = {name: np.zeros_like(part)}
            found[f"the part of split {number} was added twice"] = {name: 2 * part}
    return found


def _values(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    found = dict(_sums(("D", "dO"), "m")(launched, tile))
    S = launched.value_of("S", tile.coord)
    if S.shape == tile.operands["D"].value.shape:
        found["S is used instead of D: the dropout is missing"] = {"D": Bounded(S, np.abs(S) * 2.0**-8)}
    return found


_STAGES: dict[str, Make] = {
    "S": _softmax,
    "D": _dropped,
    "dP": _dropped,
    "dS": _gradient,
    "dB": _bias_gradient,
    "dQ": _sum_of_parts,
    **{name: _part(number) for number, name in enumerate(part_names(MAX_SPLITS), 1)},
    "dK": _sums(("dS", "q"), "m"),
    "dV": _values,
}
_KEY_BLOCK: dict[str, Make] = {
    "S": _softmax,
    "dS": _gradient,
    "dK_acc": _sums(("dS", "q"), "m"),
    "dV_acc": _sums(("S", "dO"), "m"),
}
