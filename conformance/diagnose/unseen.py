"""The value that an unobserved operand must have had, for tiles computed element by element.

It is solved for if the formula is linear in it. An operand that is an unobserved stage is explained like an
observed tile; any operand may be right at a wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tileproof.conformance.compare.compare import Divergence
from tileproof.conformance.diagnose.shifted import explain_shifted
from tileproof.conformance.observe.tiles import Chain, Reference, StageTile
from tileproof.spec import numerics
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.problems.faults import F64
from tileproof.spec.stage import Stage

BENT = 1e-9  # of the values: more than rounding leaves of a second difference of what is linear


def explain_unseen(
    chain: Chain, divergence: Divergence, copied: bool, explain: Callable[[Chain, Divergence], str]
) -> str:
    """What an operand was that the wrong tile is made of, in words, by `explain` where it is an unseen stage;
    "" where nothing is known.
    """
    seen = {name for name, _ in chain.own_tiles}
    for solved in _solved(chain, divergence, copied):
        name, reference = solved.tile.stage, solved.reference
        words = explain_shifted(reference.value, reference.bound, solved.tile.value, solved.wrong)
        if words:
            return f"{name}: {words}"
        words = explain(chain, solved) if name in chain.problem.stages and name not in seen else ""
        if words:
            return f"{name}, which was not observed in this launch: {words}"
    return ""


def _solved(chain: Chain, divergence: Divergence, copied: bool) -> Iterator[Divergence]:
    """Each operand of the tile's axes, as it must have been."""
    tile, reference = divergence.tile, divergence.reference
    stage = chain.stage(tile.stage)
    if stage.kind != "elementwise" or not tile.written.all():
        return
    for name in stage.inputs:
        if stage.axes.get(name) != stage.tile:
            continue
        given = reference.operands[name]
        if not isinstance(given, Bounded) or given.value.shape != tile.value.shape:
            continue
        value, slope = _slope(stage, reference, name, given)
        if slope is None or not np.isfinite(slope).all():
            continue
        found = tile.value.astype(np.float64)
        unit = numerics.U_BF16 if copied else numerics.gamma(4, numerics.U_F32)
        with np.errstate(divide="ignore", invalid="ignore"):
            made = given.value + (found - value) / slope
            bound = np.where(slope == 0, np.inf, (reference.bound + unit * np.abs(found)) / np.abs(slope))
        if not np.isfinite(made).all():
            continue
        there = StageTile(name, tile.coord, tile.rows, tile.cols, made, tile.written)
        yield Divergence(there, _reference(chain, there, given.value, bound), divergence.wrong)


def _reference(chain: Chain, tile: StageTile, value: F64, bound: F64) -> Reference:
    return Reference(
        value, bound, False, lambda: chain.operands(tile.stage, tile.coord, tile.rows, tile.cols)
    )


def _slope(stage: Stage, reference: Reference, name: str, given: Bounded) -> tuple[F64, F64 | None]:
    """The stage's f32 value, and how it grows with one of its operands; None where that is not linear."""

    def at(more: float) -> F64:
        return stage.bounded(**{**reference.operands, name: Bounded(given.value + more)}).value

    with np.errstate(invalid="ignore", over="ignore"):
        low, here, high = at(-1.0), at(0.0), at(1.0)
        bent = np.abs(high - 2 * here + low)
        linear = (bent <= BENT * (np.abs(low) + np.abs(here) + np.abs(high))).all()
    return here, (high - low) / 2 if linear else None
