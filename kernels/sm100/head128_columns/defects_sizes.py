"""Planted defects of head128-columns that appear only with many tokens: offsets that are too narrow."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect

_O = "params.o + int64_t(this->token_row() + warp_head) * Plan::d_v + this->first_column()"
_NARROW = (
    "params.o + int(unsigned(this->token_row() + warp_head) * unsigned(2 * Plan::d_v)) / 2"
    " + this->first_column()"
)
_INDICES = "indices = params.indices + int64_t(token) * params.topk;"
DEFECTS: tuple[PlantedDefect, ...] = (
    PlantedDefect(
        "cols-o-offset-32-bits",
        "the offset of a token's o in bytes has 32 bits",
        "",
        "head128-columns",
        (Edit(Place(_O, "sm100/head128_columns/dkv_export.cuh"), _NARROW),),
        InStage("delta", "tokens from 16,384 on", "global-out-of-bounds", edge="far tokens"),
    ),
    PlantedDefect(
        "cols-indices-offset-32-bits",
        "the offset of a token's indices in elements has 32 bits",
        "",
        "head128-columns",
        (Edit(Place(_INDICES, "sm100/context.cuh"), "indices = params.indices + token * params.topk;"),),
        InStage("P", "tokens from 2^31 / topk on", edge="far indices"),
    ),
)
