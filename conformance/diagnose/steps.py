"""The wrong steps of a sum of products: missing, doubled, negated, or added to a previous value.

A stage's products are recorded from its own formula, so that sums over keys and sums of several products are
read alike. A step is what one MMA multiplies: 16 of the summed axis. How often each step was counted is
solved for, by least squares over the tile, and judged like everything else, within the bound of the stage;
with them how often other tiles were, which an accumulator may have held before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region, holds
from tileproof.conformance.diagnose.faults import K_STEP
from tileproof.conformance.observe.tiles import Chain, Reference
from tileproof.spec import numerics
from tileproof.spec.arithmetic import Form
from tileproof.spec.arithmetic.exact import Exact
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine.types import Array, Index
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.faults import F64, WrongTile

SAMPLE = 4096  # elements that counts are solved for
SHOWN = 4
MAX_TIMES = 64  # times that a step is counted: each lane of a warp may have issued it
THIS = "this tile"
_COUNTS = {0: "is missing", 2: "was added twice", -1: "was subtracted", 3: "was added three times"}


@dataclass(frozen=True)
class Term:
    """One product of a stage: a ``[rows, K]`` times b ``[K, cols]``, added to the first `cols` columns.

    `names` are the operands', `axis` what one of K is called, `walked` whether K is walked in k-blocks.
    """

    a: F64
    b: F64
    names: tuple[str, str]
    axis: str
    walked: bool

    @property
    def title(self) -> str:
        """The product in words."""
        return " ".join(self.names)


class _Recorder(Exact):
    """Float64, and what was multiplied."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = iter(names)
        self._known: list[tuple[Array, str]] = []
        self.products: list[tuple[F64, F64, tuple[str, str]]] = []

    def _called(self, term: Array) -> str:
        return next((name for known, name in self._known if known is term), "")

    def read(self, form: Form, x: npt.ArrayLike | Bounded) -> Array:
        term = super().read(form, x.value if isinstance(x, Bounded) else x)
        self._known.append((term, next(self._names)))
        return term

    def transpose(self, a: F64) -> F64:
        turned = self.operation("transpose")(a)
        self._known.append((turned, self._called(a)))
        return turned

    def matmul(self, a: F64, b: F64) -> F64:
        self.products.append((a, b, (self._called(a), self._called(b))))
        return self.operation("matmul")(a, b)

    def accumulate(self, total: F64, a: F64, b: F64) -> F64:
        self.products.append((a, b, (self._called(a), self._called(b))))
        return self.operation("accumulate")(total, a, b)


def terms(chain: Chain, name: str, reference: Reference) -> list[Term]:
    """The products whose sum is a stage's tile; empty if it is not such a sum."""
    stage, problem = chain.stage(name), chain.problem
    if stage.kind not in ("matmul", "accumulate", "scatter"):
        return []
    recorder = _Recorder(stage.inputs)
    with np.errstate(invalid="ignore", over="ignore"):
        total = stage.over(recorder, dict(reference.operands)).value
        width = total.shape[1]
        summed = np.zeros_like(total)
        found = []
        for a, b, names in recorder.products:
            summed[:, : b.shape[1]] += a @ b
            axes = set(stage.axes.get(names[0], ())) & set(stage.axes.get(names[1], ()))
            axis = next(iter(axes), "")
            wide = np.zeros((b.shape[0], width))
            wide[:, : b.shape[1]] = b
            found.append(Term(a, wide, names, problem.words.get(axis, "column"), axis == problem.walked))
        right = np.allclose(summed, total, rtol=1e-9, atol=0, equal_nan=True)
    return found if right else []


@dataclass(frozen=True)
class ProductStep:
    """What one MMA of a product multiplies: the elements `at` of the summed axis."""

    term: Term
    at: slice

    @property
    def value(self) -> F64:
        """What it adds to the tile."""
        return self.term.a[:, self.at] @ self.term.b[self.at]


