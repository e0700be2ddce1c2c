# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Reads of bytes that nobody wrote: an error where an output, an address, a branch or another engine depends
on the value, a note where it is dropped."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Finding, Memory, RunResult, Schedule

from tests.kit.ptx import POLICIES, clean, codes, line_of, run, used

COVERS = ""

# Shared memory: tile (1024) holds the lane's index in lanes 0 to 23; `%r1` loads it, unwritten in lanes 24 to
# 31 (`%p2`; `%p1` elsewhere). `%rd1`: the lane's word of the output, `%rd2` of an array that is all written.
SETUP = """.shared .align 16 .b8 tile[512]; .shared .align 16 .b8 other[512]; .local .align 16 .b8 mine[32];
mov.u32 %r20, tile; mad.lo.u32 %r2, %t, 4, %r20; mov.u32 %r21, other; mad.lo.u32 %r22, %t, 4, %r21;
setp.lt.u32 %p1, %t, 24; setp.ge.u32 %p2, %t, 24; mad.wide.u32 %rd1, %t, 4, %a0; mad.wide.u32 %rd2, %t, 4, %a1;
mov.u32 %r90, 0; mov.u32 %r91, 1; mov.f32 %f9, 0f3f800000;
@%p1 st.shared.u32 [%r2], %t;
ld.shared.u32 %r1, [%r2];"""
OUT = "st.global.u32 [%rd1], {};"
KEEP = "@%p1 " + OUT  # lanes 0 to 23 only
REST = "@%p2 st.global.u32 [%rd1], %t;"


def launched(body: str, schedule: Schedule | None = None, **options: Any) -> RunResult:
    memory = Memory()
    args = [
        memory.empty(32, np.uint32, "out"),
        memory.buffer(np.zeros(32, np.uint32), "all"),
        memory.empty(64, np.uint32, "fresh"),
    ]
    return run(
        SETUP + "\n" + body,
        args,
        memory=memory,
        schedule=schedule or Schedule("early"),
        outputs=[args[0]],
        **options,
    )


def found(result: RunResult) -> Finding:
    """The finding of the first load, and none else."""
    assert len(result.findings) == 1, "\n".join(map(str, result.findings))
    assert result.findings[0].machine.ptx_line == line_of(SETUP, "ld.shared.u32 %r1", [False] * 3)
    return result.findings[0]


