"""sm100-gemm-bias: a product with a bias on the tensor core, judged tile by tile, and its planted defects.

Those of order are run with every other kernel's (tests/conformance/planted/synchronisation).
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.cli.app import main
from tileproof.kernels.edit import InStage, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.gemm.defects import VALUES
from tileproof.spec.problems.base import TileCoord, tiling_of
from tileproof.spec.problems.faults import WrongTile
from tileproof.spec.problems.gemm.faults import GemmFaultHypotheses
from tileproof.spec.problems.gemm.generator import small
from tileproof.spec.problems.gemm.problem import GEMM_BIAS

KERNEL = kernel("sm100-gemm-bias")
VARIANT = KERNEL.variants[0]
OTHERS = "output tiles of a larger problem that did not run are not judged"

# What the cause of each must say; "" where a hang's root says it.
CAUSES = {
    "g100-last-step-left-out": "columns 48..63 is missing",
    "g100-cleared-once": "from k-block 1 on: k-block 1 cleared the accumulator",
    "g100-swizzle-of-a": "operand A: read with the 64B instead of the 128B swizzle",
    "g100-bias-of-the-first-columns": "the bias is that of 32 columns before",
    "g100-bf16-cut-off": "rounded towards zero, not to nearest",
    "g100-bf16-halves-exchanged": "index i holds i XOR 1",
    "g100-product-not-waited-for": "NaN",
}


def test_it_multiplies_on_the_tensor_core() -> None:
    built = KERNEL.build(VARIANT)
    assert re.search(r"^\.target sm_100a$", built.ptx, re.MULTILINE)
    assert "tcgen05.mma.cta_group::1.kind::f16" in built.ptx and "mma.sync" not in built.ptx
    assert built.resources is not None and built.resources.spill_stores == 0


@pytest.mark.parametrize("mma", ["fast", "exact"])
def test_both_stages_conform(mma: str) -> None:
    """The product in tensor memory and D in bf16, in both builds; nothing is left out."""
    report = engine.check(on_emulator(KERNEL, VARIANT, mma=mma), examples=6, seed=4)  # type: ignore[arg-type]
    assert report.failure is None, report.failure
    rows = {"product", "product after each k-block", "D", "D from end to end"}
    assert set(report.scores) == rows and report.agreed
    assert report.not_judged == () and report.remarks.keys() == {OTHERS}


@pytest.mark.parametrize("planted", VALUES, ids=lambda defect: defect.id)
def test_a_planted_defect_is_found_in_its_stage_with_its_cause(planted: PlantedDefect) -> None:
    under_test = on_emulator(KERNEL, VARIANT, planted=planted, races=False)
    report = engine.check(under_test, examples=10, seed=0, shrink_seconds=1.0)
    assert report.failure is not None
    finding = report.failure.findings[0]
    assert isinstance(planted.expected, InStage) and finding.problem.stage == planted.expected.stage
    if planted.id in CAUSES:
        assert CAUSES[planted.id] in finding.cause
    else:
        assert finding.code == planted.expected.code
        assert any(
            "before the wait saw it the barrier went on to phase 2" in line
            for line in (finding.cause, *finding.evidence)
        )


def test_other_schedules_and_the_trace_show_the_same_kernel() -> None:
    explored = CliRunner().invoke(main, ["explore", KERNEL.name, "--schedules", "12", "--json"])
    assert explored.exit_code == 0 and json.loads(explored.stdout)["verdict"] == "clean", explored.output
    traced = CliRunner().invoke(main, ["trace", KERNEL.name, "--blocks", "2", "--text"])
    assert traced.exit_code == 0, traced.output
    assert all(name in traced.output for name in ("full[0]", "empty[1]", "product_ready", "mma-issue"))


class Launched:
    """A launch of a small case, as a hypothesis sees it."""

    inputs = small(KERNEL.plan(VARIANT)).inputs()
    tiling = tiling_of(KERNEL.plan(VARIANT))

    def stage(self, name: str) -> object:
        return GEMM_BIAS.stages[name]


@pytest.mark.parametrize(
    ("cause", "factor", "off"),
    [
        ("the bias is missing", 0, 0),
        ("the bias is subtracted", -1, 0),
        ("the bias is that of the next column", 1, 1),
        ("the bias is that of 8 columns before", 1, -8),
    ],
)
def test_a_wrong_bias_has_one_explanation(cause: str, factor: int, off: int) -> None:
    inputs = Launched.inputs
    assert inputs.bias is not None
    product = inputs.A.astype(np.float64) @ inputs.B.astype(np.float64).T
    D = inputs.alpha * product + factor * np.roll(inputs.bias, -off).astype(np.float64)
    operands = {
        "product": GEMM_BIAS.stages["product"].bounded(A=inputs.A, B=inputs.B),
        "bias": inputs.bias,
        "alpha": inputs.alpha,
    }
    wrong = np.ones(D.shape, bool)
    tile = WrongTile("D", TileCoord(0, 0, None), operands, False, slice(0, D.shape[1]), D, wrong)
    fitting = [
        alternative.cause
        for alternative in GemmFaultHypotheses().alternatives(Launched(), tile)  # type: ignore[arg-type]
        if (abs(D - alternative.value) <= alternative.bound).all()
    ]
    assert fitting == [cause]


def _shifted(values: np.ndarray, step: int) -> np.ndarray:
    """Rows so many further on, zeros behind the last and before the first."""
    rows = np.arange(values.shape[0]) + step
    inside = (rows >= 0) & (rows < values.shape[0])
    return np.where(inside[:, None], values[np.where(inside, rows, 0)], 0.0)


@pytest.mark.parametrize(
    ("cause", "a", "b"),
    [
        ("the product is missing", lambda A: 0 * A, lambda B: B),
        ("the rows of A are those 1 row before", lambda A: _shifted(A, -1), lambda B: B),
        ("the rows of B are those 8 rows after", lambda A: A, lambda B: _shifted(B, 8)),
        (
            "in columns 16..23 of each 64 of K, B is that of columns 24..31 of each 64 of K",
            lambda A: A,
            lambda B: np.where(np.arange(B.shape[1]) % 64 // 8 == 2, np.roll(B, -8, 1), B),
        ),
        (
            "in columns 8..15 of each 64 of K, A is that of columns 8..15 of each 64 of K, +8 rows",
            lambda A: np.where(np.arange(A.shape[1]) % 64 // 8 == 1, _shifted(A, 8), A),
            lambda B: B,
        ),
        (
            "in columns 8..15 of each 16 of K, A is that of the other 8, -8 rows",
            lambda A: np.where(np.arange(A.shape[1]) // 8 % 2 == 1, _shifted(np.roll(A, 8, 1), -8), A),
            lambda B: B,
        ),
    ],
)
def test_a_product_of_other_rows_and_columns_is_explained(cause: str, a: Any, b: Any) -> None:
    inputs = Launched.inputs
    assert inputs.bias is not None
    A, B = inputs.A.astype(np.float64), inputs.B.astype(np.float64)
    D = inputs.alpha * (a(A) @ b(B).T) + inputs.bias.astype(np.float64)
    operands = {
        "product": GEMM_BIAS.stages["product"].bounded(A=inputs.A, B=inputs.B),
        "bias": inputs.bias,
        "alpha": inputs.alpha,
    }
    tile = WrongTile(
        "D", TileCoord(0, 0, None), operands, False, slice(0, D.shape[1]), D, np.ones(D.shape, bool)
    )
    fitting = [
        alternative.cause
        for alternative in GemmFaultHypotheses().alternatives(Launched(), tile)  # type: ignore[arg-type]
        if (abs(D - alternative.value) <= alternative.bound).all()
    ]
    assert fitting[:1] == [cause]  # the first that holds is named
