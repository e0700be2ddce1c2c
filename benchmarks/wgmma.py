"""Cost of a multiply-add of wgmma on the emulator, relative to tcgen05.mma of the same shape, in turn.

    python benchmarks/wgmma.py [--runs N]

Both multiply 64 x N, hundreds of times into the same accumulator, or into two in turn. A is in shared
memory, or in registers and in tensor memory. A row has the median ratio of the processor times for N = 64,
128 and 256: below 1, wgmma costs less.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass
from statistics import mean, median
from typing import Literal

import numpy as np
from tileproof.emulator import Memory, Module
from tileproof.emulator.arguments import Argument
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.wgmma import WarpgroupDescriptor

PRODUCTS, START = 400, 0x1000
SIZES = (64, 128, 256)
HEAD = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0)
{{
.reg .pred %p<4>;
.reg .b32 %r<40>;
.reg .b32 %d<256>;
.reg .b64 %rd<8>;
.shared .align 1024 .b8 image[65536];
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 4;
mov.u32 %r2, image;
add.u32 %r1, %r1, %r2;
mov.b32 %r3, 0x3F803F80;
mov.u32 %r4, 0;
FILL:
st.shared.v4.b32 [%r1], {{%r3, %r3, %r3, %r3}};
add.u32 %r1, %r1, 2048;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, 32;
@%p1 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %r5, 0;
{body}
ret;
}}
"""


@dataclass(frozen=True)
class Kind:
    """An element type on both sides: the K of an instruction, tcgen05's kind and wgmma's type of D."""

    name: str
    k: int
    format: str
    d_type: str = "f32"
    accumulators: int = 1

    def wgmma(self, n: int, registers: bool) -> str:
        """The kernel for Hopper."""
        count = n // 4 if self.d_type == "f16" else n // 2
        targets = [
            ", ".join(f"%d{k}" for k in range(at, at + count))
            for at in range(0, count * self.accumulators, count)
        ]
        word = WarpgroupDescriptor(START, 16, 1024).encode()
        a = "{%r3, %r3, %r3, %r3}" if registers else word
        flags = {"s8": "", "tf32": ", 1, 1", "e4m3": ", 1, 1"}.get(
            self.name, ", 1, 1, 0" + ", 0" * (not registers)
        )
        products = "\n".join(
            f"wgmma.mma_async.sync.aligned.m64n{n}k{self.k}.{self.d_type}.{self.name}.{self.name} "
            f"{{{d}}}, {a}, {word}, 1{flags};"
            for d in targets
        )
        body = f"""
{chr(10).join(f"mov.b32 %d{k}, 0;" for k in range(count * self.accumulators))}
wgmma.fence.sync.aligned;
LOOP:
{products}
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, {PRODUCTS};
@%p1 bra LOOP;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
        return HEAD.format(target="sm_90a", body=body)

    def tcgen05(self, n: int, registers: bool) -> str:
        """The kernel for SM100."""
        word = SmemDescriptor(START, 16, 1024, "128B").encode()
        instruction = InstructionDescriptor(
            64, n, a_type=self.name, b_type=self.name, d_type=self.d_type, format=self.format
        ).encode()
        products = "\n".join(
            f"tcgen05.mma.cta_group::1.kind::{self.format} [{d}], "
            f"{'[%r14]' if registers else word}, {word}, %r13, %p0;"
            for d in ("%r12", "%r16")[: self.accumulators]
        )
        body = f"""
.shared .align 8 .b64 done;
.shared .align 4 .b32 base;
mov.u32 %r10, done;
mov.u32 %r11, base;
setp.eq.u32 %p2, %r0, 0;
setp.lt.u32 %p3, %r0, 32;
@%p2 mbarrier.init.shared::cta.b64 [%r10], 1;
@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r11], 512;
bar.sync 0;
ld.shared.b32 %r12, [%r11];
add.u32 %r14, %r12, 256;
add.u32 %r16, %r12, 0x100000;
shr.u32 %r15, %r0, 5;
shl.b32 %r15, %r15, 21;
add.u32 %r15, %r14, %r15;
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r15], {{{", ".join(["%r3"] * 8)}}};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
mov.u32 %r13, {instruction};
@!%p2 bra ISSUED;
LOOP:
setp.ne.u32 %p0, %r5, 0;
{products}
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, {PRODUCTS};
@%p1 bra LOOP;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10];
ISSUED:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
@!%p1 bra ISSUED;
bar.sync 0;
@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 512;"""
        return HEAD.format(target="sm_100a", body=body)


KINDS = (
    Kind("bf16", 16, "f16"),
    Kind("bf16", 16, "f16", accumulators=2),
    Kind("f16", 16, "f16"),
    Kind("f16", 16, "f16", "f16"),
    Kind("tf32", 8, "tf32"),
    Kind("e4m3", 32, "f8f6f4"),
    Kind("s8", 32, "i8", "s32"),
)


def seconds(module: Module, mma: Literal["fast", "exact"], races: bool, products: int) -> float:
    """Processor time of one launch."""
    memory = Memory()
    arguments: list[Argument] = [memory.buffer(np.zeros(4, np.uint32))]
    begun = time.process_time()
    result = module.launch("k", grid=(1,), block=(128,), memory=memory, mma=mma, races=races, args=arguments)
    spent = time.process_time() - begun
    assert not result.errors and result.counters["mma_macs"] == products, result.findings
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    given = parser.parse_args()
    modes: tuple[Literal["fast", "exact"], ...] = ("fast", "exact")
    print(f"{'wgmma / tcgen05.mma, N =':44}" + "".join(f"{n:7}" for n in SIZES))
    every: list[float] = []
    for kind, registers in itertools.product(KINDS, (False, True)):
        texts = [(n, kind.wgmma(n, registers), kind.tcgen05(n, registers)) for n in SIZES]
        modules = [(n, Module.from_ptx(ours), Module.from_ptx(theirs)) for n, ours, theirs in texts]
        for mma, races in itertools.product(modes, (False, True)):
            ratios = []
            for n, ours, theirs in modules:
                size = 64 * n * kind.k * PRODUCTS * kind.accumulators
                pairs = [[seconds(m, mma, races, size) for m in (ours, theirs)] for _ in range(given.runs)]
                ratios.append(median(a / b for a, b in pairs))
            every += ratios
            words = f"{kind.name} to {'two ' * (kind.accumulators - 1)}{kind.d_type}"
            words += f"{', A in registers' * registers}, {mma}"
            print(f"{words + (', races' if races else ''):44}" + "".join(f"{r:7.2f}" for r in ratios))
    print(f"largest: {max(every):.2f}, mean: {mean(every):.2f}")


if __name__ == "__main__":
    main()
