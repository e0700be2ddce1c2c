# ruff: noqa: E501 - PTX lines are kept whole
"""Rows H22, R22, R24, R25, R29 and R30 of the corpus: stale parities, released tensor memory, multicast, proxies, reuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule
from tileproof.spec.machine.descriptors import SmemDescriptor

from tests.emulator.test_races import AFTER, BEFORE, CLEAR, IDESC, LD, QUARTER, ST, WAIT_LD, WAIT_ST
from tests.kit.backward_cases import random_case
from tests.kit.corpus import run as head64
from tests.kit.ptx import CLUSTER_SYNC, alloc, dealloc, init_barrier, run, wait

EVERY_POLICY = [Schedule(p, s) for p in ("early", "late", "random", "starve", "pct") for s in range(4)]  # type: ignore[arg-type]
BYTES = "mbarrier::complete_tx::bytes"


def severe(result: RunResult) -> set[str]:
    """The codes of errors and warnings."""
    return {f.code for f in result.findings if f.severity != "note"}


FULL, DONE, LAST, TILE, STAGES, STEPS = 1024, 1048, 1056, 0x1000, 3, 7


def product(parity: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """D = sum over k of A_k A_k^T, bf16 tiles [128, 16] filled with 2^-k, in a ring of three stages that one thread drives.

    Two copies are ahead of the MMA; a stage is filled again after the wait on the one mbarrier of the commits.
    """
    tiles = np.repeat(2.0 ** -np.arange(STEPS), 2048).astype(ml_dtypes.bfloat16).view(np.uint16)
    lines = [f"@%p0 mbarrier.init.shared::cta.b64 [{b}], 1;" for b in (*range(FULL, LAST, 8), LAST)]
    lines += [
        f"fence.mbarrier_init.release.cluster; bar.sync 0; {alloc(32)} {QUARTER} setp.eq.u32 %p0, %t, 0; @!%p0 bra MEET;"
    ]

    def copy(k: int) -> str:
        full = FULL + 8 * (k % STAGES)
        return (
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{full}], 4096; add.u64 %rd1, %a1, {4096 * k};"
            f"cp.async.bulk.shared::cta.global.{BYTES} [{TILE + 4096 * (k % STAGES)}], [%rd1], 4096, [{full}];"
        )

    lines += [copy(0), copy(1)]
    for k in range(STEPS):
        desc = SmemDescriptor(TILE + 4096 * (k % STAGES), 16, 256, "32B").encode()
        lines += [copy(k + 2)] if k + 2 < STEPS else []
        lines += [
            wait(FULL + 8 * (k % STAGES), k // STAGES % 2),
            f"{AFTER} setp.ne.u32 %p5, {int(k > 0)}, 0; tcgen05.mma.cta_group::1.kind::f16 [%r100], {desc}, {desc}, {IDESC}, %p5;",
            f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{DONE}];",
            wait(DONE, k % 2 if parity == "of the step" else k // STAGES % 2),
        ]
    lines += [
        f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{LAST}]; MEET: {wait(LAST)}",
        f"{AFTER} {LD} {WAIT_LD} {BEFORE} mad.wide.u32 %rd2, %t, 4, %a0; st.global.b32 [%rd2], %r60; {dealloc(32)}",
    ]
    memory = Memory()
    out = memory.empty(128, np.float32)
    body = "setp.eq.u32 %p0, %t, 0;\n" + "\n".join(lines)
    how: dict[str, Any] = {"threads": 128, "shared_bytes": 0x5000, "schedule": schedule, "races": True}
    result = run(body, [out, memory.buffer(tiles)], memory=memory, **how)
    return result, out.numpy() - 16 * np.sum(4.0 ** -np.arange(STEPS, dtype=np.float32))


@pytest.mark.corpus("H22")
def test_H22_a_wait_on_a_parity_that_is_complete_already() -> None:
    wrong_values = 0
    for schedule in EVERY_POLICY:
        result, error = product("of the step", schedule)
        assert not result.findings and not error.any()
        result, error = product("of the ring", schedule)
        # Where the MMA is done in time, the parity is that of a phase to come when the wait for it begins: a hang.
        hangs = "hang" in severe(result)
        assert hangs or severe(result) >= {"race-mma-unwaited"}
        for found in result.errors:
            if found.code == "race-mma-unwaited":
                assert found.machine.race is not None and found.machine.instruction.startswith(
                    "cp.async.bulk"
                )
                assert found.machine.race.instruction.startswith("tcgen05.mma")
                assert "tcgen05.commit" in found.machine.race.missing
        wrong_values += bool(not hangs and error.any())
    assert wrong_values  # where the copy overtakes the MMA, a later tile counts twice


def handed_on(wait_ld: str, wait_bytes: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """Lanes 0 to 15 of four warps send a word of tensor memory to CTA 1; all arrive, and warp 0 frees the columns."""
    body = f"""{init_barrier(1024)} @%p0 mbarrier.init.shared::cta.b64 [1032], 128; fence.mbarrier_init.release.cluster;
    mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p1, %r1, 0; @!%p1 bra.uni MEET; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], 256;
    MEET: {CLUSTER_SYNC} @%p1 bra.uni TAKE;
    {alloc(32)} {QUARTER} {CLEAR} add.u32 %r70, %t, 5; {ST} {WAIT_ST} {LD} {wait_ld}
    shr.u32 %r2, %t, 5; and.b32 %r3, %t, 31; setp.ge.u32 %p2, %r3, 16; @%p2 bra IDLE;
    mad.lo.u32 %r4, %r2, 16, %r3; mad.lo.u32 %r4, %r4, 4, 2048; mapa.shared::cluster.u32 %r4, %r4, 1; mapa.shared::cluster.u32 %r5, 1024, 1;
    st.async.shared::cluster.{BYTES}.b32 [%r4], %r60, [%r5];
    IDLE: bar.warp.sync -1; {BEFORE} mbarrier.arrive.shared::cta.b64 _, [1032]; setp.ne.u32 %p3, %r2, 0; @%p3 bra.uni END;
    {wait(1032)} {AFTER} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32; bra.uni END;
    TAKE: setp.ge.u32 %p2, %t, 64; @%p2 bra END; {wait_bytes}
    mad.lo.u32 %r4, %t, 4, 2048; mapa.shared::cluster.u32 %r4, %r4, 1; ld.shared.u32 %r6, [%r4]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r6;
    END: {CLUSTER_SYNC.replace(".aligned", "")}"""
    memory = Memory()
    out = memory.empty(64, np.uint32)
    how: dict[str, Any] = {
        "threads": 128,
        "cluster": 2,
        "shared_bytes": 4096,
        "schedule": schedule,
        "races": True,
    }
    return run(body, [out], memory=memory, **how), out.numpy()


@pytest.mark.corpus("R22")
def test_R22_idle_lanes_of_a_load_and_lanes_that_send_it_on_by_st_async() -> None:
    want = np.array([32 * warp + lane + 5 for warp in range(4) for lane in range(16)])
    for schedule in EVERY_POLICY:
        result, seen = handed_on(WAIT_LD, wait(1024), schedule)
        assert not severe(result) and (seen == want).all()
        # st.async takes the register, so that 16 lanes have their value; nobody waited for the read.
        result, _ = handed_on("", wait(1024), schedule)
        assert severe(result) & {"race-tmem-released", "race-tmem-unwaited"}
        assert all(f.machine.instruction.startswith("tcgen05.dealloc") for f in result.errors)
        # What st.async brings is there when its bytes are counted, not before.
        result, _ = handed_on(WAIT_LD, "", schedule)
        assert severe(result) & {"race-copy-unwaited", "shared-pending", "shared-uninitialised"}


def multicast(armed: int, steps: int, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """CTA 0 sends each tile of 256 bytes to both CTAs; they arm their mbarrier and arrive at one of CTA 0, which waits for `armed`."""
    arrives = "" if armed == 2 else "@!%p2 "
    lines = [
        f"setp.ne.u32 %p1, %t, 0; @%p1 exit; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p2, %r1, 0; mbarrier.init.shared::cta.b64 [1024], 1; mbarrier.init.shared::cta.b64 [1032], {armed};",
        "fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r2, 1032, 0; mov.u32 %r3, 0; mov.b16 %h1, 3;",
    ]
    for s in range(steps):
        lines += [
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], 256;",
            f"{arrives.replace('!', '')}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];",
            f"@!%p2 bra TAKE{s}; ARMED{s}: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [1032], {s % 2}; @!%p3 bra ARMED{s}; add.u64 %rd1, %a1, {256 * s};",
            f"cp.async.bulk.shared::cluster.global.{BYTES}.multicast::cluster [2048], [%rd1], 256, [1024], %h1;",
            f"TAKE{s}: {wait(1024, s % 2)} ld.shared.u32 %r4, [2048]; add.u32 %r3, %r3, %r4; fence.proxy.async;",
        ]
    lines += [
        "mad.wide.u32 %rd2, %r1, 4, %a0; st.global.u32 [%rd2], %r3;",
        CLUSTER_SYNC.replace(".aligned", ""),
    ]
    memory = Memory()
    out = memory.empty(2, np.uint32)
    tiles = np.repeat(10 ** np.arange(steps, dtype=np.uint32), 64)
    how: dict[str, Any] = {"cluster": 2, "shared_bytes": 4096, "schedule": schedule, "races": True}
    result = run("\n".join(lines), [out, memory.buffer(tiles)], memory=memory, **how)
    return result, out.numpy()


@pytest.mark.corpus("R24")
def test_R24_multicast_before_the_other_receiver_is_armed() -> None:
    seen: set[str] = set()
    for schedule in EVERY_POLICY:
        result, sums = multicast(2, 3, schedule)
        assert not severe(result) and sums.tolist() == [111, 111]
        # One tile only: bytes that come before they are announced count in the phase under way, which waits for the arrival.
        result, sums = multicast(1, 1, schedule)
        assert not severe(result) and sums.tolist() == [1, 1]
        result, _ = multicast(1, 3, schedule)
        assert severe(result) & {"race-unordered", "race-copy-unwaited", "hang"}
        seen |= severe(result)
    assert seen >= {"race-unordered", "hang"}


def last_state(fence: str, tiles: int, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """64 words of state, zero at first; each tile adds to them and fences; then a bulk store takes them out."""
    body = f"""mad.lo.u32 %r1, %t, 4, 2048; st.shared.u32 [%r1], 0; {fence} bar.sync 0;
    ld.global.u32 %r2, [%a1]; mov.u32 %r3, 0;
    NEXT: setp.ge.u32 %p1, %r3, %r2; @%p1 bra.uni OUT; ld.shared.u32 %r4, [%r1]; add.u32 %r4, %r4, %t; st.shared.u32 [%r1], %r4;
    fence.proxy.async; bar.sync 0; add.u32 %r3, %r3, 1; bra.uni NEXT;
    OUT: setp.ne.u32 %p2, %t, 0; @%p2 exit; cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    memory = Memory()
    out = memory.empty(64, np.uint32)
    how: dict[str, Any] = {"threads": 64, "shared_bytes": 4096, "schedule": schedule, "races": True}
    return run(body, [out, memory.buffer(np.array([tiles], np.uint32))], memory=memory, **how), out.numpy()


