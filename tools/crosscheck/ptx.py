# ruff: noqa: E501 - PTX lines and the table of programs are kept whole
"""PTX of the right programs of `programs`, with two abbreviations that `expand` writes out.

`WAIT barrier parity` is the usual loop of mbarrier.try_wait; `CLUSTER_SYNC` is an aligned arrive and wait of the
cluster barrier. A comment after an instruction names it for the edits that make wrong programs.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
REGISTERS = """
.reg .pred %p<4>, %first, %warp0, %other, %last, %no, %owner;
.reg .b32 %r<12>, %t, %lane, %warp, %rank, %tmem, %cell, %idesc, %v<4>, %mine;
.reg .b64 %rd<8>, %out, %map, %da, %db;
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5;
setp.eq.u32 %first, %t, 0; setp.eq.u32 %warp0, %warp, 0; setp.ne.u32 %other, %lane, 9; setp.eq.u32 %last, %lane, 31;
ld.param.u64 %out, [out];
"""


@dataclass(frozen=True)
class Base:
    """A right program: text, threads per CTA, CTAs of its one cluster, 4-byte words of `out`.

    `source`: no second parameter, or a tensor map over a "line" of 64 f32, "rows" of 16 f32, or "out".
    """

    body: str
    threads: int
    cluster: int = 1
    words: int = 64
    source: str = ""
    module: str = ""


def text_of(base: Base, body: str) -> str:
    """The module of `body`, in the frame of `base`; its entry is `k`."""
    second = ", .param .align 64 .b8 map[128]" if base.source else ""
    load = "mov.b64 %map, map; cvta.param.u64 %map, %map;\n" if base.source else ""
    size = f".reqnctapercluster {base.cluster}, 1, 1" if base.cluster > 1 else ""
    return expand(
        f"{HEADER}{base.module}.visible .entry k(.param .u64 out{second})\n{size}\n"
        f"{{{REGISTERS}{load}{body.strip()}\nDONE: ret;\n}}\n"
    )


def expand(text: str) -> str:
    """Writes the abbreviations out."""
    count = itertools.count()

    def wait(found: re.Match[str]) -> str:
        label = f"WAIT_{next(count)}"
        test = f"mbarrier.try_wait.parity.shared::cta.b64 %p3, [{found[1]}], {found[2]};"
        return f"{label}:\n{test}\n@!%p3 bra {label};"

    text = re.sub(r"WAIT (\w+) (\d)", wait, text)
    return text.replace("CLUSTER_SYNC", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")


PIPELINE = """
.shared .align 16 .b8 tile[128]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;
@%first mbarrier.init.shared::cta.b64 [full], 32;
@%first mbarrier.init.shared::cta.b64 [empty], 32;
bar.sync 0;
mov.u32 %r0, tile; mad.lo.u32 %mine, %lane, 4, %r0; sub.u32 %r1, 31, %lane; mad.lo.u32 %r2, %r1, 4, %r0;
mad.wide.u32 %rd0, %lane, 4, %out;
@!%warp0 bra CONSUMER;
st.shared.b32 [%mine], %t; // first
mbarrier.arrive.shared::cta.b64 _, [full]; // first
WAIT empty 0
st.shared.b32 [%mine], %warp; // second
mbarrier.arrive.shared::cta.b64 _, [full]; // second
bra DONE;
CONSUMER:
WAIT full 0
ld.shared.b32 %v0, [%r2]; // first
st.global.b32 [%rd0], %v0;
mbarrier.arrive.shared::cta.b64 _, [empty];
WAIT full 1
ld.shared.b32 %v1, [%r2]; // second
st.global.b32 [%rd0+128], %v1;
"""

# Thirty-two arrivals, a barrier of the CTA, thirty-two more: only the second phase is waited for.
UNWAITED = """
.shared .align 16 .b8 tile[128]; .shared .align 8 .b64 full;
@%first mbarrier.init.shared::cta.b64 [full], 32;
bar.sync 0;
mov.u32 %r0, tile; mad.lo.u32 %mine, %lane, 4, %r0; sub.u32 %r1, 31, %lane; mad.lo.u32 %r2, %r1, 4, %r0;
mbarrier.arrive.shared::cta.b64 _, [full]; // first
bar.sync 0;
st.shared.b32 [%mine], %t;
mbarrier.arrive.shared::cta.b64 _, [full]; // second
WAIT full 1
ld.shared.b32 %v0, [%r2];
mad.wide.u32 %rd0, %lane, 4, %out; st.global.b32 [%rd0], %v0;
"""

NAMED = """
.shared .align 16 .b8 tile[128];
mov.u32 %r0, tile; mad.lo.u32 %mine, %lane, 4, %r0; sub.u32 %r1, 31, %lane; mad.lo.u32 %r2, %r1, 4, %r0;
@!%warp0 bra READER;
st.shared.b32 [%mine], %t;
bar.sync 1, 64; // writer
bra DONE;
READER:
bar.sync 1, 64; // reader
ld.shared.b32 %v0, [%r2];
mad.wide.u32 %rd0, %lane, 4, %out; st.global.b32 [%rd0], %v0;
"""

TMA_LOAD = """
.shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;
@%first mbarrier.init.shared::cta.b64 [full], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
@!%first bra WAITING;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
mov.u32 %r1, 0;
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {%r1}], [full];
WAITING:
WAIT full 0
mov.u32 %r0, tile; mad.lo.u32 %r2, %t, 4, %r0;
ld.shared.b32 %v0, [%r2];
mad.wide.u32 %rd0, %t, 4, %out; st.global.b32 [%rd0], %v0;
"""

BULK_STORE = """
.shared .align 128 .b8 tile[256];
mov.u32 %r0, tile; mad.lo.u32 %r2, %t, 4, %r0;
st.shared.b32 [%r2], %t;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %r1, 0;
@%first cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%map, {%r1}], [tile];
@%first cp.async.bulk.commit_group;
@%first cp.async.bulk.wait_group.read 0;
bar.sync 0;
st.shared.b32 [%r2], %lane; // again
@%first cp.async.bulk.wait_group 0;
"""

# A [128, 16] and B [64, 16] bf16, K-major without swizzle: 8x16-byte core matrices, 128 bytes apart along M and N
# (SBO), rows * 16 bytes apart along K (LBO) (PTX ISA, canonical layouts of tcgen05).
MMA = """
.shared .align 1024 .b8 operands[6144]; .shared .align 8 .b64 done; .shared .align 4 .b32 slot;
@%first mbarrier.init.shared::cta.b64 [done], 1;
@%first fence.mbarrier_init.release.cluster;
@%warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
@%warp0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
mov.u32 %r0, operands; mad.lo.u32 %r1, %t, 48, %r0; mov.u32 %v0, 0;
st.shared.v4.b32 [%r1], {%v0, %v0, %v0, %v0}; st.shared.v4.b32 [%r1+16], {%v0, %v0, %v0, %v0};
st.shared.v4.b32 [%r1+32], {%v0, %v0, %v0, %v0};
fence.proxy.async.shared::cta;
tcgen05.fence::before_thread_sync; // alloc
bar.sync 0;
tcgen05.fence::after_thread_sync; // alloc
ld.shared.b32 %tmem, [slot];
shr.u32 %r2, %r0, 4; cvt.u64.u32 %rd1, %r2; or.b64 %da, %rd1, DESCRIPTOR_A;
add.u32 %r3, %r0, 4096; shr.u32 %r3, %r3, 4; cvt.u64.u32 %rd1, %r3; or.b64 %db, %rd1, DESCRIPTOR_B;
mov.u32 %idesc, INSTRUCTION; setp.ne.u32 %no, %idesc, %idesc;
shl.b32 %r4, %warp, 21; add.u32 %cell, %tmem, %r4;
mad.wide.u32 %rd0, %t, 4, %out;
@!%first bra ISSUED_0;
tcgen05.mma.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no; // first
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done]; // first
ISSUED_0:
WAIT done 0
tcgen05.fence::after_thread_sync; // first
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v1}, [%cell];
tcgen05.wait::ld.sync.aligned; // first
tcgen05.fence::before_thread_sync; // loads
bar.sync 0; // loads
@!%first bra ISSUED_1;
tcgen05.fence::after_thread_sync; // loads
tcgen05.mma.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no; // second
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done]; // second
ISSUED_1:
WAIT done 1
tcgen05.fence::after_thread_sync; // second
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v2}, [%cell];
tcgen05.wait::ld.sync.aligned; // second
st.global.b32 [%rd0], %v1;
st.global.b32 [%rd0+512], %v2;
tcgen05.fence::before_thread_sync; // dealloc
bar.sync 0; // dealloc
tcgen05.fence::after_thread_sync; // dealloc
@%warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 64;
"""

GLOBAL = """
mul.lo.u32 %r1, %lane, 4; // mine
@!%warp0 bra READER;
cvt.u64.u32 %rd1, %r1; add.u64 %rd0, %out, %rd1; st.global.b32 [%rd0], %lane;
READER:
bar.sync 0;
@%warp0 bra DONE;
sub.u32 %r2, 31, %lane; mad.wide.u32 %rd0, %r2, 4, %out;
ld.global.b32 %v0, [%rd0];
mad.wide.u32 %rd2, %lane, 4, %out; st.global.b32 [%rd2+128], %v0;
"""

CLUSTER = """
.shared .align 8 .b64 full;
mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %owner, %rank, 0;
@%first mbarrier.init.shared::cta.b64 [full], 32;
@%first fence.mbarrier_init.release.cluster;
CLUSTER_SYNC // init
mul.lo.u32 %r1, %lane, 4;
mad.lo.u32 %r1, %rank, 128, %r1; // own row
cvt.u64.u32 %rd1, %r1; add.u64 %rd0, %out, %rd1; st.global.b32 [%rd0], %rank;
@%owner bra OWNER;
mov.u32 %r2, full; mov.u32 %r3, 0; mapa.shared::cluster.u32 %r4, %r2, %r3;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
bra END;
OWNER:
WAIT full 0
END:
CLUSTER_SYNC // end
"""

RED = """
mad.wide.u32 %rd0, %lane, 4, %out;
@%warp0 st.global.f32 [%rd0], 0f00000000;
bar.sync 0;
mov.b32 %v0, 0f3F800000;
red.global.add.f32 [%rd0], %v0;
"""

GATHER4 = """
.shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;
@%first mbarrier.init.shared::cta.b64 [full], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
@!%first bra WAITING;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
mov.u32 %r1, 0; mov.u32 %r2, 1; mov.u32 %r3, 2; mov.u32 %r4, 3;
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [%map, {%r1, %r1, %r2, %r3, %r4}], [full];
WAITING:
WAIT full 0
mov.u32 %r0, tile; mad.lo.u32 %r2, %t, 4, %r0;
ld.shared.b32 %v0, [%r2];
mad.wide.u32 %rd0, %t, 4, %out; st.global.b32 [%rd0], %v0;
"""

PRINTF = """
mov.u64 %rd1, 0; mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;
{ .param .b64 param0; st.param.b64 [param0], %rd2; .param .b64 param1; st.param.b64 [param1], %rd1; .param .b32 retval0;
call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r9, [retval0]; }
mad.wide.u32 %rd0, %lane, 4, %out; st.global.b32 [%rd0], %lane;
"""


def _with_descriptors(text: str) -> str:
    """The MMA's program with the encoded descriptors, of start address 0."""
    values = {
        "DESCRIPTOR_A": SmemDescriptor(0, 128 * 16, 128, "none").encode(),
        "DESCRIPTOR_B": SmemDescriptor(0, 64 * 16, 128, "none").encode(),
        "INSTRUCTION": InstructionDescriptor(128, 64).encode(),
    }
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


BASES: dict[str, Base] = {
    "pipeline": Base(PIPELINE, 64),
    "unwaited": Base(UNWAITED, 32),
    "named": Base(NAMED, 64),
    "tma_load": Base(TMA_LOAD, 64, source="line"),
    "bulk_store": Base(BULK_STORE, 64, source="out"),
    "mma": Base(_with_descriptors(MMA), 128, words=256),
    "global": Base(GLOBAL, 64),
    "cluster": Base(CLUSTER, 32, cluster=2),
    "red": Base(RED, 64, words=32),
    "gather4": Base(GATHER4, 64, source="rows"),
    "printf": Base(
        PRINTF,
        32,
        module=".extern .func (.param .b32 retval0) vprintf (.param .b64 param0, .param .b64 param1);\n"
        ".global .align 1 .b8 format[4] = {104, 105, 10, 0};\n",
    ),
}
