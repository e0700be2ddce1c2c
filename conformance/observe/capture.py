"""From captures of tensor and shared memory to stage tiles, by the kernel plan's observations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.conformance.observe.tiles import StageTile
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import Capture
from tileproof.spec.plan import KernelPlan, SmemObservation, SmemTile, TmemObservation, TmemTile
from tileproof.spec.problems.base import TileCoord, coordinates, region, tiling_of
from tileproof.spec.problems.cases import ProblemInputs

Captured = TmemObservation | SmemObservation
Cells = npt.NDArray[np.int64]
# Of a stage, a k-block and a shape: the same in every group and CTA.
Places = dict[tuple[str, int | None, tuple[int, int]], tuple[Cells, Cells]]
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}
# Of the K-major layouts with 64-element rows that kernels' tiles have (PTX ISA, matrix descriptor).
LBO = 16


@dataclass(frozen=True)
class Publication:
    """Where in the walk a capture belongs: its tile, which part of the stage's columns it holds, and the
    k-block that the barrier's phase is of (None: the barrier completes once), and whose memory it shows.
    """

    coord: TileCoord
    part: int
    k_block: int | None
    rank: int


def captured(plan: KernelPlan) -> list[Captured]:
    """The plan's observations of tensor and shared memory."""
    return [at for at in plan.observations if isinstance(at, TmemObservation | SmemObservation)]


def parts_of(at: Captured) -> int:
    """Publications that a tile of the observation takes."""
    return at.parts if isinstance(at, TmemObservation) else 1


def publication(
    plan: KernelPlan, inputs: ProblemInputs, at: Captured, capture: Capture
) -> Publication | None:
    """The place of `capture` in the walk; None when it is of another observation."""
    if capture.tile != at.tile or capture.barrier not in ("", at.barrier):
        return None
    if (capture.data.ndim == 2) != isinstance(at, TmemObservation):
        return None
    barrier, parts = plan.barrier(at.barrier), parts_of(at)
    number, part = divmod(capture.phase * barrier.stages + capture.stage, parts)
    problem, cluster = plan.problem, plan.cluster_of(capture.cta)
    group = problem.group_at(inputs, tiling_of(plan), cluster)
    k_block = number if barrier.per_k_block else None
    walked = problem.walks(at.stage)
    rank = capture.cluster_rank
    cta = None if at.stage in plan.cluster_wide else rank
    return Publication(TileCoord(group, cta, k_block if walked else None), part, k_block, rank)


def captured_tiles(
    plan: KernelPlan, inputs: ProblemInputs, captures: Iterable[Capture], build: str
) -> tuple[list[StageTile], list[Finding]]:
    """Every tile that is observed in tensor or shared memory; what was never published is unwritten."""
    empty: dict[tuple[str, TileCoord], StageTile] = {}
    places: Places = {}
    if not captured(plan):
        return [], []
    problem, tiling = plan.problem, tiling_of(plan)
    stages = {at.stage: at for at in captured(plan)}
    for stage, at in stages.items():
        for group in problem.groups(inputs, tiling):
            if not problem.walks(stage) and not problem.k_blocks(inputs, tiling, group):
                continue  # nothing is ever published
            for coord in coordinates(problem, inputs, tiling, stage, group):
                rows, cols = region(problem, inputs, tiling, stage, coord)
                empty[stage, coord] = _unwritten(plan, at, coord, rows, cols, places)
    findings: list[Finding] = []
    by_tile: dict[str, list[Capture]] = {}
    for capture in captures:
        by_tile.setdefault(capture.tile, []).append(capture)
    for at in captured(plan):
        terms: dict[tuple[str, TileCoord, int], dict[int, tuple[Capture, Publication]]] = {}
        for capture in by_tile.get(at.tile, ()):
            place = publication(plan, inputs, at, capture)
            if place is None:
                continue
            last = problem.k_blocks(inputs, tiling, place.coord.group) - 1
            if place.k_block is not None and place.k_block > last:
                coord = replace(place.coord, k_block=place.k_block)
                findings.append(_surplus(plan, at, coord, last + 1, build))
                continue
            if place.coord.k_block is None and place.k_block not in (None, last):
                continue  # a part of the sum: `observe.partial`
            if isinstance(at, TmemObservation) and at.summed:
                terms.setdefault((at.stage, place.coord, place.part), {})[place.rank] = capture, place
            else:
                fill(plan, at, capture, place, empty[at.stage, place.coord])
        for (stage, coord, _), shown in terms.items():
            if len(shown) == plan.cluster:
                _fill_sum(plan, at, [shown[rank] for rank in sorted(shown)], empty[stage, coord])
    return list(empty.values()), findings


