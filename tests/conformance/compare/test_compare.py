"""The comparison accepts what the bound allows and nothing beyond it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.conformance.compare.compare import compare, index, wrong_elements
from tileproof.conformance.compare.patterns import arrangement, permutation_words
from tileproof.conformance.observe import words
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain, Reference, StageTile
from tileproof.spec.plans import head128_part0
from tileproof.spec.problems.base import TileCoord, Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

from tests.kit.doubles import machine

PLAN = head128_part0.plan(512)


def tile(value, written=True):
    value = np.array([[value]], dtype=np.float32)
    return StageTile("P", TileCoord(0, 0, 0), slice(0, 1), slice(0, 1), value, np.array([[written]]))


def reference(value, bound):
    return Reference(np.array([[value]]), np.array([[bound]]))


@pytest.mark.parametrize(
    ("found", "value", "bound", "wrong"),
    (
        (1.0, 1.0, 0.0, False),
        (np.nextafter(np.float32(1), np.float32(2)), 1.0, 0.0, True),
        (1.5, 1.0, 0.5, False),
        (np.nextafter(np.float32(1.5), np.float32(2)), 1.0, 0.5, True),
        (np.nan, 1.0, 0.5, True),
        (np.nan, 1.0, np.inf, True),
        (np.inf, 1e39, np.inf, False),
        (np.inf, 1.0, 0.5, True),
        (-0.0, 0.0, 0.0, False),
    ),
)
def test_one_element(found, value, bound, wrong):
    assert wrong_elements(tile(found), reference(value, bound)).all() == wrong


def test_unwritten_is_wrong_even_if_equal():
    assert wrong_elements(tile(1.0, written=False), reference(1.0, 0.0)).all()


@pytest.mark.parametrize("values", ("normal", "integers", "tiny"))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), row=st.integers(0, 63), col=st.integers(0, 63))
def test_an_error_just_outside_the_bound_is_the_only_wrong_element(values, seed, row, col):
    inputs = SparseCase(512, s_kv=90, tokens=(Indices("random"),), values=values, seed=seed).inputs()
    view = observe(PLAN, inputs, machine(PLAN, inputs), "production")
    chain = Chain(inputs, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2))
    assert not compare(chain, view.tiles).divergences
    victim = next(t for t in view.tiles if t.stage == "P" and t.coord.cta == 1)
    want = chain.reference("P", victim.coord, victim.rows, victim.cols)
    value = victim.value.copy()
    outside = np.float32(want.value[row, col] + 1.001 * want.bound[row, col])
    value[row, col] = np.nextafter(outside, np.float32(np.inf))
    (divergence,) = compare(chain, [replace(victim, value=value)]).divergences
    assert np.argwhere(divergence.wrong).tolist() == [[row, col]]


def test_stages_are_judged_on_the_kernels_own_inputs():
    inputs = SparseCase(512, s_kv=90, values="normal", seed=1).inputs()
    view = observe(PLAN, inputs, machine(PLAN, inputs), "production")
    rows, cols, coord = slice(0, 64), slice(0, 64), TileCoord(0, 0, 0)
    doubled = {key: replace(t, value=2 * t.value) for key, t in index(view.tiles).items()}
    own, other = (
        Chain(inputs, tiles, problem=SPARSE_MLA_BWD, tiling=Tiling(64, 2))
        for tiles in (index(view.tiles), doubled)
    )
    S_own, S_other = (chain.reference("S", coord, rows, cols).value for chain in (own, other))
    assert not np.allclose(S_own, S_other)
    assert np.array_equal(
        own.reference("P", coord, rows, cols).value, other.reference("P", coord, rows, cols).value
    )


def mask(*places):
    wrong = np.zeros((64, 64), dtype=bool)
    for place in places:
        wrong[place] = True
    return wrong


@pytest.mark.parametrize(
    ("wrong", "words"),
    (
        (mask(np.s_[:, :]), "the whole tile"),
        (mask(np.s_[3, 5]), "head 67, slot 133"),
        (mask(np.s_[:, 32:]), "slots 160..191 (the half of the keys that CTA 1 loads), all heads"),
        (mask(np.s_[:, 8:12]), "slots 136..139 (one gather4), all heads"),
        (mask(np.s_[32:, :]), "heads 96..127 (the lanes of one warp), all slots"),
        (mask(np.s_[8:16, :]), "heads 72..79 (one swizzle atom), all slots"),
        (mask(np.s_[::2, :]), "every 2nd head from 64 to 126, all slots"),
        (mask(np.s_[1::4, :], np.s_[2::4, :]), "heads congruent to 1, 2 modulo 4, all slots"),
    ),
)
def test_arrangements(wrong, words):
    assert (
        arrangement(
            wrong,
            rows_first=64,
            cols_first=128,
            units=("head", "slot"),
            ctas=2,
            part=SPARSE_MLA_BWD.fault_hypotheses.part,
        )
        == words
    )


def test_units_that_end_in_y_and_ordinals() -> None:
    """Of dense attention, whose rows are queries."""
    wrong = np.zeros((9, 4), bool)
    wrong[::3] = True
    assert arrangement(wrong, rows_first=0, cols_first=0, units=("query", "column")) == (
        "every 3rd query from 0 to 6, all columns"
    )
    assert arrangement(wrong.T, rows_first=0, cols_first=0, units=("key", "query")) == (
        "every 3rd query from 0 to 6, all keys"
    )
    assert [words.plural(unit) for unit in ("query", "key", "slot")] == ["queries", "keys", "slots"]
    assert [words.ordinal(n) for n in (1, 2, 3, 11, 12, 22, 113)] == [
        "1st", "2nd", "3rd", "11th", "12th", "22nd", "113th",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "words"),
    (
        (np.arange(8) ^ 4, "index i holds i XOR 4 (halves swapped)"),
        ((np.arange(8) + 1) % 8, "index i holds (i + 1) modulo 8"),
        (np.arange(9)[::-1], "the order is reversed"),
        (np.array([0, 5, 2, 3, 4, 1]), "1 and 5 are exchanged"),
    ),
)
def test_permutations(source, words):
    assert permutation_words(source) == words
