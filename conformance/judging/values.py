"""Outputs and captured stages against their reference: which elements are wrong, where, in what pattern."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.compare import StageScore, within_bound
from tileproof.conformance.compare.compare import score as scored
from tileproof.conformance.compare.patterns import arrangement
from tileproof.conformance.judging.reference import ExpectedOutput
from tileproof.emulator.schedule_run import OUTPUT, differing_bits
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import CapturedStage, Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
TILE = 64  # rows and columns that wrong elements are counted by
SHOWN = 6


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
    def index(self) -> tuple[int, ...]:
        """The first wrong element as an index of the array."""
        row, column = self.first
        flat = row * self.wrong.shape[1] + column
        return tuple(int(i) for i in np.unravel_index(flat, self.shape)) if self.shape else ()


def matrix(array: Array) -> Array:
    """The array with two axes: the last one makes the columns, of a vector the rows."""
    if array.ndim < 2:
        return array.reshape(-1, 1)
    return array.reshape(-1, array.shape[-1])


def compared(
    name: str,
    found: Array,
    written: Mask,
    expected: ExpectedOutput,
    *,
    stage: bool = False,
    where: str = "",
) -> tuple[StageScore, WrongArray | None]:
    """The score of an array, and what is wrong in it."""
    with np.errstate(invalid="ignore"):
        values = matrix(found.astype(np.float64))
    want, bound, known = matrix(expected.value), matrix(expected.bound), matrix(written)
    wrong = ~(known & within_bound(values, want, bound))
    score = scored(values, known, want, bound)
    score.wrong, score.stated = int(wrong.sum()), expected.stated
    if not wrong.any():
        return score, None
    return score, WrongArray(name, values, known, want, bound, wrong, found.shape, stage, where)


def judged_values(
    run: RunResult, expected: Mapping[str, ExpectedOutput]
) -> tuple[dict[str, StageScore], list[WrongArray]]:
    """The score of each array that the reference speaks of, and what is wrong: stages first, in the order in
    which they were captured.
    """
    scores, wrong = {}, []
    for name, stage in run.stages.items():
        if name in expected and stage.moments:
            scores[name], bad = _stage(stage, expected[name])
            wrong += bad
    for name, output in run.outputs.items():
        if name in expected:
            scores[name], wrong_array = compared(name, output.values, output.written, expected[name])
            wrong += [wrong_array] if wrong_array else []
    return scores, wrong


def unwritten(launch: LaunchFile, run: RunResult) -> Iterator[Finding]:
    """A finding for each output that must be written whole and is not."""
    for name in (buffer.name for buffer in launch.buffers if buffer.role == "output" and buffer.whole):
        if name not in run.outputs or run.outputs[name].written.all():
            continue
        missing = ~run.outputs[name].written
        yield Finding(
            "output-unwritten",
            f"{int(missing.sum())} of {missing.size} elements of output {name} were never written",
            check="outputs",
            problem=ProblemPlace(array=name, index=tuple(int(i) for i in np.argwhere(missing)[0])),
            wrong=int(missing.sum()),
            elements=int(missing.size),
        )


def differing(
    first: Mapping[str, Output], run: RunResult, bounded: Container[str], than: Schedule
) -> Iterator[Finding]:
    """A finding for each output whose bytes are not those of the run under `than`; not for `bounded` outputs,
    which are compared with a reference.
    """
    for name, output in first.items():
        if name in bounded:
            continue
        values, other = output.values, run.outputs[name].values
        differ = differing_bits(name, values, other)
        if differ.any():
            at = tuple(int(i) for i in np.argwhere(differ)[0])
            yield Finding(
                OUTPUT,
                f"{name} depends on the schedule: it differs between {run.schedule} and {than}",
                check="schedules",
                problem=ProblemPlace(array=name, index=at),
                expected=float(values[at]),
                found=float(other[at]),
                wrong=int(differ.sum()),
                elements=int(differ.size),
            )


def _stage(stage: CapturedStage, expected: ExpectedOutput) -> tuple[StageScore, list[WrongArray]]:
    """Each capture against its own reference, or all captures against the same reference."""
    count = len(stage.moments)
    if expected.value.ndim == 3 and expected.value.shape[0] != count:
        raise TileproofError(
            "the reference returned a different number of captures than the run",
            where=f"capture {stage.name}",
            expected=f"{count}: {'; '.join(map(str, stage.moments[:SHOWN]))}",
            found=str(expected.value.shape[0]),
        )
    wrong, whole = [], StageScore()
    for number, moment in enumerate(stage.moments):
        own = expected
        if expected.value.ndim == 3:
            own = ExpectedOutput(expected.value[number], expected.bound[number], expected.stated)
        score, wrong_array = compared(
            stage.name, stage.value[number], stage.written[number], own, stage=True, where=str(moment)
        )
        whole.add(score)
        wrong += [replace(wrong_array, number=number)] if wrong_array else []
    return whole, wrong


def finding_of(array: WrongArray, check: str) -> Finding:
    """What is wrong with an array."""
    row, column = array.first
    written = bool(array.written[row, column])
    missing = not (array.wrong & array.written).any()
    what = f"captured stage {array.name}" if array.stage else f"output {array.name}"
    place = ProblemPlace(
        stage=array.name if array.stage else "",
        row=row,
        column=None if array.unit == "element" else column,
        axes=(array.unit, "column"),
        array=array.name,
        index=array.index,
        moment=array.where,
    )
    return Finding(
        "missing" if missing else "value",
        f"{what} was not written" if missing else f"{what} differs from the reference",
        check=check,
        problem=place,
        expected=float(array.expected[row, column]),
        found=float(array.found[row, column]) if written else None,
        bound=float(array.bound[row, column]),
        wrong=int(array.wrong.sum()),
        elements=int(array.wrong.size),
        pattern=pattern(array.wrong, array.unit),
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
