"""Whose wait a look of the machine code is: each form that ptxas makes of waits and predicates, in kernels
made by hand whose clocks follow from the figures; a look at another barrier is refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.beside.timing.model import Played, played
from tileproof.conformance.beside.timing.sass import assemble
from tileproof.conformance.beside.timing.wait_tests import is_wait_test, resolved
from tileproof.emulator import Memory, Module
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import HOPPER

HEAD = """.version 8.7
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<9>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b64 bars[4];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r6, [rounds];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, bars;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra MADE;
    mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.init.shared.b64 [%r2+8], 1;
    mbarrier.init.shared.b64 [%r2+16], 1;
MADE:
    bar.sync 0;
    shr.u32 %r3, %r1, 5;
    and.b32 %r8, %r1, 31;
    mov.u32 %r4, 0;
"""
TAIL = """
    ret;
}
"""
WAIT = """
{label}:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2+{offset}], %r5;
    @!%p2 bra {label};
"""
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r2+{offset}];\n"
# Warp 1 arrives at two barriers in turn, warp 0 waits for both with nothing in between.
TWO = (
    "and.b32 %r7, %r8, %r8;\n setp.ne.u32 %p5, %r8, 0;\n @%p5 bra DONE;\n"
    "LOOP: and.b32 %r5, %r4, 1;\n setp.eq.u32 %p3, %r3, 0;\n @%p3 bra WAITS;\n"
    + ARRIVE.format(offset=0) + ARRIVE.format(offset=8) + WAIT.format(label="BACK", offset=16)
    + "bra NEXT;\nWAITS:\n" + WAIT.format(label="FIRST", offset=0) + WAIT.format(label="SECOND", offset=8)
    + ARRIVE.format(offset=16)
    + "NEXT: add.u32 %r4, %r4, 1;\n setp.lt.u32 %p4, %r4, %r6;\n @%p4 bra LOOP;\nDONE:\n"
)  # fmt: skip
# Warp 0 waits in all rounds but the first, warp 1 arrives in all but the last.
PREDICATED = (
    "setp.ne.u32 %p5, %r8, 0;\n @%p5 bra DONE;\n sub.u32 %r7, %r6, 1;\n"
    "LOOP: add.u32 %r5, %r4, 1;\n and.b32 %r5, %r5, 1;\n setp.eq.u32 %p3, %r3, 0;\n @%p3 bra WAITS;\n"
    "setp.eq.u32 %p6, %r4, %r7;\n @%p6 bra NEXT;\n xor.b32 %r5, %r5, 1;\n" + ARRIVE.format(offset=0)
    + WAIT.format(label="BACK", offset=16) + "bra NEXT;\n"
    "WAITS: setp.eq.u32 %p6, %r4, 0;\n @%p6 bra NEXT;\n" + WAIT.format(label="FIRST", offset=0)
    + ARRIVE.format(offset=16)
    + "NEXT: add.u32 %r4, %r4, 1;\n setp.lt.u32 %p4, %r4, %r6;\n @%p4 bra LOOP;\nDONE:\n"
)  # fmt: skip
# There and back, each arrival under a predicate of the warp.
THERE_AND_BACK = (
    "setp.ne.u32 %p5, %r8, 0;\n @%p5 bra DONE;\n shl.b32 %r7, %r3, 3;\n add.u32 %r7, %r2, %r7;\n"
    "xor.b32 %r8, %r3, 1;\n shl.b32 %r8, %r8, 3;\n add.u32 %r8, %r2, %r8;\n"
    "LOOP: and.b32 %r5, %r4, 1;\n setp.ne.u32 %p3, %r3, 0;\n @%p3 bra W;\n"
    "mbarrier.arrive.shared.b64 _, [%r8];\n"
    "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r7], %r5;\n @!%p2 bra W;\n"
    "setp.eq.u32 %p3, %r3, 0;\n @%p3 bra NEXT;\n mbarrier.arrive.shared.b64 _, [%r8];\n"
    "NEXT: add.u32 %r4, %r4, 1;\n setp.lt.u32 %p4, %r4, %r6;\n @%p4 bra LOOP;\nDONE:\n"
)  # fmt: skip


def run(body: str, rounds: int) -> Played:
    ptx = HEAD + body + TAIL
    module = Module.from_ptx(ptx)
    memory = Memory()
    result = module.launch(
        "kernel",
        grid=(1,),
        block=(64,),
        args=[memory.buffer(np.zeros(64, np.float32)), rounds],
        memory=memory,
        trace=True,
        path=True,
    )
    assert not result.findings, result.findings
    assert result.trace is not None
    return played(module, ptx, "kernel", "sm_90", result, result.trace)


def waits_of(made: Played, line: int) -> int:
    return sum(len(lines.get(line, ())) for lines in made.work.steps.values())


@pytest.mark.parametrize("body", [TWO, PREDICATED, THERE_AND_BACK], ids=["two", "predicated", "back"])
def test_every_wait_of_the_run_is_found_once(body: str) -> None:
    made = run(body, 7)
    timed = made.clocks(HOPPER, "likely", True)  # or it says what is missing
    lines = {sass.line for sass in made.code.sass if is_wait_test(sass)}
    asked = [
        span for spans in timed.waits.values() for span in spans
        if isinstance(span.cause, tuple) and span.cause[0] == "mbarrier"
    ]  # fmt: skip
    assert asked and {span.line for span in asked} <= lines
    for warp, spans in timed.waits.items():
        phases = [
            span.cause for span in spans if isinstance(span.cause, tuple) and span.cause[0] == "mbarrier"
        ]
        assert len(phases) == len(set(phases)), warp


def test_a_round_there_and_back_takes_two_arrivals_and_two_wakes() -> None:
    few, many = (run(THERE_AND_BACK, rounds).clocks(HOPPER, "likely", True).clocks for rounds in (4, 12))
    least = 2 * (HOPPER.arrive.likely + HOPPER.wake_lane.likely)  # one thread of each warp
    assert least < (many - few) / 8 < 1.35 * least


def test_a_wait_under_a_predicate_does_not_wait_in_the_round_without_it() -> None:
    """The first wait is in round 1, not in round 0: there are 6 in 7 rounds, each for its own phase."""
    made = run(PREDICATED, 7)
    waited = [step for steps in made.work.steps[(0, 0, 0, 0)].values() for step in steps
              if step.waits is not None and step.waits[0] == "mbarrier"]  # fmt: skip
    assert len(waited) == 6
    made.clocks(HOPPER, "likely", True)


def test_the_repeated_look_does_not_run() -> None:
    made = run(TWO, 3)
    ran = {index for stream in made.streams.values() for index, *_ in stream}
    looks = resolved(assemble(HEAD + TWO + TAIL, "sm_90", "kernel"))
    assert looks.repeated
    for first, end in looks.repeated:
        assert not [index for index in ran if first <= made.code.blocks[index][0] < end]


def test_a_look_that_leads_to_one_at_another_barrier_is_refused() -> None:
    """Planted: the repeated look asks another barrier than the first."""
    sass = assemble(HEAD + TWO + TAIL, "sm_90", "kernel")
    first = resolved(sass).repeated[0][0]
    at = next(index for index in range(first, len(sass)) if is_wait_test(sass[index]))
    wrong = replace(sass[at], operands=sass[at].operands.replace("]", "+0x40]").replace("+0x8+", "+"))
    with pytest.raises(TileproofError, match="leads to a test of another barrier"):
        resolved([*sass[:at], wrong, *sass[at + 1 :]])


def test_a_wait_without_machine_code_is_refused_by_its_line() -> None:
    """Planted: nothing in the machine code names the second wait any more."""
    made = run(TWO, 3)
    line = next(
        instruction.line
        for instruction in made.code.sass
        if is_wait_test(instruction) and "+0x8]" in instruction.operands
    )
    sass = [
        replace(instruction, line=0)
        if is_wait_test(instruction) and instruction.line == line
        else instruction
        for instruction in made.code.sass
    ]
    wrong = replace(made, code=replace(made.code, sass=sass))
    with pytest.raises(TileproofError, match=r"synchronising instruction[\s\S]*PTX line"):
        wrong.clocks(HOPPER, "likely", True)
