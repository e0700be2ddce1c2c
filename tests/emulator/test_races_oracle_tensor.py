# ruff: noqa: E501 - PTX lines are kept whole
"""Race checking of tensor memory against reachability, over random programs of MMAs, loads, stores and fences."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import alloc, dealloc, run, wait

WARPS, MAX_EVENTS = 2, 14  # warp w reads and writes lanes 32 w .. 32 w + 31; an MMA writes all of them
BARRIERS = 1024
DESC = SmemDescriptor(0x1000, 16, 256, "32B").encode()
IDESC = InstructionDescriptor(128, 32).encode()
KINDS = ["mma", "commit", "wait", "ld", "st", "wait_ld", "wait_st", "before", "after", "cta", "cta", "after"]
LOADED = "{" + ", ".join(f"%r{60 + i}" for i in range(8)) + "}"
STORED = "{" + ", ".join(f"%r{70 + i}" for i in range(8)) + "}"
TEXT = {
    "ld": f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {LOADED}, [%r51];",
    "st": f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {STORED};",
    "wait_ld": "tcgen05.wait::ld.sync.aligned;",
    "wait_st": "tcgen05.wait::st.sync.aligned;",
    "before": "tcgen05.fence::before_thread_sync;",
    "after": "tcgen05.fence::after_thread_sync;",
}


@dataclass(frozen=True)
class Step:
    """One step of one warp, of its lane 0 for an MMA and a commit; `which` numbers the mbarriers of commits."""

    kind: str
    warp: int = 0
    which: int = 0


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps in an order in which they can run."""
    steps: list[Step] = []
    commits = 0
    for _ in range(draw(st.integers(2, MAX_EVENTS))):
        kind, warp = draw(st.sampled_from(KINDS)), draw(st.integers(0, WARPS - 1))
        if kind == "commit":
            steps.append(Step(kind, warp, commits))
            commits += 1
        elif kind == "wait":
            if commits:
                steps.append(Step(kind, warp, draw(st.integers(0, commits - 1))))
        else:
            steps.append(Step(kind, warp))
    return steps


def commit(barrier: int, predicate: str) -> str:
    return f"@{predicate} tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{barrier}];"


def ptx(steps: list[Step]) -> str:
    """All warps walk through the steps and execute their own; at the end everything is waited for."""
    commits = sum(step.kind == "commit" for step in steps)
    every = range(commits + WARPS)
    lines = [
        "setp.eq.u32 %p9, %t, 0;",
        *(f"@%p9 mbarrier.init.shared::cta.b64 [{BARRIERS + 8 * n}], 1;" for n in every),
        "fence.mbarrier_init.release.cluster; bar.sync 0;",
        alloc(32, slot=1024 + 512),
        "and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t;",
        " ".join(f"mov.b32 %r{70 + i}, 0;" for i in range(8)),
        "mad.lo.u32 %r1, %t, 64, 4096;",
        *(f"st.shared.v4.b32 [%r1+{16 * n}], {{0, 0, 0, 0}};" for n in range(4)),
        "st.shared.v4.b32 [%r1+4096], {0, 0, 0, 0};",
        # Cells that nothing wrote are a finding of their own.
        f"{TEXT['st']} {TEXT['wait_st']} {TEXT['before']} fence.proxy.async; bar.sync 0; {TEXT['after']}",
    ]
    for number, step in enumerate(steps):
        lines.append(f"setp.eq.u32 %p0, %r101, {step.warp}; setp.eq.u32 %p1, %t, {32 * step.warp};")
        barrier = BARRIERS + 8 * step.which
        match step.kind:
            case "mma":
                lines.append(
                    f"@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r100], {DESC}, {DESC}, {IDESC}, %p5;"
                )
            case "commit":
                lines.append(commit(barrier, "%p1"))
            case "wait":
                lines.append(f"@!%p0 bra SKIP_{number};\n{wait(barrier)}\nSKIP_{number}:")
            case "cta":
                lines.append("bar.sync 0;")
            case kind:
                lines.append(f"@!%p0 bra SKIP_{number};\n{TEXT[kind]}\nSKIP_{number}:")
    for warp in range(WARPS):
        lines.append(f"setp.eq.u32 %p1, %t, {32 * warp}; {commit(BARRIERS + 8 * (commits + warp), '%p1')}")
    lines += [wait(BARRIERS + 8 * n) for n in every]
    lines.append(f"{TEXT['wait_ld']} {TEXT['wait_st']} {TEXT['before']} bar.sync 0; {TEXT['after']}")
    return "\n".join([*lines, dealloc(32)])


@dataclass
class Node:
    """A step, or the asynchronous part of one; `before`: all that happens before it."""

    step: Step
    asynchronous: bool = False
    issue: int = 0
    before: set[int] = field(default_factory=set)


