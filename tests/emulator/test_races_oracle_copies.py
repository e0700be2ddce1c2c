"""Race checking of bulk copies against reachability, over random programs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule

from tests.kit.ptx import Memory, run, wait

WARPS, LANES, WORDS, MAX_EVENTS = 2, 2, 2, 14
BASE, BARRIERS = 1024 + 512, 1024  # words of 16 bytes, then mbarriers that are used once
KINDS = ["write", "read", "load", "store", "wait", "group", "group.read", "fence", "warp", "cta"]


@dataclass(frozen=True)
class Step:
    """One step of one lane.

    `load` fills a word from global memory and signals mbarrier `which`, `wait` waits for one; `store` reads a
    word and is a bulk group of its own, `group` and `group.read` wait for all groups of the lane; `fence` is
    fence.proxy.async.
    """

    kind: str
    warp: int = 0
    lane: int = 0
    word: int = 0
    which: int = 0


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps in an order in which they can run."""
    steps: list[Step] = []
    loads = 0
    for _ in range(draw(st.integers(2, MAX_EVENTS))):
        kind = draw(st.sampled_from(KINDS))
        warp, lane = draw(st.integers(0, WARPS - 1)), draw(st.integers(0, LANES - 1))
        word = draw(st.integers(0, WORDS - 1))
        if kind == "load":
            steps.append(Step(kind, warp, lane, word, loads))
            loads += 1
        elif kind == "wait":
            if loads:
                steps.append(Step(kind, warp, lane, 0, draw(st.integers(0, loads - 1))))
        else:
            steps.append(Step(kind, warp, lane, word))
    return steps


def ptx(steps: list[Step]) -> str:
    """All warps walk through the steps and execute their own."""
    lines = ["and.b32 %r1, %t, 31; shr.u32 %r2, %t, 5; mov.u32 %r9, 0;"]
    for number, step in enumerate(steps):
        lines.append(f"setp.eq.u32 %p0, %r2, {step.warp}; setp.eq.and.u32 %p1, %r1, {step.lane}, %p0;")
        word, barrier = BASE + 16 * step.word, BARRIERS + 8 * step.which
        match step.kind:
            case "write":
                # Each its own value: the same one twice is a note.
                lines.append(f"@%p1 st.shared.v4.u32 [{word}], {{{', '.join([str(number + 1)] * 4)}}};")
            case "read":
                lines.append(f"@%p1 ld.shared.v4.u32 {{%r3, %r4, %r5, %r6}}, [{word}];")
            case "load":
                lines.append(f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], 16;")
                lines.append(
                    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                    f"[{word}], [%a0], 16, [{barrier}];"
                )
            case "store":
                lines.append(f"add.u64 %rd1, %a1, {16 * number};")
                lines.append(f"@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [{word}], 16;")
                lines.append("@%p1 cp.async.bulk.commit_group;")
            case "wait":
                lines.append(f"@!%p1 bra SKIP_{number};\n{wait(barrier)}\nSKIP_{number}:")
            case "group" | "group.read":
                lines.append(f"@%p1 cp.async.bulk.wait_{step.kind} 0;")
            case "fence":
                lines.append("@%p1 fence.proxy.async;")
            case "warp":
                lines.append(f"@!%p0 bra SKIP_{number};\nbar.warp.sync -1;\nSKIP_{number}:")
            case _:
                lines.append("bar.sync 0;")
    loads = sum(step.kind == "load" for step in steps)
    first = "".join(f"@%p9 mbarrier.init.shared::cta.b64 [{BARRIERS + 8 * n}], 1;\n" for n in range(loads))
    zeros = "".join(f"@%p9 st.shared.v4.u32 [{BASE + 16 * n}], {{0, 0, 0, 0}};\n" for n in range(WORDS))
    # At the end every copy is over before its CTA exits.
    last = "".join(wait(BARRIERS + 8 * n) + "\n" for n in range(loads)) + "cp.async.bulk.wait_group 0;"
    return (
        f"setp.eq.u32 %p9, %t, 0;\n{first}{zeros}fence.proxy.async;\n"
        "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n" + "\n".join(lines) + f"\n{last}"
    )


@dataclass
class Node:
    """A step, or the asynchronous part of one; `before`: all that happens before it."""

    step: Step
    asynchronous: bool = False
    before: set[int] = field(default_factory=set)


