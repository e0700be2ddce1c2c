"""reference/sparse_mla_bwd.py equals the stages, autograd and numbers worked out by hand; planted errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tileproof.reference import oracle, sparse_mla_bwd
from tileproof.reference.evaluate import Evaluation
from tileproof.reference.tile import TileValue, outputs_of_walk
from tileproof.spec.arithmetic import BF16
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.sparse_mla_bwd import sink as sink_contract
from tileproof.spec.problems.sparse_mla_bwd import sink_exact
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.spec.problems.sparse_mla_bwd.strategies import cases

from tests.kit.evaluated import with_edits, worst_element, worst_output
from tests.kit.mla_problems import INT_MAX, INT_MIN, problems
from tests.kit.mla_problems import outputs as stage_outputs
from tests.kit.uncancelled import Uncancelled

TOLERANCE = 1e-12  # of the magnitudes that an element is a sum of
ORACLE_TOLERANCE = 1e-11  # of the largest element, as tests/reference/test_oracle.py


def of_spec(evaluation: Evaluation, tile: TileValue) -> Any:
    """dQ after a k-block and dKV of a cluster, of the spec's dS and dKV."""
    group, k_block = tile.coord.group, tile.coord.k_block
    if tile.stage == "dQ" and k_block is not None:
        end = (k_block + 1) * evaluation.tiling.block
        dS, k = evaluation.earlier("dS", group, BF16), evaluation.term("k", group, BF16)
        return evaluation.m.matmul(dS[tile.rows, :end], k[:end])
    if tile.stage == "dKV" and tile.coord.cta is None:
        parts = (evaluation.whole("dKV", group, cta).value for cta in range(evaluation.tiling.ctas))
        return sum(part[tile.rows] for part in parts)
    return None


def from_stages(inputs: Inputs, block: int = 64, ctas: int = 2, reference: Any = sparse_mla_bwd) -> float:
    """The largest difference of a tile's element from the stages."""
    tiles = reference.tiles(inputs, block=block, ctas=ctas)
    return worst_element(tiles, inputs, SPARSE_MLA_BWD, Tiling(block, ctas), of_spec)


def from_oracle(inputs: Inputs, block: int = 64, ctas: int = 2, reference: Any = sparse_mla_bwd) -> float:
    """The largest difference of an output from autograd."""
    got = outputs_of_walk(reference.tiles(inputs, block=block, ctas=ctas))
    return worst_output(got, oracle.gradients(inputs), terms_of(inputs, block))


def terms_of(inputs: Inputs, block: int) -> dict[str, np.ndarray]:
    """Each output with the absolute values of its terms added up."""
    with np.errstate(over="ignore", invalid="ignore"):
        return stage_outputs(inputs, tiling=Tiling(block, 1), m=Uncancelled(), dtype=complex)


@pytest.mark.parametrize("start", [1, 2])
def test_every_tile_is_what_the_stages_give(start: int) -> None:
    cut = st.sampled_from([(64, 2), (64, 1), (32, 4)])

    @seed(start)
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(problems(), cases(512, 64).map(lambda case: case.inputs())), cut)
    def holds(inputs: Inputs, cut: tuple[int, int]) -> None:
        assert from_stages(inputs, *cut) <= TOLERANCE

    holds()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(exact=True))
def test_outputs_equal_autograd(inputs: Inputs) -> None:
    assert from_oracle(inputs) <= ORACLE_TOLERANCE


# ---- by hand: q, k and dO so small that every number can be checked with a pencil

LN_2 = np.log(2.0)  # as sm_scale: S = 2^(P - lse)


