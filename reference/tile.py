"""A tile as the plain references yield it, and how to run a reference to its end."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.spec.problems.base import TileCoord

F64 = npt.NDArray[np.float64]
Outputs = dict[str, F64]


@dataclass(frozen=True)
class TileValue:
    """One float64 tile of a stage, or with `partial` a sum that is not complete yet.

    `coord` counts as the problem's stages do (`spec.problems.base`). `rows` and `cols` are global within the
    group, along the stage's axes; a one-dimensional tile has the columns ``slice(0, 1)``.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: F64
    partial: bool = False


Tiles = Generator[TileValue, None, Outputs]


def outputs_of_walk(tiles: Tiles) -> Outputs:
    """Run a reference to its end and return its outputs by name."""
    while True:
        try:
            next(tiles)
        except StopIteration as end:
            outputs: Outputs = end.value
            return outputs
