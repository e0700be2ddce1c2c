"""The planted defects of head128-part0: each one a mistake that real kernels of this kind have had.

`stage` is where `tileproof check` must see it; `place` says in words which tiles are wrong.
"""

from __future__ import annotations

from tileproof.conformance.defects import Defect

KERNEL = "head128-part0"
SOURCE = "sm100/head128_part0/kernel.cuh"


def _source(
    id: str, title: str, find: str, replace: str, stage: str, place: str, corpus: str = "", file: str = SOURCE
) -> Defect:
    return Defect(id, title, KERNEL, "source", file, find, replace, stage, place, corpus)


DEFECTS: tuple[Defect, ...] = (
    _source(
        "rope-not-multiplied",
        "the MMA stops before the RoPE columns",
        "step < size<2>(tQ); ++step",
        "step < Plan::d_v / 16; ++step",
        "P",
        "every tile lacks columns 512..575",
    ),
    _source(
        "rope-not-loaded",
        "the gather leaves the RoPE columns out though their bytes are expected",
        "for (int c = 0; c < Cfg::kQkTiles; ++c) {\n        CUTE_UNROLL",
        "for (int c = 0; c < Cfg::kVTiles; ++c) {\n        CUTE_UNROLL",
        "P",
        "hang before k-block 0",
    ),
    _source(
        "swizzle-of-kv",
        "the descriptor of KV names the 64B swizzle",
        "tKV(0, 0, step), idesc",
        "tKV(0, 0, step) ^ (uint64_t(6) << 61), idesc",
        "P",
        "every tile",
        "N9",
    ),
    _source(
        "swizzle-of-q",
        "the descriptor of Q names no swizzle",
        "tQ(0, 0, step), tKV",
        "tQ(0, 0, step) & ~(uint64_t(7) << 61), tKV",
        "P",
        "every tile",
    ),
    _source(
        "transposed-kv",
        "the instruction descriptor says that B is MN-major",
        "UMMA::Major::K, UMMA::Major::K>());",
        "UMMA::Major::K, UMMA::Major::MN>());",
        "P",
        "every tile",
        "R14",
    ),
    _source(
        "buffer-off-by-one",
        "the MMA multiplies with the other KV buffer",
        "make_smem_ptr(smem.kv[b])",
        "make_smem_ptr(smem.kv[b ^ 1])",
        "P",
        "every k-block",
    ),
    _source(
        "kv-ready-parity",
        "the MMA waits for the parity that has already passed",
        "smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);",
        "smem.kv_ready[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);",
        "P",
        "k-block 0 on",
    ),
    _source(
        "q-not-waited-for",
        "the MMA does not wait for Q",
        "smem.q_ready.wait(0);  // also with no k-block: Q's bytes must have landed before the CTAs exit",
        "",
        "P",
        "k-block 0, when Q lands after KV",
        "N9",
    ),
    _source(
        "kv-ready-bytes",
        "the barrier of KV expects half of the bytes",
        "arrive_and_expect_tx(Plan::barrier::kv_ready::tx_bytes)",
        "arrive_and_expect_tx(Plan::barrier::kv_ready::tx_bytes / 2)",
        "P",
        "k-block 0 on",
    ),
    _source(
        "kv-free-not-waited-for",
        "the gather does not wait until the MMA has read the buffer",
        "smem.kv_free[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);",
        "",
        "P",
        "k-block 2 on",
    ),
    _source(
        "accumulator-not-cleared",
        "the first step of a k-block adds to what TMEM holds",
        "step != 0);",
        "true);",
        "P",
        "every tile",
        "R1",
    ),
    _source(
        "p-ready-not-committed",
        "the commit that publishes P is dropped",
        "ptx::commit_pair(smem.p_ready[s].address(), kBothRanks);",
        "",
        "P",
        "hang before k-block 0",
    ),
    _source(
        "p-ready-to-one-cta",
        "the commit that publishes P reaches rank 0 only",
        "ptx::commit_pair(smem.p_ready[s].address(), kBothRanks);",
        "ptx::commit_pair(smem.p_ready[s].address(), 0b01);",
        "P",
        "hang: CTA 1 never sees k-block 0",
        "H5",
    ),
    _source(
        "kv-free-not-committed",
        "the commit that frees the KV buffer is dropped",
        "ptx::commit_pair(smem.kv_free[b].address(), kBothRanks);",
        "",
        "P",
        "hang",
    ),
    _source(
        "one-index-of-four",
        "the third row of each gather4 is the second slot's",
        "key_row(index.z, slot + 2)",
        "key_row(index.y, slot + 1)",
        "P",
        "slots 2, 6, 10, ... of every k-block",
    ),
    _source(
        "index-clamped",
        "an index that is no key is taken as row 0",
        "return is_key ? index : -1;",
        "return is_key ? index : 0;",
        "P",
        "slots that are no key",
        "I2",
    ),
    _source(
        "length-ignored-in-gather",
        "slots past topk_length are gathered",
        "slot < length && index >= 0",
        "index >= 0",
        "P",
        "slots past topk_length of the last k-block",
        "I7",
    ),
    _source(
        "length-not-clamped",
        "topk_length above topk is not clamped",
        "length = max(0, min(length, params.topk));",
        "length = max(0, length);",
        "P",
        "k-blocks past topk",
        "I8",
    ),
    _source(
        "delta-half-row",
        "delta is summed over the first half of the row",
        "constexpr int kVectors = Plan::d_v / (32 * kVector);",
        "constexpr int kVectors = Plan::d_v / (64 * kVector);",
        "delta",
        "every head",
        "N9",
    ),
    _source(
        "delta-half-warp",
        "the shuffle leaves half of the lanes out",
        "for (int mask = 16; mask > 0; mask /= 2)",
        "for (int mask = 8; mask > 0; mask /= 2)",
        "delta",
        "every head",
        "N9",
    ),
    _source(
        "delta-not-stored",
        "delta is never stored",
        "if (lane < kHeadsPerWarp) params.delta[first_row + lane] = delta;",
        "",
        "delta",
        "every head",
    ),
    _source(
        "delta-without-wait",
        "delta reads dO before its bytes have landed",
        "smem.do_ready.wait(0);",
        "",
        "delta",
        "every head",
    ),
    Defect(
        "scale-in-p",
        "the spec's chain scales P, which S scales again",
        KERNEL,
        "reference",
        "tileproof.reference.stages",
        "rounding.matmul(q64, k64.T)",
        "rounding.matmul(q64 * q64.shape[1] ** -0.5, k64.T)",
        "P",
        "every tile",
        "N9",
    ),
    _source(
        "tmem-not-freed",
        "TMEM is still allocated when the kernel ends",
        "TMEM::Allocator2Sm{}.free(smem.tmem_base, Plan::tmem_columns);",
        "",
        "",
        "at exit",
    ),
)
