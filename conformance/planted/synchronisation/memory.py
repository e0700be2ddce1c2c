# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in small programs: memory of threads, CTAs and clusters."""

from __future__ import annotations

from tileproof.conformance.planted.synchronisation.copies import LOAD, WAIT_FULL
from tileproof.conformance.planted.synchronisation.ptx import (
    CLUSTER_SYNC,
    Program,
    at,
    init,
    text,
    wait,
    word_of,
)
from tileproof.kernels.edit import PlantedDefect, Reported

TWO_TILES = Program(
    "two-tiles",
    "tile b is copied in while tile a is still read",
    f"""{init(("full", 1), ("full_b", 1))}
@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
@%one {LOAD} [tile_a], [%in], 256, [full];
{WAIT_FULL}
mov.u32 %r3, tile_b;
@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [full_b], 256;
@%one {LOAD} [%r3], [%in], 256, [full_b];
bar.sync 1;
{at("%r1", "tile_a", "%t", 4)}
ld.shared.u32 %r2, [%r1];
{wait("full_b")}
mad.lo.u32 %r4, %t, 4, %r3;
ld.shared.u32 %r5, [%r4];
add.u32 %r5, %r5, %r2;
{word_of("%rd1", "%out")}
st.global.u32 [%rd1], %r5;""",
    ("full", "full_b"),
    (("tile_a", 256), ("tile_b", 256)),
)

TWO_PHASES = Program(
    "two-phases",
    "warp 0 writes delta to global memory, then warp 1 reads it",
    f"""setp.ne.u32 %p1, %w, 0;
{word_of("%rd1", "%out", "%l")}
@%p1 bra MEET;
st.global.u32 [%rd1], %t;
MEET:
bar.sync 0;
@!%p1 bra DONE;
ld.global.u32 %r1, [%rd1];
add.u32 %r1, %r1, 1;
st.global.u32 [%rd1+1024], %r1;
DONE:
bar.warp.sync -1;""",
)

LAST_CLUSTER = Program(
    "last-cluster",
    "each cluster writes its part and counts itself; the last one reads all parts",
    f"""mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r2, %r1, 32, %t;
{word_of("%rd1", "%out", "%r2")}
st.global.u32 [%rd1+256], %t;
bar.warp.sync -1;
@!%one bra COUNTED;
atom.add.acq_rel.gpu.global.u32 %r3, [%out], 1;
COUNTED:
shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;
bar.warp.sync -1;
setp.ne.u32 %p1, %r3, 2;
@%p1 bra DONE;
{word_of("%rd2", "%out", "%t")}
ld.global.u32 %r4, [%rd2+256];
ld.global.u32 %r5, [%rd2+384];
ld.global.u32 %r6, [%rd2+512];
DONE:
bar.warp.sync -1;""",
    threads=32,
    clusters=3,
)

WORKSPACE = Program(
    "workspace",
    "128 threads write rows of a workspace, stage them in shared memory and write them back in reverse order",
    f"""{word_of("%rd1", "%out", "%t")}
setp.lt.u32 %p1, %t, 128;
@%p1 st.global.u32 [%rd1], %t;
bar.sync 0;
@%p1 ld.global.u32 %r1, [%rd1];
mov.u32 %r2, tile;
mad.lo.u32 %r2, %t, 4, %r2;
setp.lt.u32 %p2, %t, 128;
@%p2 st.shared.u32 [%r2], %r1;
bar.sync 0;
xor.b32 %r3, %t, 127;
{at("%r4", "tile", "%r3", 4)}
@%p1 ld.shared.u32 %r5, [%r4];
@%p1 st.global.u32 [%rd1], %r5;""",
    (),
    (("tile", 512),),
    threads=128,
    fresh=True,
)

DSMEM = Program(
    "dsmem",
    "CTA 1 writes into CTA 0's shared memory, CTA 0 reads it; then CTA 1 reads CTA 0's",
    f"""{at("%r1", "tile", "%t", 4)}
st.shared.u32 [%r1], %t;
mapa.shared::cluster.u32 %r2, %r1, 0;
setp.eq.u32 %p1, %rank, 1;
{CLUSTER_SYNC}
@%p1 st.shared::cluster.u32 [%r2], 7;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
@!%p1 ld.shared.u32 %r3, [%r1];
@%p1 ld.shared::cluster.u32 %r4, [%r2];
barrier.cluster.arrive;
barrier.cluster.wait;""",
    (),
    (("tile", 128),),
    threads=32,
    cluster=2,
)

