"""Multiply-adds a second of wgmma and of tcgen05.mma of the same shape on the emulator, in turn.

    python benchmarks/wgmma.py [--runs N]

Both multiply 64 x N x 16 bf16, thousands of times into the same accumulator.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any, Literal

import numpy as np
from tileproof.emulator import Memory, Module
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.wgmma import WarpgroupDescriptor

PRODUCTS, START = 1000, 0x1000
HEAD = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0)
{{
.reg .pred %p<4>;
.reg .b32 %r<40>;
.reg .b32 %d<128>;
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


def wgmma(n: int) -> str:
    """The kernel for Hopper."""
    d = ", ".join(f"%d{k}" for k in range(n // 2))
    word = WarpgroupDescriptor(START, 16, 1024).encode()
    body = f"""
{chr(10).join(f"mov.b32 %d{k}, 0;" for k in range(n // 2))}
wgmma.fence.sync.aligned;
LOOP:
wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{d}}}, {word}, {word}, 1, 1, 1, 0, 0;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, {PRODUCTS};
@%p1 bra LOOP;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    return HEAD.format(target="sm_90a", body=body)


def tcgen05(n: int) -> str:
    """The kernel for SM100."""
    word = SmemDescriptor(START, 16, 1024, "128B").encode()
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
mov.u32 %r13, {InstructionDescriptor(64, n).encode()};
@!%p2 bra ISSUED;
LOOP:
setp.ne.u32 %p0, %r5, 0;
tcgen05.mma.cta_group::1.kind::f16 [%r12], {word}, {word}, %r13, %p0;
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


def rate(module: Module, n: int, mma: Literal["fast", "exact"], races: bool) -> float:
    """Multiply-adds a second of one launch, by processor time."""
    memory = Memory()
    arguments: list[Any] = [memory.buffer(np.zeros(4, np.uint32))]
    begun = time.process_time()
    result = module.launch("k", grid=(1,), block=(128,), memory=memory, mma=mma, races=races, args=arguments)
    seconds = time.process_time() - begun
    assert not result.errors and result.counters["mma_macs"] == 64 * n * 16 * PRODUCTS, result.findings
    return 64 * n * 16 * PRODUCTS / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    for n in (64, 128, 256):
        modules = [Module.from_ptx(text(n)) for text in (wgmma, tcgen05)]
        for mma in ("fast", "exact"):
            for races in (False, True):
                pairs = [[rate(module, n, mma, races) for module in modules] for _ in range(given.runs)]  # type: ignore[arg-type]
                ours, theirs = (median(column) / 1e9 for column in zip(*pairs, strict=True))
                ratio = median(a / b for a, b in pairs)
                words = f"N {n}, {mma}{', races' if races else ''}"
                print(f"{words:24} wgmma {ours:5.2f}  tcgen05 {theirs:5.2f} G/s  ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
