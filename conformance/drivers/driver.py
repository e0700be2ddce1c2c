"""The interface of a driver: executes a launch description and declares what it can observe."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, Products

Capability = Literal["capture", "schedules", "races", "findings", "written", "clusters"]
Capabilities = frozenset[Capability]
ALL: Capabilities = frozenset(get_args(Capability))

# What is left out of a judgement when a driver lacks the capability, as reports name it.
NOT_JUDGED: dict[Capability, str] = {
    "capture": "tiles inside the production build: only outputs and the probe build were observed",
    "schedules": "orders of the asynchronous operations other than that of the run",
    "races": "races: whether conflicting accesses are ordered",
    "findings": "findings of the machine: reads of unwritten memory, causes of hangs",
    "written": "whether exactly the elements of an output were written",
    "clusters": "groups far apart in large tensors: every cluster of a grid runs",
}


class Driver(Protocol):
    """Executes launches. `capture`: tiles as barriers publish them; `schedules`: the caller chooses when
    asynchronous operations complete; `races`: the order of all accesses is checked; `findings`: the machine
    checks what is executed; `written`: which elements of an output were written; `clusters`: a launch of
    chosen clusters of its grid.
    """

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def products(self) -> Products | None:
        """The arithmetic of its tensor cores; None where it is not known bit for bit."""
        ...

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        """One launch; `taps` requests captures and race checking if the driver supports them."""
        ...


def not_judged(capabilities: Capabilities) -> tuple[str, ...]:
    """What a judgement on such a driver leaves out, in words."""
    return tuple(text for name, text in NOT_JUDGED.items() if name not in capabilities)
