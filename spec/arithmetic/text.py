"""The formula of a stage as text and as LaTeX, with the axes of every term and the points where bits go."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileproof.spec.arithmetic.forms import StageValue
from tileproof.spec.arithmetic.formula import Formula, named
from tileproof.spec.arithmetic.operation import Arithmetic
from tileproof.spec.arithmetic.reads import AnyTerm

__all__ = ["Formula", "Text", "named"]


@dataclass
class Text(Arithmetic):
    """Prints; `roundings` and `operations` collect what it came by."""

    interpretation = "text"

    roundings: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    narrow: str = ""  # the form of the rounded copy

    def keep(self, value: AnyTerm, **copy: AnyTerm) -> StageValue[AnyTerm]:
        for use in copy:
            self.roundings[-1] += f", as {use}"
        return super().keep(value, **copy)
