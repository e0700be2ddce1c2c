"""The problem types, a folder each: sizes and inputs, stages, tiling, validity rules, cases.

A folder's module `problem` lists its types in PROBLEMS; a type defined elsewhere is passed to `register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import ProblemType

_registered: dict[str, ProblemType] = {}


@cache
def _own() -> Mapping[str, ProblemType]:
    """The problem types of this package."""
    found: dict[str, ProblemType] = {}
    for folder in pkgutil.iter_modules(__path__, f"{__name__}."):
        if folder.ispkg:
            problems: tuple[ProblemType, ...] = importlib.import_module(f"{folder.name}.problem").PROBLEMS
            found |= {problem.name: problem for problem in problems}
    return MappingProxyType(found)


def problem_types() -> Mapping[str, ProblemType]:
    """Every problem type by name."""
    return {**_own(), **_registered}


def register(problem: ProblemType) -> None:
    """Makes a problem type of another package known; TileproofError when its name is one of Tileproof's own.

    A later one of the same name takes the place of the earlier.
    """
    if problem.name in _own():
        raise TileproofError(
            "a problem type of Tileproof's own has this name", where=f"problem {problem.name}"
        )
    _registered[problem.name] = problem


def problem_type(name: str) -> ProblemType:
    """Return the problem type `name`; the TileproofError lists the known types."""
    own = _own().get(name) or _registered.get(name)
    if own is None:
        raise TileproofError(
            "unknown problem type", where="problem", expected=", ".join(problem_types()), found=name
        )
    return own
