"""Rows I1 to I13 of the corpus: which indices are keys; nothing else is read, counted or written."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.drivers.emulator import launch_on
from tileproof.reference import oracle
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import OPERANDS, Inputs, Problem, key_mask

from tests.kit.backward_cases import random_case
from tests.kit.backward_runs import KERNEL
from tests.kit.corpus import (
    INT_MAX,
    INT_MIN,
    SCHEDULES,
    UNMASKED,
    Plant,
    build,
    changed,
    far_below_zero,
    in_ptx,
    run,
    source,
)
from tests.kit.mla_problems import ONE_CTA, outputs

RED = "ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);"


def selected(inputs: Inputs) -> np.ndarray:  # type: ignore[type-arg]
    rows = np.zeros(inputs.problem.s_kv, dtype=bool)
    rows[inputs.indices[key_mask(inputs)]] = True
    return rows


def has_nan(array: np.ndarray) -> bool:  # type: ignore[type-arg]
    return bool(np.isnan(array.astype(np.float32)).any())


@pytest.mark.corpus("I1")
def test_I1_sentinel_adds_nothing() -> None:
    indices = np.random.default_rng(0).integers(10, 60, (2, 64)).astype(np.int32)
    indices[:, ::7] = -1  # in the first and in the second token
    inputs = random_case(1, s_kv=70, topk=64, indices=indices)
    others = ~selected(inputs)
    assert others[0] and others[-1]
    # Subnormals, quiet and signalling NaNs with payloads, -0 and -inf: an added 0.0 changes the first four.
    words = np.array([0x00000001, 0x807FFFFF, 0x7FC12345, 0x7F812345, 0x80000000, 0xFF800000], np.uint32)
    before = np.where(others[:, None], np.resize(words, (70, 576)), np.uint32(0)).astype(np.uint32)
    touches = source(
        "dkv_export.cuh",
        (
            f"if (Every || row[j] >= 0) {RED}",
            RED.replace("int64_t(row[j])", "int64_t(max(row[j], 0))").replace(
                " v[j]", " row[j] >= 0 ? v[j] : 0.0f"
            ),
        ),
    )
    for plant, rows in ((None, []), (touches, [0])):
        seen = run(inputs, plant, prefill={"dKV": before.view(np.float32)}, taps=False)
        after = seen.outputs["dKV"].view(np.uint32)
        assert np.flatnonzero((after != before).any(axis=1) & others).tolist() == rows
    # No value is wrong when dKV starts from zeros: only the bits show it.
    assert run(inputs).clean and run(inputs, touches).clean


@pytest.mark.corpus("I2")
def test_I2_invalid_indices_of_every_kind_in_every_slot() -> None:
    kinds = np.array([0, -1, 60, INT_MIN, INT_MAX])
    indices = np.random.default_rng(1).integers(0, 60, (5, 64))
    turn = (np.arange(64)[None, :] + np.arange(5)[:, None]) % 5
    indices = np.where(turn == 0, indices, kinds[turn]).astype(np.int32)
    inputs = far_below_zero(random_case(2, s_q=5, s_kv=60, topk=64, indices=indices))
    for schedule in SCHEDULES:
        assert run(inputs, schedule=schedule).clean
    seen = run(inputs, UNMASKED)
    assert seen.wrong == "S" and has_nan(seen.outputs["dQ"])


@pytest.mark.corpus("I3")
def test_I3_topk_wider_than_s_kv_with_holes() -> None:
    indices = np.random.default_rng(2).integers(0, 40, (2, 128)).astype(np.int32)
    indices[:, 1::3] = -1
    inputs = random_case(3, s_kv=40, indices=indices)
    ours = run(inputs)
    assert ours.clean
    by_position = source(
        "dkv_export.cuh",
        ("{this->key_row(", "{slot >= params.s_kv ? -1 : this->key_row("),
        ("this->key_row(next[1]", "slot + 32 >= params.s_kv ? -1 : this->key_row(next[1]"),
    )
    seen = run(inputs, by_position)
    assert seen.wrong == "dKV rows"
    assert seen.outputs["dQ"].tobytes() == ours.outputs["dQ"].tobytes()


@pytest.mark.corpus("I3")
def test_I3_the_reference_agrees_with_autograd_and_clamping_to_row_0_does_not() -> None:
    indices = np.random.default_rng(2).integers(0, 40, (2, 128)).astype(np.int32)
    indices[:, 1::3] = -1
    case = random_case(3, s_kv=40, indices=indices)
    exact = with_forward(case.problem, exact=True, q=case.q, kv=case.kv, dO=case.dO, indices=indices)
    want = oracle.gradients(exact)
    for inputs, agrees in ((exact, True), (changed(exact, indices=np.maximum(indices, 0)), False)):
        got = outputs(inputs, tiling=ONE_CTA)
        for name in ("dQ", "dKV"):
            error = np.abs(got[name] - want[name]).max() / np.abs(want[name]).max()
            assert (error <= 1e-11) == agrees, name
            assert agrees or error > 1e-2


@pytest.mark.corpus("I4")
def test_I4_padded_slots_reach_nothing_outside_kv_and_dkv() -> None:
    indices = np.random.default_rng(3).integers(1, 49, (2, 64)).astype(np.int32)
    indices[:, 5::6] = -1
    indices[:, 6::6] = 50
    inputs = random_case(4, s_kv=50, topk=64, indices=indices)
    kv = inputs.kv.copy()
    kv[0], kv[-1] = np.nan, np.inf  # what a padded slot would read first
    seen = run(changed(inputs, kv=kv))
    assert seen.clean and not has_nan(seen.outputs["dQ"]) and np.isfinite(seen.outputs["dKV"]).all()
    unguarded = source("dkv_export.cuh", (f"if (Every || row[j] >= 0) {RED}", RED))
    seen = run(inputs, unguarded)
    assert "global-out-of-bounds" in seen.codes
    assert all(
        "dkv_export.cuh" in f.machine.source for f in seen.run.findings if f.code == "global-out-of-bounds"
    )


@pytest.mark.corpus("I5")
def test_I5_k_blocks_without_a_key_in_every_place() -> None:
    running_maximum = source(
        "softmax.cuh",
        (
            "const float delta = smem.delta[head];",
            "const float delta = smem.delta[head];\n    float top = -__int_as_float(0x7f800000);",
        ),
        (
            "s[j] = (keys >> j & 1) ? ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse)) : 0.0f;"
            "\n      }",
            "s[j] = (keys >> j & 1) ? x[j] * params.sm_scale_log2e : -__int_as_float(0x7f800000);\n"
            "        top = fmaxf(top, s[j]);\n      }\n"
            "      for (int j = 0; j < kKeysPerThread; ++j) {\n"
            "        s[j] = ptx::exp2_approx(s[j] - top) * ptx::exp2_approx(top - lse);\n      }",
        ),
    )
    for dead in ((0,), (1,), (0, 2), (0, 1), (2,), (1, 2)):
        indices = np.random.default_rng(4).integers(0, 90, (1, 192)).astype(np.int32)
        for block in dead:
            indices[:, 64 * block : 64 * (block + 1)] = -1
        inputs = random_case(5, s_q=1, s_kv=90, topk=192, indices=indices)
        assert run(inputs).clean
        seen = run(inputs, running_maximum)
        # What no slot's key reads stays unseen in the outputs: only the stage shows it.
        poisoned = [k for k in range(3) if has_nan(seen.run.tiles["S", 0, 0, k])]
        assert poisoned == [k for k in range(3) if set(range(k + 1)) <= set(dead)]
        assert seen.wrong == "S" or 0 not in dead


@pytest.mark.corpus("I6")
def test_I6_nan_in_row_0_and_in_every_row_that_no_index_selects() -> None:
    indices = np.random.default_rng(5).integers(20, 60, (2, 64)).astype(np.int32)
    indices[:, ::5] = -1
    inputs = random_case(6, s_kv=80, topk=64, indices=indices)
    kv = inputs.kv.copy()
    kv[~selected(inputs)] = np.nan
    poisoned = changed(inputs, kv=kv)
    assert np.isnan(kv[0].astype(np.float32)).all()
    seen = run(poisoned)
    assert seen.clean
    for name in ("dQ", "dKV"):
        assert seen.outputs[name].tobytes() == run(inputs, taps=False).outputs[name].tobytes()
    row_0 = source(
        "load.cuh",
        (
            "c * kColTile, keys.of[g], kKeep",
            "c * kColTile, int4{max(keys.of[g].x, 0), max(keys.of[g].y, 0), max(keys.of[g].z, 0), "
            "max(keys.of[g].w, 0)}, kKeep",
        ),
    )
    bad = run(poisoned, row_0)
    assert bad.wrong == "P" and has_nan(bad.outputs["dQ"])


@pytest.mark.corpus("I7")
def test_I7_garbage_past_topk_length() -> None:
    rng = np.random.default_rng(6)
    indices = rng.integers(0, 50, (2, 128)).astype(np.int32)
    lengths = np.array([37, 100], np.int32)
    for token, length in enumerate(lengths):
        indices[token, length::2] = rng.integers(INT_MIN, INT_MAX, indices[token, length::2].size)
    inputs = random_case(7, s_kv=50, indices=indices, topk_length=lengths)
    assert all(run(inputs, schedule=schedule).clean for schedule in SCHEDULES)
    seen = run(inputs, source("../context.cuh", ("slot < length && index >= 0", "index >= 0")))
    assert seen.wrong == "P"


@pytest.mark.corpus("I8")
def test_I8_topk_length_out_of_range_is_clamped() -> None:
    every = [-1, 0, 1, 63, 64, 65, 128, 129, INT_MAX, INT_MIN]
    inputs = random_case(8, s_q=len(every), topk_length=np.array(every, np.int32))
    assert run(inputs).clean
    unclamped = source(
        "../context.cuh", ("length = max(0, min(length, params.topk));", "length = max(0, length);")
    )
    first = random_case(8, topk_length=np.array([129, 64], np.int32))
    assert run(first).clean
    assert run(first, unclamped).wrong == "dQ"
    last = random_case(8, topk_length=np.array([64, 129], np.int32))
    assert "global-out-of-bounds" in run(last, unclamped).codes


@pytest.mark.corpus("I9")
@pytest.mark.parametrize("sharing", ["one key", "zipf"])
def test_I9_rows_that_many_tokens_choose(sharing: str) -> None:
    rng = np.random.default_rng(7)
    indices = np.minimum(rng.zipf(1.5, (6, 64)) - 1, 29).astype(np.int32)
    if sharing == "one key":
        indices = np.full((6, 64), -1, np.int32)
        indices[:, 0] = 3
    inputs = random_case(9, s_q=6, s_kv=30, topk=64, indices=indices)
    for schedule in SCHEDULES:
        assert run(inputs, schedule=schedule).clean
    last_wins = in_ptx(r"red\.global\.add\.f32", "st.global.f32")
    assert run(inputs, last_wins).wrong == "dKV rows"


@pytest.mark.corpus("I10")
@pytest.mark.parametrize("topk", [64, 128])
def test_I10_a_repeated_index_counts_every_time(topk: int) -> None:
    inputs = random_case(10, s_kv=4, topk=topk, indices=np.full((2, topk), 2, np.int32))
    assert run(inputs).clean
    once = source(
        "dkv_export.cuh",
        (
            "if (Every || row[j] >= 0) ptx",
            "if ((Every || row[j] >= 0) && (j == 0 || row[j] != row[max(j - 1, 0)])) ptx",
        ),
    )
    assert run(inputs, once).wrong == "dKV rows"


@pytest.mark.corpus("I11")
def test_I11_rows_past_2_to_the_31_elements() -> None:
    s_kv, d_qk = 3_800_000, 576
    assert s_kv * d_qk > 2**31
    rows = np.array([0, 1, 2**31 // d_qk, 2**31 // d_qk + 1, s_kv - 1])
    try:
        kv = np.zeros((s_kv, d_qk), OPERANDS["bf16"])  # allocated lazily: only the touched pages exist
        np.zeros((s_kv, d_qk), np.float32)  # dKV, of which every launch has one
    except MemoryError:
        pytest.skip("no address space for 4.4 GB of kv and 8.8 GB of dKV")
    near = random_case(
        11, s_q=1, s_kv=len(rows), topk=64, indices=np.resize(np.arange(5), (1, 64)).astype(np.int32)
    )
    kv[rows] = near.kv
    far = changed(
        near,
        problem=Problem(1, s_kv, near.problem.h_q, d_qk, 64, near.problem.sm_scale),
        kv=kv,
        indices=rows[near.indices].astype(np.int32),
    )
    expected = run(near).outputs
    narrow = source(
        "dkv_export.cuh", ("int64_t(row[j]) * Plan::d_qk", "int(uint32_t(row[j]) * uint32_t(Plan::d_qk))")
    )
    for plant in (Plant(), narrow):
        launch = KERNEL.launch(far, build(far, plant))
        done, buffers = launch_on(launch)
        codes = {f.code for f in done.findings}
        if plant == Plant():
            assert codes == set()
            assert buffers["dQ"].numpy().tobytes() == expected["dQ"].tobytes()
            assert (buffers["dKV"].numpy()[rows] == expected["dKV"]).all()
            assert not buffers["dKV"].numpy()[rows[2:4] - 1][0].any()
        else:
            assert "global-out-of-bounds" in codes


@pytest.mark.corpus("I12")
@pytest.mark.parametrize(
    ("scalar", "stage", "silent"),
    [
        ("topk", "P not published", True),
        ("s_kv", "P", True),
        ("sm_scale", "dS", True),
        ("sm_scale_log2e", "S", False),
    ],
)
def test_I12_a_size_that_a_front_end_forgets_is_seen(scalar: str, stage: str, silent: bool) -> None:
    inputs = random_case(12, topk=64)
    assert run(inputs).clean
    seen = run(inputs, scalars={scalar: 0})
    assert seen.codes == set()  # the machine has nothing to say
    assert seen.outputs["dQ"].astype(np.float32).any() != silent
    assert seen.wrong == stage


@pytest.mark.corpus("I13")
def test_I13_padding_with_s_kv_itself() -> None:
    indices = np.random.default_rng(8).integers(0, 50, (2, 64)).astype(np.int32)
    indices[:, 40:] = 50
    inputs = random_case(13, s_kv=50, topk=64, indices=indices)
    assert all(run(inputs, schedule=schedule).clean for schedule in SCHEDULES)
    seen = run(inputs, source("../context.cuh", ("index < params.s_kv", "index <= params.s_kv")))
    assert "global-out-of-bounds" in seen.codes  # dKV, one row past the end
    assert seen.run.tiles["S", 0, 0, 0][:, 40:].astype(np.float32).any()  # and S counts the padding
