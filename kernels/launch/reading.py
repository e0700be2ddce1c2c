"""Reads a launch file by its path: JSON, or Python that defines `launch()` or `LAUNCH`."""

from __future__ import annotations

import os
from pathlib import Path

from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.launch.python_file import NAMES, launch_of
from tileproof.spec.machine.errors import TileproofError

LAUNCH_NAMES = NAMES


def read(path: str | os.PathLike[str]) -> LaunchFile:
    """The launch file at `path`, or the `launch.json` in a folder; TileproofError when there is none.

    A Python file runs in a process of its own.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "launch.json"
    if path.suffix == ".json":
        return jsonform.read(path)
    if path.suffix != ".py":
        raise TileproofError(
            "a launch file is JSON or Python", where=str(path), expected="a path that ends in .json or .py"
        )
    return launch_of(path)
