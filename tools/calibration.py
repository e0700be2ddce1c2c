"""Compares the timing model with measurements on an H200: the same programs, for sm_90, run on the
emulator."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
from tileproof.conformance.beside.timing.model import EVENTS, Played, played
from tileproof.emulator import Fields, Memory, Module
from tileproof.emulator.arguments import Argument, FieldItem
from tileproof.kernels import toolchain
from tileproof.spec import header
from tileproof.spec.machine.timing import CASES, HOPPER, Case, Timing
from tileproof.spec.plans.head64 import plan
from tileproof.tools import evidence

ROOT = Path(__file__).resolve().parents[1]
ARCH = "sm_90"
K_BLOCKS, ROWS = 4, 8192
MODELLED = (2, 5)  # steps of two runs of the model, whose difference is the steady state
STEPS = 256  # of latency.cu
EXCHANGE_STEPS = 8  # the card ran 64
# KB each way, threads, form (of exchange.cu), and what the evidence calls it behind "each way".
EXCHANGES = (
    (4, 128, 0, ""),
    (16, 256, 0, ", 8 warps"),
    (16, 256, 2, ", 8 warps, 16 B of a row"),
    (48, 256, 1, ", 8 warps, two rounds"),
)
PINGS = 64  # of exchange.cu
BETWEEN = {"remote arrival, there and back": "ILb1E", "barrier.cluster": "ILb0E"}
# KB added and read a step, how it is read (of sharing.cu), and steps in the model.
SHARINGS = ((64, 0, 0, 16), (128, 64, 1, 16), (128, 192, 1, 16))
STORES = ((1, False), (32, True))  # KB, and whether wait_group is .read
LOADS = ((32768, 1),)  # bytes of a copy, threads that issue them
# What (of shared_memory.cu), name, bytes from lane to lane, warps.
BANKS = (
    (0, "ld.shared.b32", 128, 1),
    (0, "ld.shared.b32", 32, 8),
    (1, "ld.shared.v4.b32", 64, 8),
    (4, "ld.shared.b32, chain", 4, 1),
    (4, "ld.shared.b32, chain", 128, 1),
)
# Which enumerator of latency.cu's `What`, and how many warps, by what the evidence calls the row.
LATENCIES = {
    "fma, chain": ("kFma", 1),
    "ex2.approx.ftz.f32, chain": ("kExp2", 1),
    "shfl.idx, chain (with lop3)": ("kShuffle", 1),
    "ballot and add, chain": ("kVote", 1),
    "ld.shared, chain (with lop3, iadd)": ("kShared", 1),
    "ld.global from L2, chain": ("kGlobal", 1),
    "red.f32, rate": ("kRed", 4),
    "red.v4.f32, 4 rows x 128 B, rate": ("kRedV4", 4),
    "bar.sync": ("kBarrier", 13),
    "parameter by index, chain (lop3)": ("kConstant", 1),
    "try_wait, phase complete": ("kReady", 1),
    "mbarrier, there and back": ("kMbarrier", 2),
    "bulk load of 1 KB and wait": ("kBulkLoad", 1),
    "st.shared, fence.proxy.async": ("kFenceProxy", 1),
    "st.shared, fence.acq_rel.gpu": ("kFenceGpu", 1),
}
# Of together.cu: part of the entry's name, bytes of shared memory.
TOGETHER = {
    "pipeline, 2 stages, 16 KB in, 16 KB added": ("8pipelineILi2ELi4E", 2 << 14),
    "pipeline, 4 stages, 16 KB in, 16 KB added": ("8pipelineILi4ELi4E", 4 << 14),
    "pipeline, 4 stages, 16 KB in, 4 KB added": ("8pipelineILi4ELi1E", 4 << 14),
    "pipeline, 1 stage, 16 KB in, 4 KB added": ("8pipelineILi1ELi1E", 1 << 14),
    "softmax of 128 heads and 64 keys": ("7softmax", 49152),
}
TOGETHER_STEPS = 32
PARTS = {"kLoad": 1, "kExp2": 2, "kStore": 4, "kFence": 8, "kBarrier": 16, "kAnswer": 32}  # softmax_parts.cu
# Which figure was chosen from a row, by how the row begins; the rows that are not here are held out.
FITS = {
    "ex2": "transcendental",
    "shfl": "shuffle",
    "ballot": "vote",
    "ld.shared, chain": "shared_load",
    "ld.global": "global_load",
    "red.f32": "addition_rate",
    "bar.sync": "barrier, barrier_per_warp",
    "parameter by index": "constant_load",
    "try_wait": "barrier_look",
    "softmax, answer": "arrive, wake",
    "mbarrier, there and back": "wake_lane",
    "bulk load of 1 KB": "copy_latency, wake_lane",
    "st.shared, fence.proxy": "fence",
    "st.shared, fence.acq_rel": "memory_barrier",
    "ld.shared.b32, stride 128, 1": "quarter_pass",
    "exchange, 4 KB": "remote_store_latency",
    "exchange, 16 KB each way, 8 warps, 16 B of a row": "remote_store_scattered",
    "remote arrival": "arrive_remote",
    "barrier.cluster": "cluster_barrier",
    "add 64 KB, read 0 KB, one CTA": "addition_rate",
    "add 64 KB, read 0 KB, every SM": "addition_rate_all",
    "add 128 KB, read 64 KB cp.async, one CTA": "read_rate",
    "add 128 KB, read 192 KB cp.async, one CTA": "read_rate",
    "add 128 KB, read 64 KB cp.async, every SM": "l2_overlap",
    "add 128 KB, read 192 KB cp.async, every SM": "l2_overlap",
    "bulk store 1 KB": "store_read, store_done",
    "bulk store 32 KB": "store_rate",
    "bulk loads of 32768 B": "copy_rate",
    "export loop, a key at a time": "branch, addition_operands",
    "export loop, 32 shuffles first": "branch, addition_operands",
    "export loop, red.v4.f32": "branch, addition_operands",
    # of tools/addition_rows.py
    "add 1 rows x 128 B": "addition_rate_all, addition_rate",
    "add 2 rows": "addition_line",
    "add 4 rows x 32 B": "addition_line",
    "add 32 rows x 4 B": "addition_single",
    "added to": "l2_bytes",
    "fence behind": "memory_barrier_global",
}
EXPORTS = ("a key at a time", "32 shuffles first", "as shipped: no test per key", "red.v4.f32, 4 rows")


@dataclass(frozen=True)
class Row:
    """What was measured, and the model's three cases, in clocks."""

    what: str
    measured: float
    best: float
    likely: float
    worst: float
    again: Callable[..., float] = field(repr=False, compare=False)
    """The likely case with other figures (a Timing), or another case of theirs."""

    @property
    def off(self) -> float:
        """The likely case relative to the measurement, 0 when they agree."""
        return self.likely / self.measured - 1

    @property
    def fits(self) -> str:
        """The figures that were chosen from this row; empty where it is a test of the model."""
        return next((figures for start, figures in FITS.items() if self.what.startswith(start)), "")

    @property
    def held(self) -> bool:
        """Whether the interval holds the measurement."""
        return min(self.best, self.worst) <= self.measured <= max(self.best, self.worst)


