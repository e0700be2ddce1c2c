"""The kernel under test on the emulator: both builds, with a planted defect where one is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.drivers.capture import RunResult, Schedule
from tileproof.conformance.mutants.defects import build_planted, require_own
from tileproof.emulator.causes import Allow
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Mutant
from tileproof.kernels.launch import Launch
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan


def on_emulator(
    kernel: Target,
    variant: Variant,
    *,
    stages: Sequence[str] = (),
    mma: Literal["fast", "exact"] = "fast",
    planted: Mutant | None = None,
    races: bool = True,
    allow: Sequence[Allow] = (),
    strict: bool = False,
    seconds_limit: float = 0.0,
) -> KernelUnderTest:
    """Builds `kernel` (cached) and pairs it with the emulator's driver; `races` checks the order of all
    accesses in the launches that are judged stage by stage; `allow` are findings accepted on purpose;
    `strict` takes the ISA by the letter; `seconds_limit` (0: none) stops a launch that runs longer.
    """
    from tileproof.conformance.drivers import emulator

    require_own(kernel, planted)

    def driver(launch: Launch, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        return emulator.run(
            launch,
            plan,
            schedule=schedule,
            taps=taps,
            mma=mma,
            races=races and taps,
            allow=allow,
            strict=strict,
            seconds_limit=seconds_limit,
        )

    @cache
    def build(probe: bool) -> Built:
        return build_planted(kernel, variant, planted, probe)

    probe = (lambda: build(True)) if kernel.probe else None
    subject = KernelUnderTest(kernel, variant, build(False), probe, driver, tuple(stages))
    subject.plan()
    return subject
