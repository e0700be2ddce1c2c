# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""What the reader takes, as ptxas takes it: blanks before modifiers, constant expressions, vectors of registers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tileproof.emulator import Module, PtxError
from tileproof.emulator.reach import ProgramView

from tests.kit.ptx import HEADER, kernel_text, outputs, store


def test_a_blank_before_a_modifier() -> None:
    """nvcc prints one before .L2::cache_hint in one place; ptxas takes one before every modifier."""
    body = """mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.b64 %rd5, 0;
    mad.wide.u32 %rd1, %t, 16, %a0;
    st .global.v4
      .f32 [%rd1], {%f1, %f2, %f1, %f2};
    red.global.add.v4.f32 .L2::cache_hint [%rd1], {%f1, %f1, %f1, %f1}, %rd5;"""
    assert (outputs(body, 128, np.float32).reshape(32, 4) == [2, 3, 2, 3]).all()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1+2)*3", 9), ("-(5)", -5), ("~5", -6), ("!5", 0), ("!0", 1), ("1+2*3-4/2", 5), ("1<<4|3", 19), ("0x10 + 010 + 0b11", 27), ("-7/2", -3), ("-7%2", -1), ("3 > 2 && 1 != 1", 0),
        ("3 >= 3 || 0", 1), ("6 & 3 ^ 1", 3), ("256 >> 4", 16), ("1 == 1", 1), ("2 - -3", 5), ("WARP_SZ", 32), ("-0x10", -16), ("7U", 7),
    ],
)  # fmt: skip
def test_constant_expressions(text: str, value: int) -> None:
    got = outputs(f"mov.u32 %r1, {text};\n" + store("%r1"))
    assert (got == value % 2**32).all()


def test_expressions_in_addresses() -> None:
    data = np.arange(64, dtype=np.uint32)
    body = "mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r1, [%rd1+4+(2*4)]; ld.global.u32 %r2, [%rd1 + 8 - 4]; add.u32 %r1, %r1, %r2;"
    assert (outputs(body + store("%r1"), extra=[data]) == np.arange(32) * 2 + 4).all()


def test_vectors_of_registers() -> None:
    """`.reg .v4` (PTX ISA 5.4.2): parts by .x to .w and .r to .a, whole in loads, stores, packs."""
    data = np.arange(128, dtype=np.float32)
    body = """.reg .v4 .f32 v, w<2>; .reg .v2 .b32 u;
    mad.wide.u32 %rd1, %t, 16, %a1; mad.wide.u32 %rd2, %t, 16, %a0;
    ld.global.v4.f32 v, [%rd1];
    ld.global.v4.f32 w1, [%rd1];
    add.f32 v.x, v.x, w1.w; mov.f32 v.g, v.b;
    mov.b64 u, 0x0000000500000007; cvt.rn.f32.u32 %f1, u.x; cvt.rn.f32.u32 v.w, u.y; add.f32 v.w, v.w, %f1;
    st.global.v4.f32 [%rd2], v;"""
    rows = data.reshape(32, 4)
    expected = np.stack(
        [rows[:, 0] + rows[:, 3], rows[:, 2], rows[:, 2], np.full(32, 12, np.float32)], axis=1
    )
    assert (outputs(body, 128, np.float32, extra=[data]).reshape(32, 4) == expected).all()


def test_arrays_of_two_dimensions_and_statements_over_lines() -> None:
    body = """.shared .align 16 .b32 t[4][8];
    .pragma "nounroll";
    mov.u32
        %r2,
        t; mad.lo.u32 %r2, %t, 4, %r2; st.shared.u32 [%r2], %t; ld.shared.u32 %r1, [%r2];"""
    assert (outputs(body + store("%r1")) == np.arange(32)).all()


