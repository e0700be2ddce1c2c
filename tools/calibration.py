"""The timing model beside what an H200 measured: the same programs, for sm_90, run on the emulator."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.conformance.timing.model import EVENTS, Played, played
from tileproof.emulator import Fields, Memory, Module
from tileproof.kernels import toolchain
from tileproof.spec import header
from tileproof.spec.machine.timing import CASES, HOPPER, Case
from tileproof.spec.plans.head128 import plan

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
ARCH = "sm_90"
K_BLOCKS, ROWS = 4, 8192
STEPS = 256  # of latency.cu
EXCHANGE_STEPS = 64  # of exchange.cu
EXCHANGES = (4, 16)  # KB each way
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

    @property
    def off(self) -> float:
        """The likely case relative to the measurement, 0 when they agree."""
        return self.likely / self.measured - 1

    @property
    def held(self) -> bool:
        """Whether the interval holds the measurement."""
        return min(self.best, self.worst) <= self.measured <= max(self.best, self.worst)


def exports(folder: Path) -> Iterator[Row]:
    """head128's export loop in its three forms, clocks per k-block, alone and with every SM busy."""
    text = (EVIDENCE / "2026-11-22-h200-export.txt").read_text()
    (folder / header.FILE_NAME).write_text(header.render(plan(576)))
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "export_loop.cu", folder)
    for form, name in enumerate(EXPORTS):
        run = _export(ptx, form)
        found = re.search(rf"^{re.escape(name)}.*?\s{{2,}}(\d+) \(.*?\)\s+(\d+) \(", text, re.M)
        assert found is not None, name
        for alone, measured in ((True, found[1]), (False, found[2])):
            clocks = [run.clocks(HOPPER, case, alone).clocks / K_BLOCKS for case in CASES]
            yield Row(f"export loop, {name}, {'one CTA' if alone else 'every SM'}", float(measured), *clocks)


def latencies(folder: Path) -> Iterator[Row]:
    """The loops of latency.cu on one CTA, clocks per step."""
    text = (EVIDENCE / "2026-11-22-h200-latency.txt").read_text()
    source = ROOT / "benchmarks" / "silicon" / "latency.cu"
    names = re.findall(r"\bk\w+", re.search(r"enum class What \{(.*?)\}", source.read_text(), re.S)[1])  # type: ignore[index]
    ptx = compiled(source, folder)
    for what, (enumerator, warps) in LATENCIES.items():
        found = re.search(rf"^{re.escape(what)}\s+{warps} warps\s+1 CTAs\s+([\d.]+)", text, re.M)
        assert found is not None, what
        run, lines = _latency(ptx, names.index(enumerator), warps)
        clocks = [_between(run, case, lines) / STEPS for case in CASES]
        yield Row(f"{what}, {warps} warps", float(found[1]), *clocks)


def exchanges(folder: Path) -> Iterator[Row]:
    """An exchange between the two CTAs of a cluster, clocks per exchange."""
    text = (EVIDENCE / "2026-11-22-h200-exchange.txt").read_text()
    ptx = compiled(ROOT / "benchmarks" / "silicon" / "exchange.cu", folder)
    for kilobytes in EXCHANGES:
        found = re.search(
            rf"^st.async\s+{kilobytes} KB each way\s+2 CTAs\s+([\d.]+).*?CTAs\s+([\d.]+)", text, re.M
        )
        assert found is not None, kilobytes
        memory = Memory()
        clocks = memory.buffer(np.zeros(2, np.int64))
        part = f"ILi{kilobytes * 1024}E"
        run = _play(ptx, part, [clocks], 128, memory, kilobytes * 1024, grid=2)
        lines = {number for number, line in enumerate(ptx.splitlines(), 1) if "%clock64" in line}
        per = [_between(run, case, lines) / EXCHANGE_STEPS for case in CASES]
        yield Row(f"exchange, {kilobytes} KB each way, one cluster", float(found[1]), *per)


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


def _between(run: Played, case: Case, lines: set[int]) -> float:
    """Clocks between the two reads of the clock, by the first warp."""
    log = run.clocks(HOPPER, case, True).log[(0, 0, 0, 0)]
    times = [time for time, line in log if line in lines]
    return times[-1] - times[0]


def _export(ptx: str, form: int) -> Played:
    memory = Memory()
    indices = np.random.default_rng(1).integers(0, ROWS, K_BLOCKS * 64).astype(np.int32)
    table = memory.buffer(np.zeros((ROWS, 576), np.float32))
    # The offsets of `Params` that config.cuh asserts: indices, topk_length, dKV, s_kv, topk.
    fields: dict[int, Any] = {528: memory.buffer(indices), 536: np.uint64(0), 552: table}
    fields |= {592: np.int32(ROWS), 596: np.int32(K_BLOCKS * 64)}
    clocks = memory.buffer(np.zeros(1, np.int64))
    return _play(ptx, f"IL4Form{form}E", [Fields(640, fields), clocks], 128, memory, 1024)


def _latency(ptx: str, what: int, warps: int) -> tuple[Played, set[int]]:
    memory = Memory()
    index = np.arange(1 << 20, dtype=np.uint32)
    fields: dict[int, Any] = {
        0: memory.buffer(np.zeros(32 * 576 * 8, np.float32)),
        8: memory.buffer((index + 1024) % index.size),
        16: memory.buffer(np.zeros(1, np.int64)),
        24: memory.buffer(np.zeros(1024, np.uint32)),
        32: ((np.arange(64, dtype=np.uint32) + 5) % 64).tobytes(),
    }
    run = _play(ptx, f"IL4What{what}E", [Fields(288, fields)], 32 * warps, memory, 0)
    return run, {number for number, line in enumerate(ptx.splitlines(), 1) if "%clock64" in line}


def _play(
    ptx: str, part: str, args: list[Any], threads: int, memory: Memory, shared: int, grid: int = 1
) -> Played:
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
