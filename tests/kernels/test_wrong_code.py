"""Defects of ptxas in the findings: the emulator gives what PTX says, and the wrong SASS is recognised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.emulator import Memory, Module
from tileproof.kernels.registry import kernel
from tileproof.kernels.wrong_code import wrong_code

HEADER = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .b64 %rd<2>; .reg .b32 %r<5>; .reg .b16 %h<5>; .reg .f32 %f<4>; .reg .pred %p1;
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
BOTH = "st.global.b32 [%rd1], %r3;"


def text(body: str, target: str = "sm_90") -> str:
    return HEADER.format(target=target) + body + FOOTER


def computed(ptx: str, word: int) -> int:
    memory = Memory()
    cell = memory.buffer(np.array([word], np.uint32))
    module = Module.from_ptx(ptx.replace("sm_90", "sm_100a"))
    assert not module.launch("k", grid=(1,), block=(1,), args=[cell], memory=memory).findings
    return int(cell.numpy()[0])


@pytest.mark.parametrize("target", ["sm_90", "sm_100a", "sm_120"])
@pytest.mark.parametrize(
    ("name", "body", "word", "want"),
    [
        ("packed-constant", PACKED.format(constant="5", use=LOW), 2, 0x40E00000),
        ("packed-constant", PACKED.format(constant="0x00090005", use="st.global.b16 [%rd1], %r3;"), 2, 7),
        ("selected-negative-zero", SELECTED.format(zero="0f80000000"), 0, 0x80000000),
    ],
)
def test_a_reproducer_is_right_on_the_emulator_and_wrong_in_sass(
    target: str, name: str, body: str, word: int, want: int
) -> None:
    assert computed(text(body), word) == want
    (found,) = wrong_code(text(body, target))
    assert (found.entry, found.pattern.name, found.count) == ("k", name, 1)
    assert "docs/findings.md" in str(found)


@pytest.mark.parametrize(
    "body",
    [
        PACKED.format(constant="0", use=LOW),
        PACKED.format(constant="0x00090005", use=BOTH),
        PACKED.format(constant="0x00090005", use="shr.s32 %r3, %r3, 16; " + BOTH),
        SELECTED.format(zero="0f00000000"),
        SELECTED.format(zero="0f80000000").replace("0f3F800000", "0f40400000"),
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
