"""Partial sums are judged after each k-block; the first wrong sum is named, and what its k-block did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.not_judged import not_judged
from tileproof.conformance.check.run import KernelUnderTest, judge_run, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.compare.compare import Divergence
from tileproof.conformance.diagnose.partial import RIGHT, counted
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.observe.partial import partial_sums, partial_tiles
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.conformance.planted.defects import defects
from tileproof.kernels.registry import kernel
from tileproof.spec.arithmetic.terms import Sum
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.numerics import U_F64, gamma
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import cutlass_fmha_bwd
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.plans.head64 import plan
from tileproof.spec.problems.base import TileCoord, tiling_of
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase

BLOCKS = 4
APART = SparseCase(d_qk=576, s_kv=64 * BLOCKS, blocks=BLOCKS, values="normal", h_q=64, seed=1)
SAME = replace(APART, s_kv=64)  # every k-block has the same keys
EARLY = Schedule("early")
ROW = "dQ after each k-block"


def under_test(planted: str = "", of: str = "head64", **sizes: int) -> KernelUnderTest:
    found = kernel(of)
    defect = defects()[planted] if planted else None
    variant = found.variant(**sizes) if sizes else found.variants[0]
    return replace(on_emulator(found, variant, planted=defect, races=False), probe=None)


def run(planted: str, case: SparseCase = APART) -> JudgedRun:
    return run_case(under_test(planted, d_qk=576), case, EARLY, again=False)


@lru_cache
def shown() -> tuple[KernelPlan, Any, RunResult]:
    """The plan, the inputs and one launch of the right kernel."""
    tested = under_test(d_qk=576)
    inputs = APART.inputs()
    launch = tested.kernel.launch(inputs, tested.production, False)
    return tested.plan(), inputs, tested.driver.run(launch, tested.plan(), EARLY, True)


def test_a_right_kernel_shows_a_sum_after_each_k_block() -> None:
    verdict = run_case(under_test(d_qk=576), replace(APART, values="integers"), EARLY, again=False)
    score = verdict.scores[ROW]
    assert verdict.findings == [] and score.tiles == BLOCKS and score.elements == BLOCKS * 64 * 576
    assert 0 < score.worst < 1 or score.exact == score.elements


@pytest.mark.parametrize(
    ("planted", "cause"),
    [
        ("h64-dq-block-added-twice", "from k-block 1 on: the contribution of k-block 1 is added twice"),
        ("h64-dq-block-left-out", "from k-block 1 on: the contribution of k-block 1 is missing"),
        ("h64-dq-cleared-once", "from k-block 1 on: k-block 1 cleared the accumulator: earlier"),
        ("h64-dq-cleared", "from k-block 1 on: only the last k-block counts: each k-block cleared"),
        ("h64-dq-another-block-twice", "from k-block 1 on: the contribution of k-block 1 is missing"),
    ],
)
def test_the_first_wrong_k_block_is_named_once(planted: str, cause: str) -> None:
    first, *others = run(planted).findings
    assert (first.kind, first.problem.stage, first.problem.k_block) == ("value", "dQ", 1)
    assert cause in first.cause
    assert first.message == "dQ differs from the spec after k-block 1" and first.others == BLOCKS - 2
    assert first.problem.lane is not None and first.problem.tmem_column is not None
    assert [other.kind for other in others] == ["chain"]  # the whole sum's tile is a consequence


def test_only_partial_sums_show_a_mistake_that_cancels() -> None:
    (finding,) = run("h64-dq-another-block-twice", SAME).findings
    assert (finding.problem.stage, finding.problem.k_block, finding.others) == ("dQ", 1, 0)
    assert "is wrong after k-block 1 and right again after k-block 2" in finding.cause
    assert "the contribution of k-block 1 is missing, or k-block 1 cleared" in finding.cause

    bare = under_test("h64-dq-another-block-twice", d_qk=576)
    without = replace(bare.plan(), partials=())
    inputs = SAME.inputs()
    seen = bare.driver.run(bare.kernel.launch(inputs, bare.production, False), without, EARLY, True)
    assert judge_run(without, inputs, seen, None).findings == []


def test_what_reads_a_right_sum_wrongly_is_distinguished() -> None:
    finding = run("h64-dq-columns-swapped").findings[0]
    assert (finding.problem.stage, finding.problem.k_block) == ("dQ", None) and finding.cause.endswith(RIGHT)


def test_a_sum_that_is_never_published_is_a_finding() -> None:
    plan_, inputs, seen = shown()
    assert judge_run(plan_, inputs, seen, None).findings == []
    gone = [capture for capture in seen.captures if (capture.barrier, capture.phase) != ("kv_hi_free", 2)]
    (finding,) = judge_run(plan_, inputs, replace(seen, captures=tuple(gone)), None).findings
    assert (finding.kind, finding.problem.k_block) == ("missing", 2)
    assert finding.message == "dQ was never published after k-block 2" and finding.problem.column == 256


def chain_and_tile(k_block: int) -> tuple[Chain, StageTile]:
    plan_, inputs, seen = shown()
    tiles = partial_tiles(plan_, inputs, seen.captures)
    chain = Chain(inputs, {}, problem=plan_.problem, tiling=tiling_of(plan_))
    return chain, next(tile for tile in tiles if tile.coord == TileCoord(0, 0, k_block))


def test_sums_of_k_blocks_are_the_stage_over_the_first_of_them() -> None:
    chain, tile = chain_and_tile(0)
    for k in range(BLOCKS):
        joined = chain.partial_sum("dQ", tile.coord, k)
        direct = chain.over_blocks("dQ", 0, None, 0, k + 1).value
        assert isinstance(direct, Sum)
        far = 2 * gamma(64 * (k + 1), U_F64) * direct.magnitude  # two orders of one float64 sum
        assert (np.abs(joined.value - direct.value) <= far).all()
        np.testing.assert_allclose(joined.errors, direct.errors, rtol=1e-12)
        operands = chain.operands("dQ", replace(tile.coord, k_block=k), tile.rows, tile.cols)
        assert operands["dS"].shape == (64, 64 * (k + 1)) and operands["k"].shape == (64 * (k + 1), 576)
    assert chain.partial_sum("dQ", tile.coord, BLOCKS - 1) is chain.whole("dQ", 0).value


MISTAKES: dict[str, Callable[[list[np.ndarray]], np.ndarray]] = {
    "the contribution of k-block 2 is subtracted": lambda c: c[0] + c[1] - c[2],
    "the contribution of k-block 1 is added instead of k-block 2's (a stale buffer)": lambda c: (
        c[0] + 2 * c[1]
    ),
    "the contribution of k-block 3 is added instead of k-block 2's": lambda c: c[0] + c[1] + c[3],
    "the contribution of k-block 0 is added twice, the second time at k-block 2": lambda c: (
        2 * c[0] + c[1] + c[2]
    ),
    "the contribution of k-block 3 is added too early, at k-block 2": lambda c: c[0] + c[1] + c[2] + c[3],
    "the contribution of k-block 1 is missing since k-block 2": lambda c: c[0] + c[2],
    "the sum counts k-block 0 3 times, k-block 1 not at all": lambda c: 3 * c[0] + c[2],
    "the contribution of k-block 2 is multiplied by 0.5": lambda c: c[0] + c[1] + c[2] / 2,
}


@pytest.mark.parametrize("columns", [slice(0, 576), slice(256, 512)], ids=["all", "some"])
@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_of_a_k_block_are_distinguished(words: str, columns: slice) -> None:
    chain, tile = chain_and_tile(2)
    reference = chain.reference("dQ", tile.coord, tile.rows, tile.cols)
    found = reference.value.astype(np.float32)
    each = [chain.contribution("dQ", tile.coord, k).value for k in range(BLOCKS)]
    found[:, columns] = MISTAKES[words](each)[:, columns]
    wrong = np.abs(found - reference.value) > reference.bound
    assert wrong[:, columns].mean() > 0.8
    assert counted(chain, Divergence(replace(tile, value=found), reference, wrong)) == words


def test_the_accumulator_of_a_product_is_judged_after_each_k_block() -> None:
    report = engine.check(
        under_test("g100-cleared-once", "sm100-gemm-bias"), examples=1, seed=1, shrink_seconds=0.0
    )
    assert report.failure is not None
    first = report.failure.findings[0]
    assert (first.problem.stage, first.problem.k_block) == ("product", 1)
    assert "product is wrong from k-block 1 on: k-block 1 cleared the accumulator" in first.cause


def test_sums_that_nothing_publishes_are_listed() -> None:
    words = "partial sums of product: no barrier publishes them"
    for name, listed in (("sm90-gemm", True), ("sm100-gemm-bias", False)):
        tested = under_test(of=name)
        assert (words in not_judged(tested.plan(), tested.driver, True)) == listed


DEFECTS: dict[str, Callable[[KernelPlan], KernelPlan]] = {
    "a tile or a barrier that is not in the plan": lambda p: _with(p, tile="dR"),
    "P is not a sum over the k-blocks": lambda p: _with(p, stage="P"),
    "dq_ready, which does not in each k-block": lambda p: _with(p, barrier="dq_ready"),
    "a partial sum of dQ names no buffer of dQ": lambda p: _with(p, buffer=2),
}


def _with(p: KernelPlan, **changes: Any) -> KernelPlan:
    return replace(p, partials=(replace(p.partials[0], **changes), *p.partials[1:]))


@pytest.mark.parametrize("sentence", DEFECTS)
def test_contradictions_of_a_plan_are_noticed(sentence: str) -> None:
    found = contradictions(DEFECTS[sentence](plan(576)))
    assert any(sentence in fault for fault in found), found


def test_every_column_of_a_sum_is_seen() -> None:
    for p in (plan(576), plan(512)):
        seen = [at.first_col + c for at in p.partials for c in range(256 if at.tile == "dQ" else 64)]
        assert sorted(seen) == list(range(p.size("d_qk")))
    assert {at.stage for at in partial_sums(cutlass_fmha_bwd.plan(64, 0))} == {"dK_acc", "dV_acc"}
