# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Every code that the engine reports has a test; places, counts, source lines, hang and livelock."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tileproof.emulator.codes import CODES

from tests.kit.paths import ROOT
from tests.kit.ptx import Memory, clean, line_of, only, run, store

COVERS = "trap"

HERE = Path(__file__).parent
ENGINE = ROOT / "emulator" / "engine"
_CALL = re.compile(r"\b(error|fault|warn|note)\(\s*([^;]*?),\s*\n?", re.S)


def reported() -> dict[str, set[str]]:
    """code -> the calls (error, fault, warn, note) that report it, from the C++ sources."""
    found: dict[str, set[str]] = {}
    for path in ENGINE.glob("*.cpp"):
        text = path.read_text()
        for match in re.finditer(r"\b(error|fault|warn|note)\(", text):
            first = text[match.end() : match.end() + 160]
            # The first argument, up to the comma outside quotes.
            argument = re.match(r'(?:[^",;]|"[^"]*")*', first)
            assert argument
            for code in re.findall(r'"([a-z]+(?:-[a-z0-9]+)*)"', argument.group(0)):
                found.setdefault(code, set()).add(match.group(1))
        for code in re.findall(r'f\.code = "([a-z-]+)"', text):
            found.setdefault(code, set()).add("fault")
        for code in re.findall(r'code = "(race-[a-z-]+)"', text):
            found.setdefault(code, set()).add("error")
        for severity, code in re.findall(r'Severity::(\w+)[^";]*"((?:race|pair|phase)-[a-z0-9-]+)"', text):
            found.setdefault(code, set()).add({"Warning": "warn", "Note": "note"}.get(severity, "error"))
    return found


def test_the_table_holds_every_code_of_the_engine() -> None:
    found = reported()
    # "unsupported" becomes an UnsupportedInstruction and is no finding.
    assert set(found) - {"unsupported"} == set(CODES)
    for code, calls in found.items():
        if code in CODES:
            row = CODES[code]
            assert row.severity == {"warn": "warning", "note": "note"}.get(next(iter(calls)), "error"), code
            assert row.stops == ("fault" in calls), code


def test_the_scan_finds_planted_codes() -> None:
    assert {"hang", "misaligned", "tmem-pending", "mma-operands", "tmem-ld-not-waited"} <= set(reported())


def test_every_code_has_a_test() -> None:
    # Those of several launches have theirs in tests/conformance.
    text = "\n".join(path.read_text() for path in HERE.parent.rglob("test_*.py"))
    missing = [code for code in CODES if f'"{code}"' not in text]
    assert not missing


@pytest.mark.parametrize(
    ("body", "code", "address"),
    [
        ("ld.global.u32 %r1, [%a0+4096];", "global-out-of-bounds", 4096), ("st.global.u32 [%a0+62], %r1;", "global-out-of-bounds", 62),
        ("ld.global.u32 %r1, [%a0+2];", "misaligned", 2), ("ld.global.v2.u32 {%r1, %r2}, [%a0+4];", "misaligned", 4),
        ("st.global.u32 [%a1], %r1;", "global-read-only", None), ("ld.global.u32 %r1, [%a2];", "uninitialised-unused", None),
        ("atom.global.add.u32 %r1, [%a2+8], 1;", "global-uninitialised", None),
        ("cvta.param.u64 %rd1, 0;\nst.u32 [%rd1], %r1;", "param-written", None), ("ld.shared.u32 %r1, [1028];", "uninitialised-unused", None),
        ("ld.shared.u32 %r1, [1026];", "misaligned", 1026), ("ld.shared.u32 %r1, [1020];", "shared-out-of-bounds", 1020),
        ("st.shared.u32 [1152], %r1;", "shared-out-of-bounds", 1152), ("ld.shared.u32 %r1, [0x2000400];", "shared-wrong-window", 0x2000400),
        ("ld.shared::cluster.u32 %r1, [0x2000400];", "shared-no-such-cta", 0x2000400),
        ("mapa.shared::cluster.u32 %r1, 1024, 7;", "shared-no-such-cta", 1024), ("ld.local.u32 %r1, [6];", "misaligned", 6),
        ("ld.local.u32 %r1, [8];", "local-out-of-bounds", 8), ("ld.param.u32 %r1, [24];", "param-out-of-bounds", 24), ("trap;", "trap", None),
    ],
)  # fmt: skip
def test_accesses(body: str, code: str, address: int | None) -> None:
    memory = Memory()
    constant = np.zeros(16, np.uint32)
    constant.flags.writeable = False
    first = memory.buffer(np.zeros(16, np.uint32), "x")
    args = [first, memory.buffer(constant, "fixed"), memory.empty(16, np.uint32, "fresh")]
    text = f".local .align 8 .b8 mine[8];\nsetp.eq.u32 %p1, %t, 37;\n@!%p1 bra END;\n{body}\nEND:"
    last = body.split("\n")[-1]
    finding = only(run(text, args, memory=memory, threads=64, shared_bytes=128), code)
    assert (finding.severity, finding.machine.warp, finding.machine.lane, finding.machine.cta) == (
        CODES[code].severity,
        1,
        5,
        (0, 0, 0),
    )
    assert finding.machine.instruction == last.rstrip(";").split()[0]
    assert finding.machine.ptx_line == line_of(text, last, [False] * 3) and finding.machine.kernel == "k"
    if address is not None:
        base = first.address if "%a0" in body else 0
        assert finding.machine.address == base + address
    assert (code in str(finding)) and f"PTX line {finding.machine.ptx_line}" in str(finding)


