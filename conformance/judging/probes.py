"""Coordinate inputs: the kernel and its reference again, with inputs that encode the position of each
element.

One input at a time holds its positions along one axis, the other floating inputs hold 1: the values of an
output then name their rows or columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tileproof.conformance.compare.patterns import permutation_words
from tileproof.conformance.judging.reference import (
    ExpectedOutput,
    ReferenceFunction,
    evaluate,
    inputs_of,
)
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.judging.values import WrongArray, compared, pattern
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.emulator import Schedule
from tileproof.kernels.launch.contents import Coordinates, Unwritten, dtype_of
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

MAX_CODE = 4096
MAX_AXES = 3


@dataclass(frozen=True)
class CodedInput:
    """An input that holds its places along an axis."""

    buffer: LaunchBuffer
    axis: int

    @property
    def words(self) -> str:
        """Its description."""
        return f"{self.buffer.name} holding positions along axis {self.axis}, all other inputs 1"


def floating(launch: LaunchFile) -> list[LaunchBuffer]:
    """The inputs whose elements are floating numbers."""
    return [
        buffer
        for buffer in launch.buffers
        if buffer.role in ("input", "inout")
        and not isinstance(buffer.content, Unwritten)
        and dtype_of(buffer.dtype).kind not in "iub"
        and not buffer.items
    ]


def coded(launch: LaunchFile) -> list[CodedInput]:
    """The probes of a launch file."""
    return [
        CodedInput(buffer, axis)
        for buffer in floating(launch)
        for axis in range(min(len(buffer.shape), MAX_AXES))
        if buffer.shape[axis] > 1
    ]


def contents(launch: LaunchFile, probe: CodedInput) -> dict[str, Array]:
    """What the inputs hold for a probe."""
    made = {}
    for buffer in floating(launch):
        dtype = dtype_of(buffer.dtype)
        if buffer.name == probe.buffer.name:
            # Whole numbers that the type holds exactly, and their sums nearly.
            info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
            modulus = min(2 ** (info.nmant + 1), MAX_CODE)
            made[buffer.name] = Coordinates((probe.axis,), modulus, 1).array(buffer.shape, dtype)
        else:
            made[buffer.name] = np.ones(buffer.shape).astype(dtype)
    return made


def probed(
    launch: LaunchFile,
    modules: dict[str, LoadedModule],
    reference: ReferenceFunction,
    name: str,
    seconds: float,
    progress: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """The results of the probes on the output `name`, a line each, within the time."""
    deadline = time.monotonic() + seconds
    options = RunOptions(races=False, captures=False)
    evidence = []
    for probe in coded(launch):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        progress(f"coordinates: {probe.words}")
        instead = contents(launch, probe)
        run = run_once(launch, modules, Schedule(), options, seconds=remaining, instead=instead)
        if run.stopped:
            continue
        try:
            expected = evaluate(reference, launch, inputs_of(launch, instead))
        except TileproofError:  # the reference does not take such inputs
            continue
        _, wrong = compared(name, run.outputs[name].values, run.outputs[name].written, expected[name])
        if wrong is None:
            evidence.append(f"with {probe.words}: {name} is right")
        else:
            where = pattern(wrong.wrong, wrong.unit)
            evidence.append(f"with {probe.words}: wrong in {where}{origin(wrong, expected[name])}")
    return evidence


def origin(array: WrongArray, expected: ExpectedOutput) -> str:
    """Where the wrong elements' values belong: a column's, and a row's, own order."""
    for axis, unit in ((0, array.unit), (1, "column")):
        found, want, bound, wrong = (
            x if axis == 0 else x.T for x in (array.found, array.expected, array.bound, array.wrong)
        )
        column = int(np.flatnonzero(wrong.any(axis=0))[0])
        if np.ptp(want[:, column]) == 0:
            continue
        source = np.arange(want.shape[0])
        for place in np.flatnonzero(wrong[:, column]):
            with np.errstate(invalid="ignore"):
                fits = np.abs(want[:, column] - found[place, column]) <= bound[:, column]
            if not fits.any():
                break
            near = np.flatnonzero(fits)
            source[place] = near[np.abs(near - place).argmin()]
        else:
            if not np.array_equal(source, np.arange(source.size)):
                return f"; by their values these {unit}s are permuted: {permutation_words(source)}"
    return ""
