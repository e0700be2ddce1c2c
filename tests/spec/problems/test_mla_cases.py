"""Cases: equal structure gives equal arrays, JSON round trips, shrinking ends at the simplest problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd import coordinates
from tileproof.spec.problems.sparse_mla_bwd.case import (
    INT_MAX,
    INT_MIN,
    ORDERS,
    Indices,
    SparseCase,
    selected,
)
from tileproof.spec.problems.sparse_mla_bwd.inputs import key_mask
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.strategies import cases, problems
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather
from tileproof.spec.problems.sparse_mla_bwd.values import VALUES

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
SIMPLEST = SparseCase(576)


@QUICK
@given(st.sampled_from((576, 512)).flatmap(cases))
def test_json_round_trip_and_equal_arrays(case):
    again = SparseCase.from_json(case.as_json())
    assert again == case
    first, second = case.inputs(), again.inputs()
    for name in ("q", "kv", "o", "dO", "lse", "indices"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


@QUICK
@given(problems(576))
def test_poison_stays_out_of_what_is_selected(inputs):
    used = inputs.kv[selected(inputs)].astype(np.float32)
    assert np.isfinite(used).all()


@pytest.mark.parametrize(
    "wanted",
    (
        lambda case: True,
        lambda case: len(case.tokens) >= 1 and case.blocks >= 1 and case.s_kv >= 1,
    ),
)
def test_shrinks_to_the_simplest_problem(wanted):
    assert shrunk(wanted) == SIMPLEST


def shrunk(wanted) -> SparseCase:
    return find(
        cases(576),
        wanted,
        settings=settings(max_examples=2000, database=None, phases=(Phase.generate, Phase.shrink)),
    )


def test_simplest_problem_is_one_tile_of_one_token_in_order():
    inputs = SIMPLEST.inputs()
    assert inputs.indices.tolist() == [list(range(64))]
    assert inputs.topk_length is None and not inputs.q.astype(np.float32).any()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    (
        (lambda c: c.blocks == 3, SparseCase(576, blocks=3)),
        (lambda c: c.values == "normal", SparseCase(576, values="normal")),
        (lambda c: len(c.tokens) == 2, SparseCase(576, tokens=(Indices(), Indices()))),
        (
            lambda c: any(t.dead_blocks for t in c.tokens),
            SparseCase(576, tokens=(Indices(dead_blocks=(0,)),)),
        ),
        (
            lambda c: any(v == INT_MIN for t in c.tokens for _, v in t.holes),
            SparseCase(576, tokens=(Indices(holes=((0, INT_MIN),)),)),
        ),
        (lambda c: c.lengths is not None and 0 in c.lengths, SparseCase(576, lengths=(0,))),
        (lambda c: any(t.order == "random" for t in c.tokens), SparseCase(576, tokens=(Indices("random"),))),
    ),
)
def test_every_feature_is_found_and_shrunk_alone(wanted, expected):
    """The shrinker ends at a local minimum once in some fourteen times: another draw starts elsewhere."""
    seen: list[SparseCase] = []
    while len(seen) < 3 and expected not in seen:
        seen.append(shrunk(wanted))
    assert seen[-1] == expected


def test_features_are_reached():
    seen: dict[str, set[Any]] = {
        "orders": set(),
        "values": set(),
        "tokens": set(),
        "kv below topk": set(),
        "lengths": set(),
    }

    @settings(max_examples=600, database=None, deadline=None, phases=(Phase.generate,))
    @given(cases(576))
    def collect(case):
        seen["orders"] |= {token.order for token in case.tokens}
        seen["values"].add(case.values)
        seen["tokens"].add(len(case.tokens))
        seen["kv below topk"].add(case.s_kv < case.topk)
        seen["lengths"] |= {
            -1 if n < 0 else 0 if n == 0 else 2 if n > case.topk else 1 for n in case.lengths or ()
        }

    collect()
    assert seen == {
        "orders": set(ORDERS),
        "values": set(VALUES),
        "tokens": {1, 2, 3},
        "kv below topk": {True, False},
        "lengths": {-1, 0, 1, 2},
    }


def test_holes_and_dead_blocks_are_no_keys():
    pattern = Indices("identity", holes=((3, -1), (5, INT_MAX), (70, 150)), dead_blocks=(2,))
    inputs = SparseCase(576, s_kv=150, blocks=3, tokens=(pattern,)).inputs()
    mask = key_mask(inputs)[0]
    assert np.flatnonzero(~mask).tolist() == [3, 5, 70, *range(128, 192)]


@pytest.mark.parametrize("d_qk", (576, 512))
def test_coordinates_name_every_product(d_qk):
    inputs = SparseCase(
        d_qk, s_kv=200, blocks=2, tokens=(Indices("permuted"),) * 2, values="coordinates", seed=3
    ).inputs()
    for token in range(2):
        P = STAGES["P"].exact(q=inputs.q[token], k=gather(inputs, token, slice(0, 128)))
        for head, slot in ((0, 0), (17, 5), (64, 127), (127, 80)):
            tile = int(np.flatnonzero(inputs.q[token, head].astype(np.float32))[0]) // 64
            want = coordinates.Coordinate(int(inputs.indices[token, slot]), tile, head % 6)
            assert coordinates.decode(float(P[head, slot]), d_qk) == want
        used = {int(c) // 64 for c in np.argwhere(inputs.q[token, :32].astype(np.float32))[:, 1]}
        assert used == set(range(d_qk // 64)), "32 heads visit every column tile"


def test_damaged_values_name_nothing():
    value = float(coordinates.code(np.array([1235]))[0])
    assert coordinates.decode(value, 576) is not None
    neighbour = float(coordinates.code(np.array([1237]))[0])
    for damaged in (0.0, 2 * value, value / 2, value * 576**-0.5, value + neighbour, float("nan")):
        assert coordinates.decode(damaged, 576) is None


@pytest.mark.parametrize(
    "text",
    (
        "",
        "[]",
        "{",
        "{}",
        '{"d_qk":"576"}',
        '{"d_qk":576,"colour":1}',
        '{"d_qk":576,"values":"odd"}',
        '{"d_qk":576,"blocks":0}',
        '{"d_qk":576,"tokens":[{"holes":[[64,0]]}]}',
        '{"d_qk":576,"tokens":[3]}',
        '{"d_qk":576,"lengths":[1,2]}',
    ),
)
def test_malformed_case_is_one_clear_error(text):
    with pytest.raises(TileproofError) as caught:
        SparseCase.from_json(text)
    assert caught.value.where == "--case" and caught.value.do
