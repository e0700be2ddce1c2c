"""Rows N1 to N9 of the corpus (N4 with the sinks): roundings, overflows, bases, repeatability, cost."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tileproof.spec.numerics import LOG2_E, bound_scatter
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask

from tests.kit.backward_cases import random_case
from tests.kit.backward_runs import ratios
from tests.kit.corpus import SCHEDULES, UNMASKED, Plant, changed, far_below_zero, in_ptx, run, source

S_LINE = "ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse))"
DS_LINE = "s[j] * (x[j] - delta) * params.sm_scale"


@pytest.mark.corpus("N1")
def test_N1_ds_is_rounded_to_bf16_once() -> None:
    inputs = random_case(40)
    assert run(inputs).clean
    made = "float(cutlass::bfloat16_t(s[j])) * float(cutlass::bfloat16_t((x[j] - delta) * params.sm_scale))"
    thrice = source("softmax.cuh", (DS_LINE, made))
    assert run(inputs, thrice).wrong == "dS"


@pytest.mark.corpus("N2")
@pytest.mark.parametrize("logits", [1.0, 10.0, 100.0])
def test_N2_delta_keeps_its_bits_under_large_logits(logits: float) -> None:
    case = random_case(41, topk=64)
    q = (case.q.astype(np.float32) * logits).astype(case.q.dtype)
    inputs = with_forward(case.problem, q=q, kv=case.kv, dO=case.dO, indices=case.indices)
    assert run(inputs).clean
    coarse = source(
        "../delta.cuh",
        ("delta = sum;", "delta = float(cutlass::bfloat16_t(sum));"),
    )
    assert run(inputs, coarse).wrong == "delta"  # fmt: skip


@pytest.mark.corpus("N3")
def test_N3_zero_filled_keys_are_no_mask() -> None:
    """Every score is about -1e4 in natural units; a zero-filled key would score 0."""
    inputs = far_below_zero(random_case(42, topk=64))
    assert inputs.lse.max() < -1e4 and not key_mask(inputs).all()
    for schedule in SCHEDULES:
        seen = run(inputs, schedule=schedule)
        assert seen.clean and np.isfinite(seen.outputs["dQ"].astype(np.float32)).all()
    seen = run(inputs, UNMASKED)
    assert seen.wrong == "S" and np.isnan(seen.outputs["dQ"].astype(np.float32)).any()


@pytest.mark.corpus("N5")
def test_N5_one_query_with_an_lse_far_below_zero() -> None:
    case = random_case(43, s_q=1, topk=64)
    two_factors = source(
        "softmax.cuh", (S_LINE, "ptx::exp2_approx(x[j] * params.sm_scale_log2e) * ptx::exp2_approx(-lse)")
    )
    for q, poisoned in ((48.0, False), (64.0, True)):
        inputs = far_below_zero(case, q=q, kv=-64.0 if poisoned else -40.0)
        assert inputs.lse.max() < -100 and run(inputs).clean
        seen = run(inputs, two_factors)
        assert np.isnan(seen.run.tiles["S", 0, 0, 0].astype(np.float32)).any() == poisoned
        assert seen.wrong == "S" or not poisoned


@pytest.mark.corpus("N6")
def test_N6_lse_is_in_base_2() -> None:
    inputs = random_case(44, topk=128)

    def mass(plant: Plant | None, given: Inputs) -> np.ndarray:  # type: ignore[type-arg]
        tiles = run(given, plant).run.tiles
        return np.concatenate([tiles["S", 0, 0, k].astype(np.float64) for k in range(2)], axis=1).sum(axis=1)

    # Each of up to 128 probabilities is rounded to bf16, relative 2^-8; lse is rounded to f32.
    assert (np.abs(mass(None, inputs) - 1) <= 2.0**-8 + 2.0**-16).all()
    assert run(inputs).clean
    natural = source("softmax.cuh", (S_LINE, S_LINE.replace("-lse", "-lse * 1.44269504f")))
    assert run(inputs, natural).wrong == "S"
    # A consumer that passes a natural lse agrees with every stage contract: only the mass shows it.
    base_e = changed(inputs, lse=(inputs.lse / np.float32(LOG2_E)).astype(np.float32))
    assert (np.abs(mass(None, base_e) - 1) > 0.5).all()


@pytest.mark.corpus("N7")
def test_N7_dq_is_the_same_bits_in_every_run_and_dkv_within_reordered_additions() -> None:
    inputs = random_case(45, s_q=4, s_kv=20)
    runs = [run(inputs, schedule=schedule) for schedule in SCHEDULES]
    assert all(seen.clean for seen in runs)
    for seen in runs[1:]:
        for name in ("delta", "dQ"):
            assert seen.outputs[name].tobytes() == runs[0].outputs[name].tobytes()

    magnitude, additions = np.zeros((20, 576)), np.zeros((20, 1))
    mask = key_mask(inputs)
    for (stage, token, _, k), tile in runs[0].run.tiles.items():
        if stage == "dKV":
            cols = slice(64 * k, 64 * k + 64)
            rows = inputs.indices[token, cols][mask[token, cols]]
            np.add.at(magnitude, rows, np.abs(tile[mask[token, cols]].astype(np.float64)))
            np.add.at(additions, rows, 1.0)
    gate = 2 * bound_scatter(magnitude, 0 * magnitude, additions)  # both runs may be off

    def jitter(plant: Plant | None) -> float:
        other = run(inputs, plant, schedule=SCHEDULES[1], taps=False).outputs["dKV"].astype(np.float64)
        return float((np.abs(other - runs[0].outputs["dKV"]) / gate).max())

    truncates = in_ptx(
        r"red\.global\.add\.f32 (\[%rd\d+\]), (%f\d+);",
        r"{ .reg .b32 word; .reg .f32 cut; mov.b32 word, \2; and.b32 word, word, 0xffff0000; "
        r"mov.b32 cut, word; red.global.add.f32 \1, cut; }",
    )
    assert jitter(None) <= 1 < jitter(truncates)
    assert run(inputs, truncates).wrong == "dKV rows"


@pytest.mark.corpus("N7")
def test_N7_a_dq_that_depends_on_the_schedule_is_seen() -> None:
    inputs = random_case(46)
    unordered = source("load.cuh", ("smem.kv_hi_free.wait_own((k & 1) ^ 1);", ""))
    outputs = {run(inputs, unordered, schedule=s, taps=False).outputs["dQ"].tobytes() for s in SCHEDULES}
    assert len(outputs) > 1
    assert len({run(inputs, schedule=s, taps=False).outputs["dQ"].tobytes() for s in SCHEDULES}) == 1


def pays(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether a change of (cost, error) is worth having: its cost grows by at most 1 %, or more accurate."""
    return after[0] <= 1.01 * before[0] or after[1] < before[1]