def exports(folder: Path) -> Iterator[Row]:
    """head64's export loop in its three forms, clocks per k-block, alone and with every SM busy."""
    text = evidence.read_text("2026-11-22-h200-export.txt")
    (folder / header.FILE_NAME).write_text(header.render(plan(576)))
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "export_loop.cu", folder)
    for form, name in enumerate(EXPORTS):
        run = _export(ptx, form)
        found = re.search(rf"^{re.escape(name)}.*?\s{{2,}}(\d+) \(.*?\)\s+(\d+) \(", text, re.M)
        assert found is not None, name
        for alone, measured in ((True, found[1]), (False, found[2])):
            again = partial(_whole, run, alone)
            best, likely, worst = (again(HOPPER, case) for case in CASES)
            what = f"export loop, {name}, {'one CTA' if alone else 'every SM'}"
            yield Row(what, float(measured), best, likely, worst, again)


def latencies(folder: Path) -> Iterator[Row]:
    """The loops of latency.cu on one CTA, clocks per step."""
    text = evidence.read_text("2026-11-22-h200-latency.txt")
    source = ROOT / "benchmarks" / "silicon" / "latency.cu"
    names = re.findall(r"\bk\w+", re.search(r"enum class What \{(.*?)\}", source.read_text(), re.S)[1])  # type: ignore[index]
    ptx = compiled(source, folder)
    for what, (enumerator, warps) in LATENCIES.items():
        found = re.search(rf"^{re.escape(what)}\s+{warps} warps\s+1 CTAs\s+([\d.]+)", text, re.M)
        assert found is not None, what
        run, lines = _latency(ptx, names.index(enumerator), warps)
        yield _row(f"{what}, {warps} warps", float(found[1]), run, lines, STEPS)


