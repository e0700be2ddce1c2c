"""The kernel under test on a driver: both builds, optionally with a planted defect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.drivers.driver import Driver
from tileproof.conformance.planted.defects import build_planted, require_own
from tileproof.kernels.called import HOST
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant

if TYPE_CHECKING:
    from tileproof.emulator.causes import Allow


def on_driver(
    kernel: Kernel,
    variant: Variant,
    driver: Driver,
    *,
    stages: Sequence[str] = (),
    planted: PlantedDefect | None = None,
) -> KernelUnderTest:
    """Builds `kernel` (cached) and pairs it with `driver`."""
    require_own(kernel, planted)

    @cache
    def build(probe: bool) -> Built:
        return build_planted(kernel, variant, planted, probe)

    probe = (lambda: build(True)) if kernel.probe else None
    under_test = KernelUnderTest(kernel, variant, build(False), probe, driver, tuple(stages))
    under_test.plan()
    return under_test


def on_emulator(
    kernel: Kernel,
    variant: Variant,
    *,
    stages: Sequence[str] = (),
    mma: Literal["fast", "exact"] = "fast",
    planted: PlantedDefect | None = None,
    races: bool = True,
    allow: Sequence[Allow] = (),
    strict: bool = False,
    seconds_limit: float = 0.0,
) -> KernelUnderTest:
    """The kernel on the emulator; `races` checks the order of all accesses in the launches that are judged
    stage by stage; `allow` are findings accepted on purpose; `strict` takes the ISA by the letter;
    `seconds_limit` (0: none) stops a launch that runs longer.
    """
    from tileproof.conformance.drivers.emulator import EmulatorDriver

    driver = EmulatorDriver(mma, races, tuple(allow), strict, seconds_limit)
    return on_driver(kernel, variant, driver, stages=stages, planted=planted)


def on_own_driver(
    kernel: Kernel, variant: Variant, *, planted: PlantedDefect | None = None
) -> KernelUnderTest:
    """The kernel judged by values alone: on the emulator without race checking, or called if it is a
    function.
    """
    if kernel.arch != HOST:
        return on_emulator(kernel, variant, planted=planted, races=False)
    from tileproof.conformance.drivers.host import HostDriver

    return on_driver(kernel, variant, HostDriver(), planted=planted)
