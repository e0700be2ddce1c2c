"""Bulk copies and multicast in a cluster of two CTAs: the spellings of a shared address that a card accepts.

    python -m tileproof.tools.silicon.cluster_copies          # on the card; needs cuda-bindings

One launch per row: the copy, how the shared addresses that it names were made (`symbol`: the address of a
shared variable, which holds the CTA's rank in bits 24 and up; `number`: a constant without the rank; `mapa`:
that of the issuing CTA itself through mapa), and what arrived from each CTA or in it, or the card's error.
"""

from __future__ import annotations

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.kernels.launch.builder import Given, LaunchBuilder, tensor_map
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult

DONE = "mbarrier::complete_tx::bytes"
WORDS = 64
SIZE = 4 * WORDS
HEAD = """
.version 8.6
.target sm_100a
.address_size 64
.shared .align 128 .b8 area[2048];
.visible .entry k(.param .u64 out, .param .u64 data,
  .param .align 64 .b8 map[128], .param .align 64 .b8 to[128])
{
.reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<30>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
ld.param.u64 %rd2, [data]; cvta.to.global.u64 %rd2, %rd2;
mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3; mov.b64 %rd5, to; cvta.param.u64 %rd5, %rd5;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %cluster_ctarank; mov.b16 %h1, 3;
mov.u32 %r3, area; mov.u32 %r20, area; shl.b32 %r21, %r2, 6;
mad.lo.u32 %r19, %r2, 256, 0; cvt.u64.u32 %rd6, %r19; add.u64 %rd6, %rd6, %rd1;
"""
BASES = {
    "symbol": "",
    "number": "mov.u32 %r3, 1024;",
    "mapa": "mapa.shared::cluster.u32 %r3, %r20, %r2;",
}
# As the base says: %r4 barrier, %r5 source (rank * 1000 on), %r6 destination (-1). By symbol: %r24 to %r26.
SETUP = f"""
add.u32 %r4, %r3, 0; add.u32 %r5, %r3, 512; add.u32 %r6, %r3, 1024;
add.u32 %r24, %r20, 0; add.u32 %r25, %r20, 512; add.u32 %r26, %r20, 1024;
shl.b32 %r10, %r1, 2; add.u32 %r11, %r25, %r10; mad.lo.u32 %r12, %r2, 1000, %r1; st.shared.u32 [%r11], %r12;
add.u32 %r11, %r26, %r10; mov.u32 %r13, -1; st.shared.u32 [%r11], %r13;
@%p1 mbarrier.init.shared::cta.b64 [%r24], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r24], {SIZE};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
xor.b32 %r14, %r2, 1; mapa.shared::cluster.u32 %r15, %r24, %r14; mapa.shared::cluster.u32 %r16, %r26, %r14;
setp.eq.and.u32 %p2, %r2, 0, %p1; setp.eq.and.u32 %p3, %r2, 1, %p1;
"""
LOADED = """
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r24], 0; @!%p4 bra WAIT;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
add.u32 %r11, %r26, %r10; ld.shared.u32 %r17, [%r11]; mad.lo.u32 %r18, %r2, 256, %r10;
cvt.u64.u32 %rd4, %r18; add.u64 %rd4, %rd4, %rd1; st.global.u32 [%rd4], %r17;
ret;
}
"""
STORED = """
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret;
}
"""
BULK = f"cp.async.bulk.shared::cluster.global.{DONE}"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
TENSOR = f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.{DONE}"
LOADS = {
    "to the peer": f"@%p1 cp.async.bulk.shared::cluster.shared::cta.{DONE} [%r16], [%r5], {SIZE}, [%r15];",
    "bulk load": f"@%p1 {BULK} [%r6], [%rd2], {SIZE}, [%r4];",
    "bulk load, own window": f"@%p1 cp.async.bulk.shared::cta.global.{DONE} [%r6], [%rd2], {SIZE}, [%r4];",
    "multicast by rank 0": f"@%p2 {BULK}.multicast::cluster [%r6], [%rd2], {SIZE}, [%r4], %h1;",
    "multicast by rank 1": f"@%p3 {BULK}.multicast::cluster [%r6], [%rd2], {SIZE}, [%r4], %h1;",
    "tensor load": f"@%p1 {TENSOR} [%r6], [%rd3, {{0}}], [%r4];",
    "tensor multicast by rank 0": f"@%p2 {TENSOR}.multicast::cluster [%r6], [%rd3, {{0}}], [%r4], %h1;",
    "tensor multicast by rank 1": f"@%p3 {TENSOR}.multicast::cluster [%r6], [%rd3, {{0}}], [%r4], %h1;",
}
STORES = {
    "bulk store": f"@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r5], {SIZE};",
    "bulk reduction": f"@%p1 {REDUCE} [%rd6], [%r5], {SIZE};",
    "tensor store": "@%p1 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd5, {%r21}], [%r5];",
}
COPIES = LOADS | STORES


def launch(copy: str, base: str) -> LaunchFile:
    """One cluster of two CTAs that runs `copy`; out is [2, 64] words of both CTAs, and starts as zeros."""
    ptx = HEAD + BASES[base] + SETUP + COPIES[copy] + (LOADED if copy in LOADS else STORED)
    made = LaunchBuilder("cluster copies", ptx)
    out = made.zeros("out", (2 * WORDS,), np.uint32)
    data = made.input("data", np.arange(5000, 5000 + WORDS, dtype=np.uint32))
    maps = [tensor_map(array, array.shape, (WORDS,), "none", (), dtype="float32") for array in (data, out)]
    arguments: list[Given] = [out, data, *maps]
    made.launch("k", grid=(2, 1, 1), block=(WORDS, 1, 1), arguments=arguments, cluster=(2, 1, 1))
    return made.file()


def arrived(seen: RunResult) -> str:
    """What a launch left in `out`, CTA by CTA, or its first error."""
    errors = [finding for finding in seen.findings if finding.severity == "error"]
    if errors:
        return f"{errors[0].code}: {errors[0].message}"
    return "; ".join(_words(part) for part in seen.outputs["out"].values.reshape(2, WORDS))


def _words(values: np.ndarray) -> str:
    ramp = int(values[0]) + np.arange(len(values))
    return f"{values[0]} on" if (values == ramp).all() else f"{values[:3]}..."


def main() -> None:
    with CudaDriver(seconds=5) as driver:
        print(driver.start())
        for copy in COPIES:
            for base in BASES:
                try:
                    what = arrived(driver.observe(launch(copy, base)))
                except TileproofError as error:
                    what = f"refused: {error.found}"
                print(f"{copy:28} {base:8} {what}")


if __name__ == "__main__":
    main()
