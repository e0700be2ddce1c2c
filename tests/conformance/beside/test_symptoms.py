"""`tileproof diagnose`: the true cause is among the first three, and what is not understood is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.conformance.beside.symptoms.ranking import CAUSES, ranked
from tileproof.conformance.beside.symptoms.words import WORDS, final, read_symptoms
from tileproof.conformance.cli.app import main
from tileproof.kernels.edit import InStage
from tileproof.kernels.registry import kernels
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import upstream
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

from tests.conformance.tensors import test_dense, test_planted
from tests.kit.dense_dumps import dense_dump
from tests.kit.dumps import dump, inputs

FIRST = 3
SPARSE, DENSE = "sparse_mla_bwd", "dense_attention_bwd"


def first(problem: str, text: str) -> tuple[set[str], set[str]]:
    """Stages and corpus rows of the first causes."""
    kind = problem_type(problem)
    found = ranked(kind, read_symptoms(text, kind))[:FIRST]
    return {stage for item in found for stage in item.stages}, {row for item in found for row in item.rows}


def in_words(found: Mapping[str, Any], right: Mapping[str, Any], outputs: Sequence[str]) -> str:
    """What somebody who sees only the outputs would write: which are wrong, NaN or right."""

    def state(name: str) -> str:
        value, own = found[name].astype(float), right[name].astype(float)
        if np.isnan(value).any():
            return "NaN"
        return "fine" if np.allclose(value, own, rtol=0.02, atol=0.02 * np.abs(own).max()) else "wrong"

    return ", ".join(f"{name} is {state(name)}" for name in outputs)


def nan(value: Any, *_: Any) -> Any:
    return value * np.nan


@pytest.mark.parametrize("name", [*test_planted.MISTAKES, "dP NaN"])
def test_planted_in_dumps_of_sparse_mla(name: str) -> None:
    stage, mistake = test_planted.MISTAKES.get(name, ("dP", nan))[:2]
    x = inputs(s_q=1, lengths=False)
    text = in_words(dump(x, {stage: mistake}), dump(x), ("dq", "dkv"))
    assert "wrong" in text or "NaN" in text
    assert stage in first(SPARSE, text)[0], text


@pytest.mark.parametrize("name", [*test_dense.MISTAKES, "dP NaN"])
def test_planted_in_dumps_of_dense_attention(name: str) -> None:
    stage, mistake = test_dense.MISTAKES.get(name, ("dP", nan))[:2]
    case = DenseCase(**test_dense.SIZES)
    text = in_words(dense_dump(case, {stage: mistake}), dense_dump(case), ("dq", "dk", "dv"))
    assert "wrong" in text or "NaN" in text
    assert stage in first(DENSE, text)[0], text


def test_planted_defects_of_every_kernel_by_the_stage_graph() -> None:
    """Of each defect that must be found in a stage: the outputs after the stage wrong, the others right."""
    seen = 0
    for kernel in kernels().values():
        problem = problem_type(kernel.variants[0].problem) if kernel.variants else None
        for defect in kernel.defects() if problem is not None else ():
            if not isinstance(defect.expected, InStage) or problem is None:
                continue
            stage = defect.expected.stage
            if stage not in problem.stages:
                continue
            reached = {name for name in final(problem) if name == stage or stage in upstream(problem, name)}
            text = ", ".join(f"{name} {'bad' if name in reached else 'ok'}" for name in final(problem))
            assert stage in first(problem.name, text)[0], (kernel.name, defect.id, text)
            seen += 1
    assert seen > 50


# Symptoms in other words: problem, text, a stage or a row of the corpus that must be among the first.
TEXTS = [
    (DENSE, "dV right, dQ and dK wrong", "delta"),
    (DENSE, "grad_value matches but grad_query and grad_key don't match", "dS"),
    (DENSE, "only dV is NaN", "N21"),
    (DENSE, "wrong dK; everything else is ok", "dK"),
    (DENSE, "dk incorrect, dv and dq agree", "dK"),
    (SPARSE, "NaN only with long prefixes", "I11"),
    (SPARSE, "hangs only with 2 CTAs", "H5"),
    (SPARSE, "deadlocks when a token has no valid keys", "H1"),
    (SPARSE, "dKV flaky from run to run with a deeper pipeline", "R3"),
    (SPARSE, "all gradients are zero", "I12"),
    (SPARSE, "illegal memory access for padding indices", "I4"),
    (SPARSE, "NaNs in dq if the last tile is partial", "N20"),
    (SPARSE, "dkv loses additions for duplicate keys, dq good", "I9"),
    (SPARSE, "slightly imprecise for large logits", "N1"),
    (SPARSE, "first launch fine, second launch wrong", "R6"),
    (SPARSE, "every other row of dq is swapped", "R14"),
    (SPARSE, "half of the columns are wrong with cta_group::2", "L2"),
    (SPARSE, "dQ off by a factor of 2, dKV fine", "N6"),
    (SPARSE, "NaN for sinks", "H8"),
    (SPARSE, "infinities above 32k tokens", "I11"),
    (SPARSE, "it never comes back with clusters", "H5"),
    ("gemm", "product is right but D is wrong", "D"),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "text", "cause"), TEXTS)
def test_other_words(problem: str, text: str, cause: str) -> None:
    stages, rows = first(problem, text)
    assert cause in stages | rows, (stages, rows)


def test_right_outputs_exclude_stages() -> None:
    assert first(DENSE, "dV wrong, dQ fine, dK fine")[0] == {"dV", "D"}
    assert "S" not in first(DENSE, "dV right, dQ and dK wrong")[0]
    kind = problem_type("gemm")
    assert not [item for item in ranked(kind, read_symptoms("product wrong, D right", kind)) if item.stages]


def test_the_table_names_what_exists() -> None:
    kinds, conditions = {*WORDS["kinds"], *WORDS["states"]}, {*WORDS["conditions"]}
    for cause in CAUSES:
        assert {*cause.rows} <= {*ROWS}, cause
        assert {kind for need in cause.needs for kind in need.split("|")} <= kinds, cause
        assert {*cause.hints} <= conditions | kinds, cause


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main, ["diagnose", *words, *([] if "--problem" in words else ["--problem", SPARSE])]
    )
    return done.exit_code, done.output


def test_unknown_words_are_named_and_change_nothing() -> None:
    plain, more = (
        run("dq wrong, dkv right", "--json"),
        run("dq wrong, dkv right, gizmo frobnicates", "--json"),
    )
    assert plain[0] == more[0] == 0
    found = json.loads(more[1])
    assert found["not understood"] == ["gizmo", "frobnicates"]
    assert found["causes"] == json.loads(plain[1])["causes"]
    assert "not understood: gizmo" in run("dq wrong gizmo")[1]
    assert "dKV (neither right nor wrong)" in run("dq wrong", ",", "dkv purple")[1]


def test_exit_codes() -> None:
    assert CliRunner().invoke(main, ["diagnose", "dq wrong"]).exit_code == 2
    code, said = run("everything is purple")
    assert code == 2 and "no symptom is understood" in said
    assert run("dq wrong", "--problem", "nonsense")[0] == 2
    code, said = run("dS right, P right")
    assert code == 1 and "no cause fits" in said