# The value is computed with, moved to other lanes, stored in shared or local memory; lanes 0 to 23 have a value
# of their own and store it.
DROPPED = {
    "never used": KEEP.format("%t"),
    "a predicated store": KEEP.format("%r1"),
    "arithmetic, then a predicated store": "mad.lo.u32 %r3, %r1, 5, %t; cvt.rn.f32.u32 %f1, %r3; fma.rn.f32 %f1, %f1, %f1, %f9; cvt.rzi.u32.f32 %r3, %f1;" + KEEP.format("%r3"),
    "a selection of the other value": "selp.u32 %r3, %r1, 77, %p1;" + OUT.format("%r3"),
    "a mask": "selp.u32 %r4, -1, 0, %p1; and.b32 %r3, %r1, %r4;" + OUT.format("%r3"),
    "a mask in lop3": "selp.u32 %r4, -1, 0, %p1; lop3.b32 %r3, %r1, %r4, %t, 0xea;" + OUT.format("%r3"),
    "or with all bits set": "selp.u32 %r4, -1, 0, %p2; or.b32 %r3, %r1, %r4;" + OUT.format("%r3"),
    "a register xor itself": "xor.b32 %r3, %r1, %r1;" + OUT.format("%r3"),
    "bits shifted out": "shl.b64 %rd3, %rd1, 0; mov.b64 %rd4, {%t, %r1}; shl.b64 %rd4, %rd4, 32; shr.u64 %rd4, %rd4, 32; cvt.u32.u64 %r3, %rd4;" + OUT.format("%r3"),
    "bytes that prmt leaves out": "prmt.b32 %r3, %r1, %t, 0x7654;" + OUT.format("%r3"),
    "a field that bfe leaves out": "mov.b32 {%h1, %h2}, %r1; mov.b32 %r4, {%h1, %h3}; mov.u16 %h4, 9; mov.b32 %r4, {%h1, %h4}; bfe.u32 %r3, %r4, 16, 8;" + OUT.format("%r3"),
    "a field overwritten by bfi": "bfi.b32 %r3, %t, %r1, 0, 32;" + OUT.format("%r3"),
    "the other half of a pair": "mov.b64 %rd3, {%t, %r1}; mov.b64 {%r3, %r4}, %rd3;" + OUT.format("%r3"),
    "a comparison that a known predicate decides": "setp.eq.and.u32 %p3, %r1, 5, %p1; selp.u32 %r3, 1, 2, %p3;" + OUT.format("%r3"),
    "a comparison that or decides": "setp.eq.or.u32 %p3, %r1, 5, %p2; selp.u32 %r3, 1, 2, %p3;" + OUT.format("%r3"),
    "a predicate and a known predicate": "setp.eq.u32 %p3, %r1, 5; and.pred %p4, %p3, %p1; @%p4 bra L; L:" + OUT.format("%t"),
    "a predicate of a move": "setp.eq.u32 %p3, %r1, 5; @%p3 mov.u32 %r4, 3; mov.u32 %r4, 4;" + OUT.format("%r4"),
    "overwritten": "@%p2 mov.u32 %r1, 9;" + OUT.format("%r1"),
    "written by a load": "@%p2 ld.global.u32 %r1, [%rd2];" + OUT.format("%r1"),
    "shuffled from lanes that have it": "shfl.sync.idx.b32 %r3, %r1, 3, 31, -1;" + OUT.format("%r3"),
    "a reduction whose upper lanes are dropped": "shfl.sync.down.b32 %r3, %r1, 8, 31, -1; setp.lt.u32 %p3, %t, 16; add.u32 %r3, %r3, %r1; @%p3 st.global.u32 [%rd1], %r3; @!%p3 st.global.u32 [%rd1], %t;",
    "a vote that a known lane decides": "setp.ge.u32 %p3, %r1, 0; setp.lt.or.u32 %p3, %r1, 100, %p1; vote.sync.any.pred %p4, %p3, -1; selp.u32 %r3, 1, 2, %p4;" + OUT.format("%r3"),
    "a ballot, masked": "setp.lt.u32 %p3, %r1, 100; vote.sync.ballot.b32 %r3, %p3, -1; and.b32 %r3, %r3, 0xffffff;" + OUT.format("%r3"),
    "a store to shared memory that nobody reads": "st.shared.u32 [%r22], %r1;" + OUT.format("%t"),
    "shared memory, read where it was written": "st.shared.u32 [%r22], %r1; bar.warp.sync -1; ld.shared.u32 %r3, [%r22];" + KEEP.format("%r3"),
    "shared memory, written again": "st.shared.u32 [%r22], %r1; bar.warp.sync -1; @%p2 st.shared.u32 [%r22], %t; bar.warp.sync -1; ld.shared.u32 %r3, [%r22];" + OUT.format("%r3"),
    "a local array": "st.local.u32 [mine+4], %r1; ld.local.u32 %r3, [mine+4];" + KEEP.format("%r3"),
    "a local array, written again": "st.local.u32 [mine+4], %r1; st.local.u32 [mine+4], %t; ld.local.u32 %r3, [mine+4];" + OUT.format("%r3"),
    "an MMA's rows beyond the end": "@%p2 mov.u32 %r1, %r1; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r90, %r1, %r90}, {%r90, %r90}, {%f9, %f9, %f9, %f9}; mov.b32 %r3, %f1;" + KEEP.format("%r3"),
    "an MMA's columns beyond the end": "shr.u32 %r30, %t, 2; setp.lt.u32 %p5, %r30, 6; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r90, %r90, %r90, %r90}, {%r1, %r90}, {%f9, %f9, %f9, %f9}; mov.b32 %r3, %f1; and.b32 %r31, %t, 3; setp.lt.u32 %p6, %r31, 3; @%p6 st.global.u32 [%rd1], %r3; @!%p6 st.global.u32 [%rd1], %t;",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r33], {%r1}; ld.shared.u32 %r3, [%r22];" + KEEP.format("%r3"),
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1; and.b32 %r31, %t, 3; setp.lt.u32 %p6, %r31, 3; @%p6 st.global.u32 [%rd1], %r3; @!%p6 st.global.u32 [%rd1], %t;",
}  # fmt: skip
ROWS = "mad.lo.u32 %r32, %t, 16, %r20; mad.lo.u32 %r33, %t, 16, %r21; setp.lt.u32 %p7, %t, 8; selp.u32 %r32, %r32, %r20, %p7; selp.u32 %r33, %r33, %r21, %p7;\n"


