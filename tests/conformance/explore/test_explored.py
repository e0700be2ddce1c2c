"""Outputs of two schedules: rows that tiles are added to may differ by the order of the additions."""

from __future__ import annotations

import numpy as np
from tileproof.conformance.explore.explored import Explored
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase


def test_rows_of_some_keys_may_differ_by_an_order_and_others_not_at_all() -> None:
    """Two tokens add to 43 of 300 rows: a last bit there is another order, elsewhere it is not."""
    head64 = kernel("head64")
    tokens = (Indices("repeated"), Indices("repeated"))
    case = SparseCase(576, 300, 1, tokens, values="normal", h_q=64)
    explored = Explored.of(head64, head64.build(head64.variant_of_case(case)), case)
    _, outputs = explored(schedule=Schedule("early"))
    (name,) = (name for name, array in outputs.items() if array.shape[0] == 300)
    first = outputs[name]
    assert not explored.compare(name, first, first.copy()).any()
    slots = explored.inputs.indices
    row = int(np.argmax(np.bincount(slots[(slots >= 0) & (slots < 300)])))  # with the most additions
    column = int(np.argmax(np.abs(first[row])))
    bit = first.copy()
    bit[row, column] = np.nextafter(bit[row, column], np.float32(0))
    assert not explored.compare(name, first, bit).any()
    far = first.copy()
    far[row, column] *= np.float32(1.5)
    assert np.argwhere(explored.compare(name, first, far)).tolist() == [[row, column]]
    other = int(np.setdiff1d(np.arange(300), slots)[0])
    column = int(np.argmax(np.isfinite(first[other])))
    bits = first.copy()
    bits.view(np.uint32)[other, column] ^= 1
    assert np.argwhere(explored.compare(name, first, bits)).tolist() == [[other, column]]
