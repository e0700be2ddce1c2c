"""Latencies and rates of the machine, in clocks of an SM: each defined once, with an interval and its source.

A figure is (best, likely, worst). Measured figures are from small programs of this repository on an H200 at
1,980 MHz (`benchmarks/silicon/latency.cu`, docs/evidence/2026-11-22-h200-latency.txt) or published for a B200
or GB200. Without a measurement on Blackwell, Hopper's figure is used with a wider interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.limits import PROCESSORS

Case = Literal["best", "likely", "worst"]
CASES: tuple[Case, ...] = ("best", "likely", "worst")

CARD_RATES = ("addition_rate_all", "read_rate_all", "store_rate_all", "memory_rate")  # TB/s of the card

_H200 = "measured, benchmarks/silicon/latency.cu on an H200"
_SHARING = "measured, benchmarks/silicon/sharing.cu on an H200"
_BANKS = "measured, benchmarks/silicon/shared_memory.cu on an H200"
_EXCHANGE = "measured, benchmarks/silicon/exchange.cu on an H200"
_PARTS = "measured, benchmarks/silicon/softmax_parts.cu on an H200"
_WAKE = "measured, benchmarks/silicon/wake.cu on an H200"
_ADDITIONS = "measured, benchmarks/silicon/additions.cu on an H200"
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
    """The figures of one architecture. A `rate` is per SM unless it is of the whole card: L2 and memory have
    their own clock and serve all SMs, so that theirs are absolute."""

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
    addition_line: Figure
    addition_single: Figure
    addition_queue: Figure
    read_rate: Figure
    read_rate_all: Figure
    l2_overlap: Figure
    read_queue: Figure
    shared_rate: Figure
    quarter_pass: Figure
    shared_beside_mma: Figure
    transcendental_rate: Figure
    barrier: Figure
    barrier_per_warp: Figure
    barrier_look: Figure
    fence: Figure
    memory_barrier: Figure
    memory_barrier_global: Figure
    tmem_alloc: Figure
    register_change: Figure
    cluster_barrier: Figure
    arrive: Figure
    arrive_remote: Figure
    wake: Figure
    wake_lane: Figure
    copy_latency: Figure
    copy_rate: Figure
    copy_issue: Figure
    remote_store_latency: Figure
    remote_store_rate: Figure
    remote_store_scattered: Figure
    store_rate: Figure
    store_rate_all: Figure
    store_read: Figure
    store_done: Figure
    mma_latency: Figure
    mma_issue: Figure
    commit: Figure
    tmem_load_latency: Figure
    tmem_rate: Figure
    tmem_store_latency: Figure
    l2_bytes: Figure
    memory_rate: Figure
    kernel_gap: Figure
    cta_start: Figure
    issue_gap: Figure

    def figures(self) -> dict[str, Figure]:
        """The figures by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Figure)}

    def values(self, case: Case) -> dict[str, float]:
        """The figures of a case as the model takes them: rates of the whole card as bytes per clock of each
        SM, at the case's clock."""
        found = {name: float(getattr(figure, case)) for name, figure in self.figures().items()}
        for name in CARD_RATES:
            found[name] *= 1e3 / (self.sms * found["clock"])
        return found

    def fixed(self, values: Mapping[str, float]) -> Timing:
        """With some figures at one value in all cases; TileproofError for a name that there is not, or a
        value below 0."""
        known = self.figures()
        if unknown := sorted(set(values) - set(known)):
            raise TileproofError(
                "unknown figure",
                found=", ".join(unknown),
                expected="one of " + ", ".join(sorted(known)),
                do=did_you_mean(unknown[0], known),
            )
        if bad := sorted(name for name, value in values.items() if not value >= 0):
            raise TileproofError("a figure is not below 0", found=", ".join(bad))
        changed = {name: Figure(at, at, at, known[name].unit, "set by hand") for name, at in values.items()}
        return replace(self, **changed)  # type: ignore[arg-type]


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
        25.7,
        25.0,
        23.5,
        "bytes per clock",
        _H200
        + ": red.f32 20.8 per 128 bytes of 4 warps, 323 per 8 KB of 16; best: "
        + _ADDITIONS
        + "; worst: 64 KB in 2,783, sharing.cu",
    ),
    addition_rate_all=_of(
        4.0, 3.81, 3.2, "TB/s of the card, whole lines of 128 bytes", _ADDITIONS + ": 3.89; " + _SHARING
    ),
    addition_line=_of(
        1.0,
        1.1,
        1.2,
        "sectors of 32 bytes that a line takes as long as, besides its own",
        _ADDITIONS + ": 5.0, 3.0 and 2.0 clocks of 4, 2 and 1 sectors, one CTA; 8.6, 5.2, 3.6 all SMs",
    ),
    addition_single=_of(
        0.33,
        0.38,
        0.45,
        "sectors in L2 of a line that a single lane adds to",
        _ADDITIONS + ": 2.5 clocks a line of 4, 8 and 16 bytes, all SMs; 1.04 in the port of one SM",
    ),
    addition_queue=_of(16384, 4096, 1024, "bytes sent and not yet added, per SM", _GUESS),
    read_rate=_of(
        125, 120, 110, "bytes per clock of one SM, from L2", _SHARING + ": cp.async 192 KB 1,639, 64 KB 575"
    ),
    read_rate_all=_of(
        9.7,
        9.4,
        8.6,
        "TB/s of the card from L2",
        _SHARING + ": 5,419 clocks for 192 KB, 1,808 for 64; worst: a table as large as L2",
    ),
    l2_overlap=_of(
        1.4,
        1.33,
        1.14,
        "work of additions and reads in L2 together, all SMs, of each alone 1",
        _SHARING
        + ": 1.33 for 64 KB added and 192 read, 1.24 for 128 and 192, 1.15 for 128 and 64, more where "
        "reads end before additions",
    ),
    read_queue=_of(
        4096,
        2048,
        1024,
        "bytes of one role's reads that wait for L2 at once, where no code is known",
        _SHARING + ": beside additions reads get half of their bytes",
    ),
    shared_rate=_of(
        128,
        126,
        112,
        "bytes per clock, 128 in a pass over the banks",
        "CUDA programming guide; FlashAttention-4, arXiv 2603.05451; "
        + _BANKS
        + ": 8 x 32 passes 261.5, 8 x 1 9.5",
    ),
    quarter_pass=_of(
        2,
        2,
        2.1,
        "clocks of a pass in a warp's quarter of the SM",
        _BANKS + ": 66.4 for 32 passes of one warp",
    ),
    shared_beside_mma=_of(
        0.11,
        0.09,
        0.05,
        "least share of shared memory beside MMAs that read all the time",
        _BANKS + ": 48.1 clocks of loads take 80.5 beside wgmma, which takes 35.4 in place of 33.9",
    ),
    transcendental_rate=_of(
        16,
        16,
        15,
        "results per clock",
        "FlashAttention-4, arXiv 2603.05451; worst: beside conversions and stores, softmax_parts.cu: 640 "
        "clocks for 512 of ex2",
    ),
    barrier=_of(11, 13, 15, "clocks", _H200 + ": bar.sync 14.9 to 39.1 of 1 to 13 warps"),
    barrier_per_warp=_of(2, 2, 2, "clocks", _H200),
    barrier_look=_of(28, 36, 43, "clocks of a try_wait that succeeds", _H200 + ": 43.1 with its branch"),
    fence=_of(8, 12, 40, "clocks, proxy and .cta", _H200 + ": with a store 17.9 and 16.0"),
    memory_barrier=_of(
        240,
        275,
        800,
        "clocks of a fence at .cluster or .gpu",
        _H200 + ": with a store 281; worst: more stores",
    ),
    memory_barrier_global=_of(
        280,
        310,
        400,
        "clocks more of a fence at .cluster or .gpu behind accesses of global memory, once L2 has done them",
        _ADDITIONS + ": 609, 706, 958 and 1,833 clocks behind 1, 4, 16 and 64 red.f32 of 4 warps",
    ),
    tmem_alloc=_of(0, 0, 0, "clocks", "no tensor memory"),
    register_change=_of(5, 30, 300, "clocks of setmaxnreg", _GUESS),
    cluster_barrier=_of(
        40, 60, 190, "clocks behind the fence of its arrival", _EXCHANGE + ": barrier.cluster 342"
    ),
    arrive=_of(15, 25, 60, "clocks until an arrival counts", _PARTS + ": there and back 133.9"),
    arrive_remote=_of(
        40,
        80,
        400,
        "clocks behind its fence",
        _EXCHANGE + ": there and back 1,047, with two fences at .cluster",
    ),
    wake=_of(
        15,
        26,
        95,
        "clocks from a phase to the waiting warp, all of whose lanes wait",
        _PARTS + ": there and back 133.9",
    ),
    wake_lane=_of(
        90,
        130,
        165,
        "the same where other lanes of the warp are elsewhere, as one elected thread waits",
        _WAKE + ": a round trip of 98 takes 114 to 149 more for each such warp, a load of 1 KB 68 more",
    ),
    copy_latency=_of(200, 253, 900, "clocks", _WAKE + ": 1 KB with its wait 352.4"),
    copy_rate=_of(
        108, 100, 60, "bytes per clock of the copy unit", _SHARING + ": 32 KB in 323 clocks; worst: a guess"
    ),
    copy_issue=_of(
        8, 13, 24, "clocks of the unit per copy", _SHARING + ": 1 KB each by 4 threads 23.2 a copy"
    ),
    remote_store_latency=_of(
        30, 100, 250, "clocks", "measured, benchmarks/silicon/exchange.cu on an H200: 4 KB 372"
    ),
    remote_store_rate=_of(
        20.6,
        19.8,
        17.5,
        "bytes per clock",
        "measured, benchmarks/silicon/exchange.cu: 48 KB 2,607 alone, 2,890 with all SMs",
    ),
    remote_store_scattered=_of(
        1.7,
        1.86,
        2.1,
        "times the clocks, where neighbours fill less than 64 bytes of a row",
        _EXCHANGE + ": 16 KB 1,810 and 1,843 in place of 985",
    ),
    store_rate=_of(33, 32, 31, "bytes per clock of bulk stores", _SHARING + ": 32 KB 1,045 until read"),
    store_rate_all=_of(4.95, 4.81, 4.65, "TB/s of the card, bulk stores", _SHARING + ": 32 KB 1,764"),
    store_read=_of(0, 2, 20, "clocks until a bulk store has read", _SHARING + ": 1 KB 56.4"),
    store_done=_of(18, 25, 60, "clocks from there until it is complete", _SHARING + ": 1 KB 83.9"),
    mma_latency=_of(30, 60, 200, "clocks", _GUESS),
    mma_issue=_of(1, 2, 8, "clocks", _GUESS),
    commit=_of(10, 40, 200, "clocks", _GUESS),
    tmem_load_latency=_of(0, 0, 0, "clocks", "no tensor memory"),
    tmem_rate=_of(1024, 1024, 1024, "bytes per clock", "no tensor memory"),
    tmem_store_latency=_of(0, 0, 0, "clocks", "no tensor memory"),
    l2_bytes=_of(
        60,
        42,
        30,
        "MB of a working set that L2 holds",
        _ADDITIONS + " and " + _SHARING + ": 128 KB added to 64, 151 and 302 MB; best: all of L2",
    ),
    memory_rate=_of(4.6, 4.3, 3.8, "TB/s of the card", "a copy on the H200, read and written bytes"),
    kernel_gap=_of(1, 3, 6, "microseconds between two kernels of a stream", _GUESS),
    cta_start=_of(500, 1500, 4000, "clocks from a CTA's end to the first load of the next CTA", _GUESS),
    issue_gap=_of(
        1.2,
        1.8,
        3,
        "clocks from an instruction of a warp to its next, where no code is known",
        "issues and stalls of the softmax warps of the kernels here",
    ),
)

