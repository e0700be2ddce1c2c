"""Text of small PTX kernels: a header, registers and arguments around a body, and phrases of bodies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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


def kernel_text(body: str, maps: Sequence[bool] = (), module: str = "", name: str = "k") -> str:
    """PTX of entry `name`. `maps[i]`: parameter i is a tensor map, and `%ai` is its generic address."""
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


ELECT = "setp.eq.u32 %p0, %t, 0;"
CLUSTER_SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
# Eight columns of a thread's own lane of tensor memory: %r60 to %r67 are loaded, %r70 to %r77 stored.
QUARTER = (
    "and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t;"
)
EIGHT = "{" + ", ".join(f"%r{60 + i}" for i in range(8)) + "}"
ZEROS = EIGHT.replace("r6", "r7")
CLEAR = " ".join(f"mov.b32 %r{70 + i}, 0;" for i in range(8))
LD, WAIT_LD = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {EIGHT}, [%r51];", "tcgen05.wait::ld.sync.aligned;"
ST, WAIT_ST = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {ZEROS};", "tcgen05.wait::st.sync.aligned;"

_labels = itertools.count()


def init_barrier(offset: int, count: int = 1) -> str:
    """Thread 0 initialises the mbarrier at shared address `offset`, then the CTA meets."""
    return f"{ELECT}\n@%p0 mbarrier.init.shared::cta.b64 [{offset}], {count};\nbar.sync 0;"


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
