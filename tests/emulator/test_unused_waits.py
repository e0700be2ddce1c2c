# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""A wait whose result is unused orders nothing for its thread, whatever the schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.program import NONE
from tileproof.emulator.slots import layout_of
from tileproof.emulator.unused_waits import unused_waits

from tests.kit.ptx import POLICIES, Memory, clean, init_barrier, kernel_text, line_of, parsed, run, wait

FULL, DATA = 1024, 2048
TRY = f"mbarrier.try_wait.parity.shared::cta.b64 %p15, [{FULL}], 0;"
TEST = TRY.replace("try_wait", "test_wait")
LOAD = f"ld.shared.b32 %r1, [{DATA}];"
START = f"{init_barrier(FULL)}\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\nsetp.lt.u32 %p1, %t, 32;\nsetp.eq.u32 %p2, %t, 32;"
STORED = f"@%p2 st.shared.b32 [{DATA}], %t;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [{FULL}];"
COPIED = f"""@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 16;
@%p2 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{DATA}], [%a0], 16, [{FULL}];"""
AGAIN = "AGAIN:"

# What a way on depends on.
USED = {
    "loop": f"{AGAIN}\n{TRY}\n@!%p15 bra AGAIN;",
    "polled": f"{AGAIN}\n{TEST}\n@!%p15 bra AGAIN;",
    "in a register": f"{AGAIN}\n{TRY}\nselp.b32 %r5, 1, 0, %p15;\nsetp.eq.s32 %p3, %r5, 0;\n@%p3 bra AGAIN;",
    "peek": f"{TRY}\nselp.b32 %r5, 1, 0, %p15;\nsetp.ne.s32 %p3, %r5, 0;\n@%p3 bra OVER;\n{wait(FULL)}\nOVER:",
    "peek, kept past a second": f"{TEST}\nmov.pred %p4, %p15;\n{TEST}\nand.pred %p5, %p4, %p15;\n"
    f"@%p5 bra OVER;\n{wait(FULL)}\nOVER:",
    "leaves": f"{TRY}\n@!%p15 ret;",
    "guard": f"{TRY}\n@%p15 {LOAD}\n@!%p15 mov.b32 %r1, 0;\n{wait(FULL)}",
}  # fmt: skip
# Nothing does.
UNUSED = {
    "once": TRY,
    "tested once": TEST,
    "overwritten": f"{TRY}\nsetp.eq.u32 %p15, %t, %t;\n@!%p15 bra END;",
    "in a register that nothing reads": f"{TRY}\nselp.b32 %r5, 1, 0, %p15;\nsetp.eq.s32 %p3, %r5, 0;",
    "sleeps": f"{TRY}\n@!%p15 nanosleep.u32 20;",
    "a branch to where it goes anyway": f"{TRY}\n@%p15 bra NEXT;\nNEXT:",
    "counted": f"mov.b32 %r5, 3;\n{AGAIN}\n{TRY}\nsub.s32 %r5, %r5, 1;\nsetp.ne.s32 %p3, %r5, 0;\n@%p3 bra AGAIN;",
}  # fmt: skip


def body(waits: str, producer: str = STORED, load: str = LOAD) -> str:
    """Warp 1 produces, warp 0 waits."""
    return f"{START}\n@%p1 bra CONSUMER;\n{producer}\nbra END;\nCONSUMER:\n{waits}\n{load}\nEND:"


def launched(text: str, schedule: Schedule) -> RunResult:
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    return run(text, [source], memory=memory, threads=64, shared_bytes=0x1000, races=True, schedule=schedule)


def unused(text: str) -> list[bool]:
    """Of each wait of a text, in order, whether nothing heeds it."""
    code = parsed(kernel_text(text, [False])).decode("k").code
    slots = layout_of("mbarrier.wait")
    names = parsed(kernel_text(text, [False])).decode("k").names
    return [bool(row["m"][slots.modifiers.index("unused")]) for row in code if "_wait" in names[row["name"]]]


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("producer", [STORED, COPIED], ids=["stored", "copied"])
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_wait_that_is_heeded_orders(name: str, producer: str, schedule: Schedule) -> None:
    text = body(USED[name], producer)
    assert not any(unused(text)[: USED[name].count("_wait")])
    clean(launched(text, schedule))


