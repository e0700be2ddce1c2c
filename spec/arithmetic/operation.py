"""Operations of stages, registered by name, and the common parts of the four interpretations.

An operation is one object: its name and its four interpretations. `Arithmetic` looks operations up by name,
so that ``m.exp2(a)`` in a stage's function means whatever the interpretation `m` makes of "exp2".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from tileproof.spec.arithmetic.forms import F32, OPERAND, Form, StageValue
from tileproof.spec.machine.errors import TileproofError, did_you_mean

if TYPE_CHECKING:
    from tileproof.spec.arithmetic.reads import AnyTerm, OwnTerm

T = TypeVar("T")
Option = Any  # of an operation, which names its type
Interpretation = Literal["exact", "rounded", "bound", "text"]


class Operation:
    """An operation of stages. A subclass gives its name and its four interpretations.

    Each takes the arithmetic `m` that evaluates the stage (for other operations) and the operands:

    - `exact`: float64 arrays; the value of the formula.
    - `rounded`: float64 arrays that hold f32 values; what one correct machine computes.
    - `bound`: `terms.Bounded` (a float64 value, an error per element); the value of `exact`, and how far any
      correct machine may lie from it, given operands within their own errors. Masks are bool arrays.
    - `text`: `formula.Formula`; the formula in print. It appends the rounding to `m.roundings` and what it
      did to `m.operations`.

    The first line of the docstring is printed in docs/stages.md. `error` is the bound as a formula and
    `source` who gives the figure in it; both empty where nothing is rounded.
    """

    name: str
    error: str = ""
    source: str = ""

    def exact(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        raise NotImplementedError

    def rounded(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        raise NotImplementedError

    def bound(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        raise NotImplementedError

    def text(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """What it computes: the first line of its docstring."""
        return (self.__doc__ or "").strip().partition("\n")[0]


class UnknownOperation(TileproofError, AttributeError):
    """A stage uses an operation that is not registered."""

    def of_stage(self, name: str) -> UnknownOperation:
        """The error with the stage's name as its place."""
        return UnknownOperation(
            self.what, where=f"stage {name}", expected=self.expected, found=self.found, do=self.do
        )


_operations: dict[str, Operation] = {}
_INTERPRETATIONS: tuple[Interpretation, ...] = ("exact", "rounded", "bound", "text")


def register(operation: Operation) -> Operation:
    """Make `operation` available to every stage under its name, and return it.

    TileproofError if the name is taken, is not an identifier, is an attribute of an arithmetic, or if an
    interpretation is missing.
    """
    name = getattr(operation, "name", "")
    if not name.isidentifier() or name.startswith("_") or hasattr(Arithmetic, name) or name in OWN:
        raise TileproofError(
            "an operation cannot have this name",
            where=f"operation {type(operation).__name__}",
            expected="an identifier without a leading underscore that no arithmetic has as an attribute",
            found=repr(name),
        )
    missing = [
        interpretation
        for interpretation in _INTERPRETATIONS
        if getattr(type(operation), interpretation) is getattr(Operation, interpretation)
    ]
    if missing:
        raise TileproofError(
            "an operation lacks an interpretation",
            where=f"operation {name}",
            expected=", ".join(_INTERPRETATIONS),
            found=f"no {', '.join(missing)}",
        )
    if name in _operations and _origin(_operations[name]) != _origin(operation):
        raise TileproofError(
            "two operations have the same name", where=f"operation {name}", do="register it under another"
        )
    _operations[name] = operation
    return operation


def _origin(operation: Operation) -> tuple[str, str]:
    """Module and class: a package that is imported again registers its operations again."""
    return type(operation).__module__, type(operation).__qualname__


def registered() -> dict[str, Operation]:
    """Every registered operation by name, in the order of registration."""
    return dict(_operations)


def find(name: str) -> Operation:
    """Return the operation `name`; UnknownOperation lists the known operations."""
    try:
        return _operations[name]
    except KeyError:
        meant = did_you_mean(name, _operations)
        raise UnknownOperation(
            f"unknown operation {name}" + (f": {meant}" if meant else ""),
            expected=", ".join(sorted(_operations)),
            found=name,
            do="register it: tileproof.spec.arithmetic.register (docs/adding-a-problem.md)",
        ) from None


# Attributes of single interpretations.
OWN = ("mma", "read", "part", "roundings", "operations", "narrow")


class Arithmetic:
    """What stages are written over: registered operations, as the interpretation computes them.

    Terms are whatever the interpretation computes with, at most 2-D. A subclass may define a method under an
    operation's name; it takes precedence, and reaches the registered operation by `operation`.
    """

    interpretation: ClassVar[Interpretation]
    roundings: list[str]  # of the interpretation as text
    operations: list[str]
    mma: str  # of `Rounded`
    narrow: str  # of the interpretation as text: the form of the rounded copy

    def operation(self, name: str) -> Callable[..., OwnTerm]:
        """The registered operation `name` in this interpretation, as a function of its operands."""
        return partial(getattr(find(name), self.interpretation), self)

    def __getattr__(self, name: str) -> Callable[..., OwnTerm]:
        if name.startswith("_"):  # protocols of Python: copying, pickling
            raise AttributeError(name)
        return self.operation(name)

    def keep(self, value: AnyTerm, **copy: AnyTerm) -> StageValue[AnyTerm]:
        """What the stage leaves: `value`, and a rounded copy of it under the name of its use."""
        if not copy:
            return StageValue(value)
        ((use, rounded),) = copy.items()
        return StageValue(value, rounded, use)


# An arithmetic, or what passes its operations on (`WithOperands`).
AnyArithmetic = Any


class WithOperands:
    """An arithmetic whose tensor-core operands have the same form; f32 operands are not rounded copies."""

    def __init__(self, m: AnyArithmetic, form: Form) -> None:
        self._m, self._form = m, form

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an operation, or an attribute of any type
        own = getattr(self._m, name)
        return partial(self._do, own) if callable(own) else own

    def _do(self, own: Callable[..., T], *operands: OwnTerm, **options: Option) -> T:
        """The operation, with the form of operands instead of OPERAND."""
        if options:
            options = {name: self._form if x is OPERAND else x for name, x in options.items()}
        return own(*(self._form if x is OPERAND else x for x in operands), **options)

    def keep(self, value: AnyTerm, **copy: AnyTerm) -> StageValue[AnyTerm]:
        return StageValue(value) if self._form == F32 else self._m.keep(value, **copy)
