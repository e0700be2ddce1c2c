"""A metamorphic relation: a change of the inputs, and the required relation between the outputs of both
runs.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.problems.cases import ProblemInputs


@dataclass(frozen=True)
class Relation:
    """`change(inputs, seed)` gives the inputs of the second run; `broken(inputs, seed, first outputs, second
    outputs)` the first output for which `says` does not hold, "" when it holds for all. Both draw from the
    seed alone.
    """

    name: str
    says: str
    change: Callable[[ProblemInputs, int], ProblemInputs] = field(repr=False)
    broken: Callable[[ProblemInputs, int, Mapping[str, Array], Mapping[str, Array]], str] = field(repr=False)


def same(wanted: Mapping[str, Array], found: Mapping[str, Array]) -> str:
    """The first output whose bits are not those wanted; every NaN is alike."""
    for name, expected in wanted.items():
        actual = found[name]
        with np.errstate(invalid="ignore"):  # signalling NaNs
            a, b = expected.astype(np.float64), actual.astype(np.float64)
        equal = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
        if expected.shape != actual.shape or not equal.all():
            return name
    return ""


def relations_of(problem: ProblemType) -> tuple[Relation, ...]:
    """The relations that the folder of a problem type states; none where it has no module of them."""
    folder = type(problem).__module__.rpartition(".")[0]
    name = f"{folder}.relations"
    if not folder:
        return ()
    try:
        if importlib.util.find_spec(name) is None:
            return ()
    except ModuleNotFoundError:
        return ()
    stated: tuple[Relation, ...] = importlib.import_module(name).RELATIONS
    return stated
