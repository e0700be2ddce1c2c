"""The contents of an operand's memory: the elements that its 16-byte vectors hold.

A solved operand is known up to the rounding of the sum that it was solved from, so its
vectors are compared with those of the inputs within that, along either axis.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tileproof.conformance.diagnose.stores import data_of
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.faults import F64

VECTOR = 8  # 16-bit elements of 16 bytes
PROBES = 12  # vectors that are looked up
MIN_VECTORS = 8  # of them that differ from each other and are not zero, to say something
NEAR = 2e-2  # of the largest element: what solving may be off by
MAX_VECTORS = 1 << 19  # vectors of an array that are looked through


def what_was_read(operand: F64, own: tuple[str, F64], inputs: ProblemInputs) -> str:
    """Words for the input whose elements `operand` ``[rows, K]`` holds in place of its own, or for others of
    its `own`, a name and an array; "" for none.
    """
    scale = np.abs(operand).max(initial=0.0)
    if scale == 0:
        return "it read zeros"
    for turned in (operand, operand.T):
        vectors = _probes(turned)
        if len(vectors) < MIN_VECTORS:
            continue
        for name, pool in _pools(own, inputs):
            if pool.shape[0] <= MAX_VECTORS and all(
                (np.abs(pool - vector).max(axis=1) <= NEAR * scale).any() for vector in vectors
            ):
                if name == own[0]:
                    return f"it read other elements of {name}: a wrong address or layout"
                return (
                    f"it read elements of {name}: a wrong place in shared memory, or wrong data at this place"
                )
    return ""


def _probes(operand: F64) -> F64:
    """Different vectors from all parts of an operand, without vectors that are mostly zero."""
    if operand.shape[1] % VECTOR:
        return operand[:0, :0]
    vectors = operand.reshape(-1, VECTOR)
    vectors = vectors[(np.abs(vectors) > NEAR * np.abs(vectors).max()).sum(axis=1) > VECTOR // 2]
    if not len(vectors):
        return vectors
    chosen = vectors[np.linspace(0, len(vectors) - 1, 4 * PROBES).astype(int)]
    _, first = np.unique(np.round(chosen, 1), axis=0, return_index=True)
    return chosen[np.sort(first)[:PROBES]]


def _pools(own: tuple[str, F64], inputs: ProblemInputs) -> Iterator[tuple[str, F64]]:
    name, array = own
    for turned in (array, array.T):
        if turned.shape[1] % VECTOR == 0:
            yield name, turned.reshape(-1, VECTOR)
    for name, array in data_of(inputs).items():
        if array.dtype.itemsize == 2 and array.shape[-1] % VECTOR == 0:
            yield name, array.reshape(-1, VECTOR).astype(np.float64)
