"""One case as `explore`, `trace` and `time` run it: drawn for a kernel by its plan, or a launch file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Unpack

import numpy as np
import numpy.typing as npt
from tileproof.emulator import RunResult, Schedule
from tileproof.emulator.hang import Names
from tileproof.emulator.options import RunKeywords
from tileproof.emulator.schedule_run import Outputs
from tileproof.emulator.trace import Trace, TraceNames
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import Array

EARLY = Schedule("early")


@dataclass(frozen=True)
class TracedLaunch:
    """One launch of a case with its trace; `errors` are its findings of that severity."""

    title: str
    trace: Trace = field(repr=False)
    names: TraceNames = field(repr=False)
    errors: tuple[Finding, ...]


class ExploredCase(Protocol):
    """A case: called with a schedule it runs once, on fresh buffers, as `tileproof.emulator.explore` asks."""

    @property
    def title(self) -> str:
        """Its name in reports."""

    @property
    def text(self) -> str:
        """The drawn problem as JSON, or the launch file's name."""

    @property
    def not_judged(self) -> tuple[str, ...]:
        """What is not judged, each with the reason."""

    @property
    def schedule(self) -> Schedule:
        """The schedule whose values are judged where none is asked for."""

    @property
    def names(self) -> Names | None:
        """The plan's names of warps, barriers and phases; None: the names in the PTX."""

    def __call__(self, **how: Unpack[RunKeywords]) -> tuple[RunResult, Outputs]:
        """The result of one run, and the outputs, which must not depend on the schedule."""

    def compare(self, name: str, first: Array, second: Array) -> npt.NDArray[np.bool_]:
        """The elements of an output that differ between two schedules by more than its bound allows."""

    def wrong(self, schedule: Schedule) -> list[Finding]:
        """The wrong values of one run under a schedule."""

    def traced(
        self, schedule: Schedule, limit: int, seconds_limit: float, races: bool
    ) -> Sequence[TracedLaunch]:
        """Each launch with its first `limit` events."""
