# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""One tcgen05.mma on chosen operands: images placed by spec.machine, the kernel, and D read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine import kinds, smem_layout, tmem
from tileproof.spec.machine import mma as rules
from tileproof.spec.machine.descriptors import BlockScaledDescriptor, InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.swizzle import width

from tests.kit.ptx import CLUSTER_SYNC, Memory, alloc, clean, dealloc, init_barrier, run, wait

COVERS = "tcgen05.mma"

A_AT, B_AT, A_COLUMN = 0x1000, 0x6000, 256
SFA_COLUMN, SFB_COLUMN = A_COLUMN + 8, A_COLUMN + 16
_EIGHT = "{%r60, %r61, %r62, %r63, %r64, %r65, %r66, %r67}"
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "ue4m3": ml_dtypes.float8_e4m3fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
D_DTYPES = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


@dataclass(frozen=True)
class Form:
    """One form of the instruction. `a` [M, K] and `b` [N, K] are given to `multiply`."""

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
    format: str = "f16"
    b_type: str = ""
    d_type: str = "f32"
    scale_type: str = ""
    scale_ids: tuple[int, int] = (0, 0)
    saturate: bool = False
    max_shift: int = 0
    base_offset: int = 0

    @property
    def layout(self) -> str:
        return rules.layout_of(self.m, self.group, ws=self.ws)

    @property
    def k(self) -> int:
        return kinds.format_of(self.format).k

    @property
    def types(self) -> tuple[str, str]:
        return self.type, self.b_type or self.type

    @property
    def idesc(self) -> int:
        major: dict[str, Any] = {"a_mn_major": self.a_major == "MN", "b_mn_major": self.b_major == "MN"}
        signs: dict[str, Any] = {"negate_a": self.negate_a, "negate_b": self.negate_b}
        if self.scale_type:
            return BlockScaledDescriptor(  # type: ignore[misc]
                self.m, self.n, self.format, *self.types, self.scale_type, *self.scale_ids, **major, **signs
            ).encode()
        return InstructionDescriptor(  # type: ignore[misc]
            self.m, self.n, *self.types, self.d_type, **major, **signs, saturate=self.saturate,
            ws_max_shift=self.max_shift, format=self.format,
        ).encode()  # fmt: skip

    @property
    def spelling(self) -> str:
        """What stands between the group and the operands."""
        kind = kinds.format_of(self.format).kind
        vector = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4.2X": "2X", "mxf4nvf4.4X": "4X"}.get(self.format)
        return f".kind::{kind}" + (f".block_scale.scale_vec::{vector}" if vector else "")


def cell_bits(form: Form, type_: str) -> int:
    """Bits that an element takes in a 16-byte chunk."""
    bits = kinds.BITS[type_]
    return bits if bits >= 8 or form.format.startswith("mxf4") else 8


def strides(major: str, swizzle: str, rows: int, k_bytes: int = 32, k: int = 16) -> tuple[int, int]:
    """(LBO, SBO) of a densely packed [rows, k] operand."""
    if swizzle == "128B_ATOM_32B":
        return 128 * k, 512
    w = width(swizzle)
    if swizzle == "none":
        return (rows * 16, 128) if major == "K" else (128, 16 * k)
    return (16, 8 * w) if major == "K" else (k * w, 8 * w)


def codes_of(values: np.ndarray, type_: str) -> np.ndarray:
    """The raw codes of values, int64."""
    exact = values.astype(DTYPES[type_])
    size = exact.dtype.itemsize
    return exact.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[size]).astype(np.int64)


def place(
    image: np.ndarray, at: int, operand: np.ndarray, major: smem_layout.Major, swizzle: str, form: Form | None = None,
    type_: str = "bf16",
) -> int:  # fmt: skip
    """Writes `operand` [rows, K] into the image of bytes, by the canonical layout; returns its descriptor."""
    form = form or Form(128, 64)
    at += 128 * form.base_offset  # the swizzle pattern starts here, off its boundary
    lbo, sbo = strides(major, swizzle, len(operand), k=form.k)
    rows, ks = np.arange(len(operand))[:, None], np.arange(form.k)[None, :]
    chunk, index = smem_layout.chunk(
        major, swizzle, at, lbo, sbo, rows, ks, bits=cell_bits(form, type_), base_offset=form.base_offset
    )
    codes = codes_of(operand, type_)
    chunks: dict[int, Any] = {}
    for where, element, code in zip(
        chunk.ravel().tolist(), index.ravel().tolist(), codes.ravel().tolist(), strict=True
    ):
        chunks.setdefault(where, {})[element] = code
    count = 128 // cell_bits(form, type_)
    for where, found in chunks.items():
        packed = kinds.pack_chunk([found.get(j, 0) for j in range(count)], type_, form.format)
        image[where - 1024 : where - 1008] = np.frombuffer(packed, np.uint8)
    return SmemDescriptor(at, lbo, sbo, swizzle, form.base_offset).encode()


