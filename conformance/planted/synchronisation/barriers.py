# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in small programs: named barriers, trip counts, empty work, CTA pairs,
registers."""

from __future__ import annotations

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

HANDOFF = Program(
    "named-handoff",
    "warp 1 hands four tiles to warp 0 through two named barriers",
    f"""mov.u32 %r1, 0;
{at("%r2", "tile", "%l", 4)}
@%last bra PRODUCE;
CONSUME:
bar.sync 1, 64;
ld.shared.u32 %r3, [%r2];
bar.arrive 2, 64;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 4;
@%p1 bra CONSUME;
ret;
PRODUCE:
setp.eq.u32 %p2, %r1, 0;
@%p2 bra FREE;
bar.sync 2, 64;
FREE:
st.shared.u32 [%r2], %r1;
bar.arrive 1, 64;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 4;
@%p1 bra PRODUCE;
bar.sync 2, 64;""",
    (),
    (("tile", 128),),
)

TWO_GROUPS = Program(
    "two-warpgroups",
    "two warpgroups walk three tiles and meet at a barrier of 256 threads for each",
    """mov.u32 %r1, 3;
setp.lt.u32 %p1, %t, 128;
mov.u32 %r2, 0;
TILE:
setp.ge.u32 %p2, %r2, %r1;
@%p2 bra DONE;
bar.sync 1, 256;
add.u32 %r2, %r2, 1;
bra TILE;
DONE:
bar.warp.sync -1;""",
    threads=256,
)

EMPTY_TOKEN = Program(
    "empty-token",
    "tokens of 0 and 2 k-blocks: a producer commits each, the consumer waits for the last one of each token",
    f"""{init(("ready", 1))}
mov.u32 %r1, 0;
mov.u32 %r2, 0;
TOKEN:
mul.lo.u32 %r3, %r1, 2;
mov.u32 %r4, 0;
BLOCK:
setp.ge.u32 %p1, %r4, %r3;
@%p1 bra BLOCKS;
@%zero mbarrier.arrive.shared::cta.b64 _, [ready];
and.b32 %r5, %r2, 1;
{wait("ready", "%r5")}
bar.sync 0;
add.u32 %r2, %r2, 1;
add.u32 %r4, %r4, 1;
bra BLOCK;
BLOCKS:
setp.eq.u32 %p2, %r3, 0;
@%p2 bra NEXT;
sub.u32 %r6, %r2, 1;
and.b32 %r6, %r6, 1;
{wait("ready", "%r6")}
NEXT:
bar.sync 0;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p3, %r1, 2;
@%p3 bra TOKEN;""",
    ("ready",),
)

PAIR_TILES = Program(
    "pair-tiles",
    "the CTAs of a pair take turns on three tiles; CTA 0 waits until both have finished each round of two",
    f"""{init(("round", 2))}
{CLUSTER_SYNC}
mov.u32 %r1, round;
mapa.shared::cluster.u32 %r2, %r1, 0;
mov.u32 %r3, 0;
mov.u32 %r4, %rank;
ROUND:
setp.ge.u32 %p1, %r4, 3;
@%p1 bra TILE;
mad.lo.u32 %r5, %r4, 32, %l;
{word_of("%rd1", "%out", "%r5")}
st.global.u32 [%rd1], %r4;
TILE:
bar.warp.sync -1;
@%zero mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
setp.ne.u32 %p2, %rank, 0;
@%p2 bra MET;
and.b32 %r6, %r3, 1;
{wait("round", "%r6").replace("parity.shared", "parity.acquire.cluster.shared")}
MET:
{CLUSTER_SYNC}
add.u32 %r3, %r3, 1;
add.u32 %r4, %r4, 2;
setp.lt.u32 %p3, %r3, 2;
@%p3 bra ROUND;""",
    ("round",),
    threads=32,
    cluster=2,
)

LOCK = Program(
    "pair-lock",
    "each CTA of a pair signals a global lock when it is done, then waits until it counts two",
    """bar.warp.sync -1;
@!%zero bra SEEN;
atom.add.acq_rel.gpu.global.u32 %r1, [%out], 1;
SPIN:
ld.acquire.gpu.global.u32 %r2, [%out];
setp.ne.u32 %p1, %r2, 2;
@%p1 bra SPIN;
SEEN:
bar.warp.sync -1;""",
    threads=32,
    cluster=2,
)

REGISTERS = Program(
    "registers",
    "a producer warpgroup gives registers back, two consumer warpgroups take them",
    """setp.lt.u32 %p1, %t, 128;
@%p1 bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 232;
bra DONE;
PRODUCER:
setmaxnreg.dec.sync.aligned.u32 40;
DONE:
bar.sync 0;""",
    threads=384,
    directives=".maxntid 384, 1, 1 .minnctapersm 1",
)

BRANCHES = Program(
    "branches",
    "warps reach one barrier at two places, each warp as a whole",
    """setp.eq.u32 %p1, %w, 0;
