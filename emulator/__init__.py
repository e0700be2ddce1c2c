"""Execute compiled SM100 PTX on a CPU: TMA, mbarriers, tcgen05, tensor memory and CTA pairs. A launch
computes values and reports findings.
"""

from tileproof.emulator.arguments import Fields
from tileproof.emulator.causes import Allow, Cause
from tileproof.emulator.errors import LaunchError, PtxError, UnsupportedInstruction
from tileproof.emulator.memory import Buffer, Memory
from tileproof.emulator.module import Module
from tileproof.emulator.result import (
    Capture,
    Counters,
    RunResult,
    SmemRegion,
    Tap,
    TmemRegion,
)
from tileproof.emulator.rules import hand_over
from tileproof.emulator.schedule import HeldBack
from tileproof.emulator.stream import Stream
from tileproof.emulator.tensormap import TensorMap
from tileproof.spec.machine.finding import Finding, MachinePlace, Race, Waiting
from tileproof.spec.machine.schedule import Hold, Schedule

hand_over()

__all__ = [
    "Allow",
    "Buffer",
    "Capture",
    "Cause",
    "Counters",
    "Fields",
    "Finding",
    "HeldBack",
    "Hold",
    "LaunchError",
    "MachinePlace",
    "Memory",
    "Module",
    "PtxError",
    "Race",
    "RunResult",
    "Schedule",
    "SmemRegion",
    "Stream",
    "Tap",
    "TensorMap",
    "TmemRegion",
    "UnsupportedInstruction",
    "Waiting",
]
