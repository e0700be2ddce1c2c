"""Streams: launches over one memory, in order, where a launch may overlap its predecessor; and conflicts
between streams, or with the host, that nothing orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from tileproof.emulator import _engine
from tileproof.emulator.memory import Buffer, Memory
from tileproof.emulator.misuse import instance, sequence, whole
from tileproof.emulator.module import Module
from tileproof.emulator.options import GridKeywords
from tileproof.emulator.result import RunResult
from tileproof.spec.machine.finding import Finding, MachinePlace, Race

# Of engine/config.hpp, InFlight.
_BEHIND, _WAITS, _UNORDERED = 0, 1, 2
GridRecord = _engine.GridRecord


class Stream:
    """Each launch runs to its end before the next, and their values are those of this order.

    A programmatic launch (CUDA's programmatic stream serialization) may start while the launch before it is
    in flight, when the earlier launch executed `griddepcontrol.launch_dependents`. An access that conflicts
    with a grid in flight without a preceding `griddepcontrol.wait` is the finding `race-grids`, and such a
    read returns poison. An access that conflicts with an unordered grid of another stream, or copy of the
    host, is `race-launches`. Recording each byte costs time and, of buffers that are touched, up to 8 bytes
    of memory a byte.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = instance(memory, Memory, "memory")
        self._launches = 0
        self._last: GridRecord | None = None
        self._in_flight: list[tuple[GridRecord, int]] = []  # when the last launch began
        self._modules: list[Module] = []  # whose variables the records know by their place

    @property
    def last(self) -> GridRecord | None:
        """The accesses of the last launch."""
        return self._last

    def launch(
        self,
        module: Module,
        entry: str,
        *,
        programmatic: bool = False,
        unordered: Sequence[GridRecord] = (),
        where: str = "",
        **how: Unpack[GridKeywords],
    ) -> RunResult:
        """`Module.launch` over the stream's memory, with the same errors.

        `unordered`: what ran before it here, and that no event or synchronisation puts before it; `where`
        names this launch in findings about such.
        """
        instance(module, Module, "module")
        in_flight = self._unfinished() if programmatic else []
        record = GridRecord()
        self._launches += 1
        record.number, record.where = self._launches, where
        given = [*in_flight, *((r, _UNORDERED) for r in sequence(unordered, GridRecord, "unordered"))]
        result = module.launch(entry, memory=self.memory, grids=(record, given), **how)
        if result.certificate is not None:
            record.certified, record.part = result.certified, result.certificate.part
        self._last, self._in_flight = record, in_flight
        self._modules.append(module)
        return result

    def _unfinished(self) -> list[tuple[GridRecord, int]]:
        """Grids that may be in flight beside a programmatic launch, and whether its wait waits for them.

        Its wait is for the grid before it. That grid ends after earlier grids only if it waited too.
        """
        last = self._last
        if last is None:
            return []
        # What that grid had waited for when this grid may start: at its trigger, else at its end.
        knew = not last.early if last.dependents else last.waited
        older = [
            (r, _WAITS if waits == _WAITS and last.waited else _BEHIND)
            for r, waits in self._in_flight
            if not (waits == _WAITS and knew)
        ]
        return [(last, _WAITS), *older] if last.dependents else older


@dataclass(frozen=True)
class HostAccess:
    """The host reads or writes `count` bytes of a buffer from byte `first` on."""

    buffer: Buffer
    first: int
    count: int
    write: bool


def host_copy(
    accesses: Sequence[HostAccess], what: str, where: str, unordered: Sequence[GridRecord] = ()
) -> tuple[GridRecord, list[Finding]]:
    """A copy or fill by the host: its record, and the conflicts with what ran before it here and that no
    event or synchronisation puts before it. `what` is the operation, `where` says which one it is.
    """
    record = GridRecord()
    record.where, record.certified = where, True
    found = []
    for access in sequence(accesses, HostAccess, "accesses"):
        size = instance(access.buffer, Buffer, "the buffer of an access").bytes
        first = whole(access.first, "the first byte of an access", maximum=size)
        whole(access.count, "the bytes of an access", maximum=size - first)
        place = (access.buffer.address, access.buffer.bytes, access.buffer.numpy().ctypes.data)
        for other in unordered:
            if met := other.meets(place, access.first, access.count, access.write):
                found.append(_race(access, what, where, other, met))
        record.touch(place, access.first, access.count, access.write, what)
    return record, found


def _race(
    access: HostAccess,
    what: str,
    where: str,
    other: GridRecord,
    met: tuple[int, str, int, str, tuple[int, int, int], int, bool],
) -> Finding:
    byte, instruction, line, source, cta, warp, wrote = met
    missing = "an event that the later stream waits for, or a synchronisation of the host between the two"
    place = f"{instruction} at PTX line {line} of " if line else f"{instruction}, "
    message = (
        f"{what} {'writes' if access.write else 'reads'} byte {byte} of {access.buffer.name}, which {place}"
        f"{other.where} {'wrote' if wrote else 'read'}, and nothing orders it and {where}; missing: {missing}"
    )
    race = Race(
        ptx_line=line,
        source=source,
        instruction=instruction,
        cta=cta,
        cluster_rank=0,
        warp=warp,
        lanes=0,
        writes=wrote,
        execution=0,
        then_writes=access.write,
        then_execution=0,
        missing=missing,
        space="global",
        buffer=access.buffer.name,
    )
    return Finding(
        code="race-launches",
        message=message,
        machine=MachinePlace(
            kernel=other.kernel, instruction=what, address=access.buffer.address + byte, race=race
        ),
        cause=f"missing: {missing}",
        evidence=(f"before it: {race}",),
    )
