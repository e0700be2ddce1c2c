"""The driver selected on the command line, open while the command runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tileproof.conformance.drivers.driver import Driver
from tileproof.kernels.called import HOST
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.drivers.emulator import Mma


EMULATOR, CUDA = "emulator", "cuda"
DRIVERS = (EMULATOR, CUDA)


def driver_of(kernel: Kernel, name: str) -> str:
    """Return the driver name `name`, or the driver of Python functions if the kernel is a function."""
    if kernel.arch != HOST:
        return name
    if name != EMULATOR:
        raise TileproofError(
            "this kernel is a Python function", where=f"--driver {name}", found=kernel.name,
            do="omit the option",
        )  # fmt: skip
    return HOST


@contextmanager
def opened(
    name: str, *, policy: str, mma: Mma, races: bool, allow: Sequence[str], strict: bool, seconds_limit: float
) -> Iterator[Driver]:
    """Open the driver `name` with these options; TileproofError for an unsupported option, or without a
    card.
    """
    if name == EMULATOR:
        from tileproof.conformance.drivers.emulator import EmulatorDriver
        from tileproof.emulator.causes import Allow

        yield EmulatorDriver(mma, races, tuple(map(Allow.parse, allow)), strict, seconds_limit)
        return
    asked = {
        f"--policy={policy}": policy != "all",
        f"--mma={mma}": mma != "fast",
        "--allow": bool(allow),
        "--strict": strict,
    }
    if name == HOST:
        asked |= {f"--seconds-limit={seconds_limit:g}": bool(seconds_limit)}
    if wrong := [option for option, given in asked.items() if given]:
        raise TileproofError(
            "cards and Python functions have their own schedule and arithmetic, and no emulator findings",
            where=f"driver {name}",
            found=", ".join(wrong),
            do="omit the option, or use --driver emulator",
        )
    if name == HOST:
        from tileproof.conformance.drivers.host import HostDriver

        yield HostDriver()
        return
    from tileproof.conformance.drivers.cuda import CudaDriver

    with CudaDriver(seconds_limit) if seconds_limit else CudaDriver() as driver:
        driver.start()  # before anything is built
        yield driver
