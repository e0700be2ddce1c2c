# ruff: noqa: E501 - PTX lines are kept whole
"""Calls through a register: tables of functions, divergence, guards; an address that fits no function traps."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import PtxError

from tests.kit.ptx import POLICIES, codes, kernel_text, outputs, parsed, run, store

LANES = np.arange(32, dtype=np.uint32)
FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) thrice(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, 3; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) wide(.param .b64 x) { .reg .b32 %r<3>; mov.u32 %r1, 7; st.param.b32 [r], %r1; ret; }
.global .align 8 .u64 table[3] = {twice, thrice, wide};
"""


def call(address: str, to: str, guard: str = "") -> str:
    return f"""
    {{ .param .b32 param0; st.param.b32 [param0], %t; .param .b32 retval0;
    prototype : .callprototype (.param .b32 _) _ (.param .b32 _);
    {guard} call (retval0), {address}, (param0), prototype;
    {guard} ld.param.b32 {to}, [retval0]; }}"""


def entry(number: str) -> str:
    """The address in the table."""
    return f"mov.u64 %rd6, table; mad.wide.u32 %rd7, {number}, 8, %rd6; ld.global.u64 %rd7, [%rd7];"


def test_lanes_call_different_functions_of_a_table() -> None:
    body = f"and.b32 %r3, %t, 1; {entry('%r3')}{call('%rd7', '%r1')}\n{store('%r1')}"
    for schedule in POLICIES:
        found = outputs(body, module=FUNCTIONS, schedule=schedule)
        assert (found == np.where(LANES % 2, 3 * LANES, 2 * LANES)).all()


def test_an_address_in_a_register_and_a_guard() -> None:
    body = f"mov.u64 %rd7, thrice; mov.u32 %r1, 99; setp.gt.u32 %p1, %t, 20;{call('%rd7', '%r1', '@%p1')}\n{store('%r1')}"
    assert (outputs(body, module=FUNCTIONS) == np.where(LANES > 20, 3 * LANES, 99)).all()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(entry("2"), id="a function with other arguments"),
        pytest.param("mov.u64 %rd7, table;", id="a variable"),
        pytest.param("mov.u64 %rd7, 0;", id="null"),
        pytest.param("mov.u64 %rd7, twice; add.u64 %rd7, %rd7, 1;", id="within a function"),
    ],
)
def test_an_address_that_fits_no_function_traps(address: str) -> None:
    result = run(f"{address}{call('%rd7', '%r1')}", module=FUNCTIONS)
    assert codes(result) == {"trap"}


def test_a_function_that_calls_itself_through_a_pointer_traps() -> None:
    module = """
    .func (.param .b32 r) again(.param .b32 x) { .reg .b64 %rd<2>; .reg .b32 %r<3>; mov.u64 %rd1, again; ld.param.u32 %r1, [x];
    { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; proto : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (q), %rd1, (p), proto; ld.param.b32 %r2, [q]; } st.param.b32 [r], %r2; ret; }"""
    assert codes(run(f"mov.u64 %rd7, again;{call('%rd7', '%r1')}", module=module)) == {"trap"}


def test_an_initialiser_names_what_the_module_defines() -> None:
    with pytest.raises(PtxError, match="names nothing_here, which is not defined"):
        parsed(kernel_text("ret;", module=".global .align 8 .u64 table[1] = {nothing_here};"))
