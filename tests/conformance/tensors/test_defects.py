"""Defects of the corpus' kinds in dumps with all stages: each is found at its stage, with its cause."""

from __future__ import annotations

import re

import pytest
from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.spec.problems import problem_type

from tests.kit.dump_defects import DEFECTS, DumpDefect, defect_inputs
from tests.kit.dumps import dump
from tests.kit.sampled import sampled

PROBLEM = problem_type("sparse_mla_bwd")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the planted NaN and inf
@pytest.mark.parametrize("defect", sampled(DEFECTS, 4, lambda each: each.at), ids=lambda each: each.id)
def test_a_defect_is_found_at_its_stage_with_its_cause(defect: DumpDefect) -> None:
    tensors = dump(defect_inputs(), {defect.at: defect.mistake})
    made = judge_tensors(PROBLEM, named(PROBLEM, tensors), "dump")
    assert made.verdict == "defect"
    first = made.findings[0]
    assert first.problem.stage == defect.reported
    assert re.search(defect.cause, first.cause), first.cause


def test_there_are_forty_of_many_rows_and_the_dump_without_them_is_clean() -> None:
    assert len({each.id for each in DEFECTS}) == len(DEFECTS) >= 40
    rows = {row for each in DEFECTS for row in each.rows.split()}
    assert len(rows) >= 20 and rows <= set(ROWS)
    made = judge_tensors(PROBLEM, named(PROBLEM, dump(defect_inputs())), "dump")
    assert made.verdict == "clean"
