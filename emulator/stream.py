"""A stream: launches over one memory, one after another, some of which may overlap their predecessor."""

from __future__ import annotations

from typing import Any

from tileproof.emulator import _engine
from tileproof.emulator.memory import Memory
from tileproof.emulator.module import Module
from tileproof.emulator.result import LaunchResult


class Stream:
    """Launches run to their end one after another, and values are those of that order.

    A programmatic launch (CUDA's programmatic stream serialization) may start while the launch before it is
    in flight, when that one executed `griddepcontrol.launch_dependents`. What conflicts with a grid in flight
    without `griddepcontrol.wait` before it is a finding, `race-grids`, and what such a read gives is poison.
    Recording each byte costs time and, of buffers that are touched, up to 8 bytes of memory a byte.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._launches = 0
        self._last: _engine.GridRecord | None = None
        self._in_flight: list[tuple[_engine.GridRecord, bool]] = []  # when the last one began
        self._modules: list[Module] = []  # whose variables the records know by their place

    def launch(self, module: Module, entry: str, *, programmatic: bool = False, **how: Any) -> LaunchResult:
        """`Module.launch` over the stream's memory; raises what that raises."""
        in_flight = self._unfinished() if programmatic else []
        record = _engine.GridRecord()
        self._launches += 1
        record.number = self._launches
        result = module.launch(entry, memory=self.memory, grids=(record, in_flight), **how)
        self._last, self._in_flight = record, in_flight
        self._modules.append(module)
        return result

    def _unfinished(self) -> list[tuple[_engine.GridRecord, bool]]:
        """Grids that may be in flight beside a programmatic launch, and whether its wait waits for them.

        Its wait is for the grid before it. That one's end is after those before it only when it waited too.
        """
        last = self._last
        if last is None:
            return []
        # What that grid had waited for when this one may start: at its trigger, else at its end.
        knew = not last.early if last.dependents else last.waited
        older = [(r, waits and last.waited) for r, waits in self._in_flight if not (waits and knew)]
        return [(last, True), *older] if last.dependents else older
