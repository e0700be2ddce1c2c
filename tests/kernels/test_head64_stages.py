"""head64 on the emulator: every stage inside its bound under every schedule, and its edges."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plans.head64 import D_QKS
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask

from tests.kit.backward_cases import INT_MAX, INT_MIN, exact_case, random_case
from tests.kit.backward_runs import first_wrong, ratios, run
from tests.kit.mla_problems import outputs

SCHEDULES = [Schedule("early"), Schedule("late"), *(Schedule("random", seed) for seed in range(3))]


@pytest.mark.parametrize("d_qk", D_QKS)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.policy}{s.seed}")
def test_every_stage_is_inside_its_bound(d_qk: int, schedule: Schedule) -> None:
    seen = run(random_case(d_qk=d_qk, topk=192), schedule=schedule)
    assert seen.findings == ()
    worst = ratios(seen)
    assert max(worst.values()) <= 1, worst


@pytest.mark.parametrize("mma", ["fast", "exact"])
@pytest.mark.parametrize("d_qk", D_QKS)
def test_the_whole_chain_is_exact_where_it_can_be(d_qk: int, mma: Literal["fast", "exact"]) -> None:
    inputs = exact_case(d_qk=d_qk)
    expected = outputs(inputs, m=Rounded())
    unrounded = outputs(inputs)
    for schedule in SCHEDULES[:3] if mma == "fast" else SCHEDULES[2:3]:
        seen = run(inputs, schedule=schedule, taps=False, mma=mma)
        assert seen.findings == ()
        for name in ("delta", "dQ", "dKV"):
            got = seen.outputs[name].astype(np.float64)
            assert np.abs(got).max() > 0
            assert (got == expected[name]).all(), name
        assert (seen.outputs["dKV"] == unrounded["dKV"]).all()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    d_qk=st.sampled_from(D_QKS),
    s_q=st.integers(1, 2),
    s_kv=st.sampled_from([1, 2, 63, 64, 65, 400]),
    topk=st.sampled_from([64, 128, 256]),
    scale=st.sampled_from([1.0, 1e-3, 6.0]),
    lengths=st.lists(
        st.sampled_from([-1, 0, 1, 31, 32, 33, 63, 64, 65, 128, INT_MAX]), min_size=2, max_size=2
    ),
    random=st.integers(0, 2**32 - 1),
)
def test_generated_problems(
    seed: int, d_qk: int, s_q: int, s_kv: int, topk: int, scale: float, lengths: list[int], random: int
) -> None:
    length = np.array(lengths[:s_q], dtype=np.int32)
    inputs = random_case(
        seed, s_q=s_q, s_kv=s_kv, d_qk=d_qk, topk=topk, scale=scale, topk_length=length if seed % 2 else None
    )
    seen = run(inputs, schedule=Schedule("random", random))
    assert seen.findings == ()
    worst = ratios(seen)
    assert max(worst.values()) <= 1, worst


def test_dq_and_delta_are_the_same_bits_under_every_schedule() -> None:
    inputs = random_case(1, topk=192)
    first = run(inputs, schedule=SCHEDULES[0], taps=False).outputs
    for schedule in SCHEDULES[1:]:
        other = run(inputs, schedule=schedule, taps=False).outputs
        for name in ("delta", "dQ"):
            assert other[name].tobytes() == first[name].tobytes(), (name, schedule)


@pytest.mark.parametrize("d_qk", D_QKS)
def test_the_probe_build_shows_the_same_stages_and_the_same_outputs(d_qk: int) -> None:
    inputs = random_case(2, d_qk=d_qk, topk_length=np.array([70, 128], dtype=np.int32))
    seen, probe = run(inputs), run(inputs, probe=True)
    assert probe.findings == ()
    for name in ("delta", "dQ"):
        assert seen.outputs[name].tobytes() == probe.outputs[name].tobytes()
    for (stage, token, _, k_block), tile in seen.tiles.items():
        if stage == "dKV":
            continue
        at = token, slice(None), slice(64 * k_block, 64 * k_block + 64)
        assert probe.written[stage][at].all()
        shown = probe.outputs[stage][at].astype(tile.dtype)
        assert (shown == tile).all(), (stage, token, k_block)
    assert probe.written["P"].sum() == 4 * 64 * 64  # two k-blocks of each token, all heads


@pytest.mark.parametrize("length", [-1, 0, 1, 63, 64, 65, 128, 129, INT_MAX, INT_MIN])
def test_topk_length_is_clamped(length: int) -> None:
    inputs = random_case(3, topk_length=np.array([length, 64], dtype=np.int32))
    seen = run(inputs)
    assert seen.findings == ()
    assert first_wrong(seen) is None
    assert seen.written["dQ"].all() and seen.written["delta"].all()
    if length <= 0:
        assert (seen.outputs["dQ"][0].astype(np.float32) == 0).all()


@pytest.mark.parametrize("where", ["first", "last", "all"])
@pytest.mark.parametrize("lse", [np.inf, -np.inf])
@pytest.mark.parametrize("how", ["length", "indices"])
def test_tokens_without_a_key(where: str, lse: float, how: str) -> None:
    inputs = random_case(4, s_q=2, topk=64)
    empty = {"first": [0], "last": [1], "all": [0, 1]}[where]
    indices, lengths = inputs.indices.copy(), np.full(2, 64, dtype=np.int32)
    if how == "length":
        lengths[empty] = 0
    else:
        indices[empty] = np.resize([-1, 150, INT_MIN, INT_MAX], 64)
    lse_of = inputs.lse.copy()
    lse_of[empty] = lse
    inputs = dataclasses.replace(inputs, indices=indices, topk_length=lengths, lse=lse_of)
    for schedule in SCHEDULES[:3]:
        seen = run(inputs, schedule=schedule)
        assert seen.findings == ()
        assert first_wrong(seen) is None
        assert (seen.outputs["dQ"][empty].astype(np.float32) == 0).all()
        assert np.isfinite(seen.outputs["dKV"]).all()


def test_rows_that_no_index_selects_keep_their_bits() -> None:
    """Not even an added zero: red.add.f32 would flush the subnormals and quiet the NaNs."""
    inputs = random_case(5, s_kv=90, topk_length=np.array([100, 40], dtype=np.int32))
    selected = np.zeros(90, dtype=bool)
    selected[inputs.indices[key_mask(inputs)]] = True
    assert 0 < selected.sum() < 90
    words = np.resize(
        np.array([0x00000001, 0x807FFFFF, 0x7FC12345, 0x7F812345, 0x80000000, 0xFF800000], dtype=np.uint32),
        (90, 576),
    )
    before = np.where(selected[:, None], np.uint32(0), words).astype(np.uint32)
    seen = run(inputs, dkv=before.view(np.float32), taps=False)
    after = seen.outputs["dKV"].view(np.uint32)
    assert (after[~selected] == before[~selected]).all()
    assert (after[selected] != 0).any(axis=1).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_poison_in_rows_that_no_index_selects_reaches_nothing(poison: float) -> None:
    inputs = random_case(6, s_kv=300, topk_length=np.array([100, 40], dtype=np.int32))
    kv = inputs.kv.copy()
    unselected = np.ones(300, dtype=bool)
    unselected[inputs.indices[key_mask(inputs)]] = False
    assert unselected.any()
    kv[unselected] = poison
    clean, poisoned = run(inputs, taps=False), run(dataclasses.replace(inputs, kv=kv), taps=False)
    for name in ("delta", "dQ", "dKV"):
        assert clean.outputs[name].tobytes() == poisoned.outputs[name].tobytes()


def test_a_nan_in_a_selected_row_reaches_dq_and_dkv() -> None:
    inputs = random_case(7, topk=64)
    kv, row = inputs.kv.copy(), int(inputs.indices[key_mask(inputs)][0])
    kv[row, 5] = np.nan
    seen = run(dataclasses.replace(inputs, kv=kv), taps=False)
    assert np.isnan(seen.outputs["dQ"].astype(np.float32)[0]).any()
    assert np.isnan(seen.outputs["dKV"][row]).all()


@pytest.mark.parametrize("topk", [64, 128])
def test_one_key_chosen_in_every_slot_accumulates(topk: int) -> None:
    inputs = random_case(8, s_kv=3, topk=topk, indices=np.full((2, topk), 1, dtype=np.int32))
    seen = run(inputs)
    assert first_wrong(seen) is None
    assert (seen.outputs["dKV"][[0, 2]] == 0).all() and (seen.outputs["dKV"][1] != 0).any()


def test_no_mask_by_zero_rows_alone() -> None:
    """Where every score is far below zero, exp2(0 - lse) of a zero-filled row is infinite (corpus N3)."""
    inputs = random_case(9, topk=64)
    lse = np.full_like(inputs.lse, -1e4)
    q = np.zeros_like(inputs.q)
    holes = np.resize([-1, 1, INT_MAX, 150], inputs.indices.shape).astype(np.int32)
    only_holes = np.where(holes == 1, -1, holes).astype(np.int32)
    seen = run(dataclasses.replace(inputs, lse=lse, q=q, indices=only_holes), taps=False)
    assert (seen.outputs["dQ"].astype(np.float32) == 0).all() and (seen.outputs["dKV"] == 0).all()


def test_a_long_token_walks_every_k_block() -> None:
    inputs = random_case(10, s_q=1, s_kv=500, topk=1024)
    seen = run(inputs, schedule=Schedule("random", 5))
    assert seen.findings == ()
    assert first_wrong(seen) is None
    assert {k for _, _, _, k in seen.tiles} == set(range(16))


def _permuted(inputs: Inputs, order: np.ndarray) -> Inputs:  # type: ignore[type-arg]
    return dataclasses.replace(inputs, indices=np.ascontiguousarray(inputs.indices[:, order]))


def test_a_permutation_inside_one_k_block_moves_columns_only() -> None:
    inputs = random_case(11, topk=64)
    order = np.random.default_rng(0).permutation(64)
    a, b = run(inputs), run(_permuted(inputs, order))
    for stage in ("P", "S", "dP", "dS"):
        assert (a.tiles[stage, 0, 0, 0][:, order] == b.tiles[stage, 0, 0, 0]).all(), stage


@pytest.mark.parametrize("d_qk", D_QKS)
def test_stages_stay_inside_their_bounds_with_the_tensor_cores_own_arithmetic(d_qk: int) -> None:
    seen = run(random_case(12, s_q=1, d_qk=d_qk), mma="exact")
    assert first_wrong(seen) is None