def _steps(found: list[Term]) -> list[ProductStep]:
    return [
        ProductStep(term, slice(k, min(k + K_STEP, term.a.shape[1])))
        for term in found
        for k in range(0, term.a.shape[1], K_STEP)
    ]


@dataclass(frozen=True)
class Deviation:
    """What a tile of a sum of products has too much, and how much of that the bounds allow."""

    steps: tuple[ProductStep, ...]
    residual: F64
    slack: F64
    block: int
    ctas: int
    before: tuple[tuple[str, F64], ...] = ()
    inputs: ProblemInputs = None

    @staticmethod
    def of(chain: Chain, tile: WrongTile, reference: Reference) -> Deviation:
        """Empty if the stage is not a sum of products."""
        with np.errstate(invalid="ignore"):
            residual = tile.found - reference.value
            slack = reference.bound + _rounding(tile.copy) * (np.abs(tile.found) + np.abs(reference.value))
        steps = _steps(terms(chain, tile.stage, reference))
        own = np.where(tile.wrong.any(axis=0), np.nan, tile.found)
        before = (*_before(chain, tile), (THIS, own)) if steps else ()
        return Deviation(
            tuple(steps), residual, slack, chain.tiling.block, chain.tiling.ctas, before, chain.inputs
        )

    def counted(self, region: Region) -> str:
        """How often each step was counted, in words, when that explains the region; else ""."""
        at = np.ix_(*region)
        return _counted(self, region, at) if self.usable(at) else ""

    def held(self, region: Region) -> Iterator[tuple[str, F64]]:
        """What the accumulator of a region may have held before: the same columns of other tiles, or other
        columns of those and of this one that are right.
        """
        rows, cols = region
        width, end = cols.size, self.residual.shape[1]
        whole = bool(width) and cols[-1] - cols[0] + 1 == width
        for name, value in self.before:
            for first in (
                range(cols[0] % width, end - width + 1, width) if whole and width < end else (cols[0],)
            ):
                part = value[np.ix_(rows, cols - cols[0] + first)]
                if np.isfinite(part).all():
                    where = "" if first == cols[0] else f"columns {first}..{first + width - 1} of "
                    yield f"{where}{name}", part

    def usable(self, at: Index) -> bool:
        """Whether the stage is a sum of products, and known there."""
        whole = (self.residual[at], self.slack[at])
        return bool(self.steps) and all(np.isfinite(array).all() for array in whole)


def _rounding(copied: bool) -> float:
    """What one more rounding of a sum of other terms may add, relative to it."""
    return numerics.U_BF16 if copied else numerics.gamma(64, numerics.U_F32_RZ)


def _before(chain: Chain, tile: WrongTile) -> Iterator[tuple[str, F64]]:
    """The other tiles of the group that have the tile's shape, as the kernel had them: what an accumulator
    may have held before. A wrong tile may have the same cause and is excluded.
    """
    for (name, coord), other in chain.own_tiles.items():
        here = (coord.group, coord.cta) == (tile.coord.group, tile.coord.cta)
        if not here or (name, coord) == (tile.stage, tile.coord) or other.operand:
            continue
        value = other.value.astype(np.float64)
        if value.shape == tile.found.shape and other.written.all() and np.isfinite(value).all():
            right = chain.reference(name, coord, other.rows, other.cols)
            if holds(value, right.value, right.bound):
                yield f"{name}{'' if coord.k_block is None else f' of k-block {coord.k_block}'}", value