def by_hand(indices: list[int], topk_length: int | None = None, lse: Any = None) -> Inputs:
    """One token, two heads, three columns of which two are V, two rows of kv."""
    f64 = np.float64
    return Inputs(
        Problem(1, 2, 2, 3, len(indices), float(LN_2), d_v=2),
        q=np.array([[[1, 0, 1], [0, 0, 0]]], f64),
        kv=np.array([[1, 2, 0], [0, 1, 2]], f64),
        o=np.array([[[1 / 2, 3 / 2], [2 / 3, 5 / 3]]], f64),
        dO=np.array([[[2, 4], [3, 0]]], f64),
        lse=np.array([[3, np.log2(3)]], f64) if lse is None else np.full((1, 2), lse, f64),
        indices=np.array([indices], np.int32),
        topk_length=None if topk_length is None else np.array([topk_length], np.int32),
    )


def test_tiles_worked_out_by_hand() -> None:
    # Rows a = kv[0] = (1, 2 | 0) and b = kv[1] = (0, 1 | 2); slots a, b, none, a in two k-blocks of two.
    # Head 0, q = (1, 0, 1): P is 1 for a and 2 for b; lse = log2(2 + 4 + 2) = 3; S is 1/4, 1/2, 0, 1/4.
    #   o = a_v / 2 + b_v / 2 = (1/2, 3/2); dO = (2, 4): delta = 1 + 6 = 7; dP is 10 for a and 4 for b.
    #   dS / ln 2 is 1/4 (10 - 7) = 3/4 for a and 1/2 (4 - 7) = -3/2 for b.
    # Head 1, q = 0: P is 0; lse = log2(3); S is 1/3 for each key; o = (2/3, 5/3); dO = (3, 0): delta = 2;
    #   dP is 3 for a and 0 for b; dS / ln 2 is 1/3 and -2/3.
    seen = {
        (tile.stage, tile.coord, tile.partial): tile.value
        for tile in sparse_mla_bwd.tiles(by_hand([0, 1, -1, 0]), block=2, ctas=2)
    }
    L = LN_2
    first, second = (TileCoord(0, 0, 0), TileCoord(0, 1, 0)), (TileCoord(0, 0, 1), TileCoord(0, 1, 1))
    whole = TileCoord(0, 0, None), TileCoord(0, 1, None)
    wanted: dict[tuple[str, TileCoord, bool], Any] = {
        ("delta", whole[0], False): [7],
        ("delta", whole[1], False): [2],
        ("P", first[0], False): [[1, 2]],
        ("P", first[1], False): [[0, 0]],
        ("P", second[0], False): [[0, 1]],
        ("P", second[1], False): [[0, 0]],
        ("S", first[0], False): [[1 / 4, 1 / 2]],
        ("S", first[1], False): [[1 / 3, 1 / 3]],
        ("S", second[0], False): [[0, 1 / 4]],
        ("S", second[1], False): [[0, 1 / 3]],
        ("dP", first[0], False): [[10, 4]],
        ("dP", first[1], False): [[3, 0]],
        ("dP", second[0], False): [[0, 10]],
        ("dP", second[1], False): [[0, 3]],
        ("dS", first[0], False): [[3 / 4 * L, -3 / 2 * L]],
        ("dS", first[1], False): [[1 / 3 * L, -2 / 3 * L]],
        ("dS", second[0], False): [[0, 3 / 4 * L]],
        ("dS", second[1], False): [[0, 1 / 3 * L]],
        # dQ: 3/4 a - 3/2 b, and 3/4 a more; 1/3 a - 2/3 b, and 1/3 a more.
        ("dQ", first[0], True): [[3 / 4 * L, 0, -3 * L]],
        ("dQ", first[1], True): [[1 / 3 * L, 0, -4 / 3 * L]],
        ("dQ", second[0], True): [[3 / 2 * L, 3 / 2 * L, -3 * L]],
        ("dQ", second[1], True): [[2 / 3 * L, 2 / 3 * L, -4 / 3 * L]],
        ("dQ", whole[0], False): [[3 / 2 * L, 3 / 2 * L, -3 * L]],
        ("dQ", whole[1], False): [[2 / 3 * L, 2 / 3 * L, -4 / 3 * L]],
        # dKV of head 0: dS q + S dO is 3/4 L (1, 0, 1) + 1/4 (2, 4) for a, -3/2 L (1, 0, 1) + 1/2 (2, 4)
        # for b; of head 1, whose q is 0: 1/3 (3, 0).
        ("dKV", first[0], True): [[3 / 4 * L + 1 / 2, 1, 3 / 4 * L], [1 - 3 / 2 * L, 2, -3 / 2 * L]],
        ("dKV", first[1], True): [[1, 0, 0], [1, 0, 0]],
        ("dKV", second[0], True): [[0, 0, 0], [3 / 4 * L + 1 / 2, 1, 3 / 4 * L]],
        ("dKV", second[1], True): [[0, 0, 0], [1, 0, 0]],
        ("dKV", TileCoord(0, None, 0), False): [
            [3 / 4 * L + 3 / 2, 1, 3 / 4 * L],
            [2 - 3 / 2 * L, 2, -3 / 2 * L],
        ],
        ("dKV", TileCoord(0, None, 1), False): [[0, 0, 0], [3 / 4 * L + 3 / 2, 1, 3 / 4 * L]],
    }
    assert seen.keys() == wanted.keys()
    for key, values in wanted.items():
        np.testing.assert_allclose(seen[key], values, rtol=1e-15, atol=1e-15, err_msg=str(key))


