"""What each thread has in a register, which threads come to an instruction, and what that proves."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.rules import Facts, proved
from tileproof.conformance.beside.mutate.threads import threads

from tests.conformance.beside.mutate.test_barriers import entry

RULE = "rule equal in every thread"
USED = "st.global.b32 [%rd1], {};"


def of(*lines: str, count: str = "192, 1, 1") -> PtxCode:
    text = entry(*lines).text
    return PtxCode(text.replace(")\n{", f")\n.maxntid {count}\n{{", 1), "small")


def told(read: PtxCode, opcode: str, operator: str, words: str) -> str:
    at = next(line for line in reversed(read.code) if line.opcode.startswith(opcode))
    (change,) = (change for change in OPERATORS[operator](read, at) if change.what.startswith(words))
    return proved(
        read, Drawn(0, operator, change.what, at.frames, at.opcode, dict(change.lines)), Facts(1, 1000)
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("shr.u32 %r3, %r1, 5;", lambda t: t >> 5),
        ("shr.s32 %r3, %r2, 31;", lambda t: np.where(t < 100, 0xFFFFFFFF, 0)),
        ("shr.u32 %r3, %r2, 32;", lambda t: 0 * t),
        ("shl.b32 %r3, %r1, 30;", lambda t: (t << 30) & 0xFFFFFFFF),
        ("bfi.b32 %r3, %r1, -1, 4, 3;", lambda t: 0xFFFFFF8F | (t & 7) << 4),
        ("bfi.b32 %r3, %r1, 0, 30, 27;", lambda t: (t << 30) & 0xFFFFFFFF),
        ("mad.lo.s32 %r3, %r1, -2, 7;", lambda t: (7 - 2 * t) & 0xFFFFFFFF),
        ("not.b32 %r3, %r1;", lambda t: ~t & 0xFFFFFFFF),
        ("setp.lt.s32 %r3, %r2, 0;", lambda t: (t < 100).astype(int)),
        ("setp.lt.u32 %r3, %r2, 5;", lambda t: ((t >= 100) & (t < 105)).astype(int)),
        ("shfl.sync.idx.b32 %r3|%p3, %r1, 3, 31, -1;", lambda t: t // 32 * 32 + 3),
        ("add.s32 %r3, %r1, %r9;", None),
        ("ld.shared.u32 %r3, [%r1];", None),
        ("add.cc.u32 %r3, %r1, %r1;", None),
        ("div.u32 %r3, %r1, 3;", None),
        ("shfl.sync.idx.b32 %r3|%p3, %r1, 9, 4, -1;", None),
        ("shfl.sync.bfly.b32 %r3|%p3, %r1, 1, 31, -1;", None),
    ],
)
def test_what_each_thread_has(line, value):
    read = of("mov.u32 %r1, %tid.x;", "sub.s32 %r2, %r1, 100;", line)
    known = threads(read)
    assert known is not None
    found = known[0].value("%r3")
    if value is None:
        assert found is None
    else:
        assert found is not None and np.array_equal(found, value(np.arange(192)))


@pytest.mark.parametrize("count", ["16, 2, 1", "16, 1, 10"])
def test_threads_of_more_than_one_axis_are_not_told(count):
    assert threads(of("mov.u32 %r1, %tid.x;", count=count)) is None


WARP = ("mov.u32 %r1, %tid.x;", "shr.u32 %r2, %r1, 5;")
REST = ("and.b32 %r4, %r2, 124;", "sub.s32 %r5, %r2, %r4;", USED.format("%r5"))


def test_a_remainder_that_those_who_come_have_not():
    """Of warp % 4: a sum for the difference is the same for warps 0 to 3, which alone come there."""
    split = ("setp.gt.u32 %p1, %r2, 3;", "@%p1 bra $L__BB0_7;")
    read = of(*WARP, *split, *REST, "$L__BB0_7:")
    assert told(read, "sub.s32", "opcode", "add instead of sub").startswith(RULE)
    assert not told(of(*WARP, *REST), "sub.s32", "opcode", "add instead of sub")
    other = ("setp.gt.u32 %p1, %r2, 4;", "@%p1 bra $L__BB0_7;")
    assert not told(of(*WARP, *other, *REST, "$L__BB0_7:"), "sub.s32", "opcode", "add instead of sub")
    unknown = ("setp.gt.u32 %p1, %r9, 3;", "@%p1 bra $L__BB0_7;")
    assert not told(of(*WARP, *unknown, *REST, "$L__BB0_7:"), "sub.s32", "opcode", "add instead of sub")
    turned = ("setp.gt.u32 %p1, %r2, 3;", "@!%p1 bra $L__BB0_7;")
    assert not told(of(*WARP, *turned, *REST, "$L__BB0_7:"), "sub.s32", "opcode", "add instead of sub")


@pytest.mark.parametrize(("width", "right"), [(28, True), (3, False)])
def test_a_field_that_is_wider_than_what_is_put_there(width, right):
    """Six warps in three bits: a field of four bits and one of 27 are the same, one of one bit is not."""
    read = of(*WARP, f"bfi.b32 %r3, %r2, 0, 5, {width};", USED.format("%r3"))
    assert bool(told(read, "bfi", "immediate", f"{width} is {width + 1}:"))
    assert told(read, "bfi", "immediate", f"{width} is {width // 2}:").startswith(RULE) == right


def test_a_branch_that_no_thread_takes():
    def first(limit: int) -> PtxCode:
        return of(
            *WARP, f"setp.gt.u32 %p1, %r2, {limit};", "@%p1 bra $L__BB0_7;", "bar.sync 0;", "$L__BB0_7:"
        )

    assert told(first(5), "bra", "predicate", "never taken").startswith(RULE)
    assert not told(first(4), "bra", "predicate", "never taken")
    assert told(first(5), "setp", "predicate", "ge instead of gt") == ""


def test_a_register_that_is_made_twice_is_not_known():
    read = of(*WARP, "mov.u32 %r3, 1;", "mov.u32 %r3, 2;", "and.b32 %r4, %r3, 2;", USED.format("%r4"))
    assert not told(read, "and.b32", "immediate", "2 is 3")


def test_a_register_of_another_block_is_not_taken_for_made():
    """It may not have been, where this one is."""
    skipped = ("setp.gt.u32 %p1, %r9, 3;", "@%p1 bra $L__BB0_7;", "mov.u32 %r6, 0;", "$L__BB0_7:")
    for lines, right in ((skipped, False), (("mov.u32 %r6, 0;",), True)):
        read = of(*WARP, "mov.u32 %r7, 0;", *lines, "add.s32 %r8, %r1, %r7;", USED.format("%r8"))
        at = next(line for line in read.code if line.operands[:1] == ("%r8",))
        drawn = Drawn(0, "operand", "", (), at.opcode, {at.number: "\tadd.s32 %r8, %r1, %r6;"})
        assert bool(proved(read, drawn, Facts(1, 1000))) == right
