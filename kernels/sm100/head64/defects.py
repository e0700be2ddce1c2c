"""The planted defects of head64: mistakes of kernels of this family, most from the public corpus.

`stage` is where `tileproof check` must see it first; `place` says in words which elements are wrong.
"""

from __future__ import annotations

import posixpath

from tileproof.kernels.edit import ANY, Edit, InStage, Place, PlantedDefect
from tileproof.kernels.sm100 import defects_f16
from tileproof.kernels.sm100.head64 import defects_numeric, defects_sizes, defects_synchronisation

KERNEL = "head64"
FOLDER = "sm100/head64"


def _source(
    id: str,
    title: str,
    file: str,
    find: str,
    replacement: str,
    stage: str,
    place: str,
    corpus: str = "",
    count: int = 1,
    code: str = "",
    edge: str = "",
) -> PlantedDefect:
    there = Place(find, posixpath.normpath(f"{FOLDER}/{file}"), count)
    wanted = InStage(stage, place, code, edge=edge)
    return PlantedDefect(id, title, corpus, KERNEL, (Edit(there, replacement),), wanted)


def _ptx(
    id: str, title: str, find: str, replacement: str, stage: str, place: str, corpus: str = ""
) -> PlantedDefect:
    """In the PTX, wherever `find` is."""
    edits = (Edit(Place(find, count=ANY), replacement),)
    return PlantedDefect(id, title, corpus, KERNEL, edits, InStage(stage, place))


_SCATTER = "if (Every || row[j] >= 0) ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);"
_ADD_ZERO = "ptx::red_add(out + int64_t(max(row[j], 0)) * Plan::d_qk, row[j] >= 0 ? v[j] : 0.0f);"
_EXP2 = "(keys >> j & 1) ? ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse)) : 0.0f;"
_KEY = "slot < length && index >= 0 && index < params.s_kv"

_INDICES = (
    _source(
        "h64-added-zero",
        "a slot without a key adds a zero to row 0",
        "dkv_export.cuh",
        _SCATTER,
        _ADD_ZERO,
        "dKV",
        "rows that no key selects",
        "I1",
        edge="no keys",
    ),
    _source(
        "h64-s-not-masked",
        "S of slots without a key is exp2(0 - lse)",
        "softmax.cuh",
        _EXP2,
        "ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse));",
        "S",
        "slots that are no key",
        "I2 I5 N3",
    ),
    _source(
        "h64-slot-against-s-kv",
        "the slot, not the index, is compared with s_kv",
        "../context.cuh",
        _KEY,
        "slot < length && index >= 0 && slot < params.s_kv",
        "S",
        "slots from s_kv on",
        "I3",
        edge="indices",
    ),
    _source(
        "h64-index-clamped",
        "an invalid index is taken as row 0",
        "../context.cuh",
        "return is_key ? index : -1;",
        "return is_key ? index : 0;",
        "P",
        "slots that are no key",
        "I6",
    ),
    _source(
        "h64-length-ignored",
        "slots past topk_length are gathered",
        "../context.cuh",
        "slot < length && index >= 0",
        "index >= 0",
        "S",
        "slots past topk_length of the last k-block",
        "I7",
    ),
    _source(
        "h64-length-not-clamped",
        "topk_length above topk is not clamped",
        "../context.cuh",
        "length = max(0, min(length, params.topk));",
        "length = max(0, length);",
        "P",
        "k-blocks past topk",
        "I8",
    ),
    _ptx(
        "h64-stored-not-added",
        "dKV is stored where it must be added",
        "red.global.add.f32",
        "st.global.f32",
        "dKV",
        "every row with more than one contribution",
        "I9 I10",
    ),
    _source(
        "h64-pad-is-s-kv",
        "index s_kv counts as a key",
        "../context.cuh",
        "index < params.s_kv;",
        "index <= params.s_kv;",
        "S",
        "slots with index s_kv",
        "I13",
    ),
    _source(
        "h64-second-half-gathered-twice",
        "the gather of the upper keys uses the slots of the lower keys",
        "load.cuh",
        "keys_from(k * Plan::b_topk + row)",
        "keys_from(k * Plan::b_topk + row % 32)",
        "P",
        "slots 32..63 of every k-block",
    ),
)

