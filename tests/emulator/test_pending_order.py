# ruff: noqa: E501 - PTX lines are kept whole
"""A write of tensor memory in flight is pending for whom it comes before, not for what its own pipeline does first."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import Memory, alloc, clean, dealloc, init_barrier, run, wait

BAR = 1024
B = SmemDescriptor(0x1000, 16, 256, "32B").encode()  # [32, 16], zeros but for row n, element n % 16: 1
WIDE, NARROW = InstructionDescriptor(128, 32).encode(), InstructionDescriptor(128, 16).encode()
EIGHT = "{" + ", ".join(f"%r{60 + i}" for i in range(8)) + "}"
ONES = " ".join(f"mov.b32 %r{60 + i}, 0x3f803f80;" for i in range(8))  # pairs of bf16 1.0
ST = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};"
WAIT_ST = "tcgen05.wait::st.sync.aligned;"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
COMMIT = f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR}];"
# P lies in columns 0 .. 7; PV reads it as A and writes columns 32 .. 47; QK then overwrites columns 0 .. 31.
PV = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r52], [%r100], {B}, {NARROW}, %p5;"
QK = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], {B}, {B}, {WIDE}, %p5;"
CP = f"@%p0 tcgen05.cp.cta_group::1.128x256b [%r100], {B};"
SCHEDULES = [Schedule(p) for p in ("early", "late", "late-newest")] + [Schedule("random", s) for s in range(12)]  # type: ignore[arg-type]  # fmt: skip


def launched(middle: str, schedule: Schedule, races: bool = False) -> tuple[RunResult, np.ndarray]:
    """P = 1 everywhere; O = columns 32 .. 39 of the product, read after the commit."""
    memory = Memory()
    out = memory.empty((128, 8), np.uint32)
    operand = """mad.lo.u32 %r1, %t, 32, 4096; st.shared.v4.b32 [%r1], {0, 0, 0, 0}; st.shared.v4.b32 [%r1+16], {0, 0, 0, 0};
    mov.b16 %h1, 0x3f80; setp.lt.u32 %p6, %t, 32; and.b32 %r2, %t, 15; mad.lo.u32 %r2, %r2, 2, %r1; bar.sync 0;
    fence.proxy.async; bar.sync 0;"""
    body = f"""{init_barrier(BAR + 8)} {init_barrier(BAR)} {alloc(64)}
    and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t; add.u32 %r52, %r100, 32;
    {operand} {ONES}
    {middle}
    {wait(BAR)} {AFTER}
    add.u32 %r53, %r51, 32; tcgen05.ld.sync.aligned.32x32b.x8.b32 {EIGHT}, [%r53]; tcgen05.wait::ld.sync.aligned; {BEFORE}
    mad.wide.u32 %rd1, %t, 32, %a0; st.global.v4.b32 [%rd1], {{%r60, %r61, %r62, %r63}}; st.global.v4.b32 [%rd1+16], {{%r64, %r65, %r66, %r67}};
    {dealloc(64)}"""
    result = run(body, [out], memory=memory, threads=128, shared_bytes=0x3000, schedule=schedule, races=races)
    return result, out.numpy().view(np.float32)


READY = f"{ST} {WAIT_ST} {BEFORE} bar.sync 0; {AFTER}"


@pytest.mark.parametrize("later", [QK, f"{QK} {QK}", CP, f"{CP} {QK}"], ids=["mma", "two", "cp", "both"])
def test_what_follows_in_the_pipeline_is_not_pending(later: str) -> None:
    for schedule in SCHEDULES:
        result, out = launched(f"{READY} {PV} {later} {COMMIT}", schedule)
        clean(result)
        assert (out == 0).all()  # B is zero, and P no NaN


def test_an_earlier_operation_of_the_pipeline_is_over_by_then() -> None:
    """QK writes P's cells first: PV reads what QK left, whatever is issued after."""
    for schedule in SCHEDULES:
        clean(launched(f"{READY} {QK} {PV} {QK} {COMMIT}", schedule)[0])


@pytest.mark.parametrize("later", ["", QK], ids=["alone", "with a later write of its own"])
def test_a_store_of_another_queue_is_still_pending(later: str) -> None:
    codes = set()
    for seed in range(40):
        result, out = launched(
            f"{ST} {BEFORE} bar.sync 0; {AFTER} {PV} {later} {COMMIT}", Schedule("random", seed)
        )
        codes |= {f.code for f in result.errors}
        assert np.isfinite(out).all()  # reported, and the values are judged all the same
        if result.errors:
            assert {f.machine.instruction for f in result.errors} == {"tcgen05.mma.cta_group::1.kind::f16"}
    assert codes == {"tmem-pending"}


def test_another_thread_s_pipeline_is_still_pending() -> None:
    """Warp 1 issues QK onto P's cells, and nothing orders it before or after warp 0's PV."""
    other = QK.replace("@%p0", "@%p7") + COMMIT.replace("@%p0", "@%p7").replace(str(BAR), str(BAR + 8))
    middle = f"{READY} setp.eq.u32 %p7, %t, 32; {other} {PV} {COMMIT}\n{wait(BAR + 8)}"
    found: set[str] = set()
    for seed in range(40):
        found |= {f.code for f in launched(middle, Schedule("random", seed))[0].errors}
    assert found == {"tmem-pending"}
    for schedule in (Schedule("early"), Schedule("late")):
        told = {f.code for f in launched(middle, schedule, races=True)[0].errors}
        assert any(code.startswith("race-") for code in told)
