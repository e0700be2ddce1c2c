"""The interface of a problem type's generator: cases, small structures that are drawn, shrunk and
replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from tileproof.spec.plan import KernelPlan

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# The largest of "wide" integers: sums of 256 products are exact in f32, most with all of its bits in use.
WIDEST = 255


ProblemInputs = Any  # the arrays of a case: each problem type has a class of its own (its `Inputs`)
OwnCase = Any  # a case of the class of its generator


class AnyCase(Protocol):
    """A case of any problem type. Cases are hashable; equal cases give equal arrays."""

    @property
    def values(self) -> str:
        """The class of its values. "coordinates": values encode their position (`FaultHypotheses.names`)."""

    def inputs(self) -> ProblemInputs:
        """The arrays."""

    def as_json(self) -> str:
        """One line from which the generator's `from_json` makes an equal case."""

    def sizes(self) -> Mapping[str, int]:
        """The sizes that choose a kernel's variant."""


@dataclass(frozen=True)
class EdgeCase:
    """A case that every check begins with, and the schedule policies that it runs under."""

    case: AnyCase
    policies: tuple[str, ...] = ("late",)


@dataclass(frozen=True)
class VectorCase:
    """A case of the released vectors, with the rows of the corpus (docs/corpus.md) that it guards.

    `production`: of production shape. `cut`: makes its inputs of those of the case.
    """

    name: str
    case: AnyCase
    guards: tuple[str, ...] = ()
    production: bool = False
    cut: Callable[[ProblemInputs], ProblemInputs] | None = None

    def inputs(self) -> ProblemInputs:
        """The arrays."""
        whole = self.case.inputs()
        return whole if self.cut is None else self.cut(whole)


def in_classes(
    patterns: Mapping[str, tuple[AnyCase, tuple[str, ...]]], classes: Sequence[str], first_seed: int
) -> Iterator[VectorCase]:
    """Each pattern, a case and the rows that it guards, with each class of values; a seed for each class."""
    for pattern, (case, guards) in patterns.items():
        for seed, values in enumerate(classes, first_seed):
            made: OwnCase = replace(case, values=values, seed=seed)  # type: ignore[type-var]
            yield VectorCase(f"{pattern}, {values}", made, guards)


@dataclass(frozen=True)
class Spread:
    """A larger problem that a case is part of: `inputs` of `count` groups, of which `groups` are those of
    the case, in its order. The other groups hold zeros and do not run; nothing of them is judged. `places`:
    by axis, where the case's elements lie along it in the larger problem, increasing; an axis that is not
    named is the case's own.
    """

    inputs: ProblemInputs
    count: int
    groups: tuple[int, ...]
    places: Mapping[str, npt.NDArray[np.int64]]


def spread_of(case: AnyCase, inputs: ProblemInputs) -> Spread | None:
    """The larger problem that a case with these inputs is part of, of a type that has a method `spread`;
    None: the case is all of it.
    """
    make = getattr(case, "spread", None)
    return None if make is None else make(inputs)


@dataclass(frozen=True)
class ControlFlow:
    """The inputs that a kernel's control flow may depend on, and a case for each class of their values.

    `inputs`: names of arrays of the problem's `Inputs`. A kernel executes the same instructions in the same
    order whatever the other arrays hold.
    """

    inputs: tuple[str, ...]
    classes: Mapping[str, AnyCase]


class Generator(Protocol):
    """The cases of a problem type: a module or an object with these functions.

    A function `control_flow(plan, blocks) -> ControlFlow`, whose cases have `blocks` k-blocks, may be left
    out by a problem whose control flow depends on sizes alone.
    """

    def drawn(self, plan: KernelPlan) -> SearchStrategy[OwnCase]:
        """Cases for the kernel of `plan`, as Hypothesis draws and shrinks them."""

    def edges(self, plan: KernelPlan) -> Mapping[str, EdgeCase]:
        """By name, the cases that every check of the kernel of `plan` begins with."""

    def smaller(self, case: OwnCase) -> Iterator[AnyCase]:
        """Cases that are simpler than one of `edges` in one respect, the largest steps first."""

    def small(self, plan: KernelPlan, blocks: int | None = None) -> AnyCase:
        """A small case with `blocks` k-blocks, normal values; None: more than the deepest ring has stages, so
        that its slots are used again.
        """

    def from_json(self, text: str) -> AnyCase:
        """The case of `AnyCase.as_json`; TileproofError says what is wrong with the text."""
