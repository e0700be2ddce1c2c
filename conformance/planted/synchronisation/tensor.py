# ruff: noqa: E501 - rows and the texts that they are anchored on are kept whole
"""Planted synchronisation defects in small programs: tensor memory, the tensor core, their fences and commits."""

from __future__ import annotations

from tileproof.conformance.planted.synchronisation.ptx import (
    AFTER,
    BEFORE,
    FENCE_PROXY,
    Program,
    alloc,
    at,
    dealloc,
    init,
    text,
    wait,
)
from tileproof.kernels.edit import PlantedDefect, Reported
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

# Operands of 128 rows of 16 bf16, 32B swizzle: 4 KiB from shared address 0x1000 on, and B in its first rows.
OPERANDS = 0x1000
DESCRIPTOR = SmemDescriptor(OPERANDS, 16, 256, "32B").encode()
WAIT_DONE = wait("done")
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
_COMMIT = "@%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
COMMIT, COMMIT_AGAIN = f"{_COMMIT} [done];", f"{_COMMIT} [again];"
WAIT_AGAIN = wait("again")
EIGHT = "{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}"
LD = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {EIGHT}, [%r71];"
ST = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r71], {EIGHT};"
CLEAR = "\n".join(f"mov.b32 %r{20 + i}, 0;" for i in range(8))
USE = "add.u32 %r2, %r20, %r27;"
FILL = f"""{at("%r1", "operands", "%t", 32)}
st.shared.v4.b32 [%r1], {{0, 0, 0, 0}};
st.shared.v4.b32 [%r1+16], {{0, 0, 0, 0}};
{FENCE_PROXY}
bar.sync 0;
{AFTER}"""


def mma(d: str = "%r70", a: str = str(DESCRIPTOR), n: int = 32, accumulate: str = "%p5") -> str:
    """One thread multiplies 128 x n x 16."""
    return (
        f"@%one tcgen05.mma.cta_group::1.kind::f16 [{d}], {a}, {DESCRIPTOR}, "
        f"{InstructionDescriptor(128, n).encode()}, {accumulate};"
    )


def tensor(name: str, title: str, body: str, columns: int = 32, threads: int = 128) -> Program:
    """A program with allocated TMEM columns and mbarriers `done` and `again`; %p5 is false, %p6 true."""
    text = f"""{init(("done", 1), ("again", 1))}
{alloc(columns)}
setp.ne.u32 %p5, %t, %t;
setp.eq.u32 %p6, %t, %t;
{body}
{dealloc(columns)}"""
    # `base` lies at 0x800, the operands at the next multiple of 1024 bytes.
    tiles = (("base", 4), ("unused", 1024), ("operands", 4096))
    return Program(name, title, text, ("done", "again"), tiles, threads)


MULTIPLY = tensor(
    "multiply",
    "operands by generic stores, one MMA, its accumulator read; the operands written again, a second MMA",
    f"""{FILL}
{mma()}
{COMMIT}
bar.sync 1;
{WAIT_DONE}
{AFTER}
{LD}
{WAIT_LD}
{USE}
{BEFORE}
st.shared.v4.b32 [%r1], {{0, 0, 0, 0}};
{FENCE_PROXY}
bar.sync 0;
{AFTER}
{mma()}
{COMMIT_AGAIN}
{WAIT_AGAIN}
{AFTER}""",
)

EXCHANGE = tensor(
    "exchange",
    "one warpgroup writes TMEM, the other reads it",
    f"""{CLEAR}
setp.lt.u32 %p1, %t, 128;
@%p1 bra READS;
{ST}
{WAIT_ST}
{BEFORE}
bar.sync 1, 256;
bra MET;
READS:
bar.sync 1, 256;
{AFTER}
{LD}
{WAIT_LD}
{USE}
{BEFORE}
MET:
bar.sync 2, 256;""",
    threads=256,
)

STORED_OPERAND = tensor(
    "stored-operand",
    "A goes to TMEM by tcgen05.st and is multiplied; then it is written again",
    f"""{FILL}
{CLEAR}
{ST}
{WAIT_ST}
{BEFORE}
bar.sync 0;
{AFTER}
add.u32 %r73, %r70, 16;
{mma("%r73", "[%r70]", 16)}
{COMMIT}
bar.sync 1;
{WAIT_DONE}
{AFTER}
{ST}
{WAIT_ST}""",
)

TWO_SHAPES = tensor(
    "two-shapes",
    "an MMA of N = 32 clears the accumulator, one of N = 16 adds to its first columns",
    f"""{FILL}
{mma()}
{COMMIT}
{WAIT_DONE}
{AFTER}
{mma(n=16, accumulate="%p6")}
{COMMIT_AGAIN}
{WAIT_AGAIN}""",
)

