# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""vprintf formatting and __assertfail, as compiled kernels call them."""

from __future__ import annotations

import struct

import pytest
from tileproof.emulator import RunResult, UnsupportedInstruction

from tests.kit.ptx import clean, only, run

COVERS = "call"


def text(name: str, value: str) -> str:
    data = ", ".join(str(b) for b in [*value.encode(), 0])
    return f".global .align 1 .b8 {name}[{len(value.encode()) + 1}] = {{{data}}};\n"


def printf(form: str, *values: tuple[str, str]) -> RunResult:
    """`values`: (type, operand) laid into the argument buffer at natural alignment."""
    at, stores = 0, []
    for type_, operand in values:
        size = int(type_[1:]) // 8
        at = -(-at // size) * size
        stores.append(f"st.local.{type_} [buffer+{at}], {operand};")
        at += size
    body = f"""
    .local .align 8 .b8 buffer[256];
    {" ".join(stores)}
    mov.u64 %rd1, buffer; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;
    {{ .param .b64 param0; st.param.b64 [param0], %rd2; .param .b64 param1; st.param.b64 [param1], %rd1; .param .b32 retval0;
    call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r9, [retval0]; }}"""
    return clean(run(body, module=text("format", form), threads=1))


def bits(value: float) -> str:
    return f"0d{struct.pack('>d', value).hex()}"


@pytest.mark.parametrize(
    ("form", "values", "want"),
    [
        ("plain 100%%\n", [], "plain 100%\n"), ("%d %i|%5d|%-5d|%05d|%+d", [("u32", n) for n in ("-7", "8", "42", "42", "42", "3")], "-7 8|   42|42   |00042|+3"),
        ("%u %x %X %o %#x", [("u32", n) for n in ("-1", "255", "255", "8", "255")], "4294967295 ff FF 10 0xff"),
        ("%d %lld %ld %zu", [("u32", "1"), ("u64", "-2"), ("u64", "3"), ("u64", "4")], "1 -2 3 4"),
        ("%c%c", [("u32", "72"), ("u32", "105")], "Hi"), ("%p", [("u64", "4096")], "0x1000"),
        ("%f %.2f %e %g %8.3f", [("b64", bits(v)) for v in (1.5, 3.14159, 1e10, 0.5, 2.0)], "1.500000 3.14 1.000000e+10 0.5    2.000"),
        ("%*d|%.*f", [("u32", "6"), ("u32", "42"), ("u32", "1"), ("b64", bits(2.25))], "    42|2.2"), ("%hd %hhu", [("u32", "5"), ("u32", "6")], "5 6"),
        ("%q %d", [("u32", "1")], "%q 1"), ("%", [], ""), ("%2147483647d|", [("u32", "1")], None),
    ],
)  # fmt: skip
def test_formats(form: str, values: list[tuple[str, str]], want: str | None) -> None:
    got = printf(form, *values).printf
    assert got == want if want is not None else got.endswith("|")


def test_strings_and_order_of_lanes() -> None:
    body = """
    .local .align 8 .b8 buffer[16];
    mov.u64 %rd5, name; cvta.global.u64 %rd5, %rd5; st.local.u64 [buffer], %rd5; st.local.u32 [buffer+8], %t;
    mov.u64 %rd1, buffer; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;
    { .param .b64 p; st.param.b64 [p], %rd2; .param .b64 q; st.param.b64 [q], %rd1; .param .b32 r; call (r), vprintf, (p, q); }"""
    assert (
        clean(run(body, module=text("format", "%s:%d ") + text("name", "lane"), threads=3)).printf
        == "lane:0 lane:1 lane:2 "
    )


def test_assertfail() -> None:
    body = """
    setp.ne.u32 %p1, %t, 4; @%p1 bra END;
    mov.u64 %rd1, message; cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, file; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, function; cvta.global.u64 %rd3, %rd3;
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 77; st.param.b64 [d], %rd3; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e); }
    END:"""
    module = text("message", "x > 0") + text("file", "k.cu") + text("function", "void f()")
    finding = only(run(body, module=module), "device-assert")
    assert (
        finding.message == "device assertion failed: x > 0 at k.cu:77 in void f()"
        and finding.machine.lane == 4
    )


def test_other_calls_are_refused() -> None:
    for line in ("call.uni malloc, (%rd1);", "call (%r1), cudaGetDevice, ();"):
        with pytest.raises(UnsupportedInstruction, match="only vprintf and __assertfail"):
            run(line)
