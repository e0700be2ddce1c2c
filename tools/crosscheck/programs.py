# ruff: noqa: E501 - PTX lines and the table of programs are kept whole
"""Small PTX programs with a known answer: right protocols, and each with a single defect.

They measure what a checker can see (docs/crosscheck.md). A wrong program is its base with one edit of the
text; what is wrong with it follows from the PTX ISA, not from what a tool says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from tileproof.kernels.launch.arguments import TensorMapArgument
from tileproof.kernels.launch.builder import Given, LaunchBuilder, tensor_map
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.crosscheck.ptx import BASES, Base, text_of


@dataclass(frozen=True)
class KnownProgram:
    """A program and its answer. `wrong` says what is wrong with it in words, empty for a right program.

    `topic` groups the rows of the table. `edits` are (find, replace) pairs, each of which must occur once.
    """

    id: str
    topic: str
    base: str
    title: str
    wrong: str = ""
    edits: tuple[tuple[str, str], ...] = ()


PROGRAMS: tuple[KnownProgram, ...] = (
    KnownProgram("pipeline", "barriers", "pipeline", "two warps pass a tile in shared memory by mbarriers"),
    KnownProgram(
        "missing-arrive", "barriers", "pipeline", "the same, lane 9 of the consumer does not arrive",
        "deadlock: the producer waits for 32 arrivals and gets 31",
        (("mbarrier.arrive.shared::cta.b64 _, [empty];", "@%other mbarrier.arrive.shared::cta.b64 _, [empty];"),),
    ),
    KnownProgram(
        "count-too-high", "barriers", "pipeline", "the same, the barrier is initialised for 33 arrivals",
        "deadlock: the 33rd arrival is missing",
        (("[full], 32;", "[full], 33;"),),
    ),
    KnownProgram(
        "count-too-low", "barriers", "pipeline", "the same, the barrier is initialised for 31 arrivals",
        "the 32nd arrival counts for the next phase",
        (("[full], 32;", "[full], 31;"),),
    ),
    KnownProgram(
        "never-initialised", "barriers", "pipeline", "the same, one barrier is not initialised",
        "an mbarrier is used before mbarrier.init",
        (("@%first mbarrier.init.shared::cta.b64 [empty], 32;", ""),),
    ),
    KnownProgram(
        "unwaited-phase", "barriers", "unwaited", "a phase without a wait, complete by bar.sync, then a phase with a wait"
    ),
    KnownProgram(
        "named-barrier", "barriers", "named", "two warps pass a tile in shared memory by bar.sync"
    ),
    KnownProgram(
        "named-count", "barriers", "named", "the same, one warp names 96 threads",
        "the two warps disagree on the thread count of barrier 1",
        (("bar.sync 1, 64; // reader", "bar.sync 1, 96;"),),
    ),
    KnownProgram(
        "read-without-wait", "shared memory", "pipeline", "the same, the consumer does not wait for the first tile",
        "race: the tile is read while it may not be written yet",
        (("WAIT full 0", ""),),
    ),
    KnownProgram(
        "overwrite-without-wait", "shared memory", "pipeline",
        "the same, the producer does not wait before the second tile",
        "race: the tile is overwritten while it may still be read",
        (("WAIT empty 0", ""),),
    ),
    KnownProgram(
        "wrong-parity", "shared memory", "pipeline", "the same, the second wait names the parity of the first",
        "race: the wait passes at once, the second tile is read while it is written",
        (("WAIT full 1", "WAIT full 0"),),
    ),
    KnownProgram(
        "never-written", "shared memory", "pipeline", "the same, the producer does not write the first tile",
        "shared memory is read that nothing has written",
        (("st.shared.b32 [%mine], %t; // first", ""),),
    ),
    KnownProgram("tma-load", "copies", "tma_load", "a tile comes by TMA, an mbarrier says when"),
    KnownProgram(
        "tma-read-early", "copies", "tma_load", "the same, read without waiting",
        "race: a thread reads what the copy is writing",
        (("WAIT full 0", ""),),
    ),
    KnownProgram(
        "tma-bytes-too-many", "copies", "tma_load", "the same, the barrier expects 4 bytes more",
        "deadlock: the bytes never arrive",
        (("[full], 256;", "[full], 260;"),),
    ),
    KnownProgram(
        "tma-bytes-too-few", "copies", "tma_load", "the same, the barrier expects half of the bytes",
        "the phase completes before the copy, the rest underflows the next one",
        (("[full], 256;", "[full], 128;"),),
    ),
    KnownProgram("bulk-store", "copies", "bulk_store", "a tile goes out by TMA, then its buffer is written again"),
    KnownProgram(
        "bulk-overwrite", "copies", "bulk_store", "the same without wait_group.read",
        "race: the buffer is overwritten while the copy may still read it",
        (("@%first cp.async.bulk.wait_group.read 0;", ""),),
    ),
    KnownProgram(
        "bulk-proxy-fence", "fences", "bulk_store", "the same without fence.proxy.async",
        "the copy may not see what the threads wrote: no proxy fence",
        (("fence.proxy.async.shared::cta;", ""),),
    ),
    KnownProgram("mma", "tensor memory", "mma", "two MMAs into one accumulator, each read back by tcgen05.ld"),
    KnownProgram(
        "mma-read-early", "tensor memory", "mma", "the same, the first result is read without waiting for its commit",
        "race: tcgen05.ld reads the accumulator while the MMA writes it",
        (("WAIT done 0", ""),),
    ),
    KnownProgram(
        "mma-overwrite", "tensor memory", "mma",
        "the same, the second MMA does not wait for the other warps' loads",
        "race: the MMA writes the accumulator while tcgen05.ld may read it",
        (("bar.sync 0; // loads", ""),),
    ),
    KnownProgram(
        "mma-no-commit", "tensor memory", "mma", "the same, the second MMA is not committed",
        "deadlock: the barrier is never signalled",
        (("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done]; // second", ""),),
    ),
    KnownProgram(
        "mma-not-freed", "tensor memory", "mma", "the same without tcgen05.dealloc",
        "the CTA exits with tensor memory allocated",
        (("@%warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 64;", ""),),
    ),
    KnownProgram(
        "mma-wait-ld", "fences", "mma", "the same without tcgen05.wait::ld before the second MMA",
        "race: the load may not have read before the MMA writes",
        (("tcgen05.wait::ld.sync.aligned; // first", ""),),
    ),
    KnownProgram(
        "mma-use-before-wait-ld", "fences", "mma", "the same, the loaded register is stored before its wait::ld",
        "the register is used before wait::ld (the PTX ISA requires the wait; hardware waits by scoreboard)",
        (("tcgen05.wait::ld.sync.aligned; // first", "st.global.b32 [%rd0], %v1; tcgen05.wait::ld.sync.aligned;"),),
    ),
    KnownProgram(
        "mma-fence-before", "fences", "mma", "the same without tcgen05.fence::before_thread_sync",
        "the barrier does not order the load before the MMA",
        (("tcgen05.fence::before_thread_sync; // loads", ""),),
    ),
    KnownProgram(
        "mma-fence-after", "fences", "mma", "the same without tcgen05.fence::after_thread_sync",
        "the wait does not order the load after the MMA",
        (("tcgen05.fence::after_thread_sync; // first", ""),),
    ),
    KnownProgram(
        "mma-proxy-fence", "fences", "mma", "the same without fence.proxy.async before the MMA",
        "the tensor core may not see the operands: no proxy fence",
        (("fence.proxy.async.shared::cta;", ""),),
    ),
    KnownProgram("two-warps-global", "global memory", "global", "one warp writes a row, another reads it after bar.sync"),
    KnownProgram(
        "global-race", "global memory", "global", "the same without bar.sync",
        "race: the row is read while it may not be written yet",
        (("bar.sync 0;", ""),),
    ),
    KnownProgram(
        "out-of-bounds", "global memory", "global", "the same, the last lane writes past the buffer",
        "an access outside the buffer",
        (("// mine", "@%last add.u32 %r1, %r1, 256;"),),
    ),
    KnownProgram("cluster", "clusters", "cluster", "a CTA arrives at its peer's barrier, both leave together"),
    KnownProgram(
        "cluster-no-init-sync", "clusters", "cluster", "the same without the cluster barrier after mbarrier.init",
        "the remote arrival may precede the init",
        (("CLUSTER_SYNC // init", ""),),
    ),
    KnownProgram(
        "cluster-init-fence", "fences", "cluster", "the same without fence.mbarrier_init, the barrier arrival relaxed",
        "the remote arrive may not see the init: the relaxed cluster barrier publishes nothing",
        (("@%first fence.mbarrier_init.release.cluster;", ""),
         ("CLUSTER_SYNC // init", "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;")),
    ),
    KnownProgram(
        "cluster-early-exit", "clusters", "cluster", "the same, the owner leaves without waiting for the peer",
        "the remote arrival may follow the owner's exit",
        (("CLUSTER_SYNC // end", ""), ("WAIT full 0", "")),
    ),
    KnownProgram(
        "cluster-one-address", "clusters", "cluster", "the same, both CTAs write the same words",
        "race: two CTAs store to the same addresses without order",
        (("mad.lo.u32 %r1, %rank, 128, %r1; // own row", ""),),
    ),
    KnownProgram("red", "coverage", "red", "red.global.add.f32 by two warps into one row"),
    KnownProgram("gather4", "coverage", "gather4", "a TMA gather of four rows"),
    KnownProgram(
        "mma-ws", "coverage", "mma", "the same with tcgen05.mma.ws",
        "",
        (("tcgen05.mma.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no; // first",
          "tcgen05.mma.ws.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no;"),
         ("tcgen05.mma.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no; // second",
          "tcgen05.mma.ws.cta_group::1.kind::f16 [%tmem], %da, %db, %idesc, %no;")),
    ),
    KnownProgram(
        "bulk-copy-out", "coverage", "bulk_store", "the same as cp.async.bulk without a tensor map", "",
        (("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%map, {%r1}], [tile];",
          "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;"),),
    ),
    KnownProgram("printf", "coverage", "printf", "a kernel that prints"),
)  # fmt: skip


@cache
def programs() -> dict[str, KnownProgram]:
    """The programs by id."""
    return {program.id: program for program in PROGRAMS}


def title_of(program: KnownProgram) -> str:
    """What it is, with the name of its right base for "the same"."""
    right = next(
        known_program.id
        for known_program in PROGRAMS
        if known_program.base == program.base and not known_program.edits
    )
    return program.title.replace("the same", right, 1)


def launch_of(program: KnownProgram) -> LaunchFile:
    """Its launch: one cluster, `out` of 4-byte words, and where the base asks for it a tensor map over f32.

    TileproofError when an edit's text does not occur exactly once.
    """
    base = BASES[program.base]
    made = LaunchBuilder(program.id, text_of(base, _edited(program, base)))
    out = made.output("out", (base.words,), np.float32, whole=False)
    cluster = (base.cluster, 1, 1)
    arguments: list[Given] = [out, _map(base, out, made)] if base.source else [out]
    made.launch("k", grid=cluster, block=(base.threads, 1, 1), arguments=arguments, cluster=cluster)
    return made.file()


def _edited(program: KnownProgram, base: Base) -> str:
    body = base.body
    for find, replace in program.edits:
        if body.count(find) != 1:
            raise TileproofError(
                "the edit of a program does not fit its base",
                where=program.id,
                expected=f"{find!r} once",
                found=f"{body.count(find)} times",
            )
        body = body.replace(find, replace)
    return body


def _map(base: Base, out: LaunchBuffer, made: LaunchBuilder) -> TensorMapArgument:
    """64 f32 as a line, of the input or of `out`, or [8, 16] f32 of which gather4 takes rows."""
    if base.source == "out":
        return tensor_map(out, (64,), (64,), "none", ())
    if base.source == "line":
        line = made.input("in", np.arange(64, dtype=np.float32))
        return tensor_map(line, (64,), (64,), "none", ())
    rows = made.input("in", np.arange(128, dtype=np.float32).reshape(8, 16))
    return tensor_map(rows, (16, 8), (16, 1), "none")
