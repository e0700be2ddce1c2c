"""The walk covers each element once, and an element's place leads back to it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask
from tileproof.spec.problems.sparse_mla_bwd.tiling import (
    Place,
    element,
    gather,
    k_blocks,
    locate,
    rows_of,
    walk,
)


def inputs_with(lengths: list[int], h_q: int = 128, topk: int = 192) -> Inputs:
    problem = Problem(len(lengths), 50, h_q, 512, topk, 0.1)
    kv = np.arange(50)[:, None] * np.ones((1, 512))
    index = np.arange(topk)[None, :] % 60 - 3
    zero = np.zeros((len(lengths), 1, 1))
    return Inputs(
        problem,
        zero,
        kv.astype(ml_dtypes.bfloat16),
        zero,
        zero,
        zero,
        np.repeat(index, len(lengths), axis=0).astype(np.int32),
        np.array(lengths, np.int32),
    )


@given(
    st.lists(st.integers(-2, 200), min_size=1, max_size=3),
    st.sampled_from([32, 64]),
    st.sampled_from([1, 2, 4]),
)
def test_each_key_is_in_exactly_one_tile(lengths: list[int], b_topk: int, ctas: int) -> None:
    inputs = inputs_with(lengths)
    p = inputs.problem
    seen = np.zeros((p.s_q, p.h_q, p.topk), int)
    for tile in walk(inputs, b_topk, ctas):
        assert tile.coord == TileCoord(tile.token, tile.cta, tile.k_block)
        seen[tile.token, tile.rows, tile.cols] += 1
    assert seen.max(initial=0) <= 1
    mask = key_mask(inputs)
    assert (seen[np.broadcast_to(mask[:, None, :], seen.shape)] == 1).all()
    walked = [k_blocks(inputs, t, b_topk) * b_topk for t in range(p.s_q)]
    assert seen.sum() == sum(walked) * p.h_q


@given(st.integers(0, 2), st.integers(0, 127), st.integers(0, 191), st.sampled_from([1, 2]))
def test_place_and_back(token: int, head: int, slot: int, ctas: int) -> None:
    inputs = inputs_with([192, 192, 192])
    place = locate(inputs.problem, token, head, slot, ctas=ctas)
    assert element(inputs.problem, place, ctas=ctas) == (token, head, slot)
    tile = next(t for t in walk(inputs, ctas=ctas) if t.coord == place.coord)
    assert (tile.rows.start + place.row, tile.cols.start + place.col) == (head, slot)


def test_worked_place() -> None:
    problem = inputs_with([192]).problem
    assert locate(problem, 0, 70, 130) == Place(TileCoord(0, 1, 2), 6, 2)


def test_out_of_range_is_refused() -> None:
    problem = inputs_with([192]).problem
    for bad in ((1, 0, 0), (0, 128, 0), (0, 0, 192), (0, -1, 0)):
        with pytest.raises(TileproofError):
            locate(problem, *bad)
    with pytest.raises(TileproofError):
        rows_of(problem, 2)
    with pytest.raises(TileproofError):
        element(problem, Place(TileCoord(0, None, 0), 0, 0))


def test_gather_reads_keys_only() -> None:
    inputs = inputs_with([70])
    rows = gather(inputs, 0, slice(64, 128))
    assert rows.dtype == inputs.kv.dtype and rows.shape == (64, 512)
    want = [inputs.indices[0, s] if s < 70 and 0 <= inputs.indices[0, s] < 50 else 0 for s in range(64, 128)]
    assert rows[:, 0].astype(int).tolist() == want
    assert any(want)
