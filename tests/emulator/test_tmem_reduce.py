# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""tcgen05.ld.red against numpy (PTX ISA 9.7.16.8.3). sm_100a does not have it; modules for sm_103a are used here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Module, PtxError, RunResult, Schedule, UnsupportedInstruction

from tests.kit.ptx import HEADER, POLICIES, Memory, alloc, clean, dealloc, kernel_text, only
from tests.kit.values import F32_EDGES

COVERS = "tcgen05.ld.red"

REGISTERS = ".reg .b32 %v<128>;"


def launch(
    body: str, arguments: list[Any], memory: Memory, schedule: Schedule, target: str = "sm_103a"
) -> RunResult:
    text = kernel_text(body, [False] * len(arguments)).replace(HEADER, HEADER.replace("sm_100a", target))
    return Module.from_ptx(text).launch(
        "k", grid=(1,), block=(128,), args=arguments, memory=memory, shared_bytes=256, schedule=schedule, races=True
    )  # fmt: skip


def group(count: int) -> str:
    return "{" + ", ".join(f"%v{k}" for k in range(count)) + "}"


def program(spelling: str, count: int, waits: str = "tcgen05.wait::ld.sync.aligned;") -> str:
    """Each thread's row of %a1 goes to its lane and comes back: row to %a2, the reduced value to %a0."""
    load = "\n".join(f"ld.global.b32 %v{k}, [%rd1+{4 * k}];" for k in range(count))
    back = "\n".join(f"st.global.b32 [%rd2+{4 * k}], %v{k};" for k in range(count))
    return f"""{REGISTERS} {alloc(128)}
    mad.wide.u32 %rd1, %t, {4 * count}, %a1; mad.wide.u32 %rd2, %t, {4 * count}, %a2; {load}
    shl.b32 %r50, %r101, 21; add.u32 %r51, %r100, %r50;
    tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r51], {group(count)}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.32x32b.x{count}.{spelling} {group(count)}, %r60, [%r51]; {waits}
    {back} mad.wide.u32 %rd3, %t, 4, %a0; st.global.b32 [%rd3], %r60; {dealloc(128)}"""


def values(count: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 2**32, (128, count), dtype=np.uint32)
    if kind == "f32":
        edges = np.concatenate(
            [F32_EDGES.view(np.uint32), np.zeros(8, np.uint32), np.full(8, 0x80000000, np.uint32)]
        )
        bits = rng.choice(edges, (128, count))
        bits[5:9] = 0x7FC00000  # nothing but NaN
        bits[9, :] = [0, 0x80000000] * (count // 2)
        bits[40:100] = rng.standard_normal((60, count)).astype(np.float32).view(np.uint32)
    return bits.astype(np.uint32)


def want_f32(bits: np.ndarray, most: bool, absolute: bool, nan: bool) -> list[int]:
    out = []
    for row in bits.view(np.float32):
        given = np.abs(row) if absolute else row
        numbers = given[~np.isnan(given)]
        if not len(numbers) or (nan and len(numbers) < len(given)):
            out.append(0x7FFFFFFF)
            continue
        best = (
            max(numbers, key=lambda v: (v, not np.signbit(v)))
            if most
            else min(numbers, key=lambda v: (v, not np.signbit(v)))
        )
        out.append(int(np.float32(best).view(np.uint32)))
    return out


@pytest.mark.parametrize("schedule", POLICIES[:3])
@pytest.mark.parametrize("count", [2, 16, 128])
@pytest.mark.parametrize(
    "spelling",
    [
        "min.u32",
        "max.u32",
        "min.s32",
        "max.s32",
        "min.f32",
        "max.f32",
        "max.abs.f32",
        "min.abs.NaN.f32",
        "max.NaN.f32",
    ],
)
def test_values(spelling: str, count: int, schedule: Schedule) -> None:
    kind, most = spelling.split(".")[-1], spelling.startswith("max")
    bits = values(count, kind)
    if kind == "f32":
        want = want_f32(bits, most, "abs" in spelling, "NaN" in spelling)
    else:
        rows = bits if kind == "u32" else bits.view(np.int32)
        want = (rows.max(axis=1) if most else rows.min(axis=1)).view(np.uint32).tolist()
    memory = Memory()
    out, back = memory.empty(128, np.uint32), memory.empty((128, count), np.uint32)
    clean(launch(program(spelling, count), [out, memory.buffer(bits), back], memory, schedule))
    assert out.numpy().tolist() == want and (back.numpy() == bits).all()


def test_the_reduced_value_is_waited_for_like_the_others() -> None:
    """Its use without wait::ld is a note; a cell that nothing wrote counts at the first use."""
    memory = Memory()
    bits = values(2, "u32")
    arguments = [memory.empty(128, np.uint32), memory.buffer(bits), memory.empty((128, 2), np.uint32)]
    used = program("max.u32", 2, "add.u32 %r61, %r60, 1;")
    assert only(launch(used, arguments, memory, Schedule("late")), "tmem-ld-not-waited").severity == "note"
    memory = Memory()
    out = memory.empty(128, np.uint32)
    body = f"""{REGISTERS} {alloc(128)} shl.b32 %r50, %r101, 21; add.u32 %r51, %r100, %r50;
    tcgen05.ld.red.sync.aligned.32x32b.x2.min.s32 {group(2)}, %r60, [%r51]; tcgen05.wait::ld.sync.aligned;
    USE {dealloc(128)}"""
    clean(launch(body.replace("USE", ""), [out], memory, Schedule("late")))
    only(
        launch(
            body.replace("USE", "setp.eq.u32 %p1, %r60, 7; @%p1 bra USED; USED:"),
            [out],
            memory,
            Schedule("late"),
        ),
        "tmem-uninitialised",
    )


@pytest.mark.parametrize(("target", "shape"), [("sm_100a", "32x32b"), ("sm_103a", "16x32bx2")])
def test_what_is_refused(target: str, shape: str) -> None:
    memory = Memory()
    body = f"tcgen05.ld.red.sync.aligned.{shape}.x2.min.u32 {{%r1, %r2}}, %r3, [%r4]{', 16' if 'bx2' in shape else ''};"
    with pytest.raises((UnsupportedInstruction, PtxError), match=r"ld\.red"):
        launch(body, [], memory, Schedule("early"), target)
