"""Which steps of a sum of products went wrong: left out, doubled, negated, or made from other operands.

A stage's products are recorded from its own formula, so that sums over keys and sums of several products are
read alike. A step is what one MMA multiplies: 16 of the summed axis. Two things are solved for, and judged
like everything else, within the bound of the stage:

- how often each step was counted: least squares over the tile;
- what a step's operand was, when all that is wrong lies in the space that the other operand spans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region, holds
from tileproof.conformance.diagnose.faults import K_STEP
from tileproof.conformance.diagnose.lying import lying
from tileproof.conformance.observe.tiles import Chain, Reference
from tileproof.spec import numerics
from tileproof.spec.arithmetic import Form
from tileproof.spec.arithmetic.exact import Exact
from tileproof.spec.problems.faults import F64, WrongTile

SAMPLE = 4096  # elements that counts are solved for
SPARE = 4  # different columns more than a step's space has dimensions, for it to say something
SHOWN = 4
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
        self._known: list[tuple[Any, str]] = []
        self.products: list[tuple[F64, F64, tuple[str, str]]] = []

    def _called(self, term: Any) -> str:
        return next((name for known, name in self._known if known is term), "")

    def read(self, form: Form, x: Any) -> Any:
        term = super().read(form, x.value if hasattr(x, "errors") else x)
        self._known.append((term, next(self._names)))
        return term

    def transpose(self, a: F64) -> F64:
        turned = super().transpose(a)
        self._known.append((turned, self._called(a)))
        return turned

    def matmul(self, a: F64, b: F64) -> F64:
        self.products.append((a, b, (self._called(a), self._called(b))))
        return super().matmul(a, b)

    def accumulate(self, total: F64, a: F64, b: F64) -> F64:
        self.products.append((a, b, (self._called(a), self._called(b))))
        return super().accumulate(total, a, b)


def terms(chain: Chain, name: str, reference: Reference) -> list[Term]:
    """The products that a stage's tile is the sum of; empty where it is not one."""
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
class _Step:
    term: Term
    at: slice

    @property
    def value(self) -> F64:
        return self.term.a[:, self.at] @ self.term.b[self.at]

    @property
    def where(self) -> str:
        return f"{self.term.axis}s {self.at.start}..{self.at.stop - 1}"


def _steps(found: list[Term]) -> list[_Step]:
    return [
        _Step(term, slice(k, min(k + K_STEP, term.a.shape[1])))
        for term in found
        for k in range(0, term.a.shape[1], K_STEP)
    ]


@dataclass(frozen=True)
class Deviation:
    """What a tile of a sum of products has too much, and how much of that the bounds allow."""

    steps: tuple[_Step, ...]
    residual: F64
    slack: F64
    block: int
    ctas: int
    before: tuple[tuple[str, F64], ...] = ()
    inputs: Any = None

    @staticmethod
    def of(chain: Chain, tile: WrongTile, reference: Reference) -> Deviation:
        """Without steps where the stage is no sum of products."""
        with np.errstate(invalid="ignore"):
            residual = tile.found - reference.value
            slack = reference.bound + _rounding(tile.copy) * (np.abs(tile.found) + np.abs(reference.value))
        steps = _steps(terms(chain, tile.stage, reference))
        before = tuple(_before(chain, tile)) if steps else ()
        return Deviation(
            tuple(steps), residual, slack, chain.tiling.block, chain.tiling.ctas, before, chain.inputs
        )

    def counted(self, region: Region) -> str:
        """How often each step was counted, in words, when that explains the region; else ""."""
        at = np.ix_(*region)
        return _counted(self, at) if self._usable(at) else ""

    def replaced(self, region: Region) -> str:
        """Which step had another operand, in words, when that explains the region; else ""."""
        if not self._usable(np.ix_(*region)):
            return ""
        return _replaced(self, region) or ("" if self.ctas == 1 else self._by_share(region))

    def _by_share(self, region: Region) -> str:
        """The same where each CTA has its share of the tile's columns, and an operand of its own."""
        told = []
        for share in _shares(self.residual.shape[1], self.ctas):
            part = region[0], np.intersect1d(region[1], share)
            at = np.ix_(*part)
            if (np.abs(self.residual[at]) > self.slack[at]).any():
                told.append(_replaced(self, part))
        return "; in other columns ".join(dict.fromkeys(told)) if all(told) else ""

    def _usable(self, at: Any) -> bool:
        whole = (self.residual[at], self.slack[at])
        return bool(self.steps) and all(np.isfinite(one).all() for one in whole)