@pytest.mark.corpus("R25")
def test_R25_a_proxy_fence_that_only_an_empty_sequence_lacks() -> None:
    for schedule in EVERY_POLICY:
        for tiles in range(3):
            result, state = last_state("fence.proxy.async;", tiles, schedule)
            assert not result.findings and (state == tiles * np.arange(64)).all()
            result, state = last_state("", tiles, schedule)
            assert severe(result) == (set() if tiles else {"race-proxy-fence"})


@pytest.mark.corpus("R25")
def test_R25_head64_with_empty_rows_has_its_fences() -> None:
    lengths = np.array([0, 64, 0], np.int32)
    assert head64(random_case(52, s_q=3, topk=64, topk_length=lengths)).clean


ITEMS = 4


def mailbox(readers: int, way: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """Warp 0 publishes work items in one word of shared memory, warps 1 and 2 each read them all; the word is free after `readers`."""
    publish = {
        "store": "st.shared.u32 [1040], %r1; mbarrier.arrive.shared::cta.b64 _, [1024];",
        "copy": f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], 16; mad.wide.u32 %rd1, %r1, 16, %a1; cp.async.bulk.shared::cta.global.{BYTES} [1040], [%rd1], 16, [1024];",
    }[way]
    body = f"""setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [1024], 1; @%p0 mbarrier.init.shared::cta.b64 [1032], {readers}; bar.sync 0;
    and.b32 %r9, %t, 31; setp.ne.u32 %p1, %r9, 0; @%p1 exit; shr.u32 %r8, %t, 5; mov.u32 %r1, 0; mov.u32 %r2, 0; setp.ne.u32 %p2, %r8, 0; @%p2 bra READ;
    NEXT: and.b32 %r3, %r1, 1; xor.b32 %r4, %r3, 1; {wait(1032, "%r4")} {publish} add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, {ITEMS}; @%p3 bra NEXT; bra END;
    READ: and.b32 %r3, %r1, 1; {wait(1024, "%r3")} ld.shared.u32 %r5, [1040]; fence.proxy.async; setp.gt.u32 %p4, %r8, {readers}; @!%p4 mbarrier.arrive.shared::cta.b64 _, [1032];
    mad.lo.u32 %r2, %r2, 10, %r5; add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, {ITEMS}; @%p3 bra READ;
    mad.wide.u32 %rd2, %r8, 4, %a0; st.global.u32 [%rd2+-4], %r2;
    END:"""
    memory = Memory()
    out = memory.empty(2, np.uint32)
    items = memory.buffer(np.repeat(np.arange(ITEMS, dtype=np.uint32), 4))
    how: dict[str, Any] = {"threads": 96, "shared_bytes": 4096, "schedule": schedule, "races": True}
    return run(body, [out, items], memory=memory, **how), out.numpy()


