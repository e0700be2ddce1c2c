"""One run of a launch under a schedule: its findings, and outputs that differ from the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Unpack

import numpy as np
import numpy.typing as npt
from tileproof.emulator.options import LaunchKeywords, RunKeywords
from tileproof.emulator.result import RunResult
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.finding_causes import key
from tileproof.spec.machine.finding_text import source_or_line
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array

Outputs = Mapping[str, Array]
# (name, array of the first run, array of another run) -> bool array, True for elements that differ too much.
Compare = Callable[[str, Array, Array], npt.NDArray[np.bool_]]
OUTPUT = "schedule-dependent-output"
ALLOWED = "allowed"  # the severity of a finding that the caller accepts


class Launch(Protocol):
    """A launch on new buffers. Passes `schedule`, `record` and all other keywords to `Module.launch`."""

    def __call__(self, **how: Unpack[RunKeywords]) -> tuple[RunResult, Outputs]:
        """Return the result, and the arrays that must not depend on the schedule, by name."""


@dataclass(frozen=True, order=True)
class Signature:
    """Identifies a finding across schedules: findings with equal code and place are the same.

    `place`: the source line of the instruction, or its PTX line without source information. For a race, the
    lines of both accesses; for a hang, its root; for an output, its name.
    """

    code: str
    place: str

    @classmethod
    def of(cls, finding: Finding) -> Signature:
        """Return the signature of a finding."""
        at, root = finding.machine, finding.machine.root
        if root is not None:
            node = root.node
            line = source_or_line(node.source, node.ptx_line)
            where = f"{node.offset:#x}" if node.offset is not None else line
            return cls(finding.code, f"{root.kind} {node.kind} {where}".strip())
        places = {at.source or f"PTX line {at.ptx_line}"}
        if at.race is not None:  # the two accesses may occur in either order
            places.add(at.race.source or f"PTX line {at.race.ptx_line}")
        return cls(finding.code, " and ".join(sorted(places)))

    def __str__(self) -> str:
        return f"{self.code} at {self.place}" if self.place else self.code


@dataclass(frozen=True)
class Seen:
    """A finding of a run. `severity` is `ALLOWED` if the caller accepts it; `cause` groups findings
    (`finding_causes.key`).
    """

    signature: Signature
    severity: str
    finding: Finding
    cause: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its schedule, findings, number of scheduling points, and executed instructions
    (`coverage`).
    """

    schedule: Schedule
    seen: tuple[Seen, ...]
    points: int = 0
    executed: bytes = field(default=b"", repr=False)


def differing_bits(name: str, first: Array, second: Array) -> npt.NDArray[np.bool_]:
    """Return the elements whose bytes differ: bool, in the shape of the arrays."""
    del name
    size = first.dtype.itemsize
    a, b = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (first, second))
    return (a != b).any(axis=1).reshape(first.shape)


@dataclass(frozen=True)
class ScheduleRunner:
    """Runs a launch under a schedule and reports findings; outputs that differ from `first` are findings."""

    launch: Launch
    first: Outputs = field(default_factory=dict)
    compare: Compare = differing_bits

    def run(self, schedule: Schedule, **how: Unpack[LaunchKeywords]) -> tuple[Outcome, RunResult]:
        """Run the launch once; `how` are keywords of the launch."""
        result, outputs = self.launch(schedule=schedule, **how)
        seen = [self._seen(f, f.severity) for f in result.findings]
        seen += [self._seen(f, ALLOWED) for f in result.allowed]
        if not result.errors:
            seen += self._outputs(outputs)
        unique = {finding.signature: finding for finding in reversed(seen)}
        points = result.counters.schedule_points
        return Outcome(schedule, tuple(unique.values()), points, result.executed), result

    def _seen(self, finding: Finding, severity: str) -> Seen:
        return Seen(Signature.of(finding), severity, finding, key(finding))

    def _outputs(self, outputs: Outputs) -> Iterable[Seen]:
        for name, first in self.first.items():
            differ = self.compare(name, first, outputs[name])
            if differ.any():
                at = tuple(int(i) for i in np.argwhere(differ)[0])
                message = (
                    f"{int(differ.sum())} of {differ.size} elements of {name} differ from the first "
                    f"schedule: at {list(at)} found {outputs[name][at]}, expected {first[at]}"
                )
                made = Finding(
                    OUTPUT,
                    message,
                    problem=ProblemPlace(array=name, index=at),
                    expected=float(first[at]),
                    found=float(outputs[name][at]),
                    wrong=int(differ.sum()),
                    elements=int(differ.size),
                )
                yield Seen(Signature(OUTPUT, name), "error", made, ("error", OUTPUT, name))
