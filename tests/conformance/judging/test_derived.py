"""References with derived bounds: narrower than the default, and enough for a right kernel."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tileproof
from tileproof.conformance.compare.finished import finished_findings
from tileproof.conformance.judging.reference import default_bound
from tileproof.kernels.registry import kernel
from tileproof.spec.arithmetic import F16
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import Output
from tileproof.spec.plan import FinishedObservation
from tileproof.spec.plans import head64, sm90_gemm
from tileproof.spec.problems.gemm.generator import GemmCase, steps
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SparseMlaBwd
from tileproof.spec.problems.sparse_mla_bwd.stages import MlaRoundingPlan

PLAN = sm90_gemm.plan()
CASE = GemmCase(*steps(PLAN), values="normal", k_tiles=2, beta=0.7, seed=3)
INPUTS = CASE.inputs()


def expected() -> dict[str, tileproof.Expected]:
    return tileproof.derived("gemm", INPUTS, {"D": "D"}, shape=PLAN.shape)


def test_a_kernel_is_judged_by_the_bounds_of_its_problem() -> None:
    found = kernel("sm90-gemm")
    built = found.build(found.variants[0])
    launch = found.launch(INPUTS, built, False)
    verdict = tileproof.judge(launch, lambda: expected())
    assert verdict.verdict == "clean", verdict
    assert "default bound" not in tileproof.page(verdict)

    def rounded() -> dict[str, tileproof.Expected]:
        given = expected()["D"]
        return {"D": replace(given, value=given.value * (1 + 2.0**-9))}

    assert tileproof.judge(launch, rounded).verdict == "defect"


def test_the_derived_bound_is_narrower_than_the_rule_of_thumb() -> None:
    given = expected()["D"]
    thumb = default_bound(np.asarray(given.value), np.dtype(np.float32))
    assert np.median(given.bound) < np.median(thumb) / 2


def test_a_rounding_plan_is_what_bounds_are_derived_from() -> None:
    inputs = SparseCase(576, 90, tokens=(Indices("permuted"),), values="normal", h_q=64).inputs()
    plain = tileproof.derived("sparse_mla_bwd", inputs, {"dQ": "dQ"})["dQ"]
    f16 = tileproof.derived(SparseMlaBwd(rounding=MlaRoundingPlan(F16)), inputs, {"dQ": "dQ"})["dQ"]
    assert (plain.value == f16.value).all()
    assert np.median(f16.bound) < np.median(plain.bound) / 2
    with pytest.raises(TileproofError, match="unknown stage"):
        tileproof.derived("sparse_mla_bwd", inputs, {"dQ": "dq"})
    with pytest.raises(TileproofError, match="unknown problem type"):
        tileproof.derived("sparse_mla", inputs, {})


def test_rows_of_dkv_that_a_later_launch_rounds_to_bf16() -> None:
    """Bits are compared: to nearest even, and no other rounding."""
    inputs = SparseCase(576, 90, tokens=(Indices("permuted"),), values="normal", h_q=64).inputs()
    plan = replace(
        head64.plan(576), observations=(FinishedObservation("dKV", "dKV_out", "[s_kv, d_qk]", "dKV"),)
    )
    rows = np.random.default_rng(1).standard_normal((90, 576)).astype(np.float32)
    right = rows.astype(ml_dtypes.bfloat16)
    truncated = (rows.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(ml_dtypes.bfloat16)

    def findings(made: np.ndarray) -> list[str]:
        outputs = {
            "dKV": Output(rows, np.ones(rows.shape, bool)),
            "dKV_out": Output(made, np.ones(made.shape, bool)),
        }
        result = type("Result", (), {"outputs": outputs})()
        return [finding.message for finding in finished_findings(plan, inputs, result, "production", ["dKV"])]

    assert findings(right) == []
    assert findings(truncated) == ["output dKV_out is not dKV, rounded"]
