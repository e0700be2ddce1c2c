"""Dumps of dense attention and of matrix products: layouts, conventions, packed sequences, parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.tensors import rounded
from tileproof.conformance.cli.tensors import tensors as command
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

from tests.kit.dense_dumps import dense_dump, product_dump
from tests.kit.sampled import sampled

HEADS = ("q", "k", "v", "o", "dO", "dq", "dk", "dv")
OUTPUTS = ("dq", "dk", "dv")
CAUSAL = {"causal": 1.0}
SIZES: dict[str, Any] = {
    "m": 50,
    "n": 50,
    "h_kv": 2,
    "heads": 2,
    "d_qk": 24,
    "d_v": 16,
    "right": 0,
    "seed": 5,
}
RIGHT = dense_dump(DenseCase(**SIZES))
PACKED_CASE = DenseCase(**{**SIZES, "packed": ((30, 40), (0, 20), (25, 33)), "align": "bottom right"})
PACKED = {
    name: tensor[0] if name in HEADS or name == "lse" else tensor
    for name, tensor in dense_dump(PACKED_CASE, every_stage=False).items()
}


def judged(tensors: dict[str, Any], problem: str = "dense_attention_bwd", **options: Any) -> VerdictRecord:
    options.setdefault("scalars", CAUSAL if problem.startswith("dense") else {})
    kind = problem_type(problem)
    return judge_tensors(kind, named(kind, tensors, **options), "dump")


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"form": "f16"},
        {"form": "f32", "heads": 1},
        {"b": 2, "left": 9, "right": 3},
        {"bias": True},
        {"m": 33, "n": 70, "align": "bottom right"},
    ],
)
def test_right_dumps_are_clean(case: dict[str, Any]) -> None:
    made = {**SIZES, **case}
    scalars = {"causal": float(made["right"] == 0), "bottom_right": float("align" in made)}
    scalars |= {"window_left": 9.0, "window_right": 3.0} if "left" in made else {}
    form = made.get("form", "bf16")
    problem = "dense_attention_bwd" + ("" if form == "bf16" else f"_{form}")
    verdict = judged(dense_dump(DenseCase(**made)), problem, scalars=scalars)
    assert verdict.verdict == "clean", verdict.why
    stages = [item["name"] for item in verdict.checks[0].details["outputs"]]
    assert "dV, from your S" in stages and "dQ from end to end" in stages


@pytest.mark.parametrize(
    ("layout", "order"), [("BSHD", (0, 1, 2, 3)), ("BHSD", (0, 2, 1, 3)), ("SBHD", (1, 0, 2, 3))]
)
def test_layouts(layout: str, order: tuple[int, ...]) -> None:
    moved = {name: tensor.transpose(order) if name in HEADS else tensor for name, tensor in RIGHT.items()}
    assert judged(moved, layout=layout).verdict == "clean"
    if layout != "BSHD":
        with pytest.raises(TileproofError, match="another shape"):
            judged(moved)


def test_conventions_of_other_projects() -> None:
    flash = {"o": "out", "dO": "dout", "lse": "softmax_lse", "sm_scale": "softmax_scale"}
    names = {flash.get(name, name): tensor for name, tensor in RIGHT.items()}
    assert judged(names, convention="flash-attention").verdict == "clean"
    torch = {"q": "query", "k": "key", "v": "value", "o": "out", "dO": "grad_out", "lse": "logsumexp"}
    torch |= {"dq": "grad_query", "dk": "grad_key", "dv": "grad_value", "sm_scale": "scale"}
    bare = {name: tensor for name, tensor in RIGHT.items() if name in torch or name in OUTPUTS}
    moved = {torch[name]: t.swapaxes(1, 2) if name in HEADS else t for name, t in bare.items()}
    moved["is_causal"] = np.array(True)
    assert judged(moved, convention="torch", scalars={}).verdict == "clean"


def test_packed_sequences() -> None:
    scalars = {"causal": 1.0, "bottom_right": 1.0}
    made = judged(PACKED, layout="THD", scalars=scalars)
    assert made.verdict == "clean", made.why
    # The other alignment has another lse.
    with pytest.raises(TileproofError, match="lse is not that of"):
        judged(PACKED, layout="THD", scalars=scalars | {"bottom_right": 0.0})
    # One long sequence is another problem.
    whole = {name: tensor for name, tensor in PACKED.items() if not name.startswith("cu_")}
    with pytest.raises(TileproofError, match="lse is not that of"):
        judged(whole, layout="THD", scalars=scalars)
    wrong = PACKED | {"dk": np.concatenate([PACKED["dk"][:60], PACKED["dk"][60:] * 0])}
    first = judged(wrong, layout="THD", scalars=scalars).findings[0]
    assert (first.problem.stage, first.problem.group) == ("dK", 4)  # the first head of the third sequence


MISTAKES: dict[str, tuple[str, Any, str]] = {
    "delta left out": ("delta", lambda v: 0 * v, "delta"),
    "delta negated": ("delta", lambda v: -v, "delta is added"),
    "S doubled": ("S", lambda v: 2 * v, "S every value is the right value times 2"),
    "dP negated": ("dP", lambda v: -v, "every value is the right value times -1"),
    "dS without scale": ("dS", lambda v: v * 24**0.5, "sm_scale is missing"),
}


@pytest.mark.parametrize("name", sampled([*MISTAKES], 3))
def test_planted_mistakes_are_found(name: str) -> None:
    stage, mistake, words = MISTAKES[name]
    wrong = dense_dump(DenseCase(**SIZES), {stage: mistake})
    made = judged(wrong)
    assert made.findings[0].problem.stage == stage
    assert {item.problem.stage for item in made.findings if item.check == "stages"} == {stage}
    alone = judged({key: value for key, value in wrong.items() if key not in ("delta", "P", "S", "dP", "dS")})
    said = " ".join(f"{item.cause} {item.evidence}" for item in alone.findings)
    assert alone.verdict == "defect" and words in said, said


def test_parts_of_dense_stages() -> None:
    bare = {
        key: value for key, value in RIGHT.items() if key not in ("delta", "P", "S", "dP", "dS", *OUTPUTS)
    }
    for name, at in {
        "P[0, 1:3, 5:9]": np.s_[0, 1:3, 5:9],
        "S[0, 3, :, 0:20]": np.s_[0, 3, :, 0:20],
        "dS[0, 0:4, 40:50, 41:50]": np.s_[0, 0:4, 40:50, 41:50],
    }.items():
        value = RIGHT[name.split("[")[0]][at]
        verdict = judged(bare | {name: value})
        assert verdict.verdict == "clean", (name, verdict.why)
        compared = sum(item["elements"] for item in verdict.checks[0].details["outputs"])
        assert compared == value.size
        wrong = value.copy()
        wrong.reshape(-1)[-1] += 1
        assert judged(bare | {name: wrong}).findings[0].wrong == 1
    part = RIGHT["dq"][0, 10:20, 2].astype(np.float32)
    assert judged(bare | {"dq[0, 2, 10:20]": part}).verdict == "clean"


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"layout": "BHDS"}, "did you mean SBHD or BSHD or BHSD"),
        ({}, {"scalars": {}}, "causal is unknown"),
        ({}, {"scalars": {"causal": 1.0, "dropout": 0.1}}, "no such number"),
        ({"k": RIGHT["k"][:, :40], "v": RIGHT["v"][:, :40]}, {}, "another shape"),
        ({"cu_seqlens_q": np.array([0, 50], np.int32)}, {}, "both cu_seqlens_q and cu_seqlens_k"),
        ({"q": RIGHT["q"].astype(np.float16)}, {}, "bfloat16 or float32"),
        ({"lse": (RIGHT["lse"] / np.log(2)).astype(np.float32)}, {}, "--lse-base 2"),
    ],
)
def test_bad_dense_dumps(change: dict[str, Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(TileproofError) as error:
        judged(RIGHT | change, **options)
    assert words in str(error.value)


def test_alignment_and_ends_are_not_guessed() -> None:
    with pytest.raises(TileproofError, match="alignment of the mask is not known"):
        judged(PACKED, layout="THD")
    ends = PACKED | {"cu_seqlens_q": np.array([0, 30, 30, 56], np.int32)}
    with pytest.raises(TileproofError, match="does not divide the sequences"):
        judged(ends, layout="THD")


@pytest.mark.parametrize("biased", [False, True])
def test_products(biased: bool) -> None:
    problem = "gemm_bias" if biased else "gemm"
    right = product_dump(M=150, biased=biased)
    assert judged(right, problem).verdict == "clean"
    turned = right | {"B": right["B"].T}
    assert judged(turned, problem, layout="NN").verdict == "clean"
    wrong = right["product"].copy()
    wrong[140, 7] += 1
    first = judged(right | {"product": wrong}, problem).findings[0]
    assert (first.problem.stage, first.problem.row, first.problem.column) == ("product", 140, 7)
    alone = {name: tensor for name, tensor in right.items() if name != "product"}
    assert judged(alone, problem).verdict == "clean"
    plain = judged(alone | {"D": (right["D"] / 1.5).astype(right["D"].dtype)}, problem)
    assert plain.verdict == "defect"
    assert judged(alone | {"alpha": np.float64(2.0)}, problem).verdict == "defect"
    part = {key: tensor for key, tensor in alone.items() if key != "D"} | {
        "D[140:150, 3]": right["D"][140:, 3]
    }
    assert judged(part, problem).verdict == "clean"


def test_products_that_contradict_themselves() -> None:
    right = product_dump()
    with pytest.raises(TileproofError, match="C is missing"):
        judged({name: tensor for name, tensor in right.items() if name != "C"}, "gemm")
    with pytest.raises(TileproofError, match="the same dtype"):
        judged(right | {"B": right["B"].astype(np.float32).astype(RIGHT["q"].dtype)}, "gemm")
    with pytest.raises(TileproofError, match="alpha is unknown"):
        judged({name: tensor for name, tensor in right.items() if name != "alpha"}, "gemm")


def test_a_rounding_plan_by_name(tmp_path: Any) -> None:
    """The verdict names the problem as the plan rounds it; a plan of another problem is refused."""
    arrays: dict[str, Any] = {name: RIGHT[name] for name in (*HEADS, "lse", "sm_scale")}
    np.savez(tmp_path / "dump.npz", **arrays)
    base = [str(tmp_path / "dump.npz"), "--problem", "dense_attention_bwd", "--set", "causal=1"]

    def stages(*more: str) -> str:
        return CliRunner().invoke(command, [*base, *more, "--json", "-"], standalone_mode=False).output

    assert '"verdict": "clean"' in stages() and "torch_cpu" not in stages()
    assert "dense_attention_bwd_torch_cpu" in stages("--rounding", "torch-cpu-flash")
    refused = CliRunner().invoke(command, [*base, "--rounding", "head64"], standalone_mode=False)
    assert "the kernel computes a different problem" in str(refused.exception)


@pytest.mark.parametrize("form", ["bf16", "f16"])
def test_the_rounding_of_a_card_kernel_needs_no_card(form: str) -> None:
    tail = "" if form == "bf16" else f"_{form}"
    found = rounded(problem_type(f"dense_attention_bwd{tail}"), f"torch-flash{tail.replace('_', '-')}")
    assert found.name == f"dense_attention_bwd_torch_flash{tail}"
    with pytest.raises(TileproofError, match="a different problem"):
        rounded(problem_type("dense_attention_bwd_f32"), "torch-flash")
