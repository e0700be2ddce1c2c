"""Defects of ptxas in the findings: the emulator gives what PTX says, and the wrong SASS is recognised."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.emulator import Memory, Module
from tileproof.kernels.registry import kernel
from tileproof.kernels.wrong_code import wrong_code
from tileproof.tools.site.executed import blocks

from tests.kit.paths import ROOT

HEADER = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .b16 %h<5>; .reg .f32 %f<4>; .reg .pred %p1, %p2;
.shared .align 8 .b32 cell;
ld.param.u64 %rd1, [p];
"""
FOOTER = "\nret;\n}\n"
PACKED = """ld.global.b32 %r1, [%rd1];
mov.u32 %r2, {constant};
add.s16x2 %r3, %r1, %r2;
{use}"""
LOW = "cvt.u16.u32 %h1, %r3; cvt.rn.f32.s16 %f1, %h1; st.global.f32 [%rd1], %f1;"
SELECTED = """ld.global.f32 %f1, [%rd1];
setp.lt.f32 %p1, %f1, 0f40000000;
selp.f32 %f2, {zero}, 0f3F800000, %p1;
st.global.f32 [%rd1], %f2;"""
ATOMIC = """{load}
mov.u32 %r3, cell;
mov.u32 %r6, 0;
st.shared.b32 [%r3], %r6;
atom.shared.add.noftz.{kind} %r4, [%r3], %r5;
ld.shared.b32 %r6, [%r3];
st.global.b32 [%rd1], %r6;"""
WIDE = "ld.global.b64 %rd2, [%rd1]; cvt.u32.u64 %r5, %rd2;"
LOP3 = """ld.global.b32 %r1, [%rd1];
mov.u32 %r2, %clock;
lop3.b32 %r3, %r2, %r1, {second}, 0x6a;
or.b32 %r4, %r3, %r1;
and.b32 %r5, %r4, 15;
st.global.b32 [%rd1], %r5;"""
SET = """ld.global.b16 %h1, [%rd1];
ld.global.b16 %h2, [%rd1+2];
set.lt.f16.f16 %h3, %h1, %h2;
setp.ne.f16 %p1, %h1, %h2;
selp.u16 %h4, 1, 0, %p1;
setp.ne.s16 %p2, %h4, 0;
cvt.u64.u16 %rd2, %h3;
selp.u64 %rd3, 1, 0, %p2;
st.global.b64 [%rd1], %rd2;
st.global.b64 [%rd1+8], %rd3;"""
NEGATED = """ld.global.b16 %h1, [%rd1];
ld.global.b16 %h2, [%rd1+2];
neg.s16 %h3, %h1;
{use}
st.global.b32 [%rd1], %r1;"""
COMPARED = "setp.lt.s16 %p1, %h3, %h2; selp.u32 %r1, 1, 0, %p1;"
MERGED = """ld.global.b32 %r1, [%rd1];
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r2, {other};
mov.b32 %f1, %r2;
@!%p1 bra L;
mov.f32 %f2, 0f3FC13E58;
cvt.sat.f32.f32 %f1, %f2;
L:
st.global.f32 [%rd1], %f1;"""
FIELD = """ld.global.b32 %r1, [%rd1];
mov.u32 %r2, {at};
bfe.s32 %r3, %r1, %r2, {length};
st.global.b32 [%rd1], %r3;"""
ABSOLUTE = """ld.global.b32 %r1, [%rd1];
setp.eq.u32 %p1, %r1, 0;
selp.f32 %f1, {zero}, {other}, %p1;
abs.f32 %f2, %f1;
st.global.f32 [%rd1], %f2;"""
BOTH = "st.global.b32 [%rd1], %r3;"


def text(body: str, target: str = "sm_90") -> str:
    return HEADER.format(target=target) + body + FOOTER


def computed(ptx: str, *words: int) -> int:
    memory = Memory()
    cell = memory.buffer(np.array([*words, 0, 0, 0, 0][:4], np.uint32))
    module = Module.from_ptx(ptx.replace("sm_90", "sm_100a"))
    assert not module.launch("k", grid=(1,), block=(1,), args=[cell], memory=memory).findings
    return int(cell.numpy()[0])


CASES: list[tuple[str, str, list[int], int]] = [
    ("packed-constant", PACKED.format(constant="5", use=LOW), [2], 0x40E00000),
    ("packed-constant", PACKED.format(constant="0x00090005", use="st.global.b16 [%rd1], %r3;"), [2], 7),
    ("selected-negative-zero", SELECTED.format(zero="0f80000000"), [0], 0x80000000),
    (
        "half-atomic-of-64-bits",
        ATOMIC.format(load=WIDE, kind="f16x2"),
        [0x3C004000, 0x44004400],
        0x3C004000,
    ),
    (
        "half-atomic-of-64-bits",
        ATOMIC.format(load=WIDE, kind="bf16x2"),
        [0x3F804000, 0x40404040],
        0x3F804000,
    ),
    ("lop3-equal-operands", LOP3.format(second="%r1"), [0x12], 2),
    ("set-half-widened", SET, [0x44003C00], 0x3C00),
    ("negated-short", NEGATED.format(use="mul.wide.s16 %r1, %h3, %h2;"), [0x00028000], 0xFFFF0000),
    ("negated-short", NEGATED.format(use=COMPARED), [0x00028000], 1),
    ("merged-ones", MERGED.format(other="-1"), [0], 0x3F800000),
    ("field-past-sign", FIELD.format(at=40, length=8), [5], 0),
    ("absolute-negative-zero", ABSOLUTE.format(zero="0f80000000", other="0f3F800000"), [0], 0),
]