_AS_HOPPER = "as on Hopper, not measured on SM100"
BLACKWELL = replace(
    HOPPER,
    arch="sm_100a",
    clock=_of(1.965, 1.85, 1.7, "GHz", "published runs of B200 kernels"),
    sms=PROCESSORS,
    addition_rate_all=_of(
        5.6,
        5.0,
        4.3,
        "TB/s of the card, whole lines of 128 bytes",
        "fits cuDNN's 64 heads: 4.019 ms on a B200, 3.921 on a GB200, 3.911 on a GB300 (cudnn-frontend pull "
        "318, benchmark/dsa/results/glm53); worst: added bytes over the whole time",
    ),
    copy_latency=_of(500, 700, 1400, "clocks", "facebookexperimental/triton 1219: TMA 700 and more"),
    mma_latency=_of(
        104,
        136,
        200,
        "clocks behind the interval of the last",
        "SemiAnalysis microbench-blackwell, umma_latency: 120 to 170 over the shapes; worst: a guess",
    ),
    read_rate=_of(125, 120, 64, "bytes per clock of one SM, from L2", _AS_HOPPER),
    read_rate_all=_of(
        17.5,
        10.5,
        7.5,
        "TB/s of the card from L2",
        "cuDNN's 2-CTA kernel needs 7.5 at least on a GB200; likely: bytes per clock and SM as on Hopper",
    ),
    store_rate_all=_of(5.5, 5.0, 4.4, "TB/s of the card, bulk stores", _AS_HOPPER),
    l2_bytes=_of(
        126,
        100,
        60,
        "MB of a working set that L2 holds",
        "126 MB (pytorch/ao 4002); likely: as Hopper's share",
    ),
    read_queue=_of(
        16384,
        8192,
        2048,
        "bytes of one role's reads that wait for L2 at once",
        "fits cuDNN's 64 heads; a guess",
    ),
    copy_rate=_of(
        102, 100, 36, "bytes per clock of the copy unit", _AS_HOPPER + "; worst: of gathers, a guess"
    ),
    tmem_alloc=_of(20, 100, 1000, "clocks", _GUESS),
    tmem_load_latency=_of(20, 40, 150, "clocks", _GUESS),
    tmem_rate=_of(1024, 1024, 512, "bytes per clock", "not published; planning value of docs/limits.md"),
    tmem_store_latency=_of(20, 40, 150, "clocks", _GUESS),
    memory_rate=_of(7.0, 6.6, 5.5, "TB/s of the card", "SemiAnalysis microbench-blackwell: LDGSTS 6.6"),
)


