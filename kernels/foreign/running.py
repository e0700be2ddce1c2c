"""Runs a Python file of a user, or a function of it: an exception is an error that names the line."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject


def run_python(path: Path, what: str) -> UncheckedObject:
    """The names that a Python file defines; what it imports from beside itself is found."""
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        return guarded(lambda: runpy.run_path(str(path)), path, what)  # type: ignore[no-any-return]
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


T = TypeVar("T")


def guarded(call: Callable[[], T], path: Path, what: str) -> T:
    """What a user's function returns; TileproofError says at which line it raised."""
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
