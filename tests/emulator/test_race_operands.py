"""Race checking of operations of many granules: what holds for most of them holds for no other granule."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import POLICIES, alloc, dealloc, init_barrier, run, wait

BARS = 1024, 1032
FIRST = 4096  # the operands: 128 rows of 16 bf16, 32 bytes for each thread to write
DESC = SmemDescriptor(FIRST, 128, 256, "none").encode()  # a pattern that repeats: reported as a whole
IDESC = InstructionDescriptor(128, 16).encode()
FENCE, SYNC = "fence.proxy.async.shared::cta;", "bar.sync 0;"
AFTER = "tcgen05.fence::after_thread_sync;"
WRITE = (
    f"mad.lo.u32 %r1, %t, 32, {FIRST};"
    " st.shared.v4.b32 [%r1], {0, 0, 0, 0}; st.shared.v4.b32 [%r1+16], {0, 0, 0, 0};"
)
READY = f"{WRITE}\n{FENCE}\n{SYNC}\n{AFTER}"
ROWS = pytest.mark.parametrize("row", [0, 17, 65, 127])
SCHEDULES = pytest.mark.parametrize("schedule", POLICIES, ids=str)


def mma(issuer: int) -> str:
    """A product by thread 32 (issuer 0) or 64, with an accumulator of its own."""
    return f"@%p{issuer} tcgen05.mma.cta_group::1.kind::f16 [%r{52 + issuer}], {DESC}, {DESC}, {IDESC}, %p5;"


def commit(issuer: int) -> str:
    """The arrival of the issuer's products at its mbarrier."""
    return (
        f"@%p{issuer} tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BARS[issuer]}];"
    )


def again(row: int) -> str:
    """A thread's second write of one chunk."""
    return f"setp.eq.u32 %p4, %t, {row}; @%p4 st.shared.v4.b32 [%r1+16], {{0, 0, 0, 0}};"


def products(body: str, schedule: Schedule) -> RunResult:
    """128 threads, 32 columns of tensor memory and the address of a buffer."""
    memory = Memory()
    table = memory.buffer(np.zeros(1024, np.float32), name="table")
    text = (
        f"{init_barrier(BARS[0])} {init_barrier(BARS[1])} {alloc(32)}\n"
        "mov.u32 %r52, %r100; add.u32 %r53, %r100, 16; setp.ne.u32 %p5, %t, %t;"
        f" setp.eq.u32 %p0, %t, 32; setp.eq.u32 %p1, %t, 64;\n{body}\n{dealloc(32)}"
    )
    return run(text, [table], memory=memory, threads=128, shared_bytes=0x4000, schedule=schedule, races=True)


def severe(result: RunResult) -> dict[str, str]:
    """The errors and warnings of races, and what each says."""
    return {f.code: f.message for f in result.findings if f.severity != "note"}


@ROWS
@SCHEDULES
def test_a_chunk_that_a_thread_writes_again(row: int, schedule: Schedule) -> None:
    head = f"{READY}\n{mma(0)}\n{commit(0)}\n{wait(BARS[0])}\n{SYNC}\n{again(row)}"
    tail = f"{mma(0)}\n{commit(0)}\n{wait(BARS[0], 1)}"
    (found,) = severe(products(f"{head}\n{tail}", schedule)).items()
    assert found[0] in ("race-unordered", "race-mma-unwaited")
    assert f"shared byte {hex(FIRST + 32 * row + 16)}" in found[1]
    assert not severe(products(f"{head}\n{FENCE}\n{SYNC}\n{AFTER}\n{tail}", schedule))


@ROWS
@SCHEDULES
def test_a_chunk_that_a_thread_writes_again_before_any_product(row: int, schedule: Schedule) -> None:
    """No operation has read the chunks: only their writes differ."""
    tail = f"{mma(0)}\n{commit(0)}\n{wait(BARS[0])}"
    (found,) = severe(products(f"{READY}\n{again(row)}\n{SYNC}\n{tail}", schedule)).items()
    assert found[0] == "race-proxy-fence"
    assert f"shared byte {hex(FIRST + 32 * row + 16)}" in found[1]
    assert not severe(products(f"{READY}\n{again(row)}\n{FENCE}\n{SYNC}\n{AFTER}\n{tail}", schedule))


