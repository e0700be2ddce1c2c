"""The tiled reference and torch autograd agree to 1e-11 on every output; planted defects do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from tileproof.reference import oracle
from tileproof.spec.arithmetic import StageValue
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask
from tileproof.spec.problems.sparse_mla_bwd.problem import SparseMlaBwd
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES

from tests.kit.mla_problems import INT_MAX, outputs, problems
from tests.kit.uncancelled import Uncancelled

TOLERANCE = 1e-11


def disagreement(got: oracle.Outputs, want: oracle.Outputs, terms: oracle.Outputs) -> float:
    """The largest relative difference over the outputs, by norm and by element against the largest one.

    An output that cancels to less than a thousandth of its terms (all slots the same key: dQ is 0) is
    measured against a thousandth of them.
    """
    worst = 0.0
    for name in ("delta", "dQ", "dKV"):
        a, b, floor = got[name], want[name], 1e-3 * terms[name]
        assert a.shape == b.shape
        for size in (np.linalg.norm, lambda x: np.abs(x).max(initial=0.0)):
            scale = max(float(size(b)), float(size(floor)))
            difference = float(size(a - b))
            worst = max(worst, difference / scale if scale else difference)
    return worst


def uncancelled(inputs: Inputs) -> oracle.Outputs:
    """Each output with the absolute values of its terms added up."""
    with np.errstate(over="ignore", invalid="ignore"):
        terms = outputs(inputs, m=Uncancelled(), dtype=complex)
    return {name: value.imag for name, value in terms.items()}


def small(**changes: Any) -> Inputs:
    """One token, one tile, every kind of index; the least problem on which each planted defect shows."""
    rng = np.random.default_rng(3)
    topk = np.shape(changes.get("indices", np.zeros((1, 128))))[1]
    problem = Problem(s_q=1, s_kv=40, h_q=64, d_qk=576, topk=topk, sm_scale=0.05)
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
def test_a_stage_off_by_one_in_ten_billion_is_seen(stage: str) -> None:
    own = STAGES[stage]

    def off(m, *terms):
        kept = own.compute(m, *terms)
        if not isinstance(kept, StageValue):
            return kept * (1 + 1e-10)
        assert kept.copy is not None
        return StageValue(kept.value * (1 + 1e-10), kept.copy * (1 + 1e-10), kept.use)

    inputs = small()
    wrong = outputs(inputs, problem=changed(stage, off))
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
    assert not result["dQ"].any() and not result["dKV"].any() and not result["delta"].any()


# Definitions of a key that are wrong; the forward that makes o and lse takes them too.
WRONG_KEYS: dict[str, Callable[[Inputs], Any]] = {
    "up to the first hole": lambda inputs: np.logical_and.accumulate(key_mask(inputs), axis=1),
    "-1 is the last row": lambda inputs: key_mask(inputs) | (inputs.indices == -1),
    "one slot less": lambda inputs: key_mask(replace(inputs, topk_length=np.array([99], np.int32))),
    "topk_length ignored": lambda inputs: key_mask(replace(inputs, topk_length=None)),
    "row 0 is none": lambda inputs: key_mask(inputs) & (inputs.indices > 0),
    "the last row is none": lambda inputs: key_mask(inputs) & (inputs.indices < 39),
    "a row twice is none": lambda inputs: (
        key_mask(inputs) & (np.append(inputs.indices[:, 1:], [[-1]], axis=1) != inputs.indices)
    ),
}


@pytest.mark.parametrize("wrong", WRONG_KEYS)
def test_a_wrong_definition_of_a_key_in_the_spec_is_seen(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(inputs: Inputs, tokens: slice = slice(None)) -> npt.NDArray[np.bool_]:
        return np.asarray(WRONG_KEYS[wrong](inputs)[tokens])

    places = [module for module in sys.modules.values() if getattr(module, "key_mask", None) is key_mask]
    indices = small().indices.copy()
    indices[0, 9] = 39
    inputs = small(indices=indices)
    assert disagreement(outputs(inputs), oracle.gradients(inputs), uncancelled(inputs)) <= TOLERANCE
    for module in places:
        if module.__name__.startswith("tileproof."):
            monkeypatch.setattr(module, "key_mask", changed)
    inputs = small(indices=indices)
    assert disagreement(outputs(inputs), oracle.gradients(inputs), uncancelled(inputs)) > 1e-6


# What a spec must not say, and the least disagreement that it makes. Every parameter keeps its form.
WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "k q^T for q k^T, heads and slots of a square tile": (
        "P",
        lambda m, q, k: m.matmul(k, m.transpose(q)),
    ),
    "dP + delta": ("dS", lambda m, S, dP, d, scale: m.mul(S, m.add(dP, m.column(d)), scale)),
    "no sm_scale": ("dS", lambda m, S, dP, d, scale: m.mul(S, m.sub(dP, m.column(d)))),
    "no delta": ("dS", lambda m, S, dP, d, scale: m.mul(S, dP, scale)),
    "no log2(e)": ("S", lambda m, P, lse, mask, s: m.select(mask, m.exp2(m.sub(m.mul(s, P), m.column(lse))))),
    "no S^T dO": ("dKV", lambda m, S, dO, dS, q: m.matmul(m.transpose(dS), q)),
    "S for dS": (
        "dKV",
        lambda m, S, dO, dS, q: m.accumulate(m.matmul(m.transpose(S), q), m.transpose(S), dO),
    ),
    "q for dO": ("dP", lambda m, dO, v: m.matmul(m.mul(dO, dO), m.transpose(v))),
    "o * o": ("delta", lambda m, o, dO: m.rowsum(o, o)),
}


def changed(stage: str, compute: Callable[..., Any], **fields: Any) -> SparseMlaBwd:
    """The problem with another function, or other fields, in a stage."""
    return SparseMlaBwd({stage: STAGES[stage].with_function(compute, **fields)})


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_formula_in_the_spec_makes_the_reference_wrong(change: str) -> None:
    stage, compute = WRONG[change]
    square = {"indices": np.arange(64, dtype=np.int32)[None] % 41, "topk_length": None}
    inputs = small(**square) if "square" in change else small()
    wrong = outputs(inputs, problem=changed(stage, compute))
    assert disagreement(wrong, oracle.gradients(inputs), uncancelled(inputs)) > 1e-6


@pytest.mark.parametrize(
    ("stage", "tile"),
    [("P", ("B_TOPK", "h_q")), ("P", ("h_q", "d_qk")), ("dQ", ("h_q", "B_TOPK")), ("delta", ("B_TOPK",))],
)
def test_a_wrong_axis_of_a_tile_is_refused(stage: str, tile: tuple[str, ...]) -> None:
    inputs = small()
    with pytest.raises(TileproofError, match="shape"):
        outputs(inputs, problem=changed(stage, STAGES[stage].compute, tile=tile))


def test_k_q_transposed_is_refused_where_its_shape_is_another() -> None:
    with pytest.raises(TileproofError, match="shape"):
        outputs(small(), problem=changed("P", lambda m, q, k: m.matmul(k, m.transpose(q))))


def test_tiling_does_not_matter() -> None:
    inputs = small()
    tiled, whole = outputs(inputs, tiling=Tiling(32, 1)), outputs(inputs)
    assert disagreement(tiled, whole, uncancelled(inputs)) < 1e-13
