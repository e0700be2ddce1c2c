"""Rows R36, N24, N25 and N32 of the corpus: registers in flight; widths, rows and orders of outputs."""

from __future__ import annotations

import pytest
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.spec.problems import problem_type

from tests.corpus.test_found_since_schedules import EVERY_POLICY
from tests.emulator import test_wgmma_rules as wgmma
from tests.kit.dump_defects import DEFECTS, defect_inputs
from tests.kit.dumps import dump
from tests.kit.wgmma import run_program

FEW = EVERY_POLICY[::4]


@pytest.mark.corpus("R36")
def test_R36_registers_of_a_wgmma_change_in_flight() -> None:
    read = wgmma.A_ONES + wgmma.START + wgmma.FROM_A + wgmma.COMMIT
    change = "mov.b32 %x1, 5;\n"
    for schedule in FEW:
        out, result = run_program(read + wgmma.ALL + change + wgmma.OUT, schedule=schedule)
        assert not result.findings and wgmma.sixteens(out)
        _, result = run_program(read + change + wgmma.ALL + wgmma.OUT, schedule=schedule)
        assert {finding.code for finding in result.errors} == {"wgmma-in-flight"}


PROBLEM = problem_type("sparse_mla_bwd")
DEFECT = {each.id: each for each in DEFECTS}


def of_a_dump(name: str) -> tuple[str, str]:
    """The stage and the cause of a defect that is planted in a dump (`tests/kit/dump_defects.py`)."""
    planted = DEFECT[name]
    tensors = dump(defect_inputs(), {planted.at: planted.mistake})
    made = judge_tensors(PROBLEM, named(PROBLEM, tensors), "dump")
    assert made.verdict == "defect"
    return made.findings[0].problem.stage, made.findings[0].cause  # type: ignore[return-value]


@pytest.mark.corpus("N24")
def test_N24_an_output_is_as_wide_as_another() -> None:
    stage, cause = of_a_dump("dq-without-rope")
    assert stage == "dQ" and "is missing" in cause


@pytest.mark.corpus("N25")
def test_N25_rows_of_another_index_set() -> None:
    stage, cause = of_a_dump("dkv-by-slot")
    assert stage == "dKV" and "row of its number" in cause


@pytest.mark.corpus("N32")
def test_N32_a_reader_with_another_swizzle() -> None:
    """It is deterministic, so that a repeat agrees; the values are those of other places."""
    stage, cause = of_a_dump("P-swizzled-twice")
    assert stage == "P" and "stored to a wrong address" in cause
