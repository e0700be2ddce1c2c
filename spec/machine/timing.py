"""How long the machine's parts take, in clocks of an SM: each number once, with an interval and its source.

A figure is (best, likely, worst). Measured ones are from small programs of our own on an H200 at 1,980 MHz
(`benchmarks/silicon/latency.cu`, docs/evidence/2026-11-22-h200-latency.txt) or published for a B200 or
GB200. Where Blackwell was not measured by anyone, Hopper's figure stands with a wider interval.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from tileproof.spec.machine.errors import TileproofError

Case = Literal["best", "likely", "worst"]
CASES: tuple[Case, ...] = ("best", "likely", "worst")

_H200 = "measured, benchmarks/silicon/latency.cu on an H200"
_FACTS = "measured on an H200 on 2026-11-21 by a program that was not kept"
_GUESS = "not published, not measured: a guess"


@dataclass(frozen=True)
class Figure:
    """One number: the least, likely and largest value that its source allows, in `unit`."""

    best: float
    likely: float
    worst: float
    unit: str
    source: str


def _of(best: float, likely: float, worst: float, unit: str, source: str) -> Figure:
    return Figure(best, likely, worst, unit, source)


@dataclass(frozen=True)
class Timing:
    """The figures of one architecture. A `rate` is per SM unless it says otherwise."""

    arch: str
    clock: Figure
    sms: int
    branch: Figure
    shuffle: Figure
    vote: Figure
    shared_load: Figure
    global_load: Figure
    constant_load: Figure
    special_register: Figure
    uniform: Figure
    transcendental: Figure
    other: Figure
    read_operands: Figure
    addition_operands: Figure
    addition_rate: Figure
    addition_rate_all: Figure
    addition_queue: Figure
    shared_rate: Figure
    transcendental_rate: Figure
    barrier: Figure
    barrier_per_warp: Figure
    barrier_look: Figure
    fence: Figure
    tmem_alloc: Figure
    cluster_barrier: Figure
    arrive: Figure
    arrive_remote: Figure
    wake: Figure
    copy_latency: Figure
    copy_rate: Figure
    copy_issue: Figure
    remote_store_latency: Figure
    remote_store_rate: Figure
    mma_latency: Figure
    mma_issue: Figure
    commit: Figure
    tmem_load_latency: Figure
    tmem_rate: Figure
    tmem_store_latency: Figure

    def figures(self) -> dict[str, Figure]:
        """The figures by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Figure)}


