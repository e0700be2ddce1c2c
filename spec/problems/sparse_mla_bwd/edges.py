"""The edge cases that every check runs before it draws: key counts, indices, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileproof.spec.problems.sparse_mla_bwd.case import INT_MAX, Indices, SparseCase, far_tokens
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, D_V
from tileproof.spec.problems.sparse_mla_bwd.values import PRODUCTION_SCALES

MANY_ROWS = 5000  # rows of kv that no 12-bit index reaches
MANY_BLOCKS = 32  # k-blocks of a token at production size: topk 2048
MOST_BLOCKS = (64, 128)  # topk 4096 and 8192
FAR_ELEMENTS = 2**31  # of kv, so that row times d_qk needs more than 31 bits
FAR_TOKENS = 2**16 + 1  # of q and o, whose offsets in bytes need more than 32 bits
FAR_SLOTS = 2**31  # of indices, whose offsets in elements need more than 31 bits


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
    topk = 2 * B_TOPK
    lengths = (0, 1, B_TOPK - 1, B_TOPK, B_TOPK + 1, topk + 1, topk - 1, topk)
    no_keys = ((0, -1), (30, -1), (B_TOPK - 1, 300), (B_TOPK, -2), (B_TOPK + 31, 301), (topk - 1, INT_MAX))
    places = far_tokens(d_qk, h_q, D_V, FAR_TOKENS)
    permuted = Indices("permuted")
    most = MOST_BLOCKS[-1]
    end = FAR_SLOTS // (most * B_TOPK)  # the first token beyond
    slots = (0, end // 4 - 1, end // 4, end // 2 - 1, end // 2, end - 1, end)
    return {
        "lengths": SparseCase(
            d_qk, 300, 2, (Indices("permuted"),) * len(lengths), lengths, values="normal", seed=1, h_q=h_q
        ),
        "indices": SparseCase(
            d_qk,
            300,
            2,
            (
                Indices("repeated", no_keys),
                Indices("same"),
                Indices("random", (), (0,)),
                Indices("identity", (), (0, 1)),
            ),
            values="integers",
            poison=True,
            seed=2,
            h_q=h_q,
        ),
        "no keys": SparseCase(
            d_qk,
            300,
            2,
            (Indices("permuted", no_keys), Indices("permuted", (), (0, 1))),
            values="normal",
            seed=10,
            h_q=h_q,
            lse_extremes=True,
        ),
        "rows": SparseCase(d_qk, MANY_ROWS, 1, (Indices("permuted"),) * 5, values="normal", seed=3, h_q=h_q),
        "production": SparseCase(
            d_qk,
            MANY_ROWS,
            MANY_BLOCKS,
            (Indices("permuted"),) * 5,
            (MANY_BLOCKS * B_TOPK, 20 * B_TOPK + 1, 7 * B_TOPK + 1, B_TOPK + 1, 1),
            values="normal",
            seed=4,
            h_q=h_q,
        ),
        "wide": SparseCase(
            d_qk, 300, 2, (permuted, Indices("runs")), (topk - 1, topk), values="wide", seed=5, h_q=h_q
        ),
        "wide exact": SparseCase(d_qk, 300, 2, (permuted,) * 2, values="wide exact", seed=6, h_q=h_q),
        "one row": SparseCase(
            d_qk,
            1,
            2,
            (Indices("same", ((5, -1), (B_TOPK, 1))),),
            values="normal",
            seed=7,
            h_q=h_q,
            scale=PRODUCTION_SCALES[0],
        ),
        "far rows": SparseCase(
            d_qk,
            FAR_ELEMENTS // d_qk + B_TOPK,
            1,
            (Indices("far"), permuted),
            values="normal",
            seed=8,
            h_q=h_q,
        ),
        "far tokens": SparseCase(
            d_qk,
            300,
            1,
            (permuted,) * len(places),
            values="normal",
            seed=9,
            h_q=h_q,
            s_q=FAR_TOKENS,
            at=places,
        ),
        "far indices": SparseCase(
            d_qk,
            300,
            most,
            (permuted,) * len(slots),
            (B_TOPK,) * len(slots),
            values="normal",
            seed=11,
            h_q=h_q,
            s_q=end + 1,
            at=slots,
        ),
        **{
            f"topk {blocks * B_TOPK}": SparseCase(
                d_qk, 9000, blocks, (permuted,), values="normal", seed=blocks, h_q=h_q
            )
            for blocks in MOST_BLOCKS
        },
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
    kept: list[tuple[int, ...]] = [(n,) for n in range(count)] if count > 2 else []
    kept += [tuple(m for m in range(count) if m != n) for n in range(count)] if count > 1 else []
    for tokens in kept:
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
