"""Terms in print: text and LaTeX, how tightly a term binds, and its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def named(name: str, axes: Axes, symbols: Mapping[str, str]) -> Formula:
    """An input: its name, in LaTeX its symbol."""
    return Formula(name, symbols.get(name, rf"\text{{{name}}}" if len(name) > 2 else name), axes)


def wrap(formula: Formula, least: int) -> tuple[str, str]:
    """Text and LaTeX of a term, in parentheses where it binds less than `least`."""
    if formula.binds >= least:
        return formula.plain, formula.latex
    return f"({formula.plain})", rf"\left({formula.latex}\right)"


def side_by_side(a: Formula, b: Formula) -> Formula:
    (left, left_latex), (right, right_latex) = wrap(a, PRODUCT), wrap(b, PRODUCT)
    return Formula(f"{left} {right}", rf"{left_latex}\, {right_latex}", (a.axes[0], b.axes[1]), PRODUCT)


def shared_axes(*terms: Formula) -> Axes:
    """The axes of an elementwise operation: those of the term with the most axes, which the others must
    fit."""
    axes = max((term.axes for term in terms), key=len)
    for term in terms:
        if any(mine not in ("", other) for mine, other in zip(term.axes[::-1], axes[::-1], strict=False)):
            raise TileproofError(
                "the axes of an elementwise operation differ", where=term.plain, expected=str(axes),
                found=str(term.axes),
            )  # fmt: skip
    return axes


def latex_axis(axis: str) -> str:
    head, _, tail = axis.partition("_")
    return f"{head}_{{{tail}}}" if tail else head