@pytest.mark.parametrize("target", ["sm_90", "sm_100a", "sm_120"])
@pytest.mark.parametrize(
    ("name", "body", "words", "want"),
    CASES,
)
def test_a_reproducer_is_right_on_the_emulator_and_wrong_in_sass(
    target: str, name: str, body: str, words: list[int], want: int
) -> None:
    assert computed(text(body), *words) == want
    (found,) = wrong_code(text(body, target))
    assert (found.entry, found.pattern.name, found.count) == ("k", name, 1)
    assert "docs/findings.md" in str(found)


def instructions(text: str) -> list[str]:
    """The instructions and labels of PTX, without comments."""
    lines = re.sub(r"//[^\n]*", "", text).replace("\n", ";").split(";")
    return [line.strip() for line in lines if line.strip()]


def sections(page: str) -> dict[str, str]:
    """The PTX of the page's sections, by the name of the pattern."""
    found = re.findall(r"^## Wrong code by ptxas: `([\w-]+)`\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return {name: blocks(text)[0].content for name, text in found}


def reproduced(name: str, ptx: str) -> bool:
    """Whether a reproducer of a pattern has these instructions in this order."""
    for body in (instructions(body) for known, body, *_ in CASES if known == name):
        rest = iter(body)
        if all(line in rest for line in instructions(ptx)):
            return True
    return False


def test_the_page_shows_instructions_of_the_reproducers() -> None:
    """The PTX of docs/findings.md is run and compiled here, as part of a reproducer."""
    shown = sections((ROOT / "docs" / "findings.md").read_text(encoding="utf-8"))
    assert set(shown) == {name for name, *_ in CASES}
    for name, ptx in shown.items():
        assert reproduced(name, ptx), ptx
        assert not reproduced(name, ptx.replace("%r", "%q").replace("%f", "%q").replace("%h", "%q"))


@pytest.mark.parametrize(
    "body",
    [
        PACKED.format(constant="0", use=LOW),
        PACKED.format(constant="0x00090005", use=BOTH),
        PACKED.format(constant="0x00090005", use="shr.s32 %r3, %r3, 16; " + BOTH),
        SELECTED.format(zero="0f00000000"),
        SELECTED.format(zero="0f80000000").replace("0f3F800000", "0f40400000"),
        ATOMIC.format(load="ld.global.v2.b32 {%r5, %r7}, [%rd1];", kind="f16x2"),
        ATOMIC.format(load="ld.global.v2.b16 {%h1, %h2}, [%rd1]; mov.b32 %r5, {%h2, %h1};", kind="bf16x2"),
        LOP3.format(second="%r7").replace("lop3", "ld.global.b32 %r7, [%rd1+4]; lop3"),
        SET.replace("cvt.u64.u16 %rd2, %h3", "cvt.u32.u16 %r1, %h3; mov.b64 %rd2, {%r1, %r1}"),
        NEGATED.format(use="mul.lo.s16 %h3, %h3, %h2; cvt.u32.u16 %r1, %h3;"),
        NEGATED.replace("neg", "not").replace("s16 %h3", "b16 %h3").format(use=COMPARED),
        MERGED.format(other="-2"),
        FIELD.format(at=20, length=8),
        FIELD.format(at=40, length=8).replace("bfe.s32", "bfe.u32"),
        ABSOLUTE.format(zero="0f80000000", other="0fBF800000"),
        ABSOLUTE.format(zero="0f00000000", other="0f3F800000"),
    ],
)
def test_right_code_of_the_same_instructions_is_silent(body: str) -> None:
    assert wrong_code(text(body)) == ()


def test_inspect_warns(tmp_path: Path) -> None:
    for name, body, warns in (("wrong", SELECTED.format(zero="0f80000000"), True), ("right", LOW, False)):
        path = tmp_path / f"{name}.ptx"
        path.write_text(text(body if warns else PACKED.format(constant="0", use=LOW)))
        done = CliRunner().invoke(main, ["inspect", str(path)])
        assert done.exit_code == 0, done.output
        assert ("warning: k: selected-negative-zero, 1 time(s)" in done.output) == warns


@pytest.mark.parametrize("name", ["sm90-gemm", "sm100-gemm-bias", "head64"])
def test_no_kernel_of_this_repository_shows_one(name: str) -> None:
    target = kernel(name)
    for variant in target.variants[:1]:
        assert wrong_code(target.build(variant).ptx) == ()
