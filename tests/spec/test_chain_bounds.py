"""The composed bounds hold for the rounding model of a whole kernel, and are not so wide that errors pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.reference.chain import Known, outputs_of
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

from tests.kit.mla_problems import outputs

TOKENS = (Indices("random", holes=((3, -1),)), Indices("repeated"))


def chain_of(inputs, stage: str) -> Known:
    """An output of a kernel with two CTAs per cluster and k-blocks of 64."""
    known = outputs_of(inputs, stage, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2))
    if known.rows is None:
        return known
    value, error = (np.zeros((inputs.problem.s_kv, part.shape[1])) for part in (known.value, known.error))
    value[known.rows], error[known.rows] = known.value, known.error
    return Known(value, error)


def case(values, seed, **changes):
    return SparseCase(576, s_kv=90, blocks=2, tokens=TOKENS, values=values, seed=seed, **changes).inputs()


@pytest.mark.parametrize("values", ("zeros", "integers", "exact", "normal", "tiny"))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_rounding_model_of_a_kernel_stays_inside(values, seed):
    inputs = case(values, seed, lengths=(128, 70))
    found = outputs(inputs, m=Rounded())
    exact = outputs(inputs)
    for name in ("delta", "dQ", "dKV"):
        bounded = chain_of(inputs, name)
        # The walk adds in another order; float64 is far finer than any bound.
        assert (np.abs(bounded.value - exact[name]) <= 1e-6 * bounded.error).all(), name
        assert np.isfinite(bounded.error).all()
        assert (np.abs(found[name] - bounded.value) <= bounded.error).all(), name


def test_the_bound_is_a_few_roundings_wide():
    inputs = case("normal", 1)
    for name, most in (("dQ", 0.05), ("dKV", 0.02)):
        bounded = chain_of(inputs, name)
        assert np.median(bounded.error) < most * np.abs(bounded.value).max()


@pytest.mark.parametrize("what", ("dQ", "dKV"))
def test_a_dropped_key_or_a_wrong_scale_is_outside(what):
    inputs = case("normal", 2)
    known = chain_of(inputs, what)
    fewer = case("normal", 2, lengths=(127, 128))
    for wrong in (outputs(fewer)[what], 1.05 * known.value):
        assert (np.abs(wrong - known.value) > known.error).any()


def test_nan_of_a_key_reaches_what_depends_on_it_only():
    inputs = case("normal", 3, nan_key=True)
    row = int(np.flatnonzero(np.isnan(inputs.kv.astype(np.float32)).any(axis=1))[0])
    users = (inputs.indices == row).any(axis=1)
    dQ, dKV = chain_of(inputs, "dQ").value, chain_of(inputs, "dKV").value
    assert np.isnan(dQ[users]).all() and np.isfinite(dQ[~users]).all()
    assert np.isnan(dKV[row]).all() and np.isfinite(np.delete(dKV, row, axis=0)).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), integers=st.booleans(), scale=st.sampled_from([0, -60, -124, -130]))
def test_reordered_sums_stay_inside_and_exact_ones_are_equal(seed, integers, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    parts = rng.integers(-9, 10, (n, 5)) if integers else rng.standard_normal((n, 5))
    parts = np.ldexp(parts.astype(np.float32), scale).astype(np.float64)
    sums = RowSums.of(2, 5)
    sums.add(np.zeros(n, dtype=np.int64), parts)
    bound = sums.bound()
    assert sums.exact()[0].all() if integers and scale >= -124 else True
    assert (bound[1] == 0).all()
    for order in (np.arange(n), rng.permutation(n)):
        total = np.zeros(5, dtype=np.float32)
        for part in parts[order].astype(np.float32):
            total = total + part
            # red.add.f32 on global memory may flush subnormals.
            total[np.abs(total) < 2.0**-126] = 0
        assert (np.abs(total - sums.value[0]) <= bound[0]).all()


def test_a_missing_contribution_is_outside_the_reordering_bound():
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((20, 5)).astype(np.float32).astype(np.float64)
    sums = RowSums.of(1, 5)
    sums.add(np.zeros(20, dtype=np.int64), parts)
    assert (np.abs(parts[:-1].sum(axis=0) - sums.value[0]) > sums.bound()[0]).all()
