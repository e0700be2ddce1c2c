# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""cp.async: values and zero fill, groups, mbarrier arrivals, and what is found without the waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import PtxError, RunResult, Schedule, UnsupportedInstruction

from tests.kit.ptx import POLICIES, Memory, clean, codes, init_barrier, run, wait

COVERS = "cp.async cp.async.commit_group cp.async.wait_group cp.async.wait_all cp.async.mbarrier.arrive"

BAR, TILE = 1024, 2048


def at(size: int) -> str:
    return f"mad.wide.u32 %rd1, %t, {size}, %a1; mad.wide.u32 %rd2, %t, {size}, %a0; mad.lo.u32 %r1, %t, {size}, {TILE};"


def dump(size: int, lane: str = "%t") -> str:
    """Each thread stores the bytes that thread `lane` copied."""
    words = size // 4
    lines = [f"mad.lo.u32 %r30, {lane}, {size}, {TILE};"]
    for k in range(words):
        lines.append(f"ld.shared.u32 %r31, [%r30+{4 * k}]; st.global.u32 [%rd2+{4 * k}], %r31;")
    return " ".join(lines)


def launch(body: str, data: np.ndarray, out: np.ndarray, schedule: Schedule, **how: Any) -> RunResult:
    memory = Memory()
    how = {"threads": 64, "shared_bytes": 8192, "races": True} | how
    return run(body, [memory.buffer(out), memory.buffer(data)], memory=memory, schedule=schedule, **how)


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(("form", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
@pytest.mark.parametrize("fill", ["", "size", "predicate", "negated"])
def test_copies_and_zero_fill(schedule: Schedule, form: str, size: int, fill: str) -> None:
    """src-size cuts each thread's copy after thread % (size + 1) bytes; ignore-src drops those of odd
    threads."""
    rng = np.random.default_rng(size)
    data = rng.integers(1, 256, (64, size), dtype=np.uint8)
    out = np.zeros((64, size), np.uint8)
    extra = {"": "", "size": ", %r5", "predicate": ", %p1", "negated": ", !%p2"}[fill]
    body = f"""
    {at(size)} rem.u32 %r5, %t, {size + 1}; and.b32 %r6, %t, 1; setp.eq.u32 %p1, %r6, 1; setp.ne.u32 %p2, %r6,
    1; cp.async.{form}.shared::cta.global.L2::128B [%r1], [%rd1], {size}{extra}; cp.async.commit_group;
    cp.async.wait_group 0; {dump(size)}"""
    result = clean(launch(body, data, out, schedule))
    want = data.copy()
    if fill == "size":
        want[np.arange(size)[None] >= (np.arange(64) % (size + 1))[:, None]] = 0
    elif fill:
        want[1::2] = 0
    assert (out == want).all() and result.counters["cp_async_bytes"] == 64 * size


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 2), Schedule("pct", 5)])
def test_a_pipeline_of_groups(schedule: Schedule) -> None:
    """Three stages in flight; wait_group 2 leaves the two newest pending. Empty groups count."""
    steps, size = 8, 16
    data = np.arange(steps * 64 * 4, dtype=np.uint32).reshape(steps, 64, 4)
    out = np.zeros_like(data)
    lines = [at(size)]

    def load(step: int) -> str:
        copy = (
            f"cp.async.cg.shared.global.L2::cache_hint [%r1+{step % 3 * 1024}], [%rd1+{step * 1024}], 16, %rd9;"
            if step < steps
            else ""
        )
        return copy + " cp.async.commit_group;"

    lines += [load(0), load(1)]
    for step in range(steps):
        lines += [load(step + 2), "cp.async.wait_group 2; bar.sync 0;"]
        # The neighbour's part, which its barrier makes visible.
        lines += [
            f"xor.b32 %r7, %t, 1; mad.lo.u32 %r8, %r7, 16, {TILE + step % 3 * 1024}; ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r8];"
        ]
        lines += [
            f"mad.wide.u32 %rd3, %r7, 16, %a0; st.global.v4.u32 [%rd3+{step * 1024}], {{%r10, %r11, %r12, %r13}}; bar.sync 0;"
        ]
    clean(launch("\n".join(lines), data, out, schedule))
    assert (out == data).all()
    short = launch("\n".join(lines).replace("wait_group 2", "wait_group 3"), data, out, schedule)
    assert "race-copy-unwaited" in codes(short)


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 2)])
@pytest.mark.parametrize("noinc", [".noinc", ""])
def test_an_mbarrier_tracks_the_copies(schedule: Schedule, noinc: str) -> None:
    """Warp 0 copies; warp 1 waits on the mbarrier. Without .noinc the arrivals are net zero, so one more is
    needed."""
    data = np.arange(64 * 4, dtype=np.uint32).reshape(64, 4)
    out = np.zeros_like(data)
    copies = (
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.cg.shared.global [%r1+512], [%rd1+512], 16;"
    )
    arrive = f"cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [{BAR}];"
    own = "" if noinc else f"mbarrier.arrive.shared::cta.b64 _, [{BAR}];"
    body = f"""
    {init_barrier(BAR, 32)} {at(16)} setp.ge.u32 %p1, %t, 32; @%p1 bra READ;
    {copies} {arrive} {own} bra END;
    READ: {wait(BAR)} sub.u32 %r9, %t, 32; mad.wide.u32 %rd2, %r9, 16, %a0; {dump(16, "%r9")}
    add.u32 %r9, %r9, 32; mad.wide.u32 %rd2, %r9, 16, %a0; {dump(16, "%r9")}
    END:"""
    clean(launch(body, data, out, schedule))
    assert (out == data).all()
    # The arrival before the copies tracks none of them.
    early = launch(body.replace(f"{copies} {arrive}", f"{arrive} {copies}"), data, out, schedule)
    found = codes(early)
    assert found & {"race-copy-unwaited", "race-unordered"} and "async-pending-at-exit" in found


