"""A stage: a function over an arithmetic (`spec.arithmetic`), its tile, and the place of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from tileproof.spec.arithmetic import BF16, F32, OPERAND, Form, StageValue, UnknownOperation, WithOperands
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.exact import EXACT, F64
from tileproof.spec.arithmetic.operation import AnyArithmetic
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.arithmetic.text import Formula, Text, named
from tileproof.spec.machine.errors import TileproofError

Compute = Callable[..., OwnTerm | StageValue[OwnTerm]]  # of an arithmetic and the inputs
Scatter = Callable[..., OwnTerm]  # of an arithmetic, the output so far, its rows and a tile


@dataclass(frozen=True)
class Stage:
    """One stage. `tile` names the axes of its result; `memory` says where it lies.

    `compute` takes an arithmetic and the stage's inputs; a parameter's annotation is the form that is read of
    it, unless `forms` gives another. `factors` are the inputs of its variadic parameter. `scatter` takes an
    arithmetic, the output so far, its rows and a tile, where tiles are added to rows of an output whose axes
    are `output`.
    """

    name: str
    symbol: str
    tile: tuple[str, ...]
    memory: str
    compute: Compute
    scatter: Scatter | None = None
    output: tuple[str, ...] = ()
    # Axes of every datum that a stage may read, and their symbols in print.
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    symbols: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    walked: tuple[str, ...] = ()  # the axes that are walked in k-blocks
    operand: Form = BF16  # what `AsOperand` is
    factors: tuple[str, ...] = ()
    forms: Mapping[str, Form] = field(default_factory=dict, compare=False, repr=False)
    stored: Form = F32  # of `output`: its f32 sums are rounded to it once

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of ground data or earlier stages, as the function takes them."""
        parameters = list(inspect.signature(self.compute).parameters.values())[1:]
        return (
            *(parameter.name for parameter in parameters if parameter.kind != parameter.VAR_POSITIONAL),
            *self.factors,
        )

    @cached_property
    def reads(self) -> Mapping[str, Form]:
        """The form in which each input is read."""
        hints = get_type_hints(self.compute, include_extras=True)
        variadic = next(reversed(inspect.signature(self.compute).parameters))
        hints |= dict.fromkeys(self.factors, hints.get(variadic))
        forms = {name: get_args(hints[name])[1] for name in self.inputs} | dict(self.forms)
        return MappingProxyType(
            {name: self.operand if form == OPERAND else form for name, form in forms.items()}
        )

    def with_function(self, compute: Compute, **fields: Any) -> Stage:
        """The stage with another function of the same inputs, read in the same forms."""
        other = replace(self, compute=compute, **fields)
        vars(other).update(inputs=self.inputs, reads=self.reads)
        return other

    def over(self, m: AnyArithmetic, inputs: Mapping[str, OwnTerm]) -> StageValue[OwnTerm]:
        """The stage over arithmetic `m`, on inputs that are arrays or the arithmetic's own terms."""
        if set(inputs) != set(self.inputs):
            raise TileproofError(
                f"wrong inputs for {self.name}",
                where=f"stage {self.name}",
                expected=", ".join(self.inputs),
                found=", ".join(inputs) or "none",
            )
        terms = (m.read(self.reads[name], inputs[name]) for name in self.inputs)
        return self._computed(m, terms)

    def _computed(self, m: AnyArithmetic, terms: Iterable[OwnTerm]) -> StageValue[OwnTerm]:
        """What the function leaves; UnknownOperation names the stage."""
        try:
            result = self.compute(WithOperands(m, self.operand), *terms)
        except UnknownOperation as error:
            raise error.of_stage(self.name) from None
        return result if isinstance(result, StageValue) else StageValue(result)

    def exact(self, **inputs: OwnTerm) -> F64:
        """The float64 value."""
        value: F64 = self.over(EXACT, inputs).value
        return value

    def bounded(self, *, copy: bool = False, **inputs: OwnTerm) -> Bounded:
        """Value and error of the result in f32, or of its rounded `copy`."""
        computed = self.over(BOUND, inputs)
        term: Bounded | None = computed.copy if copy else computed.value
        if term is None:
            raise TileproofError(f"{self.name} has no rounded copy", where=f"stage {self.name}")
        return term

    def bound(self, *, copy: bool = False, **inputs: OwnTerm) -> F64:
        """The error alone, per element."""
        return self.bounded(copy=copy, **inputs).errors

    def text_over(self, text: Text) -> StageValue[Formula]:
        """The stage as text; `text` collects its roundings."""
        terms = []
        for name in self.inputs:
            if self.axes.get(name) == () and self.reads[name] == F32:
                text.roundings.append(f"{name} to f32")
            terms.append(named(name, self.axes.get(name, ()), self.symbols))
        computed: StageValue[Formula] = self._computed(text, terms)
        return computed

    @cached_property
    def printed(self) -> Printed:
        """The stage in words."""
        text = Text()
        computed = self.text_over(text)
        if computed.value.axes != self.tile:
            raise TileproofError(
                "the axes of a stage's tile differ from its formula's",
                where=f"stage {self.name}",
                expected=str(computed.value.axes),
                found=str(self.tile),
            )
        roundings, operations = list(text.roundings), list(text.operations)
        if self.scatter is not None:
            more = Text()
            rows = named("indices", ("",), {})
            self.scatter(more, named(self.name, self.output, self.symbols), rows, computed.value)
            roundings += more.roundings
            operations += more.operations
        if self.stored != F32:
            roundings.append(f"the sums to {self.stored.name}, once")
        rest = "f32" + (f"; {text.narrow} as {computed.use}" if computed.use else "")
        return Printed(computed.value, computed.use, rest, tuple(roundings), tuple(operations))

    @property
    def formula(self) -> str:
        """The formula as text."""
        whole = "sum over k-blocks of " if self.kind == "accumulate" else ""
        return whole + self.printed.value.plain

    @property
    def latex(self) -> str:
        """The formula as LaTeX."""
        return f"{self.symbol} = {self.printed.value.latex}"

    @property
    def rounding(self) -> tuple[str, ...]:
        """Where bits go, in order."""
        return self.printed.roundings

    @property
    def at_rest(self) -> str:
        """The forms in which the result is kept."""
        return self.printed.at_rest

    @property
    def steps(self) -> tuple[str, str, str, str]:
        """What is loaded, computed, rounded and stored."""

        def shown(name: str) -> str:
            axes = self.axes.get(name, ())
            return f"{name} {self.reads[name].name}" + (f" [{', '.join(axes)}]" if axes else "")

        store = f"[{', '.join(self.tile)}] {self.at_rest}: {self.memory}"
        return "; ".join(map(shown, self.inputs)), self.formula, "; ".join(self.rounding), store

    @property
    def has_copy(self) -> bool:
        """Whether others read a rounded copy."""
        return bool(self.printed.use)

    @property
    def kind(self) -> str:
        """rowsum, matmul, accumulate (a product over all k-blocks), scatter or elementwise."""
        done = self.printed.operations
        if "scatter_add" in done:
            return "scatter"
        if set(self.walked) & self.contracted and "matmul" in done:
            return "accumulate"
        return next((kind for kind in ("matmul", "rowsum") if kind in done), "elementwise")

    @cached_property
    def contracted(self) -> frozenset[str]:
        """Axes of the inputs that the result has no more."""
        return frozenset(axis for name in self.inputs for axis in self.axes.get(name, ())) - set(self.tile)


