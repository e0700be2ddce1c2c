# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Direct calls of .func: parameters, results, divergence, guards, local memory, calls in calls; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import POLICIES, kernel_text, outputs, parsed, store

LANES = np.arange(32, dtype=np.uint32)

# As nvcc writes it.
SQUARE = """
.visible .func (.param .b32 func_retval0) square(.param .b32 square_param_0, .param .b64 square_param_1)
{
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u32 %r1, [square_param_0];
    ld.param.u64 %rd1, [square_param_1];
    cvt.u32.u64 %r2, %rd1;
    mad.lo.s32 %r3, %r1, %r1, %r2;
    st.param.b32 [func_retval0], %r3;
    ret;
}
"""


def call(value: str, to: str, name: str = "square", addend: str = "%rd7") -> str:
    return f"""
    {{ .param .b32 param0; st.param.b32 [param0], {value}; .param .b64 param1; st.param.b64 [param1], {addend};
    .param .b32 retval0;
    call.uni (retval0), {name}, (param0, param1);
    ld.param.b32 {to}, [retval0]; }}"""


def test_a_function_with_param_variables_called_twice() -> None:
    body = f"mov.u64 %rd7, 5; mov.u32 %r3, 77;{call('%t', '%r1')}{call('%r1', '%r2')}\nadd.u32 %r2, %r2, %r3;\n{store('%r2')}"
    for schedule in POLICIES:
        assert (outputs(body, module=SQUARE, schedule=schedule) == (LANES**2 + 5) ** 2 + 5 + 77).all()


def test_registers_as_parameters_and_no_parameters_at_all() -> None:
    module = """
    .func (.reg .b32 d, .reg .b32 e) swap(.reg .b32 a, .reg .b32 b) { mov.b32 d, b; mov.b32 e, a; ret; }
    .func nothing { ret; }"""
    body = f"call nothing;\nmov.u32 %r1, 9;\ncall (%r2, %r3), swap, (%t, 7);\nmad.lo.u32 %r2, %r2, 100, %r3; add.u32 %r2, %r2, %r1;\n{store('%r2')}"
    assert (outputs(body, module=module) == 709 + LANES).all()


# Odd lanes return early, lanes from 16 on loop as often as they are far above it.
DIVERGENT = """
.func (.param .b32 r0) f(.param .b32 x0, .param .b64 x1)
{
    .reg .b32 %r<6>; .reg .pred %p<3>;
    ld.param.u32 %r1, [x0];
    and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r3, 1000; st.param.b32 [r0], %r3;
    @%p1 ret;
    mov.u32 %r4, 0;
L:  setp.le.u32 %p2, %r1, 16; @%p2 bra DONE;
    sub.u32 %r1, %r1, 1; add.u32 %r4, %r4, 1; bra L;
DONE:
    st.param.b32 [r0], %r4;
}
"""


def test_lanes_return_at_different_places_and_meet_behind_the_call() -> None:
    """The vote behind the call needs all lanes; a label of the caller has the name of one of the function."""
    body = f"""
    L: mov.u64 %rd7, 0;{call("%t", "%r1", "f")}
    activemask.b32 %r2; setp.eq.u32 %p1, %r2, -1; selp.b32 %r3, 4096, 0, %p1; add.u32 %r1, %r1, %r3;
    DONE: {store("%r1")}"""
    want = np.where(LANES & 1, 1000, np.maximum(LANES.astype(int) - 16, 0)) + 4096
    for schedule in POLICIES:
        assert (outputs(body, module=DIVERGENT, schedule=schedule) == want).all()


@pytest.mark.parametrize("negated", [False, True])
def test_a_guarded_call(negated: bool) -> None:
    """Lanes that do not call keep their result register; `exit` in a function ends the thread."""
    module = ".func (.reg .b32 d) f(.reg .b32 a) { add.u32 d, a, 100; }"
    body = f"mov.u32 %r1, 1; setp.lt.u32 %p1, %t, 8; @{'!' if negated else ''}%p1 call (%r1), f, (%t);\n{store('%r1')}"
    called = (LANES < 8) != negated
    assert (outputs(body, module=module) == np.where(called, LANES + 100, 1)).all()


def test_exit_in_a_function_ends_the_thread() -> None:
    module = ".func f(.reg .b32 a) { .reg .pred p; setp.gt.u32 p, a, 3; @p exit; }"
    body = f"{store('0')}\ncall f, (%t);\n{store('%t')}".replace("[%rd39], 0", "[%rd39], 0")
    assert (outputs(body, module=module) == np.where(LANES > 3, 0, LANES)).all()


def test_calls_in_calls_and_local_memory_of_each() -> None:
    module = """
    .func (.reg .b32 d) inner(.reg .b32 a) {
        .local .b32 mine[2]; .reg .b64 at; mov.b64 at, mine; st.local.u32 [mine+4], a; ld.local.u32 d, [at+4]; mul.lo.u32 d, d, 3; }
    .func (.reg .b32 d) outer(.reg .b32 a) {
        .local .b32 mine; .reg .b32 x; st.local.u32 [mine], a; call (x), inner, (a); call (x), inner, (x); ld.local.u32 d, [mine]; add.u32 d, d, x; ret; }"""
    assert (outputs(f"call (%r1), outer, (%t);\n{store('%r1')}", module=module) == 10 * LANES).all()


@pytest.mark.parametrize(("line", "module", "why"), [
    ("call f;", ".func f { call f; ret; }", "recursive"),
    ("call f;", ".func g;\n.func f { call g; }\n.func g { call f; }", "recursive"),
    ("call (%r1), f, ();", ".func (.param .align 4 .b8 r[12]) f { ret; }", "structure"),
    ("call f;", ".extern .func f;", "functions of the module"),
    ("call f;", ".func f { .shared .b32 x; ret; }", "shared memory"),
])  # fmt: skip
def test_what_is_refused_by_name(line: str, module: str, why: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=why):
        parsed(kernel_text(line, module=module)).decode("k")
