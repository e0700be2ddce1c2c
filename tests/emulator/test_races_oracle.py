"""Race checking against a second oracle: random small programs, whose races follow from reachability."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule

from tests.kit.ptx import run, wait

WARPS, LANES, WORDS = 3, 2, 3
BASE, BARRIERS = 1024 + 512, 1024  # words, then mbarriers of one arrival, each used once


@dataclass(frozen=True)
class Step:
    """`kind` is write, read, signal (an mbarrier), wait (for one), warp (bar.warp.sync) or cta (bar.sync)."""

    kind: str
    warp: int = 0
    lane: int = 0
    which: int = 0


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps in an order in which they can run: a wait comes after its signal."""
    steps: list[Step] = []
    signals = 0
    for _ in range(draw(st.integers(2, 14))):
        warp, lane = draw(st.integers(0, WARPS - 1)), draw(st.integers(0, LANES - 1))
        kind = draw(st.sampled_from(["write", "read", "write", "read", "signal", "wait", "warp", "cta"]))
        if kind in ("write", "read"):
            steps.append(Step(kind, warp, lane, draw(st.integers(0, WORDS - 1))))
        elif kind == "signal":
            steps.append(Step(kind, warp, lane, signals))
            signals += 1
        elif kind == "wait" and signals:
            steps.append(Step(kind, warp, lane, draw(st.integers(0, signals - 1))))
        elif kind in ("warp", "cta"):
            steps.append(Step(kind, warp))
    return steps


def ptx(steps: list[Step]) -> str:
    """All warps walk through the steps and execute their own."""
    lines = ["and.b32 %r1, %t, 31; shr.u32 %r2, %t, 5;"]
    for number, step in enumerate(steps):
        mine = f"setp.eq.u32 %p0, %r2, {step.warp}; setp.eq.and.u32 %p1, %r1, {step.lane}, %p0;"
        word, barrier = BASE + 4 * step.which, BARRIERS + 8 * step.which
        match step.kind:
            case "write":
                lines.append(f"{mine} @%p1 st.shared.u32 [{word}], {number};")
            case "read":
                lines.append(f"{mine} @%p1 ld.shared.u32 %r3, [{word}];")
            case "signal":
                lines.append(f"{mine} @%p1 mbarrier.arrive.shared::cta.b64 _, [{barrier}];")
            case "wait":
                lines.append(f"{mine}\n@!%p1 bra SKIP_{number};\n{wait(barrier)}\nSKIP_{number}:")
            case "warp":
                lines.append(f"{mine}\n@!%p0 bra SKIP_{number};\nbar.warp.sync -1;\nSKIP_{number}:")
            case _:
                lines.append("bar.sync 0;")
    inits = "".join(
        f"@%p9 mbarrier.init.shared::cta.b64 [{BARRIERS + 8 * step.which}], 1;\n"
        for step in steps
        if step.kind == "signal"
    )
    zeros = "".join(f"@%p9 st.shared.u32 [{BASE + 4 * word}], 0;\n" for word in range(WORDS))
    return f"setp.eq.u32 %p9, %t, 0;\n{inits}{zeros}bar.sync 0;\n" + "\n".join(lines)


def racy_words(steps: list[Step]) -> set[int]:
    """Words with two conflicting accesses neither of which reaches the other."""
    everyone = [(warp, lane) for warp in range(WARPS) for lane in range(LANES)]
    last: dict[tuple[int, int], int] = {}
    signalled: dict[int, int] = {}
    before: list[set[int]] = []  # steps that happen before each step
    for number, step in enumerate(steps):
        if step.kind == "cta":
            who = everyone
        elif step.kind == "warp":
            who = [(step.warp, lane) for lane in range(LANES)]
        else:
            who = [(step.warp, step.lane)]
        direct = {last[thread] for thread in who if thread in last}
        if step.kind == "wait":
            direct.add(signalled[step.which])
        before.append(direct.union(*(before[event] for event in direct)))
        if step.kind == "signal":
            signalled[step.which] = number
        for thread in who:
            last[thread] = number
    found = set()
    for j, second in enumerate(steps):
        for i, first in enumerate(steps[:j]):
            access = first.kind in ("write", "read") and second.kind in ("write", "read")
            if access and first.which == second.which and "write" in (first.kind, second.kind):
                found |= {first.which} if i not in before[j] else set()
    return found


@settings(max_examples=300, deadline=None)
@given(steps=programs(), schedule=st.sampled_from([Schedule(), Schedule("late"), Schedule("random", 7)]))
def test_the_engine_finds_just_the_racy_words(steps: list[Step], schedule: Schedule) -> None:
    result = run(ptx(steps), threads=32 * WARPS, shared_bytes=1024, schedule=schedule, races=True)
    expected = racy_words(steps)
    event(f"{len(expected)} racy words")
    assert {f.code for f in result.findings} <= {"race-unordered"}
    assert bool(result.findings) == bool(expected)
    # A finding is kept once for two instructions, so each racy word has one of its own unless they share it.
    assert {(f.machine.address - BASE) // 4 for f in result.findings} <= expected
    assert {(f.machine.address - BASE) // 4 for f in result.findings} == expected


def test_the_oracle_itself() -> None:
    race = [Step("write", 0, 0, 1), Step("read", 1, 0, 1)]
    assert racy_words(race) == {1}
    assert racy_words([race[0], Step("cta"), race[1]]) == set()
    assert racy_words([race[0], Step("signal", 0, 0, 0), Step("wait", 1, 0, 0), race[1]]) == set()
    assert racy_words([race[0], Step("signal", 0, 1, 0), Step("wait", 1, 0, 0), race[1]]) == {1}
    assert (
        racy_words([race[0], Step("warp", 0), Step("signal", 0, 1, 0), Step("wait", 1, 0, 0), race[1]])
        == set()
    )
