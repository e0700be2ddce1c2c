"""Small PTX programs with planted synchronisation defects: text with named barriers and tiles, a launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tileproof.kernels.edit import Edit, Place
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.limits import RESERVED_SHARED_BYTES

# %t thread, %w warp, %l lane, %rank CTA of the cluster; %zero is thread 0, %lane0 lane 0 of each warp, %one
# the thread that issues: lane 0 of the last warp, because after a barrier that warp is the first to go on
# under an early schedule. %in and %out are the addresses of the two buffers; the rest is free.
REGISTERS = """.reg .pred %zero, %one, %last, %lane0, %p<16>;
.reg .b16 %h<4>;
.reg .b32 %t, %w, %l, %rank, %r<80>;
.reg .f32 %f<8>;
.reg .b64 %in, %out, %rd<20>;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
shr.u32 %w, %t, 5;
and.b32 %l, %t, 31;
mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %zero, %t, 0;
setp.eq.u32 %lane0, %l, 0;
mov.u32 %r0, %ntid.x;
sub.u32 %r0, %r0, 32;
setp.eq.u32 %one, %t, %r0;
setp.ge.u32 %last, %t, %r0;"""
WORDS = 4096


@dataclass(frozen=True)
class Program:
    """A kernel with two buffers of 4096 words: `in` holds word i at i, `out` zeros (nothing with `fresh`).

    `barriers` are mbarriers in shared memory, in this order from its first byte on; `tiles` are
    (name, bytes) behind them, each aligned to 1024 bytes. `directives` stand before the body.
    """

    name: str
    title: str
    body: str
    barriers: tuple[str, ...] = ()
    tiles: tuple[tuple[str, int], ...] = ()
    threads: int = 64
    cluster: int = 1
    clusters: int = 1
    fresh: bool = False
    directives: str = ""

    def text(self) -> str:
        """The PTX of entry `k`."""
        shared = [f".shared .align 8 .b64 {name};" for name in self.barriers]
        shared += [f".shared .align 1024 .b8 {name}[{size}];" for name, size in self.tiles]
        lines = [line.strip() for line in self.body.strip().split("\n")]
        return "\n".join(
            (
                ".version 8.8\n.target sm_100a\n.address_size 64",
                f".visible .entry k(.param .u64 in, .param .u64 out) {self.directives}",
                "{",
                *shared,
                REGISTERS,
                *lines,
                "ret;",
                "}\n",
            )
        )

    def barrier_at(self, offset: int) -> str:
        """The mbarrier at a byte offset of shared memory, empty when there is none."""
        index, rest = divmod(offset - RESERVED_SHARED_BYTES, 8)
        return self.barriers[index] if not rest and 0 <= index < len(self.barriers) else ""

    def launch(self, text: str) -> LaunchFile:
        """The launch of a text of this program."""
        made = LaunchBuilder(self.name, text)
        # A program may write it as well.
        source = made.add(LaunchBuffer.of("in", np.arange(WORDS, dtype=np.uint32), "scratch"))
        out = (
            made.output("out", (WORDS,), np.uint32, whole=False)
            if self.fresh
            else made.zeros("out", (WORDS,), np.uint32)
        )
        made.launch(
            "k",
            grid=(self.cluster * self.clusters, 1, 1),
            block=(self.threads, 1, 1),
            cluster=(self.cluster, 1, 1),
            arguments=[source, out],
        )
        return made.file()


def text(find: str, replacement: str = "", count: int = 1) -> Edit:
    """An edit of a program's text, wherever the tokens of `find` are, which must be `count` times."""
    return Edit(Place(find, count=count), replacement)


# --- phrases: one PTX statement per line, so that edits and findings can name a line

FENCE_PROXY = "fence.proxy.async.shared::cta;"
BEFORE = "tcgen05.fence::before_thread_sync;"
AFTER = "tcgen05.fence::after_thread_sync;"
CLUSTER_SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def init(*counts: tuple[str, int]) -> str:
    """Thread 0 initialises mbarriers with their counts, and the CTA meets."""
    lines = [f"@%zero mbarrier.init.shared::cta.b64 [{name}], {count};" for name, count in counts]
    return "\n".join([*lines, "fence.mbarrier_init.release.cluster;", "bar.sync 0;"])


def wait(barrier: str, parity: str | int = 0) -> str:
    """Waits for the phase of this parity, as compilers write it."""
    return (
        "{ .reg .pred %done; AGAIN:\n"
        f"mbarrier.try_wait.parity.shared::cta.b64 %done, [{barrier}], {parity};\n@!%done bra AGAIN; }}"
    )


def at(register: str, base: str, index: str, scale: int) -> str:
    """`register` = base + index * scale, 32 bit."""
    return f"mov.u32 {register}, {base};\nmad.lo.u32 {register}, {index}, {scale}, {register};"


def word_of(register: str, base: str, index: str = "%t") -> str:
    """`register` = the 64-bit address of word `index` of a buffer."""
    return f"mad.wide.u32 {register}, {index}, 4, {base};"


def alloc(columns: int = 32) -> str:
    """The last warp allocates TMEM columns; each thread gets their base in %r70, its own row in %r71."""
    return f"""@%last tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], {columns};
bar.sync 0;
ld.shared.u32 %r70, [base];
and.b32 %r72, %w, 3;
shl.b32 %r72, %r72, 21;
add.u32 %r71, %r70, %r72;"""


def dealloc(columns: int = 32) -> str:
    """The CTA meets; the warp that allocated frees the columns."""
    return f"""{BEFORE}
bar.sync 0;
{AFTER}
@%last tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r70, {columns};"""
