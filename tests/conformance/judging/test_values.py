"""Wrong values: the pattern and the cause of a planted mistake in a matrix product; references that fail."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.diagnose.arrays import imprecise
from tileproof.conformance.judging.expected import Expected
from tileproof.conformance.judging.judging import JudgeOptions, judge
from tileproof.conformance.judging.reference import default_bound, described, load
from tileproof.conformance.judging.values import pattern
from tileproof.kernels.launch.contents import FileBytes, IntegerDraw
from tileproof.kernels.launch.model import LaunchBuffer
from tileproof.spec.machine.errors import TileproofError

from tests.kit.judging import check, function, judged, product
from tests.kit.launch_files import SIZE, argument, scale
from tests.kit.sampled import sampled


def matmul(a: Any, b: Any) -> Any:
    return a @ b.T


STORE = "d[row * 64 + first + c]"
LOAD_B = "tb[i / 16][i % 16] = b[i / 16 * 64 + k + i % 16];"
EVERYWHERE = "all other inputs 1: wrong in the whole array; by their values these"


MISTAKES = [
    ("k < 64", "k < 48", "as if 48..63 of axis 1 of a were skipped", ""),
    (
        "j < 16",
        "j < 16 - (k == 48)",
        "as if index 63 (the last) of axis 1 of a were skipped: off",
        "",
    ),
    ("int j = 0;", "int j = k == 0;", "as if index 0 of axis 1 of a were skipped: off", ""),
    (
        "sum[c] += ta[row][j]",
        "sum[c] += (1 + (k + j == 0)) * ta[row][j]",
        "as if index 0 of axis 1 of a were taken twice: off",
        "",
    ),
    (
        LOAD_B,
        LOAD_B.replace("+ k", "+ (k == 32 ? 16 : k)"),
        "as if b held its part 16..31 of axis 1 instead of 32..47 (stale)",
        "b holding positions along axis 1",
    ),
    (
        LOAD_B,
        LOAD_B.replace("b[i / 16 *", "b[(i / 16 ^ 8) *"),
        "the columns of the array are permuted: index i holds i XOR 8",
        f"b holding positions along axis 0, {EVERYWHERE} columns are permuted: index i holds i XOR 8",
    ),
    (
        STORE,
        STORE.replace("row *", "(row ^ 4) *"),
        "the rows of the array are permuted: index i holds i XOR 4",
        f"a holding positions along axis 0, {EVERYWHERE} rows are permuted: index i holds i XOR 4",
    ),
    (STORE, "d[(first + c) * 64 + row]", "the array is transposed", ""),
    ("sum[c];", "sum[c] * (blockIdx.x == 2 ? 2 : 1);", "expected one times 2 (added twice)", ""),
    ("float sum[4] = {}", "float sum[4] = {d[0], d[1], d[2], d[3]}", "", ""),
]


@pytest.mark.parametrize("mistake", sampled(MISTAKES, 2))
def test_the_cause_of_a_planted_mistake(tmp_path: Path, mistake: tuple[str, str, str, str]) -> None:
    old, new, cause, probe = mistake
    made = judged(product(tmp_path, (old, new)), matmul, 3)
    assert made.verdict == "defect"
    (found,) = [finding for finding in made.findings if finding.check == "values"]
    assert cause in found.cause
    assert not probe or any(probe in line and "wrong" in line for line in found.evidence), found.evidence
    assert found.wrong and found.elements == 64 * 64


def test_a_right_product_is_clean_and_its_pattern_names_tiles(tmp_path: Path) -> None:
    made = judged(product(tmp_path), matmul, 3)
    assert made.verdict == "clean"
    (score,) = check(made, "values").details["outputs"]
    assert (score["wrong"], score["stated"]) == (0, False) and 0 < score["worst"] < 1
    wrong = np.zeros((128, 192), bool)
    wrong[64:80, 128:] = True
    assert pattern(wrong) == "rows 64..79, columns 128..191; in 1 of 6 tiles of 64 x 64: (1, 2)"


def test_values_from_before_the_launch() -> None:
    x, _ = scale().buffers
    out = LaunchBuffer.of("out", np.arange(SIZE, dtype=np.float32) + 7, "inout")
    expected = (
        ("st.global.f32 [%rd2], %f1;", "", "nothing was stored there"),
        ("st.global.f32 [%rd2], %f1;", "red.global.add.f32 [%rd2], %f1;", "it was not cleared"),
    )
    for old, new, cause in expected:
        made = judged(scale((old, new), buffers=(x, out)))
        assert cause in next(finding.cause for finding in made.findings if finding.code == "value")


# ---- references


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, factor: 1 / 0, "ZeroDivisionError"),
        (lambda x, factor: x, r"expected:\s+shape \[100\]"),
        (lambda x, factor: {"other": x}, "names of outputs"),
        (lambda x, factor: (x, x), "2 value"),
        (lambda x, other: x, "its parameter other"),
        (lambda x: "no numbers", "an array of real numbers"),
        (lambda x: np.ones(x.shape) + 5j, "an array of real numbers"),
        (lambda x: Expected(x[:100], bound=-1), "numbers from 0"),
        (lambda x: Expected(x[:100], bound=np.ones(3)), "bound of out"),
    ],
)
def test_a_reference_that_fails_is_named(call: Any, words: str) -> None:
    made = judged(scale(), call)
    assert (made.verdict, made.exit_code) == ("error", 2)
    assert re.search(words, check(made, "values").fault), check(made, "values").fault
    assert check(made, "values").details["errors"][0]["where"]


def test_a_reference_that_names_no_output_is_named() -> None:
    values = check(judged(scale(), lambda x, factor: {}), "values")
    assert (values.outcome, values.reason) == ("not run", "the reference returns nothing for out")


def test_a_reference_that_is_no_number_is_no_rounding() -> None:
    wrong = np.ones((2, 2), bool)
    nan = np.full((2, 2), np.nan)
    assert imprecise(np.ones((2, 2)), nan, np.full((2, 2), 1e-3), wrong) == ""
    several = np.full((5, 5), 1.002), np.ones((5, 5)), np.full((5, 5), 1e-3), np.ones((5, 5), bool)
    assert "rounded up, not to nearest" in imprecise(*several)
    # Of a few elements the same side is chance.
    few = imprecise(np.full((2, 2), 1.002), np.ones((2, 2)), np.full((2, 2), 1e-3), wrong)
    assert "a less precise operation" in few and "rounded up" not in few


def test_one_hundred_per_cent_are_all() -> None:
    wrong = np.ones((40, 40), bool)
    wrong[:, 32:] = wrong[3, 4] = False
    assert pattern(wrong) == "columns 0..31, all rows (99% of the elements there)"


def test_a_reference_that_ends_its_process_is_named() -> None:
    made = judged(scale(), lambda x: os._exit(3))
    assert made.verdict == "error" and "ended with code 3" in check(made, "values").fault


def test_bounds_are_those_of_the_reference() -> None:
    off = ("mul.f32 %f1, %f1, %f2;", "fma.rn.f32 %f1, %f1, %f2, 0f3DCCCCCD;")  # 0.1 more
    for bound, word in (({"atol": 0.2}, "clean"), ({"atol": 0.05}, "defect"), ({"bound": 0.2}, "clean")):
        made = judged(scale(off), lambda x, factor, bound=bound: Expected(factor * x[:100], **bound), 3)
        assert made.verdict == word and check(made, "values").details["outputs"][0]["stated"]
    per_element = np.where(np.arange(SIZE) < 50, 0.2, 0.01)
    made = judged(scale(off), lambda x, factor: Expected(factor * x[:100], bound=per_element), 3)
    assert made.findings[0].wrong == 50 and made.findings[0].pattern.startswith("elements 50..99")
    made = judged(scale(off), lambda x, factor: Expected(factor * x[:100], rtol=0.02), 3)
    assert 0 < made.findings[0].wrong < 10


def test_the_default_bound() -> None:
    value = np.array([1.0, -256.0, np.inf, np.nan])
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        eps = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
        bound = default_bound(value, np.dtype(dtype))
        assert bound[0] == eps + 256 * 2.0**-14 and bound[1] == 256 * eps + 256 * 2.0**-14
    assert (default_bound(value, np.dtype(np.int32)) == 0).all()


def test_an_output_of_which_the_reference_says_nothing_is_reported() -> None:
    x, out = scale().buffers
    more = LaunchBuffer("more", "float32", (4,), "inout", IntegerDraw())
    made = judged(scale(buffers=(x, out, more)), lambda x, factor: {"out": factor * x[:100]})
    assert made.verdict == "incomplete" and "returns nothing for more" in check(made, "values").reason


def test_what_a_reference_file_defines(tmp_path: Path) -> None:
    path = tmp_path / "ref.py"
    path.write_text("def reference(x):\n    return x\ndef other(x):\n    return -x\nn = 3\n")
    for name, value in (("", 1), (":other", -1)):
        (returned,) = load(f"{path}{name}").call(x=1)
        assert returned.value == value
    for name, words in (("no", "no such function"), ("n", "no such function")):
        with pytest.raises(TileproofError, match=words):
            load(f"{path}:{name}")
    with pytest.raises(TileproofError, match="there is no such file"):
        load(str(tmp_path / "none.py"))


def test_a_reference_says_what_recorded_bytes_are(tmp_path: Path) -> None:
    launch = scale()
    values = np.arange(128, dtype=np.float32)
    np.save(tmp_path / "0.npy", values.view(np.uint8))
    raw = (
        LaunchBuffer("allocation 0", "uint8", (512,), "scratch", FileBytes("0.npy")),
        LaunchBuffer("allocation 1", "uint8", (400,), "scratch"),
    )
    p, map_ = argument(launch, 0), argument(launch, 1)
    items = (replace(p.items[0], item=replace(p.items[0].item, buffer="allocation 1")), *p.items[1:])
    arguments = (replace(p, items=items), replace(map_, buffer="allocation 0", dtype="float32"))
    step = replace(launch.launches[0], arguments=arguments)
    launch = replace(launch, buffers=raw, steps=(step,), folder=tmp_path)
    told = {
        "allocation 0": {"name": "x", "dtype": "float32", "shape": [128], "role": "input"},
        "allocation 1": {"name": "out", "dtype": "float32", "shape": [100], "role": "output"},
    }
    reference = replace(function(lambda x, factor: {"out": factor * x[:100]}), buffers=told)
    made = described(launch, reference)
    assert [buffer.name for buffer in made.buffers] == ["x", "out"]
    assert judge(launch, reference, JudgeOptions(schedules=3)).verdict == "clean"
    for wrong, words in (
        ({"allocation 2": {}}, "names of buffers"),
        ({"allocation 0": {"shape": [9]}}, "512 bytes"),
        ({"allocation 0": {"kind": "float32"}}, "name, dtype"),
    ):
        with pytest.raises(TileproofError, match=words):
            described(launch, replace(reference, buffers=wrong))