_SCORES = (
    _source(
        "h64-delta-half-row",
        "delta is summed over the first half of the row",
        "../delta.cuh",
        "kVectors = Columns / (32 * kVector);",
        "kVectors = Columns / (64 * kVector);",
        "delta",
        "every head",
        "N9",
    ),
    _source(
        "h64-rope-not-multiplied",
        "P stops before the RoPE columns",
        "mma.cuh",
        "scores<Cfg::kVTiles, Cfg::kQkTiles>(q",
        "scores<Cfg::kVTiles, Cfg::kVTiles>(q",
        "P",
        "every tile lacks columns 512..575",
    ),
    _source(
        "h64-p-not-cleared",
        "the first step of P and dP adds to what TMEM holds",
        "mma.cuh",
        "idesc, step != 0);",
        "idesc, true);",
        "P",
        "every tile",
        "R14",
        code="tmem-uninitialised",
    ),
    _source(
        "h64-half-the-bytes",
        "the MMA starts when half of the lower columns have landed",
        "load.cuh",
        "arrive_own_and_expect_tx(Plan::barrier::kv_lo_ready::tx_bytes)",
        "arrive_own_and_expect_tx(Plan::barrier::kv_lo_ready::tx_bytes / 2)",
        "P",
        "k-block 0 on",
        "R13",
        code="plan-barrier-bytes",
    ),
    _source(
        "h64-lse-of-the-neighbour",
        "S takes the lse of the neighbouring head",
        "softmax.cuh",
        "__ldg(params.lse + this->first_head() + head)",
        "__ldg(params.lse + this->first_head() + (head ^ 1))",
        "S",
        "every head",
    ),
    _ptx(
        "h64-without-log2e",
        "the exponent lacks the factor log2(e): sm_scale is read where sm_scale_log2e is wanted",
        "+604];",
        "+600];",
        "S",
        "every tile",
        "N6",
    ),
    _source(
        "h64-lse-base-e",
        "lse is taken as a natural logarithm",
        "softmax.cuh",
        "-lse)) : 0.0f",
        "-1.44269504f * lse)) : 0.0f",
        "S",
        "every tile",
        "N6",
    ),
    _source(
        "h64-s-not-swizzled",
        "S and dS are stored without the 128B swizzle",
        "softmax.cuh",
        "tile + swizzled_chunk(head, half * (kKeysPerThread / kChunk) + c)",
        "tile + kRowBytes * head + 16 * (half * (kKeysPerThread / kChunk) + c)",
        "S",
        "heads that are no multiple of 8",
        "N9",
    ),
    _source(
        "h64-bf16-truncated",
        "bf16 copies are cut off, not rounded",
        "../ptx.cuh",
        'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));',
        "packed = (__float_as_uint(high) & 0xffff0000u) | (__float_as_uint(low) >> 16);",
        "S",
        "scattered elements",
        "N1",
    ),
    _source(
        "h64-dp-column-tile",
        "dP stops before the last 64 columns",
        "mma.cuh",
        "scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1)>(dO",
        "scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1) - Part>(dO",
        "dP",
        "every tile lacks columns 448..511",
    ),
)

_DS = (
    _source(
        "h64-ds-from-rounded-s",
        "dS is made from the bf16 copy of S",
        "softmax.cuh",
        "s[j] * (x[j] - delta)",
        "float(cutlass::bfloat16_t(s[j])) * (x[j] - delta)",
        "dS",
        "scattered elements",
        "N1",
    ),
    _source(
        "h64-ds-without-scale",
        "dS is not scaled",
        "softmax.cuh",
        "(x[j] - delta) * params.sm_scale :",
        "(x[j] - delta) :",
        "dS",
        "every tile",
        "N9",
    ),
    _source(
        "h64-ds-fixed-scale",
        "dS is scaled by 1 / sqrt(d_qk), not by the argument",
        "softmax.cuh",
        "(x[j] - delta) * params.sm_scale :",
        "(x[j] - delta) * rsqrtf(float(Plan::d_qk)) :",
        "dS",
        "every tile, when sm_scale is another number",
        "N9",
        edge="wide",
    ),
    _source(
        "h64-ds-without-delta",
        "dS lacks delta",
        "softmax.cuh",
        "(x[j] - delta)",
        "x[j]",
        "dS",
        "every tile",
    ),
    _source(
        "h64-delta-of-the-neighbour",
        "dS takes the delta of the neighbouring head",
        "softmax.cuh",
        "smem.delta[head]",
        "smem.delta[head ^ 1]",
        "dS",
        "every head",
        "R7",
    ),
    _source(
        "h64-buffers-merged",
        "dS is stored over S",
        "softmax.cuh",
        "store_operand(cast_smem_ptr_to_uint(smem.ds), x);",
        "store_operand(cast_smem_ptr_to_uint(smem.s), x);",
        "S",
        "every tile",
        "R8",
    ),
    _source(
        "h64-one-lane-arrives",
        "one lane of each warp arrives on s_ready, which expects all",
        "softmax.cuh",
        "smem.s_ready.arrive();",
        "if (lane == 0) smem.s_ready.arrive();",
        "S",
        "hang at k-block 0",
        "H7",
    ),
)

