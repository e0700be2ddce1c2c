# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""mbarrier instructions against the state machine of spec.machine.mbarrier."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.mbarrier import MBarrier

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, clean, init_barrier, only, outputs, run, store, wait

COVERS = (
    "mbarrier.init mbarrier.inval mbarrier.arrive mbarrier.expect_tx mbarrier.complete_tx "
    "mbarrier.try_wait mbarrier.test_wait mbarrier.arrive_drop mbarrier.pending_count"
)

AT = 1024 + 16
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 3)),
        st.tuples(st.just("drop"), st.integers(1, 3)),
        st.tuples(st.just("drop_expect"), st.integers(0, 64)),
        st.tuples(st.just("expect"), st.integers(0, 64)),
        st.tuples(st.just("complete"), st.integers(0, 64)),
        st.tuples(st.just("arrive_expect"), st.integers(0, 64)),
        st.tuples(st.just("settle"), st.just(0)),
    ),
    max_size=14,
)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("wait_for", ["test_wait", "try_wait"])
def test_a_parity_that_is_no_parity(wait_for: str, strict: bool) -> None:
    """PTX ISA 9.7.13.15.16: the valid values are 0 and 1."""
    for parity in (0, 1, 2, 16, 17, 0xFFFFFFFF):
        body = f"""{init_barrier(AT)} @%p0 mbarrier.arrive.shared::cta.b64 _, [{AT}]; bar.sync 0;
        W: mbarrier.{wait_for}.parity.shared::cta.b64 %p1, [{AT}], 0; @!%p1 bra W;
        mbarrier.{wait_for}.parity.shared::cta.b64 %p1, [{AT}], {parity};"""
        findings = run(body, shared_bytes=64, strict=strict).findings
        if parity < 2:
            assert not findings
        else:
            assert {(f.code, f.severity) for f in findings} == {
                ("mbarrier-parity", "error" if strict else "warning")
            }
            assert f"parity {parity};" in findings[0].message


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 5), operations=OPS)
def test_any_sequence_of_operations(count: int, operations: list[tuple[str, int]]) -> None:
    """After each operation both parities and the state token test as the model says; a misuse is a finding there."""
    model = MBarrier(count)
    lines = [f"mbarrier.init.shared.b64 [{AT}], {count};"]
    want: list[int] = []
    misuse = False
    for kind, value in operations:
        amount = model.tx if kind == "settle" else value
        if kind == "settle" and amount < 0:
            continue
        line, act = {
            "arrive": (f"mbarrier.arrive.shared.b64 %rd1, [{AT}], {value};", lambda v: model.arrive(v)),
            "drop": (
                f"mbarrier.arrive_drop.shared.b64 %rd1, [{AT}], {value};",
                lambda v: model.arrive_drop(v),
            ),
            "drop_expect": (
                f"mbarrier.arrive_drop.expect_tx.relaxed.cluster.shared::cta.b64 %rd1, [{AT}], {value};",
                lambda v: model.arrive_drop_expect_tx(v),
            ),
            "expect": (
                f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{AT}], {value};",
                lambda v: model.expect_tx(v),
            ),
            "complete": (
                f"mbarrier.complete_tx.shared::cluster.b64 [{AT}], {value};",
                lambda v: model.complete_tx(v),
            ),
            "settle": (
                f"mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [{AT}], {amount};",
                lambda v: model.complete_tx(v),
            ),
            "arrive_expect": (
                f"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd1, [{AT}], {value};",
                lambda v: model.arrive_expect_tx(v),
            ),
        }[kind]
        lines.append(line)
        try:
            token = act(amount)
        except TileproofError:
            misuse = True
            break
        if kind in ("arrive", "arrive_expect", "drop", "drop_expect"):
            lines.append(f"mbarrier.test_wait.shared.b64 %p3, [{AT}], %rd1; selp.b32 %r3, 4, 0, %p3;")
        else:
            lines.append("mov.u32 %r3, 0;")
        lines.append(
            f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [{AT}], 0; mbarrier.try_wait.parity.acquire.cta.shared.b64 %p2, [{AT}], 1, 1000;\n"
            "selp.b32 %r1, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;\n"
            f"st.global.u32 [%a0+{4 * len(want)}], %r1;"
        )
        want.append(
            model.test_parity(0)
            + 2 * model.test_parity(1)
            + 4 * (token is not None and model.test_state(token))
        )
    memory = Memory()
    out = memory.empty(max(1, len(want)), np.uint32)
    result = run("\n".join(lines), [out], memory=memory, threads=1, shared_bytes=64)
    if misuse:
        assert result.findings[0].code in ("mbarrier-over-arrival", "mbarrier-count")
        assert result.findings[0].machine.address == AT
    else:
        clean(result)
        assert result.counters["barrier_phases"] == model.phase
    assert out.numpy()[: len(want)].tolist() == want


