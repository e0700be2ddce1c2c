"""A wait without its loop: mbarrier.try_wait may time out, and at each wait of our kernels that is found."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.explore.explored import Explored
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.explore import explore
from tileproof.emulator.schedule_run import Outputs, ScheduleRunner
from tileproof.kernels.compile import Built
from tileproof.kernels.registry import kernel
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

from tests.kit.ptx import Memory, init_barrier, run
from tests.kit.sampled import sampled

WAITS = {"head64": 26, "head128-part0": 8}
BLOCKS = {"head64": 2, "head128-part0": 6}  # so that each wait comes to a phase that is not complete
# p_free before TMEM is freed: the cluster barrier there orders as well (test_removals.py).
REDUNDANT: dict[str, list[int]] = {"head64": [], "head128-part0": [7]}
# `while (!try_wait(parity)) {}`: the branch back is taken when the predicate was false.
LOOP = re.compile(
    r"mbarrier\.try_wait[^;]*;\s*selp\.b32 (%r\d+), 1, 0, complete;.*?"
    r"setp\.eq\.s32\s+(%p\d+), \1, 0;.*?(@\2 bra\s+\$\w+;)",
    re.S,
)
SCHEDULES = [
    Schedule(policy, seed, points=10_000)  # type: ignore[arg-type]
    for seed in range(20)
    for policy in ("random", "starve", "pct")
]


def explored(name: str, built: Built) -> Explored:
    return Explored.of(kernel(name), built, one_token(576, BLOCKS[name], kernel(name).variants[0]["h_q"]))


def without_loop(built: Built, site: int) -> Built:
    """The branch back taken away at one wait."""
    at = list(LOOP.finditer(built.ptx))[site].start(3)
    return dataclasses.replace(built, ptx=built.ptx[:at] + "//" + built.ptx[at:])


def shown(runner: ScheduleRunner, schedules: list[Schedule], races: bool = False) -> bool:
    """One of the schedules shows an error, a warning (a commit not waited for) or another output."""
    return any(
        seen.severity in ("error", "warning")
        for schedule in schedules
        for seen in runner.run(schedule, races=races)[0].seen
    )


@pytest.mark.parametrize("name", sampled(sorted(WAITS), 2))
def test_every_wait_without_its_loop_is_found(name: str) -> None:
    """By values or a hang; the waits before an exit by the order of accesses."""
    built = kernel(name).build(kernel(name).variant(d_qk=576))
    assert len(LOOP.findall(built.ptx)) == WAITS[name] == built.ptx.count("mbarrier.try_wait")
    right = explored(name, built)
    first = right(schedule=Schedule("early"))[1]
    # The kernel as it is repeats its tries.
    assert not shown(ScheduleRunner(right, first, right.compare), SCHEDULES[:12], races=True)
    missed = []
    for site in range(WAITS[name]):
        wrong = explored(name, without_loop(built, site))
        runner = ScheduleRunner(wrong, first, right.compare)
        if not shown(runner, SCHEDULES) and not shown(runner, SCHEDULES, races=True):
            missed.append(site)
    assert missed == REDUNDANT[name]


BAR = 1024
COPY = f"""{init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 128;
@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a1], 128, [{BAR}];
AGAIN: mbarrier.@@_wait.parity.shared::cta.b64 %p15, [{BAR}], 0;
<<@!%p15 bra AGAIN;>>
mad.lo.u32 %r1, %t, 4, 2048; ld.shared.u32 %r2, [%r1];
mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r2;"""


class Program:
    """32 threads read what a copy brings."""

    def __init__(self, kind: str, loop: bool) -> None:
        body = COPY.replace("@@", kind)
        self.body = body.replace("<<", "").replace(">>", "") if loop else re.sub("<<.*>>", "", body)

    def __call__(self, **how: Any) -> tuple[RunResult, Outputs]:
        memory = Memory()
        out = memory.buffer(np.zeros(32, np.uint32))
        data = memory.buffer(np.arange(32, dtype=np.uint32))
        result = run(self.body, [out, data], memory=memory, shared_bytes=2048, **how)
        return result, {"out": out.numpy()}


@pytest.mark.parametrize("kind", ["try", "test"])
def test_a_loop_is_clean_and_what_has_none_is_found(kind: str) -> None:
    assert not explore(Program(kind, loop=True), schedules=60).causes
    found = explore(Program(kind, loop=False), schedules=60).causes
    assert "shared-pending" in {defect.signature.code for defect in found}


@pytest.mark.parametrize("policy", ["random", "starve", "pct"])
def test_each_of_the_three_policies_lets_a_try_time_out(policy: str) -> None:
    right, wrong = Program("try", loop=True), Program("try", loop=False)
    seeds = [Schedule(policy, seed, points=60) for seed in range(24)]  # type: ignore[arg-type]
    told = [{f.code for f in wrong(schedule=schedule)[0].errors} for schedule in seeds]
    assert any("shared-pending" in codes for codes in told) and set() in told
    assert not any(right(schedule=schedule)[0].findings for schedule in seeds)
    for other in ("early", "late", "late-newest", "late-random"):
        assert not wrong(schedule=Schedule(other, 1))[0].findings  # type: ignore[arg-type]


def test_the_decision_is_recorded_replayed_and_shrunk() -> None:
    wrong = Program("try", loop=False)
    schedule = next(
        s for s in (Schedule("random", seed) for seed in range(24)) if wrong(schedule=s)[0].errors
    )
    recorded = wrong(schedule=schedule, record="late")[0].decisions
    assert any(hold.gives_up and str(hold).endswith("!") for hold in recorded)
    again = schedule.replayed(recorded)
    assert Schedule.parse(str(again)) == again
    assert "shared-pending" in {f.code for f in wrong(schedule=again)[0].errors}
    # Without the try that times out the replay is right.
    assert not wrong(schedule=schedule.replayed(h for h in recorded if not h.gives_up))[0].errors
    (defect,) = [
        cause for cause in explore(wrong, schedules=60).causes if cause.signature.code == "shared-pending"
    ]
    assert defect.shrunk is not None and defect.shrunk.minimal
    (hold,) = defect.shrunk.schedule.decisions
    assert hold.gives_up and "mbarrier.try_wait" in defect.shrunk.lines()[1]
    assert "returns false" in defect.shrunk.lines()[1]
