"""Bad input is named in one clear error; what is a key is decided as the definition says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask, lengths, validate

BF16 = ml_dtypes.bfloat16
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def good(**changes: Any) -> Inputs:
    problem = Problem(s_q=2, s_kv=10, h_q=64, d_qk=512, topk=64, sm_scale=0.1)
    arrays: dict[str, Any] = {
        "q": np.ones((2, 64, 512), BF16),
        "kv": np.ones((10, 512), BF16),
        "o": np.ones((2, 64, 512), BF16),
        "dO": np.ones((2, 64, 512), BF16),
        "lse": np.ones((2, 64), np.float32),
        "indices": np.zeros((2, 64), np.int32),
        "topk_length": np.array([64, 3], np.int32),
    }
    return Inputs(**{"problem": problem, **arrays, **changes})


def nan_at(
    shape: tuple[int, ...], at: tuple[int, ...], value: float = np.nan, dtype: Any = BF16
) -> np.ndarray:
    array = np.ones(shape, dtype)
    array[at] = value
    return array


def test_good_inputs_pass() -> None:
    validate(good())
    validate(good(topk_length=None))


@pytest.mark.parametrize(
    ("change", "what", "where"),
    [
        ({"q": np.ones((2, 64, 576), BF16)}, "wrong shape", "q"),
        ({"q": np.ones((2, 64, 512), np.float32)}, "wrong dtype", "q"),
        ({"kv": np.ones((512, 10), BF16).T}, "not contiguous", "kv"),
        ({"o": None}, "not a numpy array", "o"),
        ({"dO": nan_at((2, 64, 512), (1, 2, 3))}, "non-finite", "dO[1, 2, 3]"),
        ({"q": nan_at((2, 64, 512), (0, 0, 5), np.inf)}, "non-finite", "q[0, 0, 5]"),
        ({"kv": nan_at((10, 512), (7, 1))}, "non-finite", "kv[7, 1]"),
        ({"lse": nan_at((2, 64), (1, 9), np.inf, np.float32)}, "non-finite", "lse[1, 9]"),
        ({"indices": np.zeros((2, 64), np.int64)}, "wrong dtype", "indices"),
        ({"topk_length": np.zeros(3, np.int32)}, "wrong shape", "topk_length"),
        ({"problem": Problem(2, 10, 64, 512, 65, 0.1)}, "not a multiple", "problem.topk"),
        ({"problem": Problem(2, 10, 32, 512, 64, 0.1)}, "unsupported h_q", "problem.h_q"),
        ({"problem": Problem(2, 10, 64, 500, 64, 0.1)}, "unsupported d_qk", "problem.d_qk"),
        ({"problem": Problem(0, 10, 64, 512, 64, 0.1)}, "positive integer", "problem.s_q"),
        ({"problem": Problem(2, 10, 64, 512, 64, float("nan"))}, "sm_scale", "problem.sm_scale"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(TileproofError, match=what) as caught:
        validate(good(**change))
    assert caught.value.where == where
    assert caught.value.expected and caught.value.found


def test_poison_is_accepted_only_in_rows_that_no_key_selects() -> None:
    poisoned = good(kv=nan_at((10, 512), (7, 1)))
    validate(poisoned, poisoned_rows=True)
    index = poisoned.indices.copy()
    index[0, 9] = 7
    with pytest.raises(TileproofError, match="non-finite"):
        validate(replace(poisoned, indices=index), poisoned_rows=True)
    index[0, 9], index[1, 3] = 0, 7
    validate(replace(poisoned, indices=index), poisoned_rows=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_lse_is_accepted_where_there_is_no_key(value: float) -> None:
    inputs = good(lse=nan_at((2, 64), (1, 9), value, np.float32), topk_length=np.array([64, 0], np.int32))
    validate(inputs)
    with pytest.raises(TileproofError):
        validate(replace(inputs, lse=nan_at((2, 64), (1, 9), np.nan, np.float32)))


def test_keys() -> None:
    index = np.zeros((2, 64), np.int32)
    index[0, :6] = [-1, 10, INT_MIN, INT_MAX, 9, 9]
    mask = key_mask(good(indices=index))
    assert mask[0, :6].tolist() == [False, False, False, False, True, True]
    assert mask[1].sum() == 3 and mask[1, :3].all()


@pytest.mark.parametrize(
    "length, slots", [(-1, 0), (INT_MIN, 0), (0, 0), (1, 1), (63, 63), (64, 64), (65, 64), (INT_MAX, 64)]
)
def test_topk_length_is_clamped(length: int, slots: int) -> None:
    inputs = good(topk_length=np.array([length, 64], np.int32))
    assert lengths(inputs)[0] == slots == key_mask(inputs)[0].sum()