CHAINED = tensor(
    "chained",
    "the accumulator of one MMA is the A operand of the next",
    f"""{FILL}
{mma("%r70", n=16)}
{COMMIT}
{WAIT_DONE}
{AFTER}
add.u32 %r73, %r70, 16;
{mma("%r73", "[%r70]", 16)}
{COMMIT_AGAIN}
{WAIT_AGAIN}""",
)

COPIED_OPERAND = Program(
    "copied-operand",
    "a ring of one: an operand is copied in, multiplied, and its buffer freed by the commit",
    f"""{init(("done", 1), ("full", 1))}
{alloc()}
setp.ne.u32 %p5, %t, %t;
mov.u32 %r3, 0;
TILE:
and.b32 %r4, %r3, 1;
xor.b32 %r5, %r4, 1;
@!%one bra MET;
{wait("done", "%r5")}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [operands], [%in], 4096, [full];
{wait("full", "%r4")}
{AFTER}
{mma().removeprefix("@%one ")}
{COMMIT.removeprefix("@%one ")}
MET:
bar.sync 0;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p3, %r3, 3;
@%p3 bra TILE;
{wait("done", 0)}
{AFTER}
{dealloc()}""",
    ("done", "full"),
    (("base", 4), ("unused", 1024), ("operands", 4096)),
    threads=64,
)

_BASE = "ld.shared.u32 %r70, [base];"
BASE_WORD = tensor(
    "base-word", "the last warp allocates, all warps read the address", f"{CLEAR}\n{ST}\n{WAIT_ST}"
)

EMPTY_TILE = Program(
    "no-tiles",
    "a CTA without a tile allocates too, because it frees at the end",
    """setp.ne.u32 %p1, %t, %t;
@%last tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 32;
bar.sync 0;
ld.shared.u32 %r70, [base];
bar.sync 0;
@%last tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r70, 32;""",
    (),
    (("base", 4),),
)

PROGRAMS = (
    MULTIPLY, EXCHANGE, STORED_OPERAND, TWO_SHAPES, CHAINED, COPIED_OPERAND, BASE_WORD, EMPTY_TILE,
)  # fmt: skip

