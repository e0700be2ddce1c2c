# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head128-columns: shares and copies sent by st.async, and their destinations."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported

KERNEL = "head128-columns"
FOLDER = "sm100/head128_columns"
SOFTMAX, MMA, LOAD = (f"{FOLDER}/{name}.cuh" for name in ("softmax", "mma", "load"))
SENT = "ptx::store_async_16(to + c * kQuadRow, {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])}, ready);"
SEND = f"{SOFTMAX}: ptx::store_async_16(to + c * kQuadRow,"
RECEIVE = f"{SOFTMAX}: const uint4 v = ptx::load_shared_16(share(k) + c * kQuadRow);"
PASSES = "setp.eq.u32 complete, 0, 0;"  # a wait that does not wait


def _ptx(file: str, at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


DEFECTS = (
    PlantedDefect(
        "cols-share-not-sent", "a share is not sent", "", KERNEL,
        (_ptx(SOFTMAX, SENT, "st.async", count=16),),
        Reported("hang", says=("of in_ready of CTA", "lacks 16384 bytes")),
    ),
    PlantedDefect(
        "cols-p-share-early", "P is sent before the keys that lie there have been read", "", KERNEL,
        (_ptx(SOFTMAX, "smem.in_p_free.wait((k & 1) ^ 1);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "tcgen05.mma", "st.async", "the completion of the copy", first_at=SEND),
    ),
    PlantedDefect(
        "cols-dp-share-early", "dP is sent before the share of P that lies there has been read", "", KERNEL,
        (_ptx(SOFTMAX, "smem.in_dp_free.wait(k & 1);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "st.async", "st.async", "the completion of the copy", second_at=SEND),
    ),
    PlantedDefect(
        "cols-share-not-waited-for", "the shares are added without waiting for them", "R13", KERNEL,
        (_ptx(SOFTMAX, "smem.in_ready.wait(use);", "mbarrier.try_wait", PASSES, count=2),),
        Reported("race-copy-unwaited", "ld.shared", "st.async", "the completion of the copy", second_at=RECEIVE),
    ),
    PlantedDefect(
        "cols-keys-over-shares", "the next keys are gathered before the shares that lie there have been read", "", KERNEL,
        (_ptx(LOAD, "smem.kv_hi_free[0].wait_own((k & 1) ^ 1);", "mbarrier.try_wait", PASSES),),
        Reported("race-copy-unwaited", "st.async", "cp.async.bulk.tensor", "the completion of the copy", second_at=SEND),
    ),
    PlantedDefect(
        "cols-upper-keys-unwaited", "P is multiplied over the upper columns of keys that have not landed", "", KERNEL,
        (_ptx(MMA, "smem.kv_hi_ready[k % Cfg::kKvStages * Cfg::kHiParts + part].wait_own(k / Cfg::kKvStages & 1);", "mbarrier.try_wait", PASSES, count=4),),
        Reported("race-copy-unwaited", "tcgen05.mma", "cp.async.bulk.tensor", "the completion of the copy", first_at=f"{LOAD}: ptx::tma_gather4_own(to + c * Cfg::kKeyTileBytes + kGather * g * kRowBytes, &params.kv_map, ready,"),
    ),
    PlantedDefect(
        "cols-shares-without-proxy-fence", "the place of the shares is handed to the gather without fence.proxy.async", "", KERNEL,
        (_ptx(SOFTMAX, "if (!Cfg::kRoomy && use == 1) ptx::fence_proxy_async_shared();", "fence.proxy"),),
        Reported("race-proxy-write", "cp.async.bulk.tensor", "st.async", "fence.proxy.async", severity="warning", first_at=SEND),
    ),
    PlantedDefect(
        "cols-copies-without-proxy-fence", "the peer's copies are multiplied without fence.proxy.async of who waited for them", "", KERNEL,
        (_ptx(MMA, "ptx::fence_proxy_async_shared();", "fence.proxy", count=4),),
        Reported("race-proxy-fence", "tcgen05.mma", "st.async", "fence.proxy.async", first_at=f"{SOFTMAX}: ptx::store_async_16(peer + at, chunk, peer_ready);"),
    ),
    PlantedDefect(
        "cols-s-over-ds", "S is stored over dS of the k-block before, which MMAs still read", "", KERNEL,
        (_ptx(SOFTMAX, "smem.ds_free.wait(parity ^ 1);", "mbarrier.try_wait", PASSES),),
        Reported("race-mma-unwaited", "st.shared", "tcgen05.mma", "tcgen05.commit", second_at=f"{SOFTMAX}: ptx::store_shared_16(own + at, chunk);"),
    ),
    PlantedDefect(
        "cols-freed-by-one", "the commit that frees dS's place reaches rank 0 only", "H5", KERNEL,
        (_ptx(MMA, "ptx::commit_multicast(smem.ds_free.address(), kEveryRank);", "tcgen05.commit", "1;", r"%rs\d+;", count=2),),
        Reported("hang", says=("ds_free of CTA 1 lacks", "this instruction reached CTA 0 only")),
    ),
    PlantedDefect(
        "cols-dp-over-p", "dP is accumulated in P's columns before all have read P", "", KERNEL,
        (_ptx(MMA, "smem.p_free.wait_own(k & 1);", "mbarrier.try_wait", PASSES, count=2),),
        Reported("race-unordered", "tcgen05.mma", "tcgen05.ld", "a barrier", first_at=f"{SOFTMAX}: ptx::load_tmem_32_columns(row + column + half * kKeys, x);"),
    ),
    PlantedDefect(
        "cols-wait-of-the-cta", "the shares are waited for with the scope of the CTA", "", KERNEL,
        (_ptx(SOFTMAX, "smem.in_ready.wait(use);", "mbarrier.try_wait", ".acquire.cta", r"\.acquire\.cluster", count=2),),
        Reported("race-scope-default", "ld.shared", "st.async", ".acquire.cluster at the wait", severity="warning", second_at=RECEIVE),
    ),
    PlantedDefect(
        "cols-bytes-of-one-half", "in_ready expects half of the arriving bytes", "", KERNEL,
        (_ptx(SOFTMAX, "smem.in_ready.arrive_own_and_expect_tx(Plan::barrier::in_ready::tx_bytes);", "mbarrier.arrive", "8192;", r"%r\d+;$", count=2),),
        Reported("hang", says=("of kv_hi_free of CTA", "lacks 4 of 4 arrivals")),
    ),
)  # fmt: skip
