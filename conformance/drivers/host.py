"""The host driver: calls kernels that are Python functions (`kernels/called.py`) in this process."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from tileproof.conformance.drivers.driver import Capabilities
from tileproof.kernels.called import HOST
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan, Products

FILLS = (0x00, 0xC3)  # of an output before a call: no byte is alike in both

Filled = Mapping[str, Array]


class HostDriver:
    """Calls the function twice, on outputs that hold different bytes: what is alike afterwards was written.

    An exception that the function raises is a finding (`host-fault`); TileproofError passes through.
    """

    capabilities: Capabilities = frozenset({"written"})
    products: Products | None = None
    name = HOST

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        """One launch; TileproofError when it is not one of a function."""
        if launch.call is None:
            raise TileproofError(
                "the host driver runs only Python functions", where=launch.name, found="a launch of PTX",
                do="use --driver emulator or cuda",
            )  # fmt: skip
        runs: list[dict[str, Array]] = []
        for fill in FILLS[: 1 if launch.call.whole else 2]:
            filled = {
                outcome.name: np.full(outcome.bytes, fill, np.uint8)
                .view(dtype_of(outcome.dtype))
                .reshape(outcome.shape)
                for outcome in launch.outcomes
            }
            try:
                launch.call.function(filled)
            except TileproofError:
                raise
            except Exception as error:
                fault = Finding("host-fault", f"{type(error).__name__}: {error}")
                blank = {name: Output(x, np.zeros(x.shape, bool)) for name, x in filled.items()}
                return RunResult(blank, findings=(fault,))
            runs.append(filled)
        first, last = runs[0], runs[-1]
        return RunResult({name: Output(x, _alike(x, last[name])) for name, x in first.items()})


def _alike(left: Array, right: Array) -> npt.NDArray[np.bool_]:
    """Where two arrays of one shape hold the same bits."""
    bits = np.dtype(f"u{left.dtype.itemsize}")
    return np.asarray(left.view(bits) == right.view(bits))
