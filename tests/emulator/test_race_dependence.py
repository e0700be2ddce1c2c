# ruff: noqa: E501 - PTX lines are kept whole
"""Look-back: CTA 0 reads words, passes a sum on by a relaxed store, and CTA 1 writes those words where the sum says.

Dependencies alone order the reads before the writes (PTX ISA 8.10.4). A read whose value nothing uses needs none.
"""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.ptx import POLICIES, codes, run

COVERS = "ld st atom shfl"

# %rd1: this thread's word of x, %rd2: the status word; %p0: thread 0 of its CTA.
START = """
mov.u32 %r9, %ctaid.x; mad.wide.u32 %rd1, %t, 4, %a0; mov.u64 %rd2, %a1; setp.eq.u32 %p0, %t, 0; and.b32 %r8, %t, 31;
setp.eq.u32 %p1, %r8, 0; shr.u32 %r7, %t, 5; mad.lo.u32 %r6, %r7, 4, 1024; setp.ne.u32 %p2, %r9, 0; @%p2 bra WRITER;"""
LOAD = "ld.global.u32 %r1, [%rd1];"
KEPT = f"{LOAD} mad.wide.u32 %rd5, %t, 4, %a2; st.global.u32 [%rd5], %r1;"
WARP = """
shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; add.u32 %r1, %r1, %r2; shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1; add.u32 %r1, %r1, %r2;
shfl.sync.bfly.b32 %r2, %r1, 4, 31, -1; add.u32 %r1, %r1, %r2; shfl.sync.bfly.b32 %r2, %r1, 2, 31, -1; add.u32 %r1, %r1, %r2;
shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; add.u32 %r1, %r1, %r2;"""
REDUX = "redux.sync.add.u32 %r1, %r1, -1;"
BLOCK = """
@%p1 st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.v2.u32 {%r3, %r4}, [1024]; add.u32 %r3, %r3, %r4;"""
PUBLISH = "or.b32 %r3, %r3, 0x1000; @%p0 st.relaxed.gpu.global.u32 [%rd2], %r3;"
POLL = "P: ld.relaxed.gpu.global.u32 %r3, [%rd2]; setp.eq.u32 %p3, %r3, 0; @%p3 bra P;"
POLL_ATOM = POLL.replace(
    "ld.relaxed.gpu.global.u32 %r3, [%rd2]", "atom.relaxed.gpu.global.add.u32 %r3, [%rd2], 0"
)
PREFIX = f"@!%p0 bra Q; {POLL} st.shared.u32 [1040], %r3; Q: bar.sync 0; ld.shared.u32 %r3, [1040];"
SCATTER = "sub.u32 %r3, %r3, 0x1000; mad.wide.u32 %rd1, %r3, 4, %rd1; st.global.u32 [%rd1], 7;"


def program(reader: str, writer: str) -> str:
    return f"{START}\n{reader}\nbra END;\nWRITER:\n{writer}\nEND:"


def launched(text: str, schedule: Schedule) -> RunResult:
    """Two CTAs of 64 threads; x is 0, so that the sum is."""
    memory = Memory()
    x, status = memory.buffer(np.zeros(128, np.uint32)), memory.buffer(np.zeros(4, np.uint32))
    kept = memory.buffer(np.zeros(64, np.uint32))
    return run(text, [x, status, kept], memory=memory, threads=64, grid=2, shared_bytes=2048, schedule=schedule, races=True)  # fmt: skip


