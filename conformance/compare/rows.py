"""Rows of an accumulated output: what the kernel's own tiles add up to; rows that nothing may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.additions import explain_additions
from tileproof.conformance.compare.compare import StageScore, score, within_bound
from tileproof.conformance.compare.patterns import arrangement
from tileproof.conformance.compare.scattered import Contribution, explain_scatter
from tileproof.conformance.observe.observation import axes_of
from tileproof.conformance.observe.tiles import F64, Chain
from tileproof.kernels.launch.contents import Filled, PatternRows
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.lazy import LAZY_BYTES
from tileproof.spec.machine.run_result import PAGE_BYTES, Output, RunResult, rows_in_pages
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, TileCoord, TileRows, added_rows, tiling_of
from tileproof.spec.problems.cases import ProblemInputs

SCORE = "{stage} rows"
# Subnormals, which red.add flushes, NaNs with payloads, quiet and signalling, -0, -inf, 1.
CANARIES = np.array(
    [0x00000001, 0x807FFFFF, 0x7FC12345, 0x7F812345, 0x80000000, 0xFF800000, 0x3F800000], dtype=np.uint32
)

PARTS = (256, 128, 64, 32)  # columns of a part of a tile, one of two

I64 = npt.NDArray[np.int64]
Send = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Rows:
    """One accumulated output: its sums by the kernel's own tiles, and the findings and score against them."""

    at: OutputObservation
    output: Output
    sums: RowSums
    findings: tuple[Finding, ...]
    score: StageScore


def accumulated(plan: KernelPlan) -> list[OutputObservation]:
    """The plan's outputs whose rows tiles are added to."""
    stages = plan.problem.stages
    return [
        at
        for at in plan.observations
        if isinstance(at, OutputObservation) and tuple(axes_of(at)) == stages[at.stage].output
    ]


def canaries(rows: I64, columns: int) -> npt.NDArray[np.uint32]:
    """Words for these rows of an output that any addition, even of zero, and any store would change somewhere
    in a row.
    """
    repeated = np.resize(CANARIES, columns + CANARIES.size)
    by_phase = np.stack([repeated[n : n + columns] for n in range(CANARIES.size)])
    return np.asarray(by_phase[rows * columns % CANARIES.size])


