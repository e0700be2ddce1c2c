# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""red.global.add.f32 of lanes on words side by side: values at the edges, lanes that are left out, races with rows."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult

from tests.kit.ptx import clean, codes, run
from tests.kit.values import ftz, same_f32

COVERS = "red"

EDGES = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC12345, 0x7F812345, 0x3F800000, 0xBF800000],
    np.uint32,
).view(np.float32)  # fmt: skip
# Which lanes are active, and each lane's word.
LANES = {
    "a whole warp": ("setp.lt.u32 %p1, %t, 32;", "%t"),
    "from the third on": ("setp.gt.u32 %p1, %t, 2;", "%t"),
    "a run within": ("sub.u32 %r9, %t, 5; setp.lt.u32 %p1, %r9, 9;", "%t"),
    "one": ("setp.eq.u32 %p1, %t, 6;", "%t"),
    "every other": ("and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 1;", "%t"),
    "backwards": ("setp.lt.u32 %p1, %t, 32;", "%r8"),
    "every second word": ("setp.lt.u32 %p1, %t, 16;", "%r7"),
    "one word": ("setp.lt.u32 %p1, %t, 7;", "5"),
}


@pytest.mark.parametrize("first", [0, 1, 3, 7])
@pytest.mark.parametrize("lanes", LANES)
def test_values_of_any_lanes(lanes: str, first: int) -> None:
    """From any word of a granule on, numpy adds what the lanes add, flushed before and after."""
    rng = np.random.default_rng(first)
    cells = rng.choice(np.concatenate([EDGES, rng.standard_normal(8).astype(np.float32)]), 48)
    values = rng.choice(EDGES, 32)
    active, word = LANES[lanes]
    memory = Memory()
    table = cells.copy()
    body = f"""
    {active} sub.u32 %r8, 31, %t; add.u32 %r7, %t, %t; mov.u32 %r6, {word};
    mad.wide.u32 %rd1, %r6, 4, %a0; mad.wide.u32 %rd2, %t, 4, %a1;
    ld.global.f32 %f1, [%rd2];
    @%p1 red.global.add.f32 [%rd1+{4 * first}], %f1;"""
    result = clean(run(body, [memory.buffer(table), memory.buffer(values)], memory=memory, races=True))
    t = np.arange(32)
    on = {
        "a whole warp": t < 32, "from the third on": t > 2, "a run within": (t >= 5) & (t < 14), "one": t == 6,
        "every other": t % 2 == 1, "backwards": t < 32, "every second word": t < 16, "one word": t < 7,
    }[lanes]  # fmt: skip
    to = {"backwards": 31 - t, "every second word": 2 * t, "one word": np.full(32, 5)}.get(lanes, t) + first
    want = cells.copy()
    with np.errstate(all="ignore"):
        for lane in t[on]:
            want[to[lane]] = ftz(ftz(want[to[lane], None]) + ftz(values[lane, None]))[0]
    same_f32(table, want)
    assert result.counters["atomic_bytes"] == 4 * on.sum()
    assert result.counters["global_bytes"] == 4 * 32 + 8 * on.sum()


ROW = "mad.wide.u32 %rd1, %t, 4, %a0;\nmov.u32 %r90, %ctaid.x; setp.eq.u32 %p1, %r90, 0; setp.eq.u32 %p2, %t, 5;"
ADD = "red.global.add.f32 [%rd1+{}], 0f3F800000;"


def row(code: str, *, first: int = 0, cluster: int = 1, grid: int = 2) -> RunResult:
    memory = Memory()
    data = memory.buffer(np.zeros(48, np.float32))
    return run(
        f"{ROW}\n{code.replace('ADD', ADD.format(4 * first))}", [data],
        memory=memory, grid=grid, cluster=cluster, resident=2, races=True,
    )  # fmt: skip


@pytest.mark.parametrize("first", [0, 2])
def test_rows_race_with_what_is_not_atomic(first: int) -> None:
    word = f"[%a0+{4 * (first + 5)}]"
    store, load = f"@%p2 st.global.f32 {word}, 0f40000000;", f"@%p2 ld.global.f32 %f1, {word};"
    assert codes(row("ADD ADD", first=first)) == set()
    assert codes(row("ADD ADD", first=first, cluster=2)) == set()
    for plain in (store, load):
        for code in (
            f"@%p1 bra OTHER;\nADD\nret;\nOTHER:\n{plain}",
            f"@%p1 bra OTHER;\n{plain}\nret;\nOTHER:\nADD",
        ):
            assert codes(row(code, first=first)) == {"race-clusters"}, code
            assert codes(row(code, first=first, cluster=2)) == {"race-unordered"}, code
        # In one warp: lane 5's own accesses are in order, its neighbour's are not.
        alone = {"grid": 1, "first": first}
        assert codes(row(f"ADD\n{plain}", **alone)) == set()
        assert codes(row(f"{plain}\nADD", **alone)) == set()
        theirs = plain.replace(word, f"[%a0+{4 * (first + 6)}]")
        assert codes(row(f"ADD\n{theirs}", **alone)) == {"race-unordered"}
        assert codes(row(f"{theirs}\nADD", **alone)) == {"race-unordered"}
        assert codes(row(f"ADD\nbar.warp.sync -1;\n{theirs}", **alone)) == set()


def test_rows_of_a_narrow_scope_race_between_clusters() -> None:
    narrow = "red.relaxed.cta.global.add.f32 [%rd1], 0f3F800000;"
    assert codes(row(narrow)) == {"race-scope"}
    assert codes(row(f"@%p1 bra OTHER;\nADD\nret;\nOTHER:\n{narrow}")) == {"race-scope"}
    assert codes(row(narrow, grid=1)) == set()


def test_a_row_behind_a_fence_hands_on_what_came_before() -> None:
    """The fence and the row of lane 0's warp release; who reads the word and fences comes after the datum."""
    code = """
    @!%p1 bra READER;
    @%p2 st.global.f32 [%a0+160], 0f40000000;
    bar.warp.sync -1;
    FENCE
    ADD
    ret;
    READER:
    @!%p2 ret;
    AGAIN: ld.relaxed.gpu.global.f32 %f2, [%a0+12];
    setp.eq.f32 %p3, %f2, 0f00000000; @%p3 bra AGAIN;
    fence.acq_rel.gpu;
    ld.global.f32 %f3, [%a0+160];"""
    assert codes(row(code.replace("FENCE", "fence.acq_rel.gpu;"))) == set()
    assert codes(row(code.replace("FENCE", ""))) == {"race-clusters"}


def test_rows_out_of_bounds_and_of_unset_words_name_the_lane() -> None:
    memory = Memory()
    short = memory.buffer(np.zeros(20, np.float32))
    result = run("mad.wide.u32 %rd1, %t, 4, %a0;\n" + ADD.format(0), [short], memory=memory)
    (found,) = result.findings
    assert (found.code, found.machine.lane) == ("global-out-of-bounds", 20)
    memory = Memory()
    unset = memory.empty((32,), np.float32)
    body = (
        "mad.wide.u32 %rd1, %t, 4, %a0;\nsetp.ne.u32 %p1, %t, 9;\n@%p1 st.global.f32 [%rd1], 0f00000000;\n"
        + ADD.format(0)
    )
    (found,) = run(body, [unset], memory=memory).findings
    assert (found.code, found.machine.lane, found.count) == ("global-uninitialised", 9, 1)