_DQ = (
    _source(
        "h64-dq-cleared",
        "every k-block clears dQ",
        "mma.cuh",
        "dq_part(0, k != 0)",
        "dq_part(0, false)",
        "dQ",
        "tokens of more than one k-block",
    ),
    _source(
        "h64-dq-not-cleared",
        "the first k-block adds to what TMEM holds",
        "mma.cuh",
        "dq_part(0, k != 0)",
        "dq_part(0, true)",
        "dQ",
        "every token",
        "R14",
    ),
    _source(
        "h64-dq-block-added-twice",
        "k-block 1 is added to dQ twice",
        "mma.cuh",
        "dq_part(0, k != 0);",
        "dq_part(0, k != 0); if (k == 1) dq_part(0, true);",
        "dQ",
        "columns 0..255, from k-block 1 on",
    ),
    _source(
        "h64-dq-block-left-out",
        "k-block 1 is not added to dQ",
        "mma.cuh",
        "dq_part(0, k != 0);",
        "if (k != 1) dq_part(0, k != 0);",
        "dQ",
        "columns 0..255, from k-block 1 on",
    ),
    _source(
        "h64-dq-cleared-once",
        "k-block 1 clears dQ",
        "mma.cuh",
        "dq_part(1, k != 0);",
        "dq_part(1, k != 0 && k != 1);",
        "dQ",
        "columns 256..511, from k-block 1 on",
    ),
    _source(
        "h64-dq-another-block-twice",
        "k-block 1 is not added to dQ, k-block 2 twice: no output shows it where their keys are the same",
        "mma.cuh",
        "dq_part(0, k != 0);",
        "if (k != 1) dq_part(0, k != 0); if (k == 2) dq_part(0, true);",
        "dQ",
        "columns 0..255, after k-block 1",
    ),
    _source(
        "h64-dq-lower-keys-twice",
        "dQ multiplies the lower keys twice and the upper keys never",
        "mma.cuh",
        "ptx::mma_ws_f16_ss(d, further(a, key * 2), further(b, key * kRowBytes)",
        "ptx::mma_ws_f16_ss(d, further(a, key % 32 * 2), further(b, key % 32 * kRowBytes)",
        "dQ",
        "every token",
    ),
    _source(
        "h64-dq-columns-swapped",
        "the halves of each 256 columns of dQ are exchanged",
        "softmax.cuh",
        "part * Cfg::kDqN + half * kColumns",
        "part * Cfg::kDqN + (1 - half) * kColumns",
        "dQ",
        "columns 0..511",
    ),
    _source(
        "h64-empty-token-forgotten",
        "a token without a k-block leaves dQ as it was",
        "softmax.cuh",
        "    store_dq();\n",
        "    if (k_blocks > 0) store_dq();\n",
        "dQ",
        "tokens without a k-block",
        "H1",
    ),
)

_DKV = (
    _source(
        "h64-dkv-without-s",
        "dS^T q overwrites S^T dO",
        "mma.cuh",
        "dkv_part(q, ds, part, true);",
        "dkv_part(q, ds, part, false);",
        "dKV",
        "columns 0..511 of every tile",
    ),
    _source(
        "h64-dkv-s-for-ds",
        "dKV multiplies q with S",
        "mma.cuh",
        "dkv_part(q, ds, part, true);",
        "dkv_part(q, s, part, true);",
        "dKV",
        "columns 0..511 of every tile",
        "N9",
    ),
    _source(
        "h64-dkv-not-cleared",
        "S^T dO adds to what TMEM holds",
        "mma.cuh",
        "dkv_part(dO, s, part, false);",
        "dkv_part(dO, s, part, true);",
        "dKV",
        "every tile",
        "R14",
    ),
    _source(
        "h64-dkv-not-waited-for",
        "an MMA overwrites a dKV part that was not yet read",
        "mma.cuh",
        "smem.dkv_free[part % Cfg::kDkvStages].wait_own((use & 1) ^ 1);",
        "",
        "dKV",
        "parts 2 and 3, when the export is late",
        "R2",
    ),
    _source(
        "h64-dkv-rope-forgotten",
        "the RoPE part of dKV is never added",
        "dkv_export.cuh",
        "if (Cfg::kRope != 0 && part == Cfg::kDkvStages) add_rope(k, rows, tmem, t);",
        "",
        "dKV",
        "columns 512..575 of every row",
    ),
    _source(
        "h64-dkv-one-slot-off",
        "a tile's rows are added to the rows of the neighbouring slots",
        "dkv_export.cuh",
        "__shfl_sync(0xffffffff, rows, j)",
        "__shfl_sync(0xffffffff, rows, j ^ 1)",
        "dKV",
        "rows of every token",
    ),
    _source(
        "h64-dkv-one-block-off",
        "a tile's rows are added to the rows of the previous k-block",
        "dkv_export.cuh",
        "read_indices((k + 1) * Plan::b_topk + lane, next);",
        "read_indices(k * Plan::b_topk + lane, next);",
        "dKV",
        "rows of k-block 1 on",
    ),
    _source(
        "h64-tmem-not-freed",
        "TMEM is still allocated when the kernel ends",
        "kernel.cuh",
        "TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);",
        "",
        "",
        "at exit",
        "H6",
    ),
)

VALUES: tuple[PlantedDefect, ...] = (*_INDICES, *_SCORES, *_DS, *_DQ, *_DKV, *defects_numeric.DEFECTS)
DEFECTS: tuple[PlantedDefect, ...] = (
    *VALUES,
    *defects_sizes.DEFECTS,
    *defects_f16.defects(KERNEL, "h64"),
    *defects_synchronisation.DEFECTS,
)
