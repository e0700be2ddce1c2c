"""Properties of dense attention that need no reference, and the edges that a block of 32 x 48 has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.conformance.check.property import replay
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.registry import kernel
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import F32
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.dense_attention_bwd import features
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.generator import cases
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd
from tileproof.spec.problems.dense_attention_bwd.relations import RELATIONS

from tests.kit.dense_problems import CUT, small

KERNELS = ("blocked", "torch-cpu-flash")


def outputs(name: str, inputs: Any) -> dict[str, np.ndarray]:
    """What a kernel gives on these inputs; what it does not write is 0."""
    target = kernel(name)
    under_test = on_own_driver(target, target.variants[0])
    launch = target.launch(inputs, under_test.production)
    result = under_test.driver.run(launch, under_test.plan(), Schedule(), False)
    assert not result.findings
    return {
        n: np.where(output.written, output.values, np.zeros_like(output.values))
        for n, output in result.outputs.items()
    }


def refused(name: str) -> frozenset[str]:
    target = kernel(name)
    return frozenset(feature for feature, _ in target.plan(target.variants[0]).refuses)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), seed=st.integers(0, 99))
def test_a_relation_holds(name: str, relation: Any, case: DenseCase, seed: int) -> None:
    inputs = features.without(case, refused(name)).inputs()
    changed = relation.change(inputs, seed)
    assert relation.broken(inputs, seed, outputs(name, inputs), outputs(name, changed)) == ""


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_a_relation_that_does_not_hold_is_seen(relation: Any) -> None:
    inputs = small(right=None, n=60, b=2).inputs()
    base = outputs("blocked", inputs)
    moved = outputs("blocked", relation.change(inputs, 1))
    assert relation.broken(inputs, 1, base, moved) == ""
    wrong = {name: value + np.asarray(1, value.dtype) for name, value in moved.items()}
    assert relation.broken(inputs, 1, base, wrong) != ""


@pytest.mark.parametrize("align", ["top left", "bottom right"])
@pytest.mark.parametrize("limit", [0, 1, 31, 32, 33, 47, 48, 49])
def test_limits_at_block_edges(align: Any, limit: int) -> None:
    target = kernel("blocked")
    for case in (
        small(m=65, n=97, left=limit, right=0, align=align),
        small(m=97, n=65, left=None, right=limit, align=align),
        small(m=65, n=97, left=limit, right=-1, align=align),
    ):
        assert replay(on_own_driver(target, target.variants[0]), case, Schedule()).failure is None, case


HEADS = [("blocked", d) for d in (8, 40, 96, 192, 256)] + [("torch-cpu-flash", d) for d in (8, 72, 128, 256)]


@pytest.mark.parametrize(("name", "d"), HEADS)
def test_head_dimensions_one_query_and_ragged_sizes(name: str, d: int) -> None:
    target = kernel(name)
    for m, n in ((1, 33), (1, 1), (31, 49)):
        case = DenseCase(m=m, n=n, d_qk=d, d_v=d, right=0, align="bottom right", heads=2)
        assert replay(on_own_driver(target, target.variants[0]), case, Schedule()).failure is None, case


def test_the_bias_gradient_is_dS_without_the_scale() -> None:
    inputs = small(bias=True).inputs()
    evaluation = Evaluation(DenseAttentionBwd(F32), inputs, CUT, EXACT)
    for group in (0, 1):
        dS, dB = (evaluation.whole(name, group).value for name in ("dS", "dB"))
        assert np.allclose(dS, dB * inputs.problem.sm_scale, rtol=1e-15, atol=0)
        assert not dB[~evaluation.term("mask", group, F32)].any()


def gradients(name: str, case: DenseCase) -> tuple[Any, dict[str, np.ndarray]]:
    inputs = case.inputs()
    return inputs, outputs(name, inputs)


cut = np.ascontiguousarray
GRADIENTS = ("dQ", "dK", "dV")


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_masked_gets_exactly_zero_gradient(name: str) -> None:
    """Keys that no query sees, and queries that see no key, in every kind of mask."""
    for how in (
        {"m": 40, "n": 70, "right": 0},
        {"m": 70, "n": 40, "right": 0, "align": "bottom right"},
        {"m": 50, "n": 90, "left": 5, "right": -1},
    ):
        inputs, found = gradients(name, small(d_v=24, **how))
        (seen,) = inputs.masks
        assert (
            not found["dK"][:, :, ~seen.any(axis=0)].any() and not found["dV"][:, :, ~seen.any(axis=0)].any()
        )
        assert not found["dQ"][:, :, ~seen.any(axis=1)].any()
        assert found["dK"][:, :, seen.any(axis=0)].any() and found["dQ"][:, :, seen.any(axis=1)].any()
        if "dB" in found:
            assert not found["dB"][:, :, ~seen].any()


def test_a_dropout_of_zero_is_none_and_another_is_not() -> None:
    case = small(right=None)
    _, none = gradients("blocked", case)
    _, zero = gradients("blocked", replace(case, dropout=0.0, stream=(5, 8)))
    _, half = gradients("blocked", replace(case, dropout=0.5, stream=(5, 8)))
    assert all(
        (none[gradient] == zero[gradient]).all() and (none[gradient] != half[gradient]).any()
        for gradient in GRADIENTS
    )


def test_the_bias_gradient_is_dS_of_the_kernel() -> None:
    inputs, found = gradients("blocked-f32", small(form="f32", bias=True, right=0))
    scaled = found["dB"] * np.float32(inputs.problem.sm_scale)
    assert (scaled == found["dS"]).all() and found["dS"].any()


def test_sequences_split_by_cu_seqlens_are_separate_calls() -> None:
    """Also one without queries, and one without keys."""
    lengths = ((17, 33), (40, 50), (0, 3), (2, 0))
    inputs, whole = gradients("blocked", small(packed=lengths))
    for sequence, (m, n) in zip(inputs.problem.sequences, lengths, strict=True):
        if not m or not n:
            assert (
                not whole["dQ"][:, :, sequence.queries].any() and not whole["dK"][:, :, sequence.keys].any()
            )
            continue
        alone = replace(inputs.problem, m=m, n=n, packed=None)
        own = {x: cut(getattr(inputs, x)[:, sequence.queries]) for x in ("q", "o", "dO")}
        own |= {x: cut(getattr(inputs, x)[:, sequence.keys]) for x in ("k", "v")}
        own["lse"] = cut(inputs.lse[:, :, sequence.queries])
        found = outputs("blocked", replace(inputs, problem=alone, **own))
        assert (found["dQ"] == whole["dQ"][:, :, sequence.queries]).all()
        assert all((found[x] == whole[x][:, :, sequence.keys]).all() for x in ("dK", "dV"))


@pytest.mark.parametrize("name", KERNELS)
def test_permuted_heads_permute_the_gradients(name: str) -> None:
    inputs, found = gradients(name, small(heads=1, h_kv=3, d_v=24))
    order = [2, 0, 1]
    moved = {x: cut(getattr(inputs, x)[:, :, order]) for x in ("q", "k", "v", "o", "dO")}
    other = outputs(name, replace(inputs, lse=cut(inputs.lse[:, order]), **moved))
    assert all((other[x] == found[x][:, order]).all() for x in GRADIENTS)
