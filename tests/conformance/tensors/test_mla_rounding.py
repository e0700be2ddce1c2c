"""Dumps of sparse MLA kernels that round elsewhere, judged by a plan in words, and by another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.tensors import tensors as command
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import BF16, F16
from tileproof.spec.arithmetic.forms import round_in
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD, SparseMlaBwd
from tileproof.spec.problems.sparse_mla_bwd.tensors import DTYPES
from tileproof.spec.problems.sparse_mla_bwd.vectors import _first_heads

CASE = SparseCase(512, 90, 2, (Indices("permuted"), Indices("runs")), values="normal", seed=3, h_q=64)
_POWER = np.polynomial.Chebyshev.interpolate(np.exp2, 3, (0, 1)).convert(kind=np.polynomial.Polynomial)
CUBIC = "exp2=" + ":".join(repr(float(np.float32(c))) for c in _POWER.coef)
TENSORS = {"delta": "delta", "P": "P", "S": "S", "dP": "dP", "dS": "dS", "dQ": "dq"}
PLANS = (
    "operand=f16",
    "operand=f16,rows=f16",
    "operand=f16,gradient=bf16,late",
    "rows=bf16",
    "late,rows=bf16",
    "softmax=f16",
    "gradient=f16",
    f"{CUBIC},exp2-range=0:1",
)


def kind(plan: str) -> SparseMlaBwd:
    return SPARSE_MLA_BWD.rounded_as(plan) if plan else SPARSE_MLA_BWD


@pytest.mark.parametrize("plan", ["", "forward", *PLANS])
def test_a_plan_has_words_from_which_it_is_made_again(plan: str) -> None:
    assert kind(kind(plan).rounding_text) == kind(plan)


def dump(plan: str, growth: float = 1.0) -> dict[str, Any]:
    """What a kernel that rounds as `plan` says holds; dO is `growth` times as large."""
    problem = kind(plan)
    inputs, dtype = _first_heads(CASE.inputs()), DTYPES[problem.rounding.operand]
    arrays = {name: getattr(inputs, name).astype(np.float32).astype(dtype) for name in ("q", "kv", "o", "dO")}
    arrays["dO"] = (arrays["dO"].astype(np.float32) * growth).astype(dtype)
    made = replace(inputs, **arrays)
    walked = Evaluation(problem, made, Tiling(64, 1), Rounded())
    found: dict[str, Any] = {
        **arrays,
        "lse": inputs.lse,
        "indices": inputs.indices,
        "sm_scale": CASE.inputs().problem.sm_scale,
    }
    own = problem.rounding
    narrow = {"S": own.softmax, "dS": own.gradient, "dQ": None}
    for name, tensor in TENSORS.items():
        wholes = [walked.whole(name, token) for token in range(2)]
        values = np.stack([kept.value if kept.copy is None else kept.copy for kept in wholes])
        found[tensor] = values.astype(DTYPES[narrow[name] or own.operand] if name in narrow else np.float32)
    found["dkv"] = walked.scatter("dKV", np.zeros((90, 512))).astype(np.float32)
    if problem.rounding.rows is not None:
        found["dkv"] = found["dkv"].astype(DTYPES[problem.rounding.rows])
    return {name: np.asarray(value) for name, value in found.items()}


def wrong(plan: str, tensors: dict[str, Any]) -> set[str]:
    """The stages with findings when a dump is judged by a plan."""
    problem = kind(plan)
    record = judge_tensors(problem, named(problem, tensors, lse_base="2"), "dump")
    return {finding.problem.stage for finding in record.findings}


@pytest.mark.parametrize("plan", PLANS)
def test_a_dump_keeps_its_own_plan(plan: str) -> None:
    assert wrong(plan, dump(plan)) == set()


@pytest.mark.parametrize(
    ("made", "by", "stages"),
    [
        ("", "late", {"dS"}),
        ("late", "", {"dS"}),
        (CUBIC, "", {"S"}),
        ("", "rows=bf16", {"dKV"}),
    ],
)
def test_a_dump_does_not_keep_another_plan(made: str, by: str, stages: set[str]) -> None:
    tensors = dump(made)
    tensors = {name: value for name, value in tensors.items() if name not in ("dq",)}
    assert stages <= wrong(by, tensors)


def test_the_cause_of_a_scale_that_the_plan_applies_at_the_end() -> None:
    problem, tensors = kind("late"), dump("")
    record = judge_tensors(problem, named(problem, tensors, lse_base="2"), "dump")
    (found,) = (finding for finding in record.findings if finding.problem.stage == "dS")
    assert found.cause == "sm_scale is applied here, not at the end"


@pytest.mark.parametrize(
    ("made", "by"),
    [
        ("operand=f16", ""),
        ("", "operand=f16"),
        ("softmax=f16", ""),
        ("", "gradient=f16"),
        ("rows=f16", "rows=bf16"),
    ],
)
def test_a_tensor_in_another_form_than_the_plans_is_refused(made: str, by: str) -> None:
    with pytest.raises(TileproofError, match="an unsupported dtype"):
        wrong(by, dump(made))


def test_a_kernel_whose_difference_overflows_f16_is_found() -> None:
    """S (dP - delta) is beyond f16, S (dP - delta) sm_scale is not."""
    right = dump("operand=f16", 2.0**9)
    assert wrong("operand=f16", right) == set()
    S, dP, delta, scale = (right[name].astype(np.float64) for name in ("S", "dP", "delta", "sm_scale"))
    with np.errstate(over="ignore"):
        early = (S * (dP - delta[:, :, None]) * 2.0**6).astype(np.float16).astype(np.float32) * 2.0**-6
        tensors = {**right, "dS": (early * scale).astype(np.float16)}
    assert np.isinf(tensors["dS"]).any() and np.isfinite(right["dS"]).all()
    assert "dS" in wrong("operand=f16", tensors)


def test_rows_that_are_rounded_twice_or_cut_are_found() -> None:
    tensors = dump("")
    sums = tensors["dkv"].astype(np.float64)
    bits = tensors["dkv"].view(np.uint32)
    twice = round_in(BF16, round_in(F16, sums)).astype(ml_dtypes.bfloat16)
    cut = (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(ml_dtypes.bfloat16)
    once = round_in(BF16, sums).astype(ml_dtypes.bfloat16)
    assert wrong("rows=bf16", {**tensors, "dkv": once}) == set()
    for rows in (twice, cut):
        assert wrong("rows=bf16", {**tensors, "dkv": rows}) == {"dKV"}


@pytest.mark.parametrize(
    "text",
    [
        "operand=f8",
        "late=1",
        "rows=f32",
        "late,late",
        "operand",
        "exp2=1:x",
        "exp2-range=0:1",
        "exp2=1,exp2-range=1",
        "word",
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(TileproofError) as error:
        kind(text)
    assert error.value.where == "--rounding"


def test_the_command_takes_a_plan_in_words(tmp_path: Path) -> None:
    def judged(tensors: dict[str, Any], plan: str) -> Any:
        np.savez(tmp_path / "dump.npz", **tensors)
        words = [str(tmp_path / "dump.npz"), "--problem", "sparse_mla_bwd", "--rounding", plan]
        return CliRunner().invoke(command, words, standalone_mode=False)

    plan = "operand=f16,rows=f16"
    tensors = dump(plan)
    assert judged(tensors, plan).return_value == 0
    tensors["dkv"] = np.nextafter(tensors["dkv"], np.float16(np.inf))
    assert judged(tensors, plan).return_value == 1
    assert isinstance(judged(tensors, "operand=f8").exception, TileproofError)
