"""Options of a launch besides its shape and arguments: limits, checks, recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Required, TypedDict

from tileproof.emulator.arguments import Argument
from tileproof.emulator.causes import Allow
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer
from tileproof.emulator.misuse import instance, sequence, whole
from tileproof.emulator.request import check_limits, check_outputs
from tileproof.emulator.result import Tap
from tileproof.spec.machine.schedule import BaseOrder, Schedule

MAX_HOST_THREADS = 256
MAX_EVENTS = 1 << 28  # of a trace, 64 bytes each


class LaunchKeywords(TypedDict, total=False):
    """The fields of LaunchOptions as keywords of `Module.launch`."""

    mma: Literal["fast", "exact"]
    taps: Sequence[Tap]
    livelock_limit: int
    instruction_limit: int
    seconds_limit: float
    trace: bool
    trace_limit: int
    path: bool
    races: bool
    record: BaseOrder | None
    clc: Literal["refuse", "grant"]
    allow: Sequence[Allow | str]
    symbols: Mapping[int, str] | None
    strict: bool
    resident: int | None
    host_threads: int
    outputs: Sequence[Buffer]
    cooperative: bool
    clusters: Sequence[int] | None
    registers: Sequence[int]


class RunKeywords(LaunchKeywords, total=False):
    """Keywords of a launch of given shape and arguments."""

    schedule: Schedule | None


class GridKeywords(RunKeywords, total=False):
    """All keywords of `Module.launch` but the memory and the grids in flight."""

    grid: Required[Sequence[int]]
    block: Required[Sequence[int]]
    cluster: Sequence[int] | None
    shared_bytes: int
    args: Sequence[Argument]


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a launch.

    mma: "fast" computes tcgen05.mma as f32 products summed in f32; "exact" follows the published block
        arithmetic.
    taps: regions to capture when barrier phases complete.
    livelock_limit: number of warp instructions without effect after which the launch is a livelock.
    instruction_limit: number of warp instructions after which the launch stops with a finding.
    seconds_limit: seconds after which the launch stops with a finding; 0 for no limit. Ctrl-C ends a launch
        with KeyboardInterrupt and discards its findings.
    trace: records events (`RunResult.trace`), the first `trace_limit` of them.
    path: also traces branches, so that the instruction sequence of each warp can be reconstructed.
    races: checks that conflicting accesses are ordered by happens-before (`docs/races.md`).
    record: records `RunResult.decisions`, so that a replay with this base repeats the run; not with "early".
    clc: the response to clusterlaunchcontrol.try_cancel. "refuse": every request fails, which is legal.
        "grant": a request cancels a cluster that has not started, if any is left; that cluster does not run.
    allow: findings that the caller accepts, as `Allow` or "CODE[:PLACE]"; they go to `RunResult.allowed`.
    symbols: names by offset in dynamic shared memory, in addition to the PTX symbols, for reports.
    strict: follows the letter of the ISA, with the severities in brackets of docs/instructions.md.
    resident: the maximum number of resident clusters. Default: as many as have a processor for each CTA.
    host_threads: threads of the host that may run clusters, with the results of a single thread.
        `RunResult.host_threads` is how many ran: more if the schedule is "early", "late" or "late-newest", no
        races, trace or registers are asked for, and no cluster reads or overwrites what another writes.
    outputs: buffers from `Memory.empty` that the launch must write completely; unwritten bytes are a finding.
    cooperative: all clusters are resident from the start, whatever `resident` is, and the grid has the
        workspace of `cooperative_groups::this_grid().sync()` (%envreg1, %envreg2).
    clusters: the clusters of the grid that run, by number, x fastest. Default: all. The others never start,
        as if they had not been reached; what they would have done is not judged.
    registers: instructions of the entry, by number, whose 32-bit results are recorded at each execution
        (`RunResult.registers`); at most 1 GiB of them.
    """

    mma: Literal["fast", "exact"] = "fast"
    taps: Sequence[Tap] = ()
    livelock_limit: int = 20_000_000
    instruction_limit: int = 10_000_000_000
    seconds_limit: float = 0.0
    trace: bool = False
    trace_limit: int = 1_000_000
    path: bool = False
    races: bool = False
    record: BaseOrder | None = None
    clc: Literal["refuse", "grant"] = "refuse"
    allow: Sequence[Allow | str] = ()
    symbols: Mapping[int, str] | None = None
    strict: bool = False
    resident: int | None = None
    host_threads: int = 1
    outputs: Sequence[Buffer] = ()
    cooperative: bool = False
    clusters: Sequence[int] | None = None
    registers: Sequence[int] = ()

    def check(self, entry: str, schedule: Schedule) -> None:
        """Raise LaunchError unless these options are valid for a launch of `entry` under `schedule`."""
        check_limits(
            entry, self.seconds_limit,
            livelock_limit=self.livelock_limit, instruction_limit=self.instruction_limit,
            trace_limit=self.trace_limit, resident=1 if self.resident is None else self.resident,
        )  # fmt: skip
        for name in ("trace", "path", "races", "strict", "cooperative"):
            instance(getattr(self, name), bool, name, entry)
        sequence(self.taps, Tap, "taps", entry)
        sequence(self.registers, int, "registers", entry)
        whole(self.host_threads, "host_threads", minimum=1, maximum=MAX_HOST_THREADS, where=entry)
        if self.trace:
            whole(self.trace_limit, "trace_limit", maximum=MAX_EVENTS, where=entry)
        check_outputs(entry, sequence(self.outputs, Buffer, "outputs", entry))
        if not isinstance(schedule, Schedule):
            raise LaunchError("the schedule is not a Schedule", expected="a Schedule", found=repr(schedule))
        schedule.check()
        if self.record is not None and schedule.policy == "early":
            raise LaunchError(
                'an "early" launch has no decisions', where=entry[:80], expected="another policy",
                found="record", do="replay it by its policy name",
            )  # fmt: skip
        if instance(self.clc, str, "clc", entry) not in ("refuse", "grant"):
            raise LaunchError("unknown value of clc", expected="refuse or grant", found=repr(self.clc))
        if instance(self.mma, str, "mma", entry) not in ("fast", "exact"):
            raise LaunchError("unknown MMA mode", expected="fast or exact", found=repr(self.mma))
