"""The matrix product as a problem type: reference, bounds, and NVIDIA's tutorial kernels tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.check.run import judge_run
from tileproof.conformance.compare.compare import compare
from tileproof.conformance.drivers import emulator
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.kernels.tutorials import kernels, plan_of
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import BF16
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, MachinePlace
from tileproof.spec.machine.finding_text import place
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import Tiling, tiling_of
from tileproof.spec.problems.gemm.inputs import Inputs, validate
from tileproof.spec.problems.gemm.problem import GEMM, GEMM_BIAS, Gemm

from tests.kit import tutorials

SMALL = Tiling(16, 4, (("M", 8, 2), ("N", 4, 2)))


def draw(seed: int, biased: bool = False, integers: bool = False, k: int = 48) -> Inputs:
    """32 x 16 outputs, eight tiles in four groups."""
    rng = np.random.default_rng(seed)

    def values(*shape: int) -> np.ndarray:
        return rng.integers(-4, 5, shape) if integers else rng.standard_normal(shape)

    dtype: Any = ml_dtypes.bfloat16 if biased else np.float16
    A, B = values(32, k).astype(dtype), values(16, k).astype(dtype)
    if biased:
        return Inputs(A, B, bias=values(16).astype(np.float32), alpha=0.7)
    return Inputs(A, B, C=values(32, 16).astype(np.float32), alpha=1.25, beta=-0.3)


def whole(problem: Gemm, inputs: Inputs, m: Any) -> list[tuple[tuple[slice, slice], Any]]:
    """Where each group lies in D, and what it is over `m`."""
    evaluation = Evaluation(problem, inputs, SMALL, m)
    found = []
    for group in problem.groups(inputs, SMALL):
        spans = tuple(problem.extent(inputs, SMALL, group, axis) for axis in ("M", "N"))
        kept = evaluation.whole("D", group)
        found.append((spans, kept.value if kept.copy is None else kept.copy))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("biased", [False, True])
def test_the_reference_is_the_product(biased: bool) -> None:
    inputs = draw(0, biased)
    product = inputs.alpha * (inputs.A.astype(float) @ inputs.B.astype(float).T)
    want = product + (inputs.bias if biased else inputs.beta * np.asarray(inputs.C, float))
    for at, value in whole(GEMM_BIAS if biased else GEMM, inputs, EXACT):
        assert np.allclose(value, want[at], rtol=1e-13, atol=1e-13)


def excess(problem: Gemm, inputs: Inputs, m: Any, other: Gemm | None = None) -> float:
    """Largest error in units of the bound of D over `m`, of `other` in the place of the problem."""
    worst = 0.0
    for (_, found), (_, term) in zip(
        whole(other or problem, inputs, m), whole(problem, inputs, BOUND), strict=True
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(found - term.value) / term.errors
        worst = max(worst, float(np.where(found == term.value, 0.0, ratio).max()))
    return worst


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_rounding_kernel_stays_inside(biased: bool, seed: int) -> None:
    problem = GEMM_BIAS if biased else GEMM
    assert excess(problem, draw(seed, biased), Rounded()) <= 1
    if seed == 0:
        assert excess(problem, draw(seed, biased), Rounded("tensor-core")) <= 1


# A function in the place of the stage's own, and the problem that it is wrong for.
WRONG: dict[str, tuple[Gemm, Callable[..., Any]]] = {
    "beta C left out": (GEMM, lambda m, x, C, alpha, beta: m.mul(alpha, x)),
    "minus beta C": (GEMM, lambda m, x, C, alpha, beta: m.sub(m.mul(alpha, x), m.mul(beta, C))),
    "alpha of both": (GEMM, lambda m, x, C, alpha, beta: m.mul(alpha, m.add(x, m.mul(beta, C)))),
    "no bias": (
        GEMM_BIAS,
        lambda m, x, bias, alpha: m.keep(m.mul(alpha, x), output=m.round_to(BF16, m.mul(alpha, x))),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_outside(name: str) -> None:
    problem, compute = WRONG[name]
    stage = problem.stages["D"].with_function(compute)
    wrong = replace(problem, changed={"D": stage})
    assert excess(problem, draw(1, problem.biased), Rounded(), wrong) > 100


def test_a_dropped_bf16_rounding_in_the_spec_makes_a_correct_kernel_wrong() -> None:
    own = GEMM_BIAS.stages["D"]

    def compute(m: Any, *terms: Any) -> Any:
        kept = own.compute(m, *terms)
        return m.keep(kept.value, output=kept.value)

    unrounded = replace(GEMM_BIAS, changed={"D": own.with_function(compute)})
    inputs = draw(2, True)
    assert excess(unrounded, inputs, Rounded(), GEMM_BIAS) > 1 >= excess(GEMM_BIAS, inputs, Rounded())


def test_inputs_that_do_not_fit_are_refused() -> None:
    inputs = draw(0)
    validate(inputs, {"M": 16, "N": 8, "K": 16})
    for wrong in (
        replace(inputs, C=None),
        replace(inputs, bias=np.zeros(16, np.float32)),
        replace(inputs, C=np.zeros((32, 16))),
        replace(inputs, B=inputs.B.astype(np.float32)),
        replace(inputs, A=np.full_like(inputs.A, np.nan)),
    ):
        with pytest.raises(TileproofError):
            validate(wrong, {})
    with pytest.raises(TileproofError, match="multiple"):
        validate(inputs, {"K": 32})


def tiles_of(chain: Chain, D: np.ndarray) -> list[StageTile]:
    """D as the tiles of its CTAs."""
    found = []
    for group in chain.problem.groups(chain.inputs, chain.tiling):
        for coord in chain.coordinates("D", group):
            rows, cols = chain.region("D", coord)
            value = D[rows, cols]
            found.append(StageTile("D", coord, rows, cols, value, np.ones(value.shape, bool)))
    return found


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS, ids=lambda tutorial: tutorial.name)
def test_the_tutorials_are_judged_tile_by_tile(tutorial: tutorials.Tutorial) -> None:
    inputs = tutorials.product(tutorial, 2 if tutorial.number < 3 else 1, seed=3, alpha=1.3, beta=-0.7)
    inputs = replace(inputs, A=(inputs.A * np.float16(0.37)).astype(np.float16))
    D, result = tutorials.run(tutorial, inputs)
    assert not [finding for finding in result.findings if finding.severity == "error"]
    validate(inputs, {"M": tutorial.step_m, "N": tutorial.step_n, "K": 64})
    chain = Chain(inputs, problem=GEMM, tiling=tiling_of(plan_of(tutorial)))
    tiles = tiles_of(chain, D)
    assert len(tiles) == tutorial.cluster[0] * tutorial.cluster[1]
    result_of = compare(chain, tiles)
    assert not result_of.divergences and 0 < result_of.scores["D"].worst <= 1
    # One CTA's tile with the product of one step along K missing: that tile, and no other.
    wrong = D.copy()
    victim = tiles[-1]
    lost = inputs.A[victim.rows, :16].astype(float) @ inputs.B[victim.cols, :16].astype(float).T
    wrong[victim.rows, victim.cols] -= (inputs.alpha * lost).astype(np.float32)
    (divergence,) = compare(chain, tiles_of(chain, wrong)).divergences
    assert divergence.tile.coord == victim.coord


def launched(tutorial: tutorials.Tutorial, tiles_k: int) -> tuple[KernelPlan, Inputs, RunResult]:
    """A product of several clusters on the tutorial, with everything that its plan observes."""
    m, n = tutorial.step_m * 2, tutorial.step_n
    rng = np.random.default_rng(5)
    A, B, C = (rng.standard_normal(shape) for shape in ((m, 64 * tiles_k), (n, 64 * tiles_k), (m, n)))
    inputs = Inputs(A.astype(np.float16), B.astype(np.float16), C.astype(np.float32), None, 1.3, -0.7)
    kernel = kernels()[tutorial.name]
    launch = kernel.launch(inputs, kernel.build(kernel.variants[0]))
    plan = plan_of(tutorial)
    return plan, inputs, emulator.run(launch, plan, schedule=Schedule("late"))


@pytest.mark.parametrize("number", [2, 3])
def test_the_accumulator_is_seen_in_tensor_memory(number: int) -> None:
    """Of each CTA, after the last k-block: a part of the sum is no tile."""
    tutorial = tutorials.TUTORIALS[number - 1]
    plan, inputs, seen = launched(tutorial, 2)
    tiles = [tile for tile in observe(plan, inputs, seen, "production").tiles if tile.stage == "product"]
    assert len(tiles) == 2 * plan.cluster and all(tile.written.all() for tile in tiles)
    exact = inputs.A.astype(np.float64) @ inputs.B.astype(np.float64).T
    for tile in tiles:
        assert np.allclose(tile.value, exact[tile.rows, tile.cols], rtol=0, atol=1e-3)
    assert judge_run(plan, inputs, seen, None).findings == []


def test_a_wrong_accumulator_is_the_finding_and_not_what_is_made_of_it() -> None:
    """One CTA's accumulator lacks a step along K, and so does D: product is wrong, D is right of it."""
    tutorial = tutorials.TUTORIALS[2]
    plan, inputs, seen = launched(tutorial, 1)
    victim = next(c for c in seen.captures if c.cta == (5, 2, 0))
    rows, cols = slice(5 * 128, 6 * 128), slice(2 * 256, 3 * 256)
    lost = inputs.A[rows, 16:32].astype(np.float64) @ inputs.B[cols, 16:32].astype(np.float64).T
    value = victim.data.view(np.float32).copy()
    value[:, :256] -= lost.astype(np.float32)
    D = seen.outputs["D"].values.copy()
    assert inputs.C is not None
    own = inputs.alpha * value[:, :256].astype(np.float64) + inputs.beta * inputs.C[rows, cols]
    D[rows, cols] = own.astype(np.float32)
    captures = tuple(replace(c, data=value.view(np.uint32)) if c is victim else c for c in seen.captures)
    outputs = {"D": replace(seen.outputs["D"], values=D)}
    wrong = replace(seen, captures=captures, outputs=outputs)
    first, *rest = judge_run(plan, inputs, wrong, None).findings
    # The cluster at (1, 0), in it the CTA at (1, 2): rank 1 + 4 * 2.
    assert (first.kind, first.problem.stage, first.problem.group, first.problem.cta) == (
        "value",
        "product",
        1,
        9,
    )
    assert "columns 16..31" in first.cause and "missing" in first.cause
    assert [
        (finding.kind, finding.problem.stage, finding.problem.group, finding.problem.cta) for finding in rest
    ] == [("chain", "D", 1, 9)]
    assert "output tile 1, CTA 9" in place(first)


def test_a_finding_of_the_machine_names_the_cta_of_a_cluster_in_two_dimensions() -> None:
    tutorial = tutorials.TUTORIALS[2]
    plan, inputs, seen = launched(tutorial, 1)
    fault = Finding("out-of-bounds", "a store past D", machine=MachinePlace(cta=(5, 2, 0), warp=1))
    (found,) = judge_run(plan, inputs, replace(seen, findings=(fault,)), None).findings
    assert (found.problem.group, found.problem.cta, found.problem.unit) == (1, 9, "output tile")