@%p1 bra OTHER;
barrier.sync.aligned 1, 64;
bra DONE;
OTHER:
barrier.sync.aligned 1, 64;
DONE:
bar.warp.sync -1;""",
)

PROGRAMS = (HANDOFF, TWO_GROUPS, EMPTY_TOKEN, PAIR_TILES, LOCK, REGISTERS, BRANCHES)

ROWS = (
    PlantedDefect(
        "named-arrives-twice", "the producer arrives twice for each tile", "H3", "named-handoff",
        (text("bar.arrive 1, 64;", "bar.arrive 1, 64;\nbar.arrive 1, 64;"),),
        Reported("barrier-arrived-twice", "bar.arrive", says=("warp 1 arrives at named barrier 1 again",)),
    ),
    PlantedDefect(
        "named-frees-twice", "the consumer arrives twice for each tile", "H3", "named-handoff",
        (text("bar.arrive 2, 64;", "bar.arrive 2, 64;\nbar.arrive 2, 64;"),),
        Reported("barrier-arrived-twice", "bar.arrive", says=("warp 0 arrives at named barrier 2 again",)),
    ),
    PlantedDefect(
        "named-runs-ahead", "the producer does not wait until the tile is free", "H3", "named-handoff",
        (text("bar.sync 2, 64;\nFREE:", "FREE:"),),
        Reported("barrier-arrived-twice", "bar.arrive", says=("warp 1 arrives at named barrier 1 again",)),
    ),
    PlantedDefect(
        "group-stops-early", "one warpgroup takes one tile less", "H2", "two-warpgroups",
        (text("setp.lt.u32 %p1, %t, 128;", "setp.lt.u32 %p1, %t, 128;\n@%p1 mov.u32 %r1, 2;"),),
        Reported("hang", says=("named barrier 1 of CTA 0 has 128 of 256 threads", "which came the time before", "exited")),
    ),
    PlantedDefect(
        "group-without-tiles", "one warpgroup's count is -1: it takes no tile, the other waits alone", "H2",
        "two-warpgroups", (text("setp.ge.u32 %p2,", "@%p1 mov.u32 %r1, -1;\nsetp.ge.s32 %p2,"),),
        Reported("hang", says=("named barrier 1 of CTA 0 has 128 of 256 threads", "has not come", "exited")),
    ),
    PlantedDefect(
        "empty-token-waits", "the wait for the last k-block is made for a token without any", "H1",
        "empty-token", (text("@%p2 bra NEXT;\n"), text("sub.u32 %r6, %r2, 1;", "add.u32 %r6, %r2, 0;")),
        Reported("hang", says=("phase 0 of ready of CTA 0 lacks 1 of 1 arrival", "arrive")),
    ),
    PlantedDefect(
        "odd-tiles", "a CTA without a tile in the last round does not signal", "H5", "pair-tiles",
        (text("@%p1 bra TILE;", "@%p1 bra MET;"),),
        Reported("hang", says=("phase 1 of round of CTA 0 lacks 1 of 2 arrivals", "CTA 1")),
    ),
    PlantedDefect(
        "pair-counted-twice", "the barrier's count is that of two pairs", "H5", "pair-tiles",
        (text("[round], 2;", "[round], 4;"),),
        Reported("hang", says=("phase 0 of round of CTA 0 lacks", "of 4 arrivals", "its count of 4 was set")),
    ),
    PlantedDefect(
        "lock-once-a-pair", "the lock is signalled once per pair and counted once per CTA", "H5", "pair-lock",
        (text("atom.add", "setp.eq.u32 %p2, %rank, 0;\n@%p2 atom.add"),),
        Reported("livelock", says=("lane 0 of warp 0 of CTA 0", "spins")),
    ),
    PlantedDefect(
        "registers-not-given-back", "the producer warpgroup has no setmaxnreg.dec", "H4", "registers",
        (text("setmaxnreg.dec.sync.aligned.u32 40;\n"),),
        Reported("hang", says=("the register pool of CTA 0 has 0 registers where 2048 are wanted", "no warp that still runs comes to a setmaxnreg.dec")),
    ),
    PlantedDefect(
        "registers-of-a-gone-warp", "two producer warps leave before their setmaxnreg.dec", "H4", "registers",
        (text("PRODUCER:\n", "PRODUCER:\nsetp.lt.u32 %p2, %t, 64;\n@%p2 ret;\n"),),
        Reported("hang", says=("the register pool of CTA 0 has", "hold 168 registers per thread and exited")),
    ),
    PlantedDefect(
        "registers-too-many", "the consumers ask for more than the producers give back", "H4", "registers",
        (text("u32 232;", "u32 240;"),),
        Reported("hang", says=("the register pool of CTA 0 has", "hold 40 registers per thread")),
    ),
    PlantedDefect(
        "aligned-in-branches", "the halves of a warp reach an aligned barrier at two places", "R11", "branches",
        (text("setp.eq.u32 %p1, %w, 0;", "setp.lt.u32 %p1, %l, 16;"),),
        Reported("hang", says=("a cycle of waits", "these have diverged")),
    ),
    PlantedDefect(
        "aligned-under-predicate", "half of a warp skips the aligned barrier by a predicate", "R11", "branches",
        (text("OTHER:\nbarrier", "OTHER:\nsetp.lt.u32 %p2, %l, 16;\n@%p2 barrier"),),
        Reported("aligned-partial", "barrier.sync"),
    ),
)  # fmt: skip
