# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head128-columns: operations of each CTA on the other's barriers, from
initialisation to exit."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes

KERNEL = "head128-columns"
FOLDER = "sm100/head128_columns"
SOFTMAX, MMA, MAIN = (f"{FOLDER}/{name}.cuh" for name in ("softmax", "mma", "kernel"))
FREE = "ptx::commit_multicast(smem.ds_free.address(), kEveryRank);"
IN_BOTH = (
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, \\1, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];"
    " mapa.shared::cluster.u32 there, \\1, 1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
)
LAST_WAIT = "if (k_blocks > 0) smem.ds_free.wait((k_blocks - 1) & 1);"
MEET = "TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);\n}\ncluster_wait();"
FREED = f"{MMA}: {FREE}"
MULTIPLIED = f"{MMA}: ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), further(first_b, head * kPlainRowBytes), idesc,"
SIZES = Sizes(d_qk=512, blocks=2)


def _ptx(file: str, at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


DEFECTS = (
    PlantedDefect(
        "cols-inits-unreleased", "mbarrier.init is released by no fence, and the cluster barrier after it is relaxed", "R10 R9", KERNEL,
        (_ptx(MAIN, "cutlass::arch::fence_barrier_init();", "fence.mbarrier_init"),),
        Reported("race-mbarrier-init", "st.async", "mbarrier.init", "fence.mbarrier_init and a cluster barrier", second_at=f"{SOFTMAX}: ptx::store_async_16(to + c * kQuadRow,", first_at=f"{MAIN}: smem.in_ready.init(B::in_ready::count);"), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-freed-by-arrival", "dS's place is freed by arrivals in both CTAs, not by multicast commits", "R13 R1", KERNEL,
        (_ptx(MMA, FREE, "tcgen05.commit", IN_BOTH, r"tcgen05\.commit\S+ \[(%r\d+)\], %rs\d+;", count=2),),
        Reported("race-mma-unwaited", "st.shared", "tcgen05.mma", "tcgen05.commit", second_at=f"{SOFTMAX}: ptx::store_shared_16(own + at, chunk);", first_at=MULTIPLIED), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-exit", "a CTA exits without waiting for its peer's commits or a barrier with it", "H5", KERNEL,
        (_ptx(SOFTMAX, LAST_WAIT, "mbarrier.try_wait", "setp.eq.u32 complete, 0, 0;"), _ptx(MAIN, MEET, "barrier.cluster.wait")),
        Reported("race-exit", "ret", "tcgen05.commit", "a cluster barrier", first_at=FREED), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-exit-before-commits", "a CTA meets its peer before it exits, without waiting for the peer's commits", "H5", KERNEL,
        (_ptx(SOFTMAX, LAST_WAIT, "mbarrier.try_wait", "setp.eq.u32 complete, 0, 0;"),),
        Reported("race-exit", "ret", "tcgen05.commit", "a wait of this CTA", first_at=FREED), sizes=SIZES,
    ),
    PlantedDefect(
        "cols-count-too-large", "p_free expects an arrival too many, in both CTAs", "H7", KERNEL,
        (_ptx(MAIN, "smem.p_free.init(B::p_free::count);", "mbarrier.init", "9;", r"%r\d+;$"),),
        Reported("hang", says=("of p_free of CTA", "lacks 1 of 9 arrivals", "8 arrivals came", "its count of 9 was set")), sizes=SIZES,
    ),
)  # fmt: skip
