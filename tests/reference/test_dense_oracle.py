"""The stages of dense attention and torch autograd agree to 1e-11 on every output; planted errors do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from tileproof.reference import dense_oracle
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import F32, StageValue
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.generator import cases
from tileproof.spec.problems.dense_attention_bwd.inputs import MAX_SPLITS, Inputs
from tileproof.spec.problems.dense_attention_bwd.masks import Mask
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd
from tileproof.spec.problems.dense_attention_bwd.stages import RoundingPlan, part_names

from tests.kit.dense_problems import CUT, exact, small
from tests.kit.evaluated import outputs_over
from tests.kit.uncancelled import Uncancelled

TOLERANCE = 1e-11
OUTPUTS = ("delta", "dQ", "dK", "dV", "dB")
WHOLE = DenseAttentionBwd(F32)
Found = dict[str, np.ndarray]


def outputs(inputs: Inputs, problem: DenseAttentionBwd = WHOLE, m: Any = EXACT) -> Found:
    """Every output over the arithmetic `m`."""
    return outputs_over(inputs, OUTPUTS, problem=problem, tiling=CUT, m=m, dtype=complex)


def disagreement(inputs: Inputs, problem: DenseAttentionBwd = WHOLE) -> float:
    """The largest difference from the oracle over what each element's terms add up to in magnitude."""
    got, want, terms = (
        outputs(inputs, problem),
        dense_oracle.gradients(inputs),
        outputs(inputs, m=Uncancelled()),
    )
    worst = 0.0
    for name in OUTPUTS:
        assert got[name].shape == want[name].shape
        scale = max(float(np.abs(want[name]).max(initial=0)), 1e-3 * float(terms[name].imag.max(initial=0)))
        difference = float(np.abs(got[name].real - want[name]).max(initial=0))
        worst = max(worst, difference / scale if scale else difference)
    return worst


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases("f32"))
@example(DenseCase("f32", m=3, n=5, packed=((0, 2), (3, 0), (2, 3))))
@example(small(form="bf16", bias=True))
@example(small(form="f16", right=None, dropout=0.5, stream=(9, 7)))
@example(small(form="bf16", m=70, n=20, align="bottom right"))
def test_reference_equals_oracle(case: DenseCase) -> None:
    assert disagreement(exact(case)) <= TOLERANCE


@pytest.mark.parametrize("stage", DenseAttentionBwd().stages)
def test_a_stage_off_by_one_in_ten_billion_is_seen(stage: str) -> None:
    own = WHOLE.stages[stage]

    def off(m, *terms):
        kept = own.compute(m, *terms)
        return StageValue((kept.value if isinstance(kept, StageValue) else kept) * (1 + 1e-10))

    inputs = exact(small(bias=True))
    wrong = DenseAttentionBwd(F32, changed={stage: own.with_function(off)})
    assert disagreement(inputs, wrong) > TOLERANCE


