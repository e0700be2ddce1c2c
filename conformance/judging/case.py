"""A case: launches, expectations and observation points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.log import RunLog, SeenCause
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    JudgedProgram,
    OrderOnly,
    ProgramCoverage,
)
from tileproof.emulator import Schedule
from tileproof.emulator.inspect import EntryInfo
from tileproof.emulator.program import Decoded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import JsonValue

Progress = Callable[[str], None]


class Case(ABC):
    """What `judging.judge_case` judges. Two kinds differ in what is expected: stages of a problem with their
    bounds (`check.stage_case`), or a reference function or nothing (`launch_case`).

    `errors`: what contradicts the case before it runs. `order`: the checks in the order of their findings; ()
    for the order in which the runs showed them.
    """

    errors: list[TileproofError]
    order: tuple[str, ...] = ()

    @property
    def compiles(self) -> bool:
        """Whether preparing it includes compiling, which no time limit covers."""
        return False

    @property
    @abstractmethod
    def races(self) -> bool:
        """Whether the order of accesses is checked."""

    @property
    @abstractmethod
    def program(self) -> JudgedProgram:
        """The identity of what is judged."""

    @abstractmethod
    def prepare(self) -> None:
        """Load what runs need, and fill `errors`."""

    @abstractmethod
    def entries(self) -> Sequence[EntryInfo]:
        """The kernels that are launched."""

    @abstractmethod
    def decoded(self, module: str, entry: str) -> Decoded:
        """A launched kernel's instructions."""

    @abstractmethod
    def run(self, schedule: Schedule, seconds: float, first: bool) -> JudgedRun:
        """Run it once, in at most `seconds` where that can be limited; `first`: later runs must repeat its
        outputs, and its result is kept.
        """

    @abstractmethod
    def checks(self, log: RunLog, findings: Sequence[Finding]) -> Iterable[CheckOutcome]:
        """The checks of the verdict, in their order."""

    @abstractmethod
    def sections(self, log: RunLog) -> Mapping[str, JsonValue]:
        """The verdict's fields about the case itself."""

    def expect(self, deadline: float, progress: Progress) -> bool:
        """Evaluate what is expected; False where that is not possible."""
        del deadline, progress
        return True

    def first_schedules(self, seed: int) -> list[Schedule]:
        """The schedules that run first."""
        return [Schedule("early"), Schedule("late"), Schedule("random", seed)]

    def certified(self, log: RunLog) -> bool:
        """Whether each run covers all schedules, bit for bit (docs/certificate.md)."""
        return bool(log.runs) and all(
            run.certificate is not None and bool(run.certificate) and not run.certificate.sums
            for run in log.runs
        )

    def anew(self, schedule: Schedule, seconds: float) -> JudgedRun | None:
        """A run with other inputs, and what is wrong with it; None where the case has no other inputs."""
        del schedule, seconds
        return None

    def repeat(self, first: JudgedRun) -> None:
        """Take the outputs of the first run as the outputs that later runs must repeat."""
        del first

    def explain(self, log: RunLog, seconds: float, progress: Progress) -> None:
        """Add causes of wrong values that no run knew."""
        del log, seconds, progress

    def shrinks(self, seen: SeenCause) -> bool:
        """Whether `smaller` can look for a small schedule that shows a cause."""
        del seen
        return False

    def smaller(self, seen: SeenCause, seconds: float) -> tuple[Schedule, tuple[str, ...]] | None:
        """A small schedule that shows a cause, and what it does; None where none was found in that time."""
        del seen, seconds
        return None

    @property
    def refused(self) -> list[str]:
        """Forms that the emulator does not execute, a line each."""
        lines = []
        for entry in self.entries():
            lines += [
                f"{form.form} ({form.count}, PTX line {form.lines[0]}): {form.why}"
                for form in entry.not_executed
            ]
            lines += [problem.splitlines()[0] for problem in entry.problems]
        return lines

    def covered(self, log: RunLog) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
        """What all runs executed together of all kernels that ran, and forms that run only as order."""
        return programs.total_coverage(
            (self.decoded(module, entry), executed) for (module, entry), executed in log.executed.items()
        )
