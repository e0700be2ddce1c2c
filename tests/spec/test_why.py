"""The explanation of a bound: a stage's roundings, their sizes on a case, and the stages that it reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.reference.chain import outputs_of
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic.traced import TracedBound
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plans import head64
from tileproof.spec.problems import problem_types
from tileproof.spec.problems.base import ProblemType, tiling_of
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.spec.why import ErrorSize, lines, order, steps

PLAN = head64.plan(576)


@pytest.mark.parametrize("problem", problem_types().values(), ids=lambda problem: problem.name)
def test_every_rounding_of_every_stage_is_explained(problem: ProblemType) -> None:
    for name, stage in problem.stages.items():
        explained = [rounding for step in steps(stage) for rounding in step.roundings]
        inputs = {f"{source} to f32" for source in stage.inputs if stage.axes.get(source) == ()}
        # Uses of copies are said by the stage; rows in memory and their storage follow the stage.
        own = [rounding.partition(", as ")[0] for rounding in stage.rounding]
        own = [rounding for rounding in own if rounding not in inputs and "global memory" not in rounding]
        own = [rounding for rounding in own if not rounding.startswith("the sums to")]
        assert own == explained, name
        told = " ".join(" ".join(lines(problem, name)).split())
        errors = [step.operation.error for step in steps(stage) if step.roundings]
        assert [error for error in errors if " ".join(error.split()) not in told] == []


def test_stages_follow_down_to_the_given_data() -> None:
    assert order(SPARSE_MLA_BWD, "dQ") == ("dQ", "dS", "dP", "S", "P", "delta")
    told = "\n".join(lines(SPARSE_MLA_BWD, "dQ"))
    assert told.index("\ndQ = ") < told.index("\ndS = ") < told.index("\ndelta = ")
    assert "dS (stage, bf16, error below)" in told and "k (given, bf16, exact)" in told
    assert "U_BF16 = 2^-8" in told and "here:" not in told and "EX2_RELATIVE = " in told
    assert "EX2_RELATIVE = " not in "\n".join(lines(SPARSE_MLA_BWD, "P"))
    with pytest.raises(TileproofError, match="dX"):
        order(SPARSE_MLA_BWD, "dX")


def test_sizes_are_those_of_the_chain() -> None:
    inputs = SPARSE_MLA_BWD.generator.small(PLAN, 1).inputs()
    traced = TracedBound()
    chain = Evaluation(SPARSE_MLA_BWD, inputs, tiling_of(PLAN), traced)
    for token in range(inputs.problem.s_q):
        chain.whole("dQ", token)
    known = outputs_of(inputs, "dQ", problem=SPARSE_MLA_BWD, tiling=tiling_of(PLAN))
    copies = [term for term in traced.results if term.shape == (64, 576) and hasattr(term, "base")]
    assert len(copies) == inputs.problem.s_q
    assert max(ErrorSize.of(term).error for term in copies) == np.max(known.error)


def test_the_command_explains_a_stage() -> None:
    done = CliRunner().invoke(main, ["stages", "dKV", "--why"])
    assert done.exit_code == 0 and "problem sparse_mla_bwd" in done.stdout
    assert "accumulate: dS^T q + S^T dO" in done.stdout and "from its operands" in done.stdout
    done = CliRunner().invoke(main, ["stages", "D", "--why", "--json"])
    assert done.exit_code == 0 and any("alpha" in row["line"] for row in json.loads(done.stdout))
    done = CliRunner().invoke(main, ["stages", "dQ", "--problem", "sparse_mla_bwd", "--json"])
    assert [row["stage"] for row in json.loads(done.stdout)] == ["dQ"]


@pytest.mark.parametrize(
    "words",
    (["--why"], ["dX"], ["dX", "--why"], ["dQ", "--problem", "none"], ["dS", "--problem", "gemm", "--why"]),
)
def test_a_wrong_stage_is_reported(words: list[str]) -> None:
    assert CliRunner().invoke(main, ["stages", *words]).exit_code == 2
