# ruff: noqa: E501 - PTX lines are kept whole
"""wgmma on chosen operands: images placed by spec.machine, the kernel, and D read back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator import Memory, Module, RunResult
from tileproof.spec.machine import smem_layout, wgmma
from tileproof.spec.machine.swizzle import width
from tileproof.spec.machine.wgmma import WarpgroupDescriptor

SHARED = 0x400  # where dynamic shared memory begins
A_AT, B_AT, BYTES = 0x1000, 0x6000, 0x10400
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
D_DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
_COPY_IN = """
mul.wide.u32 %rd1, %t, 16;
add.s64 %rd2, %rd0, %rd1;
shl.b32 %r1, %t, 4;
mov.u32 %r2, dynamic;
add.u32 %r1, %r1, %r2;
mov.u32 %r2, 0;
COPY:
ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd2];
st.shared.v4.b32 [%r1], {%r3, %r4, %r5, %r6};
add.s64 %rd2, %rd2, 2048;
add.u32 %r1, %r1, 2048;
add.u32 %r2, %r2, 2048;
setp.lt.u32 %p1, %r2, BYTES;
@%p1 bra COPY;
fence.proxy.async.shared::cta;
bar.sync 0;
""".replace("BYTES", str(BYTES - SHARED))


@dataclass(frozen=True)
class Wgmma:
    """One form of the instruction; `multiply` is given a [64, K] and b [N, K]."""

    n: int
    type: str = "bf16"
    b_type: str = ""
    d_type: str = "f32"
    a_in_registers: bool = False
    a_major: smem_layout.Major = "K"
    b_major: smem_layout.Major = "K"
    a_swizzle: str = "128B"
    b_swizzle: str = "128B"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    selector: int = -1  # of a sparse A; -1: dense

    @property
    def sparse(self) -> bool:
        return self.selector >= 0

    @property
    def depth(self) -> int:
        """Columns of B."""
        return 2 * self.k if self.sparse else self.k

    @property
    def types(self) -> tuple[str, str]:
        return self.type, self.b_type or self.type

    @property
    def k(self) -> int:
        return wgmma.K[self.type]

    @property
    def registers(self) -> int:
        return self.n // 4 if self.d_type == "f16" else self.n // 2

    @property
    def opcode(self) -> str:
        tail = ".and.popc" if self.type == "b1" else ""
        limit = ".satfinite" if self.saturate else ""
        sp = ".sp" if self.sparse else ""
        return f"wgmma.mma_async{sp}.sync.aligned.m64n{self.n}k{self.depth}{limit}.{self.d_type}.{'.'.join(self.types)}{tail}"

    def line(self, d: str, a: str, b: str, scale_d: str) -> str:
        """The instruction on these operands."""
        rest = []
        if self.type not in ("s8", "u8", "b1"):
            rest += [f"{-1 if sign else 1}" for sign in (self.negate_a, self.negate_b)]
        if self.type in ("f16", "bf16"):
            majors = [self.b_major] if self.a_in_registers else [self.a_major, self.b_major]
            rest += [str(int(major == "MN")) for major in majors]
        chosen = ["%m0", str(self.selector)] if self.sparse else []
        return f"{self.opcode} {d}, {a}, {b}, {', '.join([*chosen, scale_d, *rest])};"


def listed(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{k}" for k in range(count)) + "}"


def words_of(values: np.ndarray, type_: str) -> np.ndarray:
    """Elements of rows as bytes [rows, 32], of B of a sparse product 64."""
    if type_ == "b1":
        return np.packbits(values.astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(values.astype(DTYPES[type_])).view(np.uint8).reshape(len(values), -1)


def strides(major: str, swizzle: str, rows: int, k: int) -> tuple[int, int]:
    """(LBO, SBO) of a densely packed operand [rows, 32 bytes], of B of a sparse product 64."""
    w = width(swizzle)
    if swizzle == "none":
        return (rows * 16, 128) if major == "K" else (128, 16 * k)
    return (16, 8 * w) if major == "K" else (k * w, 8 * w)


def place(
    image: np.ndarray, at: int, values: np.ndarray, major: smem_layout.Major, swizzle: str, type_: str
) -> int:
    """Writes an operand [rows, K] into the image; returns its descriptor."""
    rows, k = values.shape
    lbo, sbo = strides(major, swizzle, rows, k)
    if major == "K":  # by bytes, whatever an element is
        data = words_of(values, type_)
        where = smem_layout.address(
            major, swizzle, at, lbo, sbo, np.arange(rows)[:, None], np.arange(data.shape[1])[None, :], bits=8
        )
        image[where - SHARED] = data
    else:
        codes = values.astype(DTYPES[type_]).view(np.uint16)
        where = smem_layout.address(
            major, swizzle, at, lbo, sbo, np.arange(rows)[:, None], np.arange(k)[None, :]
        )
        for byte in range(2):
            image[where + byte - SHARED] = codes >> 8 * byte & 0xFF
    return WarpgroupDescriptor(at, lbo, sbo, swizzle).encode()


def module_text(body: str, registers: str, target: str = "sm_90a") -> str:
    """A kernel of 128 threads and more whose shared memory is filled from its first argument."""
    return f""".version 8.8
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)
{{
.reg .pred %p<16>;
.reg .b32 %r<40>;
.reg .b32 %t;
.reg .b64 %rd<40>;
{registers}
ld.param.u64 %rd0, [p0];
ld.param.u64 %rd10, [p1];
ld.param.u64 %rd11, [p2];
ld.param.u64 %rd20, [p3];
ld.param.u64 %rd21, [p4];
mov.u32 %t, %tid.x;
{body}
ret;
}}
"""


def kernel(form: Wgmma, accumulate: bool, between: tuple[str, ...] = ()) -> str:
    """Registers are [register][thread] words at p1 (D, then A); D goes to p2. With `between` the instruction
    is executed again after each of these texts.
    """
    extra = (4 if form.a_in_registers else 0) + int(form.sparse)
    lines = [
        _COPY_IN,
        "mul.wide.u32 %rd1, %t, 4;",
        "add.s64 %rd12, %rd10, %rd1;",
        "add.s64 %rd13, %rd11, %rd1;",
    ]
    names = [f"%d{k}" for k in range(form.registers)]
    names += [f"%x{k}" for k in range(extra - int(form.sparse))] + ["%m0"] * int(form.sparse)
    lines += [f"ld.global.b32 {name}, [%rd12+{512 * k}];" for k, name in enumerate(names)]
    lines.append(f"mov.u32 %r1, {int(accumulate)};\nsetp.ne.u32 %p0, %r1, 0;")
    a = listed("%x", 4) if form.a_in_registers else "%rd20"
    lines.append("wgmma.fence.sync.aligned;")
    product = form.line(listed("%d", form.registers), a, "%rd21", "%p0")
    lines += [product, *(f"{text}\n{product}" for text in between)]
    lines.append("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.b32 [%rd13+{512 * k}], %d{k};" for k in range(form.registers)]
    return module_text("\n".join(lines), ".reg .b32 %d<128>;\n.reg .b32 %x<4>;\n.reg .b32 %m<1>;")


@lru_cache(maxsize=64)
def module(form: Wgmma, accumulate: bool, between: tuple[str, ...] = ()) -> Module:
    return Module.from_ptx(kernel(form, accumulate, between))


def packed_d(form: Wgmma, c: np.ndarray) -> np.ndarray:
    """Words [registers, 128] of D."""
    half = form.d_type == "f16"
    row, column = wgmma.fragment_d(form.n, half)
    cells = np.ascontiguousarray(c.astype(D_DTYPES[form.d_type]))
    if half:
        bits = cells.view(np.uint16).astype(np.uint32)
        return (bits[row, column] | bits[row, column + 1] << 16).T.astype(np.uint32)
    return np.asarray(cells.view(np.uint32)[row, column].T)


def unpacked_d(form: Wgmma, words: np.ndarray) -> np.ndarray:
    """D [64, N] of words [registers, 128]."""
    half = form.d_type == "f16"
    row, column = wgmma.fragment_d(form.n, half)
    if half:
        out = np.zeros((64, form.n), np.uint16)
        out[row, column], out[row, column + 1] = words.T & 0xFFFF, words.T >> 16
        return out.view(np.float16)
    cells = np.zeros((64, form.n), np.uint32)
    cells[row, column] = words.T
    return cells.view(D_DTYPES[form.d_type])


def multiply(
    form: Wgmma, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, nibbles: np.ndarray | None = None,
    between: tuple[str, ...] = (), **launch: Any,
) -> tuple[np.ndarray, RunResult]:  # fmt: skip
    """D [64, N] of one instruction, and the launch's result. `nibbles`: of the metadata of a sparse A."""
    image = np.zeros(BYTES - SHARED, np.uint8)
    descriptors = [0, 0]
    words = packed_d(form, np.zeros((64, form.n)) if c is None else c)
    if form.a_in_registers:
        row, word = wgmma.fragment_a()
        words = np.concatenate([words, words_of(a, form.type).view(np.uint32)[row, word].T])
    if nibbles is not None:
        words = np.concatenate(
            [words, wgmma.metadata(form.type, nibbles, form.selector)[None].astype(np.uint32)]
        )
    if not form.a_in_registers:
        descriptors[0] = place(image, A_AT, a, form.a_major, form.a_swizzle, form.type)
    descriptors[1] = place(image, B_AT, b, form.b_major, form.b_swizzle, form.types[1])
    memory = Memory()
    out = memory.empty((form.registers, 128), np.uint32)
    result = module(form, c is not None, between).launch(
        "k", grid=(1,), block=(128,), shared_bytes=BYTES - SHARED, memory=memory,
        args=[memory.buffer(image), memory.buffer(np.ascontiguousarray(words)), out, *descriptors], **launch,
    )  # fmt: skip
    return unpacked_d(form, out.numpy()), result