def exchanges(folder: Path) -> Iterator[Row]:
    """An exchange between the two CTAs of a cluster, clocks per exchange, and barriers between them."""
    text = evidence.read_text("2026-11-22-h200-exchange.txt")
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "exchange.cu", folder)
    lines = clock_lines(ptx)
    parts = {
        f"exchange, {size} KB each way{how}": (
            rf"st.async\s+{size} KB each way{re.escape(how)}",
            f"ILi{size * 1024}ELi{threads}EL4Form{form}E",
            threads,
            size * 1024,
        )
        for size, threads, form, how in EXCHANGES
    }
    parts |= {name: (re.escape(name), f"4ping{part}", 128, 0) for name, part in BETWEEN.items()}
    for name, (pattern, part, threads, shared) in parts.items():
        found = re.search(rf"^{pattern}\s+2 CTAs\s+([\d.]+)", text, re.M)
        assert found is not None, name
        memory = Memory()
        args: list[Argument] = [memory.buffer(np.zeros(2, np.int64))]
        steps = PINGS if "ping" in part else EXCHANGE_STEPS
        args += [] if "ping" in part else [np.int32(steps)]
        run = play(ptx, part, args, threads, memory, shared, grid=2)
        yield _row(f"{name}, one cluster", float(found[1]), run, lines, steps)


def sharings(folder: Path) -> Iterator[Row]:
    """Additions and reads side by side, bulk stores and bulk loads: clocks per step, one CTA and all SMs."""
    text = evidence.read_text("2026-11-22-h200-sharing.txt")
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "sharing.cu", folder)
    lines = clock_lines(ptx)
    for added, read, how, steps in SHARINGS:
        name = f"add {added:3d} KB, read {read:3d} KB {('bulk', 'cp.async')[how] if read else '':8s}"
        run = _sharing(ptx, f"ILi{added}ELi{read}EL4Read{how}E", 256, 131072, steps)
        yield from _both(text, name, run, lines, steps)
    for size, reads in STORES:
        name = f"bulk store {size:2d} KB, wait_group{'.read' if reads else '     '}"
        run = _sharing(ptx, f"ILi{size}ELb{int(reads)}E", 32, size * 1024, 8)
        yield next(_both(text, name, run, lines, 8))
    for size, threads in LOADS:
        name = f"bulk loads of {size:5d} B, 32 KB by {threads} threads "
        run = _sharing(ptx, f"4loadILi{size}ELi{threads}E", 32 * threads, 131072, 64)
        yield next(_both(text, name, run, lines, 64))


def banks(folder: Path) -> Iterator[Row]:
    """Loads and stores of shared memory whose lanes meet in a bank, clocks per instruction and warp."""
    text = evidence.read_text("2026-11-22-h200-shared-memory.txt")
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "shared_memory.cu", folder)
    lines = clock_lines(ptx)
    for what, name, stride, warps in BANKS:
        pattern = rf"^{re.escape(name)}\s+stride\s+{stride} bytes,\s+{warps} warps\s+([\d.]+)"
        found = re.search(pattern, text, re.M)
        assert found is not None, name
        memory = Memory()
        clocks, sink = memory.buffer(np.zeros(1, np.int64)), memory.buffer(np.zeros(1024, np.uint32))
        args = Fields(24, {0: clocks, 8: sink, 16: np.uint32(stride)})
        run = play(ptx, f"5banksIL4What{what}E", [args], 32 * warps, memory, 0)
        yield _row(f"{name}, stride {stride}, {warps} warps", float(found[1]), run, lines, STEPS)