DQ_BY_HAND = [[[3 / 2 * LN_2, 3 / 2 * LN_2, -3 * LN_2], [2 / 3 * LN_2, 2 / 3 * LN_2, -4 / 3 * LN_2]]]
DKV_BY_HAND = [[3 / 2 * LN_2 + 3, 2, 3 / 2 * LN_2], [2 - 3 / 2 * LN_2, 2, -3 / 2 * LN_2]]  # a counts twice


@pytest.mark.parametrize(
    ("indices", "topk_length"),
    [
        ([0, 1, -1, 0], None),
        ([0, 1, 0, -1], None),
        ([2, 0, 0, 1], None),  # s_kv is no row
        ([-1, 3, 0, 1, 0, 2], None),
        ([0, INT_MIN, 1, INT_MAX, 0, -2], None),
        ([0, 1, 0, 1], 3),  # the fourth slot does not count
        ([0, 1, 0, -1], 99),  # as many as there are
        ([0, -1, 1, 0, 0, 1], 4),
    ],
)
def test_outputs_worked_out_by_hand(indices: list[int], topk_length: int | None) -> None:
    inputs = by_hand(indices, topk_length)
    for got in (
        outputs_of_walk(sparse_mla_bwd.tiles(inputs, block=2, ctas=1)),
        oracle.gradients(inputs),
        stage_outputs(inputs, tiling=Tiling(2, 2)),
    ):
        np.testing.assert_allclose(got["delta"], [[7, 2]], rtol=1e-14)
        np.testing.assert_allclose(got["dQ"], DQ_BY_HAND, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(got["dKV"], DKV_BY_HAND, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("lse", [np.inf, -np.inf])
@pytest.mark.parametrize(
    ("indices", "topk_length", "k_blocks"),
    [([-1, 2, -1, -1], None, 2), ([0, 1, 0, 1], 0, 0), ([0, 1, 0, 1], -7, 0), ([-1, -1, 0, 1], 1, 1)],
)
def test_a_token_without_a_key_gives_zeros(
    indices: list[int], topk_length: int | None, k_blocks: int, lse: float
) -> None:
    inputs = replace(by_hand(indices, topk_length, lse), o=np.zeros((1, 2, 2)))
    seen = list(sparse_mla_bwd.tiles(inputs, block=2))
    assert {tile.coord.k_block for tile in seen} == {None, *range(k_blocks)}
    assert not any(tile.value.any() for tile in seen)
    assert not any(value.any() for value in outputs_of_walk(sparse_mla_bwd.tiles(inputs, block=2)).values())


# ---- the attention sink


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(exact=True), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 8.0, 60.0]))
def test_d_sink_equals_autograd(inputs: Inputs, start: int, spread: float) -> None:
    rng = np.random.default_rng(start)
    h_q = inputs.problem.h_q
    sink = np.where(rng.random(h_q) < 1 / 8, -np.inf, rng.standard_normal(h_q) * spread)
    assert sink_from_autograd(inputs, sink) <= ORACLE_TOLERANCE