def completed(body: str) -> str:
    """The other lanes store a value of their own where the body leaves them out."""
    return ROWS + body + (REST if KEEP.split("{")[0] in body and "%p6 st" not in body else "")


@pytest.mark.parametrize("how", DROPPED)
def test_a_dropped_value_is_a_note(how: str) -> None:
    for schedule in POLICIES:
        finding = found(launched(completed(DROPPED[how]), schedule))
        assert (finding.code, finding.severity) == ("uninitialised-unused", "note"), finding
        assert "never written" in finding.message


# (body, lanes whose value matters, a word of the message)
MATTERS = {
    "stored": (OUT.format("%r1"), 8, "stores"),
    "stored after arithmetic": ("mad.lo.u32 %r3, %r1, 5, %t; cvt.rn.f32.u32 %f1, %r3; mov.b32 %r4, %f1;" + OUT.format("%r4"), 8, "stores"),
    "stored as a byte": ("cvt.u16.u32 %h1, %r1; st.global.u8 [%rd1], %h1;" + OUT.format("%t"), 8, "stores"),
    "selected": ("selp.u32 %r3, 77, %r1, %p1;" + OUT.format("%r3"), 8, "stores"),
    "selected by it": ("setp.eq.u32 %p3, %r1, 5; selp.u32 %r3, 1, 2, %p3;" + OUT.format("%r3"), 8, "stores"),
    "a mask that leaves bits": ("and.b32 %r3, %r1, 1;" + OUT.format("%r3"), 8, "stores"),
    "lop3 that keeps bits": ("lop3.b32 %r3, %r1, %t, %t, 0x96;" + OUT.format("%r3"), 8, "stores"),
    "xor with another": ("add.u32 %r4, %r1, 0; xor.b32 %r3, %r1, %r4;" + OUT.format("%r3"), 8, "stores"),
    "the half of a pair": ("mov.b64 %rd3, {%t, %r1}; shr.u64 %rd3, %rd3, 40; cvt.u32.u64 %r3, %rd3;" + OUT.format("%r3"), 8, "stores"),
    "an address of a load": ("and.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r20; ld.shared.u32 %r4, [%r3];", 8, "an address"),
    "an address of a store": ("and.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r21; st.shared.u32 [%r3], 5;", 8, "an address"),
    "a branch": (used("%r1"), 8, "a predicate"),
    "a branch of a combined predicate": ("setp.eq.and.u32 %p3, %r1, 5, %p2; @%p3 bra L; L:", 8, "a predicate"),
    "whether a store executes": ("setp.eq.u32 %p3, %r1, 5; @%p3 st.shared.u32 [%r22], 3;", 8, "a predicate"),
    "what a predicated move leaves": ("setp.eq.u32 %p3, %r1, 5; mov.u32 %r4, 3; @%p3 mov.u32 %r4, 4;" + OUT.format("%r4"), 8, "stores"),
    "an atomic": ("atom.global.add.u32 %r3, [%rd2], %r1;", 8, "uses"),
    "the source of a shuffle": ("shfl.sync.idx.b32 %r3, %r1, %r1, 31, -1;" + OUT.format("%r3"), 32, "stores"),
    "a shuffled value": ("shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;" + OUT.format("%r3"), 8, "stores"),
    "a vote": ("setp.lt.u32 %p3, %r1, 100; vote.sync.all.pred %p4, %p3, -1; @%p4 bra L; L:", None, "a predicate"),
    "a reduction of the warp": ("redux.sync.add.u32 %r3, %r1, -1; @%p1 st.global.u32 [%rd1], %r3;", None, "stores"),
    "shared memory, read by another lane": ("st.shared.u32 [%r22], %r1; bar.warp.sync -1; ld.shared.u32 %r3, [%r21+100];" + OUT.format("%r3"), None, "stores"),
    "a local array": ("st.local.u32 [mine+4], %r1; ld.local.u32 %r3, [mine+4];" + OUT.format("%r3"), 8, "stores"),
    "an MMA's accumulator": ("mov.b32 %f8, %r1; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r90, %r90, %r90, %r90}, {%r90, %r90}, {%f8, %f9, %f9, %f9}; mov.b32 %r3, %f1;" + OUT.format("%r3"), 8, "stores"),
    "an MMA's A": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r90, %r90, %r90}, {%r90, %r90}, {%f9, %f9, %f9, %f9}; mov.b32 %r3, %f1;" + OUT.format("%r3"), None, "stores"),
    "an MMA's A, the other row": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r90, %r1, %r90, %r90}, {%r90, %r90}, {%f9, %f9, %f9, %f9}; mov.b32 %r3, %f3;" + OUT.format("%r3"), None, "stores"),
    "an MMA's B": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r90, %r90, %r90, %r90}, {%r90, %r1}, {%f9, %f9, %f9, %f9}; mov.b32 %r3, %f1;" + OUT.format("%r3"), None, "stores"),
    "a copy engine": ("st.shared.u32 [%r22], %r1; setp.eq.u32 %p3, %t, 0; @%p3 cp.async.bulk.global.shared::cta.bulk_group [%a1], [%r21], 128; @%p3 cp.async.bulk.commit_group; @%p3 cp.async.bulk.wait_group 0;", None, ""),
}  # fmt: skip


