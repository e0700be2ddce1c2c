# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head64: one MMA thread, operands by generic stores, dQ stored by TMA."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes

KERNEL = "head64"
FOLDER = "sm100/head64"
SOFTMAX, MMA, LOAD, EXPORT, MAIN = (
    f"{FOLDER}/{name}.cuh" for name in ("softmax", "mma", "load", "dkv_export", "kernel")
)
PASSES = "setp.eq.u32 complete, 0, 0;"
ONE_LANE = r"{ .reg .pred one; .reg .b32 who; mov.u32 who, %laneid; setp.eq.u32 one, who, 0; @one \g<0> }"
PROLOGUE_SYNC = "allocator.release_allocation_lock();\n}\n__syncwarp();\ncluster_sync();"
EPILOGUE_SYNC = "ptx::fence_before_thread_sync();\ncluster_sync();"
P_LOAD = "ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column), x);"
DKV_LOAD = "ptx::load_tmem_32_columns(column + 32, v[1]);"
STORE_S = "store_operand(cast_smem_ptr_to_uint(smem.s), s);"
STORE_DQ = (
    "ptx::tma_store_2d(&params.dQ_map, staged + c * Cfg::kColTileBytes, c * kColTile, this->first_head());"
)
DQ_BARRIER = 'asm volatile("bar.sync %0, %1;" : : "n"(kNamedBarrier), "n"(kThreads) : "memory");'
DQ_PART = (
    "ptx::mma_ws_f16_ss(d, further(a, key * 2), further(b, key * kRowBytes), idesc, accumulate || key != 0);"
)
DKV_PART = "ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), further(first_b, head * kRowBytes), idesc,"
SCORES = "ptx::mma_ws_f16_ss(d, further(first_a, at), further(first_b, at), idesc, step != 0);"
GATHER = "ptx::tma_gather4_own(to + c * Cfg::kColTileBytes + kGather * g * kRowBytes, &params.kv_map,"
LAST_PART = "if (k != 0) dkv(k - 1, Cfg::kDkvParts - 1);"
FREE_HI = "ptx::commit(smem.kv_hi_free.address());"
PART_WAIT = "smem.dkv_free[part % Cfg::kDkvStages].wait_own((use & 1) ^ 1);"
EMPTY = Sizes(blocks=2, lengths=(0, None))


