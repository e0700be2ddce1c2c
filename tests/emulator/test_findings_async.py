# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Missing waits: found when operations complete late, silent twins when the wait is there."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Finding, RunResult, Schedule, TensorMap
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import (
    CLUSTER_SYNC,
    POLICIES,
    Memory,
    alloc,
    clean,
    codes,
    dealloc,
    init_barrier,
    only,
    run,
    used,
    wait,
)

BAR = 1024
LATE = Schedule("late")
EIGHT = "{" + ", ".join(f"%r{60 + i}" for i in range(8)) + "}"
DESC = SmemDescriptor(0x1000, 16, 256, "32B").encode()
IDESC = InstructionDescriptor(128, 32).encode()
MMA = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], {DESC}, {DESC}, {IDESC}, %p5;"
COMMIT = f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR}];"
ZERO = """mov.u32 %r1, 4096; mad.lo.u32 %r1, %t, 32, %r1; st.shared.v4.b32 [%r1], {0, 0, 0, 0}; st.shared.v4.b32 [%r1+16], {0, 0, 0, 0};
fence.proxy.async; bar.sync 0;"""
CLEAR = "mov.b32 %r60, 0; mov.b32 %r61, 0; mov.b32 %r62, 0; mov.b32 %r63, 0; mov.b32 %r64, 0; mov.b32 %r65, 0; mov.b32 %r66, 0; mov.b32 %r67, 0;"
QUARTER = (
    "and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t;"
)
LD = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {EIGHT}, [%r51];"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
READ = f"tcgen05.fence::after_thread_sync; {LD} {WAIT_LD}\n{used('%r60')}"  # something depends on D


def tensor(body: str, schedule: Schedule = LATE, cluster: int = 1) -> RunResult:
    """128 threads with 32 TMEM columns, zeroed operands at 0x1000 and an mbarrier."""
    text = f"{init_barrier(BAR)} {alloc(32)} {QUARTER} {ZERO}\n{body}\n{dealloc(32)}"
    return run(text, threads=128, shared_bytes=0x3000, schedule=schedule, cluster=cluster)


