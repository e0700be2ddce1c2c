# ruff: noqa: E501 - PTX lines are kept whole
"""Programs that differ between schedules, which were certified before, and right twins that are certified."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import (
    CLUSTER_SYNC,
    POLICIES,
    Memory,
    alloc,
    codes,
    dealloc,
    init_barrier,
    run,
    store,
    wait,
)
from tests.kit.wgmma import COMMIT, FENCE, MMA, OUT, ZERO, run_program, wait_group

COVERS = "mbarrier.try_wait mbarrier.test_wait mbarrier.arrive mbarrier.arrive_drop mbarrier.inval"

FULL, DATA = 1024, 1100
EARLY = Schedule()
SAMPLED = [*POLICIES, *(Schedule("random", seed) for seed in range(3, 16))]
WARPS = "setp.ge.u32 %p2, %t, 32; setp.eq.u32 %p4, %t, 32;"
ARRIVE = f"@%p4 mbarrier.arrive.shared::cta.b64 _, [{FULL}];"
TRY, TEST = (f"mbarrier.{kind}_wait.parity.shared::cta.b64" for kind in ("try", "test"))
PHASE = f"[{FULL}], 0;"
STORED = f"mad.lo.u32 %r7, %t, 4, {DATA}; st.shared.u32 [%r7], %r6;"  # ends what a walk follows
FLAG = "selp.u32 %r5, 1, 0,"


def launched(text: str, schedule: Schedule = EARLY, threads: int = 64) -> tuple[RunResult, bytes]:
    """The run, and the array at `%a0`."""
    memory = Memory()
    out = memory.buffer(np.zeros(128, np.uint32))
    result = run(
        text, [out], memory=memory, threads=threads, shared_bytes=2048, races=True, schedule=schedule
    )
    return result, out.numpy().tobytes()


def refused(result: RunResult, *reasons: str) -> None:
    """Nothing was found, and the certificate has these reasons alone."""
    assert not result.errors and not result.certified
    assert {f"{d.reason}: {d.text}" for d in result.certificate.doubts} == set(reasons)  # type: ignore[union-attr]


def certified(text: str) -> None:
    """Certified under each schedule, with equal outputs."""
    runs = [launched(text, schedule) for schedule in SAMPLED]
    for result, _ in runs:
        assert not result.errors and result.certified, str(result.certificate or result.findings)
    assert len({output for _, output in runs}) == 1


def waits(consumer: str) -> str:
    """Warp 1 arrives once; warp 0 waits, and stores %r5."""
    start = f"{init_barrier(FULL)} {WARPS} mov.u32 %r5, 0; mov.u32 %r6, 1; mov.u32 %r9, 0;"
    start += " setp.eq.u32 %p10, %t, %t; setp.ne.u32 %p11, %t, %t;"  # true, false
    return f"{start}\n@%p2 bra PRODUCER;\n{consumer}\n{store('%r5')}\nbra END;\nPRODUCER:\n{ARRIVE}\nEND:"


def peek(first: str, loop: str, after: str, start: str = "") -> str:
    """A wait in a loop that is left out after a true result of another."""
    return waits(f"{start}\n{first}\n@%p13 bra OVER;\nAGAIN:\n{loop}\nOVER:\n{STORED}\n{after}")


def loop(before: str, start: str, after: str = "", left: str = "", result: str = "%p15") -> str:
    """A wait in a loop, with instructions before it that run each time; `start` runs once."""
    wait_ = f"{TRY} {result}, {PHASE}\n{left}\n@!{result} bra AGAIN;"
    return waits(f"{start}\nAGAIN:\n{before}\n{wait_}\n{STORED}\n{after}")


LOOP = f"{TRY} %p15, {PHASE}\n@!%p15 bra AGAIN;"
SAME = f"{TRY} %p13, {PHASE}\n@!%p13 bra AGAIN;"
MAY_CHANGE = {
    "the first result is used": peek(f"{TRY} %p13, {PHASE}", LOOP, f"{FLAG} %p13;"),
    "the first result of a test": peek(f"{TEST} %p13, {PHASE}", LOOP, f"{FLAG} %p13;"),
    "what depends on the first result": peek(
        f"{TRY} %p13, {PHASE}\nselp.u32 %r5, 1, 0, %p13;", LOOP, "add.u32 %r5, %r5, 1;"
    ),
    "the second result is used": peek(
        f"{TRY} %p13, {PHASE}", LOOP, f"{FLAG} %p15;", "setp.ne.u32 %p15, %t, %t;"
    ),
    "a guard": peek(f"{TRY} %p13, {PHASE}", LOOP, "@%p13 add.u32 %r5, %r5, 1;"),
    "the second wait has a guard": peek(
        f"{TRY} %p13, {PHASE}", f"@%p11 {TRY} %p15, {PHASE}\n@!%p15 bra AGAIN;", "", "setp.eq.u32 %p15, %t, %t;"
    ),
    "a guarded move": loop("@!%p15 mov.u32 %r5, 7;", "setp.eq.u32 %p15, %t, %t;"),
    "a guarded addition": loop("@!%p15 add.u32 %r5, %r6, 7;", "setp.eq.u32 %p15, %t, %t;"),
    "a move that runs before the first wait alone": loop(
        "mov.u32 %r5, 0;\n@%p15 mov.u32 %r5, 7;", "setp.eq.u32 %p15, %t, %t;"
    ),
    "a read of such a move": loop("mov.u32 %r5, %r9;\n@%p15 mov.u32 %r9, 7;", "setp.eq.u32 %p15, %t, %t;"),
    "the last result": loop(f"{FLAG} %p15;", "setp.eq.u32 %p15, %t, %t;"),
    "the last result, negated": loop("not.pred %p9, %p15;", "setp.eq.u32 %p15, %t, %t;", f"{FLAG} %p9;"),
    "a read before what depends on it": loop(
        "mov.u32 %r5, %r9;\nselp.u32 %r9, 1, 0, %p15;", "setp.ne.u32 %p15, %t, %t;\nmov.u32 %r9, 7;"
    ),
    "the false way": waits(
        f"AGAIN:\n{TRY} %p15, {PHASE}\n@%p15 bra OVER;\nselp.u32 %r5, 1, 2, %p15;\nbra AGAIN;\nOVER:"
    ),
}  # fmt: skip
CHANGES_NOTHING = {
    "the first result is not used": peek(f"{TRY} %p13, {PHASE}", LOOP, ""),
    "the first result of a test": peek(f"{TEST} %p13, {PHASE}", LOOP, ""),
    "the first result is overwritten": peek(
        f"{TRY} %p13, {PHASE}", LOOP, f"setp.eq.u32 %p13, %t, 3;\n{FLAG} %p13;"
    ),
    "both results are in a register": peek(f"{TRY} %p13, {PHASE}", SAME, f"{FLAG} %p13;"),
    "as a number": waits(
        f"{TRY} %p13, {PHASE}\nselp.u32 %r8, 1, 0, %p13;\nsetp.ne.u32 %p12, %r8, 0;\n@%p12 bra OVER;\n"
        f"AGAIN:\n{LOOP}\nOVER:\n{STORED}"
    ),
    "what nothing uses": peek(f"{TRY} %p13, {PHASE}", LOOP, "selp.u32 %r8, 1, 0, %p13;"),
    "both have a guard": peek(
        f"@%p10 {TRY} %p13, {PHASE}", f"@%p10 {TRY} %p15, {PHASE}\n@!%p15 bra AGAIN;", "", "setp.ne.u32 %p13, %t, %t;"
    ),
    "a move before the wait": loop("mov.u32 %r5, 7;", "setp.eq.u32 %p15, %t, %t;"),
    "a guarded sleep": loop("@!%p15 nanosleep.u32 20;", "setp.eq.u32 %p15, %t, %t;"),
    "a guarded move that is overwritten": loop(
        "@!%p15 mov.u32 %r5, 7;", "setp.eq.u32 %p15, %t, %t;", "mov.u32 %r5, 3;"
    ),
    "the last result, negated": loop("", "", f"{FLAG} %p9;", "not.pred %p9, %p15;"),
    "the false way": waits(
        f"AGAIN:\n{TRY} %p15, {PHASE}\n@%p15 bra OVER;\nselp.u32 %r8, 1, 2, %p15;\nbra AGAIN;\nOVER:"
    ),
}  # fmt: skip
FALSE = "order-decides: a false result of a wait has another effect than to repeat it"


@pytest.mark.parametrize("name", MAY_CHANGE)
def test_the_number_of_false_results_changes_a_register(name: str) -> None:
    refused(launched(MAY_CHANGE[name])[0], FALSE)


@pytest.mark.parametrize("name", CHANGES_NOTHING)
def test_the_number_of_false_results_changes_nothing(name: str) -> None:
    certified(CHANGES_NOTHING[name])


def test_a_second_wait_that_orders_more_than_the_first() -> None:
    """The first is relaxed: after it the read would race."""
    read = f"ld.shared.u32 %r5, [{DATA}];"
    relaxed, acquires = (
        f"mbarrier.try_wait.parity.{how}.cta.shared::cta.b64" for how in ("relaxed", "acquire")
    )

    def text(first: str) -> str:
        consumer = (
            f"{first} %p13, {PHASE}\n@%p13 bra OVER;\nAGAIN:\n{acquires} %p15, {PHASE}\n@!%p15 bra AGAIN;"
        )
        body = waits(f"{consumer}\nOVER:\n{read}")
        return body.replace(ARRIVE, f"@%p4 st.shared.u32 [{DATA}], 5;\n{ARRIVE}")

    runs = [launched(text(relaxed), schedule)[0] for schedule in SAMPLED]
    assert not any(result.certified for result in runs)
    certified(text(acquires))


STATE = "order-decides: the state of an arrival, which has the number of pending arrivals, is used as a value"
TAKE = f"mbarrier.arrive.shared::cta.b64 %rd1, [{FULL}];"
TOKEN_WAIT = f"AGAIN:\nmbarrier.try_wait.shared::cta.b64 %p15, [{FULL}], TOKEN;\n@!%p15 bra AGAIN;"
STATE_USED = {
    "stored": (TAKE, store("%rd1", type_="b64")),
    "its count": (TAKE, f"shr.u64 %rd2, %rd1, 32;\ncvt.u32.u64 %r5, %rd2;\n{store('%r5')}"),
    "moved": (TAKE, f"mov.b64 %rd3, %rd1;\nmov.b64 {{%r5, %r6}}, %rd3;\n{store('%r6')}"),
    "compared": (TAKE, f"setp.gt.u64 %p9, %rd1, 9999;\n@%p9 bra END;\n{store('%t')}\nEND:"),
    "an address": (TAKE, "cvt.u32.u64 %r5, %rd1;\nand.b32 %r5, %r5, 60;\nadd.u32 %r5, %r5, 1100;\nst.shared.u32 [%r5+4], 0;"),
    "a computed token": (TAKE, f"shr.u64 %rd2, %rd1, 32;\n{TOKEN_WAIT.replace('TOKEN', '%rd2')}"),
    "a token and a value": (TAKE, f"{TOKEN_WAIT.replace('TOKEN', '%rd1')}\n{store('%rd1', type_='b64')}"),
    "of arrive_drop": (TAKE.replace("arrive", "arrive_drop"), store("%rd1", type_="b64")),
}  # fmt: skip
STATE_UNUSED = {
    "unused": (TAKE, ""),
    "computed with": (TAKE, "shr.u64 %rd2, %rd1, 32;"),
    "overwritten": (TAKE, f"mov.b64 %rd1, 5;\n{store('%rd1', type_='b64')}"),
    "a token": (TAKE, TOKEN_WAIT.replace("TOKEN", "%rd1")),
    "a moved token": (TAKE, f"mov.b64 %rd3, %rd1;\n{TOKEN_WAIT.replace('TOKEN', '%rd3')}"),
    "a token of arrive_drop": (TAKE.replace("arrive", "arrive_drop"), TOKEN_WAIT.replace("TOKEN", "%rd1")),
}


def each_arrives(arrive: str, use: str) -> str:
    return f"{init_barrier(FULL, 64)}\n{arrive}\n{use}"


@pytest.mark.parametrize("name", STATE_USED)
def test_the_state_of_an_arrival_is_a_value(name: str) -> None:
    result, _ = launched(each_arrives(*STATE_USED[name]))
    assert not result.certified
    assert STATE in {f"{d.reason}: {d.text}" for d in result.certificate.doubts}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", STATE_UNUSED)
def test_the_state_of_an_arrival_is_unused_or_a_token(name: str) -> None:
    certified(each_arrives(*STATE_UNUSED[name]))


def test_an_arrival_that_must_not_be_the_last() -> None:
    """Under a schedule in which it comes after the other arrival it is a finding."""
    arrival = f"mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [{FULL}], 1;"

    def text(first: str) -> str:
        arrivals = f"@%p2 bra PRODUCER;\n@%p0 {first}\nbra END;\nPRODUCER:\n{ARRIVE}\nEND:"
        return f"{init_barrier(FULL, 2)} {WARPS}\n{arrivals}\n{wait(FULL)}"

    wrong = text(arrival.replace("arrive.", "arrive.noComplete."))
    results = [launched(wrong, schedule)[0] for schedule in SAMPLED]
    assert {"mbarrier-no-complete"} in map(codes, results) and any(not result.errors for result in results)
    why = "unsupported: an arrival with .noComplete, which must not be the last of its phase"
    assert all(why in map(str, _without_place(result)) for result in results)
    certified(text(arrival))


def _without_place(result: RunResult) -> list[str]:
    return [f"{d.reason}: {d.text}" for d in result.certificate.doubts]  # type: ignore[union-attr]


def invalidated(waits_: str, inval: str = f"@%p0 mbarrier.inval.shared::cta.b64 [{FULL}];") -> str:
    """Warp 0 delivers bytes and ends the barrier; warp 1 waits for them."""
    deliver = f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 16;
    @%p0 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [{FULL}], 16;"""
    return (
        f"{init_barrier(FULL)} {WARPS}\n@%p2 bra WAITS;\n{deliver}\nbar.sync 1, 64;\n{inval}\nbra END;\n"
        f"WAITS:\n{waits_}\nbar.sync 1, 64;\nEND:"
    )


