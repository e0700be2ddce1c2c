"""What is known of the mistakes of a product's epilogue: the scalars, C and the bias taken otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from tileproof.spec.problems.faults import Alternative, Faults, LaunchView, Operands, WrongTile

SHIFTS = (1, 2, 4, 8, 16, 32, 64, 128)  # columns by which a bias is likely to be off


class GemmFaults(Faults):
    """The hypotheses of D: the stage itself on changed operands."""

    def alternatives(self, launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
        if tile.stage != "D":
            return
        stage = launched.stage(tile.stage)
        changes = _bias(launched, tile) if "bias" in stage.inputs else _plain(launched)
        with np.errstate(invalid="ignore", over="ignore"):
            for cause, change in changes.items():
                term = stage.bounded(copy=tile.copy, **{**tile.operands, **change})
                yield Alternative(cause, term.value, term.errors)


def _plain(launched: LaunchView) -> Mapping[str, Operands]:
    alpha, beta = launched.inputs.alpha, launched.inputs.beta
    return {
        "alpha is missing": {"alpha": 1.0},
        "beta is missing": {"beta": 1.0},
        "beta C is missing": {"beta": 0.0},
        "beta C is subtracted": {"beta": -beta},
        "alpha scales beta C too": {"beta": alpha * beta},
    }


def _bias(launched: LaunchView, tile: WrongTile) -> Mapping[str, Operands]:
    alpha, bias, cols = launched.inputs.alpha, launched.inputs.bias.astype(np.float64), tile.cols
    changes: dict[str, Operands] = {
        "alpha is missing": {"alpha": 1.0},
        "the bias is missing": {"bias": np.zeros_like(bias[cols])},
        "the bias is subtracted": {"bias": -bias[cols]},
        "alpha scales the bias too": {"bias": bias[cols] * alpha},
    }
    for shift in sorted({*SHIFTS, cols.start} - {0}):
        for off, way in ((-shift, "before"), (shift, "after")):
            far = "the next column" if off == 1 else f"{shift} column{'s' if shift > 1 else ''} {way}"
            changes[f"the bias is that of {far}"] = {"bias": np.roll(bias, -off)[cols]}
    return changes