@ROWS
@SCHEDULES
def test_a_chunk_that_a_thread_reads_between_two_copies(row: int, schedule: Schedule) -> None:
    """Only the reads of the chunks differ."""

    def copy(parity: int) -> str:
        form = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
        return (
            f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{BARS[0]}], 4096;"
            f" @%p0 {form} [{FIRST}], [%a0], 4096, [{BARS[0]}];\n{wait(BARS[0], parity)}"
        )

    read = f"setp.eq.u32 %p4, %t, 0; @%p4 ld.shared.b32 %r2, [{FIRST + 32 * row}];"
    found = severe(products(f"{copy(0)}\n{SYNC}\n{read}\n{copy(1)}", schedule))
    assert any(f" {hex(FIRST + 32 * row)} of CTA" in text for text in found.values()), found
    assert not severe(products(f"{copy(0)}\n{SYNC}\n{read}\n{SYNC}\n{copy(1)}", schedule))


@ROWS
@SCHEDULES
def test_products_of_two_threads_both_read_each_chunk(row: int, schedule: Schedule) -> None:
    # A thread writes after the end of both products, or of only one of them.
    head = f"{READY}\n{mma(0)}\n{commit(0)}\n{mma(1)}\n{commit(1)}"
    for waited in (0, 1):
        waits = wait(BARS[waited]), wait(BARS[1 - waited])
        early = f"{head}\n{waits[0]}\n{again(row)}\n{waits[1]}"
        (found,) = severe(products(early, schedule)).items()
        assert found[0] in ("race-unordered", "race-mma-unwaited")
        assert f"shared byte {hex(FIRST + 32 * row + 16)}" in found[1]
        late = f"{head}\n{waits[0]}\n{waits[1]}\n{again(row)}"
        assert not severe(products(late, schedule))


@ROWS
@SCHEDULES
def test_a_copy_reads_one_chunk_beside_products(row: int, schedule: Schedule) -> None:
    copy = (
        f"setp.eq.u32 %p6, %t, 96; @%p6 cp.async.bulk.global.shared::cta.bulk_group"
        f" [%a0], [{FIRST + 32 * row + 16}], 16;\n@%p6 cp.async.bulk.commit_group;"
    )
    done = "@%p6 cp.async.bulk.wait_group.read 0;"
    both = f"{mma(0)}\n{commit(0)}\n{mma(1)}\n{commit(1)}"
    first = f"{READY}\n{both}\n{wait(BARS[0])}\n{wait(BARS[1])}\n{copy}\n{SYNC}\n{AFTER}"
    second = f"{both}\n{wait(BARS[0], 1)}\n{wait(BARS[1], 1)}"
    missing = f"{first}\n{second}\n{again(row)}\n{SYNC}\n{done}"
    assert severe(products(missing, schedule)).keys() == {"race-copy-unwaited"}
    assert not severe(products(f"{first}\n{second}\n{done}\n{SYNC}\n{again(row)}", schedule))


@SCHEDULES
def test_stores_of_warps_of_which_one_has_waited(schedule: Schedule) -> None:
    """Warp 1 stores over what an asynchronous store wrote, after a wait for it; warp 2 over another chunk."""

    def store(chunk: int, bar: int) -> str:
        form = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
        return f"{form} [{FIRST + 16 * chunk}], {{%t, %t, %t, %t}}, [{bar}];"

    def at(waits: str) -> dict[str, str]:
        expects = "\n".join(f"@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bar}], 32;" for bar in BARS)
        body = f"""{init_barrier(BARS[0])} {init_barrier(BARS[1])}
        setp.eq.u32 %p2, %t, 0; setp.eq.u32 %p3, %t, 32; setp.eq.u32 %p4, %t, 64;
        {expects}\n{SYNC}
        @%p2 {store(0, BARS[0])}\n@%p2 {store(1, BARS[0])}\n{SYNC}
        setp.lt.u32 %p6, %t, 32; @%p6 bra DONE;
        setp.ge.u32 %p6, %t, 64; @%p6 bra SECOND;
        {wait(BARS[0])}
        @%p3 {store(0, BARS[1])}
        bra.uni DONE;
        SECOND: {waits}
        @%p4 {store(1, BARS[1])}
        DONE: {wait(BARS[0])} {wait(BARS[1])}"""
        return severe(run(body, threads=96, shared_bytes=0x4000, schedule=schedule, races=True))

    assert not at(wait(BARS[0]))
    (found,) = at("").items()
    assert found[0] == "race-copy-unwaited"
    assert f"shared byte {hex(FIRST + 16)}" in found[1]
