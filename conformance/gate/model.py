"""The model of the gate: checks by name, the kernel variant that they judge, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.under_test import on_emulator, on_own_driver
from tileproof.conformance.verdict.contract import Outcome, PlantedControl
from tileproof.kernels.called import HOST
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.plan import KernelPlan

Profile = Literal["quick", "full", "nightly"]
PROFILES: tuple[Profile, ...] = get_args(Profile)


@dataclass(frozen=True)
class Effort:
    """How much each check of a profile does: generated problems, schedules, seeds of each relation, planted
    controls of each kind (0: all), seconds of CPU that making a failing example smaller may take.
    """

    examples: int
    schedules: int
    relation_seeds: int
    controls: int
    shrink_seconds: float


EFFORTS: dict[Profile, Effort] = {
    "quick": Effort(6, 16, 1, 1, 10.0),
    "full": Effort(100, 200, 3, 3, 60.0),
    "nightly": Effort(400, 1000, 10, 0, 120.0),
}


@dataclass(frozen=True)
class GatedVariant:
    """One variant of a kernel, as the checks take it; `planted` is a defect to be found."""

    kernel: Kernel
    variant: Variant
    profile: Profile = "quick"
    seed: int = 0
    strict: bool = False
    planted: PlantedDefect | None = None

    @property
    def effort(self) -> Effort:
        """The checks of the profile."""
        return EFFORTS[self.profile]

    @property
    def title(self) -> str:
        """The kernel and its variant in words."""
        return self.kernel.title(self.variant)

    @property
    def function(self) -> bool:
        """Whether the kernel is a Python function."""
        return self.kernel.arch == HOST

    @property
    def key(self) -> str:
        """What names the variant in results."""
        return f"{self.kernel.name} {self.variant}"

    @cached_property
    def plan(self) -> KernelPlan:
        return self.kernel.plan(self.variant)

    @cached_property
    def under_test(self) -> KernelUnderTest:
        """Both builds on the emulator; a function as it is called."""
        if self.function:
            return on_own_driver(self.kernel, self.variant, planted=self.planted)
        return on_emulator(self.kernel, self.variant, planted=self.planted, strict=self.strict)

    @property
    def built(self) -> Built:
        """The production build."""
        return self.under_test.production

    def replay(self, command: str, *words: str) -> list[str]:
        """The words of a command on this kernel."""
        extra = ["--strict"] if self.strict else []
        extra += [f"--plant={self.planted.id}"] if self.planted else []
        return ["tileproof", command, self.kernel.name, *words, *extra]


@dataclass
class CheckReport:
    """What a check hands back. `executed`: what ran of the production build; `schedules`: policy -> seeds,
    one entry per launch (0 of policies without).
    """

    outcome: Outcome
    reason: str = ""
    findings: list[Finding] = field(default_factory=list)
    details: UncheckedObject = field(default_factory=dict)
    executed: bytes = b""
    schedules: dict[str, list[int]] = field(default_factory=dict)
    controls: list[PlantedControl] = field(default_factory=list)

    @classmethod
    def of(cls, wrong: str, **rest: Json) -> CheckReport:
        """Failed with what is `wrong`, passed where nothing is."""
        return cls("failed" if wrong else "passed", wrong, **rest)


Gated = Any  # a `GatedVariant`; of a campaign also a launch file: a check is registered for its own
KernelCheck = Callable[[Gated], CheckReport]


@dataclass(frozen=True)
class GateCheck:
    """A registered check. `least` is the least profile that runs it; `release`: it is about the whole
    release, and runs once (on any of the kernels); `functions`: it has a meaning for Python functions.
    """

    name: str
    about: str
    least: Profile
    required: bool
    release: bool
    run: KernelCheck = field(repr=False)
    functions: bool = False

    def wanted(self, profile: Profile) -> bool:
        """Whether a profile runs it."""
        return PROFILES.index(profile) >= PROFILES.index(self.least)


_CHECKS: dict[str, GateCheck] = {}


def gate_check(
    name: str,
    *,
    least: Profile = "quick",
    required: bool = True,
    release: bool = False,
    functions: bool = False,
) -> Callable[[KernelCheck], KernelCheck]:
    """Registers a check under `name`; the first line of its docstring says what it is about."""

    def register(run: KernelCheck) -> KernelCheck:
        about = " ".join((run.__doc__ or "").split("\n\n")[0].split())
        _CHECKS[name] = GateCheck(name, about, least, required, release, run, functions)
        return run

    return register


def checks() -> Mapping[str, GateCheck]:
    """Every check by name, in the order in which they run."""
    from tileproof.conformance.gate import checks as folder

    folder.register()
    return _CHECKS