def test_prototypes_and_directives_on_one_line() -> None:
    text = (
        ".version 8.8 .target sm_100a .address_size 64 .func (.param .b32 r) f(.param .b32 a) { ret; } .extern .func g;"
        '.visible .entry k() { .pragma "nounroll"; P: .callprototype (.param .b32 _) _ (.param .b32 _); ret; }'
    )
    Module.from_ptx(text).decode("k")


@pytest.mark.parametrize("count", [65, 50_000])
@pytest.mark.parametrize(
    "line", ["add.u32 %r1, %r2, {0}1{1};", "add.u32 %r1, %r2, 1+{0}1{1};", "ld.global.u32 %r1, [%a0+{0}4{1}];", "mov.b64 %rd1, {2}%r1{3};", "mov.u32 %r1, {4}5;", "mov.u32 %r1, {5};", ".reg .b32 {0}x{1};"]
)  # fmt: skip
def test_deep_nesting_is_a_clear_error(line: str, count: int) -> None:
    line = line.format(
        "(" * count, ")" * count, "{" * count, "}" * count, "~" * count, "%p1|" * count + "%p1"
    )
    text = kernel_text(line)
    with pytest.raises(PtxError) as error:
        Module.from_ptx(text).decode("k")
    assert f"line {text.split(chr(10)).index(line) + 1}" in error.value.where and len(str(error.value)) < 1000


def test_deep_scopes_are_read() -> None:
    Module.from_ptx(kernel_text("{" * 5000 + "}" * 5000)).decode("k")


@pytest.mark.parametrize("expression", ["1/0", "1%0", "1+", "(1", "1)", "1 2", "~", "1 <> 2", "* 3"])
def test_bad_expressions(expression: str) -> None:
    with pytest.raises(PtxError):
        Module.from_ptx(kernel_text(f"mov.u32 %r1, {expression};")).decode("k")


@pytest.mark.parametrize("what", [None, b".version 8.8", 5, ["x"], bytearray(b"x")])
def test_what_is_no_text(what: object) -> None:
    with pytest.raises(PtxError, match=type(what).__name__):
        Module.from_ptx(what)  # type: ignore[arg-type]


def test_what_is_no_path(tmp_path: Path) -> None:
    for bad in (None, 5.0, tmp_path / "absent"):
        with pytest.raises(PtxError):
            Module.from_file(bad)  # type: ignore[arg-type]


def test_a_vector_register_has_no_fifth_part() -> None:
    for line in ("mov.u32 v.q, 1;", "ld.global.v4.u32 v, [%a0];", "add.u32 v, v.x, 1;"):
        with pytest.raises(PtxError):
            Module.from_ptx(kernel_text(f".reg .v2 .u32 v;\n{line}", [False])).decode("k")
    assert HEADER


def test_a_place_that_is_inlined_elsewhere_now_has_that_caller() -> None:
    """The chain of call sites is that of the .loc lines so far, also where a line comes again as it was."""
    callee, middle = (
        ".loc 1 10 0, function_name $L__f, inlined_at 1 20 0\n",
        ".loc 1 20 0, function_name $L__f, inlined_at 1 {} 0\n",
    )
    body = "".join(
        f"{loc}add.u32 %r1, %r1, 1;\n"
        for loc in (callee, middle.format(30), callee, middle.format(40), callee, ".loc 1 20 0\n", callee)
    )
    text = kernel_text(body).replace(".visible", '.file 1 "a/k.cu"\n.visible', 1)
    decoded = Module.from_ptx(text).decode("k")
    view = ProgramView(decoded)
    seen = [view.source(pc) for pc in range(decoded.instructions) if view.instruction(pc) == "add.u32"]
    assert seen == [
        "k.cu:10 (inlined at k.cu:20)", "k.cu:20 (inlined at k.cu:30)", "k.cu:10 (inlined at k.cu:20, k.cu:30)", "k.cu:20 (inlined at k.cu:40)",
        "k.cu:10 (inlined at k.cu:20, k.cu:40)", "k.cu:20", "k.cu:10 (inlined at k.cu:20)",
    ]  # fmt: skip
