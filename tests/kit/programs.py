# ruff: noqa: E501 - PTX lines are kept whole
"""Small kernels with a defect that only some schedules show, each with its clean twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import Memory, run, wait

Outputs = dict[str, np.ndarray]
FREE, FULL = 1024, 1032  # mbarriers
WARP = "shr.u32 %r0, %t, 5; setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 1; setp.eq.u32 %p3, %r0, 2;\nand.b32 %r1, %t, 31; setp.eq.u32 %p4, %r1, 0;"


@dataclass(frozen=True)
class Program:
    """A body of PTX; `args` makes its buffers: those written, by name, and those read."""

    body: str
    threads: int = 96
    words: int = 0

    def __call__(self, **how: Any) -> tuple[RunResult, Outputs]:
        """One launch, as `explore` wants it."""
        memory = Memory()
        source = memory.buffer(np.arange(256, dtype=np.uint32))
        out = memory.buffer(np.zeros(64, dtype=np.uint32))
        result = run(
            self.body, [out, source], memory=memory, threads=self.threads, shared_bytes=8192,
            livelock_limit=200_000, **how,
        )  # fmt: skip
        return result, {"out": out.numpy()}

    def codes(self, schedule: Schedule) -> set[str]:
        """The codes of its errors under a schedule."""
        return {finding.code for finding in self(schedule=schedule)[0].errors}


def ring(free_count: int) -> Program:
    """Warp 0 fills a slot for warps 1 and 2, six times. With a `free_count` of 1, only warp 1 says that it is
    done with it, and nothing keeps warp 0 from going round twice before warp 2 has looked.
    """
    both = "" if free_count == 1 else f"@%p4 mbarrier.arrive.shared.b64 _, [{FREE}];"
    return Program(f"""
{WARP}
@%p0 mbarrier.init.shared.b64 [{FREE}], {free_count}; @%p0 mbarrier.init.shared.b64 [{FULL}], 1;
bar.sync 0;
mov.u32 %r2, 0;
@%p1 bra FILL;
LOOP: and.b32 %r3, %r2, 1;
{wait(FULL, "%r3")}
@%p2 bra FIRST;
{both}
bra NEXT;
FIRST: @%p4 mbarrier.arrive.shared.b64 _, [{FREE}];
NEXT: add.u32 %r2, %r2, 1; setp.lt.u32 %p5, %r2, 6; @%p5 bra LOOP;
bra DONE;
FILL: and.b32 %r3, %r2, 1; xor.b32 %r4, %r3, 1;
{wait(FREE, "%r4")}
@%p4 mbarrier.arrive.shared.b64 _, [{FULL}];
add.u32 %r2, %r2, 1; setp.lt.u32 %p5, %r2, 6; @%p5 bra FILL;
DONE: bar.sync 0;""")


LAPPED, NOT_LAPPED = ring(1), ring(2)


def copies(waits: str, uses: str) -> Program:
    """Thread 0 issues three bulk copies in order, each with a barrier of its own, then `waits` and `uses`."""
    issue = "\n".join(
        f"@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{1024 + 8 * k}], 128; add.u64 %rd{k + 1}, %a1, {128 * k};\n"
        f"@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{2048 + 128 * k}], [%rd{k + 1}], 128, [{1024 + 8 * k}];"
        for k in range(3)
    )
    init = "\n".join(f"@%p0 mbarrier.init.shared.b64 [{1024 + 8 * k}], 1;" for k in range(3))
    every = "\n".join(wait(1024 + 8 * k, 0) for k in range(3))
    return Program(f"{WARP}\n{init}\nbar.sync 0;\n{issue}\n{waits}\n{uses}\n{every}", threads=32)


# The second copy has landed, so the first one must have: true only where copies complete in their order.
IN_ORDER = copies(wait(1032, 0), "ld.shared.u32 %r9, [2048];")
EACH_WAITED = copies(wait(1024, 0), "ld.shared.u32 %r9, [2048];")
# Traps when the second copy is the first to land, of three.
SECOND_FIRST = copies(
    wait(1032, 0),
    """mbarrier.test_wait.parity.shared.b64 %p6, [1024], 0; mbarrier.test_wait.parity.shared.b64 %p7, [1040], 0;
or.pred %p6, %p6, %p7; @!%p6 trap;""",
)
# The wait for the second copy is tried once: it has returned because its time limit passed.
TRIED_ONCE = copies(
    wait(1024, 0),
    "mbarrier.try_wait.parity.shared::cta.b64 %p6, [1032], 0;\nld.shared.u32 %r9, [2176];",
)
TRIED_AGAIN = copies(wait(1024, 0), f"{wait(1032, 0)}\nld.shared.u32 %r9, [2176];")
# The copy is not waited for at all before its data is used.
NO_WAIT = copies("", "ld.shared.u32 %r9, [2048];")


def window(pad: int) -> Program:
    """Warp 1 sets a flag and clears it, warp 0 looks twice: traps when it sees it set, then cleared. Both first
    read `pad` words, so that the window is a small part of the run. Two preemptions show it, one does not.
    """
    reads = "\n".join(f"ld.shared.u32 %r9, [{2048 + 4 * k}];" for k in range(pad))
    return Program(
        f"""
{WARP}
mov.u32 %r5, 0; mad.lo.u32 %r6, %t, 4, 2048; st.shared.u32 [%r6], %r5; @%p0 st.shared.u32 [1024], %r5;
bar.sync 0;
{reads}
@%p1 bra LOOK;
@%p4 st.shared.u32 [1024], 1;
@%p4 st.shared.u32 [1024], 0;
bra DONE;
LOOK: ld.shared.u32 %r7, [1024];
ld.shared.u32 %r8, [1024];
setp.eq.u32 %p6, %r7, 1; setp.eq.and.u32 %p6, %r8, 0, %p6; @%p6 trap;
DONE: ret;""",
        threads=64,
    )


WINDOW = window(4)

# Two warps store their number into one word.
LAST_WINS = Program(
    f"{WARP}\nmov.u32 %r5, 7; @%p2 mov.u32 %r5, 9; @%p4 st.global.u32 [%a0], %r5;", threads=64
)
ADDED = Program(
    f"{WARP}\nmov.u32 %r5, 7; @%p2 mov.u32 %r5, 9; @%p4 red.global.add.u32 [%a0], %r5;", threads=64
)

# Warp 0 polls a flag that warp 1 sets after it has waited for a copy; HEARTBEAT also counts its tries.
_POLL = """
{warp}
@%p0 mbarrier.init.shared.b64 [1024], 1; @%p0 st.shared.u32 [1040], 0; @%p0 st.shared.u32 [1044], 0;
bar.sync 0;
@%p2 bra SET;
POLL: {beat} ld.volatile.shared.u32 %r5, [1040]; setp.eq.u32 %p6, %r5, 0; @%p6 bra POLL;
bra DONE;
SET: @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [1024], 128;
@%p4 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a1], 128, [1024];
{wait}
@%p4 st.volatile.shared.u32 [1040], 1;
DONE: ret;"""
POLLING = Program(_POLL.format(warp=WARP, beat="", wait=wait(1024, 0)), threads=64)
HEARTBEAT = Program(
    _POLL.format(warp=WARP, beat="@%p0 st.volatile.shared.u32 [1044], 1;", wait=wait(1024, 0)), threads=64
)
NEVER_SET = Program(POLLING.body.replace("@%p4 st.volatile.shared.u32 [1040], 1;", ""), threads=64)

Launch = Callable[..., tuple[RunResult, Outputs]]
