"""The formula of a stage as text and as LaTeX, with the axes of every term and the points where bits go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tileproof.spec.arithmetic import F32, Form, Keeping, Online
from tileproof.spec.machine.errors import TileproofError

SUM, PRODUCT, ATOM = 0, 1, 2

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """A term in print: how tightly it binds, and its axes (None: of any)."""

    plain: str
    latex: str
    axes: Axes = ()
    binds: int = ATOM


@dataclass
class Text(Keeping):
    """Prints; `roundings` and `operations` collect what it came by."""

    roundings: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    narrow: str = ""  # the form of the rounded copy

    def matmul(self, a: Formula, b: Formula) -> Formula:
        self.operations.append("matmul")
        self._summed(a, b, "toward zero")
        return _side_by_side(a, b)

    def accumulate(self, total: Formula, a: Formula, b: Formula) -> Formula:
        self.operations.append("accumulate")
        self._summed(a, b, "toward zero", " in the same accumulator")
        product = _side_by_side(a, b)
        where = "" if product.axes == total.axes else f" in the first {product.axes[1]} columns"
        latex = "" if not where else rf"\ [\text{{first }} {_latex_axis(product.axes[1])} \text{{ columns}}]"
        return Formula(
            f"{total.plain} + {product.plain}{where}",
            f"{total.latex} + {product.latex}{latex}",
            total.axes,
            SUM,
        )

    def _summed(self, a: Formula, b: Formula, how: str, more: str = "") -> None:
        if a.axes[-1:] != b.axes[-2:-1]:
            raise TileproofError(
                "the axes of a product do not meet",
                where=f"{a.plain} times {b.plain}",
                expected=str(a.axes),
                found=str(b.axes),
            )
        self.roundings.append(
            f"f32 accumulation of {a.axes[-1]} exact products in the tensor core{more}, {how}, any order"
        )

    def rowsum(self, a: Formula, b: Formula, products: Form = F32) -> Formula:
        self.operations.append("rowsum")
        kind = "exact products" if products == F32 else f"products rounded to {products.name}"
        self.roundings.append(f"f32 accumulation of {a.axes[-1]} {kind}, to nearest, any order")
        inner = f"{_wrap(a, PRODUCT)[0]} * {_wrap(b, PRODUCT)[0]}"
        latex = rf"\operatorname{{rowsum}}({_wrap(a, PRODUCT)[1]} \odot {_wrap(b, PRODUCT)[1]})"
        return Formula(f"rowsum({inner})", latex, a.axes[:-1])

    def transpose(self, a: Formula) -> Formula:
        plain, latex = _wrap(a, ATOM)
        return Formula(f"{plain}^T", rf"{latex}^{{\mathsf T}}", a.axes[::-1])

    def column(self, a: Formula) -> Formula:
        return Formula(a.plain, a.latex, (*a.axes, ""), a.binds)

    def mul(self, *factors: Formula) -> Formula:
        self.operations.append("mul")
        some = "product" if len(factors) == 2 else "products, in any order,"
        self.roundings.append(f"{some} to f32")
        shown = [_wrap(one, PRODUCT) for one in factors]
        return Formula(
            " * ".join(plain for plain, _ in shown),
            r" \cdot ".join(latex for _, latex in shown),
            _together(*factors),
            PRODUCT,
        )

    def sub(self, a: Formula, b: Formula) -> Formula:
        return self._sum("-", "difference", a, b)

    def add(self, a: Formula, b: Formula) -> Formula:
        return self._sum("+", "sum", a, b)

    def _sum(self, sign: str, word: str, a: Formula, b: Formula) -> Formula:
        self.operations.append(word)
        self.roundings.append(f"{word} to f32 (one rounding with a product, if fused)")
        right = _wrap(b, PRODUCT)
        return Formula(f"{a.plain} {sign} {right[0]}", f"{a.latex} {sign} {right[1]}", _together(a, b), SUM)

    def exp2(self, a: Formula) -> Formula:
        self.operations.append("exp2")
        self.roundings.append("ex2.approx.ftz.f32: relative 2^-22, results below 2^-126 to zero")
        return Formula(f"exp2({a.plain})", f"2^{{{a.latex}}}", a.axes)

    def select(self, mask: Formula, a: Formula) -> Formula:
        self.operations.append("select")
        return Formula(
            f"{a.plain}, 0 where not {mask.plain}",
            rf"{a.latex} \ [\text{{0 where not }} {mask.latex}]",
            a.axes,
            SUM,
        )

    def logsumexp2(self, mask: Formula, a: Formula, online: Online) -> Formula:
        self.operations.append("logsumexp")
        self.roundings.append("the largest subtracted, 2^x by ex2.approx.ftz.f32, f32 sum, lg2, sum to f32")
        latex = rf"\log_2 \sum_{{{mask.latex}}} 2^{{{a.latex}}}"
        return Formula(f"log2(sum where {mask.plain} of exp2({a.plain}))", latex, a.axes[:1])

    def normalised(self, a: Formula, online: Online) -> Formula:
        self.roundings.append("rescaled at each block of columns, divided by the sum at the end")
        return a

    def matmul_in_steps(
        self, a: Formula, b: Formula, steps: Any, form: Form, *factors: Formula, apart: bool = False
    ) -> Formula:
        product = self.matmul(a, b)
        product = self.mul(*factors, product) if factors else product
        if form != F32:
            what = "each step's sum" if apart else "the accumulator after each step"
            self.roundings.append(f"{what} to {form.name}")
        return product

    def matmul_of_run(self, a: Formula, b: Formula, runs: Formula, number: int) -> Formula:
        product = self.matmul(a, b)
        plain = f"{product.plain} over {a.axes[-1]} where {runs.plain} is {number}"
        latex = rf"{product.latex}\ [{runs.latex} = {number}]"
        return Formula(plain, latex, product.axes, SUM)

    def add_in_order(self, *parts: Formula) -> Formula:
        total = parts[0]
        for part in parts[1:]:
            total = self.add(total, part)
        return total

    def constant(self, name: str, value: float) -> Formula:
        self.roundings.append(f"{name} to f32")
        return Formula(name, name.replace("log2(e)", r"\log_2 e"))

    def round_to(self, form: Form, a: Formula) -> Formula:
        self.roundings.append(f"{form.name}, to nearest even")
        self.narrow = form.name
        return a

    def keep(self, value: Any, **copy: Any) -> Any:
        for use in copy:
            self.roundings[-1] += f", as {use}"
        return super().keep(value, **copy)

    def scatter_add(self, total: Formula, rows: Formula, tile: Formula) -> Formula:
        self.operations.append("scatter_add")
        self.roundings.append(
            f"each addition to {total.plain} in global memory to f32, to nearest, any order, subnormals may "
            "be flushed"
        )
        return Formula(
            f"{tile.plain} added to the rows {rows.plain} of {total.plain}",
            rf"{total.latex}_{{\text{{{rows.plain}}}}} \mathrel{{+}}= {tile.latex}",
            total.axes,
        )


def named(name: str, axes: Axes, symbols: Mapping[str, str]) -> Formula:
    """An input: its name, in LaTeX its symbol."""
    return Formula(name, symbols.get(name, rf"\text{{{name}}}" if len(name) > 2 else name), axes)


def _wrap(one: Formula, least: int) -> tuple[str, str]:
    """Text and LaTeX of a term, in parentheses where it binds less than `least`."""
    if one.binds >= least:
        return one.plain, one.latex
    return f"({one.plain})", rf"\left({one.latex}\right)"


def _side_by_side(a: Formula, b: Formula) -> Formula:
    (left, left_latex), (right, right_latex) = _wrap(a, PRODUCT), _wrap(b, PRODUCT)
    return Formula(f"{left} {right}", rf"{left_latex}\, {right_latex}", (a.axes[0], b.axes[1]), PRODUCT)


def _together(*terms: Formula) -> Axes:
    """The axes of an elementwise operation: those of the term that has most, which the others must fit."""
    axes = max((one.axes for one in terms), key=len)
    for one in terms:
        if any(mine not in ("", other) for mine, other in zip(one.axes[::-1], axes[::-1], strict=False)):
            raise TileproofError(
                "the axes of an elementwise operation differ", where=one.plain, expected=str(axes),
                found=str(one.axes),
            )  # fmt: skip
    return axes


def _latex_axis(axis: str) -> str:
    head, _, tail = axis.partition("_")
    return f"{head}_{{{tail}}}" if tail else head
