# ruff: noqa: E501 - PTX lines are kept whole
"""Small launch files over hand-written kernels: right, and with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.kernels.launch.arguments import (
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.contents import Counting
from tileproof.kernels.launch.model import (
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    NamedBarrier,
    PtxText,
    SharedPlace,
)

# out[i] = factor * x[i] over 64 elements per CTA, x copied by TMA. `p.n` says how many elements are stored.
SCALE = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry scale(.param .align 8 .b8 p[24], .param .align 64 .b8 map[128]) .reqntid 64, 1, 1
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 full;
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, %ctaid.x;
    shl.b32 %r4, %r3, 6;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
    @%p1 cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r4}], [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra WAIT;
    mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.shared.f32 %f1, [%r2];
    ld.param.f32 %f2, [p+8];
    mul.f32 %f1, %f1, %f2;
    add.u32 %r4, %r4, %r1;
    ld.param.u32 %r5, [p+16];
    setp.ge.u32 %p3, %r4, %r5;
    @%p3 bra DONE;
    ld.param.u64 %rd2, [p];
    mad.wide.u32 %rd2, %r4, 4, %rd2;
    st.global.f32 [%rd2], %f1;
DONE:
    ret;
}
"""
WITHOUT_WAIT = ("try_wait", "test_wait"), ("@!%p2 bra WAIT;", "")  # the tile is read before its copy is there
CTAS, SIZE = 2, 100  # the last CTA stores part of its tile


def scale(*edits: tuple[str, str], **changes: Any) -> LaunchFile:
    """The launch of `SCALE` with its text edited and fields of the launch changed; `buffers`, `barriers` and
    `captures` are those of the file.
    """
    text = SCALE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    x = LaunchBuffer("x", "float32", (64 * CTAS,), "input", Counting(1))
    out = LaunchBuffer.output("out", (SIZE,), np.float32)
    p = StructArgument(
        24,
        (
            PlacedItem(0, PointerArgument("out")),
            PlacedItem(8, ScalarArgument("f32", 2.0, "factor")),
            PlacedItem(16, ScalarArgument("u32", SIZE)),
        ),
    )
    map_ = TensorMapArgument("x", (64 * CTAS,), (), (64,))
    step = KernelLaunch("scale", (CTAS,), (64,), (p, map_))
    whole = {
        field: changes.pop(field)
        for field in ("buffers", "barriers", "captures", "steps")
        if field in changes
    }
    made = LaunchFile(
        "scale",
        (LaunchModule("m", PtxText(text)),),
        (x, out),
        (replace(step, **changes),),
        (NamedBarrier("full", SharedPlace(symbol="full")),),
        folder=Path(),
    )
    return replace(made, **whole)


def argument(launch: LaunchFile, number: int) -> Any:
    """An argument of its first launch."""
    return launch.launches[0].arguments[number]
