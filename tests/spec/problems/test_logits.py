"""Logits beyond what float64 references hold are refused, by their own size and not by a bound on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import validate as validate_dense
from tileproof.spec.problems.logits import LARGEST_LOGIT
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.inputs import validate

SPARSE = SparseCase(576, 64, 1, (Indices("same"), Indices("same")), values="zeros", h_q=64).inputs()


def with_logit(size: float, key: int = 0):  # type: ignore[no-untyped-def]
    """One logit of token 1, head 5 is `size`; kv row `key` holds its key."""
    q, kv = SPARSE.q.copy(), SPARSE.kv.copy()
    q[1, 5, 7], kv[key, 7] = size / SPARSE.problem.sm_scale / 2.0**20, 2.0**20
    return replace(SPARSE, q=q, kv=kv)


def test_a_logit_beyond_2_to_the_40_is_refused_by_its_token() -> None:
    key = int(SPARSE.indices[1, 0])
    validate(with_logit(LARGEST_LOGIT / 2, key))
    with pytest.raises(TileproofError, match="too large for float64") as caught:
        validate(with_logit(LARGEST_LOGIT * 2, key))
    assert "token 1" in str(caught.value) and "2^40" in str(caught.value)


def test_rows_that_no_token_selects_do_not_count() -> None:
    unused = next(row for row in range(64) if row not in SPARSE.indices)
    validate(with_logit(LARGEST_LOGIT * 2, unused))


def test_a_large_bound_with_small_logits_passes() -> None:
    q, kv = SPARSE.q.copy(), SPARSE.kv.copy()
    q[..., 3], kv[..., 4] = 2.0**40, 2.0**40  # in columns of their own
    validate(replace(SPARSE, q=q, kv=kv))


def test_dense_attention_refuses_them_too() -> None:
    inputs = DenseCase(m=3, n=5, d_qk=16, d_v=16, heads=2, scale=1.0, values="zeros").inputs()
    q, k = inputs.q.copy(), inputs.k.copy()
    q[0, 2, 1, 0], k[0, 4, 0, 0] = 2.0**21, 2.0**20
    with pytest.raises(TileproofError, match="sequence 0, head 1"):
        validate_dense(replace(inputs, q=q, k=k))
    k[0, 4, 0, 0] = 2.0**19
    validate_dense(replace(inputs, q=q, k=k))
    assert np.abs(q).max() > 0