CASES = {
    "mma": (f"{MMA}\n{COMMIT}\n@@\n{LD} {WAIT_LD}", wait(BAR), "tmem-pending", "tcgen05.ld"),
    "st": (f"{CLEAR}\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};\n@@\n{LD} {WAIT_LD}", WAIT_ST, "tmem-pending", "tcgen05.ld"),
    "cp": (f"@%p0 tcgen05.cp.cta_group::1.128x256b [%r100], {DESC};\n{COMMIT}\n@@\n{LD} {WAIT_LD}", wait(BAR), "tmem-pending", "tcgen05.ld"),
    "a": (
        f"{CLEAR}\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};\n@@ bar.sync 0;\nadd.u32 %r52, %r100, 16;"
        f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r52], [%r100], {DESC}, {InstructionDescriptor(128, 16).encode()}, %p5;\n{COMMIT}\n{wait(BAR)}",
        WAIT_ST, "tmem-pending", "tcgen05.mma",
    ),
    "dealloc": (f"{MMA}\n{COMMIT}\n@@", wait(BAR), "tmem-dealloc-in-flight", "tcgen05.dealloc"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tensor_memory(case: str) -> None:
    body, waiting, code, instruction = CASES[case]
    for schedule in POLICIES:
        clean(tensor(body.replace("@@", waiting), schedule))
    # A late schedule completes in order of issue, so an MMA that reads what a store has yet to write needs a random one.
    schedules = [Schedule("random", seed) for seed in range(20)] if case == "a" else [LATE]
    findings = [f for s in schedules for f in tensor(body.replace("@@", ""), s).findings if f.code == code]
    assert findings and findings[0].machine.instruction.startswith(instruction)
    assert findings[0].severity == "error" and findings[0].machine.ptx_line > 0


def test_a_read_after_the_mma_overwrote_what_was_to_be_read() -> None:
    """WAR: ld, then an MMA into the same columns without wait::ld: a late ld sees the new values (or a pending write)."""
    first = f"{CLEAR} mov.b32 %r60, 0x40000000;\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};\n{WAIT_ST} bar.sync 0;"
    memory = Memory()
    out = memory.empty(128, np.float32)
    results = {}
    for name, middle in (("waited", WAIT_LD), ("late", "")):
        body = f"""{init_barrier(BAR)} {alloc(32)} {QUARTER} {ZERO} {first}
        {LD} {middle} tcgen05.fence::before_thread_sync; bar.sync 0; {MMA} {COMMIT} {wait(BAR)} {WAIT_LD}
        mad.wide.u32 %rd1, %t, 4, %a0; st.global.f32 [%rd1], %r60; {dealloc(32)}"""
        results[name] = run(body, [out], memory=memory, threads=128, shared_bytes=0x3000, schedule=LATE)
        values = set(out.numpy().tolist())
        assert values == ({2.0} if name == "waited" else {0.0})
    clean(results["waited"])


def test_a_register_used_without_wait_ld_is_a_note() -> None:
    fill = f"{CLEAR}\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};\n{WAIT_ST}"
    for schedule in POLICIES:
        finding = only(tensor(f"{fill}\n{LD}\nadd.u32 %r2, %r65, 1;", schedule), "tmem-ld-not-waited")
        assert finding.severity == "note" and finding.machine.instruction == "add.u32"
        clean(tensor(f"{fill}\n{LD}\n{WAIT_LD}\nadd.u32 %r2, %r65, 1;", schedule))


def test_many_loads_that_are_never_waited_for() -> None:
    """Loads without wait::ld in a long loop keep their registers apart."""
    body = f"""{CLEAR}\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};\n{WAIT_ST}
    mov.u32 %r9, 0; LOOP: tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r70}}, [%r51]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r71}}, [%r51];
    add.u32 %r72, %r70, 1; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 35000; @%p1 bra LOOP; add.u32 %r72, %r71, 1;"""
    text = f"{alloc(32)} {QUARTER} {body} {dealloc(32)}"
    assert codes(run(text, shared_bytes=256)) == {"tmem-ld-not-waited"}


def copy_case(kind: str, body: str, schedule: Schedule) -> RunResult:
    memory = Memory()
    data = memory.buffer(np.arange(256, dtype=np.uint8))
    m = TensorMap.tiled(data, shape=(256,), strides=(), box=(256,))
    copy = {
        "tma": f"cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0, {{0}}], [{BAR}];",
        "bulk": f"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a1], 256, [{BAR}];",
    }[kind]
    text = f"{init_barrier(BAR)}\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 256;\n@%p0 {copy}\n{body}"
    return run(text, [m, data], memory=memory, threads=32, shared_bytes=2048, schedule=schedule)


@pytest.mark.parametrize("kind", ["tma", "bulk"])
@pytest.mark.parametrize(
    ("touch", "code"),
    [("ld.shared.u32 %r1, [2052];", "shared-pending"), ("st.shared.u32 [2052], 1;", "shared-write-under-copy"),
     ("atom.shared.add.u32 %r1, [2052], 1;", "shared-pending")],
)  # fmt: skip
def test_shared_memory_under_a_copy(kind: str, touch: str, code: str) -> None:
    body = f"@@ @%p0 {touch} {wait(BAR)}"
    for schedule in POLICIES:
        clean(copy_case(kind, body.replace("@@", wait(BAR)), schedule))
    finding = only(copy_case(kind, body.replace("@@", ""), LATE), code)
    assert finding.machine.address == 2052 and (finding.machine.warp, finding.machine.lane) == (0, 0)


def test_the_tensor_core_reads_shared_memory_that_is_not_there() -> None:
    unwritten = MMA.replace(str(DESC), str(SmemDescriptor(0x2400, 16, 256, "32B").encode()))
    dropped = only(tensor(f"{unwritten}\n{COMMIT}\n{wait(BAR)}"), "uninitialised-unused")
    assert dropped.machine.instruction.startswith("tcgen05.mma") and dropped.severity == "note"
    finding = only(tensor(f"{unwritten}\n{COMMIT}\n{wait(BAR)}\n{READ}"), "shared-uninitialised")
    assert finding.machine.instruction.startswith("tcgen05.mma") and finding.machine.address == 0x2400
    outside = MMA.replace(str(DESC), str(SmemDescriptor(0x3F000, 16, 256, "32B").encode()))
    only(tensor(f"{outside}\n{COMMIT}\n{wait(BAR)}"), "shared-out-of-bounds")
    barrier = MMA.replace(str(DESC), str(SmemDescriptor(BAR, 16, 256, "32B").encode()))
    assert "mbarrier-read-as-data" in codes(tensor(f"{barrier}\n{COMMIT}\n{wait(BAR)}"))


ROWS = 64  # of A, written
FEW = InstructionDescriptor(128, 8).encode()


@pytest.mark.parametrize("part", ["rows of A", "columns of B"])
def test_an_operand_written_in_part(part: str) -> None:
    """Only the rows or columns of D that an unwritten row of A or column of B enters carry it on."""
    # 0x3000: a second operand; threads below the limit write their row of 32 bytes.
    rows = part == "rows of A"
    count = ROWS if rows else 4
    fill = f"""mov.u32 %r1, 0x3000; mad.lo.u32 %r1, %t, 32, %r1; setp.lt.u32 %p6, %t, {count};
    @%p6 st.shared.v4.b32 [%r1], {{0, 0, 0, 0}}; @%p6 st.shared.v4.b32 [%r1+16], {{0, 0, 0, 0}}; fence.proxy.async; bar.sync 0;"""
    partial = str(SmemDescriptor(0x3000, 16, 256, "32B").encode())
    a, b = (partial, str(DESC)) if rows else (str(DESC), partial)
    mma = f"{fill}\n@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], {a}, {b}, {FEW}, %p5;\n{COMMIT}\n{wait(BAR)}"
    load = f"tcgen05.fence::after_thread_sync; {LD} {WAIT_LD}"

    def launched(use: str, schedule: Schedule) -> RunResult:
        text = f"{init_barrier(BAR)} {alloc(32)} {QUARTER} {ZERO}\n{mma}\n{load}\n{use}\n{dealloc(32)}"
        memory = Memory()
        out = memory.buffer(np.zeros(128, np.uint32))
        return run(text, [out], memory=memory, threads=128, shared_bytes=0x4000, schedule=schedule)

    store = "mad.wide.u32 %rd1, %t, 4, %a0; {} st.global.u32 [%rd1], {};"
    right = store.format("@%p6" if rows else "", "%r63" if not rows else "%r60")
    wrong = store.format("@!%p6" if rows else "", "%r64" if not rows else "%r60")
    for schedule in POLICIES:
        assert codes(launched(right, schedule)) == {"uninitialised-unused"}
        finding = only(launched(wrong, schedule), "shared-uninitialised")
        assert finding.machine.instruction.startswith("tcgen05.mma") and finding.count == (
            ROWS if rows else 128
        )


def test_tensor_memory_that_a_store_left_unknown() -> None:
    """tcgen05.st of a value that nobody wrote: the cell counts as not written."""
    again = f"{LD} {WAIT_LD}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r51+9], {{%r60}}; {WAIT_ST}"
    back = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r70}}, [%r51+9]; {WAIT_LD}"
    for schedule in POLICIES:
        assert codes(tensor(f"{again} {back}", schedule)) == {"uninitialised-unused"}
        only(tensor(f"{again} {back}\n{used('%r70')}", schedule), "tmem-uninitialised")
        written = f"{CLEAR} tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT}; {WAIT_ST}"
        clean(tensor(f"{written} {again} {back}\n{used('%r70')}", schedule))