def _counted(deviation: Deviation, region: Region, at: Index) -> str:
    steps = deviation.steps
    values = [step.value[at] for step in steps]
    if not all(np.isfinite(value).all() for value in values):
        return ""
    before = list(deviation.held(region))
    values += [value for _, value in before]
    wanted = deviation.residual[at].ravel()
    matrix = np.stack([value.ravel() for value in values], axis=1)
    live = np.flatnonzero(np.abs(matrix).max(axis=0) > 0)
    if live.size == 0 or matrix.shape[0] < 2 * live.size:
        return ""
    every = max(1, matrix.shape[0] // SAMPLE)
    used = np.flatnonzero(np.abs(matrix).sum(axis=1) > 0)[::every]
    weight = 1 / np.abs(matrix[used]).sum(axis=1)
    scaled = matrix[used][:, live] * weight[:, None]
    solved = np.linalg.lstsq(scaled, wanted[used] * weight, rcond=None)[0]
    counts = np.zeros(len(values), int)
    if not np.isfinite(solved).all():
        return ""
    counts[live] = np.rint(np.clip(solved, -MAX_TIMES, MAX_TIMES)).astype(int)
    allowed = deviation.slack[at].ravel() + 64 * numerics.U_F64 * np.abs(matrix).sum(axis=1)
    held = counts[len(steps) :]
    allowed += numerics.gamma(4, numerics.U_F32_RZ) * (np.abs(matrix[:, len(steps) :]) @ np.abs(held))
    if not counts.any() or (np.abs(wanted - matrix @ counts) > allowed).any():
        return ""
    mistakes = []
    if held.any():
        # Where keys repeat, tiles that are wrong in the same way are alike.
        if held.min() < 0 or held.max() > 1 or (counts[: len(steps)] == -1).all():
            return ""
        names = " and ".join(name for (name, _), c in zip(before, held, strict=True) if c)
        mistakes.append(f"{names} was added: the accumulator was not cleared")
    counts = counts[: len(steps)]
    for count in sorted(set(counts[counts != 0].tolist())):
        how = _COUNTS.get(1 + count, f"was counted {1 + count} times")
        for title, term in {step.term.title: step.term for step in steps}.items():
            own = [step for step, c in zip(steps, counts, strict=True) if c == count and step.term is term]
            if own:
                mistakes.append(f"the contribution of {runs_of(own)} to {title} {how}")
    return "; ".join(mistakes[:SHOWN]) + (
        "" if held.any() else _cleared(deviation, counts.tolist(), set(live.tolist()))
    )


def _cleared(deviation: Deviation, counts: list[int], live: set[int]) -> str:
    """Words where all that is missing comes before one step, or one step of each CTA's share. `live`: the
    steps that add something there.
    """
    if {counts[n] for n in live if n < len(counts)} != {0, -1}:
        return ""
    words = ""
    for term in {id(step.term): step.term for step in deviation.steps}.values():
        gone = [count < 0 for step, count in zip(deviation.steps, counts, strict=True) if step.term is term]
        if len(set(gone)) == 1:
            continue  # a product as a whole
        lengths = (_first_gone(gone, shares) for shares in dict.fromkeys((1, deviation.ctas)))
        count = next(filter(None, lengths), 0)
        if words or not count:
            return ""
        first = K_STEP * count
        words = f", as if the step of {term.axis}s {first}..{first + K_STEP - 1} had cleared the sum"
    return words


def _first_gone(gone: list[bool], shares: int) -> int:
    """How many of the first steps of each share are gone, and no later one; 0 for none, one, or others."""
    whole = len(gone) if shares == 1 else 1 << len(gone).bit_length() - 1
    parts = np.array(gone[:whole]).reshape(shares, -1)
    count = int(parts[0].sum())
    same = (parts == parts[0]).all() and len(set(gone[whole:])) < 2
    return count if same and 1 < count < parts.shape[1] and parts[0, :count].all() else 0


def runs_of(steps: list[ProductStep]) -> str:
    """The elements of the summed axis that the steps multiply, in words."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][1] == step.at.start:
            runs[-1][1] = step.at.stop
        else:
            runs.append([step.at.start, step.at.stop])
    more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
    text = ", ".join(f"{low}..{high - 1}" for low, high in runs[:SHOWN])
    return f"{steps[0].term.axis}s {text}{more}"
