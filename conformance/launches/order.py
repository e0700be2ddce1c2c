"""The order of a launch file's steps, and the sequences in which they may run.

A step of a stream follows the earlier steps of its stream, the events that its stream waits for, and
everything that the host had waited for when it issued the step (CUDA programming guide, asynchronous
concurrent execution). Two unordered steps run in either order, or at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tileproof.emulator import Schedule
from tileproof.kernels.launch.events import BufferRead, EventRecord, EventWait, HostWait
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    KernelLaunch,
    LaunchFile,
    LaunchStep,
    VariableWrite,
)

_LATEST_FIRST = ("late", "late-newest")


class StepOrder:
    """The order of a launch file's steps. Sets of steps are integers, a bit a step."""

    def __init__(self, launch: LaunchFile) -> None:
        self.steps = launch.steps
        self._apart = frozenset(launch.non_blocking)
        self._done: dict[int, int] = {}  # by stream: what its next step comes after
        self._events: dict[str, int] = {}
        self._host = self._all = 0
        self.before = [0] * len(self.steps)  # of each step: those that have ended when it begins
        self.operations: list[int] = []  # steps that run; the others only order
        for number, step in enumerate(self.steps):
            self._take(number, step)

    def _take(self, number: int, step: LaunchStep) -> None:
        if isinstance(step, EventRecord):
            self._events[step.event] = self._reached(step.stream)
        elif isinstance(step, EventWait):
            self._done[step.stream] = self._done.get(step.stream, 0) | self._events.get(step.event, 0)
        elif isinstance(step, HostWait):
            if step.event:
                self._host |= self._events.get(step.event, 0)
            elif step.stream is not None:
                self._host |= self._reached(step.stream)
            else:
                self._host = self._all
        else:
            self.operations.append(number)
            stream = stream_of(step)
            here = self._all if stream is None else self._reached(stream) | self._host
            self.before[number] = here
            self._all |= 1 << number
            if stream is None:
                self._host = self._all
            else:
                self._done[stream] = here | 1 << number

    def _reached(self, stream: int) -> int:
        """What has ended when a stream is through with what it was given until here."""
        done = self._done.get(stream, 0)
        if stream in self._apart:
            return done
        if stream:
            return done | self._done.get(0, 0)
        for other, theirs in self._done.items():
            if other not in self._apart:
                done |= theirs
        return done

    def beside(self, sequence: Sequence[int]) -> list[list[int]]:
        """Of steps that run in this sequence: for each those that ran before, and that nothing puts there."""
        found, ran = [], 0
        for number in sequence:
            remaining = ran & ~self.before[number]
            found.append([step for step in range(remaining.bit_length()) if remaining >> step & 1])
            ran |= 1 << number
        return found

    @property
    def total(self) -> bool:
        """Whether there is one order only."""
        return not self.pairs

    @property
    def pairs(self) -> int:
        """How many pairs of steps that run nothing orders."""
        return sum(at - self.before[number].bit_count() for at, number in enumerate(self.operations))

    def under(self, schedule: Schedule) -> Sequence[int]:
        """The order in which a schedule runs the steps: that of the file where it is "early", the latest
        first that may run where it is "late", else drawn by its seed.
        """
        policy = schedule.base if schedule.policy == "replay" else schedule.policy
        if policy == "early" or self.total:
            return self.operations
        draw = random.Random(schedule.seed)
        remaining, done, order = list(self.operations), 0, []
        while remaining:
            ready = [step for step in remaining if self.before[step] & ~done == 0]
            chosen = ready[-1] if policy in _LATEST_FIRST else draw.choice(ready)
            remaining.remove(chosen)
            done |= 1 << chosen
            order.append(chosen)
        return order


def stream_of(step: LaunchStep) -> int | None:
    """The stream of a step that runs; None where the host waits for everything before and after it."""
    if isinstance(step, KernelLaunch | BufferWrite | BufferCopy | BufferFree | BufferRead | VariableWrite):
        return step.stream
    return None
