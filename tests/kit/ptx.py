# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Small hand-written kernels for the emulator's tests: text around a body, one launch, arrays in and out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator import Buffer, Finding, Memory, Module, RunResult, Schedule, TensorMap

BF16 = np.dtype(ml_dtypes.bfloat16)
HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
# `%t` is the thread's index in its block, `%a0`, `%a1`, ... the 64-bit arguments, the rest is free.
REGISTERS = """
.reg .pred %p<16>;
.reg .b16 %h<40>;
.reg .b32 %r<140>;
.reg .f32 %f<40>;
.reg .b64 %rd<40>;
.reg .f64 %fd<8>;
.reg .b128 %q<4>;
.reg .b64 %a<9>;
.reg .b32 %t;
"""
POLICIES = [Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("random", 2)]


def kernel_text(body: str, maps: Sequence[bool] = (), module: str = "", name: str = "k") -> str:
    """PTX of entry `name`. `maps[i]` says that parameter i is a tensor map; `%ai` is then its generic address."""
    parameters, loads = [], []
    for i, is_map in enumerate(maps):
        if is_map:
            parameters.append(f".param .align 64 .b8 p{i}[128]")
            loads.append(f"mov.b64 %a{i}, p{i};\ncvta.param.u64 %a{i}, %a{i};")
        else:
            parameters.append(f".param .u64 p{i}")
            loads.append(f"ld.param.u64 %a{i}, [p{i}];")
    prologue = "\n".join(loads)
    if "%own" in body:  # a shared address in a register holds the CTA's rank
        prologue += "\n.reg .b32 %own;\nmov.u32 %own, %cluster_ctarank;\nshl.b32 %own, %own, 24;"
    return (
        f"{HEADER}{module}\n.visible .entry {name}({', '.join(parameters)})\n{{\n{REGISTERS}\n{prologue}\n"
        f"mov.u32 %t, %tid.x;\n{body}\nret;\n}}\n"
    )


@lru_cache(maxsize=256)
def parsed(text: str) -> Module:
    """The module of a text; its kernels are decoded once."""
    return Module.from_ptx(text)


def run(
    body: str,
    args: Sequence[Any] = (),
    *,
    memory: Memory | None = None,
    threads: int = 32,
    cluster: int = 1,
    grid: int | None = None,
    module: str = "",
    **launch: Any,
) -> RunResult:
    """Launches `body` on one cluster of `cluster` CTAs of `threads` threads."""
    text = kernel_text(body, [isinstance(arg, TensorMap) for arg in args], module)
    return parsed(text).launch(
        "k", grid=(grid or cluster, 1, 1), block=(threads, 1, 1), cluster=(cluster, 1, 1), args=list(args),
        memory=memory, **launch,
    )  # fmt: skip


def clean(result: RunResult) -> RunResult:
    """The result, which must have no finding."""
    assert not result.findings, "\n".join(map(str, result.findings))
    return result


def only(result: RunResult, code: str) -> Finding:
    """The first finding, which must have this code."""
    assert result.findings, f"no finding, expected {code}"
    assert result.findings[0].code == code, "\n".join(map(str, result.findings))
    return result.findings[0]


def codes(result: RunResult) -> set[str]:
    """The codes found."""
    return {f.code for f in result.findings}


def line_of(body: str, needle: str, maps: Sequence[bool] = (), module: str = "") -> int:
    """The 1-based PTX line of the first line of the kernel that contains `needle`."""
    lines = kernel_text(body, maps, module).split("\n")
    return next(number for number, text in enumerate(lines, 1) if needle in text)


def elementwise(
    code: str, inputs: Sequence[np.ndarray], out: np.dtype | type | str, name: str = "x"
) -> np.ndarray:
    """Runs `code` once per thread: inputs in `x0`, `x1`, ...; the result is taken from `d` (8-bit values in 16 bits)."""
    count = len(inputs[0])
    assert count <= 1024
    kind = np.dtype(out)
    lines, memory, args = [], Memory(), []
    for i, array in enumerate(inputs):
        size = array.dtype.itemsize
        lines.append(f".reg .b{max(16, 8 * size)} {name}{i};")
        lines.append(f"mad.wide.u32 %rd{i}, %t, {size}, %a{i + 1};")
        lines.append(f"ld.global.{'u8' if size == 1 else f'b{8 * size}'} {name}{i}, [%rd{i}];")
        args.append(memory.buffer(np.ascontiguousarray(array)))
    lines.append(f".reg .b{max(16, 8 * kind.itemsize)} d;")
    lines.append(code)
    lines.append(f"mad.wide.u32 %rd39, %t, {kind.itemsize}, %a0;")
    lines.append(f"st.global.{'u8' if kind.itemsize == 1 else f'b{8 * kind.itemsize}'} [%rd39], d;")
    result = memory.empty(count, kind)
    clean(run("\n".join(lines), [result, *args], memory=memory, threads=count))
    return result.numpy()


def used(register: str, label: str = "USED") -> str:
    """Lines where the value of a 32-bit register decides something: a branch."""
    return f"setp.eq.u32 %p15, {register}, 7; @%p15 bra {label};\n{label}:"


def store(register: str, index: str = "%t", argument: str = "%a0", type_: str = "b32") -> str:
    """Lines that store `register` to element `index` of the array at `argument`."""
    size = int(type_.lstrip("bsuf")) // 8
    return f"mad.wide.u32 %rd39, {index}, {size}, {argument};\nst.global.{type_} [%rd39], {register};"


def outputs(
    body: str,
    count: int | tuple[int, ...] = 32,
    dtype: Any = np.uint32,
    extra: Sequence[Any] = (),
    **launch: Any,
) -> np.ndarray:
    """The array at `%a0` after a clean launch; `extra` are further arguments (arrays become buffers)."""
    memory = launch.pop("memory", None) or Memory()
    result: Buffer = memory.empty(count, dtype)
    args = [memory.buffer(a) if isinstance(a, np.ndarray) else a for a in extra]
    clean(run(body, [result, *args], memory=memory, **launch))
    assert result.written().all(), "the kernel left outputs unwritten"
    return result.numpy()


# --- phrases --------------------------------------------------------------------------------------------------

ELECT = "setp.eq.u32 %p0, %t, 0;"


def init_barrier(offset: int, count: int = 1) -> str:
    """Thread 0 initialises the mbarrier at shared address `offset`, then the CTA meets."""
    return f"{ELECT}\n@%p0 mbarrier.init.shared::cta.b64 [{offset}], {count};\nbar.sync 0;"


_labels = itertools.count()


def wait(offset: int | str, parity: int | str = 0) -> str:
    """A loop of try_wait.parity, as compilers write it."""
    label = f"WAIT_{next(_labels)}"
    return (
        f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p15, [{offset}], {parity};\n@!%p15 bra {label};"
    )


def alloc(
    columns: int = 512, register: str = "%r100", slot: int = 1024 + 64, group: int = 1, warp: int = 0
) -> str:
    """Warp `warp` allocates TMEM; every thread then holds the base in `register`."""
    return f"""
shr.u32 %r101, %t, 5;
setp.eq.u32 %p14, %r101, {warp};
@%p14 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [{slot}], {columns};
bar.sync 0;
ld.shared.u32 {register}, [{slot}];"""


def dealloc(columns: int = 512, register: str = "%r100", group: int = 1, warp: int = 0) -> str:
    """All warps meet; warp `warp` frees the columns."""
    return f"""
bar.sync 0;
shr.u32 %r101, %t, 5;
setp.eq.u32 %p14, %r101, {warp};
@%p14 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {register}, {columns};"""


CLUSTER_SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
