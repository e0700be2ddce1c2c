"""The edge cases that every check runs before it draws: key counts, indices, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tileproof.spec.problems.sparse_mla_bwd.case import (
    INT_MAX,
    INT_MIN,
    Indices,
    SparseCase,
    far_tokens,
    one_token,
)
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, D_V
from tileproof.spec.problems.sparse_mla_bwd.values import PRODUCTION_SCALES

MANY_ROWS = 5000  # rows of kv that no 12-bit index reaches
MANY_BLOCKS = 32  # k-blocks of a token at production size: topk 2048
MOST_BLOCKS = (64, 128)  # topk 4096 and 8192
FAR_ELEMENTS = 2**31  # of kv, so that row times d_qk needs more than 31 bits
FAR_TOKENS = 2**16 + 1  # of q and o, whose offsets in bytes need more than 32 bits
FAR_SLOTS = 2**31  # of indices, whose offsets in elements need more than 31 bits
PERMUTED = Indices("permuted")


def edges(d_qk: int, h_q: int) -> dict[str, SparseCase]:
    """By name, the cases for one width and head count.

    `lengths`: 0, 1, a tile's edges, topk - 1 and topk keys, and a length above topk, which means topk.
    `indices`: repeated and invalid indices, k-blocks and a token without any key. `no keys`: a token whose
    lse is +inf or -inf, by head. `rows`: five tokens over
    thousands of rows. `production`: topk 2048, thousands of rows, five tokens of which one has all its keys
    and the others an odd tail at several depths. `wide`: integers whose sums show every lost bit. `wide
    exact`: such sums of dQ and dKV. `one row`: a single row of kv, a production scale. `topk N`: one token
    with so many keys. `far rows`: rows around the ends of narrow types, and the last of billions of elements.
    `far tokens`: tokens around the ends of 31 and 32 bits of byte offsets, of 65,537. `far indices`: tokens
    around these ends of their indices, and around 2^31 slots, with the largest topk.
    """
    return {**_of_keys(d_qk, h_q), **_of_sizes(d_qk, h_q), **_of_offsets(d_qk, h_q)}


def _of_keys(d_qk: int, h_q: int) -> dict[str, SparseCase]:
    """Key counts, and indices without a key."""
    topk = 2 * B_TOPK
    case = partial(SparseCase, d_qk, 300, 2, h_q=h_q)
    lengths = (0, 1, B_TOPK - 1, B_TOPK, B_TOPK + 1, topk + 1, topk - 1, topk)
    no_keys = ((0, -1), (30, -1), (B_TOPK - 1, 300), (B_TOPK, -2), (B_TOPK + 31, 301), (topk - 1, INT_MAX))
    patterns = (
        Indices("repeated", no_keys),
        Indices("same"),
        Indices("random", (), (0,)),
        Indices("identity", (), (0, 1)),
    )
    without = (Indices("permuted", no_keys), Indices("permuted", (), (0, 1)))
    return {
        "lengths": case((PERMUTED,) * len(lengths), lengths, values="normal", seed=1),
        "indices": case(patterns, values="integers", poison=True, seed=2),
        "no keys": case(without, values="normal", seed=10, lse_extremes=True),
    }


def _of_sizes(d_qk: int, h_q: int) -> dict[str, SparseCase]:
    """Many rows and keys, a single row, and sums that show every lost bit."""
    topk = 2 * B_TOPK
    case = partial(SparseCase, d_qk, h_q=h_q)
    lengths = (MANY_BLOCKS * B_TOPK, 20 * B_TOPK + 1, 7 * B_TOPK + 1, B_TOPK + 1, 1)
    one_row = (Indices("same", ((5, -1), (B_TOPK, 1))),)
    return {
        "rows": case(MANY_ROWS, 1, (PERMUTED,) * 5, values="normal", seed=3),
        "production": case(MANY_ROWS, MANY_BLOCKS, (PERMUTED,) * 5, lengths, values="normal", seed=4),
        "wide": case(300, 2, (PERMUTED, Indices("runs")), (topk - 1, topk), values="wide", seed=5),
        "wide exact": case(300, 2, (PERMUTED,) * 2, values="wide exact", seed=6),
        "one row": case(1, 2, one_row, values="normal", seed=7, scale=PRODUCTION_SCALES[0]),
    }


def _of_offsets(d_qk: int, h_q: int) -> dict[str, SparseCase]:
    """Rows, tokens and indices whose offsets need more bits than a narrow type has, and many keys."""
    case = partial(SparseCase, d_qk, values="normal", h_q=h_q)
    places = far_tokens(d_qk, h_q, D_V, FAR_TOKENS)
    largest = MOST_BLOCKS[-1]
    end = FAR_SLOTS // (largest * B_TOPK)  # the first token beyond
    slots = (0, end // 4 - 1, end // 4, end // 2 - 1, end // 2, end - 1, end)
    tokens, lengths = (PERMUTED,) * len(slots), (B_TOPK,) * len(slots)
    return {
        "far rows": case(FAR_ELEMENTS // d_qk + B_TOPK, 1, (Indices("far"), PERMUTED), seed=8),
        "far tokens": case(300, 1, (PERMUTED,) * len(places), seed=9, s_q=FAR_TOKENS, at=places),
        "far indices": case(300, largest, tokens, lengths, seed=11, s_q=end + 1, at=slots),
        **{f"topk {blocks * B_TOPK}": case(9000, blocks, (PERMUTED,), seed=blocks) for blocks in MOST_BLOCKS},
    }


def control_flow(d_qk: int, h_q: int, blocks: int) -> dict[str, SparseCase]:
    """By name, a case for each class of `topk_length` and `indices`; a token of it has `blocks` k-blocks."""
    whole = one_token(d_qk, blocks, h_q)
    topk = blocks * B_TOPK
    longer = replace(whole, blocks=blocks + 2, s_kv=topk + 2 * B_TOPK)
    invalid = (-1, longer.s_kv, INT_MAX, INT_MIN)
    holes = tuple((slot, invalid[slot // B_TOPK % 4]) for slot in range(7, topk, B_TOPK))
    dead = tuple(range(1, blocks, 3))
    permuted = whole.tokens[0]
    return {
        "every slot a key": whole,
        "topk_length below topk": replace(longer, lengths=(topk - B_TOPK + 1,)),
        "topk_length 0, 1 and above topk": replace(whole, tokens=(permuted,) * 3, lengths=(0, 1, topk + 1)),
        "invalid indices": replace(whole, tokens=(replace(permuted, holes=holes),)),
        "k-blocks without a key": replace(whole, tokens=(replace(permuted, dead_blocks=dead),)),
        "a token without a key": replace(
            whole, tokens=(replace(permuted, dead_blocks=tuple(range(blocks))), permuted)
        ),
        "invalid indices and topk_length below topk": replace(
            longer,
            tokens=(replace(permuted, holes=holes, dead_blocks=dead),),
            lengths=(topk - B_TOPK + 1,),
            garbage_tail=True,
        ),
    }


def smaller(case: SparseCase) -> Iterator[SparseCase]:
    """Cases that are simpler than `case` in one respect, the largest steps first."""
    yield from _fewer_tokens(case)
    for blocks in sorted({1, case.blocks // 2, case.blocks - 1} - {0, case.blocks}):
        yield _cut(case, blocks)
    for rows in sorted({B_TOPK, case.s_kv // 2}):
        if B_TOPK <= rows < case.s_kv:
            yield replace(case, s_kv=rows)
    if case.lengths is not None:
        yield replace(case, lengths=None, garbage_tail=False)
        for n, length in enumerate(case.lengths):
            for shorter in sorted({1, length // 2, length - B_TOPK}):
                if 0 < shorter < length:
                    yield replace(case, lengths=(*case.lengths[:n], shorter, *case.lengths[n + 1 :]))
    for n, token in enumerate(case.tokens):
        for simple in (Indices(), replace(token, holes=()), replace(token, dead_blocks=())):
            if simple != token:
                yield replace(case, tokens=(*case.tokens[:n], simple, *case.tokens[n + 1 :]))
    unused = ("poison", "nan_key", "garbage_tail", "outliers", "scale", "lse_extremes", "seed")
    default = SparseCase(case.d_qk)
    for plain in ({name: getattr(default, name)} for name in unused):
        simpler = replace(case, **plain)  # type: ignore[arg-type]
        if simpler != case:
            yield simpler
    if case.values != "zeros":
        yield replace(case, values="zeros")
    if case.values not in ("zeros", "integers"):
        yield replace(case, values="integers")


def _fewer_tokens(case: SparseCase) -> Iterator[SparseCase]:
    """The case with fewer tokens, and with its tokens nearer to each other."""
    count = len(case.tokens)
    subsets: list[tuple[int, ...]] = [(n,) for n in range(count)] if count > 2 else []
    subsets += [tuple(m for m in range(count) if m != n) for n in range(count)] if count > 1 else []
    for tokens in subsets:
        yield replace(
            case,
            tokens=tuple(case.tokens[n] for n in tokens),
            lengths=None if case.lengths is None else tuple(case.lengths[n] for n in tokens),
            at=tuple(case.at[n] for n in tokens if case.at),
        )
    if case.s_q:
        yield replace(case, s_q=0, at=())
        if (least := case.at[-1] + 1) < case.s_q:
            yield replace(case, s_q=least)


def _cut(case: SparseCase, blocks: int) -> SparseCase:
    """The case with its first `blocks` k-blocks."""
    tokens = tuple(
        Indices(
            token.order,
            tuple((slot, index) for slot, index in token.holes if slot < blocks * B_TOPK),
            tuple(block for block in token.dead_blocks if block < blocks),
        )
        for token in case.tokens
    )
    lengths = None if case.lengths is None else tuple(min(n, blocks * B_TOPK) for n in case.lengths)
    return replace(case, blocks=blocks, tokens=tokens, lengths=lengths)
