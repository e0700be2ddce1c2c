# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head128-part0: two CTAs, one MMA thread, P in two stages."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes

KERNEL = "head128-part0"
FILE = "sm100/head128_part0/kernel.cuh"
DELTA = "sm100/delta.cuh"
PASSES = "setp.eq.u32 complete, 0, 0;"  # a wait that does not wait
RANK_0 = r"{ .reg .b16 one; mov.b16 one, 1; \1one; }"  # a commit that reaches rank 0 only
EMPTY = Sizes(lengths=(0,))

LD_FENCE = "smem.p_ready[s].wait((k / Cfg::kPStages) & 1);\nptx::fence_after_thread_sync();"
LD_WAIT = (
    "ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);\nptx::wait_tmem_loads();"
)
MMA_FENCE = "smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);\nptx::fence_after_thread_sync();"
PROLOGUE_SYNC = "allocator.release_allocation_lock();\n}\n__syncwarp();\ncluster_sync();"
EPILOGUE_SYNC = "ptx::fence_before_thread_sync();\ncluster_sync();"
FREE_WAIT = "smem.kv_free[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);"
P_COMMIT = "ptx::commit_pair(smem.p_ready[s].address(), kEveryRank);"
KV_COMMIT = "ptx::commit_pair(smem.kv_free[b].address(), kEveryRank);"
COMMIT = "tcgen05.commit"
# An arrival in both CTAs where a multicast commit was.
ARRIVALS = (
    r"{ .reg .b32 there; mapa.shared::cluster.u32 there, \1, 0; "
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; "
    r"mapa.shared::cluster.u32 there, \1, 1; "
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
)


def _ptx(
    at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1, file: str = FILE
) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


def _source(find: str, replacement: str = "") -> Edit:
    return Edit(Place(find, FILE), replacement)


def _at(text: str) -> str:
    return f"{FILE}: {text}"