@pytest.mark.parametrize("schedule", POLICIES)
def test_every_thread_arrives_and_waits(schedule: Schedule) -> None:
    body = f"""
    {init_barrier(AT, 128)}
    mov.u32 %r1, 1280; mad.lo.u32 %r2, %t, 4, %r1; mov.u32 %r9, 0; mov.u32 %r8, 0;
    ROUND: add.u32 %r7, %t, %r9; st.shared.u32 [%r2], %r7;
    mbarrier.arrive.shared.b64 _, [{AT}];
    and.b32 %r6, %r9, 1;
    {wait(AT, "%r6")}
    xor.b32 %r3, %t, 127; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3]; add.u32 %r8, %r8, %r4;
    bar.sync 1;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra ROUND;
    {store("%r8")}"""
    got = outputs(body, 128, threads=128, schedule=schedule, shared_bytes=2048)
    assert (got == 3 * (np.arange(128) ^ 127) + 3).all()


def test_generic_and_register_addresses() -> None:
    body = f"""
    .shared .align 8 .b64 bar[2];
    setp.eq.u32 %p0, %t, 0; mov.u64 %rd1, bar; cvta.shared.u64 %rd1, %rd1; mov.u32 %r1, bar;
    @%p0 mbarrier.init.b64 [%rd1+8], 1; bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.b64 _, [%rd1+8], 16; @%p0 mbarrier.complete_tx.b64 [%r1+8], 16;
    W: mbarrier.try_wait.parity.b64 %p1, [bar+8], 0; @!%p1 bra W;
    @%p0 mbarrier.inval.b64 [%rd1+8]; bar.sync 0; @%p0 mbarrier.init.shared.b64 [%r1+8], 3; {store("%t")}"""
    assert (outputs(body) == np.arange(32)).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_arrive_on_the_peer(schedule: Schedule) -> None:
    body = f"""
    {init_barrier(AT, 1)} {CLUSTER_SYNC}
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mapa.shared::cluster.u32 %r3, {AT}, %r2;
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    {wait(AT)} {CLUSTER_SYNC}
    @%p0 mad.wide.u32 %rd39, %r1, 4, %a0; @%p0 st.global.u32 [%rd39], %r1;"""
    assert outputs(body, 2, cluster=2, schedule=schedule, shared_bytes=64).tolist() == [0, 1]


def test_lanes_may_wait_on_different_barriers() -> None:
    body = f"""
    setp.lt.u32 %p1, %t, 2; mad.lo.u32 %r1, %t, 8, {AT}; @%p1 mbarrier.init.shared.b64 [%r1], 1; bar.sync 0;
    and.b32 %r2, %t, 1; mad.lo.u32 %r3, %r2, 8, {AT};
    mbarrier.arrive.shared.b64 _, [{AT}], 1;
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W; """
    body = body.replace(
        f"mbarrier.arrive.shared.b64 _, [{AT}], 1;", "@%p1 mbarrier.arrive.shared.b64 _, [%r1], 1;"
    )
    for schedule in POLICIES:
        assert (outputs(body + store("%r2"), schedule=schedule, shared_bytes=64) == np.arange(32) % 2).all()


