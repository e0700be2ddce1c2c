"""A kernel whose plan declares f16 operands is drawn with f16 inputs and judged by f16 roundings."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.kernels.edit import Edit, Place
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase
from tileproof.spec.problems.sparse_mla_bwd.generator import edges, in_form, small

from tests.kit.f16_kernel import EDITS, F16_HEAD64, HEAD64, PACK, under_test

TO_ZERO = Edit(Place(PACK, "sm100/ptx.cuh"), PACK.replace("rn.bf16x2", "rz.f16x2"))


def test_f16_cases_are_drawn_and_the_kernel_is_right() -> None:
    report = engine.check(under_test(F16_HEAD64, EDITS), examples=5, seed=3, with_edges=False)
    assert report.failure is None and report.examples == 5


@pytest.mark.parametrize("name", ["lengths", "indices", "wide exact"])
def test_edges_have_f16_operands(name: str) -> None:
    plan = F16_HEAD64.plan(F16_HEAD64.variant(d_qk=576))
    case = edges(plan)[name].case
    assert case.inputs().q.dtype == np.float16 and SparseCase.from_json(case.as_json()) == case
    own = edges(HEAD64.plan(HEAD64.variant(d_qk=576)))[name].case
    assert isinstance(own, SparseCase) and case == in_form(own, "f16")


@pytest.mark.parametrize(
    ("declared", "edits", "stage"),
    [
        (F16_HEAD64, (), "delta"),
        (HEAD64, EDITS, "delta"),
        (F16_HEAD64, (EDITS[0], TO_ZERO, *EDITS[2:]), "S"),
    ],
    ids=["bf16 kernel declared f16", "f16 kernel declared bf16", "f16 copies rounded toward zero"],
)
def test_another_form_than_declared_is_found(declared, edits, stage: str) -> None:  # type: ignore[no-untyped-def]
    target = under_test(declared, edits)
    run = run_case(target, small(target.plan(), 1), Schedule(), explain=False)
    assert run.findings[0].problem.stage == stage


def test_inputs_of_another_form_are_refused() -> None:
    plan = F16_HEAD64.plan(F16_HEAD64.variant(d_qk=576))
    with pytest.raises(TileproofError, match="operands of this form"):
        plan.problem.require(SparseCase(576, h_q=64).inputs(), plan)
    with pytest.raises(TileproofError, match="not a case"):
        SparseCase.from_json('{"d_qk":576,"form":"f16","values":"coordinates"}')