def sharing_rows(folder: Path) -> Iterator[Row]:
    """Units at work together, which no figure was chosen from: clocks per step."""
    text = evidence.read_text("2026-11-22-h200-together.txt")
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "together.cu", folder)
    lines = clock_lines(ptx)
    for name, (part, shared) in TOGETHER.items():
        memory = Memory()
        fields: dict[int, FieldItem] = {
            0: memory.buffer(np.zeros((ROWS, 512), np.float32)),
            8: memory.buffer(np.zeros((ROWS, 1024), np.uint8)),
            16: memory.buffer(np.zeros(1, np.int64)),
            24: np.int32(TOGETHER_STEPS),
            28: np.uint32(ROWS),
        }
        run = play(ptx, part, [Fields(32, fields)], 288, memory, shared)
        yield from _both(text, name, run, lines, TOGETHER_STEPS)


def parts(folder: Path) -> Iterator[Row]:
    """together.cu's softmax with parts left out, one CTA, and what synchronises it alone: clocks per step."""
    text = evidence.read_text("2026-11-22-h200-softmax-parts.txt")
    source = ROOT / "benchmarks" / "silicon" / "softmax_parts.cu"
    ptx = compiled(source, folder)
    lines = clock_lines(ptx)
    for combined, name in re.findall(r'row<([^>]+)>\("([^"]+)", a\)', source.read_text()):
        mask = sum(PARTS[part.strip()] for part in combined.split("|"))
        found = re.search(rf"^{re.escape(name)}\s+1 CTA\s+([\d.]+)", text, re.M)
        assert found is not None, name
        memory = Memory()
        fields: dict[int, FieldItem] = {0: memory.buffer(np.zeros(1, np.int64)), 8: np.int32(TOGETHER_STEPS)}
        run = play(ptx, f"5partsILi{mask}E", [Fields(16, fields)], 288, memory, 49152)
        yield _row(f"softmax, {name}", float(found[1]), run, lines, TOGETHER_STEPS)


def _both(text: str, name: str, run: Played, lines: set[int], steps: int) -> Iterator[Row]:
    """A row for one CTA and a row for all SMs."""
    found = re.search(rf"^{re.escape(name)}\s+1 CTA\s+([\d.]+).*?\s132 CTAs\s+([\d.]+)", text, re.M)
    assert found is not None, name
    for alone, measured in ((True, found[1]), (False, found[2])):
        where = "one CTA" if alone else "every SM"
        yield _row(f"{' '.join(name.split())}, {where}", float(measured), run, lines, steps, alone)


def _sharing(ptx: str, part: str, threads: int, shared: int, steps: int) -> Played:
    memory = Memory()
    rows = np.random.default_rng(2).integers(0, ROWS, 64 * 64).astype(np.int32)
    fields: dict[int, FieldItem] = {
        0: memory.buffer(np.zeros((ROWS, 512), np.float32)),
        8: memory.buffer(np.zeros((ROWS, 1024), np.uint8)),
        16: memory.buffer(rows),
        24: memory.buffer(np.zeros(1, np.int64)),
        32: np.int32(steps),
        36: np.uint32(ROWS),
    }
    return play(ptx, part, [Fields(40, fields)], threads, memory, shared)


def clock_lines(ptx: str) -> set[int]:
    """The lines that read the clock."""
    return {number for number, line in enumerate(ptx.splitlines(), 1) if "%clock64" in line}


def _row(what: str, measured: float, run: Played, lines: set[int], steps: int, alone: bool = True) -> Row:
    again = partial(between, run, lines, alone, steps, 0)
    best, likely, worst = (again(HOPPER, case) for case in CASES)
    return Row(what, measured, best, likely, worst, again)


def _whole(run: Played, alone: bool, timing: Timing, case: Case = "likely") -> float:
    return run.clocks(timing, case, alone).clocks / K_BLOCKS


