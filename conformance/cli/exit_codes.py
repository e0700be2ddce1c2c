"""The exit codes of all commands, by verdict."""

from __future__ import annotations

CLEAN, DEFECT, ERROR, INCOMPLETE = 0, 1, 2, 3