@pytest.mark.corpus("R29")
@pytest.mark.parametrize("way", ["store", "copy"])
def test_R29_a_mailbox_is_free_when_all_have_read_it(way: str) -> None:
    seen: set[str] = set()
    for schedule in EVERY_POLICY:
        result, items = mailbox(2, way, schedule)
        assert not severe(result) and items.tolist() == [123, 123]
        result, _ = mailbox(1, way, schedule)  # warp 2 is not counted
        assert "race-unordered" in severe(result) or "hang" in severe(result)
        seen |= severe(result)
    assert "race-unordered" in seen


def rounds(sync: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """Two rounds over one histogram of 16 bins: cleared, filled by 64 threads, then bin 3 is read by all."""
    lap = f"""setp.lt.u32 %p1, %t, 16; @%p1 st.shared.u32 [%r1], 0; bar.sync 0;
    and.b32 %r3, %t, 15; mad.lo.u32 %r3, %r3, 4, 2048; red.shared.add.u32 [%r3], 1; bar.sync 0;
    ld.shared.u32 %r4, [2060]; add.u32 %r2, %r2, %r4; {sync}"""
    body = f"mad.lo.u32 %r1, %t, 4, 2048; mov.u32 %r2, 0;\n{lap}\n{lap}\nmad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r2;"
    memory = Memory()
    out = memory.empty(64, np.uint32)
    how: dict[str, Any] = {"threads": 64, "shared_bytes": 4096, "schedule": schedule, "races": True}
    return run(body, [out], memory=memory, **how), out.numpy()


@pytest.mark.corpus("R30")
def test_R30_a_histogram_is_cleared_before_all_have_read_it() -> None:
    wrong_values = 0
    for schedule in EVERY_POLICY:
        result, sums = rounds("bar.sync 0;", schedule)
        assert not result.findings and (sums == 8).all()
        result, sums = rounds("", schedule)
        assert severe(result) == {"race-unordered"}
        for found in result.errors:
            assert found.machine.race is not None and "bar" in found.machine.race.missing
            pair = {found.machine.instruction, found.machine.race.instruction}
            assert pair == {"st.shared.u32", "ld.shared.u32"}
        wrong_values += bool((sums != 8).any())
    assert wrong_values
