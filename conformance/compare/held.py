"""Values that are known more precisely than by a bound: the bits of an MMA stage, and the number that a
value is rounded to.

Where a plan says in which order products are added (`spec.plan.ProductOrder`), and the driver's arithmetic is
known, an MMA stage has one right result on its own operands: bits are compared. So are those of sums by lanes
(`LaneOrder`). A rounded copy lies between the roundings of both
ends of its f32 value's interval, which most often are one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.lane_sums import lane_sums
from tileproof.conformance.observe.tiles import Chain, StageTile, columns
from tileproof.spec.arithmetic import F16, Arithmetic, Form, StageValue, WithOperands
from tileproof.spec.arithmetic.terms import Bounded, RoundedTerm, Sum
from tileproof.spec.plan import KernelPlan, LaneOrder, ProductOrder, Products
from tileproof.spec.problems.base import TileCoord, sums_over_walk

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
ORDERED = "within the bound of any order, but not the bits of the products in the plan's order"
ROUNDED = "within the bound of the stage, but not the rounding of its f32 value"


@dataclass(frozen=True)
class _Factor:
    """An operand of a product by the name of the stage's input."""

    name: str
    value: F32


Pairs = tuple[tuple[_Factor, _Factor], ...]


class _OtherOperation(Exception):
    """A stage does more than adding up: its bits have no order that a plan declares."""


@dataclass(frozen=True)
class _Recorder(Arithmetic):
    """The products that a stage adds up, not their sum; of other stages nothing is recorded."""

    interpretation: Literal["rounded"] = "rounded"  # type: ignore[misc]

    def transpose(self, a: _Factor) -> _Factor:
        return _Factor(a.name, a.value.T)

    def matmul(self, a: _Factor, b: _Factor) -> Pairs:
        return ((a, b),)

    def accumulate(self, total: Pairs, a: _Factor, b: _Factor) -> Pairs:
        return (*total, (a, b))

    def round_to(self, form: Form, a: Pairs) -> Form:
        return form

    def operation(self, name: str) -> NoReturn:
        """Every operation but those above."""
        raise _OtherOperation(name)


@dataclass(frozen=True)
class _Adder(Arithmetic):
    """The sum that a stage is, in the plan's order."""

    order: LaneOrder
    interpretation: Literal["rounded"] = "rounded"  # type: ignore[misc]

    def rowsum(self, a: _Factor, b: _Factor) -> F32:
        found = lane_sums(self.order, a.value, b.value)
        if found is None:
            raise _OtherOperation("rowsum")
        return found

    def round_to(self, form: Form, a: F32) -> Form:
        return form

    def operation(self, name: str) -> NoReturn:
        """Every operation but those above."""
        raise _OtherOperation(name)