def test_mma_misuse() -> None:
    assert "0b001" in only(tensor(MMA.replace(str(DESC), "5", 1)), "mma-operands").message
    only(tensor(MMA.replace("@%p0 ", "")), "mma-many-threads")
    assert tensor(f"{MMA}\n{COMMIT}\n{wait(BAR)}", Schedule("early")).findings == ()
    only(
        tensor(MMA.replace("[%r100]", "[%r53]").replace("@%p0", "add.u32 %r53, %r100, 32;\n@%p0")),
        "tmem-not-allocated",
    )
    accumulate = f"setp.eq.u32 %p5, %t, %t;\n{MMA}\n{COMMIT}\n{wait(BAR)}"
    only(tensor(accumulate), "uninitialised-unused")
    only(tensor(f"{accumulate}\n{READ}"), "tmem-uninitialised")
    in_tmem = MMA.replace(
        f"{DESC}, {DESC}, {IDESC}", f"[%r53], {DESC}, {InstructionDescriptor(128, 16).encode()}"
    )
    assert "tmem-uninitialised" in codes(
        tensor(f"add.u32 %r53, %r100, 16;\n{in_tmem}\n{COMMIT}\n{wait(BAR)}\n{READ}")
    )
    only(tensor(f"add.u32 %r53, %r100, 28;\n{in_tmem}\n{COMMIT}\n{wait(BAR)}"), "tmem-not-allocated")
    only(
        tensor(f"{MMA}\n{COMMIT.replace('.b64', '.multicast::cluster.b64').replace('];', '], 2;')}"),
        "shared-no-such-cta",
    )