def test_the_clean_twin_of_the_accesses() -> None:
    memory = Memory()
    args = [memory.buffer(np.zeros(16, np.uint32)), memory.empty(16, np.uint32)]
    body = """.local .align 8 .b8 mine[8];
    ld.global.u32 %r1, [%a0+60]; st.global.u32 [%a0+60], %r1; ld.global.v2.u32 {%r1, %r2}, [%a0+8]; st.global.u32 [%a1], %r1;
    ld.global.u32 %r1, [%a1]; st.shared.u32 [1028], %r1; ld.shared.u32 %r1, [1028]; st.shared.u32 [1148], %r1; st.local.u32 [4], %r1;
    ld.local.u32 %r1, [4]; ld.param.u32 %r1, [12]; ld.shared::cluster.u32 %r1, [1028]; mapa.shared::cluster.u32 %r1, 1024, 0;"""
    clean(run(body, args, memory=memory, shared_bytes=128))


def test_messages_say_where_in_which_buffer() -> None:
    memory = Memory()
    x = memory.buffer(np.zeros(16, np.uint32), "weights")
    assert (
        "64 bytes into weights, which has 64"
        in only(run("ld.global.u32 %r1, [%a0+64];", [x], memory=memory), "global-out-of-bounds").message
    )
    assert (
        "4 bytes before weights"
        in only(run("ld.global.u32 %r1, [%a0-4];", [x], memory=memory), "global-out-of-bounds").message
    )
    assert (
        "outside every buffer"
        in only(run("ld.global.u32 %r1, [16];", [x], memory=memory), "global-out-of-bounds").message
    )


def test_source_lines_and_counts() -> None:
    body = """
    .loc 1 42 7
    mov.u32 %r9, 0;
    LOOP: .loc 1 43 9
    ld.shared.u32 %r1, [1024];
    .loc 1 44 3
    setp.eq.u32 %p2, %r1, 7; @%p2 bra LOOP;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra LOOP;"""
    finding = only(run(body, module='.file 1 "/src/kernel.cu"', shared_bytes=64), "shared-uninitialised")
    assert (
        finding.machine.source == "kernel.cu:43"
        and finding.count == 96
        and "kernel.cu:43" in str(finding)
        and "(96 times)" in str(finding)
    )


def test_the_same_defect_in_two_ctas_is_two_findings() -> None:
    result = run("ld.shared.u32 %r1, [1024];", cluster=2, shared_bytes=64)
    assert [(f.machine.cluster_rank, f.machine.cta) for f in result.findings] == [
        (0, (0, 0, 0)),
        (1, (1, 0, 0)),
    ]


def test_poison_is_a_nan_of_every_type() -> None:
    memory = Memory()
    out = memory.empty(32, np.uint32)
    run(f"ld.shared.u32 %r1, [1024];\n{store('%r1')}", [out], memory=memory, shared_bytes=64)
    assert (out.numpy() == 0xFFFFFFFF).all()


def test_livelock() -> None:
    body = "SPIN: ld.volatile.global.u32 %r1, [%a0];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra SPIN;"
    memory = Memory()
    flag = memory.buffer(np.zeros(1, np.uint32))
    finding = only(run(body, [flag], memory=memory, livelock_limit=10_000), "livelock")
    assert finding.machine.ptx_line == line_of(body, "@%p1 bra SPIN", [False]) and "10000" in finding.message
    flag.numpy()[0] = 1
    clean(run(body, [flag], memory=memory, livelock_limit=10_000))


def test_work_is_no_livelock() -> None:
    body = "mov.u32 %r1, 0;\nL: st.global.u32 [%a0], %r1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 20000;\n@%p1 bra L;"
    memory = Memory()
    clean(run(body, [memory.buffer(np.zeros(1, np.uint32))], memory=memory, threads=1, livelock_limit=1000))


def test_endless_work_ends() -> None:
    body = "L: st.global.u32 [%a0], %r1;\nbra.uni L;"
    memory = Memory()
    finding = only(
        run(body, [memory.buffer(np.zeros(1, np.uint32))], memory=memory, threads=1, instruction_limit=5000),
        "instruction-limit",
    )
    assert finding.machine.ptx_line == line_of(body, "bra.uni L", [False])


def test_a_hang_lists_every_waiting_group() -> None:
    body = """
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [1024], 2; bar.sync 0;
    setp.ge.u32 %p1, %t, 64; @%p1 bra THIRD; setp.ge.u32 %p1, %t, 32; @%p1 bra SECOND;
    W: mbarrier.try_wait.parity.shared.b64 %p2, [1024], 0; @!%p2 bra W; exit;
    SECOND: bar.sync 1, 64; exit;
    THIRD: setp.eq.u32 %p3, %t, 70; @%p3 bra END; bar.warp.sync 0xffffffff; END: bar.warp.sync 0xffffffff;"""
    finding = only(run(body, threads=96, shared_bytes=64), "hang")
    text = [w.waits_for for w in finding.machine.waiting]
    assert any("mbarrier at shared offset 0x400, parity 0: phase 0 lacks 2 of 2" in t for t in text)
    assert any("named barrier 1: 32 threads of 64" in t for t in text)
    assert any("the other lanes of its warp" in t for t in text) and len(text) == 4
    assert all(f"line {w.ptx_line}" in str(finding) for w in finding.machine.waiting)


def test_a_bulk_group_that_cannot_complete_is_not_waited_for_ever() -> None:
    clean(run("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"))


def test_nothing_is_found_in_an_empty_kernel() -> None:
    assert run("").findings == () and run("").errors == ()