HOPPER = Timing(
    arch="sm_90",
    clock=_of(1.98, 1.98, 1.98, "GHz", "nvidia-smi of the H200 while it ran"),
    sms=132,
    branch=_of(5, 8, 14, "clocks of a taken branch", "fits the export loops within 2%"),
    shuffle=_of(22, 24, 27, "clocks", _H200 + ": chain of shfl and lop3 32.2"),
    vote=_of(10, 14, 24, "clocks", _H200 + ": chain of ballot and add 27.7"),
    shared_load=_of(20, 23, 29, "clocks", _H200 + ": chain 29.2 with an address sum"),
    global_load=_of(260, 280, 800, "clocks from L2; worst: from memory", _H200 + ": chain 294.4"),
    constant_load=_of(25, 29, 39, "clocks", _H200 + ": chain of ldc and lop3 39.1"),
    special_register=_of(10, 25, 50, "clocks", _GUESS),
    uniform=_of(8, 12, 20, "clocks", _GUESS),
    transcendental=_of(15, 17, 20, "clocks", _H200 + ": chain of ex2 17.3"),
    other=_of(8, 20, 40, "clocks of what is not listed", _GUESS),
    read_operands=_of(6, 12, 20, "clocks until sources of a memory instruction are read", _GUESS),
    addition_operands=_of(14, 19, 24, "clocks until sources of red are read", "fits the export loops"),
    addition_rate=_of(
        25.4,
        25.0,
        24.3,
        "bytes per clock",
        _H200 + ": red.f32 20.8 per 128 bytes of 4 warps, 323 per 8 KB of 16",
    ),
    addition_rate_all=_of(15.3, 14.5, 12.2, "bytes per clock and SM, all SMs", _H200 + ", and " + _FACTS),
    addition_queue=_of(16384, 4096, 1024, "bytes sent and not yet added, per SM", _GUESS),
    shared_rate=_of(
        128, 128, 128, "bytes per clock", "CUDA programming guide; FlashAttention-4, arXiv 2603.05451"
    ),
    transcendental_rate=_of(16, 16, 16, "results per clock", "FlashAttention-4, arXiv 2603.05451"),
    barrier=_of(11, 13, 15, "clocks", _H200 + ": bar.sync 14.9 to 39.1 of 1 to 13 warps"),
    barrier_per_warp=_of(2, 2, 2, "clocks", _H200),
    barrier_look=_of(20, 28, 43, "clocks of a try_wait that succeeds", _H200 + ": 43.1 with its branch"),
    fence=_of(10, 30, 300, "clocks", _GUESS),
    tmem_alloc=_of(0, 0, 0, "clocks", "no tensor memory"),
    cluster_barrier=_of(100, 190, 400, "clocks", _GUESS),
    arrive=_of(60, 120, 150, "clocks until an arrival counts", _H200 + ": there and back 374.8"),
    arrive_remote=_of(150, 220, 400, "clocks", _FACTS + ": exchange of 4 KB 498"),
    wake=_of(
        20,
        45,
        95,
        "clocks from a phase to the waiting thread",
        _H200 + ": there and back 374.8, exchange of 4 KB 372",
    ),
    copy_latency=_of(220, 305, 900, "clocks", _H200 + ": 1 KB with its wait 425.0"),
    copy_rate=_of(64, 40, 20, "bytes per clock", _GUESS),
    copy_issue=_of(2, 8, 20, "clocks of the unit per copy", _GUESS),
    remote_store_latency=_of(
        30, 75, 250, "clocks", "measured, benchmarks/silicon/exchange.cu on an H200: 4 KB 372"
    ),
    remote_store_rate=_of(
        20.6,
        19.8,
        17.5,
        "bytes per clock",
        "measured, benchmarks/silicon/exchange.cu: 48 KB 2,607 alone, 2,890 with all SMs",
    ),
    mma_latency=_of(30, 60, 200, "clocks", _GUESS),
    mma_issue=_of(1, 2, 8, "clocks", _GUESS),
    commit=_of(10, 40, 200, "clocks", _GUESS),
    tmem_load_latency=_of(0, 0, 0, "clocks", "no tensor memory"),
    tmem_rate=_of(1024, 1024, 1024, "bytes per clock", "no tensor memory"),
    tmem_store_latency=_of(0, 0, 0, "clocks", "no tensor memory"),
)

_AS_HOPPER = "as on Hopper, not measured on SM100"
BLACKWELL = replace(
    HOPPER,
    arch="sm_100a",
    clock=_of(1.965, 1.85, 1.7, "GHz", "published runs of B200 kernels"),
    sms=148,
    addition_rate_all=_of(
        25,
        15.8,
        12.2,
        "bytes per clock and SM, all SMs",
        "cuDNN's 684 TFLOPS need 15.8 at least; " + _AS_HOPPER,
    ),
    copy_latency=_of(500, 700, 1400, "clocks", "facebookexperimental/triton 1219: TMA 700 and more"),
    mma_latency=_of(
        30, 100, 500, "clocks", "facebookexperimental/triton 1219: 128x128x128 900, 128x64 559, whole"
    ),
    tmem_alloc=_of(20, 100, 1000, "clocks", _GUESS),
    tmem_load_latency=_of(20, 40, 150, "clocks", _GUESS),
    tmem_rate=_of(1024, 1024, 512, "bytes per clock", "not published; planning value of docs/limits.md"),
    tmem_store_latency=_of(20, 40, 150, "clocks", _GUESS),
)


def mma_clocks(m: int, n: int, ws: bool, a_in_tmem: bool, pair: bool) -> float:
    """Clocks of one bf16 tcgen05.mma with K = 16 in steady state (SemiAnalysis microbench-blackwell; `.ws`:
    KevinZeng08/microbench-blackwell, M64 N64 32.5 and M64 N256 80.5)."""
    if pair:
        m //= 2
    operand = 32 * (n if a_in_tmem else m + n) / 128
    full = m * n / 256
    return max(full if ws or m != 64 else 2 * full, operand)


TIMINGS = {"sm_90": HOPPER, "sm_100a": BLACKWELL}


def timing_of(target: str) -> Timing:
    """The figures for a module's `.target`; TileproofError when there are none for it."""
    found = TIMINGS.get(target)
    if found is None:
        raise TileproofError(
            "there are no figures for this machine", where=f".target {target}", expected=" or ".join(TIMINGS)
        )
    return found
