"""One run of a launch under a schedule: its findings, and outputs that are not those of the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tileproof.emulator.causes import key
from tileproof.emulator.result import Finding, LaunchResult
from tileproof.emulator.schedule import Schedule

Outputs = Mapping[str, npt.NDArray[Any]]
# (name, first run's array, another run's array) -> bool array of the elements that differ too much.
Compare = Callable[[str, npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[np.bool_]]
OUTPUT = "schedule-dependent-output"
ALLOWED = "allowed"  # the severity of a finding that the caller accepts


class Launch(Protocol):
    """One launch on fresh buffers: passes `schedule`, `record` and what else comes on to `Module.launch`."""

    def __call__(self, **how: Any) -> tuple[LaunchResult, Outputs]:
        """The result, and the arrays that must not depend on the schedule."""


@dataclass(frozen=True, order=True)
class Signature:
    """What makes two findings of two schedules one defect: the code and the place.

    The place is the source line of the instruction, its PTX line where there is none; of a race those of
    both accesses; of a hang its root; of an output its name.
    """

    code: str
    place: str

    @classmethod
    def of(cls, finding: Finding) -> Signature:
        """The signature of a finding."""
        root = finding.root
        if root is not None:
            node = root.node
            line = node.source or (f"PTX line {node.ptx_line}" if node.ptx_line else "")
            where = f"{node.offset:#x}" if node.offset is not None else line
            return cls(finding.code, f"{root.kind} {node.kind} {where}".strip())
        places = {finding.source or f"PTX line {finding.ptx_line}"}
        if finding.race is not None:  # either access may be the later one
            places.add(finding.race.source or f"PTX line {finding.race.ptx_line}")
        return cls(finding.code, " and ".join(sorted(places)))

    def __str__(self) -> str:
        return f"{self.code} at {self.place}" if self.place else self.code


@dataclass(frozen=True)
class Seen:
    """One finding of one run, in words; `cause` groups findings (`causes.key`). `instruction` and `ptx_line`
    are its place, "" and 0 of an output.
    """

    signature: Signature
    severity: str
    text: str
    cause: tuple[str, ...] = ()
    instruction: str = ""
    ptx_line: int = 0


@dataclass(frozen=True)
class Outcome:
    """One run: its schedule, what it found, how many scheduling points it had, and what it executed
    (`coverage`).
    """

    schedule: Schedule
    seen: tuple[Seen, ...]
    points: int = 0
    executed: bytes = field(default=b"", repr=False)


def differing_bits(name: str, one: npt.NDArray[Any], two: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Elements whose bytes differ."""
    del name
    size = one.dtype.itemsize
    a, b = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (one, two))
    return (a != b).any(axis=1).reshape(one.shape)


@dataclass(frozen=True)
class Judge:
    """Runs one schedule and names what is wrong with it; every run must repeat the outputs `first`."""

    launch: Launch
    first: Outputs = field(default_factory=dict)
    compare: Compare = differing_bits
    names: Callable[[Finding], str] = str

    def run(self, schedule: Schedule, **how: Any) -> tuple[Outcome, LaunchResult]:
        """One run; `how` goes to the launch."""
        result, outputs = self.launch(schedule=schedule, **how)
        seen = [self._seen(f, f.severity) for f in result.findings]
        seen += [self._seen(f, ALLOWED) for f in result.allowed]
        if not result.errors:
            seen += self._outputs(outputs)
        unique = {one.signature: one for one in reversed(seen)}
        points = result.counters.schedule_points
        return Outcome(schedule, tuple(unique.values()), points, result.executed), result

    def _seen(self, one: Finding, severity: str) -> Seen:
        return Seen(Signature.of(one), severity, self.names(one), key(one), one.instruction, one.ptx_line)

    def _outputs(self, outputs: Outputs) -> Iterable[Seen]:
        for name, one in self.first.items():
            differ = self.compare(name, one, outputs[name])
            if differ.any():
                at = tuple(int(i) for i in np.argwhere(differ)[0])
                text = (
                    f"error {OUTPUT}: {int(differ.sum())} of {differ.size} elements of {name} are not those "
                    f"of the first schedule: at {list(at)} {outputs[name][at]} stands for {one[at]}"
                )
                yield Seen(Signature(OUTPUT, name), "error", text, ("error", OUTPUT, name))