def _unwritten(
    plan: KernelPlan, at: Captured, coord: TileCoord, rows: slice, cols: slice, places: Places
) -> StageTile:
    shape = rows.stop - rows.start, cols.stop - cols.start
    written = np.zeros(shape, bool)
    if isinstance(at, SmemObservation):
        place = plan.smem_tile(at.tile)
        smem = _smem_cells_of(at, place, shape, coord.cta or 0, (coord.k_block or 0) % place.stages)
        value = np.zeros(shape, DTYPES[place.dtype])
        return StageTile(at.stage, coord, rows, cols, value, written, smem=smem, operand=place.dtype != "f32")
    key = (at.stage, coord.k_block, shape)
    if key not in places:
        places[key] = places_in_tmem(plan, captured(plan), at.stage, coord.k_block, shape)
    lane, column = places[key]
    dtype = plan.tmem_tile(at.tile).dtype
    value = np.zeros(shape, DTYPES[dtype])
    return StageTile(at.stage, coord, rows, cols, value, written, lane, column, operand=dtype != "f32")


def places_in_tmem(
    plan: KernelPlan, seen: Iterable[Captured], stage: str, k_block: int | None, shape: tuple[int, int]
) -> tuple[Cells, Cells]:
    """(lane, column) of each element of a stage's tile in tensor memory, which the observations show."""
    lane, column = (np.zeros(shape, np.int64) for _ in range(2))
    for other in seen:
        if isinstance(other, TmemObservation) and other.stage == stage:
            place_t, barrier = plan.tmem_tile(other.tile), plan.barrier(other.barrier)
            ranks = range(plan.cluster if other.rank_cols else 1)
            for part, rank in product(range(other.parts), ranks):
                number = (k_block or 0) * other.parts + part
                buffer = other.buffer_of(number % barrier.stages, place_t)
                cells, where = tmem_cells(plan, other, part, shape, rank)
                lane[:, where], column[:, where] = (
                    cells[0],
                    cells[1] // per_cell(place_t) + place_t.column + place_t.columns * buffer,
                )
    return lane, column


def tmem_cells(
    plan: KernelPlan, at: TmemObservation, part: int, shape: tuple[int, int], rank: int = 0
) -> tuple[tuple[Cells, Cells], slice]:
    """(lane, column) ``[rows, w]`` within the TMEM tile of what `part` of CTA `rank` publishes, and the
    columns it is of a stage's tile of this shape, which may end before the TMEM tile. Columns count elements
    (`per_cell`).
    """
    return _tmem_cells(at, plan.tmem_tile(at.tile), _width(plan, at), part, shape, rank)


def _width(plan: KernelPlan, at: TmemObservation) -> int:
    """Columns of the MMA that writes the tile; the operand of an MMA has one row in each lane."""
    tile = plan.tmem_tile(at.tile)
    return next((m.n for m in plan.mmas if m.d == at.tile), tile.columns * per_cell(tile))


def _tmem_cells(
    at: TmemObservation, tile: TmemTile, n: int, part: int, shape: tuple[int, int], rank: int
) -> tuple[tuple[Cells, Cells], slice]:
    lane, column = _cells(tile.layout, n, tile.lane, at.transposed)
    first = at.first_col + at.rank_cols * rank + lane.shape[1] * part
    own = slice(0, shape[0]), slice(0, max(shape[1] - first, 0))
    lane, column = lane[own], column[own]
    return (lane, column), slice(first, first + lane.shape[1])


@lru_cache
def _tmem_elements(
    at: TmemObservation, tile: TmemTile, n: int, part: int, shape: tuple[int, int], rank: int
) -> tuple[Cells, slice]:
    """As `tmem_cells`, as elements of a flat capture of the tile."""
    (lane, column), where = _tmem_cells(at, tile, n, part, shape, rank)
    return lane * (tile.columns * per_cell(tile)) + column, where


