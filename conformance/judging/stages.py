"""Stages captured without a plan: a tile in tensor or shared memory when a barrier completes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.placing import dynamic_begin, offset_of
from tileproof.emulator.program import Decoded
from tileproof.kernels.launch.contents import dtype_of
from tileproof.kernels.launch.model import (
    LaunchFile,
    SharedStage,
    StageCapture,
    TmemStage,
)
from tileproof.spec.machine.run_result import CapturedStage, RunResult, StageMoment
from tileproof.spec.machine.swizzle import swizzle, width
from tileproof.spec.machine.types import Array


def captured(
    launch: LaunchFile,
    modules: Mapping[str, LoadedModule],
    results: Sequence[tuple[int, RunResult]],
) -> dict[str, CapturedStage]:
    """The captures of each launch's result, given with its number, by name; an empty stage where a capture
    never came.
    """
    records = [(number, result, record) for number, result in results for record in result.captures]
    found = {}
    for capture in launch.captures:
        own = [
            (StageMoment(number, record.cta, record.phase), result, record)
            for number, result, record in records
            if record.name == capture.name and (not capture.phases or record.phase in capture.phases)
        ]
        own.sort(key=lambda record: (record[0].launch, record[0].cta[::-1], record[0].phase))
        tiles = []
        for _, result, record in own:
            decoded = modules[result.module].module.decode(result.entry)
            tiles.append(elements_of(capture, record.data, record.valid, decoded))
        shape = shape_of(capture)
        value = np.array([value for value, _ in tiles], dtype_of(capture.region.dtype))
        written = np.array([known for _, known in tiles], np.bool_)
        found[capture.name] = CapturedStage(
            capture.name,
            value.reshape(-1, *shape),
            written.reshape(-1, *shape),
            tuple(moment for moment, _, _ in own),
        )
    return found


def shape_of(capture: StageCapture) -> tuple[int, int]:
    """Rows and columns of a captured tile, in elements."""
    region = capture.region
    if isinstance(region, TmemStage):
        return region.lanes, region.columns * 4 // dtype_of(region.dtype).itemsize
    return region.shape[0], region.shape[1]


def elements_of(
    capture: StageCapture, data: Array, valid: npt.NDArray[np.bool_], decoded: Decoded
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """(values, which of them were written) of one capture, ``[rows, columns]``."""
    region, dtype = capture.region, dtype_of(capture.region.dtype)
    if isinstance(region, TmemStage):
        lanes = slice(region.lane, region.lane + region.lanes)
        value = np.ascontiguousarray(data[lanes]).view(dtype)
        return value, np.repeat(valid[lanes], 4 // dtype.itemsize, axis=1)
    at = cells(region, offset_of(region.place, decoded, f"capture {capture.name}") + dynamic_begin(decoded))
    bytes_ = at[..., None] + np.arange(dtype.itemsize)
    value = np.ascontiguousarray(data[bytes_]).view(dtype)[..., 0]
    return value, valid[bytes_].all(axis=-1)


def cells(region: SharedStage, begin: int) -> npt.NDArray[np.int64]:
    """The byte offset in the region of each element, ``[rows, columns]``; `begin` is the region's address.

    Without a swizzle rows lie one behind another; with one the tile is cut into parts as wide as the
    swizzle's span, each a box of a tensor map.
    """
    rows, columns = region.shape
    size = dtype_of(region.dtype).itemsize
    row, byte = np.meshgrid(np.arange(rows), np.arange(columns) * size, indexing="ij")
    if region.swizzle == "none":
        return np.asarray(row * columns * size + byte, np.int64)
    span = width(region.swizzle)
    linear = byte // span * rows * span + row * span + byte % span
    return np.asarray(swizzle(region.swizzle, begin + linear) - begin, np.int64)
