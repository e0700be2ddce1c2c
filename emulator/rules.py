"""The legal descriptors and shapes of tcgen05.mma, handed to the engine from
`spec.machine.descriptor_rules`."""

from __future__ import annotations

from tileproof.emulator import _engine
from tileproof.spec.machine.descriptor_rules import handed_over


def hand_over() -> None:
    """Pass the rules to the engine; called once, when the emulator is imported."""
    _engine.set_mma_rules(*handed_over())