def test_a_pair_instruction_in_a_cluster_without_pairs_does_not_launch() -> None:
    from tileproof.emulator import LaunchError

    with pytest.raises(LaunchError, match="pairs"):
        tensor(MMA.replace("cta_group::1", "cta_group::2"))


@pytest.mark.parametrize("kind", ["mma", "st"])
def test_operations_in_flight_at_exit(kind: str) -> None:
    body = (
        f"{MMA}\n{COMMIT}"
        if kind == "mma"
        else f"{CLEAR}\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {EIGHT};"
    )
    text = f"{init_barrier(BAR)} {alloc(32)} {QUARTER} {ZERO}\n{body}"
    result = run(text, threads=128, shared_bytes=0x3000, schedule=LATE)
    finding = only(result, "async-pending-at-exit")
    assert finding.severity == "warning" and finding.machine.instruction.startswith("tcgen05.")
    assert ("access-after-exit" if kind == "mma" else "tmem-leak") in codes(result)


@pytest.mark.parametrize("strict", [False, True])
def test_a_commit_that_nothing_waits_for(strict: bool) -> None:
    """Two commits, a wait for the first alone: what comes after the exit is reported, and the next cluster runs."""
    for waits, found in ((f"{wait(BAR)} {wait(BAR + 8)}", set()), (wait(BAR), {"commit-at-exit"})):
        memory = Memory()
        out = memory.empty((2,), np.uint32)
        body = (
            f"{init_barrier(BAR)} {init_barrier(BAR + 8)} {alloc(32)} {QUARTER} {ZERO}\n{MMA}\n{COMMIT}"
            f"{COMMIT.replace(str(BAR), str(BAR + 8))} {waits} {dealloc(32)}\n"
            "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 4, %a0; st.global.u32 [%rd1], 1;"
        )
        result = run(
            body,
            [out],
            memory=memory,
            threads=128,
            shared_bytes=0x3000,
            grid=2,
            schedule=Schedule("late-newest"),
            strict=strict,
        )
        assert {f.code for f in result.findings} == found
        assert all(f.severity == ("error" if strict else "warning") for f in result.findings)
        if not strict:
            assert (out.numpy() == 1).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_a_commit_whose_phase_nobody_waits_for(schedule: Schedule) -> None:
    """Of two commits in one pipeline each needs its own wait before the exit, whatever order they arrive in;
    a wait for a later phase of the same mbarrier does for the earlier one."""
    second = COMMIT.replace(str(BAR), str(BAR + 8))
    again = wait(BAR).replace(", 0;", ", 1;")
    for body, found in (
        (f"{COMMIT} {second} {wait(BAR)} {wait(BAR + 8)}", set()),
        (f"{COMMIT} {second} {wait(BAR + 8)}", {BAR}),
        (f"{COMMIT} {second} {wait(BAR)}", {BAR + 8}),
        (f"{COMMIT} {wait(BAR)} bar.sync 0; {COMMIT} {again}", set()),
        (f"{COMMIT} {wait(BAR)} bar.sync 0; {COMMIT}", {BAR}),
    ):
        for strict, severity in ((False, "warning"), (True, "error")):
            text = f"{init_barrier(BAR)} {init_barrier(BAR + 8)} {alloc(32)} {QUARTER} {ZERO}\n{MMA}\n{body}\n{dealloc(32)}"
            result = run(text, threads=128, shared_bytes=0x3000, schedule=schedule, races=True, strict=strict)
            told = {f.code: f for f in result.findings if f.code.endswith(("commit-exit", "commit-at-exit"))}
            assert len(told) == bool(found) and all(f.severity == severity for f in told.values())
            # One that had not arrived at the exit either is reported by who sees it arrive.
            late = schedule.policy == "late" or "commit-at-exit" in told
            assert set(told) <= {"race-commit-exit", "commit-at-exit"} if late else {"race-commit-exit"}
            assert all(hex(offset) in f.message for offset in found for f in told.values())


