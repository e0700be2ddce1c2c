"""Sampled programs that compute with the first column: `python -m tests.kit.column_programs`.

A program makes registers from the first column, constants and the thread's number, uses a register as an
address of tensor memory and stores another. A certified program has the same output, and a certificate, at
every first column.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

import numpy as np
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.ptx import alloc, dealloc, run, store

COMPUTED = [f"%r{k}" for k in range(10, 18)]
VALUES = ["%r100", "%r3", "%t", *COMPUTED]
CONSTANTS = (0, 1, 3, 5, 32, 64, 511, 0xFFFF0000, 0xFFFFFFE0)
BINARY = ["add.u32", "sub.u32", "or.b32", "and.b32", "xor.b32", "mul.lo.u32", "min.u32", "max.u32"]
BINARY += ["shl.b32", "shr.u32"]
ENVIRONMENTS = (1, 3, 5, 7)


def step(draw: random.Random) -> str:
    """An instruction, or a few, with a result in a register of `COMPUTED`."""
    to, a, b = draw.choice(COMPUTED), draw.choice(["%r100", *VALUES]), draw.choice(VALUES)
    other = draw.choice([b, str(draw.choice((0, 1, 4, 31, 32, 0xFFFF, 0x1FF)))])
    forms = [f"{draw.choice(BINARY)} {to}, {a}, {other};"] * 6
    forms += [
        f"mad.lo.u32 {to}, {b}, {draw.choice('012')}, {a};",
        f"setp.{draw.choice(['eq', 'lt'])}.u32 %p1, {a}, {other};\nselp.b32 {to}, {a}, {b}, %p1;",
        f"setp.lt.u32 %p2, %t, {draw.choice((16, 32, 40))};\n@%p2 mov.u32 {to}, {a};",
        f"shfl.sync.{draw.choice(['idx', 'bfly'])}.b32 {to}, {a}, {draw.choice(['1', '%r11'])}, 31, -1;",
        f"cvt.u64.u32 %rd1, {a};\nadd.u64 %rd1, %rd1, -32;\nmov.b64 {{{to}, {draw.choice(COMPUTED)}}}, %rd1;",
        f"mad.lo.u32 %r20, %t, 8, 2048;\nst.shared.v2.b32 [%r20], {{{a}, {b}}};\n"
        f"{draw.choice(['st.shared.u8 [%r20+1], 0;', ''])}\nld.shared.b32 {to}, [%r20];",
        f"prmt.b32 {to}, {a}, {b}, {draw.choice(['0x3210', '0x7610', '0x0123'])};",
    ]
    return draw.choice(forms)


def program(draw: random.Random) -> str:
    """A kernel's body, for two warps."""
    more = draw.random() < 0.3  # a second allocation
    lines = [alloc(64), alloc(64, "%r102", 1092) if more else "", "shl.b32 %r3, %r101, 21;"]
    lines += [f"mov.u32 {register}, {draw.choice(CONSTANTS)};" for register in COMPUTED]
    lines += [step(draw) for _ in range(draw.randint(1, 8))]
    lines += [
        f"add.u32 %r2, {draw.choice(['%r100'] * 20 + VALUES)}, %r3;",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%t};",
        "tcgen05.wait::st.sync.aligned;",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];",
        "tcgen05.wait::ld.sync.aligned;",
        store("%r1"),
        "add.u32 %r5, %t, 64;",
        store(draw.choice(["%t", *COMPUTED]), "%r5"),
        dealloc(64, "%r102") if more else "",
        dealloc(64),
    ]
    return "\n".join(lines)


def launched(body: str, environment: int) -> tuple[RunResult, bytes]:
    """The result and the output under `early` with the first columns of an environment."""
    memory = Memory()
    output = memory.buffer(np.zeros(128, np.uint32))
    how = {"threads": 64, "shared_bytes": 0x1000, "races": True}
    result = run(body, [output], memory=memory, schedule=Schedule("early", environment=environment), **how)  # type: ignore[arg-type]
    return result, output.numpy().tobytes()


def outcome(body: str) -> str:
    """ "error", "certified", "refused", or "contradicted": certified, and another first column differs."""
    result, output = launched(body, 0)
    if result.errors:
        return "error"
    if not result.certified:
        return "refused"
    for environment in ENVIRONMENTS:
        other, found = launched(body, environment)
        if not other.certified or found != output:
            return "contradicted"
    return "certified"


def main() -> None:
    """Prints how many programs have each outcome, and the seeds of contradictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts = Counter[str]()
    for seed in range(args.seed, args.seed + args.programs):
        found = outcome(program(random.Random(seed)))
        counts[found] += 1
        if found == "contradicted":
            print("contradicted: seed", seed)
    print(dict(counts))


if __name__ == "__main__":
    main()
