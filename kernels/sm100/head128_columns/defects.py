"""The planted defects of head128-columns: of the exchange between its CTAs, and of the columns they share.

`stage` is where `tileproof check` must see it first; `place` says in words which elements are wrong.
"""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.sm100 import defects_f16
from tileproof.kernels.sm100.head128_columns import (
    defects_dq,
    defects_pair,
    defects_signal,
    defects_sizes,
    defects_synchronisation,
)

KERNEL = "head128-columns"
FOLDER = "sm100/head128_columns"


def _source(
    id: str, title: str, file: str, edits: tuple[tuple[str, str], ...], stage: str, place: str, code: str = ""
) -> PlantedDefect:
    return PlantedDefect(
        f"cols-{id}", title, "", KERNEL,
        tuple(Edit(Place(find, f"{FOLDER}/{file}.cuh"), replacement) for find, replacement in edits),
        InStage(stage, place, code),
    )  # fmt: skip


VALUES: tuple[PlantedDefect, ...] = (
    _source(
        "same-columns",
        "both CTAs take the columns of rank 0: half of them twice, half not",
        "config",
        (("return this->rank * Base::Cfg::kCols;", "return 0;"),),
        "delta",
        "every head",
    ),
    _source(
        "half-twice",
        "P has the lower columns twice and the upper columns not at all",
        "mma",
        (
            (
                "(q + (Cfg::kHalfTiles + tile) * Cfg::kHeadTileBytes, kv_hi(k) + tile",
                "(q + tile * Cfg::kHeadTileBytes, kv_lo(k) + tile",
            ),
        ),
        "P",
        "every tile",
    ),
    _source(
        "rope-not-multiplied",
        "P lacks the RoPE columns",
        "mma",
        (
            (
                "for (int step = 0; step < Cfg::kRope; step += kMmaK)",
                "for (int step = 0; step < 0; step += kMmaK)",
            ),
        ),
        "P",
        "every tile",
    ),
    _source(
        "share-lost",
        "of every fourth key the peer's share is not added",
        "softmax",
        (("x[c * kQuad + 3] += __uint_as_float(v.w);", ""),),
        "S",
        "every fourth slot",
    ),
    _source(
        "share-swapped",
        "the shares of two neighbouring heads are swapped on their way",
        "softmax",
        (
            (
                "const uint32_t to = this->in_peer(share(k));",
                "const uint32_t to = this->in_peer(share(k)) ^ 16;",
            ),
        ),
        "S",
        "every head",
    ),
    _source(
        "share-to-itself",
        "a CTA sends its shares to itself",
        "softmax",
        (
            ("const uint32_t to = this->in_peer(share(k));", "const uint32_t to = share(k);"),
            (
                "const uint32_t ready = this->in_peer(smem.in_ready.address());",
                "const uint32_t ready = smem.in_ready.address();",
            ),
        ),
        "S",
        "every head",
    ),
    _source(
        "delta-of-own-columns",
        "delta lacks the peer's columns",
        "softmax",
        (("smem.delta_own[head] + smem.delta_incoming[head];", "smem.delta_own[head];"),),
        "delta",
        "every head",
    ),
    _source(
        "copy-swapped",
        "in the peer's copies of S and dS two neighbouring heads are swapped",
        "softmax",
        (
            (
                "ptx::store_async_16(peer + at, chunk, peer_ready);",
                "ptx::store_async_16((peer + at) ^ 16, chunk, peer_ready);",
            ),
        ),
        "S",
        "slots of the other CTA's keys",
    ),
    _source(
        "dp-not-cleared",
        "dP accumulates onto P",
        "mma",
        (("scores(dO, kv_lo(k), d, false);", "scores(dO, kv_lo(k), d, true);"),),
        "dP",
        "every tile",
    ),
    _source(
        "rope-keys",
        "the RoPE part of dKV is added to the rows of the first quarter of the keys",
        "dkv_export",
        (("const int first = kKeys * (warp % 4);", "const int first = 0;"),),
        "dKV",
        "RoPE columns",
    ),
    _source(
        "rope-of-rank-0",
        "both CTAs add the RoPE part of dKV to the columns of rank 0",
        "dkv_export",
        (("params.dKV + this->first_rope_column() + lane;", "params.dKV + Plan::d_v + lane;"),),
        "dKV",
        "the last 64 columns",
    ),
    _source(
        "dq-block-added-twice",
        "k-block 1 is added to dQ twice",
        "mma",
        (("dq_all(kv_lo(k), k != 0);", "dq_all(kv_lo(k), k != 0); if (k == 1) dq_all(kv_lo(k), true);"),),
        "dQ",
        "NoPE columns, from k-block 1 on",
    ),
    _source(
        "dq-of-one-tile",
        "dQ's columns are all made of the first column tile of keys",
        "mma",
        (("mn_major<Cfg::kKeys>(kv, 0, 0)", "operand_descriptor(kv, 0)"),),
        "dQ",
        "all but 64 of each CTA's columns",
    ),
)
DEFECTS: tuple[PlantedDefect, ...] = (
    *VALUES,
    *defects_synchronisation.DEFECTS,
    *defects_signal.DEFECTS,
    *defects_dq.DEFECTS,
    *defects_pair.DEFECTS,
    *defects_sizes.DEFECTS,
    *defects_f16.defects(KERNEL, "cols"),
)