DEFECTS = (
    PlantedDefect(
        "p0-read-without-fence", "P is read without tcgen05.fence::after_thread_sync", "R5", KERNEL,
        (_ptx(LD_FENCE, "tcgen05.fence"),),
        Reported("race-commit-fence", "tcgen05.ld", "tcgen05.mma", "after_thread_sync", second_at=_at("ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);"), first_at=_at("ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),"), severity="warning"),
    ),
    PlantedDefect(
        "p0-read-not-complete", "P is freed without tcgen05.wait::ld", "R1", KERNEL,
        (_ptx(LD_WAIT, "tcgen05.wait::ld"),),
        Reported("race-tmem-unwaited", "tcgen05.mma", "tcgen05.ld", "wait::ld", first_at=_at("ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);"), second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),"),
    ),
    PlantedDefect(
        "p0-freed-without-fence", "P is freed without tcgen05.fence::before_thread_sync", "R1", KERNEL,
        (_ptx("ptx::wait_tmem_loads();\nptx::fence_before_thread_sync();", "tcgen05.fence"),),
        Reported("race-waited-fence", "tcgen05.mma", "tcgen05.ld", "before_thread_sync", second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),", first_at="sm100/head128_part0/kernel.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);", severity="warning"),
    ),
    PlantedDefect(
        "p0-mma-without-fence", "the MMA overwrites P without tcgen05.fence::after_thread_sync", "R1 R5",
        KERNEL, (_ptx(MMA_FENCE, "tcgen05.fence"),),
        Reported("race-waited-fence", "tcgen05.mma", "tcgen05.ld", "after_thread_sync", second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),", first_at="sm100/head128_part0/kernel.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);", severity="warning"),
    ),
    PlantedDefect(
        "p0-p-not-free", "the MMA does not wait until P has been read", "R1 R2", KERNEL,
        (_ptx("smem.p_free[s].wait(((k / Cfg::kPStages) & 1) ^ 1);", "mbarrier.try_wait", PASSES),),
        Reported("race-unordered", "tcgen05.mma", "tcgen05.ld", "a barrier", second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),", first_at="sm100/head128_part0/kernel.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);"),
    ),
    PlantedDefect(
        "p0-two-tiles-ahead", "the gather does not wait until the MMA has read the buffer", "R2", KERNEL,
        (_ptx(FREE_WAIT, "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "cp.async.bulk.tensor", "cp.async.bulk.tensor", "the completion of the copy", second_at="sm100/head128_part0/kernel.cuh: ptx::tma_gather4(tile + c * Cfg::kKvTileBytes + 4 * g * kRowBytes, &params.kv_map, ready,", first_at="sm100/head128_part0/kernel.cuh: ptx::tma_gather4(tile + c * Cfg::kKvTileBytes + 4 * g * kRowBytes, &params.kv_map, ready,"),
    ),
    PlantedDefect(
        "p0-freed-by-arrival", "KV is freed by arrivals of the issuing thread, not by its commit", "R13",
        KERNEL, (_ptx(KV_COMMIT, COMMIT, ARRIVALS, r"tcgen05\.commit\S+ \[(%r\d+)\], %rs\d+;"),),
        Reported("race-mma-unwaited", "cp.async.bulk.tensor", "tcgen05.mma", "tcgen05.commit", second_at="sm100/head128_part0/kernel.cuh: ptx::tma_gather4(tile + c * Cfg::kKvTileBytes + 4 * g * kRowBytes, &params.kv_map, ready,", first_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),"),
    ),
    PlantedDefect(
        "p0-published-by-arrival", "P of the pair is published by arrivals, not by a commit", "R13", KERNEL,
        (_ptx(P_COMMIT, COMMIT, ARRIVALS, r"tcgen05\.commit\S+ \[(%r\d+)\], %rs\d+;"),),
        Reported("race-mma-unwaited", "tcgen05.ld", "tcgen05.mma", "tcgen05.commit", second_at="sm100/head128_part0/kernel.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);", first_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),"),
    ),
    PlantedDefect(
        "p0-p-ready-to-one-cta", "the commit that publishes P reaches rank 0 only", "H5", KERNEL,
        (_ptx(P_COMMIT, COMMIT, RANK_0, r"(tcgen05\.commit.*, )%rs\d+;"),),
        Reported("hang", says=("p_ready[0] of CTA 1 lacks 1 of 1 arrival", "this instruction reached CTA 0 only")),
    ),
    PlantedDefect(
        "p0-keys-freed-in-one-cta", "the commit that frees the keys reaches rank 0 only", "H5", KERNEL,
        (_ptx(KV_COMMIT, COMMIT, RANK_0, r"(tcgen05\.commit.*, )%rs\d+;"),),
        Reported("hang", says=("kv_free[0] of CTA 1 lacks 1 of 1 arrival", "this instruction reached CTA 0 only")), sizes=Sizes(blocks=6),
    ),
    PlantedDefect(
        "p0-q-not-waited-for", "the MMA does not wait for Q", "R13", KERNEL,
        (_ptx("smem.q_ready.wait(0);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "tcgen05.mma", "cp.async.bulk.tensor", "mbarrier phase", second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),", first_at="sm100/head128_part0/kernel.cuh: ptx::tma_load_2d(q + c * Cfg::kQTileBytes, &params.q_map, q_ready, c * kColTile, first_row, kOnce);"),
    ),
    PlantedDefect(
        "p0-delta-before-do", "delta reads dO without waiting for its bytes", "R6", KERNEL,
        (_ptx("do_ready.wait_own(0);", "mbarrier.try_wait", PASSES, file=DELTA),),
        Reported("race-unordered", "cp.async.bulk.tensor", "ld.shared", "a wait for its completion before the first", second_at="sm100/head128_part0/kernel.cuh: ptx::tma_load_2d(dO + c * Cfg::kQTileBytes, &params.dO_map, do_ready, c * kColTile, first_row, kOnce);", first_at="sm100/delta.cuh: sum = dot(o_bits[h][v], ptx::load_shared_16(tile + swizzled_chunk(head, col % kColTile / kVector)),"),
    ),
    PlantedDefect(
        "p0-too-many-bytes", "kv_ready expects 1024 bytes too many", "", KERNEL,
        (_ptx("smem.kv_ready[b].arrive_own_and_expect_tx(Plan::barrier::kv_ready::tx_bytes);", "mbarrier.arrive.expect_tx", "74752;", r"%r\d+;$"),),
        Reported("hang", says=("kv_ready[0] of CTA 0 lacks 1024 bytes", "74752 bytes were expected by lane 0 of warp 0 (load) of CTA 0", "73728 bytes were delivered")),
    ),
    PlantedDefect(
        "p0-wrong-parity", "the first wait for a free KV buffer takes parity 0", "", KERNEL,
        (_ptx(FREE_WAIT, "mbarrier.try_wait", r"{ .reg .b32 flipped; xor.b32 flipped, \2, 1; \1 flipped; }", r"(mbarrier.*) (%r\d+);"),),
        Reported("hang", says=("phase 0 (k-block 0) of kv_free[0] of CTA 0 lacks 1 of 1 arrival", "nothing has arrived at kv_free[0]", "that wait takes parity 1")),
    ),
    PlantedDefect(
        "p0-one-lane-frees", "one lane of each warp arrives on p_free, which expects all", "H7", KERNEL,
        (_ptx("smem.p_free[s].arrive_in(kLeader);", "mbarrier.arrive", r"{ .reg .pred one; .reg .b32 who; mov.u32 who, %laneid; setp.eq.u32 one, who, 0; @one \g<0> }", ".+"),),
        Reported("hang", says=("p_free[0] of CTA 0 lacks 248 of 256 arrivals", "8 arrivals came", "lane 0 of warp 4 (p_consumer)",)),
    ),
    PlantedDefect(
        "p0-init-not-ordered", "a CTA barrier instead of a cluster barrier after mbarrier.init", "R10",
        KERNEL, (_ptx(PROLOGUE_SYNC, "barrier.cluster.arrive", "bar.sync 0;"), _ptx(PROLOGUE_SYNC, "barrier.cluster.wait")),
        Reported("race-mbarrier-init", "cp.async.bulk.tensor", first="mbarrier.init", missing="a cluster barrier", second_at="sm100/head128_part0/kernel.cuh: ptx::tma_load_2d(q + c * Cfg::kQTileBytes, &params.q_map, q_ready, c * kColTile, first_row, kOnce);", first_at="sm100/head128_part0/kernel.cuh: smem.q_ready.init(Plan::barrier::q_ready::count);"),
    ),
    PlantedDefect(
        "p0-base-not-ordered", "the cluster barrier after tcgen05.alloc is relaxed", "R9", KERNEL,
        (_ptx(PROLOGUE_SYNC, "barrier.cluster.arrive", "barrier.cluster.arrive.relaxed.aligned;"),),
        Reported("race-relaxed-barrier", "ld.shared", "tcgen05.alloc", ".release", severity="warning", second_at="sm100/head128_part0/kernel.cuh: ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);", first_at="sm100/head128_part0/kernel.cuh: allocator.allocate(Plan::tmem_columns, &smem.tmem_base);"),
    ),
    PlantedDefect(
        "p0-alloc-before-start", "TMEM of the pair is allocated before the CTAs have met", "", KERNEL,
        (_ptx("cute::cluster_arrive_relaxed();", "barrier.cluster.arrive"), _ptx("cute::cluster_wait();", "barrier.cluster.wait")),
        Reported("pair-not-started", "tcgen05.alloc", says=("has started", "a cluster barrier"), second_at="sm100/head128_part0/kernel.cuh: allocator.allocate(Plan::tmem_columns, &smem.tmem_base);"),
    ),
    PlantedDefect(
        "p0-freed-under-mma", "TMEM of rank 1 is freed while MMAs of rank 0 may still write it: the last cluster barrier is gone",
        "R1", KERNEL,
        (_ptx(EPILOGUE_SYNC, "barrier.cluster.arrive"), _ptx(EPILOGUE_SYNC, "barrier.cluster.wait")),
        Reported("tmem-not-allocated", "tcgen05.mma", says=("of CTA rank 1",), second_at="sm100/head128_part0/kernel.cuh: ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),"),
    ),
    PlantedDefect(
        "p0-consumer-stops-early", "the consumers of P leave one k-block out", "H2", KERNEL,
        (_source("smem.p_ready[s].wait((k / Cfg::kPStages) & 1);", "if (k == k_blocks - 1) break;\n      smem.p_ready[s].wait((k / Cfg::kPStages) & 1);"),),
        Reported("hang", says=("phase 1 (k-block 2) of p_free[0] of CTA 0 lacks 256 of 256 arrivals", "warp 4 (p_consumer) of CTA 0", "can no longer come to")),
    ),
    PlantedDefect(
        "p0-empty-token-waits", "the loader waits for the last k-block of an empty token", "H1", KERNEL,
        (_source("k < k_blocks; ++k) {\n      smem.kv_free[k % Cfg::kKvStages]", "k < max(1, k_blocks); ++k) {\n      smem.kv_free[k % Cfg::kKvStages]"),),
        Reported("hang", says=("phase 0 (k-block 0) of kv_free[0] of CTA 0 lacks 1 of 1 arrival", "nothing has ever arrived at it")), sizes=EMPTY,
    ),
    PlantedDefect(
        "p0-empty-token-no-base", "without a k-block TMEM is not allocated, and freed all the same", "H6", KERNEL,
        (_source("if (this->template has_role<typename Plan::role::mma>()) {\n      TMEM::Allocator2Sm allocator;", "if (this->template has_role<typename Plan::role::mma>() && k_blocks > 0) {\n      TMEM::Allocator2Sm allocator;"),),
        Reported("shared-uninitialised", "ld.shared", second_at="sm100/head128_part0/kernel.cuh: TMEM::Allocator2Sm{}.free(smem.tmem_base, Plan::tmem_columns);", says=("tcgen05.dealloc",)), sizes=EMPTY,
    ),
    PlantedDefect(
        "p0-one-stage-of-two", "the MMA uses one stage of P, its consumers two", "R2", KERNEL,
        (_source("const int b = k % Cfg::kKvStages;\n      const int s = k % Cfg::kPStages;", "const int b = k % Cfg::kKvStages;\n      const int s = 0;"),),
        Reported("hang", says=("waits for phase 0 of p_ready[0]", "went on to phase 2", "lane 0 of warp 12 (mma)")),
    ),
)  # fmt: skip
