"""Where an order that nothing fixes decides, a schedule in which the two events come the other way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.explore import Reversal, explore
from tileproof.emulator.schedule_run import OUTPUT, Outputs

from tests.emulator.test_certificate import START, launched
from tests.kit.ptx import Memory, run

STORED = "@%p0 st.global.u32 [%a0+8], %r1;\n@%p2 st.global.u32 [%a0+12], %r1;"
ATOMICS = "@%p0 atom.global.add.u32 %r1, [%a0], 1;\n@%p2 atom.global.add.u32 %r1, [%a0], 1;"
FLAG = "@%p0 st.relaxed.gpu.global.u32 [%a0], 1;\n@%p2 ld.relaxed.gpu.global.u32 %r1, [%a0];"
# -1e8 + 1e8 + 1: 1 in this order, and 0 in the other.
SUM = """@%p0 red.global.add.f32 [%a0+4], 0f4CBEBC20;\n@%p2 red.global.add.f32 [%a0+4], 0f3F800000;
bar.sync 0;\n@%p0 ld.global.u32 %r1, [%a0+4];"""


@dataclass(frozen=True)
class Program:
    """Two warps; `%a0` is the output."""

    body: str

    def __call__(self, **how: Any) -> tuple[RunResult, Outputs]:
        """One launch, as `explore` takes it."""
        memory = Memory()
        out = memory.buffer(np.array([0, np.float32(-1e8).view(np.uint32), 0, 0], np.uint32))
        how.pop("races", None)
        result = launched(f"{START}\nmov.u32 %r1, 0;\n{self.body}", args=[out], memory=memory, **how)
        return result, {"out": out.numpy()}


def reversals(body: str) -> tuple[Reversal, ...]:
    return explore(Program(body), schedules=4, races=True, shrink_seconds=0, processes=1).reversals


@pytest.mark.parametrize("body", [ATOMICS, FLAG, SUM], ids=["atomics", "a flag", "a sum"])
def test_the_other_order_gives_other_outputs(body: str) -> None:
    (found,) = reversals(f"{body}\n{STORED}")
    assert found.schedule.policy == "replay"
    assert "nothing orders" in found.reason or "a sum of" in found.reason
    assert [signature.code for signature in found.shows] == [OUTPUT]


def test_the_other_order_that_changes_nothing() -> None:
    """The results of the atomics are not used; the certificate does not follow that."""
    (found,) = reversals(ATOMICS)
    assert found.shows == () and "the same findings and outputs as early" in str(found)


def test_an_order_that_a_barrier_fixes() -> None:
    first, second = ATOMICS.split("\n")
    result = explore(Program(f"{first}\nbar.sync 0;\n{second}\n{STORED}"), schedules=4, races=True)
    assert result.covered and result.reversals == ()


def test_lanes_of_an_atomic_have_no_schedule() -> None:
    """The engine executes the lanes of an instruction in one order."""
    result, _ = Program("@%p1 atom.global.add.u32 %r1, [%a0], 1;")(races=True)
    texts = [doubt for doubt in result.certificate.doubts if "lanes of" in doubt.text]  # type: ignore[union-attr]
    assert texts and not any(doubt.reversed_by for doubt in texts)


@pytest.mark.parametrize("load", ["ld.global.u32", "ld.relaxed.gpu.global.u32"])
def test_a_read_comes_after_all_reductions(load: str) -> None:
    """A reduction that comes before the last is not forgotten: the read is after the last alone."""
    adds = "@%p0 red.global.add.u32 [%a0], 1;\n@%p2 red.global.add.u32 [%a0], 1;"
    read = f"@%p2 {load} %r1, [%a0];\n{STORED}"
    results = [Program(f"{adds}\n{read}")(schedule=schedule)[0] for schedule in ORDERS]
    assert not any(result.certified for result in results)
    right = [Program(f"{adds}\nbar.sync 0;\n{read}")(schedule=schedule)[0] for schedule in ORDERS]
    assert all(result.certified for result in right)


ORDERS = [Schedule(), Schedule("late"), *(Schedule("random", seed) for seed in range(6))]


ADD = "and.b32 %r2, %t, 31;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 red.global.add.u32 [%a0], 1;"
READ = "\nbar.sync 0;\nsetp.eq.u32 %p0, %t, 0;\n@%p0 ld.relaxed.gpu.global.u32 %r1, [%a0];"


@pytest.mark.parametrize(
    ("text", "grid", "certified"),
    [(ADD + READ, 1, True), (ADD, 4, True), (ADD + READ, 4, False)],
    ids=["read after all", "never read", "read before others"],
)
def test_many_threads_add(text: str, grid: int, certified: bool) -> None:
    """32 warps of each CTA; of more than 64 reductions in no order the oldest are kept together."""
    memory = Memory()
    out = memory.buffer(np.zeros(4, np.uint32))
    result = run(text, [out], memory=memory, threads=1024, grid=grid, races=True)
    assert not result.errors and result.certified is certified, str(result.certificate)
    assert int(out.numpy()[0]) == 32 * grid
