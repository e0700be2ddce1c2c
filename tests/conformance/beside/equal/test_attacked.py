# ruff: noqa: E501 - a pair of programs stands on a line
"""Pairs of programs with known truth: those that differ in a corner are never proved equal, and do differ."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.equal.proof import Equality, equal

from tests.kit.ptx import Memory, clean, kernel_text, parsed

THREADS = 64
X = np.array(
    [
        0,
        1,
        2,
        31,
        32,
        33,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        0x80008080,
        0x12345678,
        0xFFFF7FFF,
        0xF0000000,
        255,
        256,
        65535,
    ],
    np.uint32,
)
Y = np.array([32, 0, 1, 40, 0xFFFFFFFF, 0x80000000, 3, 2, 1, 31, 64, 7, 0x7FFFFFFF], np.uint32)
SHARED = ".shared .align 16 .b8 bytes[1024];"
# x and y are in %r0 and %r1, the result is %r9.
BEGIN = """mad.wide.u32 %rd1, %t, 4, %a1; ld.global.b32 %r0, [%rd1];
mad.wide.u32 %rd2, %t, 4, %a2; ld.global.b32 %r1, [%rd2];
mad.wide.u32 %rd3, %t, 4, %a0; mov.b32 %r9, 0;"""
END = "st.global.b32 [%rd3], %r9;"
ROUNDS = """mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 1;
AGAIN: add.u32 %r2, %r2, %r4; mov.b32 %r4, NEXT; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, ROUNDS; @%p1 bra AGAIN; mov.b32 %r9, %r2;"""


def text(body: str) -> str:
    return kernel_text(f"{BEGIN}\n{body}\n{END}", [False] * 3, SHARED)


def compared(first: str, second: str) -> Equality:
    return equal(text(first), text(second), "k", Extents((THREADS, 1, 1), 1))


def outputs(body: str) -> np.ndarray:
    memory = Memory()
    found = [np.resize(X, THREADS), np.resize(Y, THREADS)]
    out = memory.buffer(np.zeros(THREADS, np.uint32))
    args = [out, *map(memory.buffer, found)]
    clean(parsed(text(body)).launch("k", grid=(1,), block=(THREADS,), args=args, memory=memory))
    return out.numpy()


def choose(condition: str) -> str:
    return f"{condition} selp.b32 %r9, 1, 2, %p1;"


DIFFERENT = {
    "32-bit overflow": (choose("add.u32 %r2, %r0, 1; setp.gt.u32 %p1, %r2, %r0;"), choose("setp.ge.u32 %p1, %r0, 0;")),
    "overflow before widening": ("add.u32 %r2, %r0, 1; cvt.u64.u32 %rd4, %r2; mov.b64 {_, %r9}, %rd4;", "cvt.u64.u32 %rd4, %r0; add.u64 %rd4, %rd4, 1; mov.b64 {_, %r9}, %rd4;"),
    "signed shift": ("shr.s32 %r9, %r0, 4;", "shr.u32 %r9, %r0, 4;"),
    "signed comparison": (choose("setp.lt.s32 %p1, %r0, %r1;"), choose("setp.lt.u32 %p1, %r0, %r1;")),
    "the sign of mad.wide": ("mad.wide.s32 %rd4, %r0, 2, 0; mov.b64 {_, %r9}, %rd4;", "mad.wide.u32 %rd4, %r0, 2, 0; mov.b64 {_, %r9}, %rd4;"),
    "a bound within the extent": (choose("setp.lt.u32 %p1, %t, 63;"), choose("setp.lt.u32 %p1, %t, 64;")),
    "a bound at zero": (choose("setp.ge.u32 %p1, %t, 0;"), choose("setp.gt.u32 %p1, %t, 0;")),
    "negated once": (choose("setp.lt.u32 %p2, %r0, %r1; not.pred %p1, %p2; not.pred %p1, %p1;"), choose("setp.lt.u32 %p2, %r0, %r1; not.pred %p1, %p2;")),
    "a guard weaker in one thread": ("setp.ne.u32 %p1, %t, 63; @%p1 mov.b32 %r9, 7;", "mov.b32 %r9, 7;"),
    "a guarded store": ("setp.ne.u32 %p1, %t, 63; @%p1 st.global.b32 [%rd3], 5; ld.global.b32 %r9, [%rd3];", "st.global.b32 [%rd3], 5; ld.global.b32 %r9, [%rd3];"),
    "prmt with signs": ("prmt.b32 %r9, %r0, %r1, 0x3218;", "prmt.b32 %r9, %r0, %r1, 0x3210;"),
    "prmt of b": ("prmt.b32 %r9, %r0, %r1, 0x7654;", "mov.b32 %r9, %r0;"),
    "bfe beyond the top": ("bfe.u32 %r9, %r0, 24, 16;", "bfe.u32 %r9, %r0, 24, 7;"),
    "signed bfe": ("bfe.s32 %r9, %r0, 28, 8;", "bfe.u32 %r9, %r0, 28, 8;"),
    "bfe of no bits": ("bfe.s32 %r9, %r0, %r1, 0;", "bfe.s32 %r9, %r0, %r1, 1;"),
    "bfe takes a byte": ("bfe.u32 %r9, %r0, %r1, 8;", "and.b32 %r2, %r1, 31; bfe.u32 %r9, %r0, %r2, 8;"),
    "bfi at 32": ("bfi.b32 %r9, %r0, %r1, 32, 8;", "bfi.b32 %r9, %r0, %r1, 0, 8;"),
    "a shift by 32": ("shl.b32 %r9, %r0, %r1;", "and.b32 %r2, %r1, 31; shl.b32 %r9, %r0, %r2;"),
    "a signed shift by 32": ("shr.s32 %r9, %r0, 40;", "mov.b32 %r9, 0;"),
    "a funnel shift by 32": ("shf.l.clamp.b32 %r9, %r0, %r1, 32;", "shf.l.wrap.b32 %r9, %r0, %r1, 32;"),
    "mul.hi": ("mul.hi.s32 %r9, %r0, %r1;", "mul.hi.u32 %r9, %r0, %r1;"),
    "a product cut off": ("mul.wide.u32 %rd4, %r0, 4; mov.b64 {_, %r9}, %rd4;", "mul.lo.u32 %r2, %r0, 4; cvt.u64.u32 %rd4, %r2; mov.b64 {_, %r9}, %rd4;"),
    "halves of 16 bits": ("mov.b32 {%h1, %h2}, %r0; mov.b32 %r9, {%h1, %h2};", "mov.b32 {%h1, %h2}, %r0; mov.b32 %r9, {%h2, %h1};"),
    "halves of 32 bits": ("mov.b64 %rd4, {%r0, %r1}; mov.b64 {%r9, _}, %rd4;", "mov.b64 %rd4, {%r0, %r1}; mov.b64 {_, %r9}, %rd4;"),
    "a register of 16 bits": ("mov.b32 {%h1, _}, %r0; cvt.u32.u16 %r9, %h1;", "mov.b32 %r9, %r0;"),
    "a difference in the second round": (ROUNDS.replace("NEXT", "1").replace("ROUNDS", "2"), ROUNDS.replace("NEXT", "2").replace("ROUNDS", "2")),
    "a round more": (ROUNDS.replace("NEXT", "3").replace("ROUNDS", "2"), ROUNDS.replace("NEXT", "3").replace("ROUNDS", "3")),
    "a round more in one thread": (ROUNDS.replace("NEXT", "3").replace("ROUNDS", "%t"), ROUNDS.replace("NEXT", "3").replace("%r3, ROUNDS", "%r3, 62")),
    "sign extension": ("cvt.s32.s16 %r9, %r0;", "cvt.u32.u16 %r9, %r0;"),
    "sign extension of bytes": ("cvt.s32.s8 %r9, %r0;", "cvt.s32.u8 %r9, %r0;"),
    "signed minimum": ("min.s32 %r9, %r0, %r1;", "min.u32 %r9, %r0, %r1;"),
    "the absolute value of the least": (choose("abs.s32 %r2, %r0; setp.ge.s32 %p1, %r2, 0;"), choose("setp.ge.u32 %p1, %r0, 0;")),
    "the negative of the least": (choose("neg.s32 %r2, %r0; setp.gt.s32 %p1, %r2, 0;"), choose("setp.lt.s32 %p1, %r0, 0;")),
    "a bit of a table": ("lop3.b32 %r9, %r0, %r1, %t, 0x96;", "lop3.b32 %r9, %r0, %r1, %t, 0x97;"),
    "another combination": (choose("setp.lt.u32 %p2, %t, 8; setp.lt.and.u32 %p1, %r0, %r1, %p2;"), choose("setp.lt.u32 %p2, %t, 8; setp.lt.or.u32 %p1, %r0, %r1, %p2;")),
    "the second result of setp": (choose("setp.lt.u32 %p2, %t, 8; setp.lt.and.u32 %p3|%p1, %r0, %r1, %p2;"), choose("setp.lt.u32 %p2, %t, 8; setp.lt.and.u32 %p3, %r0, %r1, %p2; not.pred %p1, %p3;")),
    "a guard that was computed again": ("setp.lt.u32 %p1, %r0, %r1; @%p1 mov.b32 %r9, 1; setp.lt.u32 %p1, %r0, 9; @!%p1 mov.b32 %r9, 2;", "setp.lt.u32 %p1, %r0, %r1; @%p1 mov.b32 %r9, 1; @!%p1 mov.b32 %r9, 2; setp.lt.u32 %p1, %r0, 9;"),
    "two stores exchanged": ("st.global.b32 [%rd3], 1; st.global.b32 [%rd3], 2; ld.global.b32 %r9, [%rd3];", "st.global.b32 [%rd3], 2; st.global.b32 [%rd3], 1; ld.global.b32 %r9, [%rd3];"),
    "a load before a store": ("st.global.b32 [%rd3], 1; ld.global.b32 %r9, [%rd3];", "ld.global.b32 %r9, [%rd3]; st.global.b32 [%rd3], 1;"),
    "a value loaded once": ("ld.global.b32 %r2, [%rd1]; st.global.b32 [%rd3], 3; ld.global.b32 %r9, [%rd3];", "ld.global.b32 %r2, [%rd1]; st.global.b32 [%rd3], 3; ld.global.b32 %r9, [%rd1];"),
    "another offset": ("mov.u32 %r2, bytes; mad.lo.u32 %r2, %t, 8, %r2; st.shared.b32 [%r2], 1; st.shared.b32 [%r2+4], 2; ld.shared.b32 %r9, [%r2];", "mov.u32 %r2, bytes; mad.lo.u32 %r2, %t, 8, %r2; st.shared.b32 [%r2], 1; st.shared.b32 [%r2+4], 2; ld.shared.b32 %r9, [%r2+4];"),
    "the value of another lane": ("shfl.sync.idx.b32 %r9, %t, 0, 31, -1;", "mov.b32 %r9, 0;"),
    "a shuffle of what differs": ("shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;", "shfl.sync.bfly.b32 %r9, %t, 2, 31, -1;"),
    "a lane beside the thread": ("mov.u32 %r9, %laneid;", "mov.b32 %r9, %t;"),
    "the carry": ("add.cc.u32 %r2, %r0, %r1; addc.u32 %r9, 0, 0;", "add.cc.u32 %r2, %r0, %r1; add.u32 %r9, 0, 0;"),
    "the carry of another sum": ("add.cc.u32 %r2, %r0, %r1; addc.u32 %r9, 0, 0;", "add.cc.u32 %r2, %r0, %r0; addc.u32 %r9, 0, 0;"),
    "a signed quotient": ("or.b32 %r2, %r1, 1; div.s32 %r9, %r0, %r2;", "or.b32 %r2, %r1, 1; div.u32 %r9, %r0, %r2;"),
    "no leading zero at 0": ("clz.b32 %r9, %r0;", "clz.b32 %r2, %r0; and.b32 %r9, %r2, 31;"),
    "more bits aligned than declared": ("mov.u32 %r2, bytes; add.u32 %r2, %r2, 16; and.b32 %r9, %r2, 31;", "mov.b32 %r9, 0;"),
    "a branch that one thread takes": ("setp.eq.u32 %p1, %t, 63; @%p1 bra OUT; mov.b32 %r9, 1; OUT: add.u32 %r9, %r9, 1;", "setp.eq.u32 %p1, %t, 64; @%p1 bra OUT; mov.b32 %r9, 1; OUT: add.u32 %r9, %r9, 1;"),
    "a branch the other way": ("setp.lt.u32 %p1, %t, 9; @%p1 bra OUT; mov.b32 %r9, 1; OUT: add.u32 %r9, %r9, 1;", "setp.lt.u32 %p1, %t, 9; @!%p1 bra OUT; mov.b32 %r9, 1; OUT: add.u32 %r9, %r9, 1;"),
    "a value of one branch alone": ("setp.lt.u32 %p1, %r0, %r1; @%p1 bra OUT; mov.b32 %r9, %r0; OUT: add.u32 %r9, %r9, 1;", "setp.lt.u32 %p1, %r0, %r1; @%p1 bra OUT; mov.b32 %r9, %r1; OUT: add.u32 %r9, %r9, 1;"),
    "floats in another order": ("mov.b32 %f0, %r0; mov.b32 %f1, %r1; sub.f32 %f2, %f0, %f1; mov.b32 %r9, %f2;", "mov.b32 %f0, %r0; mov.b32 %f1, %r1; sub.f32 %f2, %f1, %f0; mov.b32 %r9, %f2;"),
    "a float for a number": ("mov.b32 %r9, 0f00000001;", "mov.b32 %r9, 0f00000002;"),
}  # fmt: skip
# What the emulator reports, or a race: the truth is known without the values.
WRONG = {
    "a register that nobody wrote": ("mov.b32 %r50, 0; mov.b32 %r9, %r50;", "mov.b32 %r9, %r50;"),
    "a register written in one branch": ("mov.b32 %r50, 1; setp.lt.u32 %p1, %r0, %r1; @%p1 bra OUT; mov.b32 %r50, 1; OUT: mov.b32 %r9, %r50;", "mov.b32 %r51, 1; setp.lt.u32 %p1, %r0, %r1; @%p1 bra OUT; mov.b32 %r50, 1; OUT: mov.b32 %r9, %r50;"),
    "a load of tensor memory read before its wait": ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r0]; tcgen05.wait::ld.sync.aligned; mov.b32 %r9, %r2;", "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r0]; mov.b32 %r9, %r2; tcgen05.wait::ld.sync.aligned;"),
    "an older load behind the wait": ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r0]; add.u32 %r3, %r2, 1; tcgen05.wait::ld.sync.aligned; add.u32 %r9, %r2, 1;", "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r0]; add.u32 %r3, %r2, 1; tcgen05.wait::ld.sync.aligned; mov.b32 %r9, %r3;"),
    "a barrier": ("bar.sync 0;", ""),
    "another barrier": ("bar.sync 0;", "bar.sync 1;"),
    "two clocks": ("mov.u32 %r2, %clock; mov.u32 %r3, %clock; sub.u32 %r9, %r3, %r2;", "mov.u32 %r2, %clock; mov.u32 %r3, %clock; mov.b32 %r9, 0;"),
    "a warp's number": ("mov.u32 %r2, %warpid; mov.u32 %r3, %warpid; sub.u32 %r9, %r3, %r2;", "mov.u32 %r2, %warpid; mov.u32 %r3, %warpid; mov.b32 %r9, 0;"),
    "a scope": ("fence.acq_rel.cluster;", "fence.acq_rel.cta;"),
    "an address that wraps": ("sub.u32 %r2, %r0, 8; ld.shared.b32 %r9, [%r2+12];", "add.u32 %r2, %r0, 4; ld.shared.b32 %r9, [%r2];"),
    "an atomic twice": ("atom.global.add.u32 %r9, [%rd3], 1;", "atom.global.add.u32 %r9, [%rd3], 1; atom.global.add.u32 %r9, [%rd3], 1;"),
    "an endless loop": ("setp.lt.u32 %p1, %r0, 0; BACK: @%p1 bra BACK;", "setp.lt.u32 %p1, %r0, 1; BACK: @%p1 bra BACK;"),
    "an exit of one thread": ("setp.eq.u32 %p1, %t, 64; @%p1 exit;", "setp.eq.u32 %p1, %t, 63; @%p1 exit;"),
}  # fmt: skip
LANE = "shfl.sync.idx.b32 %r2, %t, 0, 31, -1;"
EQUAL = {
    "the same": ("add.u32 %r9, %r0, %r1;", "add.u32 %r9, %r0, %r1;"),
    "factors exchanged": ("mad.lo.s32 %r9, %r0, %r1, 7;", "mad.lo.s32 %r9, %r1, %r0, 7;"),
    "a product by shifting": ("mul.lo.u32 %r9, %r0, 8;", "shl.b32 %r9, %r0, 3;"),
    "a sum of separate bits": ("shl.b32 %r2, %r0, 4; and.b32 %r3, %r1, 15; add.u32 %r9, %r2, %r3;", "shl.b32 %r2, %r0, 4; and.b32 %r3, %r1, 15; or.b32 %r9, %r2, %r3;"),
    "a bound at the extent": (choose("setp.lt.u32 %p1, %t, 64;"), choose("setp.lt.u32 %p1, %t, 65;")),
    "negated twice": (choose("setp.lt.u32 %p1, %r0, %r1;"), choose("setp.ge.u32 %p2, %r0, %r1; not.pred %p1, %p2;")),
    "the warp's number": (f"{LANE} shr.u32 %r9, %r2, 5;", f"{LANE} shr.u32 %r9, %t, 5;"),
    "a field of bits": ("bfe.u32 %r9, %r0, 4, 8;", "shr.u32 %r2, %r0, 4; and.b32 %r9, %r2, 255;"),
    "bytes in another order": ("prmt.b32 %r9, %r0, 0, 0x0123;", "and.b32 %r2, %r0, 0xff; shl.b32 %r2, %r2, 24; shr.u32 %r3, %r0, 24; prmt.b32 %r4, %r0, 0, 0x4124; or.b32 %r2, %r2, %r3; or.b32 %r9, %r2, %r4;"),
    "a table": ("lop3.b32 %r9, %r0, %r1, %t, 0x80;", "and.b32 %r2, %r0, %r1; and.b32 %r9, %r2, %t;"),
    "a zero above": ("cvt.u64.u32 %rd4, %r0; shl.b64 %rd4, %rd4, 1; mov.b64 {_, %r9}, %rd4;", "mov.b64 %rd4, {%r0, 0}; add.u64 %rd4, %rd4, %rd4; mov.b64 {_, %r9}, %rd4;"),
    "bits that nothing reads": ("or.b32 %r2, %r0, 256; and.b32 %r9, %r2, 255;", "or.b32 %r2, %r0, 512; and.b32 %r9, %r2, 255;"),
    "a round that is not counted": (ROUNDS.replace("NEXT", "3").replace("ROUNDS", "2"), ROUNDS.replace("NEXT", "3").replace("%r3, ROUNDS", "%r3, 1").replace("setp.lt", "setp.le")),
    "a guard that all threads fulfil": ("setp.lt.u32 %p1, %t, 64; @%p1 st.global.b32 [%rd3], 5;", "st.global.b32 [%rd3], 5;"),
    "a computation left out": ("mul.lo.u32 %r8, %r0, 3; mov.b32 %r9, %r0;", "mov.b32 %r9, %r0;"),
    "alignment": ("mov.u32 %r2, bytes; and.b32 %r9, %r2, 15;", "mov.u32 %r2, bytes; mov.b32 %r9, 0;"),
    "a value of a block before": ("and.b32 %r2, %t, 31; setp.lt.u32 %p1, %r0, 5; @%p1 bra OUT; add.u32 %r9, %r9, 1; OUT: add.u32 %r9, %r9, %r2;", "and.b32 %r2, %t, 31; setp.lt.u32 %p1, %r0, 5; @%p1 bra OUT; add.u32 %r9, %r9, 1; OUT: mov.u32 %r3, %laneid; add.u32 %r9, %r9, %r3;"),
    "a value known in a branch": ("setp.ne.u32 %p1, %t, 3; @%p1 bra OUT; add.u32 %r9, %t, 1; OUT: add.u32 %r9, %r9, 2;", "setp.ne.u32 %p1, %t, 3; @%p1 bra OUT; mov.b32 %r9, 4; OUT: add.u32 %r9, %r9, 2;"),
    "floats of equal operands": ("mov.b32 %f0, %r0; add.u32 %r2, %r0, %r0; mov.b32 %f1, %r2; sub.f32 %f2, %f0, %f1; mov.b32 %r9, %f2;", "mov.b32 %f0, %r0; shl.b32 %r2, %r0, 1; mov.b32 %f1, %r2; sub.f32 %f2, %f0, %f1; mov.b32 %r9, %f2;"),
    "a prefetch": ("prefetch.global.L2 [%rd1];", "prefetch.global.L2 [%rd2];"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_differ_are_not_proved_equal(name: str) -> None:
    first, second = DIFFERENT[name]
    for pair in ((first, second), (second, first)):
        assert compared(*pair).kind != "proved"
    if name != "more bits aligned than declared":  # here the address happens to be aligned
        assert (outputs(first) != outputs(second)).any()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_not_proved_equal(name: str) -> None:
    first, second = WRONG[name]
    for pair in ((first, second), (second, first)):
        assert compared(*pair).kind != "proved"


@pytest.mark.parametrize("name", EQUAL)
def test_equal_programs_are_proved(name: str) -> None:
    first, second = EQUAL[name]
    assert (found := compared(first, second)).kind == "proved", found.why
    assert (outputs(first) == outputs(second)).all()


def test_without_declared_sizes_the_bound_is_not_known() -> None:
    first, second = map(text, EQUAL["a bound at the extent"])
    assert equal(first, second, "k", Extents()).kind == "differs"
    assert equal(first, second, "k", Extents((65, 1, 1))).kind == "differs"


def test_what_is_not_covered_is_not_equal() -> None:
    first, second = (
        text("mov.b32 %r9, 1;"),
        text("setp.lt.u32 %p1, %r0, 3; @%p1 bra OUT; OUT: mov.b32 %r9, 1;"),
    )
    assert equal(first, second, "k", Extents()).kind == "unknown"
    other = text("tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r0}];")
    assert equal(other, other, "k", Extents()).kind == "unknown"
    assert equal(first, first.replace("bytes[1024]", "bytes[2048]"), "k", Extents()).why.endswith(
        "declarations"
    )


@pytest.mark.parametrize(
    ("swizzle", "instruction", "operand", "more", "right"),
    [
        (2, 0, 1, "", True),  # K-major
        (2, 1 << 15 | 8 << 24, 1, "", False),  # M-major, M = 128: two columns of atoms
        (2, 1 << 15 | 4 << 24, 1, "", True),  # M = 64
        (2, 1 << 15 | 4 << 24, 1, "cta_group::2", False),
        (2, 1 << 15 | 8 << 24, 2, "", True),  # B is K-major
        (2, 1 << 16 | 8 << 17, 2, "", True),  # N = 64
        (2, 1 << 16 | 16 << 17, 2, "", False),  # N = 128
        (4, 1 << 16 | 4 << 17, 2, "", True),  # 64 bytes hold 32 elements
        (4, 1 << 16 | 8 << 17, 2, "", False),
        (6, 1 << 16 | 2 << 17, 2, "", True),
        (6, 1 << 16 | 4 << 17, 2, "", False),
        (0, 0, 1, "", False),  # no swizzle
        (2, 0, 1, "absolute", False),
        (2, 0, 1, "tf32", False),
        (2, 0, 1, "read twice", False),
    ],
)
def test_the_leading_dimension_of_a_descriptor(
    swizzle: int, instruction: int, operand: int, more: str, right: bool
) -> None:
    word = swizzle << 61 | 1 << 46 | (1 << 52 if more == "absolute" else 0)
    names = ["%rd4", "%rd5"] if operand == 1 else ["%rd5", "%rd4"]
    kind = "tf32" if more == "tf32" else "f16"
    group = more if more.startswith("cta") else "cta_group::1"
    product = (
        f"mov.b32 %r2, {instruction}; tcgen05.mma.{group}.kind::{kind} [%r0], {', '.join(names)}, %r2, %p1;"
    )
    begin = f"setp.eq.u32 %p1, %r1, 0; mov.b64 %rd5, 0; cvt.u64.u32 %rd4, %r1; or.b64 %rd4, %rd4, {word};"
    end = "st.global.b64 [%rd3], %rd4;" if more == "read twice" else ""
    for bit, equal_ in ((1 << 16, right), (1 << 29, right), (1 << 14, False), (1 << 32, False)):
        change = f"xor.b64 %rd4, %rd4, {bit};"
        assert (
            compared(f"{begin} {product} {end}", f"{begin} {change} {product} {end}").kind == "proved"
        ) == equal_


def test_no_time_is_no_proof() -> None:
    first, second = map(text, EQUAL["a field of bits"])
    assert equal(first, second, "k", Extents(), seconds=0).kind == "unknown"
