# ruff: noqa: E501 - log lines are kept whole
"""What debuggers, sanitizers and timeouts print of a hung run: where each warp stands, and no history."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.strangers.machine import Kernel, Op, Run, Who
from benchmarks.strangers.wordings import WARPS, address, in_cluster

Snapshot = Callable[[Kernel, Run], str]


def _call(op: Op, cta: int) -> str:
    """The source text of a blocking operation."""
    if op.kind == "wait":
        barrier = f"{op.bar}[{op.stage}]"
        return f"mbarrier_wait({f'peer({barrier})' if op.owner != cta else barrier}, {op.parity});"
    if op.kind == "sync":
        return f"named_barrier_sync({op.number}, {op.size});" if op.number >= 0 else "__syncthreads();"
    if op.kind == "cluster_wait":
        return "cluster_wait();"
    return f"tmem_alloc({op.size});" if op.kind == "alloc" else "while (true) poll();"


def _line(op: Op) -> int:
    return 100 + sum(map(ord, op.bar)) % 200


def _focus(who: Who) -> str:
    warp = WARPS[who[0]]
    return (
        f"[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block ({who[1]},0,0), thread ({32 * warp},0,0), "
        f"device 0, sm {2 * who[1]}, warp {warp}, lane 0]"
    )


def gdb_focus(kernel: Kernel, run: Run) -> str:
    """A cuda-gdb session that looks at each warp in turn."""
    lines = ["^C", 'Thread 1 "python" received signal SIGINT, Interrupt.', "(cuda-gdb) info cuda warps"]
    lines += [
        "  Wp Active Lanes Mask Divergent Lanes Mask  Active Physical PC Kernel BlockIdx First Active ThreadIdx"
    ]
    for who in run.blocked:
        warp = WARPS[who[0]]
        lines.append(
            f"  {warp:2}        0x00000001           0xfffffffe 0x00000000000{_line(run.blocked[who]) * 16:05x}      0  "
            f"({who[1]},0,0)        ({32 * warp},0,0)"
        )
    for who, op in run.blocked.items():
        lines += [
            f"(cuda-gdb) cuda block {who[1]} thread {32 * WARPS[who[0]]}",
            _focus(who),
            f"{_line(op)}\t    {_call(op, who[1])}",
        ]
    return "\n".join([*lines, "(cuda-gdb) quit", ""])


def gdb_frames(kernel: Kernel, run: Run) -> str:
    """A cuda-gdb session with a backtrace of each warp; barriers are pointers."""
    lines = []
    for who, op in run.blocked.items():
        lines += [_focus(who), "(cuda-gdb) bt"]
        if op.kind == "wait":
            place = f"{'0x1' if op.owner != who[1] else '0x'}{address(op):x}"
            lines.append(
                f"#0  0x00007fff90a3c5d0 in ClusterBarrier::wait (smem_ptr={place}, phase={op.parity}) at barrier.h:394"
            )
        else:
            lines.append(
                f"#0  0x00007fff90a3c7e0 in {_call(op, who[1])[:-1].split('(')[0]} () at sync.h:{_line(op) - 60}"
            )
        lines.append(
            f"#1  0x00007fff90a3d120 in {who[0]}_loop<<<(2,1,1),(512,1,1)>>> (params=...) at kernel.cu:{_line(op)}"
        )
    return "\n".join([*lines, ""])


def synccheck(kernel: Kernel, run: Run) -> str:
    """compute-sanitizer --tool synccheck on a kernel whose threads do not all reach a barrier."""
    lines = ["========= COMPUTE-SANITIZER"]
    stuck = [(who, op) for who, op in run.blocked.items() if op.kind == "sync"]
    for who, op in stuck:
        for thread in range(2):
            lines += [
                "========= Barrier error detected. Divergent thread(s) in block",
                f"=========     at kernel(Params)+0x{_line(op) * 16:x} in /src/kernel.cu:{_line(op)}",
                f"=========     by thread ({32 * WARPS[who[0]] + thread},0,0) in block ({who[1]},0,0)",
                "=========     Saved host backtrace up to driver entry point at kernel launch time",
                "=========     Host Frame: [0x2f5b1c] in libcuda.so.1",
                "=========",
            ]
    return "\n".join([*lines, f"========= ERROR SUMMARY: {2 * len(stuck)} errors", ""])


def blocked_lines(
    run: Run, statement: Callable[[Op, int], str], head: str, wait: str, other: str, whose: str = ""
) -> list[str]:
    """A line for each role that is blocked, by templates: `other` of operations that are no mbarrier's."""
    lines = []
    for (role, cta), op in run.blocked.items():
        if op.kind == "stop":
            continue
        known: dict[str, object] = {
            "cta": cta,
            "warp": WARPS[role],
            "thread": 32 * WARPS[role],
            "line": 300 + WARPS[role],
        }
        known |= {"bar": f"{op.bar}[{op.stage}]", "parity": op.parity, "owner": op.owner}
        if op.kind == "wait":
            known |= {
                "whose": whose.format(**known) if op.owner != cta else "",
                "at": in_cluster(op, op.owner),
            }
        text = head + (wait if op.kind == "wait" else other)
        lines.append(text.format(**known, call=statement(op, cta)[:-1]))
    return lines


def watchdog(kernel: Kernel, run: Run) -> str:
    """Waits with a timeout, which print and trap."""
    lines = blocked_lines(
        run,
        _call,
        "TIMEOUT block=({cta},0,0) warp={warp}: stuck ",
        "waiting on {bar}{whose} parity={parity} after 200000000 cycles",
        "in {call} after 200000000 cycles",
        " of CTA {owner}",
    )
    return "\n".join(["launching kernel ...", *lines, "CUDA error: unspecified launch failure", ""])


FIRST: dict[str, Snapshot] = {"gdb-focus": gdb_focus, "gdb-frames": gdb_frames, "synccheck": synccheck}
HELD: dict[str, Snapshot] = {"watchdog": watchdog}
