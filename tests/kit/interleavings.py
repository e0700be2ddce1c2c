"""Small programs of threads that meet at mbarriers, with copies, bulk groups and MMAs.

They are drawn at random, run in all interleavings by a model, and written as PTX.

    python -m tests.kit.interleavings --programs 5000 --seed 1    # the certificate against the model

The model interleaves the steps of the threads with the completions of asynchronous operations: a copy at any
time after its issue, MMAs and commits of a thread in their order.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import BF16, Memory, alloc, dealloc, run, wait

BARRIERS, BYTES, MAX_VALUES = 2, 16, 32
AT, FINAL, CELLS = (
    1024,
    1024 + 64,
    0x1000,
)  # mbarriers of the steps, of the end; cells in row 0 of the operands
DESC = SmemDescriptor(CELLS, 16, 256, "32B").encode()
ZERO = SmemDescriptor(CELLS + 4096, 16, 256, "32B").encode()
IDESC = InstructionDescriptor(128, 32).encode()
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


@dataclass(frozen=True)
class Step:
    """One step of a thread: `at` is its mbarrier or its cell, `parity` of a wait; a copy has `cell` as well.

    `expect` is an arrival that expects the bytes of a copy, `announce` expects them without an arrival;
    `load` fills a cell, `store` writes a cell to global memory as a bulk group, `group` waits for all groups
    of the thread; `mma` adds the sum of the squares of both cells to the thread's accumulator.
    """

    kind: str
    at: int = 0
    parity: int = 0
    cell: int = 0


Threads = tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class Program:
    """Threads, and the arrivals that each mbarrier expects."""

    threads: Threads
    counts: tuple[int, ...] = (1,) * BARRIERS

    def value(self, thread: int, step: int) -> int:
        """What a step writes: a small number of its own."""
        return 1 + step + sum(map(len, self.threads[:thread]))


# ---- all interleavings


@dataclass
class Seen:
    """What the interleavings of a program show: phases of each event, values of each read, final contents."""

    ends: bool = True
    phases: dict[tuple[str, int, int], set[int]] = field(default_factory=dict)
    reads: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    final: set[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=set)

    @property
    def agree(self) -> bool:
        """Whether all interleavings end, with each event in a single phase and with the same values."""
        sets: list[set[Any]] = [*self.phases.values(), *self.reads.values(), self.final]
        return self.ends and all(len(each) == 1 for each in sets)


@dataclass(frozen=True)
class State:
    """Where the threads are, (phase, missing arrivals, missing bytes) of the mbarriers, what is under way."""

    places: tuple[int, ...]
    bars: tuple[tuple[int, int, int], ...]
    cells: tuple[int, ...]
    sums: tuple[int, ...]
    copies: frozenset[tuple[int, int]] = frozenset()  # (thread, step)
    pipes: tuple[tuple[int, ...], ...] = ()  # steps of each thread: MMAs and commits


def interleaved(program: Program) -> Seen:
    """Run a program in all interleavings."""
    threads, seen = program.threads, Seen()
    empty: tuple[tuple[int, ...], ...] = ((),) * len(threads)
    first = State(
        (0,) * len(threads),
        tuple((0, n, 0) for n in program.counts),
        (0, 0),
        (0,) * len(threads),
        pipes=empty,
    )
    known, pending = {first}, [first]
    while pending:
        state = pending.pop()
        after = [*_stepped(program, state, seen), *_completed(program, state, seen)]
        if not after:
            seen.ends &= all(at == len(steps) for at, steps in zip(state.places, threads, strict=True))
            seen.final.add((state.cells, state.sums))
        fresh = [new for new in after if new not in known]
        known.update(fresh)
        pending += fresh
    return seen


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _counted(program: Program, state: State, barrier: int, arrivals: int, more: int) -> tuple[Any, ...]:
    phase, missing, size = state.bars[barrier]
    missing, size = missing - arrivals, size + more
    done = missing == 0 and size == 0
    return _put(
        state.bars, barrier, (phase + 1, program.counts[barrier], 0) if done else (phase, missing, size)
    )


def _stepped(program: Program, s: State, seen: Seen) -> list[State]:
    """The states after a step of a thread."""
    after = []
    for thread, at in enumerate(s.places):
        if at == len(program.threads[thread]):
            continue
        step = program.threads[thread][at]
        bars, cells, copies, pipes = s.bars, s.cells, s.copies, s.pipes
        if step.kind in ("arrive", "expect", "announce", "wait"):
            phase = bars[step.at][0]
            if step.kind == "wait" and phase % 2 == step.parity:
                continue
            seen.phases.setdefault((step.kind, thread, at), set()).add(phase)
            if step.kind != "wait":
                arrivals, more = step.kind != "announce", 0 if step.kind == "arrive" else BYTES
                bars = _counted(program, s, step.at, arrivals, more)
        elif step.kind == "write":
            cells = _put(cells, step.cell, program.value(thread, at))
        elif step.kind == "read":
            seen.reads.setdefault((thread, at), set()).add(cells[step.cell])
        elif step.kind in ("load", "store"):
            copies |= {(thread, at)}
        elif step.kind in ("mma", "commit"):
            pipes = _put(pipes, thread, (*pipes[thread], at))
        elif step.kind == "group" and any(
            owner == thread and program.threads[owner][n].kind == "store" for owner, n in copies
        ):
            continue
        after.append(State(_put(s.places, thread, at + 1), bars, cells, s.sums, copies, pipes))
    return after


def _completed(program: Program, s: State, seen: Seen) -> list[State]:
    """The states after the completion of an asynchronous operation."""
    after = []
    for thread, at in s.copies:
        step, rest = program.threads[thread][at], s.copies - {(thread, at)}
        if step.kind == "store":
            seen.reads.setdefault((thread, at), set()).add(s.cells[step.cell])
            after.append(State(s.places, s.bars, s.cells, s.sums, rest, s.pipes))
            continue
        seen.phases.setdefault(("bytes", thread, at), set()).add(s.bars[step.at][0])
        cells = _put(s.cells, step.cell, program.value(thread, at))
        bars = _counted(program, s, step.at, 0, -BYTES)
        after.append(State(s.places, bars, cells, s.sums, rest, s.pipes))
    for thread, pipe in enumerate(s.pipes):
        if not pipe:
            continue
        step, pipes = program.threads[thread][pipe[0]], _put(s.pipes, thread, pipe[1:])
        if step.kind == "mma":
            added = s.sums[thread] + sum(value * value for value in s.cells)
            after.append(State(s.places, s.bars, s.cells, _put(s.sums, thread, added), s.copies, pipes))
            continue
        seen.phases.setdefault(("commit", thread, pipe[0]), set()).add(s.bars[step.at][0])
        bars = _counted(program, s, step.at, 1, 0)
        after.append(State(s.places, bars, s.cells, s.sums, s.copies, pipes))
    return after


# ---- PTX


def ptx(program: Program) -> str:
    """The program: lane 0 of a warp for each thread. Arguments: sources of copies, what is read and stored,
    the accumulators.
    """
    threads = len(program.threads)
    inits = [(AT + 8 * n, count) for n, count in enumerate(program.counts)]
    inits += [(FINAL + 8 * n, 1) for n in range(threads)]
    zeros = "{0, 0, 0, 0}"
    lines = [
        "setp.eq.u32 %p9, %t, 0;",
        *(f"@%p9 mbarrier.init.shared::cta.b64 [{at}], {count};" for at, count in inits),
        "fence.mbarrier_init.release.cluster; bar.sync 0;",
        alloc(32 * threads if threads != 3 else 128, slot=AT + 512),
        "shr.u32 %r2, %t, 5; and.b32 %r3, %t, 31; setp.ne.u32 %p2, %r3, 0;",
        "setp.ne.u32 %p5, %t, %t; setp.eq.u32 %p6, %t, %t;",
        # The operands: 4 KB of cells and zeros, 4 KB of zeros. A thread's first MMA clears its accumulator.
        f"mov.u32 %r4, %t;\nZERO:\nmad.lo.u32 %r5, %r4, 16, {CELLS}; st.shared.v4.b32 [%r5], {zeros};",
        f"add.u32 %r4, %r4, {32 * threads}; setp.lt.u32 %p3, %r4, 512; @%p3 bra ZERO;",
        "fence.proxy.async; bar.sync 0; tcgen05.fence::after_thread_sync;",
        "@%p2 bra END;",
    ]
    for thread, steps in enumerate(program.threads):
        lines += [f"setp.ne.u32 %p1, %r2, {thread}; @%p1 bra AFTER{thread};"]
        lines += [f"mad.lo.u32 %r6, {thread}, 32, %r100;"]
        multiplied = False
        for at, step in enumerate(steps):
            lines.append(_text(program, thread, at, step, "%p6" if multiplied else "%p5"))
            multiplied |= step.kind == "mma"
        lines.append(f"bra END;\nAFTER{thread}:")
    final = [wait(FINAL + 8 * n) for n in range(threads)]
    lines += ["END:", "bar.sync 0;"]
    for thread, steps in enumerate(program.threads):  # each accumulator is written
        lines += [f"setp.eq.u32 %p1, %t, {32 * thread};", f"mad.lo.u32 %r6, {thread}, 32, %r100;"]
        if not any(step.kind == "mma" for step in steps):
            lines.append(f"@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r6], {ZERO}, {ZERO}, {IDESC}, %p5;")
        lines.append(f"@%p1 {COMMIT} [{FINAL + 8 * thread}];")
    lines += [*final, "tcgen05.fence::after_thread_sync;", "setp.ne.u32 %p1, %r2, 0; @%p1 bra OUT;"]
    for thread in range(threads):
        lines += [
            f"mad.lo.u32 %r6, {thread}, 32, %r100;",
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r6];\ntcgen05.wait::ld.sync.aligned;",
            f"@%p9 st.global.b32 [%a2+{4 * thread}], %r10;",
        ]
    lines += ["tcgen05.fence::before_thread_sync;", "OUT:", "bar.sync 0;"]
    return "\n".join([*lines, dealloc(32 * threads if threads != 3 else 128)])


def _text(program: Program, thread: int, at: int, step: Step, adds: str) -> str:
    barrier, cell, number = AT + 8 * step.at, CELLS + BYTES * step.cell, program.value(thread, at)
    value = int(np.array(number, BF16).view(np.uint16))
    match step.kind:
        case "arrive":
            return f"mbarrier.arrive.shared::cta.b64 _, [{barrier}];"
        case "expect":
            return f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {BYTES};"
        case "announce":
            return f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{barrier}], {BYTES};"
        case "wait":
            return wait(barrier, step.parity)
        case "load":
            return f"{COPY} [{cell}], [%a0+{BYTES * number}], {BYTES}, [{barrier}];"
        case "write":
            return f"st.shared.v4.b32 [{cell}], {{{value}, 0, 0, 0}};"
        case "read":
            return f"ld.shared.b32 %r7, [{cell}]; st.global.b32 [%a1+{BYTES * number}], %r7;"
        case "store":
            return (
                f"add.u64 %rd1, %a1, {BYTES * number}; "
                f"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [{cell}], {BYTES};\n"
                "cp.async.bulk.commit_group;"
            )
        case "group":
            return "cp.async.bulk.wait_group 0;"
        case "fence":
            return "fence.proxy.async;"
        case "mma":
            return f"tcgen05.mma.cta_group::1.kind::f16 [%r6], {DESC}, {DESC}, {IDESC}, {adds};"
        case _:
            return f"{COMMIT} [{barrier}];"


@dataclass(frozen=True)
class Ran:
    """A launch of a program: its result, what each read and store saw, and the accumulators."""

    result: RunResult
    reads: dict[tuple[int, int], int]
    sums: tuple[float, ...]


def launched(program: Program, schedule: Schedule) -> Ran:
    """Run a program on the emulator with race checking."""
    memory = Memory()
    given = np.zeros((MAX_VALUES, 4), np.uint32)
    given[:, 0] = np.arange(MAX_VALUES).astype(BF16).view(np.uint16)
    source = memory.buffer(given)
    out, sums = memory.buffer(np.zeros((MAX_VALUES, 4), np.uint32)), memory.buffer(np.zeros(4, np.float32))
    result = run(
        ptx(program), [source, out, sums], memory=memory, threads=32 * len(program.threads),
        shared_bytes=0x3000, races=True, schedule=schedule,
    )  # fmt: skip
    values = out.numpy()[:, 0].astype(np.uint16).view(BF16).astype(int)
    reads = {
        (thread, at): int(values[program.value(thread, at)])
        for thread, steps in enumerate(program.threads)
        for at, step in enumerate(steps)
        if step.kind in ("read", "store")
    }
    return Ran(result, reads, tuple(float(x) for x in sums.numpy()[: len(program.threads)]))


# ---- programs


def _ring(turns: int) -> list[list[Step]]:
    load, read = [], []
    for n in range(turns):
        load += [Step("wait", 1, (n - 1) & 1)] if n else []
        load += [Step("expect", 0), Step("load", 0)]
        read += [Step("wait", 0, n & 1), Step("read"), Step("arrive", 1)]
    return [load, read]


def _products(turns: int) -> list[list[Step]]:
    load, multiply = [], []
    for n in range(turns):
        load += [Step("wait", 1, (n - 1) & 1)] if n else []
        load += [Step("expect", 0), Step("load", 0)]
        multiply += [Step("wait", 0, n & 1), Step("mma"), Step("commit", 1)]
    return [load, [*multiply, Step("wait", 1, (turns - 1) & 1)]]


def _stores(turns: int) -> list[list[Step]]:
    write, store = [], []
    for n in range(turns):
        write += [Step("wait", 1, (n - 1) & 1)] if n else []
        write += [Step("write"), Step("fence"), Step("arrive", 0)]
        store += [Step("wait", 0, n & 1), Step("store"), Step("group"), Step("arrive", 1)]
    return [write, store]


KINDS = (
    "arrive",
    "expect",
    "announce",
    "wait",
    "load",
    "write",
    "read",
    "store",
    "group",
    "fence",
    "mma",
    "commit",
)
LONGEST = 9  # steps of a thread


def _step(draw: random.Random) -> Step:
    return Step(draw.choice(KINDS), draw.randrange(BARRIERS), draw.randrange(2), draw.randrange(2))


def generated(draw: random.Random) -> Program:
    """A pipeline with up to three changes, or random steps; two to four threads."""
    kind = draw.choice((_ring, _ring, _products, _products, _stores, None))
    if kind is None:
        threads = [[_step(draw) for _ in range(draw.randint(1, 4))] for _ in range(2)]
    else:
        threads = kind(draw.randint(1, 3 if kind is _ring else 2))
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        mine = [
            Step("wait", draw.randrange(BARRIERS), draw.randrange(2)), Step("read", cell=draw.randrange(2)),
        ]  # fmt: skip
        threads.append(mine if draw.random() < 0.5 else [_step(draw)])
    counts = [1] * BARRIERS
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        steps = draw.choice(threads)
        if steps and len(steps) < LONGEST:
            _change(draw, steps, counts)
    return Program(tuple(tuple(steps) for steps in threads[:4]), tuple(counts))


def _change(draw: random.Random, steps: list[Step], counts: list[int]) -> None:
    """A step lost, twice, later, another, or of another mbarrier; an arrival more; bytes announced apart."""
    n = draw.randrange(len(steps))
    old = steps[n]
    match draw.randrange(7):
        case 0:
            del steps[n]
        case 1:
            steps.insert(n, old)
        case 2:
            steps.insert(draw.randrange(len(steps)), steps.pop(n))
        case 3:
            steps[n] = Step(old.kind, old.at, 1 - old.parity, 1 - old.cell)
        case 4:
            steps[n] = Step(old.kind, 1 - old.at, old.parity, old.cell)
        case 5:
            counts[draw.randrange(BARRIERS)] += 1
            steps.insert(n, Step("arrive", draw.randrange(BARRIERS)))
        case _ if old.kind == "expect":
            apart = [Step("announce", old.at), Step("arrive", old.at)]
            steps[n : n + 1] = apart if draw.random() < 0.5 else apart[::-1]
        case _:
            steps.insert(n, _step(draw))


# ---- the certificate against the model


@dataclass
class Score:
    """`refuted`: programs that do not agree, by the codes that refute them; `why`: the reasons of programs
    that agree and are not certified; `wrong`: programs of which the certificate is false.
    """

    programs: int = 0
    certified: int = 0
    agreed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # of steps, in certified programs
    refuted: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    wrong: list[Program] = field(default_factory=list)

    def judge(self, program: Program) -> None:
        """Compare a program's certificate with its interleavings, and its values with theirs."""
        ran, seen = launched(program, Schedule()), interleaved(program)
        self.programs += 1
        self.agreed += seen.agree
        if not ran.result.certified:
            assert ran.result.certificate is not None
            codes = {doubt.text.split(" of CTA")[0] for doubt in ran.result.certificate.doubts}
            (self.why if seen.agree else self.refuted)[", ".join(sorted(codes))[:70]] += 1
            return
        self.certified += 1
        self.kinds.update({step.kind for steps in program.threads for step in steps})
        if not seen.agree or not _same(program, ran, seen):
            self.wrong.append(program)


def _same(program: Program, ran: Ran, seen: Seen) -> bool:
    """Whether the launch has the values of the interleavings, which agree."""
    ((_, sums),) = seen.final
    own = [any(step.kind == "mma" for step in steps) for steps in program.threads]
    return {place: {value} for place, value in ran.reads.items()} == seen.reads and all(
        ran_sum == model for ran_sum, model, mine in zip(ran.sums, sums, own, strict=True) if mine
    )


def main() -> int:
    """Print the score of a number of programs; exit code 1 if a certificate is false."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw, score, began = random.Random(args.seed), Score(), time.process_time()
    programs = dict.fromkeys(generated(draw) for _ in range(args.programs))
    for program in programs:
        score.judge(program)
    took = time.process_time() - began
    print(f"{score.programs} different programs of {args.programs}, seed {args.seed}: {score.agreed} agree, ")
    print(f"{score.certified} certified, {len(score.wrong)} of these wrong; {took:.0f} s of CPU")
    print("steps of certified programs:", dict(score.kinds.most_common()))
    print("agree, not certified:", dict(score.why.most_common()))
    print("do not agree:", dict(score.refuted.most_common(12)))
    for program in score.wrong:
        print("WRONG", program)
    return 1 if score.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
