"""Errors of the emulator's front end."""

from __future__ import annotations

from tileproof.spec.machine.errors import TileproofError


class PtxError(TileproofError):
    """PTX text that cannot be read; `where` names the line and `found` the token."""


class UnsupportedInstruction(TileproofError):
    """An instruction outside the emulator's coverage: refused by name, never skipped."""


class LaunchError(TileproofError):
    """A launch that does not fit its kernel or the machine."""
