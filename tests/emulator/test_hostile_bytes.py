# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Holes that the fuzzer found, each as the small kernel that went through it; and the fuzzer itself, for a moment."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tileproof.emulator import Module, PtxError, RunResult, Schedule, UnsupportedInstruction

from tests.emulator.test_print import text
from tests.kit.fuzz.__main__ import cases
from tests.kit.paths import ROOT
from tests.kit.ptx import HEADER, Memory, alloc, clean, codes, dealloc, init_barrier, only, run

MMA = "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r11], {a}, %rd1, %r12, [%r13], [%r14], %p1;"


@pytest.mark.parametrize("races", [False, True])
@pytest.mark.parametrize(
    ("a", "scale", "of"),
    [(511, 64, "A"), (505, 64, "A"), (8, 512, "the scale factors of A"), (8, 0xFFFF, "the scale factors of A"), (8, 509, "the scale factors of A")],
)  # fmt: skip
def test_operands_of_an_mma_outside_tensor_memory(a: int, scale: int, of: str, races: bool) -> None:
    """The race checker got the columns before they were looked up, and wrote past its shadow."""
    finding = only(scaled(a, scale, races), "tmem-not-allocated")
    assert finding.message == f"tcgen05.mma reads {of} from TMEM columns that are not allocated"
    assert "tmem-not-allocated" not in codes(scaled(8, 64, races))


def scaled(a: int, scale: int, races: bool) -> RunResult:
    """One block-scaled MMA with A at a column and A's scale factors at another."""
    line = MMA.format(a="[%r10]")
    body = f"""{init_barrier(1024)} {alloc(512)} setp.eq.u32 %p1, 0, 0; mov.b64 %rd1, 0x4000404000010100; mov.u32 %r10, {a}; mov.u32 %r11, 256; mov.u32 %r12, 0x08b004a0;
    mov.u32 %r13, {scale}; mov.u32 %r14, 96; @%p0 {line} {dealloc(512)}"""
    return run(body, shared_bytes=16384, races=races)


def test_an_assertion_whose_text_is_no_utf8() -> None:
    module = (
        text("message", "x").replace("{120, 0}", "{209, 40, 0, 0}").replace("message[2]", "message[4]")
        + text("file", "k.cu")
        + text("function", "f")
    )
    body = """mov.u64 %rd1, message; cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, file; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, function; cvta.global.u64 %rd3, %rd3;
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 77;
    st.param.b64 [d], %rd3; st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }"""
    assert (
        only(run(body, module=module, threads=1), "device-assert").message
        == "device assertion failed: \ufffd( at k.cu:77 in f"
    )


def test_arrivals_that_a_copy_adds_stay_countable() -> None:
    """cp.async.mbarrier.arrive without .noinc raised the pending count past every type."""
    memory = Memory()
    body = f"{init_barrier(1024, 0xFFFFF)} L: cp.async.ca.shared.global [2048], [%a0], 4; cp.async.mbarrier.arrive.shared.b64 [1024]; bra.uni L;"
    found = run(
        body,
        [memory.buffer(np.zeros(4, np.uint32))],
        memory=memory,
        threads=1,
        shared_bytes=4096,
        seconds_limit=20,
        schedule=Schedule("late"),
    )
    only(found, "mbarrier-count")


def test_the_fuzzer_runs_every_case() -> None:
    """Without sanitizers, which .ci/run has."""
    command = [
        sys.executable,
        "-m",
        "tests.kit.fuzz",
        "--plain",
        "--seconds",
        "4",
        "--jobs",
        "1",
        "--seed",
        "5",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    for name in cases():
        assert f"{name}: " in done.stdout
    assert " 0 failed" in done.stdout


def _chain(count: int) -> str:
    body = "".join(
        f".func f{k}() {{ {f'call f{k + 1};' if k < count else ''} ret; }}\n" for k in range(count + 1)
    )
    return f"{HEADER}{body}.visible .entry k() {{ call f0; ret; }}"


def test_text_that_takes_the_decoder_long_is_refused() -> None:
    """Deep calls ended in a RecursionError, a word of megabytes in minutes, a number of megabytes in a ValueError."""
    clean(Module.from_ptx(_chain(90)).launch("k", grid=(1,), block=(1,)))
    with pytest.raises(UnsupportedInstruction, match="more than 100 nested calls"):
        Module.from_ptx(_chain(3000)).launch("k", grid=(1,), block=(1,))
    with pytest.raises(PtxError, match="an opcode is too long"):
        run("add" + ".u32" * 500_000 + " %r1, %r1, %r1;")
    for line in (f"mov.u32 %r1, {'9' * 100_000};", f".loc {'9' * 100_000} 1 1\nmov.u32 %r1, 1;"):
        with pytest.raises(PtxError, match="too many digits"):
            run(line)
