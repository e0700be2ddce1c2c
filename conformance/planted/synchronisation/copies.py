# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in small programs: copies into and out of shared memory, and their rings."""

from __future__ import annotations

from tileproof.conformance.planted.synchronisation.ptx import (
    FENCE_PROXY,
    Program,
    at,
    init,
    text,
    wait,
    word_of,
)
from tileproof.kernels.edit import PlantedDefect, Reported

LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
COMMIT = "cp.async.bulk.commit_group;"
WAIT_FULL = wait("full")

TMA_LOAD = Program(
    "bulk-load",
    "one thread copies a tile in, everyone waits for its bytes and reads it",
    f"""{init(("full", 1))}
@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
@%one {LOAD} [tile], [%in], 256, [full];
bar.sync 1;
{WAIT_FULL}
{at("%r1", "tile", "%t", 4)}
ld.shared.u32 %r2, [%r1];
{word_of("%rd1", "%out")}
st.global.u32 [%rd1], %r2;""",
    ("full",),
    (("tile", 256),),
)

RING = Program(
    "ring",
    "a producer thread copies six tiles through a ring of two buffers, two warps read them",
    f"""{init(("full", 1), ("full1", 1), ("empty", 2), ("empty1", 2))}
mov.u32 %r1, 0;
@%last bra PRODUCER;
CONSUME:
and.b32 %r2, %r1, 1;
shr.u32 %r3, %r1, 1;
and.b32 %r3, %r3, 1;
{at("%r4", "full", "%r2", 8)}
{at("%r5", "empty", "%r2", 8)}
{at("%r6", "tile", "%r2", 256)}
{wait("%r4", "%r3")}
mad.lo.u32 %r9, %t, 4, %r6;
ld.shared.u32 %r10, [%r9];
bar.warp.sync -1;
@%lane0 mbarrier.arrive.shared::cta.b64 _, [%r5];
mad.lo.u32 %r11, %r1, 64, %t;
{word_of("%rd2", "%out", "%r11")}
st.global.u32 [%rd2], %r10;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p2, %r1, 6;
@%p2 bra CONSUME;
ret;
PRODUCER:
@!%lane0 ret;
PRODUCE:
and.b32 %r2, %r1, 1;
shr.u32 %r3, %r1, 1;
and.b32 %r3, %r3, 1;
xor.b32 %r7, %r3, 1;
{at("%r4", "full", "%r2", 8)}
{at("%r5", "empty", "%r2", 8)}
{at("%r6", "tile", "%r2", 256)}
{wait("%r5", "%r7")}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;
mad.wide.u32 %rd1, %r1, 256, %in;
{LOAD} [%r6], [%rd1], 256, [%r4];
add.u32 %r1, %r1, 1;
setp.lt.u32 %p2, %r1, 6;
@%p2 bra PRODUCE;
ret;""",
    ("full", "full1", "empty", "empty1"),
    (("tile", 512),),
    threads=96,
)

STAGED_STORE = Program(
    "staged-store",
    "all threads fill a tile, one thread stores it to global memory; then they read it back",
    f"""{at("%r1", "tile", "%t", 4)}
st.shared.u32 [%r1], %t;
{FENCE_PROXY}
bar.sync 0;
@!%one bra STORED;
{STORE} [%out], [tile], 256;
{COMMIT}
cp.async.bulk.wait_group 0;
STORED:
bar.sync 0;
xor.b32 %r2, %t, 33;
{word_of("%rd1", "%out", "%r2")}
ld.global.u32 %r3, [%rd1];
{word_of("%rd2", "%in", "%t")}
st.global.u32 [%rd2], %r3;""",
    (),
    (("tile", 256),),
)

REDUCE_STAGING = Program(
    "reduce-staging",
    "three rounds: all threads fill a staging tile, one thread adds it to global memory",
    f"""mov.u32 %r2, 0;
ROUND:
{at("%r1", "staging", "%t", 4)}
st.shared.u32 [%r1], 0x3f800000;
{FENCE_PROXY}
bar.sync 0;
@!%one bra ADDED;
{REDUCE} [%out], [staging], 256;
{COMMIT}
ADDED:
bar.sync 1;
@%one cp.async.bulk.wait_group.read 0;
bar.sync 2;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, 3;
@%p1 bra ROUND;
@%one cp.async.bulk.wait_group 0;""",
    (),
    (("staging", 256),),
)

WARP_STORE = Program(
    "warp-store",
    "the lanes of one warp fill a tile, lane 0 stores it",
    f"""{at("%r1", "tile", "%t", 4)}
st.shared.u32 [%r1], %t;
{FENCE_PROXY}
bar.warp.sync -1;
@!%lane0 bra DONE;
{STORE} [%out], [tile], 128;
{COMMIT}
cp.async.bulk.wait_group 0;
DONE:
bar.warp.sync -1;""",
    (),
    (("tile", 128),),
    threads=32,
)

