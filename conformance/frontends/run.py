"""What ran inside one `emulate()` block: its launches, what was found, and how the block ends."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileproof.conformance.frontends import verdicts
from tileproof.conformance.frontends.host_launch import HostLaunch
from tileproof.conformance.frontends.host_memory import Addresses, LaunchMemory
from tileproof.conformance.frontends.launch_file import as_file, saved
from tileproof.conformance.judging import api
from tileproof.conformance.launches.model import LaunchFile
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator import Finding, LaunchResult, Memory, Schedule, Stream
from tileproof.emulator.causes import by_cause
from tileproof.emulator.errors import LaunchError


class KernelDefects(AssertionError):
    """An emulated block ended with findings of severity error; `findings` are they."""

    def __init__(self, text: str, findings: tuple[Finding, ...]) -> None:
        super().__init__(text)
        self.findings = findings


@dataclass(frozen=True)
class EmulatedLaunch:
    """One launch of a block: what was launched, under which schedule, and what came of it."""

    launch: HostLaunch
    schedule: Schedule
    result: LaunchResult
    how: Mapping[str, Any] = field(default_factory=dict, repr=False)  # what `Module.launch` was told beside

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
        """The launch as a launch file, its tensors as before it; LaunchError if they were not kept.

        `outputs`: the tensors that are judged, by their parameters; without it those that it wrote to.
        """
        return as_file(self.launch, outputs=outputs)

    def judge(
        self,
        expect: Callable[..., Any] | str | None = None,
        *,
        outputs: Sequence[str] | None = None,
        seconds: float = 60.0,
        **how: Any,
    ) -> VerdictRecord:
        """The verdict on this launch as `tileproof.judge` gives it: run again from what its tensors held,
        under other schedules, its outputs held against `expect`, a function from tensors and numbers by their
        parameters to the outputs. `how` goes on to `tileproof.judge`.

        LaunchError when the tensors were not kept.
        """
        given = {"races": self.how["races"], "strict": self.how["strict"], "mma": self.how["mma"]}
        given["allow"] = [str(one) for one in self.how["allow"]]
        return api.judge(self.file(outputs), expect, seconds=seconds, **{**given, **how})

    def __str__(self) -> str:
        """The launch in one line."""
        one = self.launch
        cluster = f", clusters of {one.cluster}" if one.cluster not in ((1, 1, 1), None) else ""
        return f"{one.kernel}{list(one.grid)}, {one.block[0] * one.block[1] * one.block[2]} threads{cluster}"


@dataclass
class EmulatedRun:
    """The launches of one block, in order; `notes` say what the block did otherwise than a GPU would."""

    schedule: Schedule
    how: Mapping[str, Any]
    keep: int
    launches: list[EmulatedLaunch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    open: bool = True
    addresses: Addresses = field(default_factory=Addresses, repr=False)
    _thread: int = field(default_factory=threading.get_ident, repr=False)
    _stream: Stream | None = field(default=None, repr=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What all launches found."""
        return tuple(finding for one in self.launches for finding in one.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are defects."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def last(self) -> EmulatedLaunch:
        """The newest launch; LaunchError when there was none."""
        if not self.launches:
            raise LaunchError("nothing was launched in the block", where="emulate()")
        return self.launches[-1]

    def note(self, text: str) -> None:
        """Keeps a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def check_usable(self, kernel: str) -> None:
        """LaunchError when a launch comes after the block, or from a thread that did not open it."""
        if not self.open:
            raise LaunchError(
                "a kernel that was compiled for the emulator is launched outside of its block",
                where=kernel,
                do="launch it inside `with emulate()`",
            )
        if threading.get_ident() != self._thread:
            raise LaunchError(
                "an emulated block belongs to the thread that opened it",
                where=kernel,
                expected="a launch from that thread",
                found=f"a launch from the thread {threading.current_thread().name}",
                do="launch from the thread of the block: what is active in it is the whole process's",
            )

    def run(self, launch: HostLaunch, memory: LaunchMemory) -> LaunchResult:
        """Runs a launch in place over the host's tensors, and keeps it; prints what the kernel prints."""
        kept = sum(one.launch.bytes_kept for one in self.launches)
        launch = launch.keeping(memory, self.keep - kept)
        if not launch.kept:
            self.note(
                f"{launch.kernel}: its inputs are not kept (keep={self.keep} bytes): it cannot be run again"
            )
        result = self._result(launch, memory.memory)
        self.launches.append(EmulatedLaunch(launch.done(result), self.schedule, result, self.how))
        if result.printf:
            sys.stdout.write(result.printf)
            sys.stdout.flush()
        return result

    def _result(self, launch: HostLaunch, memory: Memory) -> LaunchResult:
        """Grids that may overlap a later one, or the one before, are kept as a stream's."""
        how = {"schedule": self.schedule, **self.how}
        if not launch.programmatic and "griddepcontrol" not in launch.ptx:
            self._stream = None  # it starts after all before it have ended, and nothing starts before its end
            return launch.on(memory, **how)
        self._stream = self._stream or Stream(memory)
        self._stream.memory = memory
        return launch.on(memory, stream=self._stream, **how)

    def text(self, findings: tuple[Finding, ...]) -> str:
        """Findings by launch and cause, for a person."""
        wanted = set(map(id, findings))
        lines = []
        for number, one in enumerate(self.launches, 1):
            causes = by_cause(finding for finding in one.findings if id(finding) in wanted)
            if causes:
                lines.append(f"launch {number}, {one}, schedule {one.schedule}, {one.launch.compiler}:")
                text = "\n".join(map(str, causes))
                lines += [f"  {line}" for line in text.splitlines()]
                lines += [f"  {line}" for line in _cited(text, one.launch.sources)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def verdict(self) -> VerdictRecord:
        """The verdict on what ran, in the gate's contract (`jsonform.text` of `conformance/verdict` makes its
        JSON): "defect" or "incomplete", since one schedule was run, and no values were compared.
        """
        return verdicts.verdict(self.launches, self.schedule, bool(self.how["races"]), self.notes)

    def judge(
        self,
        expect: Mapping[str, Callable[..., Any] | str] | None = None,
        *,
        seconds: float = 60.0,
        **how: Any,
    ) -> tuple[VerdictRecord, ...]:
        """The verdict on each launch (`EmulatedLaunch.judge`), within `seconds` for all of them; `expect` has
        references by kernel. LaunchError for a kernel that was not launched.
        """
        kernels = [one.kernel for one in self.launches]
        if unknown := set(expect or {}) - set(kernels):
            raise LaunchError(
                "a reference is for a kernel that was not launched",
                where="judge(expect)", expected=", ".join(dict.fromkeys(kernels)) or "none",
                found=", ".join(sorted(unknown)),
            )  # fmt: skip
        each = seconds / max(len(kernels), 1)
        return tuple(one.judge((expect or {}).get(one.kernel), seconds=each, **how) for one in self.launches)

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Writes each launch as a launch file, with its tensors as they were before it, to a folder of its
        own below `folder`; the paths. LaunchError when its tensors were not kept, or it cannot be written.
        """
        return tuple(
            saved(one.launch, Path(folder) / f"{number}-{one.kernel}")
            for number, one in enumerate(self.launches, 1)
        )

    def raise_errors(self) -> None:
        """KernelDefects when a launch found an error."""
        if self.errors:
            where = len(
                {id(one) for one in self.launches if any(f.severity == "error" for f in one.findings)}
            )
            found = len(by_cause(self.errors))
            raise KernelDefects(
                f"{found} defect{'s' * (found != 1)} in {where} of {len(self.launches)} "
                f"launch{'es' * (len(self.launches) != 1)}\n{self.text(self.errors)}",
                self.errors,
            )


def _cited(text: str, sources: Mapping[str, str]) -> Iterator[str]:
    """The lines of generated sources that a text names, each with what stands there."""
    for name, source in sources.items():
        lines = source.splitlines()
        for number in sorted({int(n) for n in re.findall(rf"\b{re.escape(name)}:(\d+)", text)}):
            if 0 < number <= len(lines):
                yield f"{name}:{number} is: {lines[number - 1].strip()}"
