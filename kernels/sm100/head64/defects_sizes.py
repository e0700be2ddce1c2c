"""Planted defects of head64 that appear only with large problems or large values: narrow offsets and indices,
limits of topk and of rows, lost bits.
"""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect

KERNEL = "head64"


def _source(
    id: str, title: str, file: str, find: str, replacement: str, stage: str, place: str, code: str = ""
) -> PlantedDefect:
    edit = Edit(Place(find, f"sm100/{file}"), replacement)
    return PlantedDefect(f"h64-{id}", title, "", KERNEL, (edit,), InStage(stage, place, code))


DEFECTS: tuple[PlantedDefect, ...] = (
    _source(
        "dkv-offset-32-bits",
        "the offset of a row of dKV in bytes has 32 bits",
        "head64/dkv_export.cuh",
        "ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);",
        "ptx::red_add(out + int(unsigned(row[j]) * unsigned(4 * Plan::d_qk)) / 4, v[j]);",
        "dKV",
        "from row 932,068 of 576 columns on",
        "global-out-of-bounds",
    ),
    _source(
        "rows-above-8192",
        "rows of kv from 8,192 are not taken as keys",
        "context.cuh",
        "index < params.s_kv;",
        "index < min(params.s_kv, 8192);",
        "S",
        "slots of such rows",
    ),
    _source(
        "index-16-bits",
        "an index is cut to 16 bits",
        "context.cuh",
        "return is_key ? index : -1;",
        "return is_key ? index & 0xffff : -1;",
        "P",
        "slots of rows from 65,536 on",
    ),
    _source(
        "topk-2048",
        "k-blocks beyond topk 2048 are skipped",
        "context.cuh",
        "length = max(0, min(length, params.topk));",
        "length = max(0, min(length, min(params.topk, 2048)));",
        "P",
        "k-blocks from 32 on",
    ),
)