@dataclass(frozen=True)
class Printed:
    """A stage in words: its formula, the use of its rounded copy, its forms, its roundings and operations."""

    value: Formula
    use: str
    at_rest: str
    roundings: tuple[str, ...]
    operations: tuple[str, ...]


class Graph:
    """Collects the stages of a problem type, in the order of their definition.

    `ground` gives the axes of every datum that is not a stage, `walked` is the axis (or the axes) walked in
    k-blocks, `operand` the form of `AsOperand`.
    """

    def __init__(
        self,
        ground: Mapping[str, tuple[str, ...]],
        symbols: Mapping[str, str],
        walked: str | tuple[str, ...],
        operand: Form = BF16,
    ) -> None:
        self.ground, self.symbols, self.operand = ground, dict(symbols), operand
        self.walked = (walked,) if isinstance(walked, str) else walked
        self._stages: dict[str, Stage] = {}

    def stage(
        self,
        *tile: str,
        symbol: str,
        memory: str,
        scatter: Scatter | None = None,
        output: tuple[str, ...] = (),
        name: str = "",
        factors: tuple[str, ...] = (),
        forms: Mapping[str, Form] = MappingProxyType({}),
        operand: Form | None = None,
        stored: Form = F32,
    ) -> Callable[[Compute], Compute]:
        """Registers a stage's function under `name` (its own); `tile` are the axes of its result.

        `factors`: the inputs that its variadic parameter takes. `forms`: of inputs that this graph reads in
        another form than the function's annotation. `operand`: the form of operands in this stage alone.
        `stored`: the form of `output`.
        """

        def register(compute: Compute, name: str = name) -> Compute:
            name = name or compute.__name__
            axes = {**self.ground, **{stage.name: stage.tile for stage in self._stages.values()}}
            symbols = {**self.symbols, **{stage.name: stage.symbol for stage in self._stages.values()}}
            self._stages[name] = Stage(
                name,
                symbol,
                tile,
                memory,
                compute,
                scatter,
                output,
                axes,
                {**symbols, name: symbol},
                self.walked,
                operand or self.operand,
                factors,
                forms,
                stored,
            )
            return compute

        return register

    def stages(self) -> Mapping[str, Stage]:
        """Every stage by name, in order."""
        return MappingProxyType(dict(self._stages))
