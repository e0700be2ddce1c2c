# ruff: noqa: E501 - PTX lines are kept whole
"""Rows H33, H36, N24, N25, N27, N31, N32 and R31 to R36 of the corpus: tensor memory without its owner, reuse without a barrier,
stores that are writes, rows of a neighbour, and outputs of other widths, rows and orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.emulator import Memory, RunResult, Schedule
from tileproof.spec.problems import problem_type

from tests.corpus.test_found_since import pair_of_loops
from tests.corpus.test_found_since_schedules import EVERY_POLICY, severe
from tests.emulator import test_wgmma_rules as wgmma
from tests.emulator.test_races import AFTER, BEFORE, CLEAR, LD, QUARTER, ST, WAIT_LD, WAIT_ST
from tests.kit.dump_defects import DEFECTS, defect_inputs
from tests.kit.dumps import dump
from tests.kit.ptx import alloc, dealloc, init_barrier, run, wait
from tests.kit.wgmma import run_program

FEW = EVERY_POLICY[::4]


def launched(
    body: str, size: int, schedule: Schedule, threads: int = 64, **how: Any
) -> tuple[RunResult, Any]:
    """The result and `size` words that the program writes to %a0."""
    memory = Memory()
    out = memory.empty(size, np.uint32)
    how = {"threads": threads, "shared_bytes": 4096, "schedule": schedule, "races": True, **how}
    return run(body, [out], memory=memory, **how), out.numpy()


OWN = "mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1],"


@pytest.mark.corpus("H33")
def test_H33_a_warp_frees_tensor_memory_that_others_still_read() -> None:
    def program(waits: str) -> str:
        return f"""{init_barrier(1024)} @%p0 mbarrier.init.shared::cta.b64 [1032], 128; bar.sync 0;
        {alloc(32)} {QUARTER} {CLEAR} add.u32 %r70, %t, 5; {ST} {WAIT_ST} {LD} {WAIT_LD} {OWN} %r60;
        {BEFORE} mbarrier.arrive.shared::cta.b64 _, [1032]; shr.u32 %r2, %t, 5; setp.ne.u32 %p3, %r2, 0; @%p3 exit;
        {waits} {AFTER} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"""

    for schedule in EVERY_POLICY:
        result, seen = launched(program(wait(1032)), 128, schedule, threads=128)
        assert not severe(result) and (seen == np.arange(128) + 5).all()
        result, _ = launched(program(""), 128, schedule, threads=128)
        assert severe(result) & {"race-unordered", "race-tmem-released", "tmem-not-allocated"}
        if "tmem-not-allocated" not in severe(result):  # else the deallocation came first
            assert any(
                "tcgen05.dealloc" in f"{f.machine.instruction} {f.machine.race}" for f in result.errors
            )


@pytest.mark.corpus("H36")
def test_H36_tensor_memory_that_nobody_allocated() -> None:
    access = f"{CLEAR} {ST} {WAIT_ST} {LD} {WAIT_LD} {OWN} %r60;"
    for schedule in FEW:
        result, seen = launched(f"{alloc(32)} {QUARTER} {access} {dealloc(32)}", 128, schedule, threads=128)
        assert not severe(result) and not seen.any()
        result, _ = launched(f"mov.u32 %r100, 0; {QUARTER} {access}", 128, schedule, threads=128)
        assert "tmem-not-allocated" in severe(result)


@pytest.mark.corpus("R31")
def test_R31_the_staging_tile_is_filled_again_while_a_bulk_store_reads_it() -> None:
    def program(reads: str) -> str:
        tiles = "".join(
            f"""add.u32 %r2, %t, {100 * tile}; st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0; @!%p0 bra.uni NEXT{tile};
            add.u64 %rd2, %a0, {256 * tile}; cp.async.bulk.global.shared::cta.bulk_group [%rd2], [2048], 256; cp.async.bulk.commit_group; {reads}
            NEXT{tile}: bar.sync 0;"""
            for tile in range(3)
        )
        return (
            f"setp.eq.u32 %p0, %t, 0; mad.lo.u32 %r1, %t, 4, 2048; {tiles} @%p0 cp.async.bulk.wait_group 0;"
        )

    wanted = np.concatenate([100 * tile + np.arange(64) for tile in range(3)])
    wrong_values = 0
    for schedule in EVERY_POLICY:
        result, seen = launched(program("cp.async.bulk.wait_group.read 0;"), 192, schedule)
        assert not severe(result) and (seen == wanted).all()
        result, seen = launched(program(""), 192, schedule)
        assert severe(result)
        assert all(found.code.startswith("race-") for found in result.errors)
        wrong_values += bool((seen != wanted).any())
    assert wrong_values


@pytest.mark.corpus("R32")
def test_R32_each_barrier_that_a_compiler_left_out() -> None:
    """Eight exchanges of 64 words, each with a barrier after the store and after the load."""

    def program(gone: int) -> str:
        lines, at = [], 0
        for step in range(4):
            for line in (
                f"st.shared.u32 [%r1], %r2; #st{step}",
                "ld.shared.u32 %r3, [%r4]; add.u32 %r2, %r2, %r3;",
            ):
                lines.append(line.split("#")[0] + ("" if at == gone else " bar.sync 0;"))
                at += 1
        return (
            "mad.lo.u32 %r1, %t, 4, 2048; xor.b32 %r5, %t, 63; mad.lo.u32 %r4, %r5, 4, 2048; mov.u32 %r2, %t;\n"
            + "\n".join(lines)
            + f"\n{OWN} %r2;"
        )

    for schedule in FEW:
        result, seen = launched(program(-1), 64, schedule)
        assert not result.findings and (seen == 8 * 63).all()
        for gone in range(7):  # after the last load no other access follows
            result, _ = launched(program(gone), 64, schedule)
            assert "race-unordered" in severe(result), gone


@pytest.mark.corpus("R33")
def test_R33_a_bulk_store_of_zeros_is_a_write() -> None:
    def program(sync: str) -> str:
        return f"""mad.lo.u32 %r1, %t, 4, 2048; add.u32 %r2, %t, 1; st.shared.u32 [%r1], %r2; bar.sync 0;
        setp.ne.u32 %p1, %t, 0; @%p1 bra.uni ALL; st.bulk.weak.shared::cta [2048], 128, 0; ALL: {sync}
        ld.shared.u32 %r3, [%r1]; {OWN} %r3;"""

    for schedule in EVERY_POLICY:
        result, seen = launched(program("bar.sync 0;"), 64, schedule)
        assert not result.findings and not seen[:32].any() and (seen[32:] == np.arange(33, 65)).all()
        result, _ = launched(program(""), 64, schedule)
        assert severe(result) == {"race-unordered"}
        assert all("st.bulk" in f"{f.machine.instruction} {f.machine.race}" for f in result.errors)


@pytest.mark.corpus("R34")
def test_R34_a_swizzled_round_trip_without_a_barrier() -> None:
    """A thread stores a row of 8 words in chunks exchanged by its row, and loads a column."""

    def program(sync: str) -> str:
        stores = "".join(
            f"xor.b32 %r4, %r2, {chunk}; mad.lo.u32 %r4, %r4, 4, %r3; add.u32 %r5, %r6, {chunk}; st.shared.u32 [%r4], %r5;"
            for chunk in range(8)
        )
        return f"""and.b32 %r2, %t, 7; mad.lo.u32 %r3, %t, 32, 2048; shl.b32 %r6, %t, 3; {stores} {sync}
        shr.u32 %r7, %t, 3; and.b32 %r8, %t, 7; xor.b32 %r9, %r7, %r8; mad.lo.u32 %r10, %r8, 32, 2048; mad.lo.u32 %r10, %r9, 4, %r10;
        ld.shared.u32 %r11, [%r10]; {OWN} %r11;"""

    transposed = np.arange(64).reshape(8, 8).T.ravel()
    for schedule in EVERY_POLICY:
        result, seen = launched(program("bar.sync 0;"), 64, schedule)
        assert not result.findings and (seen == transposed).all()
        result, _ = launched(program(""), 64, schedule)
        assert "race-unordered" in severe(result)


@pytest.mark.corpus("R35")
def test_R35_a_block_reads_the_row_that_its_neighbour_changes() -> None:
    def program(shift: int) -> str:
        return f"""mov.u32 %r1, %ctaid.x; add.u32 %r2, %r1, {shift}; and.b32 %r2, %r2, 1; mad.lo.u32 %r3, %r2, 64, %t;
        mad.wide.u32 %rd1, %r3, 4, %a0; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, 1;
        mad.lo.u32 %r5, %r1, 64, %t; mad.wide.u32 %rd2, %r5, 4, %a0; st.global.u32 [%rd2], %r4;"""

    for schedule in EVERY_POLICY:
        memory = Memory()
        rows = memory.buffer(np.repeat(np.array([10, 20], np.uint32), 64))
        how: dict[str, Any] = {
            "threads": 64,
            "grid": 2,
            "schedule": schedule,
            "races": True,
            "memory": memory,
        }
        assert not run(program(0), [rows], **how).findings and rows.numpy()[[0, 64]].tolist() == [11, 21]
        assert severe(run(program(1), [rows], **how)) == {"race-clusters"}


@pytest.mark.corpus("N27")
def test_N27_less_is_cleared_than_is_added_to() -> None:
    def program(cleared: int) -> str:
        return f"""mad.wide.u32 %rd1, %t, 4, %a0; setp.lt.u32 %p1, %t, {cleared}; @%p1 st.global.f32 [%rd1], 0f00000000;
        red.global.add.f32 [%rd1], 0f3F800000;"""

    for schedule in FEW:
        result, seen = launched(program(64), 64, schedule)
        assert not severe(result) and (seen.view(np.float32) == 1).all()
        result, seen = launched(program(61), 64, schedule)
        assert "global-uninitialised" in severe(result) and (seen.view(np.float32) != 1).sum() == 3


@pytest.mark.corpus("N31")
def test_N31_a_pair_takes_the_count_of_its_first_cta_for_both() -> None:
    first = "setp.ne.u32 %p5, %r1, 0; @%p5 mov.u32 %r2, %r3;"
    for schedule in EVERY_POLICY:
        assert pair_of_loops(first, (4, 3), schedule)[1] == 0  # over zeros behind the end
        result, off = pair_of_loops(first, (3, 5), schedule)
        assert not result.errors and off == -22000  # nothing waits for the two tiles: the value tells


@pytest.mark.corpus("R36")
def test_R36_registers_of_a_wgmma_change_in_flight() -> None:
    read = wgmma.A_ONES + wgmma.START + wgmma.FROM_A + wgmma.COMMIT
    change = "mov.b32 %x1, 5;\n"
    for schedule in FEW:
        out, result = run_program(read + wgmma.ALL + change + wgmma.OUT, schedule=schedule)
        assert not result.findings and wgmma.sixteens(out)
        _, result = run_program(read + change + wgmma.ALL + wgmma.OUT, schedule=schedule)
        assert {finding.code for finding in result.errors} == {"wgmma-in-flight"}


PROBLEM = problem_type("sparse_mla_bwd")
DEFECT = {each.id: each for each in DEFECTS}


def of_a_dump(name: str) -> tuple[str, str]:
    """The stage and the cause of a defect that is planted in a dump (`tests/kit/dump_defects.py`)."""
    planted = DEFECT[name]
    tensors = dump(defect_inputs(), {planted.at: planted.mistake})
    made = judge_tensors(PROBLEM, named(PROBLEM, tensors), "dump")
    assert made.verdict == "defect"
    return made.findings[0].problem.stage, made.findings[0].cause  # type: ignore[return-value]


@pytest.mark.corpus("N24")
def test_N24_an_output_is_as_wide_as_another() -> None:
    stage, cause = of_a_dump("dq-without-rope")
    assert stage == "dQ" and "is missing" in cause


@pytest.mark.corpus("N25")
def test_N25_rows_of_another_index_set() -> None:
    stage, cause = of_a_dump("dkv-by-slot")
    assert stage == "dKV" and "row of its number" in cause


@pytest.mark.corpus("N32")
def test_N32_a_reader_with_another_swizzle() -> None:
    """It is deterministic, so that a repeat agrees; the values are those of other places."""
    stage, cause = of_a_dump("P-swizzled-twice")
    assert stage == "P" and "stored to a wrong address" in cause