@pytest.mark.corpus("N8")
def test_N8_accuracy_and_cost_of_one_run_together() -> None:
    """The emulator has no clock: the instructions that a pass over 64 keys costs a cluster stand for it."""

    def cost_and_error(plant: Plant | None) -> tuple[float, float]:
        long, short = (random_case(47, s_q=1, topk=topk) for topk in (256, 64))
        seen = run(long, plant)
        instructions = [
            run(case, plant, taps=False).run.counters["warp_instructions"] for case in (long, short)
        ]
        return (instructions[0] - instructions[1]) / 3, ratios(seen.run)["S"]

    # A second exponential that corrects nothing: exp2(0).
    costlier = source("softmax.cuh", (S_LINE, f"{S_LINE} * ptx::exp2_approx(x[j] * 0.0f)"))
    ours, other = cost_and_error(None), cost_and_error(costlier)
    assert max(ours[1], other[1]) <= 1  # the stage contracts alone see nothing
    assert pays(ours, ours) and not pays(ours, other)
    assert other[0] - ours[0] >= 2 * 64 * 64 / 32  # an instruction a warp and 32 elements of S, in both CTAs


MASK = f"(keys >> j & 1) ? {S_LINE}"
MISTAKES = {
    "sum_OdO of half the row": (
        source("../delta.cuh", ("v < kVectors", "v < kVectors / 2"), times=2),
        "delta",
    ),
    "only half masked": (
        source("softmax.cuh", (MASK, MASK.replace("(keys", "(half != 0 || keys"))),
        "S",
    ),
    "scale fixed": (
        source("softmax.cuh", (S_LINE, S_LINE.replace("params.sm_scale_log2e", "0.060112f"))),
        "S",
    ),
    "layout of S and dS": (
        source("softmax.cuh", ("swizzled_chunk(head, half *", "kRowBytes * head + 16 * uint32_t(half *")),
        "S",
    ),
}


@pytest.mark.corpus("N9")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_N9_a_kernel_authors_list(mistake: str) -> None:
    case = random_case(48)
    problem = dataclasses.replace(case.problem, sm_scale=0.07)
    inputs = with_forward(problem, q=case.q, kv=case.kv, dO=case.dO, indices=case.indices)
    assert run(inputs).clean
    plant, stage = MISTAKES[mistake]
    assert run(inputs, plant).wrong == stage
