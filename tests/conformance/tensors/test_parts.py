"""Parts of tensors: one token, some heads, one k-block, sums after each k-block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type

from tests.kit.dumps import dump, inputs, outputs_only, with_sums

PROBLEM = problem_type("sparse_mla_bwd")
INPUTS = inputs(s_q=3, lengths=False)
RIGHT = dump(INPUTS)
BARE = {name: value for name, value in outputs_only(RIGHT).items() if name not in ("dq", "dkv")}
PARTS = [
    "P[1]",
    "P[1, 3]",
    "P[:, 2:5]",
    "S[0, :, 64:100]",
    "dS[2, 4:6, 0:64]",
    "delta[1, 2:7]",
    "dq[2, 3:4, 9:70]",
]


def part(tensors: dict[str, Any], name: str) -> Any:
    """The elements that the name speaks of."""
    tensor, index = name.rstrip("]").split("[")
    return tensors[tensor][eval(f"np.s_[{index}]")]


def judged(tensors: dict[str, Any], **options: Any) -> VerdictRecord:
    return judge_tensors(PROBLEM, named(PROBLEM, tensors, **options), "dump")


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_judged_alone(name: str) -> None:
    given = BARE | {name: part(RIGHT, name)}
    made = judged(given)
    assert made.verdict == "clean", made.why
    checked = next(item for item in made.checks if item.name == "stages").details["outputs"]
    assert sum(item["elements"] for item in checked) == given[name].size
    wrong = given[name].copy()
    wrong.reshape(-1)[-1] = wrong.reshape(-1)[-1] * 2 + 1
    found = judged(BARE | {name: wrong})
    assert found.verdict == "defect"
    assert (found.findings[0].wrong, found.findings[0].elements <= wrong.size) == (1, True)


def test_the_place_of_a_wrong_element_counts_in_the_whole_tensor() -> None:
    block = RIGHT["P"][2, 4:8, 64:100].copy()
    block[1, 5] += 1
    at = judged(BARE | {"P[2, 4:8, 64:100]": block}).findings[0].problem
    assert (at.stage, at.group, at.k_block, at.row, at.column) == ("P", 2, 1, 5, 69)


def test_what_is_not_dumped_is_the_reference_s() -> None:
    """dS of a token from parts of S and dP, wrong where they are wrong: dS alone is right."""
    wrong = dump(INPUTS, {"dP": lambda v, t: np.where(np.arange(8)[:, None] == 5, -v, v)})
    names = ["S[1, 4:8]", "dP[1, 4:8]", "dS[1]"]
    made = judged(BARE | {name: part(wrong, name) for name in names})
    assert {finding.problem.stage for finding in made.findings} == {"dP"}
    assert made.findings[0].problem.row == 5 and made.findings[0].problem.group == 1
    scores = {item["name"] for item in made.checks[0].details["outputs"]}
    assert "dS, from your part of S and part of dP and the reference" in scores
    # Without dP's part it is dS that is wrong.
    (finding,) = judged(BARE | {name: part(wrong, name) for name in ("S[1, 4:8]", "dS[1]")}).findings
    assert (finding.problem.stage, finding.problem.row) == ("dS", 5)


def test_a_part_has_a_cause() -> None:
    wrong = dump(INPUTS, {"dS": lambda v, t: v + t["S"] * t["delta"][:, None] * 192**-0.5})
    (finding,) = judged(BARE | {name: part(wrong, name) for name in ("S[1]", "dP[1]", "dS[1, 2:6]")}).findings
    assert finding.cause == "delta is not subtracted"


def test_only_groups_with_parts_are_compared() -> None:
    made = judged(BARE | {"P[1, 3]": part(RIGHT, "P[1, 3]")})
    assert made.sections["tensors"]["groups"] == [1]
    assert "2 of 3 tokens" in [item.reason for item in made.checks]


def test_a_part_under_another_name() -> None:
    block = part(RIGHT, "P[1, 0:4]")
    assert judged(BARE | {"mine": block}, mapping={"P[1, 0:4]": "mine"}).verdict == "clean"
    with pytest.raises(TileproofError, match="the dump has no such tensor"):
        judged(BARE | {"P[1]": part(RIGHT, "P[1]")}, mapping={"P[1, 0:4]": "mine"})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("P[1]", RIGHT["P"][1].T, r"expected: \[8, 100\]"),
        ("P[3]", RIGHT["P"][1], "0 to 3 along s_q"),
        ("P[0, 4:4]", RIGHT["P"][0, :1], "0 to 8 along h_q"),
        ("P[0, 0:4, 64:128]", RIGHT["P"][0, :4, 64:], "0 to 100 along topk"),
        ("P[-1]", RIGHT["P"][0], "numbers or ranges"),
        ("P[0, ..., 1]", RIGHT["P"][0, :, 1], "numbers or ranges"),
        ("P[0, 0, 0, 0]", RIGHT["P"][0, 0, 0], "at most 3"),
        ("P[0]", RIGHT["P"][0].astype(np.float64), "float32"),
        ("q[0]", RIGHT["q"][0], "must be complete"),
        ("dkv[0:64]", RIGHT["dkv"][:64], "sums over tokens"),
        ("X[0]", RIGHT["P"][0], "not a tensor of the problem"),
    ],
)
def test_parts_that_are_none_are_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(TileproofError, match=words):
        named(PROBLEM, BARE | {name: value})


def test_overlapping_parts_are_refused() -> None:
    with pytest.raises(TileproofError, match="parts of a tensor overlap"):
        named(PROBLEM, BARE | {"P[1]": RIGHT["P"][1], "P[0:2, 3]": RIGHT["P"][:2, 3]})
    with pytest.raises(TileproofError, match="parts of a tensor overlap"):
        named(PROBLEM, RIGHT | {"P[1]": RIGHT["P"][1]})


def test_the_first_wrong_k_block_of_a_sum_is_named() -> None:
    whole = inputs(s_q=2, topk=256, lengths=False)
    right = dump(whole)
    sums = with_sums(whole, right)
    assert judged(outputs_only(right) | {"dq_sums": sums}).verdict == "clean"
    wrong = sums.copy()
    wrong[1, 2:] -= sums[1, 2] - sums[1, 1]
    for given in ({"dq_sums": wrong}, {"dq_sums[1, 1:4, 0:4]": wrong[1, 1:4, :4]}):
        made = judged(outputs_only(right) | {"dS": right["dS"]} | given)
        first = made.findings[0]
        assert (first.problem.stage, first.problem.k_block, first.problem.group) == ("dQ", 2, 1)
        assert "after k-block 2" in first.message
        assert "dQ is wrong from k-block 2 on" in first.cause
        assert "contribution of k-block 2 is missing" in first.cause