RIGHT = {
    "shuffles": program(f"{LOAD} {WARP} {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "a reduction of the warp": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "an atomic poll": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX.replace(POLL, POLL_ATOM)} {SCATTER}"),
    "every thread polls": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{POLL} st.global.u32 [%rd1], 7;"),
    "the value": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX} st.global.u32 [%rd1], %r3;"),
    "a selection": program(f"{LOAD} setp.ne.u32 %p4, %r1, 0; selp.u32 %r1, 1, 0, %p4; {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "a guard": program(f"{LOAD} mov.u32 %r2, 0; setp.ne.u32 %p4, %r1, 0; @%p4 add.u32 %r2, %r2, 1; mov.u32 %r1, %r2; {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "a vote": program(f"{LOAD} setp.ne.u32 %p4, %r1, 0; vote.sync.ballot.b32 %r1, %p4, -1; popc.b32 %r1, %r1; {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "a word that all lanes read": program(f"mov.u64 %rd1, %a0; {LOAD} @!%p0 mov.u32 %r1, 0; mov.u32 %r3, %r1; {PUBLISH}", f"mov.u64 %rd1, %a0; {POLL} @%p0 st.global.u32 [%rd1], 7;"),
    "a value that nothing uses": program(f"{LOAD} add.u32 %r1, %r1, 5; mov.u32 %r3, 0; {PUBLISH}", f"{POLL} st.global.u32 [%rd1], 7;"),
    "a value that is not selected": program(f"{LOAD} selp.u32 %r3, 9, %r1, %p0; {PUBLISH}", f"{POLL} st.global.u32 [%rd1], 7;"),
    "volatile": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH.replace('relaxed.gpu', 'volatile')}", f"{PREFIX.replace('relaxed.gpu', 'volatile')} {SCATTER}"),
}  # fmt: skip
WRONG = {
    "a branch": program(f"{LOAD} setp.eq.u32 %p4, %r1, 0; @%p4 bra N; mov.u32 %r2, 0; N: mov.u32 %r3, 0; {PUBLISH}", f"{POLL} st.global.u32 [%rd1], 7;"),
    "a word that all lanes use": program(f"mov.u64 %rd1, %a0; {KEPT} @!%p0 mov.u32 %r1, 0; mov.u32 %r3, %r1; {PUBLISH}", f"mov.u64 %rd1, %a0; {POLL} @%p0 st.global.u32 [%rd1], 7;"),
    "used later": program(f"{LOAD} mov.u32 %r3, 0; {PUBLISH} bar.sync 0; mad.wide.u32 %rd5, %t, 4, %a2; st.global.u32 [%rd5], %r1;", f"{POLL} st.global.u32 [%rd1], 7;"),
    "a constant": program(f"{KEPT} {REDUX} {BLOCK} mov.u32 %r3, 0; {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "one warp is left out": program(f"{LOAD} {REDUX} {BLOCK.replace('add.u32 %r3, %r3, %r4;', '')} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "one lane is left out": program(f"{KEPT} setp.eq.u32 %p4, %r8, 5; @%p4 mov.u32 %r1, 0; {REDUX} {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "one lane stands for its warp": program(f"{KEPT} shfl.sync.idx.b32 %r1, %r1, 3, 31, -1; {BLOCK} {PUBLISH}", f"{PREFIX} {SCATTER}"),
    "read again": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH} {KEPT}", f"{PREFIX} {SCATTER}"),
    "polled once": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", "ld.relaxed.gpu.global.u32 %r3, [%rd2]; st.global.u32 [%rd1], 7;"),
    "another word": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{POLL.replace('[%rd2]', '[%rd2+4]').replace('setp.eq', 'setp.ne')} st.global.u32 [%rd1], 7;"),
    "half of a vector": program(f"setp.ge.u32 %p5, %t, 32; @%p5 bra END; mad.wide.u32 %rd3, %t, 4, %rd1; ld.global.v2.u32 {{%r1, %r2}}, [%rd3]; {REDUX} or.b32 %r3, %r1, 0; {PUBLISH}", f"{POLL} st.global.u32 [%rd1], 7;"),
    "other sizes": program(f"{LOAD} {REDUX} {BLOCK} {PUBLISH}", f"{POLL} st.global.u16 [%rd1], 7;"),
}  # fmt: skip


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
@pytest.mark.parametrize("how", RIGHT)
def test_dependencies_order_a_read_before_a_write(how: str, schedule: Schedule) -> None:
    result = launched(RIGHT[how], schedule)
    assert not codes(result), result.findings
    assert not result.certified  # the status word is read at a moment that the schedule decides


@pytest.mark.parametrize("how", WRONG)
def test_without_a_dependency_it_is_an_error(how: str) -> None:
    for schedule in POLICIES:
        assert "race-clusters" in codes(launched(WRONG[how], schedule)), schedule
