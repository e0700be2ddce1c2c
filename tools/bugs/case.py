"""A case of the benchmark: a wrong and a right form of a program, and what a finding must name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileproof.conformance.drivers import emulator as driver
from tileproof.conformance.planted.synchronisation.run import LIVELOCK, SCHEDULES
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule


@dataclass(frozen=True)
class Detection:
    """What Tileproof reports of a wrong form: the first error or warning, or wrong values.

    `code` is empty where nothing is found. `differs`: what of place and cause is not as the case states.
    """

    code: str = ""
    where: str = ""
    text: str = ""
    differs: str = "nothing is found"
    schedule: str = ""

    @property
    def named(self) -> bool:
        """Whether the finding names the place and the cause that the case states."""
        return bool(self.code) and not self.differs


@dataclass(frozen=True)
class BugCase(ABC):
    """A bug of the corpus as two launches.

    `rows`: ids of the corpus; none where no public thread is the source. `wrong`: what is wrong with the
    wrong form. `base`: the kernel or program that both forms are made of. `form`: what its text is.
    """

    id: str
    rows: tuple[str, ...]
    wrong: str
    base: str
    form: str

    @abstractmethod
    def launch(self, wrong: bool) -> LaunchFile:
        """The launch of a form, on the case's input."""

    @abstractmethod
    def detected(self) -> Detection:
        """The wrong form as Tileproof judges it."""

    @abstractmethod
    def alarms(self, schedules: Sequence[Schedule] = SCHEDULES) -> list[str]:
        """Errors and warnings of the right form, and differences of its values, under each schedule."""

    @property
    def skip(self) -> str:
        """Why the case cannot run here; empty: it can."""
        return ""

    @property
    def right_key(self) -> object:
        """Cases with the same key have the same right form."""
        return self.id


def run_launch(launch: LaunchFile, schedule: Schedule, races: bool) -> RunResult:
    """A launch under a schedule: findings in the emulator's own names, outputs."""
    result, buffers = driver.launch_on(launch, schedule=schedule, livelock_limit=LIVELOCK, races=races)
    return replace(result, outputs=driver.outputs_of(launch, buffers))


def severe(findings: Sequence[Finding]) -> list[Finding]:
    """Errors, or warnings where there is no error."""
    errors = [finding for finding in findings if finding.severity == "error"]
    return errors or [finding for finding in findings if finding.severity == "warning"]


def place_of(finding: Finding) -> str:
    """Stage and tile, source line, or line of the PTX."""
    machine = finding.machine
    if finding.problem is not None and finding.problem.stage:
        return f"stage {finding.problem.stage}"
    if machine.source:
        return machine.source.rpartition("/")[2]
    return f"PTX line {machine.ptx_line}" if machine.ptx_line else ""