@dataclass(frozen=True)
class Ordered:
    """The stages that a plan gives an order, on the operands that the kernel itself had: products as
    `products` computes them, other sums in f32.
    """

    plan: KernelPlan
    products: Products

    def of(self, chain: Chain, name: str, coord: TileCoord) -> F32 | None:
        """The f32 value of a stage over the tile's group, or of a partial sum; None where it is not known."""
        order = next((order for order in self.plan.sums_with_order if order.stage == name), None)
        if order is None:
            return None
        blocks = self._blocks(chain, order, *chain.whole_of(name, coord))
        if blocks is None or not blocks:
            return None
        return blocks[(coord.k_block or 0) if chain.is_partial_sum(name, coord) else -1]

    def _blocks(
        self,
        chain: Chain,
        order: ProductOrder | LaneOrder,
        name: str,
        group: int,
        cta: int | None,
    ) -> list[F32] | None:
        """What a stage is after each k-block, if it sums over them; else the stage alone."""
        terms = chain.terms(name, group, cta)
        key = ("ordered", name, group, cta, tuple(id(term) for term in terms))
        if key not in chain.shared:
            chain.shared[key] = terms, self._steps(chain, order, name, group, cta, terms)
        found: list[F32] | None = chain.shared[key][1]
        return found

    def _steps(
        self,
        chain: Chain,
        order: ProductOrder | LaneOrder,
        name: str,
        group: int,
        cta: int | None,
        terms: Sequence[Bounded],
    ) -> list[F32] | None:
        stage = chain.stage(name)
        if not all(term.exact for term in terms):
            return None
        with np.errstate(invalid="ignore", over="ignore"):
            factors = [
                _Factor(source, term.value.astype(np.float32))
                for source, term in zip(stage.inputs, terms, strict=True)
            ]
        recorder = _Recorder() if isinstance(order, ProductOrder) else _Adder(order)
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                made = stage.compute(WithOperands(recorder, stage.operand), *factors)
        except _OtherOperation:
            return None
        if not isinstance(order, ProductOrder):
            return [made.value if isinstance(made, StageValue) else made]
        pairs: Pairs = made.value if isinstance(made, StageValue) else made
        f16 = F16 in stage.reads.values()
        pairs = tuple(sorted(pairs, key=lambda pair: _place(order, pair)))
        shape = chain.whole(name, group, cta).value.shape
        columns = max(b.value.shape[1] for _, b in pairs)
        total = np.zeros((shape[0], columns), np.float32)
        if sums_over_walk(chain.problem, name):
            ((a, b),) = pairs
            cuts = chain.block_slices(group, cta)
            steps = []
            for cut in cuts:
                total = self._add(order, total, a.value[:, cut], b.value[cut], f16)
                steps.append(total)
            return steps
        for a, b in pairs:
            width = b.value.shape[1]
            total[:, :width] = self._add(order, total[:, :width], a.value, b.value, f16)
        return [total]

    def _add(self, order: ProductOrder, total: F32, a: F32, b: F32, f16: bool) -> F32:
        """``total + a b``, each accumulator over its own runs of k."""
        sums = []
        for runs in order.runs or (((0, a.shape[1]),),):
            for first, end in runs:
                total = self.products(total, a[:, first:end], b[first:end], f16)
            sums.append(total)
            total = np.zeros_like(total)
        with np.errstate(invalid="ignore", over="ignore"):
            return reduce(np.add, sums)


def _place(order: ProductOrder, pair: tuple[_Factor, _Factor]) -> int:
    names = {factor.name for factor in pair}
    return next((n for n, operand in enumerate(order.operands) if operand in names), len(order.operands))


@dataclass(frozen=True)
class Bits:
    """A group's stage as the kernel must hold it, and whether all of it is finite and within the bound."""

    value: F64
    sound: bool


def in_order(chain: Chain, tile: StageTile, ordered: Ordered | None) -> Bits | None:
    """The group's stage that a tile is part of, bit for bit; None where its order is open."""
    bits = None if ordered is None else ordered.of(chain, tile.stage, tile.coord)
    term = chain.judged(tile.stage, tile.coord)
    if bits is None or bits.shape != term.value.shape:
        return None
    key = ("bits", id(bits), id(term))
    if key not in chain.shared:
        base = term.base if isinstance(term, RoundedTerm) else term
        ceiling = base.ceiling if isinstance(base, Sum) else base.errors
        with np.errstate(invalid="ignore", over="ignore"):
            value = bits.astype(np.float64)
            sound = bool((np.abs(value - base.value) <= ceiling).all()) and bool(
                ceiling.max(initial=0.0) < np.inf
            )
            value = term.rounded(bits) if isinstance(term, RoundedTerm) else value
        chain.shared[key] = bits, term, Bits(value, sound)  # kept, so that their ids stay their own
    found: Bits = chain.shared[key][2]
    return found


def part(term: Bounded, at: tuple[slice, ...]) -> Bounded:
    """Some of a group's elements, as a two-dimensional tile."""
    may_be_nan = None if term.may_be_nan is None else columns(term.may_be_nan[at])
    return Bounded(columns(term.value[at]), columns(term.errors[at]), may_be_nan)
