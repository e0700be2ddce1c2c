# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in head128-columns: signals that allow a CTA to send, given too early or to the
wrong place."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes

KERNEL = "head128-columns"
FOLDER = "sm100/head128_columns"
SOFTMAX, MMA, SIGNAL = (f"{FOLDER}/{name}.cuh" for name in ("softmax", "mma", "signal"))
SEND = f"{SOFTMAX}: ptx::store_async_16(to + c * kQuadRow,"
COPY = "ptx::store_async_16(peer + at, chunk, peer_ready);"
OVER = Reported(
    "race-copy-unwaited", "st.async", "st.async", "the completion of the copy", first_at=SEND, second_at=SEND
)
PASSES = "setp.eq.u32 complete, 0, 0;"  # a wait that does not wait
ROOMY = Sizes(d_qk=512)  # where shares have bytes of their own


def _ptx(file: str, at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, file, count, opcode, part), replacement)


DEFECTS = (
    PlantedDefect(
        "cols-signal-before-p", "the peer is signalled before its share of P was read", "", KERNEL,
        (_ptx(SIGNAL, "smem.in_p_read.wait_own(k & 1);", "mbarrier.try_wait", PASSES),),
        OVER,
    ),
    PlantedDefect(
        "cols-signal-before-dp", "the peer is signalled before its share of dP was read", "", KERNEL,
        (_ptx(SIGNAL, "smem.in_dp_read.wait_own(k & 1);", "mbarrier.try_wait", PASSES),),
        OVER, sizes=ROOMY,
    ),
    PlantedDefect(
        "cols-signal-to-itself", "a CTA signals itself, not the peer, after reading P's share", "", KERNEL,
        (_ptx(SIGNAL, "const uint32_t peer = uint32_t(rank) ^ 1;", "xor", "0;", "1;$"),),
        OVER,
    ),
    PlantedDefect(
        "cols-signal-of-the-cta", "the peer is signalled with the scope of the CTA", "", KERNEL,
        (_ptx(SIGNAL, "smem.in_dp_free.arrive_in(peer);", "mbarrier.arrive", ".release.cta", r"\.release\.cluster"),),
        OVER,
    ),
    PlantedDefect(
        "cols-signal-lost", "the peer is not signalled that its share of P was read", "", KERNEL,
        (_ptx(SIGNAL, "smem.in_dp_free.arrive_in(peer);", "mbarrier.arrive"),),
        Reported("hang", says=("of in_dp_free of CTA", "lacks 1 of 1 arrival")),
    ),
    PlantedDefect(
        "cols-keys-freed-to-rank-0", "both CTAs signal rank 0, not the peer, that keys were read", "", KERNEL,
        (_ptx(MMA, "ptx::commit_multicast(smem.in_p_free.address(), uint16_t(1u << (rank ^ 1)));", "tcgen05.commit", "1;", r"%rs\d+;"),),
        Reported("hang", says=("waits for phase 0 of in_p_free of CTA 0", "the barrier went on to phase 2")),
    ),
    PlantedDefect(
        "cols-share-bytes-to-itself", "a share is sent to the peer, its bytes count in the own CTA", "", KERNEL,
        (_ptx(SOFTMAX, "const uint32_t ready = this->in_peer(smem.in_ready.address());", "xor", "0;", "1;$", count=2),),
        Reported("tma-barrier-cta", "st.async", says=("an mbarrier of its destination CTA",), second_at=SEND),
    ),
    PlantedDefect(
        "cols-copy-not-sent", "the copies of S are not sent", "", KERNEL,
        (_ptx(SOFTMAX, COPY, "st.async", count=8),),
        Reported("hang", says=("of s_ready of CTA", "lacks 8192 bytes")),
    ),
    PlantedDefect(
        "cols-copy-to-itself", "the copies of S and dS go to the own CTA, as do their bytes", "", KERNEL,
        (
            _ptx(SOFTMAX, "const uint32_t peer = this->in_peer(own);", "xor", "0;", "1;$", count=4),
            _ptx(SOFTMAX, "const uint32_t peer_ready = this->in_peer(ready.address());", "xor", "0;", "1;$", count=4),
        ),
        Reported("shared-uninitialised", "tcgen05.mma", says=("were never written",), second_at=f"{MMA}: ptx::mma_ws_f16_ss(tmem + Plan::tmem::dKV_rope::column, further(first_a, head * kNarrowRowBytes),"),
    ),
)  # fmt: skip
