"""The units of the machine that warps and asynchronous operations share, and how long each use takes.

A unit serves one request after the other. Additions and reads go to L2 by the SM's own port. When every SM
does the same, they share L2: each kind alone has a rate, both together do `l2_overlap` times the work of a
kind. An addition takes the time of its sectors and of the lines that they are in. What
L2 does not hold, of a working set larger than it, comes from memory. In shared memory the operands of MMAs
come first; loads, stores and copies take what is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.work import LINE, SECTOR, Cta, Phase, TimedOperation, Touched
from tileproof.spec.machine.timing import mma_clocks, mma_operand_clocks

SCHEDULERS = 4
PASS_BYTES = 128  # of shared memory in one pass over its 32 banks
_RATES = {"additions": ("addition_rate", "addition_rate_all"), "reads": ("read_rate", "read_rate_all")}


@dataclass(frozen=True)
class Origin:
    """Who contributes to a phase: `warp` issued it at `issued`; of an operation also its unit."""

    warp: Warp
    issued: float
    unit: str = ""
    began: float = 0.0
    done: float = 0.0
    line: int = 0


@dataclass
class Use:
    """How long units were busy, by CTA and unit; each span: unit, CTA, begin, end, PTX line."""

    busy: Counter[tuple[Hashable, str]] = field(default_factory=Counter)
    spans: list[tuple[str, Hashable, float, float, int]] = field(default_factory=list)


@dataclass
class _Operands:
    """When MMAs read shared memory, in order of time, and with which share of it."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def mma_of(amount: int) -> tuple[float, float, bool]:
    """Of an MMA by its shape: its clocks, those in which its operands are read, whether a pair does it."""
    m, n = amount >> 16 & 0xFFFF, amount & 0xFFFF
    ws, a_in_tmem, pair = (bool(amount >> bit & 1) for bit in (32, 33, 34))
    return mma_clocks(m, n, ws, a_in_tmem, pair), mma_operand_clocks(m, n, a_in_tmem, pair), pair