def graph(steps: list[Step]) -> list[Node]:
    """Steps and copies with what happens before them."""
    everyone = [(warp, lane) for warp in range(WARPS) for lane in range(LANES)]
    nodes: list[Node] = []
    last: dict[tuple[int, int], int] = {}
    loads: dict[int, tuple[int, int]] = {}  # the issuing step, which arrives, and its copy
    stores: dict[tuple[int, int], list[int]] = {word: [] for word in everyone}
    for step in steps:
        who = [(step.warp, step.lane)]
        if step.kind == "cta":
            who = everyone
        elif step.kind == "warp":
            who = [(step.warp, lane) for lane in range(LANES)]
        direct = {last[thread] for thread in who if thread in last}
        if step.kind == "wait":
            direct |= set(loads[step.which])
        if step.kind.startswith("group"):
            direct |= set(stores[who[0]])
        here = len(nodes)
        nodes.append(Node(step, before=direct.union(*(nodes[node].before for node in direct))))
        if step.kind in ("load", "store"):
            nodes.append(Node(step, True, nodes[here].before | {here}))
            if step.kind == "load":
                loads[step.which] = (here, here + 1)
            else:
                stores[who[0]].append(here + 1)
        for thread in who:
            last[thread] = here
    return nodes


def racy_words(steps: list[Step]) -> set[int]:
    """Words with conflicting accesses that nothing orders, or whose generic write no proxy fence follows."""
    nodes = graph(steps)
    found = set()
    touching = [
        (n, node, node.step.kind in ("write", "load"))
        for n, node in enumerate(nodes)
        if (node.asynchronous if node.step.kind in ("load", "store") else node.step.kind in ("write", "read"))
    ]
    for j, second, second_writes in touching:
        for i, first, first_writes in touching:
            if i >= j or first.step.word != second.step.word or not (first_writes or second_writes):
                continue
            if i not in second.before:
                found.add(first.step.word)
            elif first_writes and second.asynchronous and not first.asynchronous:
                fences = (f for f in second.before if nodes[f].step.kind == "fence")
                if not any(i in nodes[f].before for f in fences):
                    found.add(first.step.word)
    return found


@settings(max_examples=300, deadline=None)
@given(
    steps=programs(),
    schedule=st.sampled_from([Schedule(), Schedule("late"), Schedule("random", 7), Schedule("pct", 2)]),
)
def test_the_engine_finds_just_the_racy_words(steps: list[Step], schedule: Schedule) -> None:
    expected = racy_words(steps)
    event(f"{len(expected)} racy words")
    assert checked(steps, schedule) == expected


def checked(steps: list[Step], schedule: Schedule) -> set[int]:
    """The words that the engine finds racy (a missing fence is a warning); without one no error at all."""
    memory = Memory()
    source = memory.buffer(np.zeros(4, np.uint32))
    target = memory.buffer(np.zeros(4 * MAX_EVENTS, np.uint32))
    result = run(
        ptx(steps), [source, target], memory=memory, threads=32 * WARPS, shared_bytes=1024, schedule=schedule,
        races=True,
    )  # fmt: skip
    found = {f for f in result.findings if f.severity != "note" and f.code.startswith("race-")}
    assert found or not result.errors
    return {(f.machine.address - BASE) // 16 for f in found}


def test_the_oracle_itself() -> None:
    load, see = Step("load", 0, 0, 0, 0), Step("wait", 1, 1, 0, 0)
    write, read = Step("write", 0, 0), Step("read", 1, 1)
    assert racy_words([load, see, read]) == set()
    assert racy_words([load, read]) == {0}
    assert racy_words([load, see, Step("read", 1, 0)]) == {0}
    assert racy_words([write, load]) == {0}
    assert racy_words([write, Step("fence", 0, 0), load]) == set()
    store, done = Step("store", 0, 0), Step("group.read", 0, 0)
    assert racy_words([store, Step("write", 0, 0)]) == {0}
    assert racy_words([store, done, Step("write", 0, 0)]) == set()
    assert racy_words([store, done, Step("write", 0, 1)]) == {0}


def test_a_bulk_group_completes_for_its_thread_only() -> None:
    # Found by the oracle: lane 0 writes what lane 1 stored and waited for, without a barrier between them.
    steps = [Step("store", 0, 1, 0), Step("write", 0, 0, 1), Step("group", 0, 1), Step("write", 0, 0, 0)]
    assert checked(steps, Schedule()) == racy_words(steps) == {0}
