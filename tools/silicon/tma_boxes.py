"""The placement of a swizzled box's rows on a Hopper card, and the innermost coordinates that it copies from.

    python -m tileproof.tools.silicon.tma_boxes          # on the card; needs cuda-bindings

One 2-D tile load per line: bytes of the innermost box extent, rows, innermost coordinate in bytes, offset of
the destination from a 1024-byte boundary; then the shared bytes that were written, or the card's error. An
error ends the process that ran it, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import Given, LaunchBuilder, tensor_map
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.types import UncheckedObject

MARK = 0xABABABAB
SHARED = 8192
PTX = f"""
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(
  .param .u64 out, .param .align 64 .b8 map[128], .param .u32 c0, .param .u32 bytes, .param .u32 dst)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
.shared .align 8 .b64 full;
ld.param.u32 %r1, [c0]; ld.param.u32 %r3, [bytes]; ld.param.u32 %r4, [dst];
mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r5, tile; add.u32 %r5, %r5, %r4; mov.u32 %r6, full; mov.u32 %r7, %tid.x; setp.ne.u32 %p1, %r7, 0;
mov.u32 %r8, %r7;
CLEAR: setp.ge.u32 %p2, %r8, {SHARED // 4}; @%p2 bra CLEARED;
mov.u32 %r9, tile; shl.b32 %r10, %r8, 2; add.u32 %r9, %r9, %r10; st.shared.u32 [%r9], {MARK};
add.u32 %r8, %r8, 32; bra.uni CLEAR;
CLEARED: fence.proxy.async; bar.sync 0;
@%p1 bra DONE;
mbarrier.init.shared::cta.b64 [%r6], 1; fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], %r3;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1, {{%r1, 2}}], [%r6];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], 0; @!%p3 bra WAIT;
DONE: bar.sync 0;
mov.u32 %r8, %r7;
DUMP: setp.ge.u32 %p2, %r8, {SHARED // 4}; @%p2 bra DUMPED;
mov.u32 %r9, tile; shl.b32 %r10, %r8, 2; add.u32 %r9, %r9, %r10; ld.shared.u32 %r11, [%r9];
cvt.u64.u32 %rd3, %r10; add.u64 %rd3, %rd3, %rd2; st.global.u32 [%rd3], %r11;
add.u32 %r8, %r8, 32; bra.uni DUMP;
DUMPED: ret;
}}
"""


def cases() -> Iterator[UncheckedObject]:
    """Boxes of one and three rows, aligned and unaligned coordinates, on and off the pattern's boundary."""
    for swizzle, widest in (("none", 128), ("32B", 32), ("64B", 64), ("128B", 128)):
        for inner in (16, 32, 64, 128):
            for column, dst in ((0, 0), (0, 128), (16, 0), (-16, 0), (-48, 0), (8, 0), (4, 0), (1, 0)):
                if inner <= widest:
                    yield {"swizzle": swizzle, "inner": inner, "rows": 3, "column": column, "dst": dst}


def launch(case: UncheckedObject) -> LaunchFile:
    """One tile load; `out` gets the shared bytes, of which what was not written is MARK."""
    made = LaunchBuilder("tma boxes", PTX)
    data = made.input("data", np.arange(64 * 64, dtype=np.uint32))
    out = made.output("out", (SHARED // 4,), np.uint32)
    box = case["inner"], case["rows"]
    tile = tensor_map(data, (200, 40), box, case["swizzle"], (256,), dtype="uint8")
    numbers = (case["column"], case["inner"] * case["rows"], case["dst"])
    arguments: list[Given] = [out, tile, *(ScalarArgument("s32", number) for number in numbers)]
    made.launch("k", grid=(1, 1, 1), block=(32, 1, 1), arguments=arguments, shared_bytes=SHARED)
    return made.file()


def written(words: np.ndarray) -> str:
    """The ranges of shared bytes that the copy wrote."""
    chunks = [16 * n for n in range(SHARED // 16) if (words[4 * n : 4 * n + 4] != MARK).any()]
    ranges: list[list[int]] = []
    for at in chunks:
        if ranges and ranges[-1][1] == at:
            ranges[-1][1] = at + 16
        else:
            ranges.append([at, at + 16])
    return ", ".join(f"{a}..{b - 1}" for a, b in ranges)


def main() -> None:
    with CudaDriver() as driver:
        print(driver.start().name)
        for case in cases():
            seen = driver.observe(launch(case))
            what = seen.findings[0].message if seen.findings else written(seen.outputs["out"].values)
            print(f"{' '.join(f'{name} {value}' for name, value in case.items()):62} {what}")


if __name__ == "__main__":
    main()