# --- programs of several instructions: D in %d0 to %d3, 8 columns, all elements 1

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %rd20, %rd21, 1, 1, 1, 0, 0;"
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
ZERO = "".join(f"mov.b32 %d{k}, 0;\n" for k in range(16))
COPY_IN = _COPY_IN
OUT = "".join(f"st.global.b32 [%rd13+{512 * k}], %d{k};\n" for k in range(4))


def wait_group(count: int = 0) -> str:
    return f"wgmma.wait_group.sync.aligned {count};"


def program(body: str, setup: str = COPY_IN) -> str:
    """The text of a kernel that fills shared memory and continues with `body`; %rd13 is the thread's output."""
    address = "mul.wide.u32 %rd1, %t, 4;\nadd.s64 %rd13, %rd11, %rd1;"
    return module_text(f"{setup}\n{address}\n{body}", ".reg .b32 %d<16>;\n.reg .b32 %x<4>;")


def run_program(
    body: str, threads: int = 128, setup: str = COPY_IN, **launch: Any
) -> tuple[np.ndarray, RunResult]:
    """The output words [16, threads] of a program, with races checked."""
    image = np.zeros(BYTES - SHARED, np.uint8)
    a = place(image, A_AT, np.full((64, 16), 1), "K", "128B", "bf16")
    b = place(image, B_AT, np.full((8, 16), 1), "K", "128B", "bf16")
    memory = Memory()
    out = memory.buffer(np.zeros((16, threads), np.uint32))
    result = Module.from_ptx(program(body, setup)).launch(
        "k", grid=(1,), block=(threads,), shared_bytes=BYTES - SHARED, memory=memory, races=True,
        args=[memory.buffer(image), memory.buffer(np.zeros(4)), out, a, b], **launch,
    )  # fmt: skip
    return out.numpy(), result


def program_line(body: str, needle: str, setup: str = COPY_IN) -> int:
    """The PTX line of the last line that contains `needle`."""
    lines = program(body, setup).split("\n")
    return max(number for number, text in enumerate(lines, 1) if needle in text)
