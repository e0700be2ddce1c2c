"""Small programs of three warps with forms that `interleavings` has no model of: named and cluster barriers,
cp.async with groups and arrivals, atomics with and without results.

    python -m tests.kit.sampled_programs --programs 1500 --seed 0    # certificates against sampled schedules
    python -m tests.kit.sampled_programs --adding    # mostly reductions, and reads of their results
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

import numpy as np
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import Memory, init_barrier, run, wait

BARRIERS, CELL, CELLS, WARPS = (1024, 1032), 2048, 3, 3
KINDS = (
    "store", "store", "load", "load", "red", "atom", "gred", "gatom", "arrive", "wait", "copy", "commit",
    "group", "copies arrive", "sync 2", "arrive 2", "sync 3", "cluster", "relaxed", "meet",
)  # fmt: skip
# Reductions in no order, which commute until something reads their result.
ADDING = (
    "red", "red", "red", "gred", "gred", "gred", "float", "float", "load",
    "gload", "gweak", "fload", "max", "sync 2",
)  # fmt: skip
SEEDED = ("random", "starve", "pct")
SCHEDULES = [
    Schedule("late"),
    Schedule("late-newest"),
    *(Schedule(policy, seed) for seed in range(8) for policy in SEEDED),  # type: ignore[arg-type]
]
HASH = "mad.lo.u32 %r1, %r1, 31, %r3;"
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def _step(rng: random.Random, value: int, kinds: tuple[str, ...]) -> str:
    """A drawn step of a warp; lane 0 makes single accesses (%p3)."""
    cell, bar = CELL + 4 * rng.randrange(CELLS), rng.randrange(len(BARRIERS))
    source, parity, groups = 4 * rng.randrange(4), rng.randrange(2), rng.choice((0, 0, 1))
    return {
        "store": f"@%p3 st.shared.u32 [{cell}], {value};",
        "load": f"ld.shared.u32 %r3, [{cell}];\n{HASH}",
        "red": f"@%p3 red.shared.add.u32 [{cell}], {value};",
        "atom": f"@%p3 atom.shared.add.u32 %r3, [{cell}], {value};\n{HASH}",
        "gred": f"@%p3 red.global.add.u32 [%a2+{4 * bar}], {value};",
        "gload": f"ld.relaxed.gpu.global.u32 %r3, [%a2+{4 * bar}];\n{HASH}",
        "gweak": f"ld.global.u32 %r3, [%a2+{4 * bar}];\n{HASH}",
        "float": f"@%p3 red.global.add.f32 [%a2+8], {('0f3F800000', '0f4CBEBC20', '0fCCBEBC20')[value % 3]};",
        "fload": f"ld.global.u32 %r3, [%a2+8];\n{HASH}",
        "max": f"@%p3 red.global.max.u32 [%a2+{4 * bar}], {value};",
        "gatom": f"@%p3 atom.global.add.u32 %r3, [%a2+{4 * bar}], {value};\n{HASH}",
        "arrive": f"@%p3 mbarrier.arrive.shared::cta.b64 _, [{BARRIERS[bar]}];",
        "wait": wait(BARRIERS[bar], parity),
        "copy": f"@%p3 cp.async.ca.shared.global [{cell}], [%a1+{source}], 4;",
        "commit": "cp.async.commit_group;",
        "group": f"cp.async.wait_group {groups};",
        "copies arrive": f"@%p3 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{BARRIERS[bar]}];",
        "sync 2": "bar.sync 2, 64;",
        "arrive 2": "bar.arrive 2, 64;",
        "sync 3": "bar.sync 3, 64;",
        "cluster": MEET,
        "relaxed": MEET.replace("arrive", "arrive.relaxed"),
        "meet": "bar.warp.sync -1;",
    }[rng.choice(kinds)]


def program(seed: int, kinds: tuple[str, ...] = KINDS) -> str:
    """Rounds of drawn steps, most of them with a barrier at their end; each thread stores a hash of what it
    read.
    """
    rng = random.Random(seed)
    warps: list[list[str]] = [[] for _ in range(WARPS)]
    for _ in range(rng.randrange(1, 5)):
        for steps in warps:
            steps += [_step(rng, rng.randrange(1, 100), kinds) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        end, (left, right), bar = rng.random(), rng.sample(range(WARPS), 2), rng.randrange(2)
        if end < 0.6:
            for steps in warps:
                steps.append("bar.sync 1, 96;")
        elif end < 0.75:
            warps[left].append(f"bar.{rng.choice(('sync', 'arrive'))} {2 + bar}, 64;")
            warps[right].append(f"bar.sync {2 + bar}, 64;")
        elif end < 0.9:
            form = rng.choice(("mbarrier.arrive.shared::cta.b64 _,", "cp.async.mbarrier.arrive.noinc.b64"))
            warps[left].append(f"@%p3 {form} [{BARRIERS[bar]}];")
            warps[right].append(wait(BARRIERS[bar], rng.randrange(2)))
        if rng.random() < 0.15:
            for steps in warps:
                steps.append(MEET)
    cells = [CELL + 4 * cell for cell in range(CELLS)]
    start = [
        *(init_barrier(bar) for bar in BARRIERS),
        *(f"@%p0 st.shared.u32 [{cell}], 0;" for cell in cells),
        "fence.mbarrier_init.release.cluster;\nmov.u32 %r1, 7;\nmov.u32 %r3, 0;\nand.b32 %r2, %t, 31;",
        "setp.eq.u32 %p3, %r2, 0;\nsetp.lt.u32 %p1, %t, 32;\nsetp.lt.u32 %p2, %t, 64;",
        "bar.sync 0;\n@%p1 bra W0;\n@%p2 bra W1;\nbra W2;",
    ]
    parts = ["\n".join([f"W{number}:", *steps, "bra END;"]) for number, steps in enumerate(warps)]
    end_ = [f"ld.shared.u32 %r3, [{cell}];\n{HASH}" for cell in cells]
    store = "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %rd1, %a0;\nst.global.u32 [%rd1], %r1;"
    return "\n".join([*start, *parts, "END:\nbar.sync 0;", *end_, store])


def launched(text: str, schedule: Schedule, races: bool) -> tuple[RunResult, tuple[bytes, bytes]]:
    """A run, and the bytes that it leaves in global memory."""
    memory = Memory()
    out = memory.buffer(np.zeros(32 * WARPS, np.uint32))
    source, sums = memory.buffer(np.arange(4, dtype=np.uint32) + 1000), memory.buffer(np.zeros(3, np.uint32))
    result = run(
        text, [out, source, sums], memory=memory, threads=32 * WARPS, shared_bytes=0x1000, races=races,
        schedule=schedule,
    )  # fmt: skip
    return result, (out.numpy().tobytes(), sums.numpy()[:2].tobytes())


def contradiction(seed: int, counts: Counter[str], kinds: tuple[str, ...] = KINDS) -> Schedule | None:
    """The schedule that contradicts the certificate of a program: other bytes, or an error."""
    text = program(seed, kinds)
    result, first = launched(text, Schedule(), True)
    counts["hang" if result.hang is not None else "certified" if result.certified else "open"] += 1
    for schedule in SCHEDULES if result.certified else []:
        other, bytes_ = launched(text, schedule, False)
        if other.errors or bytes_ != first:
            return schedule
    return None


def main() -> None:
    """Prints each contradiction and the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--adding", action="store_true", help="mostly reductions")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(args.seed, args.seed + args.programs):
        if schedule := contradiction(seed, counts, ADDING if args.adding else KINDS):
            print(f"seed {seed}: {schedule} contradicts the certificate")
            counts["wrong"] += 1
    print(dict(counts))


if __name__ == "__main__":
    main()
