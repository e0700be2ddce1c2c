"""The certificate against all interleavings of small generated programs: arrivals and waits of two or three
threads at two mbarriers.
"""

from __future__ import annotations

import random

import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import init_barrier, run

BARRIERS = (1024, 1032)
Step = tuple[str, int, int]  # "arrive", barrier, 0; or "wait", barrier, parity
Threads = tuple[tuple[Step, ...], ...]


def generated(draw: random.Random) -> tuple[Threads, tuple[int, ...]]:
    """Threads of up to four steps each, and the arrival counts of the barriers."""

    def step() -> Step:
        barrier = draw.randrange(2)
        return ("arrive", barrier, 0) if draw.random() < 0.5 else ("wait", barrier, draw.randrange(2))

    threads = tuple(tuple(step() for _ in range(draw.randint(1, 4))) for _ in range(draw.randint(2, 3)))
    return threads, tuple(draw.choice((1, 1, 2)) for _ in BARRIERS)


def agrees(threads: Threads, counts: tuple[int, ...]) -> bool:
    """Whether every interleaving ends, with each step in the same phase of its barrier."""
    phases: dict[tuple[int, int], set[int]] = {}
    first = ((0,) * len(threads), tuple((0, count) for count in counts))
    seen, pending = {first}, [first]
    while pending:
        places, barriers = pending.pop()
        stuck = True
        for thread, at in enumerate(places):
            if at == len(threads[thread]):
                continue
            kind, barrier, parity = threads[thread][at]
            phase, missing = barriers[barrier]
            if kind == "wait" and phase % 2 == parity:
                continue
            stuck = False
            phases.setdefault((thread, at), set()).add(phase)
            after = list(barriers)
            if kind == "arrive":
                after[barrier] = (phase, missing - 1) if missing > 1 else (phase + 1, counts[barrier])
            state = (tuple(p + (t == thread) for t, p in enumerate(places)), tuple(after))
            if state not in seen:
                seen.add(state)
                pending.append(state)
        if stuck and any(at < len(steps) for at, steps in zip(places, threads, strict=True)):
            return False
    return all(len(each) == 1 for each in phases.values())


def text(threads: Threads, counts: tuple[int, ...]) -> str:
    """The program with one lane of one warp for each thread."""
    lines = [init_barrier(at, count) for at, count in zip(BARRIERS, counts, strict=True)]
    lines += ["bar.sync 0;", "shr.u32 %r1, %t, 5;", "and.b32 %r2, %t, 31;", "setp.ne.u32 %p1, %r2, 0;"]
    lines += ["@%p1 bra END;"]
    for thread, steps in enumerate(threads):
        lines += [f"setp.ne.u32 %p2, %r1, {thread};", f"@%p2 bra AFTER{thread};"]
        for number, (kind, barrier, parity) in enumerate(steps):
            at = BARRIERS[barrier]
            if kind == "arrive":
                lines.append(f"mbarrier.arrive.shared::cta.b64 _, [{at}];")
                continue
            label = f"WAIT{thread}_{number}"
            lines += [f"{label}:", f"mbarrier.try_wait.parity.shared::cta.b64 %p3, [{at}], {parity};"]
            lines.append(f"@!%p3 bra {label};")
        lines += ["bra END;", f"AFTER{thread}:"]
    return "\n".join([*lines, "END:"])


@pytest.mark.parametrize("seed", range(8))
def test_certified_programs_agree_in_all_interleavings(seed: int) -> None:
    draw = random.Random(seed)
    certified = agreed = 0
    for _ in range(60):
        threads, counts = generated(draw)
        result = run(
            text(threads, counts),
            threads=32 * len(threads),
            shared_bytes=256,
            races=True,
            schedule=Schedule(),
        )
        agree = agrees(threads, counts)
        assert agree or not result.certified, (threads, counts)
        certified, agreed = certified + result.certified, agreed + agree
    assert 0 < certified <= agreed < 60
