"""Hypothesis strategies for problems of the sparse MLA backward.

They shrink towards one token, one k-block of B_TOPK keys, indices 0, 1, 2, ..., no topk_length, and zeros;
every draw is a small structure (`SparseCase`), the arrays come from its seed.

So that every part shrinks on its own, no draw decides how many choices another one makes: lengths and
k-blocks are drawn as plain numbers and fitted to the problem afterwards, and a token without holes is five
choices, the most that Hypothesis deletes in one go.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tileproof.spec.problems.sparse_mla_bwd.case import (
    INT_MAX,
    INT_MIN,
    ORDERS,
    Indices,
    Order,
    SparseCase,
)
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs
from tileproof.spec.problems.sparse_mla_bwd.values import OUTLIERS, PRODUCTION_SCALES, Values

MAX_TOKENS = 3
MAX_BLOCKS = 4
MAX_KV = 300
MAX_HOLES = 6
LONGER, LONGER_SEEDS = 3, 12  # of one token, one seed in 12 makes topk three times as long
MAX_TOPK = MAX_BLOCKS * B_TOPK

_EDGES = 12
_EDGE_DRAWS = 24 * _EDGES  # beside MAX_TOPK + 1 plain lengths: half of the draws are edges
_NAN_KEY = 7  # one problem in eight selects a row with NaN
# By their weights; examples shrink to zeros, which are drawn where seed and class are both the first.
_WEIGHTS: tuple[tuple[Values, int], ...] = (
    ("integers", 6), ("coordinates", 8), ("exact", 6), ("normal", 16), ("wide", 10), ("wide exact", 6),
    ("mixed", 8), ("large", 6), ("tiny", 6),
)  # fmt: skip
_CLASSES = tuple(name for name, weight in _WEIGHTS for _ in range(weight))
_SCALES = (0.0, *PRODUCTION_SCALES)
_SCALED = ("integers", "normal", "mixed", "tiny")  # classes at the scales of models, with outliers
_PLAIN = 12  # of 16 have no outliers; of as many lse is that of the forward
_NO_DEAD_BLOCK = 48  # of 64: a quarter of the tokens have k-blocks without any key


def sentinel(number: int, s_kv: int) -> int:
    """Index values that are not a key: the usual values, their neighbours and the limits of int32."""
    return (-1, s_kv, s_kv + 1, -2, INT_MAX, INT_MIN)[number]


def length(number: int, topk: int) -> int:
    """A topk_length: the whole row, its ends, a tile's edges, values that must be clamped, anything
    between.
    """
    short = (topk, 0, 1, B_TOPK - 1, B_TOPK, B_TOPK + 1, topk - 1)
    edges = (*short, topk + 1, -1, INT_MAX, topk + B_TOPK, INT_MIN)
    return edges[number % _EDGES] if number < _EDGE_DRAWS else min(number - _EDGE_DRAWS, topk)


@st.composite
def _tokens(draw: st.DrawFn) -> tuple[Order, list[tuple[int, int]], int, int]:
    """Order, holes (slot, sentinel), k-blocks without keys as bits, and length, all still to be fitted."""
    order = draw(st.sampled_from(ORDERS))
    hole = st.tuples(st.integers(0, MAX_TOPK - 1), st.integers(0, 5))
    holes = draw(st.lists(hole, max_size=MAX_HOLES))
    dead = max(0, draw(st.integers(0, _NO_DEAD_BLOCK + 2**MAX_BLOCKS - 1)) - _NO_DEAD_BLOCK)
    return order, holes, dead, draw(st.integers(0, _EDGE_DRAWS + MAX_TOPK))


@st.composite
def cases(draw: st.DrawFn, d_qk: int, h_q: int = 128) -> SparseCase:
    """A `SparseCase` for one value of d_qk and h_q."""
    blocks = draw(st.integers(1, MAX_BLOCKS))
    s_kv = draw(st.one_of(st.just(B_TOPK), st.integers(1, MAX_KV)))
    with_lengths = draw(st.booleans())
    garbage_tail = draw(st.booleans())
    drawn = draw(st.lists(_tokens(), min_size=1, max_size=MAX_TOKENS))
    number, seed = draw(st.integers(0, len(_CLASSES) - 1)), draw(st.integers(0, 2**16 - 1))
    values: Values = _CLASSES[number] if number or seed else "zeros"
    if len(drawn) == 1 and seed % LONGER_SEEDS == LONGER_SEEDS - 1:  # seed 0 shrinks to a short one
        blocks *= LONGER
    topk = blocks * B_TOPK
    outliers, extremes = draw(st.integers(0, 15)), draw(st.integers(0, 15))
    scale = draw(st.integers(0, len(_SCALES) - 1))
    tokens = []
    for order, holes, dead, _ in drawn:
        placed = {slot % topk: sentinel(number, s_kv) for slot, number in holes}
        blocks_without = tuple(block for block in range(blocks) if dead >> block & 1)
        tokens.append(Indices(order, tuple(sorted(placed.items())), blocks_without))
    return SparseCase(
        d_qk=d_qk,
        s_kv=s_kv,
        blocks=blocks,
        tokens=tuple(tokens),
        lengths=tuple(length(number, topk) for *_, number in drawn) if with_lengths else None,
        values=values,
        poison=draw(st.booleans()),
        nan_key=draw(st.integers(0, _NAN_KEY)) == _NAN_KEY,
        garbage_tail=with_lengths and garbage_tail,
        seed=seed,
        h_q=h_q,
        outliers=OUTLIERS[max(0, outliers - _PLAIN + 1)] if values in _SCALED else "",
        scale=_SCALES[scale] if values in _SCALED else 0.0,
        lse_extremes=extremes >= _PLAIN and values in _SCALED,
    )


def problems(d_qk: int, h_q: int = 128) -> st.SearchStrategy[Inputs]:
    """Validated `Inputs`, for tests that need no replayable case."""
    return cases(d_qk, h_q).map(lambda case: replace(case, nan_key=False).inputs())
