"""Outputs and captured stages against their reference: which elements are wrong, where, in what pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.judge.compare import within_bound
from tileproof.conformance.judge.patterns import arrangement
from tileproof.conformance.judging.reference import ExpectedOutput
from tileproof.conformance.judging.runs import LaunchRun
from tileproof.conformance.judging.stages import CapturedStage
from tileproof.conformance.verdict.contract import Defect
from tileproof.spec.machine.errors import TileproofError

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
TILE = 64  # rows and columns that wrong elements are counted by
SHOWN = 6


@dataclass(frozen=True)
class ValueScore:
    """How an array compares: elements, those outside their bound, the largest error over its bound."""

    name: str
    elements: int
    wrong: int
    worst: float
    stated: bool


@dataclass(frozen=True)
class WrongArray:
    """An array with wrong elements, all as matrices: the last axis makes the columns, a vector is a column.

    `stage`: it is a captured stage, the capture `number` of its name, of the moment `where`.
    """

    name: str
    found: F64
    written: Mask
    expected: F64
    bound: F64
    wrong: Mask
    shape: tuple[int, ...]
    stage: bool = False
    where: str = ""
    number: int = 0

    @property
    def first(self) -> tuple[int, int]:
        """Row and column of the first wrong element."""
        row, column = np.argwhere(self.wrong)[0]
        return int(row), int(column)

    @property
    def unit(self) -> str:
        """What a row of the matrix is called: of a vector an element."""
        return "element" if len(self.shape) < 2 else "row"

    @property
    def place(self) -> str:
        """Its first wrong element as an index of the array."""
        row, column = self.first
        flat = row * self.wrong.shape[1] + column
        return str([int(i) for i in np.unravel_index(flat, self.shape)]) if self.shape else "[]"


def matrix(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array with two axes: the last one makes the columns, of a vector the rows."""
    if array.ndim < 2:
        return array.reshape(-1, 1)
    return array.reshape(-1, array.shape[-1])


def compared(
    name: str,
    found: npt.NDArray[Any],
    written: Mask,
    expected: ExpectedOutput,
    *,
    stage: bool = False,
    where: str = "",
) -> tuple[ValueScore, WrongArray | None]:
    """The score of an array, and what is wrong in it."""
    with np.errstate(invalid="ignore"):
        values = matrix(found.astype(np.float64))
    want, bound, known = matrix(expected.value), matrix(expected.bound), matrix(written)
    wrong = ~(known & within_bound(values, want, bound))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(values - want) / bound
    ratio = ratio[known & (bound > 0) & np.isfinite(ratio)]
    worst = float(ratio.max(initial=0.0))
    score = ValueScore(name, int(wrong.size), int(wrong.sum()), worst, expected.stated)
    if not wrong.any():
        return score, None
    return score, WrongArray(name, values, known, want, bound, wrong, found.shape, stage, where)


def judged_values(
    run: LaunchRun, expected: Mapping[str, ExpectedOutput]
) -> tuple[list[ValueScore], list[WrongArray]]:
    """The score of each array that the reference speaks of, and what is wrong: stages first, in the order in
    which they were captured.
    """
    scores, wrong = [], []
    for name, stage in run.captures.items():
        if name in expected and stage.moments:
            found, bad = _stage(stage, expected[name])
            scores.append(found)
            wrong += bad
    for name, array in run.outputs.items():
        if name in expected:
            score, one = compared(name, array, run.written[name], expected[name])
            scores.append(score)
            wrong += [one] if one else []
    return scores, wrong


def _stage(stage: CapturedStage, expected: ExpectedOutput) -> tuple[ValueScore, list[WrongArray]]:
    """Each capture against its own reference, or all against one."""
    count = len(stage.moments)
    if expected.value.ndim == 3 and expected.value.shape[0] != count:
        raise TileproofError(
            "the reference has another number of captures than there were",
            where=f"capture {stage.name}",
            expected=f"{count}: {'; '.join(map(str, stage.moments[:SHOWN]))}",
            found=str(expected.value.shape[0]),
        )
    wrong, scores = [], []
    for number, moment in enumerate(stage.moments):
        own = expected
        if expected.value.ndim == 3:
            own = ExpectedOutput(expected.value[number], expected.bound[number], expected.stated)
        score, one = compared(
            stage.name, stage.value[number], stage.written[number], own, stage=True, where=str(moment)
        )
        scores.append(score)
        wrong += [replace(one, number=number)] if one else []
    worst = max((score.worst for score in scores), default=0.0)
    elements, bad = sum(s.elements for s in scores), sum(s.wrong for s in scores)
    return ValueScore(stage.name, elements, bad, worst, expected.stated), wrong


def as_defect(one: WrongArray, check: str, cause: str = "", others: int = 0, replay: str = "") -> Defect:
    """What is wrong with an array, in the terms of the verdict."""
    row, column = one.first
    written = bool(one.written[row, column])
    missing = not (one.wrong & one.written).any()
    what = f"captured stage {one.name}" if one.stage else f"output {one.name}"
    place = f"{one.name}{one.place}" + (f", {one.where}" if one.where else "")
    return Defect(
        check=check,
        code="missing" if missing else "value",
        message=f"{what} was not written" if missing else f"{what} is not what the reference gives",
        stage=one.name if one.stage else "",
        where=place,
        coordinates={"row": row} if one.unit == "element" else {"row": row, "column": column},
        expected=float(one.expected[row, column]),
        found=float(one.found[row, column]) if written else None,
        bound=float(one.bound[row, column]),
        wrong=int(one.wrong.sum()),
        elements=int(one.wrong.size),
        pattern=pattern(one.wrong, one.unit),
        cause=cause,
        count=1 + others,
        replay=replay,
    )


def pattern(wrong: Mask, unit: str = "row") -> str:
    """How the wrong elements lie in the array, and in which of its tiles."""
    if wrong.all():
        return "the whole array"
    words = arrangement(wrong, rows_first=0, cols_first=0, units=(unit, "column"))
    rows, columns = (-(-size // TILE) for size in wrong.shape)
    if rows * columns < 2 or wrong.shape[1] == 1:
        return words
    tiles = [
        (i, j)
        for i in range(rows)
        for j in range(columns)
        if wrong[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE].any()
    ]
    if len(tiles) == rows * columns:
        return f"{words}; in every tile of {TILE} x {TILE}"
    shown = ", ".join(map(str, tiles[:SHOWN])) + (", ..." if len(tiles) > SHOWN else "")
    return f"{words}; in {len(tiles)} of {rows * columns} tiles of {TILE} x {TILE}: {shown}"