@pytest.mark.parametrize("kind", [TRY, TEST])
def test_the_end_of_a_barrier_after_a_wait_that_may_give_up(kind: str) -> None:
    once = f"{kind} %p13, {PHASE}"
    results = [launched(invalidated(once), schedule)[0] for schedule in SAMPLED]
    assert not any(result.certified for result in results)
    why = "order-decides: a wait whose result is unused, in a kernel with mbarrier.inval"
    assert all(why in _without_place(result) for result in results)
    certified(invalidated(f"AGAIN:\n{kind} %p13, {PHASE}\n@!%p13 bra AGAIN;"))
    certified(invalidated(once, inval=""))


def test_tensor_memory_of_both_kinds_of_groups() -> None:
    """A CTA that allocates alone keeps the columns from its pair, which may then hang."""

    def text(group: int) -> str:
        pair = f"{alloc(256, group=2)}\n{CLUSTER_SYNC}\n{dealloc(256, group=2)}\n{CLUSTER_SYNC}"
        return f"{CLUSTER_SYNC}\n{alloc(512, group=group)}\n{CLUSTER_SYNC}\n{dealloc(512, group=group)}\n{CLUSTER_SYNC}\n{pair}"

    for schedule in POLICIES:
        how = {"threads": 64, "cluster": 2, "shared_bytes": 4096, "races": True, "schedule": schedule}
        refused(run(text(1), **how), "open: cta-group-mixed")  # type: ignore[arg-type]
        assert run(text(2), **how).certified  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [f"{MMA}\n{COMMIT}", MMA, f"{MMA}\n{COMMIT}\n{MMA}\n{COMMIT}\n{wait_group(1)}"],
    ids=["not waited for", "not committed", "waited for the older alone"],
)
def test_a_product_that_is_in_flight_at_the_exit(wrong: str) -> None:
    start = f"{ZERO}\n{FENCE}\n"
    _, result = run_program(start + wrong, threads=128)
    refused(result, "open: async-pending-at-exit")
    for schedule in POLICIES:
        _, result = run_program(
            f"{start}{wrong}\n{COMMIT}\n{wait_group(0)}\n{OUT}", threads=128, schedule=schedule
        )
        assert result.certified