def test_a_peer_that_exits_too_early() -> None:
    """The even CTA reads the odd CTA's shared memory after that one has exited; a cluster barrier mends it."""
    body = """
    .shared .b32 word;
    st.shared.u32 [word], 1; barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 1; @%p1 bra END;
    mov.u32 %r2, 0; SPIN: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 30000; @%p2 bra SPIN;
    mov.u32 %r3, word; mapa.shared::cluster.u32 %r4, %r3, 1; ld.shared::cluster.u32 %r5, [%r4];
    END: """
    finding = only(run(body, cluster=2), "access-after-exit")
    assert finding.machine.instruction == "ld.shared::cluster.u32" and "rank 1" in finding.message
    clean(run(body + CLUSTER_SYNC, cluster=2))
    arrive = (
        body.replace("ld.shared::cluster.u32 %r5, [%r4];", "mbarrier.arrive.shared::cluster.b64 _, [%r4];")
        .replace(".b32 word", ".b64 word")
        .replace(
            "st.shared.u32 [word], 1;", "setp.eq.u32 %p3, %t, 0; @%p3 mbarrier.init.shared.b64 [word], 32;"
        )
    )
    only(run(arrive, cluster=2), "access-after-exit")
    clean(run(arrive + CLUSTER_SYNC, cluster=2))


def test_a_finding_carries_its_issuer() -> None:
    """A copy that fails at completion names the instruction and lane that issued it."""
    memory = Memory()
    body = f"{init_barrier(BAR)}\nsetp.eq.u32 %p3, %t, 37;\n@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0+512], 256, [{BAR}];\n{wait(BAR)}"
    for schedule in POLICIES:
        finding: Finding = only(
            run(
                body,
                [memory.buffer(np.zeros(256, np.uint8))],
                memory=memory,
                threads=64,
                shared_bytes=2048,
                schedule=schedule,
            ),
            "global-out-of-bounds",
        )
        assert (finding.machine.warp, finding.machine.lane) == (
            1,
            5,
        ) and finding.machine.instruction.startswith("cp.async.bulk.shared::cta")
