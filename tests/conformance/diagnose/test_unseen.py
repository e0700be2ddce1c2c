"""Causes in what a launch does not show, in pieces of operands and in right values at wrong places."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.compare.compare import Divergence, wrong_elements
from tileproof.conformance.diagnose.cause import cause
from tileproof.conformance.diagnose.faults import Product
from tileproof.conformance.diagnose.gathered import explain_gathered
from tileproof.conformance.diagnose.shifted import explain_shifted
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.gemm.generator import GemmCase
from tileproof.spec.problems.gemm.problem import GEMM_BIAS

HERE = TileCoord(0, 0, None)


class Gemm:
    """D of a product with a bias, of which nothing else is seen."""

    def __init__(self, k_tiles: int = 1) -> None:
        case = GemmCase(64, 64, k_tiles=k_tiles, values="normal", bias=True, alpha=0.7)
        self.inputs = case.inputs()
        tiling = Tiling(64, 1, (("M", 64, 1), ("N", 64, 1)))
        self.chain = Chain(self.inputs, problem=GEMM_BIAS, tiling=tiling)
        self.A, self.B = (operand.astype(np.float64) for operand in (self.inputs.A, self.inputs.B))
        assert self.inputs.bias is not None
        self.bias = self.inputs.bias.astype(np.float64)

    def D(self, A=None, B=None, product=None, bias=None):
        made = (self.A if A is None else A) @ (self.B if B is None else B).T
        made = made if product is None else product
        return np.float32(0.7) * made + (self.bias if bias is None else bias)

    def told(self, value) -> str:
        region = self.chain.region("D", HERE)
        value = value.astype(np.float32).astype(ml_dtypes.bfloat16)
        tile = StageTile("D", HERE, *region, value, np.ones(value.shape, bool))
        self.chain.own_tiles = {("D", HERE): tile}
        reference = self.chain.reference("D", HERE, *region)
        wrong = wrong_elements(tile, reference)
        assert wrong.any(), "the planted error is inside the bound"
        return cause(self.chain, Divergence(tile, reference, wrong))


UNSEEN = "product, which was not observed in this launch: "


def swapped(operand, rows):
    """In those rows the two halves of each 16 columns are exchanged."""
    made = operand.copy()
    for row in rows:
        made[row] = operand[row].reshape(-1, 2, 8)[:, ::-1].ravel()
    return made


def test_pieces_of_an_operand_from_other_columns():
    here = Gemm()
    for name in ("A", "B"):
        told = here.told(here.D(**{name: swapped(getattr(here, name), (1, 3, 6, 9, 40))}))
        assert told.startswith(UNSEEN + f"operand {name}: 40 of 40 vectors of 8 columns"), told
        assert (
            "other columns of the same rows (row 1, columns 0..7 are those of row 1, columns 8..15)" in told
        )


def test_pieces_of_an_operand_from_other_rows():
    here = Gemm()
    made = here.A.copy()
    made[16:32, 24:32] = here.A[0:16, 24:32]
    made[17, 24:32] = 0
    assert f"{UNSEEN}operand A: 16 of 128 vectors of 8 columns were read in" in here.told(here.D(A=made))


def test_pieces_that_no_operand_has_are_not_named():
    here = Gemm()
    rng = np.random.default_rng(1)
    made = here.A.copy()
    for row in range(8):
        made[row, 8 * row : 8 * row + 8] = rng.standard_normal(8)
    assert "vectors" not in here.told(here.D(A=made))


def test_pieces_of_more_columns_than_the_tile_has_are_not_solved_for():
    here = Gemm(k_tiles=2)
    assert "vectors" not in here.told(here.D(A=swapped(here.A, (1, 3, 6, 9, 40))))


@pytest.mark.parametrize(("noise", "right"), [(1e-3, True), (1.0, False)])
def test_pieces_must_give_the_rows_within_their_bounds(noise, right):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 32, 16))
    made = a.copy()
    made[4:12, :8] = a[20:28, :8]
    found = made @ b.T
    found[6, 5] += noise
    region = np.arange(4, 12), np.arange(32)
    told = explain_gathered(Product("matmul", a, b, ("x", "y")), found, np.full((32, 32), 1e-2), region)
    assert ("operand x: 8 of 16 vectors of 8 columns were read in rows +16" in told) == right or not right


def test_a_step_that_the_unseen_product_lacks():
    here = Gemm(k_tiles=2)
    less = here.A.copy()
    less[:, 16:32] = 0
    assert here.told(here.D(A=less)).startswith(UNSEEN)
    assert "16..31" in here.told(here.D(A=less))


def test_a_product_that_is_shown_is_not_solved_for():
    here = Gemm()
    less = here.A.copy()
    less[:, 16:32] = 0
    region = here.chain.region("D", HERE)
    seen = StageTile(
        "product", HERE, *region, (here.A @ here.B.T).astype(np.float32), np.ones((64, 64), bool)
    )
    here.chain.own_tiles = {("product", HERE): seen}
    value = here.D(A=less).astype(np.float32).astype(ml_dtypes.bfloat16)
    tile = StageTile("D", HERE, *region, value, np.ones((64, 64), bool))
    chain = Chain(
        here.inputs, {("product", HERE): seen, ("D", HERE): tile}, problem=GEMM_BIAS, tiling=here.chain.tiling
    )
    reference = chain.reference("D", HERE, *region)
    assert "which was not observed in this launch" not in cause(
        chain, Divergence(tile, reference, wrong_elements(tile, reference))
    )


def test_elements_beside_their_place():
    here = Gemm()
    value = here.D()
    value[16:24, 1:9:2] = value[16:24, 0:8:2]
    assert here.told(value).startswith("every wrong element is the right element 1 column before it")
    value = here.D()
    value[8:16, 33:41:2] = value[12:20, 25:33:2]
    assert here.told(value).startswith(
        "every wrong element is the right element 4 rows after and 8 columns before it"
    )


def test_elements_from_here_and_there_are_beside_no_place():
    rng = np.random.default_rng(3)
    value = rng.standard_normal((32, 32))
    found, wrong = value.copy(), np.zeros((32, 32), bool)
    found[4:8, 4:8], wrong[4:8, 4:8] = value[4:8, 5:9], True
    assert "1 column after it" in explain_shifted(value, np.full((32, 32), 1e-6), found, wrong)
    found[5] = rng.permutation(value[5])
    assert not explain_shifted(value, np.full((32, 32), 1e-6), found, wrong)


def test_a_bias_of_other_columns():
    here = Gemm()
    bias = here.bias.copy()
    bias[24:32] = here.bias[12:20]
    assert here.told(here.D(bias=bias)).startswith("bias is that of the column 12 before, in 8 of 64 columns")
    bias = here.bias.copy()
    other = np.array([9, 4, 50, 3, 60, 21, 22, 2])
    bias[24:32] = here.bias[other]
    assert here.told(here.D(bias=bias)).startswith("bias is that of other columns, such as that of column ")


def test_a_bias_that_no_column_has_is_not_named():
    here = Gemm()
    bias = here.bias.copy()
    bias[24:32] += 0.37
    assert "bias is that" not in here.told(here.D(bias=bias))


def test_the_product_of_the_next_column():
    """With one column that has none there, as x[j + 2] of the last of 32."""
    here = Gemm()
    made = here.A @ here.B.T
    other = made.copy()
    other[:, 1:31:2] = made[:, 2:32:2]
    other[:, 31] = 0.7
    told = here.told(here.D(product=other))
    assert told.startswith("product: nearly all wrong elements are the right element 1 column after it"), told
