"""Taps: the memory regions that the engine captures, and the captures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tileproof.emulator.engine_types import RawCapture
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.misuse import MAX_COUNT, instance, whole
from tileproof.emulator.result import Capture, SmemRegion, Tap, TmemRegion
from tileproof.spec.machine.limits import MAX_SHARED_BYTES, RESERVED_SHARED_BYTES
from tileproof.spec.machine.mbarrier import MBARRIER_BYTES


def for_engine(tap: Tap, dynamic: int) -> tuple[str, int, bool, int, int, int, int]:
    """The tap as the engine takes it: name, barrier, whether it is tensor memory, columns, bytes.

    `dynamic`: where the dynamic shared memory begins. LaunchError when the region lies outside the CTA's.
    """
    region = instance(tap.region, (TmemRegion, SmemRegion), "the region of a tap")
    instance(tap.name, str, "the name of a tap")
    whole(tap.barrier_offset, "the barrier_offset of a tap", -MAX_COUNT)
    ends = (
        (region.column, region.columns) if isinstance(region, TmemRegion) else (region.offset, region.bytes)
    )
    for number in ends:
        whole(number, "the region of a tap", -MAX_COUNT)
    if isinstance(region, TmemRegion):
        fits = region.column >= 0 and region.columns > 0 and region.column + region.columns <= 512
    else:
        begins = dynamic + region.offset >= RESERVED_SHARED_BYTES
        fits = begins and region.bytes > 0 and region.offset + region.bytes <= MAX_SHARED_BYTES
    # The limit is of what a kernel asks for: the reserved bytes before it come on top.
    begins_at = dynamic + tap.barrier_offset - RESERVED_SHARED_BYTES
    if not fits or begins_at < 0 or begins_at + MBARRIER_BYTES > MAX_SHARED_BYTES:
        raise LaunchError(
            f"the tap {tap.name!r} lies outside the CTA's memory",
            expected=f"columns inside 512, bytes inside {MAX_SHARED_BYTES}, a barrier in shared memory",
            found=f"barrier offset {tap.barrier_offset}, {region}",
        )
    if isinstance(region, TmemRegion):
        return (tap.name, dynamic + tap.barrier_offset, True, region.column, region.columns, 0, 0)
    return (tap.name, dynamic + tap.barrier_offset, False, 0, 0, dynamic + region.offset, region.bytes)


def records(raw: Sequence[RawCapture], taps: Sequence[Tap]) -> Iterator[Capture]:
    """Yield the captures of a launch with these taps."""
    for record in raw:
        tap = taps[record["tap"]]
        valid = np.frombuffer(record["valid"], dtype=np.bool_)
        if isinstance(tap.region, TmemRegion):
            data = np.frombuffer(record["data"], dtype="<u4").reshape(128, tap.region.columns)
            valid = valid.reshape(128, tap.region.columns)
        else:
            data = np.frombuffer(record["data"], dtype=np.uint8)
        yield Capture(tap.name, record["cta"], record["rank"], record["phase"], data, valid)
