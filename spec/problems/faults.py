"""The known mistakes of a problem type: fault hypotheses, and words for places and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.stage import Stage

if TYPE_CHECKING:
    from tileproof.spec.problems.base import TileCoord, Tiling

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Operands = Mapping[str, OwnTerm]


class LaunchView(Protocol):
    """What a hypothesis may ask of the launch: its inputs, and the operands that the kernel had."""

    inputs: ProblemInputs
    tiling: Tiling

    def stage(self, name: str) -> Stage:
        """The stage of that name."""

    def copy_of(self, name: str, coord: TileCoord) -> F64:
        """The rounded copy of a tile that the kernel's MMAs read."""

    def value_of(self, name: str, coord: TileCoord) -> F64:
        """A tile in f32, as the kernel had it where it was seen."""


@dataclass(frozen=True)
class WrongTile:
    """The tile in question: stage, place, operands, and whether its rounded copy is what is seen.

    `wrong` marks the wrong elements of `found`, both ``[rows, cols]``; `cols` are the tile's columns, global.
    """

    stage: str
    coord: TileCoord
    operands: Operands
    copy: bool
    cols: slice
    found: F64
    wrong: Mask


@dataclass(frozen=True)
class Alternative:
    """The whole tile as `cause` would have left it, within `bound`."""

    cause: str
    value: F64
    bound: F64


class FaultHypotheses:
    """The hypotheses and words of a problem type; the default has only the general hypotheses."""

    def alternatives(self, launched: LaunchView, tile: WrongTile) -> Iterator[Alternative]:
        """The alternatives to the formula of the tile's stage, on the operands that the kernel had."""
        return iter(())

    def operand_rows(
        self, launched: LaunchView, tile: WrongTile, a: F64, b: F64, names: tuple[str, str]
    ) -> str:
        """Which wrong rows of operand `b` ``[cols, K]`` explain the wrong columns of the product of operands
        `names` with `a` ``[rows, K]``, in words; "" when none do.
        """
        return ""

    def poison(self, launched: LaunchView, tile: WrongTile) -> str:
        """Whence the NaN or inf of a tile without a finite wrong element came, in words; "" when unknown."""
        return ""

    def scales(self, inputs: ProblemInputs) -> Mapping[str, float]:
        """Factors that a stage may lack or have twice, by name."""
        return {}

    def names(self, inputs: ProblemInputs, stage: str, found: float) -> str:
        """What a value of a case of the class "coordinates" says of its origin, in words."""
        return ""

    def part(self, unit: str, low: int, high: int, size: int, ctas: int) -> str:
        """What elements `low` .. `high` - 1 of an axis of `size` elements are called: ``RoPE``; "" for none.

        `unit`: what one element is called (`ProblemType.words`); `ctas`: CTAs of a cluster.
        """
        return ""
