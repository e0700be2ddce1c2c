# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Small hand-written kernels for the emulator's tests: text around a body, one launch, arrays in and out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator import Buffer, Finding, Memory, Module, RunResult, Schedule, TensorMap
from tileproof.tools.bugs.text import CLUSTER_SYNC as CLUSTER_SYNC
from tileproof.tools.bugs.text import ELECT as ELECT
from tileproof.tools.bugs.text import HEADER as HEADER
from tileproof.tools.bugs.text import REGISTERS as REGISTERS
from tileproof.tools.bugs.text import alloc as alloc
from tileproof.tools.bugs.text import dealloc as dealloc
from tileproof.tools.bugs.text import init_barrier as init_barrier
from tileproof.tools.bugs.text import kernel_text as kernel_text
from tileproof.tools.bugs.text import wait as wait

BF16 = np.dtype(ml_dtypes.bfloat16)
POLICIES = [Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("random", 2)]


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