def graph(steps: list[Step]) -> list[Node]:
    """Steps and asynchronous operations with what happens before them."""
    nodes: list[Node] = []
    last: dict[int, int] = {}
    pending: dict[tuple[int, str], list[int]] = {}  # operations of a warp, by kind
    committed: dict[int, list[int]] = {}
    for step in steps:
        who = range(WARPS) if step.kind == "cta" else [step.warp]
        direct = {last[warp] for warp in who if warp in last}
        if step.kind == "wait":
            direct |= set(committed[step.which])
        if step.kind in ("wait_ld", "wait_st"):
            direct |= set(pending.get((step.warp, step.kind.removeprefix("wait_")), []))
        here = len(nodes)
        nodes.append(Node(step, before=direct.union(*(nodes[node].before for node in direct))))
        if step.kind in ("mma", "ld", "st"):
            nodes.append(Node(step, True, here, nodes[here].before | {here}))
            pending.setdefault((step.warp, step.kind), []).append(here + 1)
        if step.kind == "commit":
            committed[step.which] = [here, *pending.get((step.warp, "mma"), [])]
        for warp in who:
            last[warp] = here
    return nodes


def ordered(nodes: list[Node], i: int, j: int) -> bool:
    """Whether operation i is over before j begins, with the fences that tcgen05 asks for."""
    first, second = nodes[i], nodes[j]
    earlier, later = first.step, second.step
    before = nodes[second.issue].before
    if earlier.kind == later.kind == "mma" and earlier.warp == later.warp:
        return True  # one pipeline, accumulator, shape and kind
    if i not in before:
        return False
    if earlier.kind != "mma" and earlier.warp == later.warp:
        return True  # waited for by its own warp
    after = [n for n in before if nodes[n].step == Step("after", later.warp) and i in nodes[n].before]
    if earlier.kind == "mma":
        return bool(after)  # a commit implies the fence before
    fenced = [n for n in before if nodes[n].step == Step("before", earlier.warp) and i in nodes[n].before]
    return any(b in nodes[a].before for a in after for b in fenced)


def racy_warps(steps: list[Step]) -> set[int]:
    """Warps whose lanes of tensor memory see a race."""
    nodes = graph(steps)
    found: set[int] = set()
    operations = [n for n, node in enumerate(nodes) if node.asynchronous]
    for j in operations:
        for i in operations:
            left, right = nodes[i].step, nodes[j].step
            if i >= j or left.kind == right.kind == "ld":
                continue
            warps = {
                w
                for w in range(WARPS)
                if {left.kind, right.kind} == {"mma"}
                or all(s.kind == "mma" or s.warp == w for s in (left, right))
            }
            if warps and not ordered(nodes, i, j):
                found |= warps
    return found


def checked(steps: list[Step], schedule: Schedule) -> set[int]:
    """The warps in whose lanes the engine finds a race; without one it must find no error at all."""
    result = run(ptx(steps), threads=32 * WARPS, shared_bytes=0x4000, schedule=schedule, races=True)
    found = {f for f in result.findings if f.severity != "note" and f.code.startswith("race-")}
    assert found or not result.errors, "\n".join(map(str, result.errors))
    return {(f.machine.address >> 16) // 32 for f in found} & set(range(WARPS))


@settings(max_examples=300, deadline=None)
@given(steps=programs(), schedule=st.sampled_from([Schedule(), Schedule("late"), Schedule("random", 7)]))
def test_the_engine_finds_just_the_racy_lanes(steps: list[Step], schedule: Schedule) -> None:
    expected = racy_warps(steps)
    event(f"{len(expected)} racy warps")
    assert bool(checked(steps, schedule)) == bool(expected)


def test_the_oracle_itself() -> None:
    mma, seen, after, ld = Step("mma"), Step("wait", 1), Step("after", 1), Step("ld", 1)
    assert racy_warps([mma, Step("commit"), seen, after, ld]) == set()
    assert racy_warps([mma, Step("commit"), seen, ld]) == {1}
    assert racy_warps([mma, ld]) == {1}
    assert racy_warps([mma, mma]) == set()
    assert racy_warps([mma, Step("mma", 1)]) == {0, 1}
    waited, fenced, cta = Step("wait_ld", 1), Step("before", 1), Step("cta")
    assert racy_warps([ld, waited, fenced, cta, Step("after"), mma]) == set()
    assert racy_warps([ld, fenced, waited, cta, Step("after"), mma]) == {1}
    assert racy_warps([ld, waited, fenced, cta, mma]) == {1}
    assert (
        racy_warps([Step("st"), Step("ld")]) == {0}
        and racy_warps([Step("st"), Step("wait_st"), Step("ld")]) == set()
    )
