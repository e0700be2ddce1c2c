"""Interpretations that record the operations of a stage which round: as text, and with their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tileproof.spec.arithmetic.bound import Bound
from tileproof.spec.arithmetic.formula import Formula
from tileproof.spec.arithmetic.operation import Operation, find
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.arithmetic.text import Text


@dataclass(frozen=True)
class TextStep:
    """An operation that adds to the bound: its result in print, and where it rounds."""

    operation: Operation
    result: Formula
    roundings: tuple[str, ...]


@dataclass
class TracedText(Text):
    """Text, with a step for each operation that states an error; of nested operations the outermost."""

    steps: list[TextStep] = field(default_factory=list)
    _nested: bool = False

    def operation(self, name: str) -> Callable[..., OwnTerm]:
        own, found = super().operation(name), find(name)

        def recorded(*operands: OwnTerm, **options: object) -> OwnTerm:
            if self._nested or not found.error:
                return own(*operands, **options)
            before, self._nested = len(self.roundings), True
            try:
                result = own(*operands, **options)
            finally:
                self._nested = False
            self.steps.append(TextStep(found, result, tuple(self.roundings[before:])))
            return result

        return recorded


class TracedBound(Bound):
    """Bounds, with the results of the operations that `TracedText` records, in the same order."""

    def __init__(self) -> None:
        self.results: list[Bounded] = []
        self._nested = False

    def operation(self, name: str) -> Callable[..., OwnTerm]:
        own, found = super().operation(name), find(name)

        def recorded(*operands: OwnTerm, **options: object) -> OwnTerm:
            if self._nested or not found.error:
                return own(*operands, **options)
            self._nested = True
            try:
                result = own(*operands, **options)
            finally:
                self._nested = False
            self.results.append(result)
            return result

        return recorded
