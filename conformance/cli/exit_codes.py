"""The exit codes of every command, by the words of a verdict."""

from __future__ import annotations

CLEAN, DEFECT, ERROR, INCOMPLETE = 0, 1, 2, 3