def per_cell(tile: TmemTile) -> int:
    """Elements in a cell of tensor memory, which is 32 bits."""
    return 4 // DTYPES[tile.dtype].itemsize


@lru_cache
def _cells(layout: str, n: int, first_lane: int, transposed: bool) -> tuple[Cells, Cells]:
    lane, column = tmem.cells_of_cta(layout, n, first_lane)
    return (lane.T, column.T) if transposed else (lane, column)


@lru_cache
def smem_cells(place: SmemTile, stage: int = 0) -> Cells:
    """Byte offset ``[rows, cols]`` in dynamic shared memory of each element of buffer `stage` of a tile."""
    rows, cols = np.arange(place.rows)[:, None], np.arange(place.cols)[None, :]
    eight_rows = 8 * _span(place) * DTYPES[place.dtype].itemsize
    span = smem_layout.address("K", place.swizzle, 0, LBO, eight_rows, rows, cols % _span(place))
    column_tile = place.rows * _span(place) * DTYPES[place.dtype].itemsize
    return span + cols // _span(place) * column_tile + place.offset + place.bytes * stage


def _smem_cells_of(
    at: SmemObservation, place: SmemTile, shape: tuple[int, int], rank: int, stage: int = 0
) -> Cells:
    """Those of a stage's tile of this shape, which may end before the tile in shared memory."""
    cells = smem_cells(place, stage)
    first = at.rank_rows * rank
    return (cells.T if at.transposed else cells)[first : first + shape[0], : shape[1]]


@lru_cache
def _smem_elements(at: SmemObservation, place: SmemTile, shape: tuple[int, int], rank: int) -> Cells:
    """As `_smem_cells_of`, as elements of a capture of the tile."""
    return (_smem_cells_of(at, place, shape, rank) - place.offset) // DTYPES[place.dtype].itemsize


def _span(place: SmemTile) -> int:
    """Columns of a column tile: those of one swizzle span."""
    bytes_ = {"128B": 128, "64B": 64, "32B": 32, "none": 16}[place.swizzle]
    return bytes_ // DTYPES[place.dtype].itemsize


def fill(plan: KernelPlan, at: Captured, capture: Capture, place: Publication, tile: StageTile) -> None:
    """Writes what a capture shows of a tile into it."""
    if isinstance(at, TmemObservation):
        cells, shape = plan.tmem_tile(at.tile), tile.value.shape
        elements, where = _tmem_elements(at, cells, _width(plan, at), place.part, shape, place.rank)
        tile.value[:, where] = capture.data.view(DTYPES[cells.dtype]).take(elements)
        seen = True if capture.valid.all() else capture.valid.take(elements // per_cell(cells))
        tile.written[:, where] = seen
        return
    home = plan.smem_tile(at.tile)
    size = DTYPES[home.dtype].itemsize
    elements = _smem_elements(at, home, tile.value.shape, place.rank)
    tile.value[:] = capture.data.view(DTYPES[home.dtype]).take(elements)
    whole = capture.valid.all() or capture.valid.reshape(-1, size).all(axis=-1).take(elements)
    tile.written[:] = whole


def _fill_sum(
    plan: KernelPlan, at: Captured, terms: Sequence[tuple[Capture, Publication]], tile: StageTile
) -> None:
    """The sum of what every CTA shows, in the tile's dtype and in the order of the ranks."""
    value, written = np.zeros_like(tile.value), np.ones_like(tile.written)
    for number, (capture, place) in enumerate(terms):
        fill(plan, at, capture, place, tile)
        with np.errstate(over="ignore", invalid="ignore"):
            value = tile.value + value if number else tile.value.copy()
        written &= tile.written
    tile.value[:], tile.written[:] = value, written


def _surplus(plan: KernelPlan, at: Captured, coord: TileCoord, blocks: int, build: str) -> Finding:
    unit, block = plan.problem.unit, coord.k_block or 0
    return Finding(
        "surplus",
        f"{at.barrier} completed for a k-block that the {unit} does not have",
        problem=ProblemPlace(at.stage, build, coord.group, unit, coord.cta, coord.k_block, tile=at.tile),
        pattern="a k-block beyond the last one",
        cause=f"{at.barrier} completed {block + 1} times or more, of {blocks} for the {unit}: too many "
        "arrivals or commits, or a count that is too low",
    )