def a_row_bytes(form: Form, row: np.ndarray) -> np.ndarray:
    """The 32 bytes of a row of A in tensor memory."""
    codes = codes_of(row, form.type).tolist()
    bits = kinds.BITS[form.type]
    if form.format in ("f8f6f4", "mxf8f6f4"):
        return np.array([kinds.contained(code, form.type) for code in codes], np.uint8)
    word = sum(code << bits * i for i, code in enumerate(codes))
    return np.frombuffer(word.to_bytes(32, "little"), np.uint8)


def kernel(form: Form, columns: int, enable: bool) -> str:
    """Bulk-copies the image in, fills TMEM with the initial D, A and scales, multiplies once, dumps D."""
    g = form.group
    a = "[%r52]" if form.a_in_tmem else "%a3"
    ws = ".ws" if form.ws else ""
    mask, scale = form.extra.get("mask", ""), form.extra.get("scale", "")
    scales = "[%r58], [%r59]," if form.scale_type else ""
    commit = f"tcgen05.commit.cta_group::{g}.mbarrier::arrive::one.shared::cluster" + (
        ".multicast::cluster.b64 [1024], %h0;" if g == 2 else ".b64 [%r70];"
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
    mad.wide.u32 %rd4, %r53, 96, %a2;
    mov.u32 %r54, 0;
    FILL: ld.global.v4.b32 {{%r60, %r61, %r62, %r63}}, [%rd2]; ld.global.v4.b32 {{%r64, %r65, %r66, %r67}}, [%rd2+16];
    add.u32 %r55, %r51, %r54; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r55], {_EIGHT};
    add.u64 %rd2, %rd2, 32; add.u32 %r54, %r54, 8; setp.lt.u32 %p1, %r54, {columns}; @%p1 bra FILL;
    mov.u32 %r54, 0;
    FILL_A: ld.global.v4.b32 {{%r60, %r61, %r62, %r63}}, [%rd4]; ld.global.v4.b32 {{%r64, %r65, %r66, %r67}}, [%rd4+16];
    add.u32 %r55, %r51, {A_COLUMN}; add.u32 %r55, %r55, %r54; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r55], {_EIGHT};
    add.u64 %rd4, %rd4, 32; add.u32 %r54, %r54, 8; setp.lt.u32 %p1, %r54, 24; @%p1 bra FILL_A;
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;
    {wait(1032)} {CLUSTER_SYNC}
    tcgen05.fence::after_thread_sync;
    setp.eq.u32 %p2, %r20, 0; and.pred %p2, %p2, %p0; @!%p2 bra ISSUED;
    cvt.u32.u64 %r56, %a5; setp.{"eq" if enable else "ne"}.u32 %p3, %t, %t; add.u32 %r52, %r100, {A_COLUMN};
    add.u32 %r57, %r100, {form.lane << 16}; add.u32 %r58, %r100, {SFA_COLUMN}; add.u32 %r59, %r100, {SFB_COLUMN};
    mov.b16 %h0, 3; {form.extra.get("before", "")}
    tcgen05.mma{ws}.cta_group::{g}{form.spelling} [%r57], {a}, %a4, %r56, {scales} {mask} %p3{scale};
    {commit}
    ISSUED: {wait(1024)}
    tcgen05.fence::after_thread_sync;
    mov.u32 %r54, 0;
    DUMP: add.u32 %r55, %r51, %r54; tcgen05.ld.sync.aligned.32x32b.x8.b32 {_EIGHT}, [%r55]; tcgen05.wait::ld.sync.aligned;
    st.global.v4.b32 [%rd3], {{%r60, %r61, %r62, %r63}}; st.global.v4.b32 [%rd3+16], {{%r64, %r65, %r66, %r67}};
    add.u64 %rd3, %rd3, 32; add.u32 %r54, %r54, 8; setp.lt.u32 %p1, %r54, {columns}; @%p1 bra DUMP;
    {CLUSTER_SYNC} {dealloc(512, group=g)}"""


def scale_cells(form: Form, cells: np.ndarray, cta: int, scale_a: np.ndarray, scale_b: np.ndarray) -> None:
    """Puts the scale factors of one CTA into bytes [128, 24 * 4], other bytes 0xff (a NaN)."""
    rows = rules.a_rows(form.m, form.group, cta)
    own = codes_of(scale_a, form.scale_type)[rows.start : rows.stop]
    other = codes_of(scale_b, form.scale_type)
    for copy in range(4):
        for scales, column, id_, of_b in (
            (own, 8, form.scale_ids[0], False),
            (other, 16, form.scale_ids[1], True),
        ):
            for index in range(len(scales)):
                lane, byte = tmem.scale_cell(form.layout, form.n, index, copy, of_b=of_b)
                if lane >= 0:
                    at = 4 * column + byte + id_
                    cells[lane, at : at + scales.shape[1]] = scales[index]


def multiply(
    form: Form, a: np.ndarray, b: np.ndarray, d: np.ndarray | None = None, *, mode: str = "fast",
    schedule: Schedule | None = None, check: bool = True, scale_a: np.ndarray | None = None,
    scale_b: np.ndarray | None = None, **launch: Any,
) -> tuple[np.ndarray, np.ndarray, RunResult]:  # fmt: skip
    """(D [M, N], cells [ctas, 128, columns] after the instruction, result). `d`: accumulate onto it.

    scale_a [M, s], scale_b [N, s]: of block-scaled kinds. Cells are f32, or u32 where D is not f32.
    """
    ctas, columns = form.group, tmem.columns(form.layout, form.n)
    cells_of_d = np.float32 if form.d_type == "f32" else np.uint32
    image = np.full((ctas, 0xF000), 0xFF, np.uint8)  # NaN, or a wrong value, wherever no operand lies
    a_cells = np.full((ctas, 128, 96), 0xFF, np.uint8)
    cells = np.full((ctas, 128, columns), -1000.0, np.float32).view(cells_of_d)
    a_desc = b_desc = 0
    for cta in range(ctas):
        rows_a, rows_b = rules.a_rows(form.m, ctas, cta), rules.b_rows(form.n, ctas, cta)
        b_desc = place(
            image[cta],
            B_AT,
            b if form.max_shift else b[rows_b.start : rows_b.stop],
            form.b_major,
            form.b_swizzle,
            form,
            form.types[1],
        )
        if not form.a_in_tmem:
            a_desc = place(
                image[cta], A_AT, a[rows_a.start : rows_a.stop], form.a_major, form.a_swizzle, form, form.type
            )
        if d is not None:
            lane, column = tmem.cells_of_cta(form.layout, form.n, form.lane)
            part = d[rows_a.start : rows_a.stop].astype(D_DTYPES[form.d_type])
            if form.d_type == "f16":
                part = part.view(np.uint16).astype(np.uint32) | 0xABCD0000
            cells[cta][lane, column] = part.view(cells_of_d)
        if scale_a is not None and scale_b is not None:
            scale_cells(form, a_cells[cta], cta, scale_a, scale_b)
    if form.a_in_tmem:
        for m in range(form.m):
            for cta, row_lane in tmem.a_lanes(form.m, form.group, m, ws=form.ws, lane_offset=form.lane):
                a_cells[cta, row_lane, :32] = a_row_bytes(form, a[m])
    memory = Memory()
    out = memory.empty(cells.shape, cells_of_d)
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
        mma=mode, schedule=schedule, **launch,
    )  # fmt: skip
    if check:
        clean(result)
    got = out.numpy()
    product = np.concatenate([tmem.tile_of(got[cta], form.layout, form.n, form.lane) for cta in range(ctas)])
    if form.d_type == "f16":
        product = product.astype(np.uint16).view(np.float16)
    elif form.d_type == "s32":
        product = product.view(np.int32)
    return product, got, result