REMOTE_ARRIVE = Program(
    "remote-arrive",
    "CTA 0 arrives at the mbarrier of CTA 1, which waits for it",
    f"""@%one mbarrier.init.shared::cta.b64 [full], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed.aligned;
barrier.cluster.wait.aligned;
setp.eq.u32 %p1, %rank, 0;
mov.u32 %r1, full;
mapa.shared::cluster.u32 %r2, %r1, 1;
@!%p1 bra WAITS;
@%one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
bra MEET;
WAITS:
{WAIT_FULL}
MEET:
{CLUSTER_SYNC}""",
    ("full",),
    threads=32,
    cluster=2,
)

PROGRAMS = (TWO_TILES, TWO_PHASES, LAST_CLUSTER, WORKSPACE, DSMEM, REMOTE_ARRIVE)

ROWS = (
    PlantedDefect(
        "remote-init-without-fence", "the init is released by no fence, and the cluster barrier is relaxed",
        "R10", "remote-arrive", (text("fence.mbarrier_init.release.cluster;\n"),),
        Reported("race-mbarrier-init-relaxed", "mbarrier.arrive", "mbarrier.init", "fence.mbarrier_init", severity="warning"),
    ),
    PlantedDefect(
        "tiles-merged", "the two live tiles lie in the same bytes", "R8", "two-tiles",
        (text("mov.u32 %r3, tile_b;", "mov.u32 %r3, tile_a;"),),
        Reported("race-copy-unwaited", "ld.shared", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "tiles-overlap", "tile b begins in the last bytes of tile a", "R8", "two-tiles",
        (text("mov.u32 %r3, tile_b;", "mov.u32 %r3, tile_a;\nadd.u32 %r3, %r3, 240;"),),
        Reported("race-copy-unwaited", "ld.shared", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "phase-two-too-early", "the second phase does not wait for the first", "R6", "two-phases",
        (text("bar.sync 0;\n"),),
        Reported("race-unordered", "ld.global", "st.global", "a barrier"),
    ),
    PlantedDefect(
        "clusters-not-ordered", "the count of finished clusters is relaxed", "R6", "last-cluster",
        (text("atom.add.acq_rel.gpu", "atom.add.relaxed.gpu"),),
        Reported("race-clusters", "ld.global", "st.global", "a release and an acquire"),
    ),
    PlantedDefect(
        "workspace-half-written", "64 of 128 rows of the global workspace are written, all are read", "R7",
        "workspace", (text("setp.lt.u32 %p1, %t, 128;\n@%p1 st", "setp.lt.u32 %p1, %t, 64;\n@%p1 st"), text("@%p1 ld.global", "ld.global")),
        Reported("global-uninitialised", "ld.global"),
    ),
    PlantedDefect(
        "workspace-tile-of-64", "the staging tile is filled for tiles of 64 and read for tiles of 128", "R7",
        "workspace", (text("setp.lt.u32 %p2, %t, 128;", "setp.lt.u32 %p2, %t, 64;"),),
        Reported("shared-uninitialised", "ld.shared"),
    ),
    PlantedDefect(
        "dsmem-cta-barrier", "a CTA barrier instead of the cluster barrier", "R13", "dsmem",
        (text("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;", "bar.sync 0;"),),
        Reported("race-unordered", "ld.shared", "st.shared::cluster", "a barrier"),
    ),
    PlantedDefect(
        "dsmem-relaxed-barrier", "the cluster barrier's arrival is relaxed", "", "dsmem",
        (text("barrier.cluster.arrive.release.aligned", "barrier.cluster.arrive.relaxed.aligned"),),
        Reported("race-unordered", "ld.shared", "st.shared::cluster", "a barrier"),
    ),
    PlantedDefect(
        "dsmem-exit", "CTA 0 may exit while CTA 1 still reads its shared memory", "", "dsmem",
        (text("barrier.cluster.arrive;\nbarrier.cluster.wait;", "bar.sync 0;"),),
        Reported("access-after-exit", "ld.shared::cluster", says=("CTA rank 0 after it exited",)),
    ),
)  # fmt: skip
