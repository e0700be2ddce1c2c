"""The details of a failure in a report: the wrong tile's error, value by value, and the trace around it."""

from __future__ import annotations

import base64
import bisect
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tileproof.conformance.check.result import Failure
from tileproof.conformance.compare.compare import index, wrong_elements
from tileproof.conformance.compare.rows import plant_canaries
from tileproof.conformance.drivers.emulator import run_traced
from tileproof.conformance.drivers.names import PlanTraceNames
from tileproof.conformance.gate.model import GatedVariant
from tileproof.conformance.observe.observation import observe
from tileproof.conformance.observe.tiles import Chain, Reference, StageTile
from tileproof.emulator.trace import Trace
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import place
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.problems.base import tiling_of

LEVELS = 255  # of the picture: 0 is no error, 127 the bound, 254 ten times the bound or more, 255 not written
SHOWN = 24  # wrong elements with their values
AROUND = 20  # lines of the trace before and behind the place
CLOSE = 15  # lines of its close-up
TRACED = 200_000  # events


def failing_tile(gated: GatedVariant, failure: Failure) -> UncheckedObject | None:
    """The tile of the first finding that is about one: its place, how far each element is off, and the first
    wrong elements; None where no tile is at fault.
    """
    found = next((f for f in failure.findings if f.kind in ("value", "missing") and f.problem.stage), None)
    if found is None or found.problem.cta is None:
        return None
    tile, reference = _again(gated, failure, found)
    if tile is None or reference is None:
        return None
    wrong = wrong_elements(tile, reference)
    places = np.argwhere(wrong)[:SHOWN]
    return {
        "stage": tile.stage,
        "title": place(found),
        "rows": [tile.rows.start, tile.rows.stop],
        "columns": [tile.cols.start, tile.cols.stop],
        "axes": list(found.problem.axes),
        "wrong": int(wrong.sum()),
        "elements": int(wrong.size),
        "levels": _packed(levels(tile, reference)),
        "values": [
            {
                "row": tile.rows.start + int(row),
                "column": tile.cols.start + int(column),
                "expected": float(reference.value[row, column]),
                "found": float(tile.value[row, column]) if tile.written[row, column] else None,
                "bound": float(reference.bound[row, column]),
            }
            for row, column in places
        ],
    }


def _again(
    gated: GatedVariant, failure: Failure, found: Finding
) -> tuple[StageTile | None, Reference | None]:
    """The observed tile of a finding and its reference, from another launch of the failing case."""
    inputs, plan, under = failure.case.inputs(), gated.plan, gated.under_test
    at = found.problem
    probe = at.build == "probe" and under.probe is not None
    built = under.probe() if probe and under.probe is not None else under.production
    launch = plant_canaries(plan, inputs, gated.kernel.launch(inputs, built, probe))
    seen = under.driver.run(launch, plan, failure.schedule, not probe)
    tiles = observe(plan, inputs, seen, at.build or "production", probe=probe).tiles
    tile = next(
        (
            tile
            for tile in tiles
            if tile.stage == at.stage
            and (tile.coord.group, tile.coord.cta) == (at.group, at.cta)
            and tile.coord.k_block == at.k_block
        ),
        None,
    )
    if tile is None:
        return None, None
    problem = plan.problem
    chain = Chain(inputs, index(tiles), {}, problem=problem, tiling=tiling_of(plan))
    return tile, chain.reference(tile.stage, tile.coord, tile.rows, tile.cols)


def levels(tile: StageTile, reference: Reference) -> npt.NDArray[np.uint8]:
    """``uint8 [rows, cols]``: the error over its bound as a shade; 255 where nothing was written."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(tile.value.astype(np.float64) - reference.value)
        ratio = np.where(error == 0, 0.0, error / reference.bound)
    ratio = np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)
    inside = np.clip(ratio, 0, 1) * 127
    beyond = 127 + np.clip(np.log10(np.maximum(ratio, 1.0)), 0, 1) * 127
    shade = np.where(ratio <= 1, inside, np.maximum(beyond, 128))
    return np.where(tile.written, shade, LEVELS).astype(np.uint8)


def _packed(shades: npt.NDArray[np.uint8]) -> str:
    return base64.b64encode(zlib.compress(shades.tobytes(), 9)).decode()


def unpacked(tile: UncheckedObject) -> npt.NDArray[np.uint8]:
    """The shades of a tile as evidence holds them."""
    shape = [tile[name][1] - tile[name][0] for name in ("rows", "columns")]
    return np.frombuffer(zlib.decompress(base64.b64decode(tile["levels"])), np.uint8).reshape(shape)


def trace_around(gated: GatedVariant, failure: Failure) -> list[str]:
    """Lines of the trace of the failing case: around the instruction of the first finding that has one, else
    around the phase that published the tile, else the last ones.
    """
    if gated.function:
        return ["no trace: a Python function has no events; `tileproof trace` shows what it writes"]
    found = failure.findings[0]
    inputs, plan = failure.case.inputs(), gated.plan
    launch = gated.kernel.launch(inputs, gated.built)
    try:
        _, trace = run_traced(launch, plan, schedule=failure.schedule, limit=TRACED, seconds_limit=60.0)
    except TileproofError as error:
        return [f"no trace: {error.what}"]
    at = len(trace) - 1
    barriers = {
        o.barrier
        for o in plan.observations
        if getattr(o, "stage", "") == found.problem.stage and hasattr(o, "barrier")
    }
    offsets = {b.offset_of(s) for b in plan.barriers if b.name in barriers for s in range(b.stages)}
    line, block = found.machine.ptx_line, found.problem.k_block
    last = found.code in ("hang", "livelock")  # what everybody still waits for comes at the end
    for number, event in enumerate(trace):
        if line and event.ptx_line == line:
            at = number
            if last:
                continue
            break
        if not line and event.kind == "phase" and event.barrier in offsets:
            at = number
            if block is None or event.phase >= block:
                break
    numbers = _distinct(trace)
    place_of = bisect.bisect_left(numbers, at)
    window = numbers[max(place_of - AROUND, 0) : place_of + AROUND]
    return trace.only(window).to_text(PlanTraceNames(plan, inputs)).splitlines()


def close_up(lines: Sequence[str]) -> Sequence[str]:
    """The lines of `trace_around` next to its place, as many as a phone has room for."""
    first = max(min(len(lines), AROUND + CLOSE // 3) - CLOSE, 0)
    return lines[first : first + CLOSE]


def _distinct(trace: Trace) -> list[int]:
    """The events without completions of copies, and without those that repeat the event of the same warp
    before them: the rows of a gather are one copy for the reader.
    """
    numbers = []
    before: dict[object, object] = {}
    for number, event in enumerate(trace):
        what = (event.kind, event.object, event.barrier, event.phase)
        actor = (event.cta, event.warp)
        if event.kind.endswith("-complete") or before.get((actor, event.kind)) == what:
            continue
        before[actor, event.kind] = what
        numbers.append(number)
    return numbers