WARP_PUBLISH = Program(
    "warp-publish",
    "the lanes of warp 0 fill a tile and lane 0 arrives for them; warp 1 reads it",
    f"""{init(("full", 1))}
{at("%r1", "tile", "%l", 4)}
setp.ne.u32 %p1, %w, 0;
@%p1 bra READER;
st.shared.u32 [%r1], %t;
bar.warp.sync -1;
@%lane0 mbarrier.arrive.shared::cta.b64 _, [full];
bra DONE;
READER:
{WAIT_FULL}
ld.shared.u32 %r2, [%r1];
{word_of("%rd1", "%out", "%l")}
st.global.u32 [%rd1], %r2;
DONE:
bar.warp.sync -1;""",
    ("full",),
    (("tile", 128),),
)

OVERWRITE = Program(
    "copy-over-zeros",
    "all threads clear a tile, then one thread copies half of it in",
    f"""{init(("full", 1))}
{at("%r1", "tile", "%t", 4)}
st.shared.u32 [%r1], 0;
{FENCE_PROXY}
bar.sync 0;
@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
@%one {LOAD} [tile], [%in], 128, [full];
{WAIT_FULL}
ld.shared.u32 %r2, [%r1];
{word_of("%rd1", "%out")}
st.global.u32 [%rd1], %r2;""",
    ("full",),
    (("tile", 256),),
)

PROGRAMS = (TMA_LOAD, RING, STAGED_STORE, REDUCE_STAGING, WARP_STORE, WARP_PUBLISH, OVERWRITE)

