"""Runs compiled SM100 PTX on a CPU: TMA, mbarriers, tcgen05, tensor memory and CTA pairs, with values
and findings.
"""

from tileproof.emulator.arguments import Fields
from tileproof.emulator.causes import Allow, Cause
from tileproof.emulator.errors import LaunchError, PtxError, UnsupportedInstruction
from tileproof.emulator.memory import Buffer, Memory
from tileproof.emulator.module import Module
from tileproof.emulator.result import (
    Counters,
    Finding,
    LaunchResult,
    SmemRegion,
    Tap,
    TapRecord,
    TmemRegion,
    Waiting,
)
from tileproof.emulator.rules import hand_over
from tileproof.emulator.schedule import HeldBack, Hold, Schedule
from tileproof.emulator.stream import Stream
from tileproof.emulator.tensormap import TensorMap

hand_over()

__all__ = [
    "Allow",
    "Buffer",
    "Cause",
    "Counters",
    "Fields",
    "Finding",
    "HeldBack",
    "Hold",
    "LaunchError",
    "LaunchResult",
    "Memory",
    "Module",
    "PtxError",
    "Schedule",
    "SmemRegion",
    "Stream",
    "Tap",
    "TapRecord",
    "TensorMap",
    "TmemRegion",
    "UnsupportedInstruction",
    "Waiting",
]
