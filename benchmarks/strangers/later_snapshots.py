# ruff: noqa: E501 - log lines are kept whole
"""Snapshots in other forms than those of `snapshots`: lists of threads with sources, sanitizers, watchdogs."""

from __future__ import annotations

from benchmarks.strangers.machine import Kernel, Op, Run
from benchmarks.strangers.snapshots import Snapshot, blocked_lines
from benchmarks.strangers.wordings import WARPS


def _statement(op: Op, cta: int) -> str:
    if op.kind == "wait":
        bar = f"plan.{op.bar}[{op.stage}]"
        return f"wait_barrier({f'cute::remote({bar}, {op.owner})' if op.owner != cta else bar}, {op.parity});"
    if op.kind == "sync":
        return (
            f'asm volatile("bar.sync {op.number}, {op.size};" ::: "memory");'
            if op.number >= 0
            else "__syncthreads();"
        )
    return {"cluster_wait": "cute::cluster_wait();", "alloc": f"tcgen05_alloc(&base, {op.size});"}.get(
        op.kind, "while (!*flag) {}"
    )


def threads_and_sources(kernel: Kernel, run: Run) -> str:
    """`info cuda threads`, then each warp's statement."""
    lines = [
        "(cuda-gdb) info cuda threads",
        "  BlockIdx ThreadIdx To BlockIdx To ThreadIdx Count                 PC        Filename  Line",
        "Kernel 0",
    ]
    for who, op in run.blocked.items():
        first = 32 * WARPS[who[0]]
        lines.append(
            f"   ({who[1]},0,0) ({first},0,0)     ({who[1]},0,0)    ({first + 31},0,0)    32 0x00007fffd8fa{op.stage:04x}  bwd.cu   {300 + first // 4}"
        )
    for who, op in run.blocked.items():
        first = 32 * WARPS[who[0]]
        lines += [
            f"(cuda-gdb) cuda block ({who[1]},0,0) thread ({first},0,0)",
            f"[Switching focus to CUDA kernel 0, grid 2, cluster (0,0,0), block ({who[1]},0,0), thread ({first},0,0), device 0, sm 0, warp 3, lane 0]",
            f"{300 + first // 4}\t\t{_statement(op, who[1])}",
        ]
    return "\n".join([*lines, ""])


def divergent_warp(kernel: Kernel, run: Run) -> str:
    """synccheck, whose threads diverged within a warp."""
    lines = ["========= COMPUTE-SANITIZER"]
    stuck = [(who, op) for who, op in run.blocked.items() if op.kind == "sync"]
    for who, op in stuck:
        lines += [
            "========= Barrier error detected. Divergent thread(s) in warp",
            f"=========     at 0x{op.size + 0x1B40:x} in /home/u/attn/bwd.cu:{300 + WARPS[who[0]]}:bwd_kernel(Args)",
            f"=========     by thread ({32 * WARPS[who[0]]},0,0) in block ({who[1]},0,0)",
            "=========     Device Frame: compute(Args) at bwd.cu:77",
            "=========",
        ]
    return "\n".join([*lines, f"========= ERROR SUMMARY: {len(stuck)} errors", ""])


def _plain(op: Op, cta: int) -> str:
    return _statement(op, cta).replace("cute::", "")


def assertion(kernel: Kernel, run: Run) -> str:
    """Waits that count their polls and stop at an assertion."""
    lines = blocked_lines(
        run,
        _plain,
        "bwd.cu:{line}: bwd_kernel: block: [{cta},0,0], thread: [{thread},0,0] Assertion `",
        "mbarrier {bar}{whose} parity {parity} timed out` failed.",
        "{call} timed out` failed.",
        " of rank {owner}",
    )
    return "\n".join([*lines, "RuntimeError: CUDA error: device-side assert triggered", ""])


def spin_report(kernel: Kernel, run: Run) -> str:
    """A report of spinning waits, with addresses."""
    lines = blocked_lines(
        run,
        _plain,
        "*** HANG? cta {cta} warp {warp}: spinning 1000000x in ",
        "mbarrier wait, bar {at:#x}, parity {parity}",
        "{call}",
    )
    return "\n".join([*lines, ""])


SEEN: dict[str, Snapshot] = {"gdb-threads": threads_and_sources, "synccheck-warp": divergent_warp}
HELD: dict[str, Snapshot] = {"assertion": assertion, "spin-report": spin_report}