def test_a_missing_arrival_hangs_and_is_named() -> None:
    body = f"""
    {init_barrier(BAR, 33)} {at(16)} setp.ge.u32 %p1, %t, 32; @%p1 bra READ;
    cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [{BAR}]; bra END;
    READ: {wait(BAR)}
    END:"""
    result = launch(body, np.zeros((64, 4), np.uint32), np.zeros((64, 4), np.uint32), Schedule("late"))
    hang = next(f for f in result.errors if f.code == "hang")
    assert "lacks 1 of 33 arrivals" in str(hang)


UNWAITED = f"{at(4)} cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group;"


@pytest.mark.parametrize("schedule", POLICIES)
def test_what_is_not_waited_for_is_found(schedule: Schedule) -> None:
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    unwaited = launch(f"{UNWAITED} {dump(4)} cp.async.wait_all;", data, out, schedule)
    assert "race-copy-unwaited" in codes(unwaited)
    if schedule.policy == "late":
        assert "shared-pending" in codes(unwaited) and (out == 0xFFFFFFFF).all()
    # A wait without a commit before it waits for nothing.
    uncommitted = launch(
        f"{UNWAITED.replace('cp.async.commit_group;', '')} cp.async.wait_group 0; {dump(4)} cp.async.wait_all;",
        data,
        out,
        schedule,
    )
    assert "race-copy-unwaited" in codes(uncommitted)
    clean(
        launch(
            f"{UNWAITED.replace('cp.async.commit_group;', '')} cp.async.wait_all; {dump(4)}",
            data,
            out,
            schedule,
        )
    )
    # What another thread copied needs a barrier, by a lane of the same warp too.
    neighbour = f"{UNWAITED} cp.async.wait_group 0; BARRIER xor.b32 %r7, %t, OTHER; {dump(4, '%r7')}"
    for other, barrier in ((1, "bar.warp.sync -1;"), (32, "bar.sync 0;")):
        text = neighbour.replace("OTHER", str(other))
        found = codes(launch(text.replace("BARRIER", ""), data, out, schedule))
        assert "race-unordered" in found or (other == 32 and "race-copy-unwaited" in found)
        clean(launch(text.replace("BARRIER", barrier), data, out, schedule))
    # A barrier alone does not cover copies in flight.
    assert "race-copy-unwaited" in codes(
        launch(
            f"{UNWAITED} bar.sync 0; xor.b32 %r7, %t, 32; {dump(4, '%r7')} cp.async.wait_all;",
            data,
            out,
            schedule,
        )
    )


