# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""One tcgen05.mma on chosen operands: images placed by spec.machine, the kernel, and D read back."""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from ptx_kit import CLUSTER_SYNC, Memory, alloc, clean, dealloc, init_barrier, run, wait
from tileproof.emulator import LaunchResult, Schedule
from tileproof.spec.machine import mma as rules
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.swizzle import width

COVERS = "tcgen05.mma"

A_AT, B_AT, A_COLUMN = 0x1000, 0x6000, 256
_EIGHT = "{%r60, %r61, %r62, %r63, %r64, %r65, %r66, %r67}"


@dataclass(frozen=True)
class Form:
    """One form of the instruction. `a` [M, 16] and `b` [N, 16] are given to `multiply`."""

    m: int
    n: int
    group: int = 1
    ws: bool = False
    a_in_tmem: bool = False
    a_major: smem_layout.Major = "K"
    b_major: smem_layout.Major = "K"
    a_swizzle: str = "128B"
    b_swizzle: str = "128B"
    type: str = "bf16"
    negate_a: bool = False
    negate_b: bool = False
    lane: int = 0
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        return rules.layout_of(self.m, self.group, ws=self.ws)

    @property
    def idesc(self) -> int:
        return InstructionDescriptor(
            self.m, self.n, self.type, self.type, a_mn_major=self.a_major == "MN", b_mn_major=self.b_major == "MN",
            negate_a=self.negate_a, negate_b=self.negate_b,
        ).encode()  # fmt: skip


def strides(major: str, swizzle: str, rows: int) -> tuple[int, int]:
    """(LBO, SBO) of a densely packed [rows, 16] operand."""
    w = width(swizzle)
    if swizzle == "none":
        return (rows * 16, 128) if major == "K" else (128, 256)
    return (16, 8 * w) if major == "K" else (16 * w, 8 * w)


