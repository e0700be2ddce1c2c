# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""What a launch prints, reports and holds is bounded, and the result says what was cut; an endless launch ends at its limit."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Module, PtxError, Schedule, Tap, TmemRegion

from tests.emulator.test_print import bits, printf, text
from tests.kit.ptx import Memory, clean, init_barrier, kernel_text, only, parsed, run

SECONDS = 10.0  # what a test here may take at most, of CPU


def quickly(call: Any, *args: Any, **named: Any) -> Any:
    began = time.process_time()
    made = call(*args, **named)
    assert time.process_time() - began < SECONDS
    return made


PRINT = """
    mov.u64 %rd1, buffer; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;
    { .param .b64 p; st.param.b64 [p], %rd2; .param .b64 q; st.param.b64 [q], %rd1; .param .b32 r; call (r), vprintf, (p, q); }"""
LOCAL = ".local .align 8 .b8 buffer[256];\n"


@pytest.mark.parametrize(
    "form", ["%.2000000000f", "%2000000000f", "%.*f", "%*.0f", "%000000000000000000000000099999999999f"]
)
def test_a_width_or_precision_is_cut(form: str) -> None:
    star = [("u32", "2000000000")] if "*" in form else []
    result = quickly(printf, form, *star, ("b64", bits(1.5)))
    assert 1024 <= len(result.printf) <= 1100
    assert result.limited == ("printf: widths and precisions above 1024: 1",)
    assert printf("%.1000f", ("b64", bits(1.5))).limited == ()


def test_negative_stars_are_those_of_c() -> None:
    assert (
        printf("%*d|%.*f", ("u32", "-6"), ("u32", "42"), ("u32", "-1"), ("b64", bits(2.25))).printf
        == "42    |2.250000"
    )


def test_a_string_without_an_end_is_cut() -> None:
    body = LOCAL + "mov.u64 %rd5, name; cvta.global.u64 %rd5, %rd5; st.local.u64 [buffer], %rd5;" + PRINT
    result = clean(run(body, module=text("format", "%s|") + text("name", "x" * 5000), threads=1))
    assert result.printf == "x" * 4096 + "|"
    assert result.limited == ("printf: strings longer than 4096 bytes: 1",)
    memory = Memory()  # past the end of its buffer it is a finding, as any load
    name = memory.buffer(np.full(100, ord("y"), np.uint8))
    body = LOCAL + "st.local.u64 [buffer], %a0;" + PRINT
    only(run(body, [name], memory=memory, module=text("format", "%s|"), threads=1), "global-out-of-bounds")


@pytest.mark.parametrize("form", ["%s" * 1000, "%.1024f" * 500, "hello\n"])
def test_an_endless_loop_of_printf_ends_at_its_limit(form: str) -> None:
    body = f"{LOCAL} mov.u64 %rd5, name; cvta.global.u64 %rd5, %rd5; st.local.u64 [buffer], %rd5; L: {PRINT}\nbra.uni L;"
    began = time.monotonic()
    result = run(body, module=text("format", form) + text("name", ""), threads=32, seconds_limit=0.5)
    assert time.monotonic() - began < SECONDS
    # Which limit comes first, that of time or that of instructions without progress, is the machine's.
    code = "" if result.ended_by == "time-limit" else result.findings[0].code
    assert code in ("", "livelock") or "out-of-bounds" in code
    assert len(result.printf) <= 1 << 20


def test_printed_text_is_cut_and_the_kernel_goes_on() -> None:
    memory = Memory()
    out = memory.empty(1, np.uint32)
    body = f"{LOCAL} mov.u32 %r5, 0; L: {PRINT} add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 2000; @%p1 bra L; st.global.u32 [%a0], %r5;"
    result = clean(run(body, [out], memory=memory, module=text("format", "x" * 1000), threads=1))
    assert len(result.printf) == 1 << 20 and out.numpy()[0] == 2000
    assert result.limited == ("printf: calls after 1048576 bytes: 952",)


def test_findings_are_limited_by_severity() -> None:
    """More warnings than are kept do not hide an error after them."""
    lines = ["mbarrier.test_wait.parity.shared.b64 %p1, [1024], 2;"] * 5000
    body = f"{init_barrier(1024)} {' '.join(lines)} st.shared.u32 [1024], 0;"
    result = run(body, shared_bytes=64)
    assert len(result.findings) == 4096 + 1 and result.errors[0].code == "mbarrier-overwritten"
    assert result.limited == (f"findings: {(5000 - 4096) * 32}",)


