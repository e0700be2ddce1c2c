"""The tiled reference and torch autograd agree to 1e-11 on every output; planted defects do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from mla_problems import INT_MAX, problems
from tileproof.reference import oracle, stages
from tileproof.reference.walk import Outputs, outputs, walk, with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather

TOLERANCE = 1e-11


def disagreement(got: Outputs, want: Outputs, terms: Outputs) -> float:
    """The largest relative difference over the outputs, by norm and by element against the largest one.

    An output that cancels to less than a thousandth of its terms (all slots the same key: dQ is 0) is
    measured against a thousandth of them.
    """
    worst = 0.0
    for name in ("delta", "dQ", "dKV"):
        a, b, floor = getattr(got, name), getattr(want, name), 1e-3 * getattr(terms, name)
        assert a.shape == b.shape
        for size in (np.linalg.norm, lambda x: np.abs(x).max(initial=0.0)):
            scale = max(float(size(b)), float(size(floor)))
            difference = float(size(a - b))
            worst = max(worst, difference / scale if scale else difference)
    return worst


def uncancelled(inputs: Inputs) -> Outputs:
    """Each output with the absolute values of its terms added up, from the walk's intermediates."""
    p = inputs.problem
    result = Outputs(np.zeros((p.s_q, p.h_q)), np.zeros((p.s_q, p.h_q, p.d_qk)), np.zeros((p.s_kv, p.d_qk)))
    result.delta[:] = np.abs(inputs.o * inputs.dO.astype(np.float64)).sum(-1)
    mask = key_mask(inputs)
    tiles: dict[str, np.ndarray] = {}
    for tile in walk(inputs):
        tiles[tile.stage] = tile.value
        token, rows, cols = tile.coord.token, tile.rows, tile.cols
        if tile.stage != "dS":
            continue
        ds = tiles["S"] * (np.abs(tiles["dP"]) + result.delta[token, rows, None]) * p.sm_scale
        result.dQ[token, rows] += ds @ np.abs(gather(inputs, token, cols).astype(np.float64))
        both = ds.T @ np.abs(inputs.q[token, rows].astype(np.float64))
        both[:, : p.d_v] += tiles["S"].T @ np.abs(inputs.dO[token, rows].astype(np.float64))
        key = mask[token, cols]
        np.add.at(result.dKV, inputs.indices[token, cols][key], both[key])
    return result


def small(**changes: object) -> Inputs:
    """One token, one tile, every kind of index; the least problem on which each planted defect shows."""
    rng = np.random.default_rng(3)
    problem = Problem(s_q=1, s_kv=40, h_q=64, d_qk=576, topk=128, sm_scale=0.05)
    index = rng.integers(0, 40, (1, 128))
    index[0, :6] = [-1, 40, -(2**31), INT_MAX, 7, 7]
    arrays = {
        "q": rng.standard_normal((1, 64, 576)),
        "kv": rng.standard_normal((40, 576)),
        "dO": rng.standard_normal((1, 64, 512)),
        "indices": index.astype(np.int32),
        "topk_length": np.array([100], np.int32),
    }
    return with_forward(problem, exact=True, **{**arrays, **changes})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(exact=True))
@example(small())
@example(small(topk_length=np.array([0], np.int32)))
@example(small(indices=np.full((1, 128), -1, np.int32)))
@example(small(indices=np.full((1, 128), 39, np.int32)))
def test_reference_equals_oracle(inputs: Inputs) -> None:
    assert disagreement(outputs(inputs), oracle.gradients(inputs), uncancelled(inputs)) <= TOLERANCE


@pytest.mark.parametrize("stage", ["P", "S", "dP", "dS", "dQ", "dKV", "delta"])
def test_a_stage_off_by_one_in_ten_billion_is_seen(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = getattr(stages, stage)
    monkeypatch.setattr(stages, stage, lambda *a, **k: honest(*a, **k) * (1 + 1e-10))
    inputs = small()
    wrong = outputs(inputs)
    monkeypatch.undo()
    assert disagreement(wrong, oracle.gradients(inputs), uncancelled(inputs)) > TOLERANCE


def test_a_slot_that_is_no_key_taken_for_one_is_seen() -> None:
    inputs = small()
    clamped = replace(inputs, indices=np.clip(inputs.indices, 0, 39))
    assert disagreement(outputs(clamped), oracle.gradients(inputs), uncancelled(inputs)) > 1e-6


def test_repeated_indices_count_each_time() -> None:
    inputs = small()
    index = inputs.indices.copy()
    index[0, 5] = -1
    once = replace(inputs, indices=index)
    assert disagreement(outputs(once), oracle.gradients(inputs), uncancelled(inputs)) > 1e-6


@pytest.mark.parametrize("lse", [np.inf, -np.inf])
def test_token_without_keys_gives_zeros_whatever_its_lse(lse: float) -> None:
    inputs = small(indices=np.full((1, 128), -1, np.int32))
    result = outputs(replace(inputs, lse=np.full((1, 64), lse)))
    assert not result.dQ.any() and not result.dKV.any() and not result.delta.any()


def test_tiling_does_not_matter() -> None:
    inputs = small()
    one, two = outputs(inputs, b_topk=32, ctas=1), outputs(inputs, b_topk=64, ctas=2)
    assert disagreement(one, two, uncancelled(inputs)) < 1e-13
