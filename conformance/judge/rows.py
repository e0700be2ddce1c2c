"""Rows of an accumulated output (dKV): what the kernel's own tiles add up to; rows that nothing may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.drivers.capture import Output, RunResult
from tileproof.conformance.judge.compare import StageScore, honest, score
from tileproof.conformance.judge.patterns import arrangement
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.observe.observation import axes_of
from tileproof.conformance.observe.tiles import F64, Chain
from tileproof.conformance.problems.case import selected
from tileproof.kernels.launch import Launch
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask
from tileproof.spec.problems.sparse_mla_bwd.tiling import k_blocks

SCORE = "{stage} rows"
# Subnormals, which red.add flushes, NaNs with payloads, quiet and signalling, -0, -inf, 1.
CANARIES = np.array(
    [0x00000001, 0x807FFFFF, 0x7FC12345, 0x7F812345, 0x80000000, 0xFF800000, 0x3F800000], dtype=np.uint32
)

Send = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Rows:
    """One accumulated output: its sums by the kernel's own tiles, and the findings and score against them."""

    at: OutputObservation
    sums: RowSums
    findings: tuple[Finding, ...]
    score: StageScore


def accumulated(plan: KernelPlan) -> list[OutputObservation]:
    """The plan's outputs whose rows are kv's, which tiles are added to."""
    return [at for at in plan.observations if isinstance(at, OutputObservation) and axes_of(at)[0] == "s_kv"]