FAULTS = [
    (f"mbarrier.init.shared.b64 [{AT}], 0;", "mbarrier-count", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 0x100000;", "mbarrier-count", AT),
    (f"mbarrier.init.shared.b64 [{AT + 4}], 1;", "misaligned", AT + 4),
    (f"mbarrier.init.shared.b64 [{AT}], 1;\nmbarrier.init.shared.b64 [{AT}], 1;", "mbarrier-reinit", AT),
    (f"mbarrier.arrive.shared.b64 _, [{AT}];", "mbarrier-uninitialised", AT),
    (f"mbarrier.try_wait.parity.shared.b64 %p1, [{AT}], 0;", "mbarrier-uninitialised", AT),
    (f"mbarrier.inval.shared.b64 [{AT}];", "mbarrier-uninitialised", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 1;\nmbarrier.inval.shared.b64 [{AT}];\nmbarrier.arrive.shared.b64 _, [{AT}];", "mbarrier-uninitialised", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nmbarrier.arrive.shared.b64 _, [{AT}], 3;", "mbarrier-over-arrival", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nmbarrier.arrive.shared.b64 _, [{AT}], -1;", "mbarrier-count", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nmbarrier.arrive.shared.b64 _, [{AT}], 0;", "mbarrier-count", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nmbarrier.expect_tx.shared.b64 [{AT}], 0x100000;", "mbarrier-tx-range", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nmbarrier.complete_tx.shared.b64 [{AT}], 0x100000;", "mbarrier-tx-range", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nst.shared.b32 [{AT}], 0;", "mbarrier-overwritten", AT),
    (f"mbarrier.init.shared.b64 [{AT}], 2;\nld.shared.b32 %r1, [{AT + 4}];", "mbarrier-read-as-data", AT + 4),
    ("mbarrier.init.shared.b64 [2048], 1;", "shared-out-of-bounds", 2048),
    ("mbarrier.init.shared.b64 [512], 1;", "shared-out-of-bounds", 512),
    ("mbarrier.init.shared.b64 [0x1000410], 1;", "shared-wrong-window", 0x1000410),
    (f"mbarrier.init.shared.b64 [{AT}], 1;\nmbarrier.inval.shared.b64 [0x1000410];", "shared-wrong-window", 0x1000410),
    ("mbarrier.arrive.shared::cluster.b64 _, [0x1000410];", "shared-no-such-cta", 0x1000410),
    ("mov.u64 %rd1, 0x700001000410;\nmbarrier.arrive.b64 _, [%rd1];", "shared-no-such-cta", 0x1000410),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "address"), FAULTS)
def test_misuse(body: str, code: str, address: int) -> None:
    finding = only(run(body, threads=1, shared_bytes=64), code)
    assert (
        finding.severity == "error"
        and finding.machine.address == address
        and (finding.machine.warp, finding.machine.lane) == (0, 0)
    )
    last = body.split("\n")[-1]
    assert finding.machine.instruction == last.split()[0]


def test_the_clean_twin_of_the_misuses() -> None:
    body = f"""
    mbarrier.init.shared.b64 [{AT}], 2; mbarrier.expect_tx.shared.b64 [{AT}], 0xfffff; mbarrier.arrive.shared.b64 _, [{AT}], 2;
    mbarrier.complete_tx.shared.b64 [{AT}], 0xfffff;
    W: mbarrier.try_wait.parity.shared.b64 %p1, [{AT}], 0; @!%p1 bra W;
    mbarrier.inval.shared.b64 [{AT}]; mbarrier.init.shared.b64 [{AT}], 1; mbarrier.inval.shared.b64 [{AT}]; st.shared.b64 [{AT}], %rd1;"""
    clean(run(body, threads=1, shared_bytes=64))


def test_a_hang_says_what_is_missing() -> None:
    body = f"{init_barrier(AT, 3)}\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{AT}], 96;\n{wait(AT, 0)}"
    finding = only(run(body, shared_bytes=64), "hang")
    (waiting,) = finding.machine.waiting
    assert (waiting.barrier, waiting.parity, waiting.phase, waiting.pending, waiting.tx) == (AT, 0, 0, 2, 96)
    assert waiting.instruction.startswith("mbarrier.try_wait") and waiting.lanes == 0xFFFFFFFF
    assert finding.machine.address == AT and "lacks 2 of 3 arrivals and 96 bytes" in str(finding)


def test_a_wrong_parity_hangs_in_the_second_phase() -> None:
    body = f"{init_barrier(AT, 1)}\n@%p0 mbarrier.arrive.shared.b64 _, [{AT}];\n{wait(AT, 0)}\n{wait(AT, 1)}"
    (waiting,) = only(run(body, shared_bytes=64), "hang").machine.waiting
    assert (waiting.parity, waiting.phase, waiting.pending) == (1, 1, 1)


def test_only_arrivals_may_name_a_peer() -> None:
    """A generic address of the peer's barrier: arriving is legal, waiting is not."""
    body = f"""
    {init_barrier(AT, 1)} {CLUSTER_SYNC}
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; and.pred %p1, %p1, %p0;
    mov.u64 %rd1, {0x700000000000 + (1 << 24) + AT};
    @%p1 mbarrier.arrive.b64 _, [%rd1];
    {CLUSTER_SYNC}"""
    assert (
        clean(run(body, cluster=2, shared_bytes=64)).counters["barrier_phases"] == 5
    )  # 2 bar.sync, 2 rounds of the cluster, the arrival
    wrong = body.replace("mbarrier.arrive.b64 _, [%rd1];", "mbarrier.test_wait.parity.b64 %p2, [%rd1], 0;")
    assert only(run(wrong, cluster=2, shared_bytes=64), "shared-wrong-window").machine.cluster_rank == 0


@pytest.mark.parametrize("schedule", POLICIES)
def test_threads_that_leave_drop_out(schedule: Schedule) -> None:
    """In round r the lanes below 8 r are gone: the others go on, and see what the leavers wrote last."""
    body = f"""
    {init_barrier(AT, 32)}
    mov.u32 %r1, 1280; mov.u32 %r9, 0; mov.u32 %r8, 0;
    ROUND: mad.lo.u32 %r2, %t, 4, %r1; add.u32 %r7, %t, %r9; st.shared.u32 [%r2], %r7;
    mad.lo.u32 %r6, %r9, 8, 8; setp.lt.u32 %p1, %t, %r6; @%p1 bra LEAVE;
    mbarrier.arrive.shared.b64 _, [{AT}];
    and.b32 %r6, %r9, 1;
    {wait(AT, "%r6")}
    mul.lo.u32 %r3, %r9, 32; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3]; add.u32 %r8, %r8, %r4;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 4; @%p1 bra ROUND;
    LEAVE: @%p1 mbarrier.arrive_drop.shared.b64 _, [{AT}];
    {store("%r8")}"""
    got = outputs(body, 32, schedule=schedule, shared_bytes=2048, races=True)
    want = [sum(9 * r for r in range(t // 8)) for t in range(32)]
    assert got.tolist() == want


def test_the_last_drop_leaves_a_barrier_that_nobody_may_arrive_at() -> None:
    drop = f"mbarrier.init.shared.b64 [{AT}], 1; mbarrier.arrive_drop.shared.b64 _, [{AT}];"
    clean(run(drop, threads=1, shared_bytes=64))
    only(
        run(f"{drop} mbarrier.arrive.shared.b64 _, [{AT}];", threads=1, shared_bytes=64),
        "mbarrier-over-arrival",
    )
    body = f"mbarrier.init.shared.b64 [{AT}], 2; mbarrier.arrive_drop.shared.b64 _, [{AT}], 3;"
    assert "takes 3 from 2" in only(run(body, threads=1, shared_bytes=64), "mbarrier-count").message


@pytest.mark.parametrize("arrive", ["arrive", "arrive_drop"])
def test_a_drop_orders_like_an_arrival(arrive: str) -> None:
    """What a thread wrote before it dropped is ordered for who waits; .relaxed orders nothing."""
    body = f"""
    .shared .b32 cell;
    {init_barrier(AT, 1)}
    setp.lt.u32 %p1, %t, 32; @!%p1 bra WAIT;
    setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [cell], 5; @%p2 mbarrier.{arrive}ORDER.shared.b64 _, [{AT}]; bra END;
    WAIT: {wait(AT, 0)} ld.shared.u32 %r1, [cell];
    END:"""
    clean(run(body.replace("ORDER", ""), threads=64, shared_bytes=2048, races=True))
    only(
        run(body.replace("ORDER", ".relaxed.cta"), threads=64, shared_bytes=2048, races=True),
        "race-unordered",
    )


def test_a_drop_at_a_peer() -> None:
    body = f"""
    {init_barrier(AT, 2)} fence.mbarrier_init.release.cluster;
    {CLUSTER_SYNC}
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, {AT}; mapa.shared::cluster.u32 %r3, %r2, 0;
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r3];
    setp.eq.u32 %p2, %r1, 0; @!%p2 bra DONE;
    {wait(AT, 0)}
    DONE: {CLUSTER_SYNC}"""
    clean(run(body, cluster=2, shared_bytes=2048, races=True))


def test_a_wait_for_a_dropped_count_that_is_too_high_hangs() -> None:
    body = f"""
    {init_barrier(AT, 3)}
    setp.lt.u32 %p1, %t, 1; @%p1 mbarrier.arrive_drop.shared.b64 _, [{AT}];
    setp.eq.u32 %p2, %t, 1; @%p2 mbarrier.arrive.shared.b64 _, [{AT}];
    {wait(AT, 0)}"""
    finding = only(run(body, shared_bytes=2048), "hang")
    assert "lacks 1 of 2 arrivals" in finding.machine.waiting[0].waits_for


ARRIVALS = [
    f"{word}.{order}.{scope}.{space}.b64 _, [{AT}]"
    for word in ("arrive", "arrive_drop", "arrive.expect_tx", "arrive_drop.expect_tx")
    for order in ("release", "relaxed")
    for scope in ("cta", "cluster")
    for space in ("shared::cta", "shared::cluster")
]
WAITS = [
    f"{word}.{order}.{scope}.shared::cta.b64"
    for word in ("test_wait.parity", "try_wait.parity", "test_wait", "try_wait")
    for order in ("acquire", "relaxed")
    for scope in ("cta", "cluster")
]


@pytest.mark.parametrize("number", range(len(ARRIVALS)))
def test_orders_and_scopes_of_arrivals_and_waits(number: int) -> None:
    """The last arrival, of any order and scope, completes the phase for every wait."""
    arrival, waiting = ARRIVALS[number], WAITS[number % len(WAITS)]
    bytes_ = ", 4" if "expect_tx" in arrival else ""
    operand = "0" if "parity" in waiting else "%rd1"
    # A try_wait is not asked before: on an H200 it sees an arrival that follows it in its thread.
    early = "mov.u32 %r1, 0;"
    if waiting.startswith("test"):
        early = f"mbarrier.{waiting} %p1, [{AT}], {operand}; selp.b32 %r1, 1, 0, %p1;"
    body = f"""
    mbarrier.init.shared::cta.b64 [{AT}], 3; mbarrier.arrive.shared::cta.b64 %rd1, [{AT}], 2;
    {early}
    mbarrier.{arrival}{bytes_};
    {f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [{AT}], 4;" if bytes_ else ""}
    W: mbarrier.{waiting} %p2, [{AT}], {operand}; @!%p2 bra W;
    mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [{AT}], 1; mbarrier.pending_count.b64 %r2, %rd2;
    st.global.u32 [%a0], %r1; st.global.u32 [%a0+4], %r2;"""
    # A dropped arrival is missing from the next phase.
    assert outputs(body, 2, threads=1, shared_bytes=64).tolist() == [0, 3 - ("drop" in arrival)]


@pytest.mark.parametrize("word", ["arrive", "arrive_drop"])
def test_pending_counts(word: str) -> None:
    """The count before each arrival; a state of another arrival has none."""
    body = f"""
    mbarrier.init.shared.b64 [{AT}], 9;
    mbarrier.{word}.noComplete.shared.b64 %rd1, [{AT}], 3; mbarrier.pending_count.b64 %r1, %rd1;
    mbarrier.{word}.noComplete.release.cta.shared::cta.b64 %rd2, [{AT}], 4; mbarrier.pending_count.b64 %r2, %rd2;
    mbarrier.arrive.shared.b64 _, [{AT}], 2;
    mbarrier.test_wait.shared.b64 %p1, [{AT}], %rd2; selp.b32 %r3, 1, 0, %p1;
    st.global.u32 [%a0], %r1; st.global.u32 [%a0+4], %r2; st.global.u32 [%a0+8], %r3;"""
    assert outputs(body, 3, threads=1, shared_bytes=64).tolist() == [9, 6, 1]
    other = f"mbarrier.init.shared.b64 [{AT}], 2; mbarrier.arrive.shared.b64 %rd1, [{AT}]; mbarrier.pending_count.b64 %r1, %rd1;"
    only(run(other, threads=1, shared_bytes=64), "mbarrier-state")


def test_no_complete_must_not_complete() -> None:
    body = f"mbarrier.init.shared.b64 [{AT}], 2; mbarrier.arrive.noComplete.shared.b64 _, [{AT}], COUNT;"
    clean(run(body.replace("COUNT", "1"), threads=1, shared_bytes=64))
    only(run(body.replace("COUNT", "2"), threads=1, shared_bytes=64), "mbarrier-no-complete")
    open_ = f"mbarrier.expect_tx.relaxed.cta.shared.b64 [{AT}], 8; mbarrier.arrive.noComplete"
    clean(
        run(
            body.replace("COUNT", "2").replace("mbarrier.arrive.noComplete", open_),
            threads=1,
            shared_bytes=64,
        )
    )
