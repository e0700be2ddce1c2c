"""From a launch to clocks: runs it on the emulator, assembles its PTX and simulates both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tileproof.conformance.beside.timing.path import Warp, paths
from tileproof.conformance.beside.timing.sass import Sass, assemble
from tileproof.conformance.beside.timing.simulate import Model, Timed
from tileproof.conformance.beside.timing.simulated import simulated
from tileproof.conformance.beside.timing.streams import MachineCode, Passage, match, ptx_starts, stream
from tileproof.conformance.beside.timing.tables import RunTables
from tileproof.conformance.beside.timing.work import Work, work_of
from tileproof.conformance.drivers.emulator import launch_on
from tileproof.conformance.launches.modules import load
from tileproof.emulator import Module, Schedule
from tileproof.emulator.reach import ProgramView
from tileproof.emulator.result import RunResult
from tileproof.emulator.trace import Trace
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import Case, Timing

EVENTS = 20_000_000


@dataclass(frozen=True)
class Played:
    """A run ready for the model: code, each warp's stream, the work, and how lines are called."""

    code: MachineCode
    streams: dict[Warp, list[Passage]]
    work: Work
    view: ProgramView
    result: RunResult

    def source(self, line: int) -> str:
        """The source of a PTX line; the line itself if it has none."""
        at = self._pc.get(line)
        return (self.view.source(at) if at is not None else "") or f"PTX line {line}"

    @cached_property
    def _pc(self) -> dict[int, int]:
        return {self.view.line(pc): pc for pc in range(len(self.view.handler) - 1, -1, -1)}

    @cached_property
    def _tables(self) -> RunTables:
        return RunTables(self.code, self.streams, self.work)

    def clocks(
        self, timing: Timing, case: Case, alone: bool, order: int | None = None, working_set: float = 0
    ) -> Timed:
        """One case of the model, with so many bytes of global memory in use; TileproofError when a warp's
        wait is never over, or work was not found."""
        timed = simulated(self._tables, timing, case, alone, order, working_set)
        if timed.remaining:
            line, count = timed.remaining.most_common(1)[0]
            raise TileproofError(
                "the model did not find the machine code of every synchronising instruction",
                where=f"PTX line {line} ({self.source(line)})", expected="an execution for each instruction",
                found=f"{count} missing", do="report it with the kernel's PTX",
            )  # fmt: skip
        return timed


def play(launch: LaunchFile, arch: str) -> Played:
    """Runs a launch once, completions as early as they may, and reads ptxas's code for `arch`.

    TileproofError when the launch has a finding of severity error, or an instruction has no figure.
    """
    result, _ = launch_on(
        launch, schedule=Schedule(policy="early"), trace=True, path=True, trace_limit=EVENTS
    )
    require_right(result)
    assert result.trace is not None
    module = load(launch)[launch.module_of(launch.main).name]
    return played(module.module, module.ptx, launch.main.entry, arch, result, result.trace)


def require_right(result: RunResult) -> None:
    """TileproofError for a launch that has an error."""
    for finding in result.errors:
        raise TileproofError(
            "the kernel is wrong, so its time is meaningless", where=finding.code, found=finding.message,
            do="fix it first (`tileproof check`, `tileproof judge`, `tileproof trace`)",
        )  # fmt: skip


def played(module: Module, ptx: str, entry: str, arch: str, result: RunResult, trace: Trace) -> Played:
    """The same of a run that was made elsewhere, with `trace=True, path=True`."""
    decoded = module.decode(entry)
    view = ProgramView(decoded)
    targets = decoded.code["target"].tolist()
    lines = decoded.code["line"].tolist()
    starts = ptx_starts(view.handler, targets)
    code = match(assemble(ptx, arch, entry), starts, lines, targets)
    require_figures(code.sass)
    walked = paths(trace, targets, len(lines))
    return Played(
        code,
        {warp: stream(code, runs, starts, lines) for warp, runs in walked.items()},
        work_of(trace),
        view,
        result,
    )


def require_figures(sass: list[Sass]) -> None:
    """TileproofError names instructions of variable latency without a figure in `spec/machine/timing.py`, and
    MMAs of warps (mma.sync, wgmma): how long they keep the tensor core is not in the model."""
    unknown = sorted(
        {
            instruction.root
            for instruction in sass
            if instruction.writes < 6 and instruction.root not in Model.KNOWN
        }
        | {
            instruction.root
            for instruction in sass
            if instruction.root.endswith("MMA") and not instruction.root.startswith("UTC")
        }
    )
    if unknown:
        raise TileproofError(
            "the model has no latency for some instructions", found=", ".join(unknown),
            expected="instructions whose latency spec/machine/timing.py states",
            do="measure them (benchmarks/silicon) and add their figures",
        )  # fmt: skip
