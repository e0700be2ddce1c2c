"""Reads a launch file by its path: JSON, or Python that defines `launch()` or `LAUNCH`."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError

LAUNCH_NAMES = ("LAUNCH", "launch")  # of what a launch file in Python defines, the first that it has


def read(path: str | os.PathLike[str]) -> LaunchFile:
    """The launch file at `path`, or the `launch.json` in a folder; TileproofError when there is none."""
    path = Path(path)
    if path.is_dir():
        path = path / "launch.json"
    if path.suffix == ".json":
        return jsonform.read(path)
    if path.suffix != ".py":
        raise TileproofError(
            "a launch file is JSON or Python", where=str(path), expected="a path that ends in .json or .py"
        )
    names = run_python(path, "the launch file")
    made = next((names[one] for one in LAUNCH_NAMES if one in names), None)
    if made is None:
        raise TileproofError(
            "the file defines no launch", where=str(path), expected="a function launch(), or LAUNCH"
        )
    if callable(made):
        made = guarded(made, path, "launch() of the launch file")
    if not isinstance(made, LaunchFile):
        raise TileproofError(
            "the object is not a launch", where=str(path), expected="a LaunchFile", found=type(made).__name__
        )
    return made if made.folder != Path() else replace(made, folder=path.parent)


def run_python(path: Path, what: str) -> dict[str, Any]:
    """The names that a Python file defines; what it imports from beside itself is found."""
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        if not path.is_file():
            raise TileproofError(f"{what} cannot be read", where=str(path), found="no such file")
        return guarded(lambda: runpy.run_path(str(path)), path, what)  # type: ignore[no-any-return]
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def guarded(call: Any, path: Path, what: str) -> Any:
    """What a stranger's function returns; TileproofError says at which line it raised."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the verdict's
            return call()
    except TileproofError:
        raise
    except (Exception, SystemExit) as error:
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        place = f"{path}, line {own[-1].lineno}" if own else str(path)
        if isinstance(error, SyntaxError) and error.lineno:
            place = f"{path}, line {error.lineno}"
        raise TileproofError(
            f"{what} raised", where=place, found=f"{type(error).__name__}: {error}"
        ) from None