def place(image: np.ndarray, at: int, operand: np.ndarray, major: smem_layout.Major, swizzle: str) -> int:
    """Writes `operand` [rows, 16] of 16-bit words into the image; returns its descriptor."""
    lbo, sbo = strides(major, swizzle, len(operand))
    address = smem_layout.address(
        major, swizzle, at, lbo, sbo, np.arange(len(operand))[:, None], np.arange(16)[None, :]
    )
    image[(address - 1024) // 2] = operand.view(np.uint16)
    return SmemDescriptor(at, lbo, sbo, swizzle).encode()


def kernel(form: Form, columns: int, enable: bool) -> str:
    """Bulk-copies the image in, fills TMEM with the initial D and A, multiplies once, dumps D."""
    g = form.group
    a = "[%r52]" if form.a_in_tmem else "%a3"
    ws = ".ws" if form.ws else ""
    mask, scale = form.extra.get("mask", ""), form.extra.get("scale", "")
    commit = f"tcgen05.commit.cta_group::{g}.mbarrier::arrive::one.shared::cluster" + (
        ".multicast::cluster.b64 [1024], 3;" if g == 2 else ".b64 [%r70];"
    )
    bytes_ = 0xF000
    return f"""
    mov.u32 %r20, %cluster_ctarank; shl.b32 %r70, %r20, 24; add.u32 %r70, %r70, 1024;
    {init_barrier(1024)} {"@%p0 mbarrier.init.shared.b64 [1032], 1;"} {alloc(512, group=g)} {CLUSTER_SYNC}
    mad.wide.u32 %rd1, %r20, {bytes_}, %a1;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [1032], {bytes_ - 1024};
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%rd1+1024], {bytes_ - 1024}, [1032];
    and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50;
    mad.lo.u32 %r53, %r20, 128, %t; mad.wide.u32 %rd2, %r53, {4 * columns}, %a6; mad.wide.u32 %rd3, %r53, {4 * columns}, %a0;
    mad.wide.u32 %rd4, %r53, 32, %a2;
    mov.u32 %r54, 0;
    FILL: ld.global.v4.b32 {{%r60, %r61, %r62, %r63}}, [%rd2]; ld.global.v4.b32 {{%r64, %r65, %r66, %r67}}, [%rd2+16];
    add.u32 %r55, %r51, %r54; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r55], {_EIGHT};
    add.u64 %rd2, %rd2, 32; add.u32 %r54, %r54, 8; setp.lt.u32 %p1, %r54, {columns}; @%p1 bra FILL;
    ld.global.v4.b32 {{%r60, %r61, %r62, %r63}}, [%rd4]; ld.global.v4.b32 {{%r64, %r65, %r66, %r67}}, [%rd4+16];
    add.u32 %r55, %r51, {A_COLUMN}; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r55], {_EIGHT};
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;
    {wait(1032)} {CLUSTER_SYNC}
    tcgen05.fence::after_thread_sync;
    setp.eq.u32 %p2, %r20, 0; and.pred %p2, %p2, %p0; @!%p2 bra ISSUED;
    cvt.u32.u64 %r56, %a5; setp.{"eq" if enable else "ne"}.u32 %p3, %t, %t; add.u32 %r52, %r100, {A_COLUMN};
    add.u32 %r57, %r100, {form.lane << 16};
    tcgen05.mma{ws}.cta_group::{g}.kind::f16 [%r57], {a}, %a4, %r56, {mask} %p3{scale};
    {commit}
    ISSUED: {wait(1024)}
    tcgen05.fence::after_thread_sync;
    mov.u32 %r54, 0;
    DUMP: add.u32 %r55, %r51, %r54; tcgen05.ld.sync.aligned.32x32b.x8.b32 {_EIGHT}, [%r55]; tcgen05.wait::ld.sync.aligned;
    st.global.v4.b32 [%rd3], {{%r60, %r61, %r62, %r63}}; st.global.v4.b32 [%rd3+16], {{%r64, %r65, %r66, %r67}};
    add.u64 %rd3, %rd3, 32; add.u32 %r54, %r54, 8; setp.lt.u32 %p1, %r54, {columns}; @%p1 bra DUMP;
    {CLUSTER_SYNC} {dealloc(512, group=g)}"""


def multiply(
    form: Form, a: np.ndarray, b: np.ndarray, d: np.ndarray | None = None, *, mode: str = "fast",
    schedule: Schedule | None = None, check: bool = True,
) -> tuple[np.ndarray, np.ndarray, LaunchResult]:  # fmt: skip
    """(D [M, N], cells [ctas, 128, columns] after the instruction, result). `d`: accumulate onto it."""
    ctas, columns = form.group, tmem.columns(form.layout, form.n)
    kind = np.dtype(ml_dtypes.bfloat16 if form.type == "bf16" else np.float16)
    a, b = a.astype(kind), b.astype(kind)
    image = np.full((ctas, 0xF000 // 2), 0x7FC0, np.uint16)  # NaN wherever no operand lies
    a_cells = np.full((ctas, 128, 8), 0x7FC07FC0, np.uint32)
    cells = np.full((ctas, 128, columns), -1000.0, np.float32)
    a_desc = b_desc = 0
    for cta in range(ctas):
        rows_a, rows_b = rules.a_rows(form.m, ctas, cta), rules.b_rows(form.n, ctas, cta)
        b_desc = place(image[cta], B_AT, b[rows_b.start : rows_b.stop], form.b_major, form.b_swizzle)
        if not form.a_in_tmem:
            a_desc = place(image[cta], A_AT, a[rows_a.start : rows_a.stop], form.a_major, form.a_swizzle)
        if d is not None:
            lane, column = tmem.cells_of_cta(form.layout, form.n, form.lane)
            cells[cta][lane, column] = d[rows_a.start : rows_a.stop]
    if form.a_in_tmem:
        for m in range(form.m):
            for cta, lane in tmem.a_lanes(form.m, form.group, m, ws=form.ws, lane_offset=form.lane):
                a_cells[cta, lane] = np.ascontiguousarray(a[m]).view(np.uint32)
    memory = Memory()
    out = memory.empty(cells.shape, np.float32)
    args = [
        out,
        memory.buffer(image),
        memory.buffer(a_cells),
        a_desc,
        b_desc,
        form.idesc,
        memory.buffer(cells),
    ]
    result = run(
        kernel(form, columns, d is not None), args, memory=memory, threads=128, cluster=ctas, shared_bytes=0xF000,
        mma=mode, schedule=schedule,
    )  # fmt: skip
    if check:
        clean(result)
    got = out.numpy()
    product = np.concatenate([tmem.tile_of(got[cta], form.layout, form.n, form.lane) for cta in range(ctas)])
    return product, got, result
