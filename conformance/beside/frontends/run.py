"""The run of an `emulate()` block: its launches and findings, and the end of the block."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from tileproof.conformance.api import calls as api
from tileproof.conformance.api.calls import JudgeKeywords
from tileproof.conformance.beside.frontends import verdicts
from tileproof.conformance.beside.frontends.host_launch import HostLaunch
from tileproof.conformance.beside.frontends.host_memory import Addresses, LaunchMemory
from tileproof.conformance.beside.frontends.launch_file import as_file, saved
from tileproof.conformance.judging.judging import SECONDS
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator import Finding, Memory, RunResult, Schedule, Stream
from tileproof.emulator.causes import by_cause
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import LaunchKeywords, RunKeywords
from tileproof.kernels.launch.model import LaunchFile


class KernelDefects(AssertionError):
    """An emulated block ended with `findings` of severity error."""

    def __init__(self, text: str, findings: tuple[Finding, ...]) -> None:
        super().__init__(text)
        self.findings = findings


@dataclass(frozen=True)
class EmulatedLaunch:
    """A launch of a block, its schedule, its result, and further arguments of `Module.launch`."""

    launch: HostLaunch
    schedule: Schedule
    result: RunResult
    how: LaunchKeywords = field(default_factory=LaunchKeywords, repr=False)

    @property
    def kernel(self) -> str:
        """The name of the Python function."""
        return self.launch.kernel

    @property
    def ptx(self) -> str:
        return self.launch.ptx

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.result.findings

    def file(self, outputs: Sequence[str] | None = None) -> LaunchFile:
        """Return the launch as a launch file with the initial contents of its tensors.

        `outputs`: the tensors to judge, by their parameters; by default the tensors that the launch wrote to.
        LaunchError if the contents were not kept.
        """
        return as_file(self.launch, outputs=outputs)

    def judge(
        self,
        expect: Callable[..., object] | str | None = None,
        *,
        outputs: Sequence[str] | None = None,
        **how: Unpack[JudgeKeywords],
    ) -> VerdictRecord:
        """Judge this launch with `tileproof.judge`: run it again from its initial tensors under other
        schedules, and compare its outputs with `expect`, a function from tensors and numbers (by parameter
        name) to the outputs. `how` is passed to `tileproof.judge`.

        LaunchError if the contents of the tensors were not kept.
        """
        given: JudgeKeywords = {
            "races": self.how["races"], "strict": self.how["strict"], "mma": self.how["mma"],
            "allow": [str(allowed) for allowed in self.how["allow"]],
        }  # fmt: skip
        whole: JudgeKeywords = {**given, **how}
        return api.judge(self.file(outputs), expect, **whole)

    def __str__(self) -> str:
        """The launch in one line."""
        launch = self.launch
        cluster = f", clusters of {launch.cluster}" if launch.cluster not in ((1, 1, 1), None) else ""
        return f"{launch.kernel}{list(launch.grid)}, {math.prod(launch.block)} threads{cluster}"


@dataclass
class EmulatedRun:
    """The launches of a block in order; `notes`: where the block differs from a run on a GPU."""

    schedule: Schedule
    how: LaunchKeywords
    keep: int
    hopper: bool = False  # kernels are compiled for sm_90a
    launches: list[EmulatedLaunch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    open: bool = True
    addresses: Addresses = field(default_factory=Addresses, repr=False)
    _thread: int = field(default_factory=threading.get_ident, repr=False)
    _stream: Stream | None = field(default=None, repr=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all launches."""
        return tuple(finding for launch in self.launches for finding in launch.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are defects."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def last(self) -> EmulatedLaunch:
        """The last launch; LaunchError if there is none."""
        if not self.launches:
            raise LaunchError("nothing was launched in the block", where="emulate()")
        return self.launches[-1]

    def note(self, text: str) -> None:
        """Add a note unless it is there."""
        if text not in self.notes:
            self.notes.append(text)

    def check_usable(self, kernel: str) -> None:
        """Raise LaunchError for a launch after the block's end or from another thread."""
        if not self.open:
            raise LaunchError(
                "a kernel compiled for the emulator is launched outside its block",
                where=kernel,
                do="launch it inside `with emulate()`",
            )
        if threading.get_ident() != self._thread:
            raise LaunchError(
                "an emulated block can be used only by the thread that opened it",
                where=kernel,
                expected="a launch from that thread",
                found=f"a launch from the thread {threading.current_thread().name}",
                do="launch from the block's thread: the block patches the whole process",
            )

    def run(self, launch: HostLaunch, memory: LaunchMemory) -> RunResult:
        """Run a launch in place on the host's tensors and keep it; print the kernel's output."""
        with memory.pointers():
            result = self._run_and_keep(launch, memory)
        if result.printf:
            sys.stdout.write(result.printf)
            sys.stdout.flush()
        return result

    def _run_and_keep(self, launch: HostLaunch, memory: LaunchMemory) -> RunResult:
        """Run a launch and keep it, with its inputs if they are within the limit."""
        held = sum(launch.launch.bytes_kept for launch in self.launches)
        launch = launch.keeping(memory, self.keep - held)
        if not launch.kept:
            self.note(
                f"{launch.kernel}: its inputs are not kept (keep={self.keep} bytes), so the launch cannot "
                f"run again"
            )
        result = self._result(launch, memory.memory)
        self.launches.append(EmulatedLaunch(launch.done(result), self.schedule, result, self.how))
        return result

    def _result(self, launch: HostLaunch, memory: Memory) -> RunResult:
        """Keep grids that may overlap their neighbours as a stream."""
        how: RunKeywords = {"schedule": self.schedule, **self.how}
        if not launch.programmatic and "griddepcontrol" not in launch.ptx:
            self._stream = None  # it starts after all earlier grids, and later grids start after its end
            return launch.on(memory, **how)
        self._stream = self._stream or Stream(memory)
        self._stream.memory = memory
        return launch.on(memory, stream=self._stream, **how)

    def text(self, findings: tuple[Finding, ...]) -> str:
        """The findings by launch and cause, as text."""
        wanted = set(map(id, findings))
        lines = []
        for number, launch in enumerate(self.launches, 1):
            causes = by_cause(finding for finding in launch.findings if id(finding) in wanted)
            if causes:
                lines.append(
                    f"launch {number}, {launch}, schedule {launch.schedule}, {launch.launch.compiler}:"
                )
                text = "\n".join(map(str, causes))
                lines += [f"  {line}" for line in text.splitlines()]
                lines += [f"  {line}" for line in _cited(text, launch.launch.sources)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def verdict(self) -> VerdictRecord:
        """The verdict on the block, in the gate's contract (`jsonform.text` in `conformance/verdict` is its
        JSON): "defect" or "incomplete", because a single schedule ran and no values were compared.
        """
        return verdicts.verdict(self.launches, self.schedule, bool(self.how["races"]), self.notes)

    def judge(
        self,
        expect: Mapping[str, Callable[..., object] | str] | None = None,
        **how: Unpack[JudgeKeywords],
    ) -> tuple[VerdictRecord, ...]:
        """Judge each launch (`EmulatedLaunch.judge`), within `seconds` in total (default: 60); `expect` maps
        kernels to references. LaunchError for a kernel that was not launched.
        """
        kernels = [launch.kernel for launch in self.launches]
        if unknown := set(expect or {}) - set(kernels):
            raise LaunchError(
                "a reference names a kernel that was not launched",
                where="judge(expect)", expected=", ".join(dict.fromkeys(kernels)) or "none",
                found=", ".join(sorted(unknown)),
            )  # fmt: skip
        each = how.get("seconds", SECONDS) / max(len(kernels), 1)
        whole: JudgeKeywords = {**how, "seconds": each}
        return tuple(launch.judge((expect or {}).get(launch.kernel), **whole) for launch in self.launches)

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write each launch as a launch file, with its initial tensors, to its own folder below `folder`.

        Return the paths. LaunchError if contents were not kept or a file cannot be written.
        """
        return tuple(
            saved(launch.launch, Path(folder) / f"{number}-{launch.kernel}")
            for number, launch in enumerate(self.launches, 1)
        )

    def raise_errors(self) -> None:
        """Raise KernelDefects if a launch has a finding of severity error."""
        if self.errors:
            where = len(
                {
                    id(launch)
                    for launch in self.launches
                    if any(f.severity == "error" for f in launch.findings)
                }
            )
            found = len(by_cause(self.errors))
            raise KernelDefects(
                f"{found} defect{'s' * (found != 1)} in {where} of {len(self.launches)} "
                f"launch{'es' * (len(self.launches) != 1)}\n{self.text(self.errors)}",
                self.errors,
            )


def _cited(text: str, sources: Mapping[str, str]) -> Iterator[str]:
    """The lines of generated sources that a text refers to, quoted."""
    for name, source in sources.items():
        lines = source.splitlines()
        for number in sorted({int(n) for n in re.findall(rf"\b{re.escape(name)}:(\d+)", text)}):
            if 0 < number <= len(lines):
                yield f"{name}:{number} is: {lines[number - 1].strip()}"
