"""The reference in pieces: the values and bounds of the whole chain, in memory that tokens do not change."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from tileproof.reference.chain import outputs_of
from tileproof.reference.stream import pieces
from tileproof.spec.problems.base import ProblemType, Tiling
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd
from tileproof.spec.problems.gemm.generator import GemmCase
from tileproof.spec.problems.gemm.problem import GEMM
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

HOLES = (Indices("random", ((3, -1), (70, 2000))), Indices("repeated"), Indices("permuted"))
SPARSE = SparseCase(576, 1100, 6, HOLES, (384, 0, 300), values="normal", h_q=64)
CUT = Tiling(64, 1)
LIMIT = 40e6  # bytes beside the inputs


def assembled(inputs: Any, stage: str, problem: ProblemType, tiling: Tiling) -> tuple[np.ndarray, np.ndarray]:
    """The output and its bound from its pieces; NaN where no piece lies."""
    known = outputs_of(inputs, stage, problem=problem, tiling=tiling)
    own = problem.stages[stage]
    axes = own.output if own.scatter is not None else problem.output(stage)
    shape = tuple(problem.size(inputs, axis) for axis in axes)
    value, error = np.full(shape, np.nan), np.full(shape, np.nan)
    for piece in pieces(inputs, (stage,), problem=problem, tiling=tiling):
        value[piece.index] = piece.known.value.reshape(value[piece.index].shape)
        error[piece.index] = piece.known.error.reshape(value[piece.index].shape)
    if known.rows is not None:
        whole = [np.zeros(shape), np.zeros(shape)]
        whole[0][known.rows], whole[1][known.rows] = known.value, known.error
        return np.stack([value, error]), np.stack(whole)
    return np.stack([value, error]), np.stack([known.value, known.error])


@pytest.mark.parametrize("stage", ["delta", "dQ", "dKV"])
@pytest.mark.parametrize("values", ["normal", "wide exact"])
def test_the_pieces_are_the_chain(stage: str, values: Any) -> None:
    inputs = SparseCase(576, 1100, 6, HOLES, (384, 0, 300), values=values, h_q=64).inputs()
    found, whole = assembled(inputs, stage, SPARSE_MLA_BWD, CUT)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found[1], whole[1], rtol=1e-9)


def test_the_parts_of_two_ctas_are_added() -> None:
    found, whole = assembled(SPARSE.inputs(), "dKV", SPARSE_MLA_BWD, Tiling(64, 2))
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-13)


def test_other_problems_stream_too() -> None:
    dense = DenseCase(m=300, n=280, d_qk=16, d_v=16, heads=2, h_kv=2)
    for stage in ("dQ", "dK", "dV"):
        found, whole = assembled(dense.inputs(), stage, DenseAttentionBwd(), Tiling(64, 1))
        np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-13)
    product = GemmCase(64, 64, 2, 3, 5, values="normal")
    cut = Tiling(64, 1, (("M", 64, 1), ("N", 64, 1)))
    found, whole = assembled(product.inputs(), "D", GEMM, cut)
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("tokens", [1, 4])
def test_memory_depends_on_no_size(tokens: int) -> None:
    case = SparseCase(576, 3000, 32, (Indices("permuted"),) * tokens, values="normal", h_q=64)
    inputs = case.inputs()
    seen: list[str] = []
    tracemalloc.start()
    for _ in pieces(
        inputs, ("delta", "dQ", "dKV"), problem=SPARSE_MLA_BWD, tiling=CUT,
        progress=lambda stage, done, total: seen.append(f"{stage} {done} of {total}"),
    ):  # fmt: skip
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < LIMIT
    assert f"dQ {tokens} of {tokens}" in seen and seen[-1] == f"dKV {6 * tokens} of {6 * tokens}"
