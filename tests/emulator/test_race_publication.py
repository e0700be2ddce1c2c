# ruff: noqa: E501 - PTX lines are kept whole
"""Words that are written for others: the address of tcgen05.alloc, a value that several warps write alike."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import POLICIES, Memory, dealloc, run

ALLOC = "setp.lt.u32 %p1, %t, 32;\n@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 32;"


def codes(result: RunResult) -> set[str]:
    return {f.code for f in result.findings}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_the_address_of_an_allocation_is_there_for_its_warp(schedule: Schedule) -> None:
    # PTX ISA 9.7.16.7.1, example: alloc, then ld.shared of the address by the same warp, without a barrier.
    def at(readers: str, edge: str) -> RunResult:
        body = f"{ALLOC}\n{edge}\n{readers} ld.shared.u32 %r100, [1088];\nbar.sync 0;\nld.shared.u32 %r100, [1088];\n{dealloc(32)}"
        return run(body, threads=64, shared_bytes=256, schedule=schedule, races=True)

    assert codes(at("@%p1", "")) == set()
    assert codes(at("", "bar.sync 0;")) == set()
    assert codes(at("@!%p1", "")) & {"race-unordered", "shared-uninitialised"}


def test_one_lane_publishes_the_address_for_its_warp() -> None:
    # Lane 5 of the allocating warp arrives; lane 0 need not have joined it.
    body = f"""setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [1024], 1;\nbar.sync 0;\n{ALLOC}
setp.eq.u32 %p2, %t, 5;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [1024];
W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [1024], 0;\n@!%p3 bra W;\nld.shared.u32 %r100, [1088];\n{dealloc(32)}"""
    assert codes(run(body, threads=64, shared_bytes=256, races=True)) == set()


def replicated(value: str, then: str = "", space: str = "shared") -> RunResult:
    """Both warps store `value` to a word of each lane, then do `then`."""
    memory = Memory()
    data = memory.buffer(np.zeros(32, np.uint32))
    body = "and.b32 %r1, %t, 31; shr.u32 %r9, %t, 5; setp.lt.u32 %p1, %t, 32;\n"
    if space == "shared":
        body += (
            f"mad.lo.u32 %r2, %r1, 4, 1024; st.shared.u32 [%r2], {value};\n{then}\nld.shared.u32 %r3, [%r2];"
        )
    else:
        body += f"mad.wide.u32 %rd2, %r1, 4, %a0; st.global.u32 [%rd2], {value};\n{then}\nld.global.u32 %r3, [%rd2];"
    return run(body, [data], memory=memory, threads=64, shared_bytes=256, races=True)


@pytest.mark.parametrize("space", ["shared", "global"])
def test_the_same_value_written_by_two_warps_is_a_note(space: str) -> None:
    same = replicated("%r1", "bar.sync 0;", space)
    assert {(f.code, f.severity) for f in same.findings} == {("race-same-value", "note")}
    differs = replicated("%t", "bar.sync 0;", space)
    assert {(f.code, f.severity) for f in differs.findings} == {("race-unordered", "error")}


def test_one_byte_of_many_that_differs_is_a_race() -> None:
    body = """and.b32 %r1, %t, 31; shr.u32 %r9, %t, 5; setp.eq.u32 %p2, %t, 40; mov.u32 %r5, %r1; @%p2 mov.u32 %r5, 0x01000008;
mad.lo.u32 %r2, %r1, 4, 1024; st.shared.u32 [%r2], %r5;"""
    result = run(body, threads=64, shared_bytes=256, races=True)
    assert codes(result) == {"race-same-value", "race-unordered"}
    (race,) = [f for f in result.findings if f.code == "race-unordered"]
    assert race.count == 1 and 1024 + 32 <= race.machine.address < 1024 + 36


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_reader_of_what_two_wrote_alike_must_be_ordered_after_one(schedule: Schedule) -> None:
    # Warp 1 alone releases to the reader. What warp 0 writes is the same, or not.
    def at(value: str, edge: str = "") -> RunResult:
        body = f"""setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [1024], 1;\nbar.sync 0;
setp.ge.u32 %p1, %t, 64;\n@%p1 bra READER;\nsetp.eq.u32 %p2, %t, 32;\nand.b32 %r1, %t, 31;\nsetp.eq.u32 %p3, %r1, 0;
@%p3 st.shared.u32 [1088], {value};\n@%p2 mbarrier.arrive.shared::cta.b64 _, [1024];\nbra END;
READER:\nW: mbarrier.try_wait.parity.shared::cta.b64 %p3, [1024], 0;\n@!%p3 bra W;\n{edge}\nld.shared.u32 %r3, [1088];\nEND:"""
        return run(body, threads=96, shared_bytes=256, races=True, schedule=schedule)

    assert codes(at("7")) == {"race-same-value"}
    assert {f.severity for f in at("7").findings} == {"note"}
    assert "race-unordered" in codes(at("%t"))
    # A read that the value cannot help: nothing orders it after either write.
    body = "setp.ge.u32 %p1, %t, 64; and.b32 %r1, %t, 31; setp.eq.and.u32 %p3, %r1, 0, !%p1;"
    result = run(
        f"{body}\n@%p3 st.shared.u32 [1088], 7;\n@%p1 ld.shared.u32 %r3, [1088];",
        threads=96,
        shared_bytes=256,
        races=True,
        schedule=schedule,
    )
    assert {f.code for f in result.errors} & {"race-unordered", "shared-uninitialised"}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_two_ctas_write_a_word_alike_and_read_it(schedule: Schedule) -> None:
    def at(value: str, before: str = "") -> RunResult:
        memory = Memory()
        data = memory.buffer(np.zeros(32, np.uint32))
        body = f"mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %t, 4, %a0; {before} st.global.u32 [%rd1], {value}; ld.global.u32 %r3, [%rd1];"
        return run(body, [data], memory=memory, grid=3, races=True, schedule=schedule)

    assert {(f.code, f.severity) for f in at("%t").findings} == {("race-same-value", "note")}
    assert "race-clusters" in {f.code for f in at("%r1").errors}
    # Its own write is what makes the value known: a read before it may see the buffer's.
    assert "race-clusters" in {f.code for f in at("%t", "ld.global.u32 %r4, [%rd1];").errors}


def test_clusters_that_write_the_same_value() -> None:
    def at(value: str) -> RunResult:
        memory = Memory()
        data = memory.buffer(np.zeros(32, np.uint32))
        body = f"mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], {value};"
        return run(body, [data], memory=memory, grid=3, races=True)

    assert codes(at("%t")) == {"race-same-value"}
    assert codes(at("%r1")) == {"race-clusters"}


@pytest.mark.parametrize("schedule", [Schedule("early"), Schedule("late"), Schedule("random", 2)])
def test_one_store_that_every_lane_issues(schedule: Schedule) -> None:
    """CUTLASS's epilogues let a warp's lanes issue the same bulk store: a note where the bytes are the same."""
    for source, code in (("2048", "race-same-value"), ("%r3", "race-copy-unwaited")):
        memory = Memory()
        out = memory.empty((4,), np.uint32)
        body = (
            "mad.lo.u32 %r3, %t, 16, 2048; st.shared.v4.u32 [%r3], {%t, 1, 2, 3}; fence.proxy.async;"
            f"bar.warp.sync -1; cp.async.bulk.global.shared::cta.bulk_group [%a0], [{source}], 16;"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
        result = run(body, [out], memory=memory, shared_bytes=2048, races=True, schedule=schedule)
        assert codes(result) == {code}
        assert all(f.severity == ("note" if code == "race-same-value" else "error") for f in result.findings)