def _shares(length: int, ctas: int) -> Iterator[npt.NDArray[np.int64]]:
    """Each CTA's columns of so many; those beyond a power of two are shared out by themselves."""
    whole = 1 << length.bit_length() - 1
    low, high = (np.arange(*ends).reshape(ctas, -1) for ends in ((0, whole), (whole, length)))
    yield from np.concatenate([low, high], axis=1)


def _rounding(copied: bool) -> float:
    """What one more rounding of a sum of other terms may add, relative to it."""
    return numerics.U_BF16 if copied else numerics.gamma(64, numerics.U_F32_RZ)


def _before(chain: Chain, tile: WrongTile) -> Iterator[tuple[str, F64]]:
    """The other tiles of the group that have the tile's shape, as the kernel had them: what an accumulator
    may have held before. One that is wrong may be so for the same reason, and is none.
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


def _counted(deviation: Deviation, at: Any) -> str:
    steps = deviation.steps
    values = [step.value[at] for step in steps]
    if not all(np.isfinite(value).all() for value in values):
        return ""
    values += [value[at] for _, value in deviation.before]
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
    counts[live] = np.rint(np.clip(solved, -9, 9)).astype(int)
    allowed = deviation.slack[at].ravel() + 64 * numerics.U_F64 * np.abs(matrix).sum(axis=1)
    held = counts[len(steps) :]
    allowed += numerics.gamma(4, numerics.U_F32_RZ) * (np.abs(matrix[:, len(steps) :]) @ np.abs(held))
    if not counts.any() or (np.abs(wanted - matrix @ counts) > allowed).any():
        return ""
    told = []
    if held.any():
        # Where keys repeat, tiles that are wrong in the same way are alike.
        if held.min() < 0 or held.max() > 1 or (counts[: len(steps)] == -1).all():
            return ""
        names = " and ".join(name for (name, _), c in zip(deviation.before, held, strict=True) if c)
        told.append(f"{names} was added: the accumulator was not cleared")
    counts = counts[: len(steps)]
    for count in sorted(set(counts[counts != 0].tolist())):
        how = _COUNTS.get(1 + count, f"was counted {1 + count} times")
        for title, term in {step.term.title: step.term for step in steps}.items():
            own = [step for step, c in zip(steps, counts, strict=True) if c == count and step.term is term]
            if own:
                told.append(f"the contribution of {_runs(own)} to {title} {how}")
    return "; ".join(told[:SHOWN]) + _cleared(deviation, counts.tolist())


def _cleared(deviation: Deviation, counts: list[int]) -> str:
    """Words where all that is missing comes before one step, or one step of each CTA's share."""
    if set(counts) != {0, -1}:
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


def _runs(steps: list[_Step]) -> str:
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][1] == step.at.start:
            runs[-1][1] = step.at.stop
        else:
            runs.append([step.at.start, step.at.stop])
    more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
    text = ", ".join(f"{low}..{high - 1}" for low, high in runs[:SHOWN])
    return f"{steps[0].term.axis}s {text}{more}"


def _groups(steps: tuple[_Step, ...], block: int, ctas: int) -> Iterator[list[_Step]]:
    """Single steps; of an axis that is walked also the same step of every k-block, of one that the CTAs share
    the same step of every share; all steps of a k-block, of a product, of all products.
    """
    for step in steps:
        yield [step]
    for term in {id(step.term): step.term for step in steps}.values():
        if term.walked and term.a.shape[1] > block:
            own = [step for step in steps if step.term is term]
            for first in range(0, block, K_STEP):
                yield [step for step in own if step.at.start % block == first]
        # Columns beyond a power of two are shared out by themselves.
        length = term.a.shape[1]
        for whole in dict.fromkeys((1 << length.bit_length() - 1, length)) if ctas > 1 else ():
            share = whole // ctas
            for first in range(0, share, K_STEP) if share % K_STEP == 0 else ():
                yield [
                    step
                    for step in steps
                    if step.term is term and step.at.stop <= whole and step.at.start % share == first
                ]
    for term in {id(step.term): step.term for step in steps}.values():
        own = [step for step in steps if step.term is term]
        if term.walked and term.a.shape[1] > block:
            for k in range(0, term.a.shape[1], block):
                yield [step for step in own if k <= step.at.start < k + block]
        yield own
    yield list(steps)