def sink_from_autograd(inputs: Inputs, sink: np.ndarray, reference: Any = sparse_mla_bwd) -> float:
    """The largest difference of an output from autograd, o and lse being those of a forward with the sink."""
    names = ("q", "kv", "dO", "indices", "topk_length")
    arrays = {name: getattr(inputs, name) for name in names}
    folded = sink_exact.with_forward(inputs.problem, sink, exact=True, **arrays)
    block = min(inputs.problem.topk, 64)
    got = outputs_of_walk(reference.tiles(folded, block=block, sink=sink))
    want, d_sink = oracle.gradients_with_sink(inputs, sink)
    terms = terms_of(folded, block)
    terms["d_sink"] = 1j * np.abs(folded.o * folded.dO.astype(np.float64)).sum(axis=(0, 2))
    return worst_output(got, {**want, "d_sink": d_sink}, terms)


def test_partial_d_sink_worked_out_by_hand() -> None:
    # Two tokens as in `by_hand`, sinks of 0 and -ln 2 (0 and -1 in base 2): the weights are 2^(0 - 3) = 1/8
    # and 2^(-1 - log2 3) = 1/6; delta is 7 and 2. The lse of token 1 is one more: half as much.
    single = by_hand([0, 1, -1, 0])
    arrays = {
        name: np.repeat(getattr(single, name), 2, axis=0) for name in ("q", "o", "dO", "lse", "indices")
    }
    arrays["lse"][1] += 1
    inputs = replace(single, problem=replace(single.problem, s_q=2), **arrays)
    walk = sparse_mla_bwd.tiles(inputs, block=2, ctas=2, sink=np.array([0, -LN_2]))
    found = [(tile.coord, tile.partial, tile.value.item()) for tile in walk if tile.stage == "d_sink"]
    wanted = [-7 / 8, -2 / 6, -7 / 8 - 7 / 16, -2 / 6 - 2 / 12]
    assert [coord for coord, *_ in found] == [
        TileCoord(token, cta, None) for token in (0, 1) for cta in (0, 1)
    ]
    assert all(partial for _, partial, _ in found)
    np.testing.assert_allclose([value for *_, value in found], wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("sink", "lse", "weight"),
    [
        (0.0, 3.0, 1 / 8),
        (-np.inf, 3.0, 0.0),
        (-np.inf, np.inf, 0.0),  # a token without keys and without a sink
        (np.inf, np.inf, 1.0),
        (2.4e38, np.inf, 1.0),  # its logit in base 2 is past the largest f32
        (2e38, np.float32(2e38 * np.log2(np.e)), 1.0),
        (2e38, np.nextafter(np.float32(2e38 * np.log2(np.e)), np.float32(0)), 1.0),  # rounded down
    ],
)
def test_limits_of_the_sink(sink: float, lse: float, weight: float) -> None:
    for share in (sparse_mla_bwd.sink_weight, lambda sink, lse: sink_contract.share(lse, sink)):
        found = share(np.array([sink]), np.array([lse], np.float64))
        np.testing.assert_allclose(found.reshape(-1), [weight], rtol=1e-15)


SINK_EDITS = {
    "the sign": ("d_sink[heads] -=", "d_sink[heads] +="),
    "the last token alone": ("d_sink[heads] -=", "d_sink[heads] = -"),
    "the sink in base 2": ("sink * LOG2_E", "sink"),
}


@pytest.mark.parametrize("edit", SINK_EDITS)
def test_an_error_planted_in_d_sink_is_found(edit: str) -> None:
    sink = np.array([0.3, -1.0, 2.0, -np.inf])
    assert sink_from_autograd(irregular(), sink) <= ORACLE_TOLERANCE
    assert sink_from_autograd(irregular(), sink, with_edits(sparse_mla_bwd, SINK_EDITS[edit])) > 1e-6