def mma_operand_clocks(m: int, n: int, a_in_tmem: bool, pair: bool) -> float:
    """Clocks in which an SM's shared memory is read for one bf16 MMA with K = 16, 128 bytes a clock: its rows
    of A, and its half of B where a pair shares it."""
    return 32 * ((0 if a_in_tmem else m // 2 if pair else m) + (n // 2 if pair else n)) / 128


def mma_clocks(m: int, n: int, ws: bool, a_in_tmem: bool, pair: bool) -> float:
    """Clocks of one bf16 tcgen05.mma with K = 16 in steady state, of each SM that takes part.

    Within 3 clocks of every published row: SemiAnalysis microbench-blackwell, umma_throughput; `.ws`:
    KevinZeng08/microbench-blackwell, umma_throughput/ws_tput.csv.
    """
    operands = mma_operand_clocks(m, n, a_in_tmem, pair)
    if ws:
        return max(operands, max(m, 64) * n / 256 + (12 if m <= 64 else 10))
    rows = m // 2 if pair else m
    return max(operands, rows * n / 256 * (2 if m == 64 else 1))


TIMINGS = {"sm_90": HOPPER, "sm_100a": BLACKWELL}


def timing_of(target: str) -> Timing:
    """The figures for a module's `.target`; TileproofError when there are none for it."""
    found = TIMINGS.get(target)
    if found is None:
        raise TileproofError(
            "no timing figures for this target", where=f".target {target}", expected=" or ".join(TIMINGS)
        )
    return found