def _replaced(deviation: Deviation, region: Region) -> str:
    """What is wrong lies in the space of the operand that was right."""
    at = np.ix_(*region)
    wrong, allowed = deviation.residual[at], deviation.slack[at]
    if np.linalg.norm(wrong) <= 4 * np.linalg.norm(allowed):
        return ""
    every_a = np.concatenate([step.term.a[:, step.at] for step in deviation.steps], axis=1)[region[0]]
    every_b = np.concatenate([step.term.b[step.at] for step in deviation.steps])[:, region[1]]
    rooms = _different(every_b), _different(every_a.T)
    for group in _groups(deviation.steps, deviation.block, deviation.ctas):
        b = np.concatenate([step.term.b[step.at] for step in group])[:, region[1]]
        a = np.concatenate([step.term.a[:, step.at] for step in group], axis=1)[region[0]]
        for side, base, matrix, limit in ((0, b, wrong, allowed), (1, a.T, wrong.T, allowed.T)):
            if _spans(base, rooms[side], matrix, limit):
                own = a if side == 0 else b.T
                solved = own + matrix @ np.linalg.pinv(base)
                return _other_operand(group, side, solved, own, region, deviation.inputs)
    return ""


def _spans(base: F64, room: int, matrix: F64, limit: F64) -> bool:
    """Whether the rows of `matrix`, of which so many columns can differ, lie in the row space of `base`, but
    for what `limit` allows.
    """
    if not np.isfinite(base).all():
        return False
    _, size, rows = np.linalg.svd(base, full_matrices=False)
    rows = rows[size > size[0] * 1e-12] if size.size and size[0] > 0 else rows[:0]
    if room < len(rows) + SPARE:
        return False
    left = matrix - (matrix @ rows.T) @ rows
    return bool((np.linalg.norm(left, axis=1) <= np.linalg.norm(limit, axis=1)).all())


def _different(columns: F64) -> int:
    """How many columns differ from each other: a key that is named twice says the same twice."""
    return len(np.unique(columns.T, axis=0))


def _other_operand(group: list[_Step], side: int, solved: F64, own: F64, region: Region, inputs: Any) -> str:
    told, products = [], []
    for term in {id(step.term): step.term for step in group}.values():
        products.append(term.title)
        told.append(f"{_runs([one for one in group if one.term is term])} of operand {term.names[side]}")
    steps = "step" if len(group) == 1 else "steps"
    text = f"{' and '.join(told)} were not what the {steps} of {' and '.join(products)} read"
    vague = text + ": its address, its layout, or what lay there"
    if not np.isfinite(solved).all():
        return vague
    if len(products) > 1:
        data = lying(solved, inputs)
        return f"{text}: {data}" if data else vague
    term = group[0].term
    whole = term.a[region[0]] if side == 0 else term.b.T[region[1]]
    scale = np.abs(whole).max(initial=0.0)
    if scale == 0 or np.abs(solved - own).max() <= 1e-3 * scale:
        return text
    found = [_window(whole, part, 2e-2 * scale) for part in np.split(solved, len(group), axis=1)]
    if all(found) and len({one[1] for one in found if one}) == 1:
        return f"{text}: {_read(term, group, [one for one in found if one])}"
    data = lying(solved, inputs)
    return f"{text}: {data}" if data else vague


def _window(whole: F64, part: F64, close: float) -> tuple[int, int] | None:
    """Where in an operand the elements that one step read begin, and how many rows away."""
    for first in range(0, whole.shape[1] - K_STEP + 1, 8):
        window = whole[:, first : first + K_STEP]
        if window.shape == part.shape and np.abs(window - part).max() <= close:
            return first, 0
        for rows in (1, 8, 16, 32, -1, -8, -16, -32):
            moved = np.roll(window, -rows, axis=0)
            known = slice(0, -rows) if rows > 0 else slice(-rows, None)
            if moved.shape == part.shape and np.abs(moved - part)[known].max(initial=np.inf) <= close:
                return first, rows
    return None


def _read(term: Term, group: list[_Step], found: list[tuple[int, int]]) -> str:
    """What the steps of a group read, each from where it begins."""
    away = f", {found[0][1]:+d} rows away" if found[0][1] else ""
    if len({first for first, _ in found}) == 1:
        each = "it" if len(group) == 1 else "each"
        return f"{each} read {term.axis}s {found[0][0]}..{found[0][0] + K_STEP - 1}{away}"
    off = {first - step.at.start for (first, _), step in zip(found, group, strict=True)}
    if len(off) == 1:
        return f"each read {term.axis}s {off.pop():+d}{away}"
    shown = ", ".join(f"{first}..{first + K_STEP - 1}" for first, _ in found[:SHOWN])
    return f"they read {term.axis}s {shown}{' ...' if len(found) > SHOWN else ''}{away}"
