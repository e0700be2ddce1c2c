# ruff: noqa: E501 - PTX lines are kept whole
"""Tensor maps that a kernel changes while it runs: the proxy fence's two halves, and copies that still read the map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, TensorMap

from tests.kit.ptx import POLICIES, Memory, codes, init_barrier, run, wait

BAR, TILE, MAP = 1024, 2048, 1152
DONE = "mbarrier::complete_tx::bytes"
SCHEDULES = [*POLICIES, Schedule("starve", 1), Schedule("pct", 1)]
RELEASE = "@%p0 fence.proxy.tensormap::generic.release.gpu;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%a0], 128;"
# In shared memory, then over by all lanes; or in place.
WAYS = {
    "shared": (
        f"@%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [{MAP}], %rd1; bar.warp.sync -1;",
        f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a0], [{MAP}], 128;",
    ),
    "global": ("@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%a0], %rd1;", RELEASE),
}


def groups(change: str, drained: str, acquire: str, schedule: Schedule) -> tuple[RunResult, np.ndarray]:
    """Two groups of 4 rows: the map in global memory gets each group's address, then one load; out: both tiles.

    `drained` says what is waited for before the change: the load of the group before ("load"), or nothing.
    """
    data = np.random.default_rng(3).integers(1, 0x7F00, (8, 64), dtype=np.uint16)
    memory = Memory()
    table, out = memory.buffer(data), memory.empty(512, np.uint16)
    m = TensorMap.tiled(table, shape=(64, 4), strides=(128,), box=(64, 4), dtype="bfloat16")
    maps = memory.buffer(np.frombuffer(m.encode(), np.uint32).copy())
    lines = [init_barrier(BAR), f"@%p0 mbarrier.init.shared::cta.b64 [{BAR + 8}], 1;",
             f"mad.lo.u32 %r1, %t, 4, {MAP}; mad.wide.u32 %rd2, %t, 4, %a0; ld.global.b32 %r2, [%rd2]; st.shared.b32 [%r1], %r2;",
             "fence.proxy.async; bar.sync 0;"]  # fmt: skip
    for g in range(2):
        bar = BAR + 8 * g
        lines += [wait(BAR)] if g and drained == "load" else []
        lines += [f"add.u64 %rd1, %a1, {512 * g};", change, acquire]
        lines += [
            f"@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 512;",
            f"@%p0 cp.async.bulk.tensor.2d.shared::cta.global.{DONE} [{TILE + 512 * g}], [%a0, {{0, 0}}], [{bar}];",
        ]
    lines += [wait(BAR), wait(BAR + 8)]
    for g in range(2):
        lines += [
            f"mad.lo.u32 %r1, %t, 16, {TILE + 512 * g}; ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r1];",
            f"mad.wide.u32 %rd2, %t, 16, %a2; st.global.v4.u32 [%rd2+{512 * g}], {{%r2, %r3, %r4, %r5}};",
        ]
    how: dict[str, Any] = {"shared_bytes": 4096, "schedule": schedule, "races": True}
    result = run("\n".join(lines), [maps, table, out], memory=memory, **how)
    return result, out.numpy().reshape(8, 64) == data


@pytest.mark.corpus("R28")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_R28_a_map_is_changed_when_its_copies_are_over_and_fenced(way: str, schedule: Schedule) -> None:
    change = " ".join(WAYS[way])
    result, right = groups(change, "load", ACQUIRE, schedule)
    assert not result.findings and right.all()
    # DeepGEMM#343: the next group's address goes in while the load of the last group is in flight.
    result, _ = groups(change, "", ACQUIRE, schedule)
    (found,) = result.errors
    assert found.code == "race-copy-unwaited" and found.machine.race is not None
    assert found.machine.instruction.startswith("tensormap.") and found.machine.race.instruction.startswith(
        "cp.async.bulk"
    )
    # Without either half of the proxy fence, or with the half of another map.
    other = ACQUIRE.replace("%a0", "%a1")
    for acquire in ("", other):
        result, _ = groups(change, "load", acquire, schedule)
        assert codes(result) == {"race-tensormap-fence"}
        assert result.errors[0].machine.race is not None
        assert result.errors[0].machine.race.missing.startswith("fence.proxy.tensormap::generic.acquire")
    if way == "global":
        result, _ = groups(change.replace(RELEASE, ""), "load", ACQUIRE, schedule)
        assert codes(result) == {"race-tensormap-fence"}
        assert (
            result.errors[0].machine.race is not None
            and ".release by the writing" in result.errors[0].machine.race.missing
        )


def handed(meet: str, release: str, acquire: str, schedule: Schedule, prefetch: bool = False) -> set[str]:
    """Warp 0 writes a map, warp 1 copies by it behind `meet`, or prefetches."""
    memory = Memory()
    table = memory.buffer(np.zeros((8, 64), np.uint16))
    m = TensorMap.tiled(table, shape=(64, 4), strides=(128,), box=(64, 4), dtype="bfloat16")
    maps, flag = (
        memory.buffer(np.frombuffer(m.encode(), np.uint32).copy()),
        memory.buffer(np.zeros(1, np.uint32)),
    )
    tell, hear = {
        "barrier": ("bar.sync 1, 64;", "bar.sync 1, 64;"),
        "flag": ("@%p0 st.relaxed.gpu.global.u32 [%a2], 1;",
                 "POLL: ld.relaxed.gpu.global.u32 %r1, [%a2]; setp.eq.u32 %p2, %r1, 0; @%p2 bra POLL;"),
        "nothing": ("", ""),
    }[meet]  # fmt: skip
    use = f"""@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512;
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.{DONE} [{TILE}], [%a0, {{0, 0}}], [{BAR}]; {wait(BAR)}"""
    if prefetch:
        use = "@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global [%a0, {0, 0}];"
    body = f"""{init_barrier(BAR)} @%p0 fence.proxy.async; bar.sync 0; setp.ge.u32 %p1, %t, 32; @%p1 bra.uni USE;
    add.u64 %rd1, %a1, 512; @%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%a0], %rd1; {release} {tell} bra.uni END;
    USE: setp.eq.u32 %p0, %t, 32; {hear} {acquire} {use}
    END:"""
    how: dict[str, Any] = {"threads": 64, "shared_bytes": 4096, "schedule": schedule, "races": True}
    return {
        f.code for f in run(body, [maps, table, flag], memory=memory, **how).findings if f.severity != "note"
    }


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("meet", ["barrier", "flag"])
def test_another_thread_acquires_what_was_released_to_it(meet: str, schedule: Schedule) -> None:
    assert handed(meet, RELEASE, ACQUIRE, schedule) == set()
    assert handed(meet, RELEASE, "", schedule) & {"race-tensormap-fence", "race-unordered"}
    assert handed("nothing", RELEASE, ACQUIRE, schedule) & {"race-unordered", "race-copy-unwaited"}
    if meet == "barrier":
        assert handed(meet, "", ACQUIRE, schedule) == {"race-tensormap-fence"}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("meet", ["barrier", "flag"])
def test_a_prefetch_reads_its_map(meet: str, schedule: Schedule) -> None:
    assert handed(meet, RELEASE, ACQUIRE, schedule, prefetch=True) == set()
    assert handed(meet, RELEASE, "", schedule, prefetch=True) & {"race-tensormap-fence", "race-unordered"}
    assert handed("nothing", RELEASE, ACQUIRE, schedule, prefetch=True) & {"race-unordered"}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(
    "wait_group", ["cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;", ""]
)
def test_a_store_reads_its_map_as_long_as_its_source(wait_group: str, schedule: Schedule) -> None:
    memory = Memory()
    table = memory.buffer(np.zeros((8, 64), np.uint16))
    m = TensorMap.tiled(table, shape=(64, 4), strides=(128,), box=(64, 4), dtype="bfloat16")
    maps = memory.buffer(np.frombuffer(m.encode(), np.uint32).copy())
    body = f"""mad.lo.u32 %r1, %t, 16, {TILE}; st.shared.v4.u32 [%r1], {{0, 0, 0, 0}}; fence.proxy.async; bar.sync 0;
    setp.ne.u32 %p1, %t, 0; @%p1 exit; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a0, {{0, 0}}], [{TILE}]; cp.async.bulk.commit_group; {wait_group}
    add.u64 %rd1, %a1, 512; tensormap.replace.tile.global_address.global.b1024.b64 [%a0], %rd1; cp.async.bulk.wait_group 0;"""
    how: dict[str, Any] = {"shared_bytes": 4096, "schedule": schedule, "races": True}
    assert codes(run(body, [maps, table], memory=memory, **how)) == (
        set() if wait_group else {"race-copy-unwaited"}
    )


@pytest.mark.parametrize("strict", [False, True])
def test_an_acquire_of_no_map(strict: bool) -> None:
    line = "mov.u64 %rd1, 0; fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    (found,) = run(line, threads=32, strict=strict).findings
    assert (found.code, found.severity) == ("tensormap-null", "error" if strict else "note")


def test_an_acquire_outside_every_buffer() -> None:
    line = "mov.u64 %rd1, 64; fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    assert codes(run(line, threads=1)) == {"global-out-of-bounds"}
