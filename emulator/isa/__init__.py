"""Decoders of PTX instructions, by family; importing this package fills the registry."""

from tileproof.emulator.isa import alu, async_copy, control, memory, sync, tcgen05

__all__ = ["alu", "async_copy", "control", "memory", "sync", "tcgen05"]