class Units:
    """The units of every CTA. `later` calls back at a time, `contribute` tells a phase."""

    def __init__(
        self,
        figures: dict[str, float],
        alone: bool,
        use: Use,
        later: Callable[[float, Callable[[float], None]], None],
        contribute: Callable[[float, Phase, Origin], None],
        twins: dict[Cta, Cta],
        working_set: float = 0,
    ) -> None:
        self.f = figures
        self.alone = alone
        self.missing = 0.0  # the share of accesses that L2 does not hold
        if working_set and not alone:
            self.missing = max(0.0, 1 - figures["l2_bytes"] * 1e6 / working_set)
        self.use = use
        self.later = later
        self.contribute = contribute
        self.twins = twins
        self.free: dict[Hashable, float] = defaultdict(float)
        self.tensor_done: dict[Cta, float] = defaultdict(float)
        self.operands: dict[Cta, _Operands] = defaultdict(_Operands)
        self.copies_done: dict[Warp, float] = defaultdict(float)

    def serve(
        self, unit: tuple[Hashable, str], time: float, clocks: float, line: int, part: int = 0, parts: int = 1
    ) -> float:
        """When a unit completes `clocks` of work; a unit in `parts` uses a single part for it."""
        start = max(time, self.free[(unit, part)])
        self.free[(unit, part)] = start + clocks
        self.use.busy[unit] += clocks / parts  # type: ignore[assignment]
        self.use.spans.append((unit[1], unit[0], start, start + clocks, line))
        return start + clocks

    def ahead(self, cta: Cta, time: float) -> float:
        """When the SM may send another addition: no more than `addition_queue` bytes wait for L2."""
        if self.alone:
            return time
        queue = self.f["addition_queue"] / self.f["addition_rate_all"]
        waits = max(self.free[((cta, "L2 additions"), 0)], self.free[((cta, "L2"), 0)])
        return max(time, waits - queue)

    def _of_port(self, what: Touched) -> tuple[float, float]:
        """Additions as bytes of whole lines that take the port as long, and the bytes of a sector's time."""
        each = self.f["addition_line"]
        scale = SECTOR / (1 + each * SECTOR / LINE)
        return (what.sectors + each * what.lines) * scale, scale

    def port_clocks(self, what: Touched) -> float:
        """Clocks in which additions take the SM's port."""
        return self._of_port(what)[0] / self.f["addition_rate"]

    def add(self, cta: Cta, what: Touched, time: float, line: int) -> tuple[float, float]:
        """When the SM's port and when L2 are done with additions."""
        sent, scale = self._of_port(what)
        done = sent + self.f["addition_single"] * what.single * scale
        missed = 0.0
        if self.missing:
            missed = 2 * self.missing * (what.sectors + what.single) * SECTOR / self.f["memory_rate"]
        return self._l2(cta, "additions", sent, done, missed, time, line)

    def read(self, cta: Cta, bytes_: float, time: float, line: int) -> tuple[float, float]:
        """When the SM's port and when L2 are done with reads."""
        sent, done = self._l2(cta, "reads", bytes_, bytes_, 0.0, time, line)
        if self.missing:
            missed = self.missing * bytes_ / self.f["memory_rate"]
            done = max(done, self.serve((cta, "memory"), time, missed, line))
        return sent, done

    def _l2(
        self, cta: Cta, what: str, sent: float, done: float, missed: float, time: float, line: int
    ) -> tuple[float, float]:
        """Serves `sent` bytes at the port and `done` in L2, which is busy for `missed` clocks more."""
        own, every = (self.f[name] for name in _RATES[what])
        end = out = self.serve((cta, "port to L2"), time, sent / own, line)
        if not self.alone:
            kind = self.serve((cta, f"L2 {what}"), time, done / every + missed, line)
            shared = self.serve((cta, "L2"), time, done / every / self.f["l2_overlap"] + missed, line)
            end = max(out, kind, shared)
        return out, end

    def shared(self, cta: Cta, scheduler: int, passes: float, time: float, line: int) -> float:
        """When a warp's access has gone over the banks: a pass takes a clock of the memory and two of the
        warp's quarter of the SM."""
        through = self.through(cta, passes, time, line)
        quarter = (cta, "load and store", scheduler)
        self.free[quarter] = max(time, self.free[quarter]) + self.f["quarter_pass"] * passes
        return max(through, self.free[quarter])

    def through(self, cta: Cta, passes: float, time: float, line: int) -> float:
        """When shared memory has made so many passes, beside the MMAs' reads of their operands."""
        unit = (cta, "shared memory")
        start = max(time, self.free[(unit, 0)])
        clocks = passes * PASS_BYTES / self.f["shared_rate"]
        end = self._beside(self.operands[cta], start, clocks)
        self.free[(unit, 0)] = end
        self.use.busy[unit] += clocks  # type: ignore[assignment]
        self.use.spans.append((unit[1], cta, start, end, line))
        return end

    def _beside(self, operands: _Operands, time: float, clocks: float) -> float:
        at = bisect_right(operands.ends, time)
        least = self.f["shared_beside_mma"]
        while clocks > 0 and at < len(operands.begins):
            gap = max(0.0, operands.begins[at] - time)
            if clocks <= gap:
                break
            clocks -= gap
            time = max(time, operands.begins[at])
            rate = max(least, 1 - operands.shares[at])
            room = (operands.ends[at] - time) * rate
            if clocks <= room:
                return time + clocks / rate
            clocks -= room
            time = operands.ends[at]
            at += 1
        return time + clocks

    def start(self, op: TimedOperation, warp: Warp, time: float) -> None:
        """An operation is issued."""
        if op.does == "MMA":
            return self._mma(op, time)
        if op.does == "commit":
            done = max(time, self.tensor_done[op.cta]) + self.f["commit"]
            return self._finish(op, Origin(warp, time, "tensor core", time, done, op.line), done)
        if op.does in ("load", "exchange"):
            return self._copy(op, warp, time)
        if op.does == "copy":
            return self._read(op, warp, time, time, self.f["global_load"], "L2")
        if op.does in ("store", "addition"):
            return self._store(op, warp, time)
        if op.does == "remote store":
            return self._remote(op, warp, time)
        done = time + self.f["other"]
        return self._finish(op, Origin(warp, time, "other", time, done, op.line), done)

    def _finish(self, op: TimedOperation, origin: Origin, done: float) -> None:
        for phase in op.feeds:
            self.contribute(done, phase, origin)

    def _mma(self, op: TimedOperation, time: float) -> None:
        clocks, reads, pair = mma_of(op.amount)
        places = [op.cta]
        if pair and op.cta in self.twins:
            places.append(self.twins[op.cta])
        time = max([time + self.f["mma_issue"], *(self.free[((cta, "tensor core"), 0)] for cta in places)])
        for cta in places:
            done = self.serve((cta, "tensor core"), time, clocks, op.line)
            self.tensor_done[cta] = max(self.tensor_done[cta], done + self.f["mma_latency"])
            seen = self.operands[cta]
            seen.begins.append(done - clocks)
            seen.ends.append(done)
            seen.shares.append(reads / clocks)
            self.use.busy[(cta, "shared memory")] += reads  # type: ignore[assignment]

    def _copy(self, op: TimedOperation, warp: Warp, time: float) -> None:
        clocks = self.f["copy_issue"] + op.amount / self.f["copy_rate"]
        done = self.serve((op.cta, "copies"), time, clocks, op.line)
        if op.does == "exchange":
            sent = self.serve((op.cta, "remote stores"), done - clocks, self._remote_clocks(op), op.line)
            at = max(done, sent) + self.f["remote_store_latency"]
            origin = Origin(warp, time, "copies", done - clocks, at, op.line)
            return self.later(at, lambda now: self._land(op, origin, now, 0.0))
        latency = self.f["copy_latency"]
        return self.later(done - clocks, lambda now: self._read(op, warp, time, now, latency, "copies", done))

    def _read(
        self,
        op: TimedOperation,
        warp: Warp,
        issued: float,
        time: float,
        latency: float,
        unit: str,
        busy: float = 0,
    ) -> None:
        """Bytes pass L2, then the shared memory of each given CTA."""
        _, done = self.read(op.cta, op.amount, time, op.line)
        done = max(done, busy)
        origin = Origin(warp, issued, unit, time, done + latency, op.line)
        if op.does == "copy":
            self.copies_done[warp] = max(self.copies_done[warp], done + latency)
        self.later(done, lambda now: self._land(op, origin, now, latency))

    def _land(self, op: TimedOperation, origin: Origin, time: float, latency: float) -> None:
        done = max(self.through(cta, op.amount / PASS_BYTES, time, op.line) for cta in op.places)
        self._finish(op, origin, done + latency)

    def _store(self, op: TimedOperation, warp: Warp, time: float) -> None:
        """A bulk store or reduction: it has read its source before it has arrived."""
        clocks = op.amount / self.f["store_rate"]
        read = self.serve((op.cta, "bulk stores"), time, clocks, op.line)
        began = read - clocks
        read = max(read, self.through(op.cta, op.amount / PASS_BYTES, began, op.line))
        if op.does == "addition":
            _, read = self.add(op.cta, Touched.whole(op.amount), began, op.line)
        elif not self.alone:
            rate = self.f["store_rate_all"]
            read = max(read, self.serve((op.cta, "L2 stores"), began, op.amount / rate, op.line))
        read += self.f["store_read"]
        origin = Origin(warp, time, "bulk stores", began, read, op.line)
        for phase in op.reads:
            self.contribute(read, phase, origin)
        self._finish(op, origin, read + self.f["store_done"])

    def _remote_clocks(self, op: TimedOperation) -> float:
        scattered = 1 + (self.f["remote_store_scattered"] - 1) * op.scattered
        return op.amount * scattered / self.f["remote_store_rate"]

    def _remote(self, op: TimedOperation, warp: Warp, time: float) -> None:
        clocks = self._remote_clocks(op)
        done = self.serve((op.cta, "remote stores"), time, clocks, op.line)
        at = done + self.f["remote_store_latency"]
        origin = Origin(warp, time, "remote stores", done - clocks, at, op.line)
        self.later(at, lambda now: self._land(op, origin, now, 0.0))