def canaries(shape: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """Words that any addition, even of zero, and any store would change somewhere in a row."""
    return np.resize(CANARIES, shape)


def plant_canaries(plan: KernelPlan, inputs: Inputs, launch: Launch) -> None:
    """Fills the rows of accumulated outputs that no key selects with canaries, before the launch."""
    for at in accumulated(plan):
        buffer = launch.buffers()[at.parameter]
        if buffer.array is not None:
            unselected = ~selected(inputs)
            buffer.array.view(np.uint32)[unselected] = canaries(buffer.shape)[unselected]


def judge_rows(
    plan: KernelPlan, chain: Chain, observed: RunResult, build: str, *, explain: bool = True
) -> list[Rows]:
    """Every accumulated output against the sums of the kernel's own tiles (or of its tiles' references).

    `explain` false leaves out what caused a wrong row.
    """
    return [
        _judge(plan, chain, at, observed.outputs[at.parameter], build, explain) for at in accumulated(plan)
    ]


def _judge(
    plan: KernelPlan, chain: Chain, at: OutputObservation, output: Output, build: str, explain: bool
) -> Rows:
    keys = selected(chain.inputs)
    sums = row_sums(plan, chain, at.stage)
    with np.errstate(invalid="ignore"):
        bound = sums.bound()
    infinite = bool(np.isinf(sums.value).any())
    wrong = ~(output.written & honest(output.values, sums.value, bound, infinite))
    wrong[~keys] = False
    findings = list(_touched(at, output, keys, build))
    if wrong.any():
        cause = _cause(plan, chain, at.stage, output, sums, wrong) if explain else ""
        findings.append(_wrong(at, output, sums, bound, wrong, build, cause))
    counted = score(output.values[keys], output.written[keys], sums.value[keys], bound[keys])
    return Rows(at, sums, tuple(findings), counted)


def _contributions(plan: KernelPlan, chain: Chain, stage: str) -> Iterator[tuple[TileCoord, Any, F64 | None]]:
    """Every tile of the walk: what it adds, ``[slots, d_qk]``, and its error (None: it was observed)."""
    for token in range(chain.inputs.problem.s_q):
        for k_block in range(k_blocks(chain.inputs, token, plan.b_topk)):
            for cta in range(plan.cluster):
                coord = TileCoord(token, cta, k_block)
                own = chain.observed.get((stage, coord))
                if own is not None and own.written.all():
                    yield coord, own.value, None
                else:
                    reference = chain.reference(stage, coord, *chain.region(stage, coord))
                    yield coord, reference.value, reference.bound


def row_sums(
    plan: KernelPlan,
    chain: Chain,
    stage: str,
    *,
    ctas: tuple[int, ...] | None = None,
    send: Send = lambda slots: slots,
    behind: int = 0,
) -> RowSums:
    """Sums by rows of kv over the tiles of `ctas` (all); slot j adds to the row of slot ``send(j)``.

    `behind`: the rows are those of so many k-blocks before (the first k-block's at least).
    """
    p, mask = chain.inputs.problem, key_mask(chain.inputs)
    sums = RowSums.of(p.s_kv, p.d_qk)
    for coord, value, error in _contributions(plan, chain, stage):
        if ctas is not None and coord.cta not in ctas:
            continue
        first = max((coord.k_block or 0) - behind, 0) * plan.b_topk
        index, key = (x[coord.token, first : first + plan.b_topk] for x in (chain.inputs.indices, mask))
        target = send(np.arange(plan.b_topk))
        live = key[target]
        sums.add(np.asarray(index[target][live]), value[live], None if error is None else error[live])
    return sums


def _touched(
    at: OutputObservation, output: Output, keys: npt.NDArray[np.bool_], build: str
) -> Iterator[Finding]:
    """A finding when a row that no key selects does not hold the bits that it held before the launch."""
    bits, before = output.values.view(np.uint32), canaries(output.values.shape)
    changed = (bits != before) & ~keys[:, None]
    if changed.any():
        row, column = (int(i) for i in np.argwhere(changed)[0])
        yield Finding(
            kind="surplus",
            message=f"a row of {at.parameter} that no key selects was written",
            stage=at.stage,
            build=build,
            row=row,
            column=column,
            axes=("kv row", "column"),
            wrong=int(changed.sum()),
            elements=int(changed.size),
            pattern=arrangement(changed, rows_first=0, cols_first=0, units=("row", "column")),
            cause=f"{before[row, column]:#010x} became {bits[row, column]:#010x}: an added zero flushes "
            "subnormals and quiets NaNs",
        )


def _wrong(
    at: OutputObservation,
    output: Output,
    sums: RowSums,
    bound: F64,
    wrong: npt.NDArray[np.bool_],
    build: str,
    cause: str,
) -> Finding:
    row, column = (int(i) for i in np.argwhere(wrong)[0])
    return Finding(
        kind="value",
        message=f"rows of {at.parameter} are not the sums of the kernel's own {at.stage} tiles",
        stage=at.stage,
        build=build,
        row=row,
        column=column,
        axes=("kv row", "column"),
        expected=float(sums.value[row, column]),
        found=float(output.values[row, column]),
        bound=float(bound[row, column]),
        wrong=int(wrong.sum()),
        elements=int(wrong.size),
        pattern=arrangement(wrong, rows_first=0, cols_first=0, units=("row", "column")),
        cause=cause,
    )


def _cause(
    plan: KernelPlan,
    chain: Chain,
    stage: str,
    output: Output,
    sums: RowSums,
    wrong: npt.NDArray[np.bool_],
) -> str:
    """Which known mistake of a scatter gives the values found in every wrong row."""
    with np.errstate(invalid="ignore"):  # signalling NaNs among the canaries
        found = output.values.astype(np.float64)
    if not found[wrong].any():
        return "nothing was added there"
    columns = np.flatnonzero(wrong.any(axis=0))
    rows = selected(chain.inputs)
    for words, value, bound in _suspects(plan, chain, stage, sums):
        with np.errstate(invalid="ignore"):
            fits = np.abs(found - value) <= bound
        if fits[np.ix_(rows, columns)].all():
            return words
    return ""


def _suspects(plan: KernelPlan, chain: Chain, stage: str, sums: RowSums) -> Iterator[tuple[str, F64, F64]]:
    yield "every contribution was added twice", 2 * sums.value, 4 * sums.bound() + 1e-45
    for cta in range(plan.cluster):
        alone = row_sums(plan, chain, stage, ctas=(cta,))
        yield f"only CTA {cta} added its heads' contributions", alone.value, alone.bound()
    late = row_sums(plan, chain, stage, behind=1)
    yield "each tile was added to the rows of the k-block before it", late.value, late.bound()
    size = plan.b_topk
    moves: Mapping[str, Send] = {
        "slot j's contribution went to the row of slot j XOR 1": lambda j: j ^ 1,
        "slot j's contribution went to the row of slot j + 1": lambda j: (j + 1) % size,
        "slot j's contribution went to the row of slot j - 1": lambda j: (j - 1) % size,
        "the halves of the tile's rows are swapped": lambda j: (j + size // 2) % size,
        "the second half of the tile went to the rows of the first": lambda j: j % (size // 2),
    }
    for words, send in moves.items():
        moved = row_sums(plan, chain, stage, send=send)
        yield words, moved.value, moved.bound()
