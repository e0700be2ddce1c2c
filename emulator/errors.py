"""Errors of the emulator's front end."""

from __future__ import annotations

from tileproof.spec.machine.errors import LaunchError, TileproofError

__all__ = ["LaunchError", "PtxError", "UnsupportedInstruction"]


class PtxError(TileproofError):
    """PTX text that cannot be parsed; `where` names the line and `found` the token."""


class UnsupportedInstruction(TileproofError):
    """An instruction that the emulator does not execute: rejected by name, never skipped."""
