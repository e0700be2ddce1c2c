"""The exit codes of every command: nothing wrong, a defect found, it could not be checked."""

from __future__ import annotations

PASS, DEFECT, COULD_NOT_CHECK = 0, 1, 2
