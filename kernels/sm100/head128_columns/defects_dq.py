# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head128-columns, before the first k-block, and in the output of dQ after the
last."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes

KERNEL = "head128-columns"
FOLDER = "sm100/head128_columns"
SOFTMAX, MAIN = (f"{FOLDER}/{name}.cuh" for name in ("softmax", "kernel"))
STAGED = f"{SOFTMAX}: ptx::store_shared_16(staged + swizzled_chunk(head, half * (32 / kChunk) + c), pack<typename Cfg::Element>(v + c * kChunk));"
NAMED_BARRIER = 'asm volatile("bar.sync %0, %1;" : : "n"(kNamedBarrier), "n"(kThreads) : "memory");'
STORE = (
    "ptx::tma_store_2d(&params.dQ_map, staged, this->first_column() + tile * kColTile, this->token_row());"
)
FENCE = "pack<typename Cfg::Element>(v + c * kChunk));\n}\nptx::fence_proxy_async_shared();"  # of a column tile, not of RoPE columns
SIZES = Sizes(d_qk=512, blocks=2)


def _ptx(file: str, at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


DEFECTS = (
    PlantedDefect(
        "cols-dq-early", "dQ is read before its last MMA is complete", "", KERNEL,
        (_ptx(SOFTMAX, "ready.wait_own(0);", "mbarrier.try_wait", "setp.eq.u32 complete, 0, 0;", count=2),),
        Reported("race-unordered", "tcgen05.mma", "tcgen05.ld", "a barrier", first_at=f"{SOFTMAX}: ptx::load_tmem_32_columns(tmem_row() + column, v);"), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-dq-without-proxy-fence", "a column tile of dQ is stored without fence.proxy.async of who staged it", "", KERNEL,
        (_ptx(SOFTMAX, FENCE, "fence.proxy", count=4),),
        Reported("race-proxy-fence", "cp.async.bulk.tensor", "st.shared", "fence.proxy.async", first_at=STAGED), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-dq-of-one-warp", "a column tile of dQ is stored before the other warps have staged their part", "", KERNEL,
        (_ptx(SOFTMAX, f"{FENCE}\n{NAMED_BARRIER}", "bar.sync", "bar.warp.sync -1;", count=4),),
        Reported("race-unordered", "cp.async.bulk.tensor", "st.shared", "a barrier", first_at=STAGED), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-dq-exit", "the CTA exits before dQ's bulk stores have read shared memory", "", KERNEL,
        (_ptx(SOFTMAX, "ptx::wait_bulk_groups_read();", "cp.async.bulk.wait_group"),),
        Reported("race-store-exit", "ret", "cp.async.bulk.tensor", "wait_group", first_at=f"{SOFTMAX}: {STORE}", severity="warning"), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-inits-unseen", "a load warp counts bytes on barriers that the other has not initialised", "", KERNEL,
        (_ptx(MAIN, 'asm volatile("bar.sync %0, %1;" : : "n"(kLoadBarrier), "n"(32 * Plan::role::load::warps) : "memory");', "bar.sync"),),
        Reported("race-mbarrier-init", "mbarrier.try_wait", "mbarrier.init", "a barrier between them", first_at=f"{MAIN}: smem.kv_lo_free[b].init(B::kv_lo_free::count);"), sizes=SIZES,
    ),
)  # fmt: skip