@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize(
    "line",
    [
        "cp.async.ca.shared.global [2048], [%a0], 4;", "cp.async.commit_group;", "cp.async.bulk.commit_group;",
        "cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 16;", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [2048], 1, [1024];",
        "mbarrier.init.shared.b64 [1032], %r5; mbarrier.inval.shared.b64 [1032];",
    ],
)  # fmt: skip
def test_what_piles_up_ends_at_a_limit(line: str, policy: Any) -> None:
    memory = Memory()
    body = f"{init_barrier(1024, 1000)} mov.u32 %r5, 1; st.shared.u32 [2048], 0; st.shared.v2.u64 [2048], {{%rd1, %rd1}}; L: {line} add.u32 %r5, %r5, 1; and.b32 %r5, %r5, 0xfffff; max.u32 %r5, %r5, 1; bra.uni L;"
    body = body.replace("st.shared.v2", "mov.b64 %rd1, 0; st.shared.v2")
    began = time.monotonic()
    result = run(
        body,
        [memory.buffer(np.zeros(64, np.uint32))],
        memory=memory,
        threads=1,
        shared_bytes=4096,
        seconds_limit=1,
        schedule=Schedule(policy),
    )
    assert time.monotonic() - began < SECONDS
    assert result.ended_by in ("time-limit", "memory-limit") or result.errors, result.findings


def test_captures_end_at_a_limit() -> None:
    """Phases without end, each captured: 2 GiB of captures are kept, and not more."""
    body = f"{init_barrier(1024)} L: mbarrier.arrive.shared.b64 _, [1024]; bra.uni L;"
    tap = Tap("t", 0, TmemRegion(0, 512))
    result = run(body, threads=1, shared_bytes=64, taps=[tap], seconds_limit=20)
    assert result.ended_by == "memory-limit"
    assert sum(c.data.nbytes + c.valid.nbytes for c in result.captures) <= 2 << 30


def test_a_record_of_an_endless_schedule_ends() -> None:
    body = "L: st.global.u32 [%a0], %r1; add.u32 %r1, %r1, 1; bra.uni L;"
    memory = Memory()
    began = time.monotonic()
    result = run(
        body,
        [memory.empty(1, np.uint32)],
        memory=memory,
        threads=64,
        seconds_limit=20,
        schedule=Schedule("random"),
        record="late",
    )
    assert result.ended_by == "memory-limit" and len(result.decisions) == (1 << 20) + 1
    assert time.monotonic() - began < 20


def test_many_empty_ctas_end_at_the_limit() -> None:
    """No CTA branches."""
    text_ = kernel_text("")
    began = time.monotonic()
    result = parsed(text_).launch(
        "k", grid=(4096, 4096), block=(1024,), shared_bytes=200_000, seconds_limit=0.3
    )
    assert result.ended_by == "time-limit" and time.monotonic() - began < SECONDS


def test_huge_allocations_are_refused_with_their_size() -> None:
    memory = Memory()
    for shape in (1 << 45, (1 << 20, 1 << 30), 1 << 62, (1 << 40, 1 << 40)):
        with pytest.raises(LaunchError, match="more memory than this process may have") as error:
            memory.empty(shape, np.float32)
        assert "bytes" in str(error.value)
    assert not memory.buffers
    many = " ".join(f".global .align 8 .b8 big{k}[4294967296];" for k in range(4096))
    with pytest.raises(LaunchError, match="the variables of the module"):
        Module.from_ptx(kernel_text("", module=many))
    with pytest.raises(PtxError, match="a variable is too large"):
        Module.from_ptx(kernel_text("", module=".global .b8 big[1125899906842624];"))
    with pytest.raises(PtxError, match="too many registers"):
        run(".reg .b32 %many<2000000000>;")
    with pytest.raises(PtxError, match="local memory"):
        run(".local .b8 big[1099511627776];")


def test_a_cooperative_grid_that_does_not_fit_is_refused() -> None:
    module = parsed(kernel_text(""))
    with pytest.raises(LaunchError, match="16777216 clusters at once"):
        module.launch("k", grid=(4096, 4096), block=(32,), cooperative=True)
    clean(module.launch("k", grid=(4,), block=(32,), cooperative=True))
