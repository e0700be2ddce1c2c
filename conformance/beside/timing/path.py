"""The instructions that each warp executed, in order, from a trace that kept branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tileproof.emulator.trace import KINDS, Trace
from tileproof.spec.machine.errors import TileproofError

Warp = tuple[int, int, int, int]
"""CTA (x, y, z) in the grid, and the warp's index in it."""
_BRANCH, _EXIT = KINDS.index("branch"), KINDS.index("exit")


@dataclass(frozen=True)
class Run:
    """Instructions `first` to `last` (PTX, by their index) executed one after the other by `lanes` of a warp.

    `event`: the index in the trace at which the run ended.
    """

    first: int
    last: int
    lanes: int
    event: int


def paths(trace: Trace, targets: list[int], length: int) -> dict[Warp, list[Run]]:
    """The runs of each warp; `targets` holds a branch's target by instruction, `length` counts instructions.

    Raise TileproofError if the trace lost events: an incomplete path is useless.
    """
    if trace.dropped:
        raise TileproofError(
            "the trace does not cover the whole run", found=trace.note, do="ask for a smaller problem"
        )
    walkers: dict[Warp, _Walker] = {}
    raw = trace.raw
    chosen = np.flatnonzero((raw["kind"] == _BRANCH) | (raw["kind"] == _EXIT))
    columns = [raw[name][chosen].tolist() for name in ("kind", "cta", "warp", "pc", "lanes", "value")]
    rows = zip(chosen.tolist(), *columns, strict=True)
    for event, kind, (x, y, z), warp, pc, lanes, taken in rows:
        walker = walkers.setdefault((x, y, z, warp), _Walker())
        walker.reach(pc, lanes, event)
        if kind == _BRANCH:
            walker.go(lanes & ~taken, pc + 1)
            walker.go(taken, targets[pc])
        else:
            walker.go(lanes, length)
    return {warp: walker.runs for warp, walker in sorted(walkers.items())}


class _Walker:
    """Where each lane of a warp is between branches."""

    def __init__(self) -> None:
        self.at = [0] * 32
        self.runs: list[Run] = []

    def reach(self, pc: int, lanes: int, event: int) -> None:
        # Between branches lanes only move forward: those that came from further back ran alone as far as
        # where the others stood.
        starts: dict[int, int] = {}
        for lane in _bits(lanes):
            starts[self.at[lane]] = starts.get(self.at[lane], 0) | 1 << lane
        ordered = sorted(starts)
        joined = 0
        for start, after in zip(ordered, [*ordered[1:], pc + 1], strict=True):
            joined |= starts[start]
            if after > start:
                self.runs.append(Run(start, after - 1, joined, event))

    def go(self, lanes: int, pc: int) -> None:
        for lane in _bits(lanes):
            self.at[lane] = pc


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
