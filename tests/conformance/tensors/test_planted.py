"""Mistakes planted in dumps: the stage and the cause, from all stages and from the outputs alone."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.problems import problem_type

from tests.kit.dumps import BF16, dump, inputs, outputs_only
from tests.kit.sampled import sampled

PROBLEM = problem_type("sparse_mla_bwd")
LN_2 = np.log(2.0)


def judged(tensors: dict[str, Any], **options: Any) -> VerdictRecord:
    """The verdict on a dump."""
    return judge_tensors(PROBLEM, named(PROBLEM, tensors), "dump", **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_right_dumps_are_clean(seed: int, dtype: Any) -> None:
    right = dump(inputs(seed=seed), dkv_dtype=dtype)
    for tensors in (right, outputs_only(right)):
        made = judged(tensors)
        assert (made.verdict, made.exit_code, made.why) == ("clean", 0, ())


def bf16(value: Any) -> Any:
    return value.astype(BF16).astype(float)


# The stage that is wrong, the mistake, and words of the cause from outputs alone.
MISTAKES: dict[str, tuple[str, Any, str]] = {
    "delta left out": ("delta", lambda v, t: 0 * v, "in dS delta is not subtracted"),
    "delta negated": ("delta", lambda v, t: -v, "in dS delta is added"),
    "delta doubled": ("delta", lambda v, t: 2 * v, "in delta every value is the right value times 2"),
    "P negated": ("P", lambda v, t: -v, "in P every value is the right value times -1"),
    "P doubled": ("P", lambda v, t: 2 * v, "in P every value is the right value times 2"),
    "lse not subtracted": ("S", lambda v, t: v * np.exp2(t["lse"])[:, None], "in S lse is not subtracted"),
    "lse of other heads": (
        "S",
        lambda v, t: v * np.exp2(t["lse"] - np.roll(t["lse"], 1))[:, None],
        "in S lse",
    ),
    "S halved": ("S", lambda v, t: v / 2, "in S every value is the right value times 1/2"),
    "dP negated": ("dP", lambda v, t: -v, "in dP every value is the right value times -1"),
    "dP lost": ("dP", lambda v, t: 0 * v, "in dS dP is taken as 0"),
    "dS without delta": ("dS", lambda v, t: v + t["S"] * t["delta"][:, None] * 192**-0.5, "delta is not"),
    "dS without scale": ("dS", lambda v, t: v * 192**0.5, "in dS sm_scale is missing"),
    "dS scaled twice": ("dS", lambda v, t: v * 192**-0.5, "in dS sm_scale is applied twice"),
    "dS by d_qk": ("dS", lambda v, t: v * (192 / 576) ** 0.5, "in dS the scale is 1 / sqrt(d_qk)"),
}
# Below the bounds of the outputs: only the stages show them.
INVISIBLE: dict[str, tuple[str, Any]] = {
    "delta in bf16": ("delta", lambda v, t: bf16(v)),
    "no mask": ("S", lambda v, t: np.where(t["mask"], v, np.exp2(-t["lse"])[:, None])),
    "dS of the bf16 copy of S": ("dS", lambda v, t: v / np.where(t["S"] == 0, 1, t["S"]) * bf16(t["S"])),
}


@pytest.mark.parametrize("name", [*MISTAKES, *INVISIBLE])
def test_planted_mistakes_are_found_at_their_stage(name: str) -> None:
    stage, mistake = (MISTAKES.get(name) or INVISIBLE[name])[:2]
    made = judged(dump(inputs(), {stage: mistake}))
    assert made.verdict == "defect"
    assert made.findings[0].problem.stage == stage, [finding.problem.stage for finding in made.findings]
    # Later stages are right on what the kernel had.
    assert {finding.problem.stage for finding in made.findings if finding.check == "stages"} == {stage}


@pytest.mark.parametrize("name", sampled([*MISTAKES], 3))
def test_planted_mistakes_are_named_from_outputs_alone(name: str) -> None:
    stage, mistake, cause = MISTAKES[name]
    made = judged(outputs_only(dump(inputs(s_q=1, lengths=False), {stage: mistake})))
    assert made.verdict == "defect"
    assert {finding.problem.stage for finding in made.findings} <= {"dQ", "dKV"}
    first = made.findings[0]
    assert cause in first.cause, (first.cause, first.evidence)
    assert "to confirm it, dump" in " ".join(first.evidence)


@pytest.mark.parametrize(
    ("output", "mistake", "words"),
    [
        ("dq", lambda v, t: np.where(np.arange(len(v))[:, None] < 4, v, 0), "dQ differs"),
        ("dq", lambda v, t: np.roll(v, 64, 1), "dQ differs"),
        ("dq", lambda v, t: v * np.nan, "dQ differs"),
        ("dkv", lambda v, t: 2 * v, "added twice"),
        ("dkv", lambda v, t: -v, "sign"),
        ("dkv", lambda v, t: 0 * v, "nothing was added"),
        ("dkv", lambda v, t: np.where(np.arange(v.shape[1]) < 512, v, 0), "rows of dkv"),
    ],
)
def test_wrong_outputs_are_found(output: str, mistake: Any, words: str) -> None:
    made = judged(dump(inputs(), {output: mistake}))
    assert made.verdict == "defect"
    assert any(words in f"{finding.message} {finding.cause}" for finding in made.findings), made.findings


def test_a_row_that_no_key_selects_must_be_zero() -> None:
    right = dump(inputs(s_kv=2000))
    right["dkv"][1234] += right["dkv"][1234] == 0
    made = judged(right)
    assert made.findings[0].code == "surplus" or made.findings[-1].code == "surplus"


def test_a_sample_of_tokens_says_what_was_not_judged() -> None:
    right = dump(inputs(s_q=5, s_kv=5000))
    made = judged(right, groups=2, seed=3)
    assert made.verdict == "clean" and made.sections["tensors"]["groups"] == [0, 4]
    reasons = [finding.reason for finding in made.checks if finding.name == "not judged"]
    assert "3 of 5 tokens" in reasons
    assert any("rows of dkv" in finding for finding in reasons)
    wrong = dict(right, dq=right["dq"] * np.array([1, 1, 2, 1, 1])[:, None, None].astype(BF16))
    assert judged(wrong, groups=2).verdict == "clean"
    found = judged(wrong)
    assert found.verdict == "defect" and found.findings[0].problem.group == 2