def _ptx(file: str, at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


def _source(file: str, find: str, replacement: str = "") -> Edit:
    return Edit(Place(find, file), replacement)


DEFECTS: tuple[PlantedDefect, ...] = (
    PlantedDefect(
        "h64-dq-without-proxy-fence", "dQ is stored by TMA without fence.proxy.async", "R4", KERNEL,
        (_ptx(SOFTMAX, "ptx::fence_before_thread_sync();\nptx::fence_proxy_async_shared();", "fence.proxy"),),
        Reported("race-proxy-fence", "cp.async.bulk.tensor", "st.shared", "fence.proxy.async", second_at=f"{SOFTMAX}: {STORE_DQ}", first_at="sm100/head64/softmax.cuh: ptx::store_shared_16(tile + swizzled_chunk(head, col % kColTile / kChunk + c), pack<typename Cfg::Element>(v + c * kChunk));"),
    ),
    PlantedDefect(
        "h64-s-without-proxy-fence", "S is multiplied without fence.proxy.async", "R4", KERNEL,
        (_ptx(SOFTMAX, f"{STORE_S}\nptx::fence_proxy_async_shared();", "fence.proxy"),),
        Reported("race-proxy-fence", "tcgen05.mma", "st.shared", "fence.proxy.async", first_at=f"{SOFTMAX}: {STORE_S}", second_at=f"{MMA}: {DKV_PART}"),
    ),
    PlantedDefect(
        "h64-dq-warp-sync", "each warp syncs with itself where the warpgroup should before dQ is stored",
        "R5 R3 R12", KERNEL, (_ptx(SOFTMAX, DQ_BARRIER, "bar.sync", "bar.warp.sync -1;"),),
        Reported("race-unordered", "cp.async.bulk.tensor", "st.shared", "a barrier", second_at="sm100/head64/softmax.cuh: ptx::tma_store_2d(&params.dQ_map, staged + c * Cfg::kColTileBytes, c * kColTile, this->first_head());", first_at="sm100/head64/softmax.cuh: ptx::store_shared_16(tile + swizzled_chunk(head, col % kColTile / kChunk + c), pack<typename Cfg::Element>(v + c * kChunk));"),
    ),
    PlantedDefect(
        "h64-dq-store-not-waited-for", "the CTA may exit while dQ is still being stored", "R3", KERNEL,
        (_ptx(SOFTMAX, "ptx::commit_bulk_group();\nptx::wait_bulk_groups();", "cp.async.bulk.wait_group"),),
        Reported("race-store-exit", "ret", "cp.async.bulk.tensor", "wait_group", first_at=f"{SOFTMAX}: {STORE_DQ}", severity="warning"),
    ),
    PlantedDefect(
        "h64-p-read-without-fence", "P is read without tcgen05.fence::after_thread_sync", "R5", KERNEL,
        (_ptx(SOFTMAX, "smem.p_ready.wait_own(parity);\nptx::fence_after_thread_sync();", "tcgen05.fence"),),
        Reported("race-commit-fence", "tcgen05.ld", "tcgen05.mma", "after_thread_sync", second_at=f"{SOFTMAX}: {P_LOAD}", first_at=f"{MMA}: {SCORES}", severity="warning"),
    ),
    PlantedDefect(
        "h64-dkv-freed-without-fence", "a dKV part is freed without tcgen05.fence::before_thread_sync", "R1",
        KERNEL, (_ptx(EXPORT, f"{DKV_LOAD}\nptx::wait_tmem_loads();\nptx::fence_before_thread_sync();", "tcgen05.fence", count=4),),
        Reported("race-waited-fence", "tcgen05.mma", "tcgen05.ld", "before_thread_sync", second_at=f"{MMA}: {DKV_PART}", first_at="sm100/head64/dkv_export.cuh: ptx::load_tmem_32_columns(column, v[0]);", severity="warning"),
    ),
    PlantedDefect(
        "h64-dkv-not-free", "an MMA does not wait until the dKV part before it has been read", "R1 R2", KERNEL,
        (_ptx(MMA, PART_WAIT, "mbarrier.try_wait", PASSES, count=5),),
        Reported("hang", says=("waits for phase 0 of dkv_ready[0]", "went on to phase 6", "lane 0 of warp 12 (mma)")),
    ),
    PlantedDefect(
        "h64-p-by-arrival", "P is published by an arrival of the issuing thread, not by its commit", "R13",
        KERNEL, (_ptx(MMA, "ptx::commit(smem.p_ready.address());", "tcgen05.commit", r"mbarrier.arrive.release.cta.shared::cta.b64 _, \1;", r"tcgen05\.commit\S+ (\[%r\d+\]);"),),
        Reported("race-mma-unwaited", "tcgen05.ld", "tcgen05.mma", "tcgen05.commit", second_at="sm100/head64/softmax.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column), x);", first_at=f"{MMA}: {SCORES}"),
    ),
    PlantedDefect(
        "h64-keys-freed-by-arrival", "KV is freed by arrivals, not by commits", "R13 R1", KERNEL,
        (_ptx(MMA, "ptx::commit(smem.kv_lo_free.address());", "tcgen05.commit", r"mbarrier.arrive.release.cta.shared::cta.b64 _, \1;", r"tcgen05\.commit\S+ (\[%r\d+\]);"),),
        Reported("race-mma-unwaited", "cp.async.bulk.tensor", "tcgen05.mma", "tcgen05.commit", second_at=f"{LOAD}: {GATHER}", first_at=f"{MMA}: {DQ_PART}"),
    ),
    PlantedDefect(
        "h64-keys-not-waited-for", "the MMA does not wait for the lower columns of the keys", "R13", KERNEL,
        (_ptx(MMA, "smem.kv_lo_ready.wait_own(parity);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "tcgen05.mma", "cp.async.bulk.tensor", "mbarrier phase", second_at=f"{MMA}: {SCORES}", first_at=f"{LOAD}: {GATHER}"),
    ),
    PlantedDefect(
        "h64-upper-columns-not-waited-for", "the MMA does not wait for the last of the upper columns of the keys", "R13", KERNEL,
        (_ptx(MMA, "smem.kv_hi_ready[1].wait_own(parity);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "tcgen05.mma", "cp.async.bulk.tensor", "mbarrier phase", second_at=f"{MMA}: {SCORES}", first_at=f"{LOAD}: {GATHER}"),
    ),
    PlantedDefect(
        "h64-upper-columns-freed-early", "the upper columns are freed before dQ has multiplied with them", "R1", KERNEL,
        (_source(MMA, f"dq_part(1, k != 0);\n      {FREE_HI}", f"{FREE_HI}\n      dq_part(1, k != 0);"),),
        Reported("race-mma-unwaited", "cp.async.bulk.tensor", "tcgen05.mma", "tcgen05.commit", second_at=f"{LOAD}: {GATHER}", first_at=f"{MMA}: {DQ_PART}"),
    ),
    PlantedDefect(
        "h64-part-3-behind-p-ready", "part 3 of dKV reads S and dS after the commit that frees them", "R8 R1", KERNEL,
        (_source(MMA, f"{LAST_PART}\n"), _source(MMA, "ptx::commit(smem.dp_ready.address());", f"ptx::commit(smem.dp_ready.address());\n      {LAST_PART}")),
        Reported("race-mma-unwaited", "st.shared", "tcgen05.mma", "tcgen05.commit", second_at=f"{SOFTMAX}: {STORE_S}"),
    ),
    PlantedDefect(
        "h64-one-lane-arrives-on-s", "one lane of each warp arrives on s_ready, which expects all", "H7", KERNEL,
        (_ptx(SOFTMAX, "smem.s_ready.arrive();", "mbarrier.arrive", ONE_LANE, ".+"),),
        Reported("hang", says=("of s_ready of CTA", "lacks 124 of 128 arrivals", "4 arrivals came")),
    ),
    PlantedDefect(
        "h64-count-too-large", "s_ready expects an arrival too many", "H7", KERNEL,
        (_ptx(MAIN, "smem.s_ready.init(B::s_ready::count);", "mbarrier.init", "129;", r"%r\d+;$"),),
        Reported("hang", says=("of s_ready of CTA", "lacks 1 of 129 arrivals", "128 arrivals came", "its count of 129 was set")),
    ),
    PlantedDefect(
        "h64-count-too-small", "s_ready is complete when three of four warps have arrived", "H7", KERNEL,
        (_ptx(MAIN, "smem.s_ready.init(B::s_ready::count);", "mbarrier.init", "96;", r"%r\d+;$"),),
        Reported("race-unordered", "tcgen05.mma", "st.shared", "a barrier", second_at=f"{MMA}: {DKV_PART}", first_at="sm100/head64/softmax.cuh: ptx::store_shared_16(tile + swizzled_chunk(head, half * (kKeysPerThread / kChunk) + c),"),
    ),
    PlantedDefect(
        "h64-wrong-barrier", "the commit that publishes dP arrives on p_ready", "", KERNEL,
        (_source(MMA, "ptx::commit(smem.dp_ready.address());", "ptx::commit(smem.p_ready.address());"),),
        Reported("hang", says=("waits for phase 0 of p_ready", "went on to phase 2", "lane 0 of warp 12 (mma)")),
    ),
    PlantedDefect(
        "h64-init-not-ordered", "mbarrier.init is released by no fence, and the cluster barrier is relaxed",
        "R10 R9", KERNEL, (_ptx(MAIN, "cutlass::arch::fence_barrier_init();", "fence.mbarrier_init"), _ptx(MAIN, PROLOGUE_SYNC, "barrier.cluster.arrive", "barrier.cluster.arrive.relaxed.aligned;")),
        Reported("race-mbarrier-init", "cp.async.bulk.tensor", "mbarrier.init", "a cluster barrier", second_at=f"{LOAD}: {GATHER}", first_at="sm100/head64/kernel.cuh: smem.kv_lo_ready.init(B::kv_lo_ready::count);"),
    ),
    PlantedDefect(
        "h64-delta-not-waited-for", "softmax reads delta without waiting for the warps that sum it", "R6",
        KERNEL, (_ptx(SOFTMAX, "smem.delta_ready.wait_own(0);", "mbarrier.try_wait", PASSES),),
        Reported("race-unordered", "st.shared", "ld.shared", "a barrier", second_at="sm100/head64/dkv_export.cuh: smem.delta[warp_head + lane] = delta;", first_at="sm100/head64/softmax.cuh: const float delta = smem.delta[head];"),
    ),
    PlantedDefect(
        "h64-delta-half-written", "every other head of delta is never written to shared memory", "R7", KERNEL,
        (_source(EXPORT, "smem.delta[warp_head + lane] = delta;", "if (lane % 2 == 0) smem.delta[warp_head + lane] = delta;"),),
        Reported("shared-uninitialised", "ld.shared", second_at="sm100/head64/softmax.cuh: const float delta = smem.delta[head];"),
    ),
    PlantedDefect(
        "h64-ds-over-s", "dS is stored over S, which MMAs still read", "R8", KERNEL,
        (_source(SOFTMAX, "store_operand(cast_smem_ptr_to_uint(smem.ds), x);", "store_operand(cast_smem_ptr_to_uint(smem.s), x);"),),
        Reported("race-unordered", "tcgen05.mma", "st.shared", "a barrier", first_at=f"{SOFTMAX}: store_operand(cast_smem_ptr_to_uint(smem.s), x);", second_at=f"{MMA}: {DKV_PART}"),
    ),
    PlantedDefect(
        "h64-dq-staged-too-early", "dQ is staged in KV's bytes without waiting for the last MMAs", "R8 R1",
        KERNEL, (_ptx(SOFTMAX, "smem.dq_ready.wait_own(0);", "mbarrier.try_wait", PASSES),),
        Reported("race-unordered", "tcgen05.mma", "tcgen05.ld", "a wait for its completion before the first", second_at=f"{MMA}: {DQ_PART}", first_at="sm100/head64/softmax.cuh: ptx::load_tmem_32_columns(this->tmem(column + at), v);"),
    ),
    PlantedDefect(
        "h64-two-shapes", "the RoPE columns of dQ are accumulated in the columns of its first part", "R14 R8",
        KERNEL, (_source(MMA, "ptx::mma_ws_f16_ss(tmem + Plan::tmem::dQ_rope::column, further(a", "ptx::mma_ws_f16_ss(tmem + Plan::tmem::dQ::column, further(a"),),
        Reported("race-mma-pipeline", "tcgen05.mma", "tcgen05.mma", "tcgen05.commit", second_at=f"{MMA}: ptx::mma_ws_f16_ss(tmem + Plan::tmem::dQ::column, further(a, key * 2),", first_at=f"{MMA}: {DQ_PART}"),
    ),
    PlantedDefect(
        "h64-empty-token-waits", "a token without a k-block waits for dQ", "H1", KERNEL,
        (_source(SOFTMAX, "if (k_blocks > 0) {\n      smem.dq_ready.wait_own(0);", "{\n      smem.dq_ready.wait_own(0);"),),
        Reported("hang", says=("phase 0 of dq_ready of CTA 0 lacks 1 of 1 arrival", "nothing has ever arrived at it")), sizes=EMPTY,
    ),
    PlantedDefect(
        "h64-export-stops-early", "dkv_export leaves one k-block out", "H2", KERNEL,
        (_source(EXPORT, "for (int k = 0; k < k_blocks; ++k) {", "for (int k = 0; k < k_blocks - 1; ++k) {"),),
        Reported("hang", says=("phase 4 (k-block 2) of dkv_free[0] of CTA 0 lacks 128 of 128 arrivals", "warp 8 (dkv_export) of CTA 0", "can no longer come to")),
    ),
    PlantedDefect(
        "h64-whole-warp-loads", "the loads have lost their elected thread", "R12 H7", KERNEL,
        (_source(MAIN, "if (elect_one_sync()) Load<Plan>(*this).run();", "Load<Plan>(*this).run();"),),
        Reported("mbarrier-over-arrival", "mbarrier.arrive.expect_tx", says=("expects 1 arrivals and has 0 left",), second_at=f"{LOAD}: smem.q_ready.arrive_own_and_expect_tx(Plan::barrier::q_ready::tx_bytes);"),
    ),
    PlantedDefect(
        "h64-aligned-in-branches", "the two halves of a warp reach bar.sync at two places", "R11", KERNEL,
        (_source(SOFTMAX, DQ_BARRIER, DQ_BARRIER.replace("asm", "if (lane < 16) asm", 1) + "\n    else " + DQ_BARRIER.replace("%1;", "%1;  // upper lanes")),),
        Reported("hang", says=("a cycle of waits", "lanes 16-31 of warp 4", "lanes 0-15 of warp 4", "these have diverged")),
    ),
)  # fmt: skip
