"""reference/gemm.py equals the stages and numbers worked out by hand; planted errors are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tileproof.reference import gemm
from tileproof.reference.evaluate import Evaluation
from tileproof.reference.tile import TileValue, outputs_of_walk
from tileproof.spec.arithmetic import F16
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.gemm.generator import cases
from tileproof.spec.problems.gemm.inputs import Inputs
from tileproof.spec.problems.gemm.problem import Gemm

from tests.kit.evaluated import with_edits, worst_element, worst_output

TOLERANCE = 1e-12
Cut = tuple[tuple[int, int], tuple[int, int], int]


def of_spec(evaluation: Evaluation, tile: TileValue) -> Any:
    """The product after a k-block, of the spec's A and B."""
    group, k_block = tile.coord.group, tile.coord.k_block
    if k_block is None:
        return None
    end = (k_block + 1) * evaluation.tiling.block
    A, B = evaluation.term("A", group, F16), evaluation.term("B", group, F16)
    rows, cols = evaluation.span("product", group, tile.rows, tile.cols)
    return evaluation.m.matmul(A[rows, :end], B[cols, :end].T)


def from_stages(inputs: Inputs, cut: Cut, reference: Any = gemm) -> float:
    """The largest difference of a tile's element from the stages."""
    (m, n), (along_m, along_n), block = cut
    tiling = Tiling(block, along_m * along_n, (("M", m, along_m), ("N", n, along_n)))
    tiles = reference.tiles(inputs, tile=cut[0], along=cut[1], block=block)
    return worst_element(tiles, inputs, Gemm(biased=inputs.bias is not None), tiling, of_spec)


def from_whole(inputs: Inputs, cut: Cut, reference: Any = gemm) -> float:
    """The largest difference of an output from one product of the whole matrices."""
    A, B = inputs.A.astype(np.float64), inputs.B.astype(np.float64)
    added = inputs.bias if inputs.bias is not None else inputs.beta * np.asarray(inputs.C, np.float64)
    want = {"product": A @ B.T, "D": inputs.alpha * (A @ B.T) + added}
    sizes = np.abs(A) @ np.abs(B).T
    terms = {"product": 1j * sizes, "D": 1j * (abs(inputs.alpha) * sizes + np.abs(added))}
    got = outputs_of_walk(reference.tiles(inputs, tile=cut[0], along=cut[1], block=cut[2]))
    return worst_output(got, want, terms)


@pytest.mark.parametrize("start", [1, 2])
def test_every_tile_is_what_the_stages_give(start: int) -> None:
    cut = st.sampled_from([((64, 32), (1, 1), 64), ((32, 32), (2, 1), 32), ((16, 8), (2, 4), 64)])

    @seed(start)
    @settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.booleans().flatmap(lambda bias: cases((64, 32), bias)), cut)
    def holds(case: Any, cut: Cut) -> None:
        inputs = case.inputs()
        assert from_stages(inputs, cut) <= TOLERANCE and from_whole(inputs, cut) <= TOLERANCE

    holds()


def by_hand(**more: Any) -> Inputs:
    """A [2, 4], B [2, 4]: a tile of D is one element, K has two k-blocks of two."""
    A = np.array([[1, 2, 3, 4], [0, 1, 0, -1]], np.float16)
    B = np.array([[1, 1, 1, 1], [2, 0, 1, 0]], np.float16)
    return Inputs(A, B, **more)


@pytest.mark.parametrize(
    ("more", "D"),
    [
        # D = 2 product - C.
        ({"C": np.array([[1, 2], [3, 4]], np.float32), "alpha": 2.0, "beta": -1.0}, [[19, 8], [-3, -4]]),
        # D = 3 product + bias, which is added to every row.
        ({"bias": np.array([10, 20], np.float32), "alpha": 3.0}, [[40, 35], [10, 20]]),
    ],
)
def test_tiles_worked_out_by_hand(more: dict[str, Any], D: Any) -> None:
    # Row 0 with B's rows: 1 + 2 = 3, then 3 + 4 more: 10; 2, then 3 more: 5. Row 1: 1, then -1 more: 0; 0, 0.
    found = list(gemm.tiles(by_hand(**more), tile=(1, 1), along=(2, 1), block=2))
    # A cluster is two CTAs, one above the other; the first cluster has column 0.
    places = {(0, 0): (0, 0), (0, 1): (1, 0), (1, 0): (0, 1), (1, 1): (1, 1)}
    partial = {(0, 0): (3, 10), (1, 0): (1, 0), (0, 1): (2, 5), (1, 1): (0, 0)}
    wanted = []
    for (group, cta), (row, column) in places.items():
        for k_block in (0, 1):
            wanted.append(
                ("product", TileCoord(group, cta, k_block), row, column, partial[row, column][k_block])
            )
        whole = TileCoord(group, cta, None)
        wanted.append(("product", whole, row, column, partial[row, column][1]))
        wanted.append(("D", whole, row, column, D[row][column]))
    assert [
        (tile.stage, tile.coord, tile.rows.start, tile.cols.start, tile.value.item()) for tile in found
    ] == wanted
    assert [tile.partial for tile in found] == [True, True, False, False] * 4


EDITS = {
    "the product of the last k-block": ("accumulator = accumulator + A", "accumulator = A", "stages whole"),
    "one accumulator for all partial sums": ("accumulator = accumulator +", "accumulator +=", "stages"),
    "the first k-block again and again": ("slice(k_block * block, (k_block + 1) * block)", "slice(0, block)",
        "stages whole"),
    "no last k-block": ("range(K // block)", "range(K // block - 1)", "stages whole"),
    "CTAs ranked along N first": ("cta % along[0]", "cta // along[1]", "stages whole"),
    "clusters ranked along N first": (
        "cluster_n * clusters_m + cluster_m", "cluster_m * clusters_n + cluster_n", "stages",
    ),
    "no alpha": ("inputs.alpha * accumulator", "accumulator", "stages whole"),
    "alpha times bias": ("D_tile + inputs.bias", "D_tile + inputs.alpha * inputs.bias", "stages whole"),
    "bias of the first columns": ("inputs.bias[cols]", "inputs.bias[: tile[1]]", "stages whole"),
    "alpha for beta": ("inputs.beta *", "inputs.alpha *", "stages whole"),
}  # fmt: skip


def irregular(bias: bool) -> Inputs:
    """Clusters of 2 x 2 CTAs, two along M and three along N, three k-blocks."""
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((16, 24)).astype(np.float16), rng.standard_normal((12, 24)).astype(np.float16)
    if bias:
        return Inputs(A, B, bias=rng.standard_normal(12).astype(np.float32), alpha=1.3)
    return Inputs(A, B, rng.standard_normal((16, 12)).astype(np.float32), alpha=1.3, beta=-0.7)


@pytest.mark.parametrize("edit", EDITS)
def test_an_error_planted_in_the_reference_is_found(edit: str) -> None:
    old, new, finds = EDITS[edit]
    wrong, cut = with_edits(gemm, (old, new)), ((4, 2), (2, 2), 8)
    both = irregular(False), irregular(True)
    assert (max(from_stages(inputs, cut, wrong) for inputs in both) > TOLERANCE) == ("stages" in finds)
    assert (max(from_whole(inputs, cut, wrong) for inputs in both) > TOLERANCE) == ("whole" in finds)


def test_nothing_is_found_in_the_reference_itself() -> None:
    for inputs in (irregular(False), irregular(True)):
        for find in (from_stages, from_whole):
            assert find(inputs, ((4, 2), (2, 2), 8)) <= TOLERANCE
