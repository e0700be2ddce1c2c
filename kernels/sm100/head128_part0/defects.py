"""The planted defects of head128-part0: each is a mistake that real kernels of this kind have had.

`stage` is where `tileproof check` must see it; `place` says in words which tiles are wrong.
"""

from __future__ import annotations

from typing import Any

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.sm100.head128_part0 import defects_synchronisation

KERNEL = "head128-part0"
SOURCE = "sm100/head128_part0/kernel.cuh"
CONTEXT = "sm100/context.cuh"
DELTA = "sm100/delta.cuh"


def _edited(
    id: str,
    title: str,
    find: str,
    replace: str,
    stage: str,
    place: str,
    corpus: str = "",
    file: str = SOURCE,
    **how: Any,
) -> PlantedDefect:
    return PlantedDefect(
        id, title, corpus, KERNEL, (Edit(Place(find, file), replace),), InStage(stage, place, **how)
    )


VALUES: tuple[PlantedDefect, ...] = (
    _edited(
        "rope-not-multiplied",
        "the MMA stops before the RoPE columns",
        "step < Plan::mma::P::k; step += kMmaK",
        "step < Plan::d_v; step += kMmaK",
        "P",
        "every tile lacks columns 512..575",
    ),
    _edited(
        "rope-not-loaded",
        "the gather leaves the RoPE columns out though their bytes are expected",
        "for (int c = 0; c < Cfg::kQkTiles; ++c) {\n        CUTE_UNROLL",
        "for (int c = 0; c < Cfg::kVTiles; ++c) {\n        CUTE_UNROLL",
        "P",
        "hang before k-block 0",
    ),
    _edited(
        "swizzle-of-kv",
        "the descriptor of KV names the 64B swizzle",
        "k_major<Cfg::kKeys>(kv, step), idesc",
        "k_major<Cfg::kKeys>(kv, step) ^ (uint64_t(6) << 61), idesc",
        "P",
        "every tile",
        "N9",
    ),
    _edited(
        "swizzle-of-q",
        "the descriptor of Q names no swizzle",
        "k_major<Cfg::kHeads>(q, step),",
        "k_major<Cfg::kHeads>(q, step) & ~(uint64_t(7) << 61),",
        "P",
        "every tile",
    ),
    _edited(
        "transposed-kv",
        "the instruction descriptor has B as MN-major",
        "UMMA::Major::K, UMMA::Major::K>();",
        "UMMA::Major::K, UMMA::Major::MN>();",
        "P",
        "every tile",
        "R14",
    ),
    _edited(
        "buffer-off-by-one",
        "the MMA multiplies with the other KV buffer",
        "kv = cast_smem_ptr_to_uint(smem.kv[b]);",
        "kv = cast_smem_ptr_to_uint(smem.kv[b ^ 1]);",
        "P",
        "every k-block",
    ),
    _edited(
        "kv-ready-parity",
        "the MMA waits for the parity that has already passed",
        "smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);",
        "smem.kv_ready[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);",
        "P",
        "k-block 0 on",
    ),
    _edited(
        "q-not-waited-for",
        "the MMA does not wait for Q",
        "smem.q_ready.wait(0);  // also with no k-block: Q's bytes must have landed before the CTAs exit",
        "",
        "P",
        "k-block 0, when Q lands after KV",
        "N9",
        examples=400,  # it shows when Q's copy lands after KV's: one random schedule in a few dozen
        policy="random",
    ),
    _edited(
        "kv-ready-bytes",
        "the barrier of KV expects half of the bytes",
        "arrive_own_and_expect_tx(Plan::barrier::kv_ready::tx_bytes)",
        "arrive_own_and_expect_tx(Plan::barrier::kv_ready::tx_bytes / 2)",
        "P",
        "k-block 0 on",
        code="plan-barrier-bytes",
    ),
    _edited(
        "both-gather-the-first-half",
        "both CTAs of the pair gather the first half of the keys",
        "const int slot_in_block = Cfg::kKeys * rank + row_in_tile;",
        "const int slot_in_block = row_in_tile;",
        "P",
        "the second half of the columns",
        "L2",
    ),
    _edited(
        "kv-free-not-waited-for",
        "the gather does not wait until the MMA has read the buffer",
        "smem.kv_free[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);",
        "",
        "P",
        "k-block 2 on",
    ),
    _edited(
        "accumulator-not-cleared",
        "the first step of a k-block adds to what TMEM holds",
        "step != 0);",
        "true);",
        "P",
        "every tile",
        "R1",
    ),
    _edited(
        "p-ready-not-committed",
        "the commit that publishes P is dropped",
        "ptx::commit_pair(smem.p_ready[s].address(), kEveryRank);",
        "",
        "P",
        "hang before k-block 0",
    ),
    _edited(
        "p-ready-to-one-cta",
        "the commit that publishes P reaches rank 0 only",
        "ptx::commit_pair(smem.p_ready[s].address(), kEveryRank);",
        "ptx::commit_pair(smem.p_ready[s].address(), 0b01);",
        "P",
        "hang: CTA 1 never receives k-block 0",
        "H5",
    ),
    _edited(
        "kv-free-not-committed",
        "the commit that frees the KV buffer is dropped",
        "ptx::commit_pair(smem.kv_free[b].address(), kEveryRank);",
        "",
        "P",
        "hang",
    ),
    _edited(
        "one-index-of-four",
        "the third row of each gather4 is the second slot's",
        "key_row(index.z, slot + 2)",
        "key_row(index.y, slot + 1)",
        "P",
        "slots 2, 6, 10, ... of every k-block",
        file=CONTEXT,
    ),
    _edited(
        "index-clamped",
        "an invalid index is taken as row 0",
        "return is_key ? index : -1;",
        "return is_key ? index : 0;",
        "P",
        "slots that are no key",
        "I2",
        file=CONTEXT,
    ),
    _edited(
        "length-ignored-in-gather",
        "slots past topk_length are gathered",
        "slot < length && index >= 0",
        "index >= 0",
        "P",
        "slots past topk_length of the last k-block",
        "I7",
        file=CONTEXT,
    ),
    _edited(
        "length-not-clamped",
        "topk_length above topk is not clamped",
        "length = max(0, min(length, params.topk));",
        "length = max(0, length);",
        "P",
        "k-blocks past topk",
        "I8",
        file=CONTEXT,
    ),
    _edited(
        "delta-half-row",
        "delta is summed over the first half of the row",
        "kVectors = Columns / (32 * kVector);",
        "kVectors = Columns / (64 * kVector);",
        "delta",
        "every head",
        "N9",
        file=DELTA,
    ),
    _edited(
        "delta-half-warp",
        "the shuffle leaves half of the lanes out",
        "for (int mask = 16; mask > 0; mask /= 2)",
        "for (int mask = 8; mask > 0; mask /= 2)",
        "delta",
        "every head",
        "N9",
        file=DELTA,
    ),
    _edited(
        "delta-not-stored",
        "delta is never stored",
        "if (lane < Sum::kHeadsPerWarp) params.delta[first_row + lane] = delta;",
        "",
        "delta",
        "every head",
    ),
    _edited(
        "delta-without-wait",
        "delta reads dO before its bytes have landed",
        "do_ready.wait_own(0);",
        "",
        "delta",
        "every head",
        file=DELTA,
    ),
    _edited(
        "scale-in-p",
        "the spec's chain scales P, which S scales again",
        'add(*tile, symbol="P", memory="TMEM")(attention.P)',
        "def P(m: Arithmetic, q: AsOperand, k: AsOperand) -> AnyTerm:\n"
        '        return m.mul(m.constant("1/24", 1 / 24), attention.P(m, q, k))\n'
        '    add(*tile, symbol="P", memory="TMEM")(P)',
        "P",
        "every tile",
        "N9",
        file="tileproof.spec.problems.sparse_mla_bwd.stages",
    ),
    _edited(
        "tmem-not-freed",
        "TMEM is still allocated when the kernel ends",
        "TMEM::Allocator2Sm{}.free(smem.tmem_base, Plan::tmem_columns);",
        "",
        "",
        "at exit",
    ),
)

DEFECTS: tuple[PlantedDefect, ...] = (*VALUES, *defects_synchronisation.DEFECTS)