@pytest.mark.parametrize("how", MATTERS)
def test_a_value_that_matters_is_an_error(how: str) -> None:
    body, lanes, word = MATTERS[how]
    for schedule in POLICIES:
        result = launched(body, schedule)
        errors = [f for f in result.findings if f.code == "shared-uninitialised"]
        assert len(errors) == 1, "\n".join(map(str, result.findings))
        assert errors[0].machine.ptx_line == line_of(SETUP, "ld.shared.u32 %r1", [False] * 3)
        assert errors[0].severity == "error" and word in errors[0].message
        assert lanes is None or errors[0].count == lanes
        assert "uninitialised-unused" not in codes(result)


def test_rows_of_ldmatrix() -> None:
    """Rows 6 and 7, which lanes 24 to 31 hold, are unwritten."""
    load = ROWS + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r32];"
    assert codes(launched(load + KEEP.format("%r3") + REST)) == {"uninitialised-unused"}
    result = launched(load + OUT.format("%r3"))
    error = next(f for f in result.findings if f.severity == "error")
    assert (error.code, error.count, error.machine.lane) == ("shared-uninitialised", 8, 6)
    assert error.machine.instruction.startswith("ldmatrix")


def test_two_loads_that_one_store_depends_on_are_two_errors() -> None:
    result = launched("ld.shared.u32 %r3, [%r22];\nadd.u32 %r4, %r1, %r3;" + OUT.format("%r4"))
    assert [f.code for f in result.findings] == ["shared-uninitialised"] * 2
    assert len({f.machine.ptx_line for f in result.findings}) == 2


def test_a_word_written_in_part() -> None:
    """The bytes that were written keep their values."""
    half = "@%p2 st.shared.u16 [%r2], %h5; ld.shared.u32 %r1, [%r2];"
    fine = f"mov.u16 %h5, 0x1234; {half} and.b32 %r3, %r1, 0xffff; setp.eq.u32 %p3, %r3, 0x1234; selp.u32 %r3, 1, 0, %p3;"
    result = launched(fine + OUT.format("%r3"))
    assert codes(result) == {"uninitialised-unused"}
    bad = f"mov.u16 %h5, 0x1234; {half} shr.u32 %r3, %r1, 8;" + OUT.format("%r3")
    assert "shared-uninitialised" in codes(launched(bad))


def test_global_memory_and_parameters() -> None:
    read = "add.u64 %rd3, %a2, 0; mad.wide.u32 %rd3, %t, 4, %rd3; ld.global.u32 %r3, [%rd3];" + OUT.format(
        "%t"
    )
    assert {f.code: f.severity for f in launched(read).findings} == {"uninitialised-unused": "note"}
    result = launched(read + "st.global.u32 [%rd2], %r3;")
    assert "global-uninitialised" in codes(result)
    assert re.search(
        r"fresh at offset \d+ that were never written", str(result.findings[-1]) + str(result.findings[0])
    )


def test_a_correct_kernel_has_no_remark() -> None:
    memory = Memory()
    out = memory.empty(32, np.uint32)
    body = "mad.lo.u32 %r2, %t, 4, 1024; st.shared.u32 [%r2], %t; ld.shared.u32 %r1, [%r2]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r1;"
    clean(run(body, [out], memory=memory, shared_bytes=256))