# ---- planted errors: text of the reference, and what finds it

EDITS: dict[str, tuple[str, str, str]] = {
    "no delta": ("(dP - delta[token, heads, None])", "dP", "stages autograd"),
    "no sm_scale in dS": (") * p.sm_scale\n", ")\n", "stages autograd"),
    "no log2(e)": ("sm_scale * LOG2_E", "sm_scale", "stages autograd"),
    "lse of the first token": ("lse[token, heads, None]", "lse[0, heads, None]", "stages autograd"),
    "V from the last columns": ("k[:, : p.d_v]", "k[:, -p.d_v :]", "stages autograd"),
    "S^T dO in the rope columns": ("dKV_part[:, : p.d_v]", "dKV_part[:, -p.d_v :]", "stages autograd"),
    "S for dS in dKV": ("dKV_part = dS.T", "dKV_part = S.T", "stages autograd"),
    "keys end at the first hole": (
        "k[key] = kv", "key = np.logical_and.accumulate(key); k[key] = kv", "stages autograd",
    ),
    "-1 is the last row": ("index >= 0", "index >= -1", "stages autograd"),
    "topk_length ignored": ("length = min(", "p.topk or min(", "stages autograd"),
    "no last, partly filled k-block": ("-(-length // block)", "length // block", "stages autograd"),
    "the heads of CTA 0": ("q[token, heads], dO[token, heads]", "q[token, heads_of[0]], dO[token, heads]",
        "stages autograd"),
    "dQ set, not added": ("dQ[token, heads] += dS", "dQ[token, heads] = dS", "stages autograd"),
    "dQ shown before it is whole": ("dQ[token, heads].copy(), partial=True", "dQ[token, heads], partial=True",
        "stages"),
    "dKV of the last CTA": ("dKV_tile = dKV_tile + dKV_part", "dKV_tile = dKV_part", "stages autograd"),
    "dKV of each CTA with the ones before": ("dS.T @ q_tile", "dS.T @ q_tile + dKV_tile", "stages autograd"),
    "an index that repeats adds once": (
        "np.add.at(dKV, index[key], dKV_tile[key])", "dKV[index[key]] += dKV_tile[key]", "autograd",
    ),
    "S of a slot that is no key": ("np.where(key, np.exp2", "np.where(key | True, np.exp2", "stages"),
    "a slot that is no key gathers row 0": ("k[key] = kv[index[key]]", "k[:] = kv[np.where(key, index, 0)]",
        "stages"),
}  # fmt: skip


def irregular() -> Inputs:
    """Three tokens with holes, repeated and counted keys: the least on which each planted error shows."""
    rng = np.random.default_rng(7)
    return with_forward(
        Problem(s_q=3, s_kv=10, h_q=4, d_qk=7, topk=8, sm_scale=0.3, d_v=5),
        exact=True,
        q=rng.standard_normal((3, 4, 7)),
        kv=rng.standard_normal((10, 7)),
        dO=rng.standard_normal((3, 4, 5)),
        indices=np.array([[3, 3, -1, 9, 0, 10, 3, 1], [4, 5, 6, 7, 8, 2, 2, 2], [0] * 8], np.int32),
        topk_length=np.array([8, 7, 0], np.int32),
    )


@pytest.mark.parametrize("edit", EDITS)
def test_an_error_planted_in_the_reference_is_found(edit: str) -> None:
    old, new, finds = EDITS[edit]
    wrong, inputs = with_edits(sparse_mla_bwd, (old, new)), irregular()
    assert (from_stages(inputs, 4, 2, wrong) > TOLERANCE) == ("stages" in finds)
    assert (from_oracle(inputs, 4, 2, wrong) > ORACLE_TOLERANCE) == ("autograd" in finds)


def test_nothing_is_found_in_the_reference_itself() -> None:
    assert from_stages(irregular(), 4, 2) <= TOLERANCE and from_oracle(irregular(), 4, 2) <= ORACLE_TOLERANCE