def watched(keys: I64, count: int, row_bytes: int) -> I64:
    """The rows that hold canaries: those to which no tile is added, `keys` being the others of `count` rows.

    Of a large output only those that share a page with a row of `keys`: the driver shows the pages that were
    stored to, so that any store to another page is seen without reading it.
    """
    if count * row_bytes < LAZY_BYTES:
        near = np.arange(count)
    else:
        ends = keys * row_bytes, (keys + 1) * row_bytes - 1
        near = rows_in_pages(np.unique(np.concatenate(ends) // PAGE_BYTES), row_bytes, count)
    return np.setdiff1d(near, keys, assume_unique=True)


def plant_canaries(plan: KernelPlan, inputs: ProblemInputs, launch: LaunchFile) -> LaunchFile:
    """The launch with canaries in the rows of accumulated outputs that no tile is added to; those that the
    kernel's own host code clears keep their zeros.
    """
    for at in accumulated(plan):
        buffer = launch.buffer(at.parameter)
        if buffer.content == Filled(0) and not at.cleared:
            count = buffer.shape[0]
            keys = added_rows(plan.problem, inputs, tiling_of(plan), at.stage)
            rows = watched(keys, count, buffer.bytes // count)
            content = PatternRows(tuple(rows.tolist()), CANARIES.tobytes())
            launch = launch.with_content(at.parameter, content)
    return launch


def judge_rows(
    plan: KernelPlan,
    chain: Chain,
    run_result: RunResult,
    build: str,
    *,
    explain: bool = True,
    judged: Sequence[Rows] = (),
) -> list[Rows]:
    """Every accumulated output against the sums of the kernel's own tiles (or of its tiles' references).

    `explain` false leaves out what caused a wrong row. `judged`: the outputs of another build on the same
    inputs; an output with the same bits is judged with it.
    """
    found = []
    for at in accumulated(plan):
        output = run_result.outputs[at.parameter]
        same = (rows for rows in judged if rows.at == at and _same(rows.output, output))
        found.append(next(same, None) or _judge(chain, at, output, build, explain))
    return found


def _same(before: Output, now: Output) -> bool:
    """Whether both have the same bits and marks, and launches stored to the same pages."""
    if before.stored is None or now.stored is None:
        pages = before.stored is None and now.stored is None
    else:
        pages = np.array_equal(before.stored, now.stored)
    return pages and before.same_bits(now, before.rows_stored())


def _judge(chain: Chain, at: OutputObservation, output: Output, build: str, explain: bool) -> Rows:
    sums = row_sums(chain, at.stage)
    with np.errstate(invalid="ignore"):
        bound = sums.bound()
    infinite = bool(np.isinf(sums.value).any())
    found, written = output.values[sums.rows], output.written[sums.rows]
    wrong = ~(written & within_bound(found, sums.value, bound, infinite))
    findings = list(_written_elsewhere(chain.problem, at, output, sums.rows, build))
    if wrong.any():
        cause = _cause(chain, at.stage, found, sums, wrong) if explain else ""
        findings.append(
            _wrong(chain.problem, at, found, sums, bound, wrong, build, cause, len(output.values))
        )
    return Rows(at, output, sums, tuple(findings), score(found, written, sums.value, bound))


def _contributions(chain: Chain, stage: str) -> Iterator[tuple[TileCoord, F64, F64 | None]]:
    """Every tile of the walk: what it adds, and its error (None: it was observed)."""
    for group in chain.problem.groups(chain.inputs, chain.tiling):
        for coord in chain.coordinates(stage, group):
            own = chain.own_tiles.get((stage, coord))
            if own is not None and own.written.all():
                yield coord, own.value, None
            else:
                reference = chain.reference(stage, coord, *chain.region(stage, coord))
                yield coord, reference.value, reference.bound


def row_sums(
    chain: Chain,
    stage: str,
    *,
    ctas: tuple[int, ...] | None = None,
    send: Send = lambda slots: slots,
    behind: int = 0,
) -> RowSums:
    """Sums by rows of the output over the tiles of `ctas` (all); tile row j adds to the row of tile row
    ``send(j)``.

    `behind`: the rows are those of so many k-blocks before (the first k-block's at least).
    """
    rows = added_rows(chain.problem, chain.inputs, chain.tiling, stage)
    sums = RowSums.of(rows, chain.problem.size(chain.inputs, chain.stage(stage).output[1]))
    for coord, value, error in _contributions(chain, stage):
        if ctas is not None and coord.cta not in ctas:
            continue
        index, key = _rows_of(chain, stage, coord, behind)
        count = len(value)
        if behind and len(index) < count:  # the tile before is shorter
            index, key = _rows_of(chain, stage, coord)
        target = np.minimum(send(np.arange(count)), count - 1)
        live = key[target]
        sums.add(np.asarray(index[target][live]), value[live], None if error is None else error[live])
    return sums


def _rows_of(chain: Chain, stage: str, coord: TileCoord, behind: int = 0) -> TileRows:
    """The rows of the output that a tile is added to, and which of its rows are added at all; `behind`: of
    the tile so many k-blocks before (the first k-block's at least).
    """
    there = replace(coord, k_block=max((coord.k_block or 0) - behind, 0))
    span = chain.region(stage, there)[0]
    first = chain.extent(coord.group, chain.stage(stage).tile[0]).start
    index, live = chain.problem.rows(chain.inputs, chain.tiling, coord.group, stage)
    own = slice(span.start - first, span.stop - first)
    return index[own], live[own]


def _written_elsewhere(
    problem: ProblemType, at: OutputObservation, output: Output, keys: I64, build: str
) -> Iterator[Finding]:
    """A finding when a row that no tile is added to does not hold the bits that it held before the launch, or
    a page was stored to that holds no row of `keys`.
    """
    count, columns = output.values.shape
    held = watched(keys, count, output.values.itemsize * columns)
    others = np.setdiff1d(output.rows_stored(), keys, assume_unique=True)
    bits, before = output.values[others].view(np.uint32), np.zeros((others.size, columns), np.uint32)
    planted = np.isin(others, held, assume_unique=True)
    if not at.cleared:
        before[planted] = canaries(others[planted], columns)
    changed = bits != before
    seen = output.stored is not None and not at.cleared
    zeros = ~planted if seen else np.zeros(others.size, bool)
    if not (changed.any() or zeros.any()):
        return
    place, column = (int(i) for i in np.argwhere(changed if changed.any() else zeros[:, None])[0])
    yield Finding(
        "surplus",
        f"a row of {at.parameter} that {problem.unselected} was written",
        problem=_row_place(problem, at, build, int(others[place]), column),
        wrong=int(changed.sum()),
        elements=count * columns,
        pattern=arrangement(
            changed,
            rows_first=0,
            cols_first=0,
            units=("row", "column"),
            part=problem.fault_hypotheses.part,
            numbers=others,
            count=count,
        )
        if changed.any()
        else "zeros were stored or added to it",
        cause=f"{before[place, column]:#010x} became {bits[place, column]:#010x}"
        + ("" if at.cleared else ": an added zero flushes subnormals and quiets NaNs"),
    )


def _row_place(
    problem: ProblemType, at: OutputObservation, build: str, row: int, column: int
) -> ProblemPlace:
    axes = (problem.words.get(axes_of(at)[0], "row"), "column")
    return ProblemPlace(at.stage, build, row=row, column=column, axes=axes, tile=at.parameter)


def _wrong(
    problem: ProblemType,
    at: OutputObservation,
    found: Array,
    sums: RowSums,
    bound: F64,
    wrong: npt.NDArray[np.bool_],
    build: str,
    cause: str,
    count: int,
) -> Finding:
    row, column = (int(i) for i in np.argwhere(wrong)[0])
    return Finding(
        "value",
        f"rows of {at.parameter} are not the sums of the kernel's own {at.stage} tiles",
        problem=_row_place(problem, at, build, int(sums.rows[row]), column),
        expected=float(sums.value[row, column]),
        found=float(found[row, column]),
        bound=float(bound[row, column]),
        wrong=int(wrong.sum()),
        elements=count * wrong.shape[1],
        pattern=arrangement(
            wrong,
            rows_first=0,
            cols_first=0,
            units=("row", "column"),
            part=problem.fault_hypotheses.part,
            numbers=sums.rows,
            count=count,
        ),
        cause=cause,
    )


def _cause(
    chain: Chain,
    stage: str,
    values: Array,
    sums: RowSums,
    wrong: npt.NDArray[np.bool_],
) -> str:
    """Which known mistake of a scatter gives the values found in every wrong row."""
    with np.errstate(invalid="ignore"):  # signalling NaNs among the canaries
        found = values.astype(np.float64)
    if not found[wrong].any():
        return "nothing was added there"
    columns = np.flatnonzero(wrong.any(axis=0))
    for words, value, bound in _scatter_faults(chain, stage, sums):
        with np.errstate(invalid="ignore"):
            fits = np.abs(found - value) <= bound
        if fits[:, columns].all():
            return words
    word = chain.problem.words.get(chain.problem.walked, "row")
    with np.errstate(invalid="ignore"):
        residual, bound, own = found - sums.value, sums.bound(), _of_rows(chain, stage, sums.rows)
    return explain_scatter(own, residual, bound, wrong, word) or explain_additions(
        own, residual, bound, wrong, word
    )


def _of_rows(chain: Chain, stage: str, rows: I64) -> list[Contribution]:
    """What each tile row adds, and to which of `rows`, by place."""
    found = []
    for coord, value, _ in _contributions(chain, stage):
        index, live = _rows_of(chain, stage, coord)
        found += [
            Contribution(
                slot,
                int(np.searchsorted(rows, index[slot])) if live[slot] else -1,
                value[slot].astype(np.float64),
            )
            for slot in range(len(index))
        ]
    return found


def _scatter_faults(chain: Chain, stage: str, sums: RowSums) -> Iterator[tuple[str, F64, F64]]:
    yield "every contribution was added twice", 2 * sums.value, 4 * sums.bound() + 1e-45
    words = chain.problem.words
    part = f"{words.get(chain.problem.shared[0], 'part')}s'" if chain.problem.shared else "own"
    for cta in range(chain.tiling.ctas) if chain.tiling.ctas > 1 else ():
        alone = row_sums(chain, stage, ctas=(cta,))
        yield f"only CTA {cta} added its {part} contributions", alone.value, alone.bound()
    late = row_sums(chain, stage, behind=1)
    yield "each tile was added to the rows of the previous k-block", late.value, late.bound()
    size = chain.tiling.block
    row = words.get(chain.problem.walked, "row")
    moves: Mapping[str, Send] = {
        f"{row} j's contribution went to the row of {row} j XOR 1": lambda j: j ^ 1,
        f"{row} j's contribution went to the row of {row} j + 1": lambda j: (j + 1) % size,
        f"{row} j's contribution went to the row of {row} j - 1": lambda j: (j - 1) % size,
        "the halves of the tile's rows are swapped": lambda j: (j + size // 2) % size,
        "the second half of the tile went to the rows of the first": lambda j: j % (size // 2),
    }
    for cause, send in moves.items():
        moved = row_sums(chain, stage, send=send)
        yield cause, moved.value, moved.bound()
    yield from other_columns(sums)


def other_columns(sums: RowSums) -> Iterator[tuple[str, F64, F64]]:
    """Of every 2 w columns the second w were added to the first, or the first to the second: what a part of a
    tile adds went to the columns of another part.
    """
    length = sums.value.shape[1]
    for width in PARTS:
        columns = length // (2 * width) * 2 * width
        first = np.arange(columns).reshape(-1, 2, width)[:, 0].ravel()
        parts = (("first", first), ("second", first + width)) if columns else ()
        for (into, to), (words, source) in (parts, parts[::-1]) if parts else ():
            moved = sums.moved(source, to)
            what = f"of every {2 * width} columns the {words} {width} were added to the {into}"
            yield what, moved.value, moved.bound()
