"""Lost and misplaced stores: whole vectors of elements with other contents, in some rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tileproof.conformance.observe.tiles import StageTile
from tileproof.spec.machine.types import Array, DType
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.faults import F64, Mask

VECTORS = (8, 4)  # elements of one store, the widest first
MIN_VECTORS = 4  # vectors that must be wrong
FULL = 0.6  # of a wrong vector's elements are wrong: what was there before may be right by chance


def explain_stores(tile: StageTile, inputs: ProblemInputs, found: F64, expected: F64, wrong: Mask) -> str:
    """Words if whole vectors are wrong and others right: another vector of the tile, previous contents, or
    zeros; "" otherwise.
    """
    rows, cols = wrong.shape
    for width in VECTORS:
        if cols % width or tile.value.dtype.itemsize * width > 16:
            continue
        vectors = wrong.reshape(rows, cols // width, width)
        hit = vectors.any(axis=2)
        if hit.all() or hit.sum() < MIN_VECTORS or vectors[hit].mean() < FULL:
            continue
        of_tile = found.reshape(rows, -1, width)[hit], expected.reshape(rows, -1, width)
        which = f"whole vectors of {width} columns are wrong, others right"
        if not of_tile[0].any():
            return f"{which}: they hold zeros; their store was lost"
        if _all_in(of_tile[0], of_tile[1].reshape(-1, width), tile.value.dtype):
            return f"{which}: they hold other vectors of the tile, stored to a wrong address"
        data = data_of(inputs)
        source = _source(of_tile[0], data, tile.value.dtype)
        if source:
            return f"{which}: they hold {source}, the previous contents; their store was lost"
        unknown = of_tile[0][~_known(of_tile[0], of_tile[1].reshape(-1, width), tile.value.dtype)]
        source = _source(unknown, data, tile.value.dtype) if len(unknown) < len(of_tile[0]) else ""
        if source:
            return (
                f"{which}: some hold other vectors of the tile, the rest {source}, the previous contents: "
                "stored to a wrong address"
            )
    return ""


def data_of(inputs: ProblemInputs) -> Mapping[str, Array]:
    """The arrays of a launch's inputs that have rows."""
    return {
        name: array
        for name, array in vars(inputs).items()
        if isinstance(array, np.ndarray) and array.ndim > 1
    }


def _source(vectors: F64, data: Mapping[str, Array], dtype: DType) -> str:
    """The input array that contains every vector, at a multiple of its width."""
    for name, array in data.items():
        if array.dtype == dtype and array.shape[-1] % vectors.shape[1] == 0:
            pool = array.reshape(-1, vectors.shape[1]).astype(np.float64)
            if _all_in(vectors, pool, dtype):
                return f"elements of {name}"
    return ""


def _all_in(vectors: F64, pool: F64, dtype: DType) -> bool:
    """Whether nine of ten vectors, in the bits of `dtype`, stand in the pool."""
    return bool(_known(vectors, pool, dtype).sum() >= 0.9 * len(vectors))


def _known(vectors: F64, pool: F64, dtype: DType) -> Mask:
    """Which of the vectors, in the bits of `dtype`, stand in the pool."""
    with np.errstate(invalid="ignore", over="ignore"):
        known = {row.tobytes() for row in pool.astype(dtype)}
        return np.array([row.tobytes() in known for row in vectors.astype(dtype)], bool)
