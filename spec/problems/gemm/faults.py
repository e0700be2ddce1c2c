"""Known mistakes of a product: in the epilogue wrong scalars, C or bias; in the operands wrong rows, or
wrong columns of K in a part of each k-block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.problems.faults import F64, Alternative, FaultHypotheses, LaunchView, Operands, WrongTile

ROWS = (1, 2, 8, 16, 32, 64)  # by which an operand or C is likely to be off, both ways
OCTET, BLOCK = 8, 64  # columns of K: a row of an ldmatrix matrix, a k-block
SMALL = 2**14  # elements of a tile whose parts are looked for
SHIFTS = (1, 2, 4, 8, 16, 32, 64, 128)  # columns by which a bias is likely to be off


class GemmFaultHypotheses(FaultHypotheses):
    """The hypotheses of D: the stage itself on changed operands."""

    def alternatives(self, launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
        if tile.stage != "D":
            return
        stage = launched.stage(tile.stage)
        changes = _bias(launched, tile) if "bias" in stage.inputs else _plain(launched)
        with np.errstate(invalid="ignore", over="ignore"):
            others = (
                (cause, {name: _like(tile.operands[name], to) for name, to in change.items()})
                for cause, change in _products(launched, tile)
            )
            for cause, change in (*changes.items(), *others):
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


def _products(launched: LaunchView, tile: WrongTile) -> Iterator[tuple[str, Operands]]:
    """The product, or C, made of other rows and columns."""
    given = tile.operands["product"]
    product = np.asarray(given.value if isinstance(given, Bounded) else given, np.float64)
    yield "the product is missing", {"product": np.zeros_like(product)}
    A, B = (operand.astype(np.float64) for operand in (launched.inputs.A, launched.inputs.B))
    cols = np.arange(B.shape[0])[tile.cols]
    first = _first_row(product, A @ B[cols].T)
    rows = np.arange(first, first + product.shape[0])
    for step in (*ROWS, *(-step for step in ROWS)):
        where = f"{abs(step)} row{'s' if abs(step) > 1 else ''} {'after' if step > 0 else 'before'}"
        yield f"the rows of A are those {where}", {"product": _at(A, rows + step) @ B[cols].T}
        yield f"the rows of B are those {where}", {"product": A[rows] @ _at(B, cols + step).T}
        if "C" in tile.operands:
            C = launched.inputs.C.astype(np.float64)
            yield f"C is that of {where}", {"C": _at(C, rows + step)[:, cols]}
            beside = where.replace("row", "column")
            yield f"C is that of {beside}", {"C": _at(C[rows].T, cols + step).T}
    if product.size <= SMALL and A.shape[1] % BLOCK == 0:
        yield from _octets(product, A, B, rows, cols)


def _octets(
    product: F64, A: F64, B: F64, rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64]
) -> Iterator[tuple[str, Operands]]:
    """The product where 8 columns of each k-block are read elsewhere in an operand, as by one wrong register
    of a fragment: ``mma.sync`` has 8 columns and rows of 16 in each.
    """
    column = np.arange(A.shape[1])
    octet = column % BLOCK // OCTET
    parts = [(octet == n).nonzero()[0] for n in range(BLOCK // OCTET)]
    places = [f"columns {OCTET * n}..{OCTET * n + OCTET - 1} of each {BLOCK} of K" for n in range(len(parts))]
    pairs = [(places[n], parts[n], places[m], parts[m]) for n in range(len(parts)) for m in range(len(parts))]
    # In every step of 16, as each step's fragment has it.
    for n in (0, 1):
        here = (octet % 2 == n).nonzero()[0]
        half = f"columns {OCTET * n}..{OCTET * n + OCTET - 1} of each 16 of K"
        pairs += [(half, here, "the other 8", here ^ OCTET), (half, here, "these", here)]
    for name, (x, of_x), (y, of_y) in (("A", (A, rows), (B, cols)), ("B", (B, cols), (A, rows))):
        for step in (0, 8, -8, 16, -16):
            other = _at(x, of_x + step)
            for place, here, elsewhere, there in pairs:
                if step or here is not there:
                    change = (other[:, there] - x[of_x][:, here]) @ y[of_y][:, here].T
                    off = f", {step:+d} rows" if step else ""
                    yield (
                        f"in {place}, {name} is that of {elsewhere}{off}",
                        {"product": product + (change if name == "A" else change.T)},
                    )


def _like(given: F64 | Bounded, value: F64) -> F64 | Bounded:
    """The value with the error of what it stands for."""
    return Bounded(value, given.error) if isinstance(given, Bounded) else value


def _at(values: F64, rows: npt.NDArray[np.int64]) -> F64:
    """The rows of those numbers, zeros where there are none."""
    inside = (rows >= 0) & (rows < values.shape[0])
    found: F64 = np.where(inside[:, None], values[np.where(inside, rows, 0)], 0.0)
    return found


def _first_row(product: F64, whole: F64) -> int:
    """At which of its multiples of rows a tile stands in the product of all rows."""
    height = product.shape[0]
    starts = range(0, whole.shape[0] - height + 1, height)
    return min(starts, key=lambda start: float(np.abs(whole[start : start + height] - product).sum()))