CHANGES: tuple[dict[str, Any], ...] = (
    {"left": 9}, {"right": 1}, {"align": "bottom right"}, {"dropout": 0.1}, {"scale": 0.1},
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_another_problem_is_another_result(change: dict[str, Any]) -> None:
    inputs = exact(small())
    got, want = outputs(replace(inputs, problem=small(**change).problem)), dense_oracle.gradients(inputs)
    assert max(np.abs(got[name].real - want[name]).max() for name in OUTPUTS) > 1e-6


seen_by = Mask.seen
WRONG_MASKS: dict[str, Callable[[Mask, int, int], Any]] = {
    "a key less": lambda mask, m, n: seen_by(replace(mask, right=mask.right and mask.right - 1), m, n),
    "from the other corner": lambda mask, m, n: seen_by(
        replace(mask, align="top left" if mask.align == "bottom right" else "bottom right"), m, n
    ),
    "no left limit": lambda mask, m, n: seen_by(replace(mask, left=None), m, n),
    "queries and keys in each other's place": lambda mask, m, n: seen_by(mask, n, m).T,
}


@pytest.mark.parametrize("wrong", WRONG_MASKS)
def test_a_wrong_mask_in_the_spec_is_seen(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = small(align="bottom right", left=30, right=2)
    assert disagreement(exact(case)) <= TOLERANCE
    monkeypatch.setattr(Mask, "seen", WRONG_MASKS[wrong])
    assert disagreement(exact(case)) > 1e-6


def test_a_key_block_at_a_time_adds_up_to_the_same() -> None:
    case = small()
    inputs, problem = exact(case), DenseAttentionBwd(by_key_block=True)
    evaluation = Evaluation(problem, inputs, CUT, EXACT)
    want = dense_oracle.gradients(inputs)
    p = inputs.problem
    with np.errstate(invalid="ignore"):
        dQ = evaluation.scatter("dQ", np.zeros((p.b * p.h * p.m, p.d_qk))).reshape(want["dQ"].shape)
    assert np.abs(p.sm_scale * dQ - want["dQ"]).max() < 1e-5  # delta and lse are given in f32
    for name in ("dK", "dV"):
        axes, found = problem.output(name), np.zeros(want[name].shape)
        for group in problem.groups(inputs, CUT):
            at = problem.place(inputs, CUT, TileCoord(group, None, None), axes)
            found[at] = evaluation.whole(name, group).value
        assert np.abs(found - want[name]).max() < 1e-5
    delta = evaluation.whole("delta", 0).value.reshape(p.heads, p.m)
    assert np.abs(delta - want["delta"][0, : p.heads]).max() < 1e-5


PLANS = {
    "late": RoundingPlan(late=True, forward=True),
    "late dropout": RoundingPlan(late=True, late_dropout=True, heads_apart=True, forward=True),
    "heads apart": RoundingPlan(heads_apart=True, forward=True),
    "narrow": RoundingPlan(narrow_softmax=True, forward=True),
    "in blocks": RoundingPlan(late=True, blocks=lambda m, n: (32, 48), forward=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_where_a_kernel_rounds_does_not_change_what_it_computes(name: str) -> None:
    problem = DenseAttentionBwd(F32, kernel="any", rounding=PLANS[name])
    inputs = exact(small(right=None, dropout=0.5, stream=(9, 7), by_block=True))
    names = ("dQ", "dK", "dV", "O")
    got = outputs_over(inputs, names, problem=problem, tiling=CUT, m=EXACT, dtype=complex)
    want = {**dense_oracle.gradients(inputs), "O": inputs.o.swapaxes(1, 2)}
    for output in names:
        assert np.abs(got[output].real - want[output]).max() <= TOLERANCE * np.abs(want[output]).max()


SPLIT = DenseAttentionBwd(F32, rounding=RoundingPlan(splits=MAX_SPLITS))
PARTS = part_names(MAX_SPLITS)


def split_case(splits: int) -> DenseCase:
    return small(m=40, n=170, right=None, splits=splits)


@pytest.mark.parametrize("splits", range(1, MAX_SPLITS + 1))
def test_the_parts_of_split_keys_add_up_to_the_oracle(splits: int) -> None:
    assert disagreement(exact(split_case(splits)), SPLIT) <= TOLERANCE


@pytest.mark.parametrize("stage", [*PARTS, "dQ"])
def test_a_part_off_by_one_in_ten_billion_is_seen(stage: str) -> None:
    own = SPLIT.stages[stage]

    def off(m, *terms):
        kept = own.compute(m, *terms)
        return StageValue((kept.value if isinstance(kept, StageValue) else kept) * (1 + 1e-10))

    wrong = replace(SPLIT, changed={stage: own.with_function(off)})
    assert disagreement(exact(split_case(MAX_SPLITS)), wrong) > TOLERANCE


def test_a_machine_that_rounds_stays_inside_the_bounds_of_parts_and_sum() -> None:
    rng = np.random.default_rng(4)
    dS, k = (rng.standard_normal(shape).astype(np.float32) for shape in ((30, 170), (170, 24)))
    split = np.arange(170) // 48 + 1
    ground: dict[str, Any] = {"dS": dS, "k": k, "split": split}
    parts = {name: SPLIT.stages[name].over(Rounded(), ground).value for name in PARTS}
    for number, (name, part) in enumerate(parts.items(), 1):
        value = SPLIT.stages[name].exact(**ground)
        run = split == number
        np.testing.assert_allclose(value, dS[:, run].astype(float) @ k[run].astype(float), rtol=1e-13)
        assert (np.abs(part - value) <= SPLIT.stages[name].bound(**ground)).all()
    total, by_hand = SPLIT.stages["dQ"], np.zeros((30, 24), np.float32)
    for part in parts.values():
        by_hand = by_hand + part.astype(np.float32)
    assert (total.over(Rounded(), parts).value == by_hand).all()
    off = np.abs(by_hand - total.exact(**parts))
    assert off.any() and (off <= total.bound(**parts)).all()


def test_one_split_is_bounded_as_no_split() -> None:
    rng = np.random.default_rng(5)
    dS, k = (rng.standard_normal(shape).astype(np.float32) for shape in ((30, 70), (70, 24)))
    ground: dict[str, Any] = {"dS": dS, "k": k, "split": np.ones(70)}
    first = SPLIT.stages["dQ_1"]
    assert (first.bound(**ground) == WHOLE.stages["dQ"].bound(dS=dS, k=k)).all()
    parts = {name: SPLIT.stages[name].over(Rounded(), ground).value for name in PARTS}
    assert not SPLIT.stages["dQ"].bound(**parts).any()
    assert (SPLIT.stages["dQ"].over(Rounded(), parts).value == parts["dQ_1"]).all()