@cache
def compiled(source: Path, folder: Path) -> str:
    """The PTX of one of benchmarks/silicon for sm_90."""
    tools = toolchain.find()
    out = folder / f"{source.stem}.ptx"
    command = [
        str(tools.nvcc),
        "-ptx",
        "-O3",
        "-std=c++17",
        "--expt-relaxed-constexpr",
        "-DNDEBUG",
        "-DTILEPROOF_EDITED=1",  # config.cuh leaves CuTe and its static proofs to the kernels' builds
        f"-arch={ARCH}",
    ]
    command += [
        f"-I{ROOT / 'kernels'}",
        f"-I{folder}",
        f"-I{tools.cutlass_include}",
        "-o",
        str(out),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return out.read_text()


def between(
    run: Played,
    lines: set[int],
    alone: bool,
    steps: float,
    working_set: float,
    timing: Timing,
    case: Case = "likely",
) -> float:
    """Clocks of a step between the two reads of the clock, by the first warp."""
    log = run.clocks(timing, case, alone, working_set=working_set).log[(0, 0, 0, 0)]
    times = [time for time, line in log if line in lines]
    return (times[-1] - times[0]) / steps


def steady(
    what: str,
    measured: float,
    runs: tuple[Played, Played],
    lines: set[int],
    alone: bool,
    working_set: float = 0,
    steps: tuple[int, int] = MODELLED,
) -> Row:
    """From two runs, of which the second has more steps: what is fetched for the first time is in both."""
    again = partial(_difference, runs, lines, alone, working_set, steps)
    best, likely, worst = (again(HOPPER, case) for case in CASES)
    return Row(what, measured, best, likely, worst, again)


def _difference(
    runs: tuple[Played, Played],
    lines: set[int],
    alone: bool,
    working_set: float,
    steps: tuple[int, int],
    timing: Timing,
    case: Case = "likely",
) -> float:
    short, whole = (between(run, lines, alone, 1, working_set, timing, case) for run in runs)
    return (whole - short) / (steps[1] - steps[0])


def _export(ptx: str, form: int) -> Played:
    memory = Memory()
    indices = np.random.default_rng(1).integers(0, ROWS, K_BLOCKS * 64).astype(np.int32)
    table = memory.buffer(np.zeros((ROWS, 576), np.float32))
    # The offsets of head64's `Params`: indices, topk_length, dKV, s_kv, topk.
    fields: dict[int, FieldItem] = {528: memory.buffer(indices), 536: np.uint64(0), 552: table}
    fields |= {592: np.int32(ROWS), 596: np.int32(K_BLOCKS * 64)}
    clocks = memory.buffer(np.zeros(1, np.int64))
    return play(ptx, f"IL4Form{form}E", [Fields(640, fields), clocks], 128, memory, 1024)


def _latency(ptx: str, what: int, warps: int) -> tuple[Played, set[int]]:
    memory = Memory()
    index = np.arange(1 << 20, dtype=np.uint32)
    fields: dict[int, FieldItem] = {
        0: memory.buffer(np.zeros(32 * 576 * 8, np.float32)),
        8: memory.buffer((index + 1024) % index.size),
        16: memory.buffer(np.zeros(1, np.int64)),
        24: memory.buffer(np.zeros(1024, np.uint32)),
        32: ((np.arange(64, dtype=np.uint32) + 5) % 64).tobytes(),
    }
    run = play(ptx, f"IL4What{what}E", [Fields(288, fields)], 32 * warps, memory, 0)
    return run, clock_lines(ptx)


def play(
    ptx: str, part: str, args: list[Argument], threads: int, memory: Memory, shared: int, grid: int = 1
) -> Played:
    """One launch of the entry whose name has `part`."""
    module = Module.from_ptx(ptx)
    entry = next(name for name in module.entries if part in name)
    result = module.launch(
        entry,
        grid=(grid,),
        block=(threads,),
        shared_bytes=shared,
        args=args,
        memory=memory,
        trace=True,
        path=True,
        trace_limit=EVENTS,
    )
    assert not result.findings, result.findings
    assert result.trace is not None
    return played(module, ptx, entry, ARCH, result, result.trace)
