"""Hypothesis strategies for problems of the sparse MLA backward.

They shrink towards one token, one k-block of B_TOPK keys, indices 0, 1, 2, ..., no topk_length, and zeros;
every draw is a small structure (`Case`), the arrays come from its seed.
"""

from __future__ import annotations

from hypothesis import strategies as st
from tileproof.conformance.case import INT_MAX, INT_MIN, ORDERS, VALUES, Case, Indices
from tileproof.spec.problem import B_TOPK, Inputs

MAX_TOKENS = 3
MAX_BLOCKS = 4
MAX_KV = 300


def sentinels(s_kv: int) -> st.SearchStrategy[int]:
    """Index values that are no key: the customary ones, their neighbours and the ends of int32."""
    return st.sampled_from((-1, s_kv, s_kv + 1, -2, INT_MAX, INT_MIN))


@st.composite
def index_patterns(draw: st.DrawFn, s_kv: int, blocks: int) -> Indices:
    """One token's indices: an order, sprinkled non-keys, sometimes whole k-blocks without any key."""
    topk = blocks * B_TOPK
    order = draw(st.sampled_from(ORDERS))
    where = draw(st.lists(st.integers(0, topk - 1), max_size=6, unique=True))
    holes = tuple((slot, draw(sentinels(s_kv))) for slot in sorted(where))
    dead = draw(st.sets(st.integers(0, blocks - 1), max_size=blocks)) if draw(st.integers(0, 3)) == 3 else ()
    return Indices(order, holes, tuple(sorted(dead)))


def lengths(topk: int) -> st.SearchStrategy[int]:
    """A topk_length: the whole row, its ends, a tile's edges, anything between, and values that must be
    clamped.
    """
    edges = [topk, 0, 1, B_TOPK - 1, B_TOPK, B_TOPK + 1, topk - 1, topk + 1, -1, INT_MAX]
    return st.one_of(st.sampled_from(edges), st.integers(0, topk))


@st.composite
def cases(draw: st.DrawFn, d_qk: int, h_q: int = 128) -> Case:
    """A `Case` for one value of d_qk and h_q."""
    blocks = draw(st.integers(1, MAX_BLOCKS))
    s_kv = draw(st.one_of(st.just(B_TOPK), st.integers(1, MAX_KV)))
    with_lengths = draw(st.booleans())
    length = lengths(blocks * B_TOPK) if with_lengths else st.none()
    # A token's pattern and length are drawn together, so that shrinking can drop a token.
    token = st.tuples(index_patterns(s_kv, blocks), length)
    drawn = draw(st.lists(token, min_size=1, max_size=MAX_TOKENS))
    return Case(
        d_qk=d_qk,
        s_kv=s_kv,
        blocks=blocks,
        tokens=tuple(pattern for pattern, _ in drawn),
        lengths=tuple(one for _, one in drawn if one is not None) if with_lengths else None,
        values=draw(st.sampled_from(VALUES)),
        poison=draw(st.booleans()),
        garbage_tail=with_lengths and draw(st.booleans()),
        seed=draw(st.integers(0, 2**16 - 1)),
        h_q=h_q,
    )


def problems(d_qk: int, h_q: int = 128) -> st.SearchStrategy[Inputs]:
    """Validated `Inputs`, for tests that need no replayable case."""
    return cases(d_qk, h_q).map(Case.inputs)