_LOADS = (
    PlantedDefect(
        "copy-not-waited-for", "no thread waits for the copy", "R13", "bulk-load", (text(WAIT_FULL),),
        Reported("race-copy-unwaited", "ld.shared", "cp.async.bulk", "mbarrier phase"),
    ),
    PlantedDefect(
        "copy-wrong-parity", "the wait has parity 1, which passes at once", "", "bulk-load",
        (text("[full], 0;", "[full], 1;"),),
        Reported("hang", says=("warp 0 of CTA 0 has never waited for phase 0", "parity 0 would let it pass")),
    ),
    PlantedDefect(
        "copy-too-few-bytes", "128 of the 256 bytes are expected", "", "bulk-load",
        (text("_, [full], 256;", "_, [full], 128;"),),
        Reported("hang", says=("full of CTA 0 lacks nothing, but 128 bytes more came than it expects", "128 bytes were expected by lane 0")),
    ),
    PlantedDefect(
        "copy-too-many-bytes", "512 bytes are expected, 256 come", "", "bulk-load",
        (text("_, [full], 256;", "_, [full], 512;"),),
        Reported("hang", says=("full of CTA 0 lacks 256 bytes", "512 bytes were expected by lane 0")),
    ),
    PlantedDefect(
        "copy-by-whole-warp", "the copy has lost its elected thread", "R12 H7", "bulk-load",
        (text(f"@%one {LOAD}", f"@%last {LOAD}"),),
        Reported("race-copy-unwaited", "cp.async.bulk", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "init-without-barrier", "the CTA does not meet after mbarrier.init", "R10", "bulk-load",
        (text("bar.sync 0;\n"),),
        Reported("race-mbarrier-init", "mbarrier.arrive", "mbarrier.init", "a barrier between them"),
    ),
    PlantedDefect(
        "init-by-every-warp", "lane 0 of each warp initialises the mbarrier", "R10", "bulk-load",
        (text("@%zero mbarrier.init", "@%lane0 mbarrier.init"),),
        Reported("mbarrier-reinit", "mbarrier.init"),
    ),
)  # fmt: skip

_RING = (
    PlantedDefect(
        "ring-one-buffer", "both stages of the ring use one buffer, as with a single stage", "R2 R8", "ring",
        (text("mad.lo.u32 %r6, %r2, 256, %r6;", count=2),),
        Reported("race-copy-unwaited", "cp.async.bulk", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "ring-parity-of-one-stage", "the parity flips with every tile, as with a single stage", "R2", "ring",
        (text("shr.u32 %r3, %r1, 1;\n", "mov.u32 %r3, %r1;\n", 2),),
        Reported("shared-uninitialised", "ld.shared"),
    ),
    PlantedDefect(
        "ring-buffers-swapped", "the producer fills another buffer than the buffer that it publishes", "R8",
        "ring", (text("mad.wide.u32 %rd1, %r1, 256, %in;", "xor.b32 %r6, %r6, 256;\nmad.wide.u32 %rd1, %r1, 256, %in;"),),
        Reported("race-copy-unwaited", "ld.shared", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "ring-two-ahead", "the producer does not wait for the buffer to be free", "R2", "ring",
        (text(wait("%r5", "%r7") + "\n"),),
        Reported("race-copy-unwaited", "cp.async.bulk", "cp.async.bulk", "the completion of the copy"),
    ),
    PlantedDefect(
        "ring-all-lanes-arrive", "the arrival has lost its lane predicate: 64 arrivals, 2 are expected", "H7",
        "ring", (text("@%lane0 mbarrier.arrive.shared", "mbarrier.arrive.shared"),),
        Reported("hang", says=("waits for phase 0 of empty", "went on to phase 32", "a phase takes 2 arrivals", "lanes 30-31 of warp 0")),
    ),
    PlantedDefect(
        "ring-count-too-large", "the count of `empty` is one too large", "H7", "ring",
        (text("[empty], 2;", "[empty], 3;"),),
        Reported("hang", says=("phase 0 of empty of CTA 0 lacks 1 of 3 arrivals", "2 arrivals came")),
    ),
    PlantedDefect(
        "ring-count-too-small", "the count of `empty` is one too small", "H7", "ring",
        (text("[empty], 2;", "[empty], 1;"),),
        Reported("hang", says=("waits for phase 0 of empty", "went on to phase 2", "a phase takes 1 arrival; they came from lane 0 of warp 0")),
    ),
    PlantedDefect(
        "ring-lane-frees-early", "lane 0 frees the buffer before its warp has joined", "R12", "ring",
        (text("ld.shared.u32 %r10, [%r9];\nbar.warp.sync -1;", "ld.shared.u32 %r10, [%r9];"),),
        Reported("race-unordered", "cp.async.bulk", "ld.shared", "bar.warp.sync"),
    ),
    PlantedDefect(
        "ring-consumer-stops-early", "warp 1 stops after two of six tiles", "H2", "ring",
        (text("setp.lt.u32 %p2, %r1, 6;\n@%p2 bra CONSUME;", "setp.eq.u32 %p3, %w, 1;\nselp.u32 %r12, 2, 6, %p3;\nsetp.lt.u32 %p2, %r1, %r12;\n@%p2 bra CONSUME;"),),
        Reported("hang", says=("phase 1 of empty of CTA 0 lacks 1 of 2 arrivals", "warp 1 of CTA 0", "exited")),
    ),
)  # fmt: skip

_STORES = (
    PlantedDefect(
        "store-without-proxy-fence", "no fence.proxy.async before the bulk store", "R4", "staged-store",
        (text(FENCE_PROXY + "\n"),),
        Reported("race-proxy-fence", "cp.async.bulk.global", "st.shared", "fence.proxy.async"),
    ),
    PlantedDefect(
        "store-before-the-others", "no barrier between the writers and the bulk store", "R3", "staged-store",
        (text(f"{FENCE_PROXY}\nbar.sync 0;", FENCE_PROXY),),
        Reported("race-unordered", "cp.async.bulk.global", "st.shared", "a barrier"),
    ),
    PlantedDefect(
        "store-read-back-too-early", "wait_group.read although the written bytes are read back", "R3",
        "staged-store", (text("wait_group 0", "wait_group.read 0"),),
        Reported("race-copy-unwaited", "ld.global", "cp.async.bulk.global", "its bulk group"),
    ),
    PlantedDefect(
        "store-fenced-by-one", "only the thread that stores executes fence.proxy.async", "R4 R3",
        "reduce-staging",
        (text(f"{FENCE_PROXY}\nbar.sync 0;", f"@%one {FENCE_PROXY}\nbar.sync 0;"),),
        Reported("race-proxy-fence", "cp.reduce.async.bulk", "st.shared", "by the writing threads"),
    ),
    PlantedDefect(
        "staging-refilled-by-others", "each thread waits for its own groups only: it has none", "R3",
        "reduce-staging", (text("bar.sync 2;\n"),),
        Reported("race-copy-unwaited", "st.shared", "cp.reduce.async.bulk", "bulk group"),
    ),
    PlantedDefect(
        "staging-not-waited-for", "the staging tile is refilled without any wait_group", "R3",
        "reduce-staging", (text("@%one cp.async.bulk.wait_group.read 0;\n"),),
        Reported("race-copy-unwaited", "st.shared", "cp.reduce.async.bulk", "bulk group"),
    ),
    PlantedDefect(
        "lane-stores-early", "lane 0 stores before its warp has joined", "R12", "warp-store",
        (text(f"{FENCE_PROXY}\nbar.warp.sync -1;", FENCE_PROXY),),
        Reported("race-unordered", "cp.async.bulk.global", "st.shared", "bar.warp.sync"),
    ),
    PlantedDefect(
        "warp-stores", "every lane issues the store of the whole tile", "R12", "warp-store",
        (text("@!%lane0 bra DONE;\n"),),
        Reported(
            "race-same-value", "cp.async.bulk.global", "cp.async.bulk.global", "the completion of the copy",
            severity="note",  # the lanes store the same bytes
        ),
    ),
    PlantedDefect(
        "lane-publishes-early", "lane 0 arrives before its warp has joined", "R12", "warp-publish",
        (text("bar.warp.sync -1;\n@%lane0", "@%lane0"),),
        Reported("race-unordered", "ld.shared", "st.shared", "bar.warp.sync"),
    ),
    PlantedDefect(
        "copy-over-generic-writes", "no fence.proxy.async between cleared bytes and the copy over them", "R4",
        "copy-over-zeros", (text(FENCE_PROXY + "\n"),),
        Reported("race-proxy-write", "cp.async.bulk.shared", "st.shared", "fence.proxy.async", severity="warning"),
    ),
)  # fmt: skip

ROWS = (*_LOADS, *_RING, *_STORES)
