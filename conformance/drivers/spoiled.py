"""The host driver with one output of each launch made wrong: a check that has never failed is not a check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tileproof.conformance.drivers.host import HostDriver
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan

FACTOR = 1.05  # an output times it must be found


class Spoiled(HostDriver):
    """Gives one output of each launch `FACTOR` times too large."""

    def __init__(self, output: str) -> None:
        self._output = output

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        """As the host driver, and then spoiled."""
        result = super().run(launch, plan, schedule, taps)
        output = result.outputs[self._output]
        wrong = (output.values.astype(np.float32) * np.float32(FACTOR)).astype(output.values.dtype)
        return replace(result, outputs={**result.outputs, self._output: Output(wrong, output.written)})