@pytest.mark.parametrize("schedule", POLICIES)
def test_the_source_and_the_destination_are_the_copy_s_until_then(schedule: Schedule) -> None:
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    for line in (
        "st.global.u32 [%rd1], 7;",
        "st.shared.u32 [%r1], 7;",
        "cp.async.ca.shared.global [%r1], [%rd2], 4;",
    ):
        wrong = launch(f"{UNWAITED} {line} cp.async.wait_all;", data.copy(), out, schedule)
        assert "race-copy-unwaited" in codes(wrong), line
        clean(launch(f"{UNWAITED} cp.async.wait_all; {line} cp.async.wait_all;", data.copy(), out, schedule))


@pytest.mark.parametrize("schedule", POLICIES)
def test_the_async_proxy_needs_a_fence_after_the_wait(schedule: Schedule) -> None:
    """cp.async belongs to the generic proxy: a bulk store of what it brought needs fence.proxy.async."""
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{UNWAITED} cp.async.wait_group 0; fence.proxy.async; bar.sync 0; setp.eq.u32 %p0, %t, 0; @!%p0
    bra END; cp.async.bulk.global.shared::cta.bulk_group [%a0], [{TILE}], 256; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0; END:"""
    clean(launch(body, data, out, schedule))
    assert (out == data).all()
    assert codes(launch(body.replace("fence.proxy.async;", ""), data, out, schedule)) == {"race-proxy-fence"}
    swapped = body.replace(
        "cp.async.wait_group 0; fence.proxy.async;", "fence.proxy.async; cp.async.wait_group 0;"
    )
    assert codes(launch(swapped, data, out, schedule)) == {"race-proxy-fence"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cp.async.ca.shared.global [%r1+2], [%rd1], 4;", "misaligned"),
        ("cp.async.ca.shared.global [%r1], [%rd1+4], 8;", "misaligned"),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4, 5;", "copy-size"),
        ("cp.async.ca.shared.global [%r1], [%rd1+1024], 4;", "global-out-of-bounds"),
        ("cp.async.ca.shared.global [%r1+65536], [%rd1], 4;", "shared-out-of-bounds"),
        ("cp.async.ca.shared.global [0x1000800], [%rd1], 4;", "shared-wrong-window"),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", "mbarrier-uninitialised"),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4;", "async-pending-at-exit"),
    ],
)
def test_misuse(line: str, code: str) -> None:
    body = f"{at(4)} {line}"
    found = launch(body, np.zeros(64, np.uint32), np.zeros(64, np.uint32), Schedule("late"), threads=1)
    assert code in codes(found) and codes(found) <= {code, "async-pending-at-exit"}


def test_no_bytes_are_read_where_none_are_asked_for() -> None:
    data, out = np.arange(64, dtype=np.uint32), np.ones(64, np.uint32)
    body = f"{at(4)} cp.async.ca.shared.global [%r1], [%rd1+4096], 4, 0; cp.async.wait_all; {dump(4)}"
    clean(launch(body, data, out, Schedule("late")))
    assert (out == 0).all()


@pytest.mark.parametrize("line", ["cp.async.cg.shared.global [%r1], [%rd1], 8;", "cp.async.ca.shared.global [%r1], [%rd1], 12;",
                                  "cp.async.wait_group %r1;", "cp.async.ca.shared.global [%r1], [%rd1], 4, %r2, %p1;"])  # fmt: skip
def test_bad_operands(line: str) -> None:
    with pytest.raises(PtxError):
        run(line)


@pytest.mark.parametrize("line", ["cp.async.shared.global [%r1], [%rd1], 4;", "cp.async.mbarrier.arrive.shared::cluster.b64 [%r1];"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(line)
