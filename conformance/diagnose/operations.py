"""The formula of an elementwise stage with one wrong operation (a sum for a difference, a missing factor),
or with none, where the tile is one of its inputs.

The stage's own function is evaluated over the arithmetic of the bounds in which one of its operations, by
number, is replaced; the printed formula names the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from tileproof.conformance.observe.tiles import Reference
from tileproof.spec.arithmetic import F32, StageValue, WithOperands
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.operation import AnyArithmetic
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.arithmetic.text import Text, named
from tileproof.spec.problems.faults import F64, Alternative
from tileproof.spec.stage import Stage

Change = Callable[[AnyArithmetic, tuple[OwnTerm, ...]], OwnTerm]
OPERATIONS = ("mul", "add", "sub")


class _Other:
    """An arithmetic in which operation `number` is replaced by `change`; `done` lists the names of all
    operations."""

    def __init__(self, m: AnyArithmetic, number: int = -1, change: Change | None = None) -> None:
        self._m, self._number, self._change = m, number, change
        self.done: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an operation, or an attribute of any type
        own = getattr(self._m, name)
        return partial(self._do, name, own) if name in OPERATIONS else own

    def _do(self, name: str, own: Callable[..., OwnTerm], *terms: OwnTerm) -> OwnTerm:
        self.done.append((name, len(terms)))
        if len(self.done) - 1 != self._number or self._change is None:
            return own(*terms)
        made = self._change(self._m, terms)
        return _wide(made, terms) if isinstance(made, Bounded) else made


def _wide(made: Bounded, terms: tuple[Bounded, ...]) -> Bounded:
    """Without a factor, with the same shape."""
    shape = np.broadcast_shapes(*(np.shape(term.value) for term in terms))
    return Bounded(np.broadcast_to(made.value, shape), np.broadcast_to(made.errors, shape), made.may_be_nan)


def other_operations(stage: Stage, reference: Reference, copied: bool) -> Iterator[Alternative]:
    """The tile as each other operation would have made it; none where the stage is not elementwise."""
    if stage.kind != "elementwise":
        return
    plain = _Other(Text())
    _printed(stage, plain)
    shape = reference.value.shape
    for number, (name, count) in enumerate(plain.done):
        for change in _changes(name, count):
            with np.errstate(invalid="ignore", over="ignore"):
                computed = stage.over(_Other(BOUND, number, change), dict(reference.operands))
                term = computed.copy if copied and computed.copy is not None else computed.value
                value, errors = (np.broadcast_to(_rows(part), shape) for part in (term.value, term.errors))
            words = _printed(stage, _Other(Text(), number, change))
            yield Alternative(f"it is {words}, not {stage.formula}", value, errors)
    for name in stage.inputs:
        term = reference.operands[name]
        if isinstance(term, Bounded) and term.shape == shape:
            with np.errstate(invalid="ignore", over="ignore"):
                term = BOUND.round_to(stage.operand, term) if copied and stage.operand != F32 else term
            yield Alternative(f"it is {name}, not {stage.formula}", term.value, term.errors)


def _rows(values: F64) -> F64:
    """One number of each row as a column, as tiles have it."""
    return values[:, None] if values.ndim == 1 else values


def _printed(stage: Stage, m: _Other) -> str:
    terms = (named(name, (), stage.symbols) for name in stage.inputs)
    result = stage.compute(WithOperands(m, stage.operand), *terms)
    computed: StageValue[OwnTerm] = result if isinstance(result, StageValue) else StageValue(result)
    return str(computed.value.plain)


def _changes(name: str, count: int) -> Iterator[Change]:
    """Replacements of an operation of `count` terms."""
    if name != "mul":
        other = "sub" if name == "add" else "add"
        yield lambda m, terms: getattr(m, other)(*terms)
        yield lambda m, terms: m.sub(terms[1], terms[0])
        return
    for n in range(count):
        yield partial(_sum, "add", n)
        yield partial(_sum, "sub", n)
        yield partial(_sum, "rest", n)


def _sum(how: str, n: int, m: AnyArithmetic, terms: tuple[OwnTerm, ...]) -> OwnTerm:
    """A factor added to the product of the others, subtracted from it, or omitted."""
    rest = [other for i, other in enumerate(terms) if i != n]
    product = rest[0] if len(rest) == 1 else m.mul(*rest)
    return product if how == "rest" else getattr(m, how)(product, terms[n])
