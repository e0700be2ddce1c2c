"""From a wrong tile to a cause: the known mistake that reproduces the found values.

Known mistakes are tried from the one that explains most (the whole tile) to the one that explains least (the
wrong elements alone); the first mistake that gives every element of its scope within its own bound is named.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.compare import Divergence
from tileproof.conformance.compare.patterns import arrangement
from tileproof.conformance.diagnose.arrays import (
    ALL_NAN,
    Region,
    coarse,
    holds,
    imprecise,
    permuted,
    regions,
    shifted,
    zeros,
)
from tileproof.conformance.diagnose.chains import explain_chain
from tileproof.conformance.diagnose.columns import explain_columns
from tileproof.conformance.diagnose.faults import Family, Product, families, whole_tiles
from tileproof.conformance.diagnose.gathered import explain_gathered
from tileproof.conformance.diagnose.moved import explain_moved
from tileproof.conformance.diagnose.operand import explain_operand
from tileproof.conformance.diagnose.operations import other_operations
from tileproof.conformance.diagnose.shifted import explain_shifted, explain_vector
from tileproof.conformance.diagnose.steps import Deviation
from tileproof.conformance.diagnose.stores import explain_stores
from tileproof.conformance.diagnose.unseen import explain_unseen
from tileproof.conformance.observe.observation import axis_words
from tileproof.conformance.observe.tiles import F64, Chain
from tileproof.spec import numerics
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.problems.faults import Alternative, WrongTile

UNWRITTEN = (
    "it was never written, or was computed from unwritten data, or was not yet visible when the stage's "
    "barrier completed"
)
MIN_ELEMENTS = 64  # elements that are no whole rows or columns, to say something


def diagnose(
    chain: Chain,
    divergence: Divergence,
    build: str,
    *,
    others: int = 0,
    coded: bool = False,
    explain: bool = True,
) -> Finding:
    """The finding of one wrong tile: the place of its first wrong element, the pattern and the cause.

    `explain` false leaves the cause out, which takes most of the time. `coded`: the inputs encode their
    coordinates (`FaultHypotheses.names`), so values name their origin.
    """
    tile, reference, wrong = divergence.tile, divergence.reference, divergence.wrong
    row, col = (int(i) for i in np.argwhere(wrong)[0])
    written = bool(tile.written[row, col])
    axes, hypotheses = axis_words(chain.problem, tile.stage), chain.problem.fault_hypotheses
    found = float(tile.value[row, col]) if written else None
    place = ProblemPlace(
        stage=tile.stage,
        build=build,
        group=tile.coord.group,
        unit=chain.problem.unit,
        cta=tile.coord.cta,
        k_block=tile.coord.k_block,
        row=tile.rows.start + row,
        column=None if tile.value.shape[1] == 1 else tile.cols.start + col,
        lane=None if tile.lane is None else int(tile.lane[row, col]),
        tmem_column=None if tile.tmem_column is None else int(tile.tmem_column[row, col]),
        smem=None if tile.smem is None else int(tile.smem[row, col]),
        axes=axes,
    )
    differs = bool((tile.written & wrong).any())
    expected, bound = reference.value, reference.bound
    if reference.held is not None:
        expected, bound = reference.held.value, reference.held.errors
    return Finding(
        "value" if differs else "missing",
        f"{tile.stage} differs from the spec" if differs else f"{tile.stage} was never written",
        problem=place,
        expected=float(expected[row, col]),
        found=found,
        bound=float(bound[row, col]),
        wrong=int(wrong.sum()),
        elements=int(wrong.size),
        pattern=arrangement(
            wrong,
            rows_first=tile.rows.start,
            cols_first=tile.cols.start,
            units=axes,
            ctas=chain.tiling.ctas,
            part=hypotheses.part,
        ),
        cause=cause(chain, divergence) if explain else "",
        names=hypotheses.names(chain.inputs, tile.stage, found) if coded and found is not None else "",
        others=others,
    )


def cause(chain: Chain, divergence: Divergence) -> str:
    """What explains the wrong elements, in words; "" when no known mistake reproduces them."""
    tile, reference, wrong = divergence.tile, divergence.reference, divergence.wrong
    if not (tile.written & wrong).any():
        return UNWRITTEN
    if divergence.why:
        return "; ".join(filter(None, (divergence.why, coarse(tile.value, wrong))))
    found = np.where(tile.written, tile.value.astype(np.float64), np.nan)
    if not found.any() and reference.value.any():
        return "the tile is all zeros"
    stage, hypotheses = chain.stage(tile.stage), chain.problem.fault_hypotheses
    copied = stage.has_copy and (tile.operand or tile.value.dtype.itemsize == 2)
    seen = WrongTile(tile.stage, tile.coord, reference.operands, copied, tile.cols, found, wrong)
    if not np.isfinite(found[wrong]).any():
        poisoned = hypotheses.poison(chain, seen)
        if poisoned:
            return poisoned
    if np.isnan(found[wrong]).all():
        return ALL_NAN
    product = Product.of(stage, reference)
    formulas = [*hypotheses.alternatives(chain, seen), *other_operations(stage, reference, copied)]
    # One that is zero there is no other tile's value.
    whole = [whole_tile for whole_tile in whole_tiles(chain, tile) if whole_tile.value[wrong].any()]
    # Elementwise tiles of different k-blocks are often alike; sums of products seldom are.
    whole = [*formulas, *whole] if stage.kind == "elementwise" else [*whole, *formulas]
    parts = list(families(chain, tile, product)) if product else []

    def other_rows() -> str:
        if product is None or stage.kind != "matmul":
            return ""
        return hypotheses.operand_rows(chain, seen, product.a, product.b, product.names)

    everywhere = next(regions(wrong))
    moved = _first(whole, found, everywhere)
    if moved:
        return moved
    moved = shifted(reference.value, reference.bound, found, wrong, axis_words(chain.problem, tile.stage))
    if moved:
        return other_rows() or moved  # which rows the slots hold, where that explains them too
    deviation = Deviation.of(chain, seen, reference)
    for region in regions(wrong):
        part_of_slots = region[1].size < wrong.shape[1]
        verdict = (
            _first(whole, found, region)
            or (other_rows() if part_of_slots else "")
            or _scaled(chain, reference.value, reference.bound, found, region)
            or (_by_columns(chain, product, parts, found, reference.bound, region) if product else "")
            or deviation.counted(region)
        )
        if verdict:
            return verdict
    moved = explain_moved(chain, tile, product, found, reference.bound, region) if product else ""
    moved = moved or (explain_columns(product, found, reference.bound, region) if product else "")
    moved = moved or (explain_chain(product, found, reference.bound, region) if product else "")
    moved = moved or _scattered(formulas, found, wrong)
    moved = moved or (explain_gathered(product, found, reference.bound, region) if product else "")
    if moved:
        return moved
    stored = explain_stores(tile, chain.inputs, found, reference.value, wrong)
    order = permuted(reference.value, reference.bound, found, axis_words(chain.problem, tile.stage))
    if order:
        return "; ".join(filter(None, (order, stored)))
    return (
        explain_operand(deviation, region)
        or stored
        or other_rows()
        or zeros(found, wrong)
        or explain_shifted(reference.value, reference.bound, found, wrong)
        or explain_vector(stage, reference, chain.inputs, found, wrong, copied)
        or imprecise(found, reference.value, reference.bound, wrong)
        or explain_unseen(chain, divergence, copied, cause)
        or coarse(tile.value, wrong, reference.value)
    )


def _first(alternatives: list[Alternative], found: F64, region: Region) -> str:
    at = np.ix_(*region)
    for alternative in alternatives:
        if holds(found[at], alternative.value[at], alternative.bound[at]):
            return alternative.cause
    return ""


def _scattered(alternatives: list[Alternative], found: F64, wrong: npt.NDArray[np.bool_]) -> str:
    """The mistake that gives every wrong element, if these are not whole rows or columns: for example in
    each CTA's own part of the tile.
    """
    if wrong.sum() < MIN_ELEMENTS:
        return ""
    for alternative in alternatives:
        if holds(found[wrong], alternative.value[wrong], alternative.bound[wrong]):
            return alternative.cause
    return ""


def _scaled(chain: Chain, value: F64, bound: F64, found: F64, region: Region) -> str:
    at = np.ix_(*region)
    expected, seen = value[at], found[at]
    usable = (expected != 0) & np.isfinite(seen) & np.isfinite(expected)
    if not usable.any():
        return ""
    ratio = float(np.median(seen[usable] / expected[usable]))
    named = {
        "2 (added twice)": 2.0,
        "1/2": 0.5,
        "-1 (sign)": -1.0,
        **chain.problem.fault_hypotheses.scales(chain.inputs),
    }
    for name, factor in named.items():
        # The factor itself is rounded to f32, and so is the product.
        slack = (
            abs(factor) * bound[at]
            + numerics.gamma(4, numerics.U_F32) * abs(factor * expected)
            + numerics.F32_TINY
        )
        if factor != 1 and holds(seen, factor * expected, slack):
            return f"every value is the expected one times {name}"
    slack = abs(ratio) * bound[at] + numerics.gamma(4, numerics.U_F32) * abs(ratio * expected)
    if usable.sum() >= 16 and ratio not in (0.0, 1.0) and holds(seen, ratio * expected, slack):
        return f"every value is the expected one times {ratio:.4g}"
    return ""


def _by_columns(
    chain: Chain, product: Product, parts: list[Family], found: F64, bound: F64, region: Region
) -> str:
    """The family that, applied to some of the column tiles, explains the region."""
    at = np.ix_(*region)
    length = product.a.shape[1]
    base = {
        width: [product.value(slice(k, k + width))[at] for k in range(0, length, width)]
        for width in {family.width for family in parts}
    }
    residual = found[at] - product.value()[at]
    if not np.isfinite(residual).all():
        return ""
    for family in parts:
        starts = range(0, length, family.width)
        changes = [
            family.changed.value(slice(k, k + family.width))[at] - before
            for k, before in zip(starts, base[family.width], strict=True)
        ]
        chosen = _choose(changes, residual)
        if not chosen:
            continue
        mixed_a, mixed_b = product.a.copy(), product.b.copy()
        for i in chosen:
            columns = slice(i * family.width, (i + 1) * family.width)
            mixed_a[:, columns], mixed_b[:, columns] = (
                family.changed.a[:, columns],
                family.changed.b[:, columns],
            )
        mixed = Product(product.kind, mixed_a, mixed_b, product.names)
        if holds(found[at], mixed.value()[at], mixed.bound()[at] + bound[at]):
            return family.words(_columns(chain, chosen, family.width, length))
    return ""


def _choose(changes: list[F64], residual: F64) -> list[int]:
    """The changes that add up to the residual: least squares over the elements, each scaled to order one."""
    matrix = np.stack([change.ravel() for change in changes], axis=1)
    weight = np.abs(matrix).sum(axis=1)
    used = weight > 0
    live = np.flatnonzero(np.abs(matrix).max(axis=0, initial=0) > 0)
    if not used.any() or live.size == 0:
        return []
    scaled = matrix[used][:, live] / weight[used, None]
    coefficients = np.linalg.lstsq(scaled, residual.ravel()[used] / weight[used], rcond=None)[0]
    return [int(i) for i, value in zip(live, coefficients, strict=True) if round(float(value)) == 1]


def _columns(chain: Chain, chosen: list[int], width: int, length: int) -> str:
    if len(chosen) * width == length:
        return "all columns"
    runs: list[list[int]] = []
    for i in chosen:
        if runs and runs[-1][1] == i * width:
            runs[-1][1] += width
        else:
            runs.append([i * width, (i + 1) * width])
    text = "columns " + ", ".join(f"{low}..{high - 1}" for low, high in runs)
    if len(runs) == 1:
        name = chain.problem.fault_hypotheses.part(
            "column", runs[0][0], runs[0][1], length, chain.tiling.ctas
        )
        if name:
            return f"{text} ({name})"
    if len(runs) == 1 and len(chosen) * width * 2 == length and runs[0][0] in (0, length // 2):
        return text + f" ({'first' if runs[0][0] == 0 else 'second'} half of the row)"
    return text
