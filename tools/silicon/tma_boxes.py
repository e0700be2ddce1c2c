"""Where a Hopper card puts the rows of a swizzled box, and which innermost coordinates it copies from.

    python tools/silicon/tma_boxes.py          # on the card; needs numpy and a CUDA driver

One 2-D tile load per line: bytes of the innermost box extent, rows, innermost coordinate in bytes, offset of
the destination from a 1024-byte boundary; then the shared bytes that were written, or the card's error. An
error ends the process that ran it, and the next one goes on.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.silicon.replay import Card, Failure

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


def cases() -> Iterator[dict[str, Any]]:
    """Boxes of one and three rows, aligned and unaligned coordinates, on and off the pattern's boundary."""
    for swizzle, most in (("none", 128), ("32B", 32), ("64B", 64), ("128B", 128)):
        for inner in (16, 32, 64, 128):
            for column, dst in ((0, 0), (0, 128), (16, 0), (-16, 0), (-48, 0), (8, 0), (4, 0), (1, 0)):
                if inner <= most:
                    yield {"swizzle": swizzle, "inner": inner, "rows": 3, "column": column, "dst": dst}


def run(card: Card, case: dict[str, Any]) -> str:
    """The ranges of shared bytes that the copy wrote."""
    box = [case["inner"], case["rows"]]
    fields = {"dtype": "uint8", "shape": [200, 40], "strides": [256], "box": box, "element_strides": [1, 1]}
    fields |= {"swizzle": case["swizzle"], "oob_fill": "zero"}
    numbers = [case["column"], case["inner"] * case["rows"], case["dst"]]
    launch = {
        "text": PTX,
        "entry": "k",
        "sizes": [8, 128, 4, 4, 4],
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "cluster": [1, 1, 1],
        "shared": SHARED,
        "args": [{"buffer": 0}, {"map": fields, "buffer": 1, "offset": 0}]
        + [{"number": number, "kind": "i"} for number in numbers],
    }
    data = np.arange(64 * 64, dtype=np.uint32).view(np.uint8).copy()
    words = card.run(launch, [np.zeros(SHARED, np.uint8), data])[0].view(np.uint32)
    chunks = [16 * n for n in range(SHARED // 16) if (words[4 * n : 4 * n + 4] != MARK).any()]
    ranges: list[list[int]] = []
    for at in chunks:
        if ranges and ranges[-1][1] == at:
            ranges[-1][1] = at + 16
        else:
            ranges.append([at, at + 16])
    return ", ".join(f"{a}..{b - 1}" for a, b in ranges)


def worker(start: int, pipe: Any) -> None:
    card = Card()
    pipe.send((-1, card.name))
    for number, case in enumerate(cases()):
        if number < start:
            continue
        try:
            pipe.send((number, run(card, case)))
        except Failure as failure:
            pipe.send((number, str(failure)))
            return


def main() -> None:
    every = list(cases())
    context = multiprocessing.get_context("spawn")
    start = 0
    while start < len(every):
        parent, child = context.Pipe()
        process = context.Process(target=worker, args=(start, child))
        process.start()
        child.close()
        while start < len(every):
            try:
                number, text = parent.recv() if parent.poll(20) else (start, "no answer in 20 s")
            except EOFError:
                break
            if number < 0:
                print(f"{text}\n" if not start else "", end="")
                continue
            case = " ".join(f"{name} {value}" for name, value in every[number].items())
            print(f"{case:62} {text}")
            start = number + 1
            if not text[:1].isdigit():
                break
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