@pytest.mark.parametrize("name", UNUSED)
@pytest.mark.parametrize("producer", [STORED, COPIED], ids=["stored", "copied"])
@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 1), Schedule("pct", 1)], ids=str)
def test_one_that_nothing_heeds_is_found_under_every_schedule(
    name: str, producer: str, schedule: Schedule
) -> None:
    text = body(UNUSED[name], producer)
    assert all(unused(text))
    found = [f for f in launched(text, schedule).findings if f.severity == "error"]
    assert found
    # The wait gave up before the copy came; the kernel may also end before it.
    if found[0].code in ("shared-uninitialised", "shared-pending", "access-after-exit"):
        return
    assert found[0].code.startswith("race-")
    kind = "test" if UNUSED[name].startswith(TEST) else "try"
    line = line_of(text, "_wait.parity", [False])
    last = line_of(text, LOAD, [False]) - 1  # of two waits the second
    where = f"mbarrier.{kind}_wait.parity.shared::cta.b64 at PTX line "
    named = found[0].message.split("missing: ")[1].split(where)[1]
    assert line <= int(named.split()[0].strip(",")) <= last


def test_the_finding_names_the_wait_and_why() -> None:
    text = body(TRY)
    line = line_of(text, "try_wait", [False])
    (found,) = (f for f in launched(text, Schedule("early")).findings if f.code == "race-unordered")
    assert found.message.endswith(
        f"missing: a loop around mbarrier.try_wait.parity.shared::cta.b64 at PTX line {line}, until it is true: "
        "here it was, but nothing asks for its result, and it may give up (PTX ISA 9.7.13.15.16)"
    )


def test_one_that_gave_up_is_named_too() -> None:
    text = body(TEST, COPIED)
    line = line_of(text, "test_wait", [False])
    (found,) = (f for f in launched(text, Schedule("early")).findings if f.code == "race-unordered")
    assert found.message.endswith(
        f"; before it mbarrier.test_wait.parity.shared::cta.b64 at PTX line {line} gave up, and nothing asks for "
        "its result: a loop around it, until it is true"
    )


def test_a_second_wait_in_a_loop_orders_what_the_first_does_not() -> None:
    for schedule in POLICIES:
        clean(launched(body(f"{TRY}\n{wait(FULL)}"), schedule))


def test_what_another_warp_hands_on_is_traced_to_its_wait() -> None:
    """Warp 0 tries once and meets warp 2, which reads: the wait of warp 0 is what is missing."""
    text = (
        f"{START}\nsetp.lt.u32 %p6, %t, 64;\nsetp.ge.u32 %p7, %t, 64;\n@%p1 bra TRIES;\n@%p7 bra MEETS;\n"
        f"{STORED}\nbra END;\nTRIES:\n{TRY}\nMEETS:\nbar.sync 1, 64;\n@%p7 {LOAD}\nEND:"
    )
    line = line_of(text, "try_wait", [False])
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    result = run(text, [source], memory=memory, threads=96, shared_bytes=0x1000, races=True)
    (found,) = (f for f in result.findings if f.code == "race-unordered")
    assert f"a loop around mbarrier.try_wait.parity.shared::cta.b64 at PTX line {line}, " in found.message


def test_a_value_that_is_stored_is_heeded() -> None:
    text = body(f"{TRY}\nselp.b32 %r5, 1, 0, %p15;\nst.shared.b32 [{DATA + 64}], %r5;")
    assert unused(text) == [False]


def test_a_program_without_waits_has_none() -> None:
    decoded = parsed(kernel_text("mov.b32 %r1, 0;")).decode("k")
    assert unused_waits(decoded.code, []) == () and NONE < 0


def test_a_commit_that_was_only_tried_for_is_not_waited_for() -> None:
    commit = f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{FULL}];"
    right = f"{init_barrier(FULL)}\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n{commit}\n"
    clean(run(right + wait(FULL), threads=32, shared_bytes=0x1000, races=True))
    text = right + TRY
    (found,) = run(text, threads=32, shared_bytes=0x1000, races=True).findings
    assert found.code == "race-commit-exit"
    line = line_of(text, "try_wait")
    assert (
        f"missing: a loop around mbarrier.try_wait.parity.shared::cta.b64 at PTX line {line}, "
        in found.message
    )
