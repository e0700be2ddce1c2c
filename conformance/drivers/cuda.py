"""The CUDA driver: executes a launch description on a card, in a process that a fault may end.

It has no captures, schedules or races: a kernel is judged by its outputs and its probe build's. Guard bytes
around every buffer, and two launches with different starting bytes, show what a kernel accessed and wrote.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from tileproof.conformance.drivers.card import CardFacts, Ran
from tileproof.conformance.drivers.driver import Capabilities
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, Products

START_SECONDS = 120.0  # of a fresh process with its context
# A process of its own program: `spawn` would run the caller's main module again.
WORKER = (sys.executable, "-P", "-m", "tileproof.conformance.drivers.card_worker")


class CudaDriver:
    """Launches on the first CUDA device, one after another in one worker process.

    A launch that faults, or gives no answer in `seconds`, ends the worker; it is a finding (`card-fault`,
    `card-hang`), and the next launch starts a fresh worker. `worker`: the command that serves, without its
    last argument, the descriptor of a `multiprocessing` connection.
    """

    capabilities: Capabilities = frozenset({"written"})
    products: Products | None = None

    def __init__(self, seconds: float = 20.0, worker: Sequence[str] = WORKER) -> None:
        self.seconds, self._worker = seconds, worker
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that the worker serves: after a fork each starts one of its own
        self._pipe: Connection | None = None
        self.facts: CardFacts | None = None
        self.starts = 0  # worker processes that were needed so far

    @property
    def name(self) -> str:
        """The name in reports: with the card, once it is known."""
        card = self.facts
        return f"cuda: {card.name} ({card.arch}), driver API {card.driver}" if card else "cuda"

    def __enter__(self) -> CudaDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        """One launch (two, on different starting bytes); TileproofError if there is no card, the PTX does
        not assemble for it, or the launch does not fit it.
        """
        return self.observe(launch)

    def observe(self, launch: LaunchFile) -> RunResult:
        """`run` of a launch that no plan describes."""
        kind, value = self._ask(launch)
        outputs: dict[str, Output] = {}
        findings: list[Finding] = []
        if kind == "ran":
            assert isinstance(value, Ran)
            for outcome in launch.outcomes:
                dtype = dtype_of(outcome.dtype)
                values = value.outputs[outcome.name].view(dtype).reshape(outcome.shape)
                marks = value.written[outcome.name].reshape(*outcome.shape, dtype.itemsize)
                outputs[outcome.name] = Output(values, np.asarray(marks.any(axis=-1)))
            findings += [
                Finding(
                    "card-guard",
                    f"{name}: byte {at} was written, which the kernel may not write "
                    f"(the buffer has {launch.buffer(name).bytes} bytes)",
                    problem=ProblemPlace(tile=name),
                )
                for name, at in value.touched.items()
            ]
        else:
            findings.append(Finding(kind, str(value)))
            for outcome in launch.outcomes:  # nothing was read back
                blank = np.zeros(outcome.shape, dtype_of(outcome.dtype))
                outputs[outcome.name] = Output(blank, np.zeros(outcome.shape, bool))
        return RunResult(outputs=outputs, findings=tuple(findings))

    def close(self) -> None:
        """Ends the worker."""
        if self._owner != os.getpid():
            return
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def start(self) -> CardFacts:
        """Start a worker if there is none, and return its card; TileproofError without a card."""
        if self._owner != os.getpid():
            self._process = self._pipe = None
        if self._process is None:
            self._owner = os.getpid()
            self._pipe, theirs = multiprocessing.Pipe()
            self._process = subprocess.Popen(
                [*self._worker, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
            theirs.close()
            self.starts += 1
            kind, value = self._answer(START_SECONDS)
            if kind != "card":
                self.close()
                raise TileproofError(
                    "there is no CUDA card to run on",
                    where="driver cuda",
                    expected="a CUDA driver, a card, and the extra tileproof[cuda]",
                    found=str(value),
                    do="use the emulator (--driver emulator)",
                )
            self.facts = value
        assert self.facts is not None
        return self.facts

    def _ask(self, launch: LaunchFile) -> tuple[str, Any]:
        self.start()
        assert self._pipe is not None
        self._pipe.send(launch)
        kind, value = self._answer(self.seconds)
        if kind in ("card-fault", "card-hang", "dead"):
            self.close()  # its context is lost
        if kind == "refused":
            raise TileproofError(
                "the card rejected this launch", where=launch.name, found=str(value),
                do="run a kernel for this card, or use the emulator",
            )  # fmt: skip
        return ("card-fault" if kind == "dead" else kind), value

    def _answer(self, seconds: float) -> tuple[str, Any]:
        assert self._pipe is not None
        if not self._pipe.poll(seconds):
            return "card-hang", f"no answer in {seconds:g} s"
        try:
            answer: tuple[str, Any] = self._pipe.recv()
        except EOFError:
            return "dead", "the process that launched it ended"
        return answer