_MULTIPLY = (
    PlantedDefect(
        "mma-without-proxy-fence", "no fence.proxy.async between the operand's stores and the MMA", "R4",
        "multiply", (text(f"[%r1+16], {{0, 0, 0, 0}};\n{FENCE_PROXY}\n", "[%r1+16], {0, 0, 0, 0};\n"),),
        Reported("race-proxy-fence", "tcgen05.mma", "st.shared", "fence.proxy.async"),
    ),
    PlantedDefect(
        "mma-result-not-waited-for", "the accumulator is read without waiting for the commit", "R13",
        "multiply", (text(f"{WAIT_DONE}\n"),),
        Reported("race-mma-unwaited", "tcgen05.ld", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "mma-arrival-for-commit", "the issuing thread arrives itself instead of a commit", "R13",
        "multiply",
        (text(COMMIT, "@%one mbarrier.arrive.shared::cta.b64 _, [done];"),),
        Reported("race-mma-unwaited", "tcgen05.ld", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "mma-result-without-fence", "no tcgen05.fence::after_thread_sync before the accumulator is read", "R5",
        "multiply", (text(f"{AFTER}\n{LD}", LD),),
        Reported("race-commit-fence", "tcgen05.ld", "tcgen05.mma", "after_thread_sync", severity="warning"),
    ),
    PlantedDefect(
        "mma-over-unread-result", "no wait::ld before the next MMA writes the columns", "R1", "multiply",
        (text(f"{WAIT_LD}\n{USE}\n"),),
        Reported("race-tmem-unwaited", "tcgen05.mma", "tcgen05.ld", "wait::ld"),
    ),
    PlantedDefect(
        "mma-over-result-before-fence", "no tcgen05.fence::before_thread_sync after the accumulator is read",
        "R1", "multiply", (text(f"{USE}\n{BEFORE}\n", f"{USE}\n"),),
        Reported("race-waited-fence", "tcgen05.mma", "tcgen05.ld", "before_thread_sync", severity="warning"),
    ),
    PlantedDefect(
        "mma-over-others-result", "before the next MMA the warp syncs, not the warpgroup", "R5 R1",
        "multiply", (text(f"{FENCE_PROXY}\nbar.sync 0;\n{AFTER}\n{mma()}\n{COMMIT_AGAIN}", f"{FENCE_PROXY}\nbar.warp.sync -1;\n{AFTER}\n{mma()}\n{COMMIT_AGAIN}"),),
        Reported("race-unordered", "tcgen05.mma", "tcgen05.ld", "a barrier"),
    ),
    PlantedDefect(
        "mma-operand-without-fence", "no tcgen05.fence::after_thread_sync between the barrier and the MMA", "",
        "multiply", (text(f"bar.sync 0;\n{AFTER}\n{mma()}\n{COMMIT}\n", f"bar.sync 0;\n{mma()}\n{COMMIT}\n"),),
        Reported("race-operand-fence", "tcgen05.mma", "st.shared", "after_thread_sync", severity="note"),
    ),
)  # fmt: skip

_TMEM = (
    PlantedDefect(
        "tmem-store-not-waited-for", "no wait::st before the other warpgroup reads", "R5", "exchange",
        (text(f"{WAIT_ST}\n"),),
        Reported("race-tmem-unwaited", "tcgen05.ld", "tcgen05.st", "wait::st"),
    ),
    PlantedDefect(
        "tmem-warp-sync", "each warp syncs alone, not with both warpgroups", "R5", "exchange",
        (text("bar.sync 1, 256;", "bar.warp.sync -1;", 2),),
        Reported("race-unordered", "tcgen05.ld", "tcgen05.st", "a barrier"),
    ),
    PlantedDefect(
        "tmem-read-without-fence", "the reading warpgroup has no fence::after_thread_sync", "R5", "exchange",
        (text(f"{AFTER}\n{LD}", LD),),
        Reported("race-waited-fence", "tcgen05.ld", "tcgen05.st", "after_thread_sync", severity="warning"),
    ),
    PlantedDefect(
        "operand-store-not-waited-for", "the MMA reads A from TMEM without wait::st before it", "R5",
        "stored-operand", (text(f"{WAIT_ST}\n{BEFORE}\nbar.sync 0;\n{AFTER}\nadd", f"{BEFORE}\nbar.sync 0;\n{AFTER}\nadd"),),
        Reported("race-tmem-unwaited", "tcgen05.mma", "tcgen05.st", "wait::st"),
    ),
    PlantedDefect(
        "operand-overwritten", "A is written again before the MMA has read it", "R1", "stored-operand",
        (text(f"{WAIT_DONE}\n{AFTER}\n"),),
        Reported("race-mma-unwaited", "tcgen05.st", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "shapes-without-commit", "an MMA of another shape accumulates without a commit and wait", "R14",
        "two-shapes", (text(f"{COMMIT}\n{WAIT_DONE}\n{AFTER}\n"),),
        Reported("race-mma-pipeline", "tcgen05.mma", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "accumulator-as-operand", "an accumulator is read as A without a commit and wait between", "R14 R1",
        "chained", (text(f"{COMMIT}\n{WAIT_DONE}\n{AFTER}\n"),),
        Reported("race-mma-pipeline", "tcgen05.mma", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "buffer-freed-by-arrival", "`done` is fed by the issuing thread's arrival, not by its commit", "R1",
        "copied-operand", (text(COMMIT.removeprefix("@%one "), "mbarrier.arrive.shared::cta.b64 _, [done];"),),
        Reported("race-mma-unwaited", "cp.async.bulk", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "buffer-not-waited-for", "the next operand is copied in while the MMA may still read", "R1 R2",
        "copied-operand", (text(f"{wait('done', '%r5')}\n"),),
        Reported("race-mma-unwaited", "cp.async.bulk", "tcgen05.mma", "tcgen05.commit"),
    ),
    PlantedDefect(
        "operand-not-waited-for", "the MMA does not wait for its operand's bytes", "R13", "copied-operand",
        (text(f"{wait('full', '%r4')}\n"),),
        Reported("race-copy-unwaited", "tcgen05.mma", "cp.async.bulk", "mbarrier phase"),
    ),
    PlantedDefect(
        "base-read-without-barrier", "the TMEM address is read before the CTA's barrier", "R9", "base-word",
        (text(f"bar.sync 0;\n{_BASE}", _BASE),),
        Reported("race-unordered", "ld.shared", "tcgen05.alloc", "a barrier"),
    ),
    PlantedDefect(
        "base-read-after-warp-sync", "each warp syncs alone before it reads the TMEM address", "R9",
        "base-word", (text(f"bar.sync 0;\n{_BASE}", f"bar.warp.sync -1;\n{_BASE}"),),
        Reported("race-unordered", "ld.shared", "tcgen05.alloc", "a barrier"),
    ),
    PlantedDefect(
        "dealloc-before-the-others", "one warp frees the columns while others still use them", "R1 H6",
        "base-word", (text(f"{BEFORE}\nbar.sync 0;\n{AFTER}\n@%last", "@%last"),),
        Reported("race-unordered", "tcgen05.dealloc", "tcgen05.st", "a barrier"),
    ),
    PlantedDefect(
        "no-tile-no-base", "without a tile the allocation is skipped, but its address is still freed", "H6",
        "no-tiles", (text("@%last tcgen05.alloc", "@%p1 tcgen05.alloc"),),
        Reported("shared-uninitialised", "ld.shared"),
    ),
    PlantedDefect(
        "no-tile-other-columns", "without a tile 64 columns are freed where 32 are allocated", "H6",
        "no-tiles", (text("%r70, 32;", "%r70, 64;"),),
        Reported("tmem-dealloc", "tcgen05.dealloc"),
    ),
)  # fmt: skip

ROWS = (*_MULTIPLY, *_TMEM)
