"""The formula of a stage as text and as LaTeX, with the axes of every term and the points where bits go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileproof.spec.arithmetic.formula import Formula, named
from tileproof.spec.arithmetic.operation import Arithmetic

__all__ = ["Formula", "Text", "named"]


@dataclass
class Text(Arithmetic):
    """Prints; `roundings` and `operations` collect what it came by."""

    interpretation = "text"

    roundings: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    narrow: str = ""  # the form of the rounded copy

    def keep(self, value: Any, **copy: Any) -> Any:
        for use in copy:
            self.roundings[-1] += f", as {use}"
        return super().keep(value, **copy)
