"""Operations of stages: machine values lie within the bounds, planted errors do not; the registry."""

from __future__ import annotations

import copy
import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.spec.arithmetic import (
    BF16,
    F32,
    OPERAND,
    AsF32,
    Form,
    Operation,
    WithOperands,
    register,
    registered,
)
from tileproof.spec.arithmetic import operation as registry
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.arithmetic.rounded import Rounded
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.arithmetic.text import Text, named
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import F32_MIN_NORMAL, LOG2_E, round_f32
from tileproof.spec.stage import Graph

from tests.kit.paths import ROOT
from tests.kit.ptx import elementwise

COUNT = 4000
F64 = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(autouse=True)
def _known_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))


def spread(seed: int, least: int, largest: int, *, signed: bool = True) -> F64:
    """``[COUNT]`` f32 values of all magnitudes from 2^least to 2^largest."""
    rng = np.random.default_rng(seed)
    values = np.ldexp(rng.uniform(1, 2, COUNT), rng.integers(least, largest, COUNT))
    return round_f32(values * (rng.choice([-1.0, 1.0], COUNT) if signed else 1.0))


# Operands, and the relative error of the instruction (PTX ISA 9.7.3).
OPERANDS: dict[str, tuple[tuple[F64, ...], float]] = {
    "div": ((spread(1, -40, 40), spread(2, -40, 40)), 2.0**-22),
    "sqrt": ((spread(3, -120, 120, signed=False),), 2.0**-23),
    "rsqrt": ((spread(4, -120, 120, signed=False),), 2.0**-22.9),
    "tanh": ((spread(5, -30, 6),), 2.0**-11),
    "max": ((spread(6, -20, 20), spread(7, -20, 20)), 0.0),
    "min": ((spread(8, -20, 20), spread(9, -20, 20)), 0.0),
    "log2": ((spread(10, -120, 120, signed=False),), 0.0),
    "log": ((spread(11, -120, 120, signed=False),), 0.0),
    "sigmoid": ((spread(12, -20, 6),), 0.0),
    "exp2": ((spread(13, -20, 6),), 2.0**-22),
}


def absolute(name: str, value: F64) -> F64 | float:
    """The absolute error that the ISA allows the instruction beside the relative one."""
    if name == "exp2":
        return F32_MIN_NORMAL
    least = {"log2": 1.0, "log": float(np.log(2.0))}.get(name)
    return 0.0 if least is None else 2.0**-22 * np.maximum(least, np.abs(value))


def outside(found: F64, term: Bounded) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(np.abs(found - term.value) > term.errors)


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("relative", [0.0, 2.0**-20, 2.0**-8])
def test_a_machine_value_of_operands_within_their_errors_is_inside(name: str, relative: float) -> None:
    """Rounded once, and as far off as the instruction may be, at the ends of the operands' errors."""
    values, instruction = OPERANDS[name]
    terms = [Bounded(x, np.abs(x) * relative if relative else 0.0) for x in values]
    term = getattr(BOUND, name)(*terms)
    assert np.isfinite(term.errors).mean() > (0.9 if name == "exp2" else 0.999)
    assert (term.value == getattr(EXACT, name)(*values)).all()
    for seed in range(4):
        ends = np.random.default_rng(seed).choice([-1.0, 0.3, 1.0], (len(values), COUNT))
        held = [x + end * np.abs(x) * relative for x, end in zip(values, ends, strict=True)]
        with np.errstate(over="ignore"):
            assert not outside(getattr(Rounded(), name)(*map(round_f32, held)), term).any() or relative
            for sign in (-1, 1):
                exact = getattr(EXACT, name)(*held)
                found = exact * (1 + sign * instruction) + sign * absolute(name, exact)
                within = np.abs(found) < 2.0**127
                assert not outside(found, term)[within].any()
        inner = [x + 0.9 * end * np.abs(x) * relative for x, end in zip(values, ends, strict=True)]
        assert not outside(getattr(Rounded(), name)(*map(round_f32, inner)), term).any()


@pytest.mark.parametrize("name", OPERANDS)
def test_an_error_just_outside_is_caught(name: str) -> None:
    """Five per cent more than the instruction may be off; an f32 ulp where nothing is rounded."""
    values, instruction = OPERANDS[name]
    term = getattr(BOUND, name)(*map(Bounded, values))
    normal = np.isfinite(term.errors) & (np.abs(term.value) > 2.0**-90)
    for sign in (-1, 1):
        with np.errstate(over="ignore"):
            found = term.value * (1 + sign * 1.05 * instruction) + sign * 1.05 * absolute(name, term.value)
        if name == "log":
            found = found + sign * 2.0**-22 * np.abs(term.value)
        if name == "sigmoid":
            found = found * (1 + sign * 2.0**-20)
        if name in ("max", "min"):
            found = np.nextafter(term.value.astype(np.float32), np.float32(sign * 1e38)).astype(float)
        share = outside(found, term)[normal].mean()
        assert share == 1.0 if name != "sigmoid" else share > 0.8, name


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("log", lambda x: EXACT.log2(x)),
        ("log2", lambda x: EXACT.log(x)),
        ("rsqrt", lambda x: EXACT.sqrt(x)),
        ("rsqrt", lambda x: 1 / np.sqrt(x * (1 + 2.0**-20))),
        ("sqrt", lambda x: np.sqrt(x).astype(np.float16).astype(float)),
        ("sigmoid", lambda x: 0.5 + 0.5 * EXACT.tanh(x / 2) * (1 + 2.0**-11)),
        ("sigmoid", lambda x: 1 / (1 + np.exp2(-x))),
        ("sigmoid", lambda x: 1 / (1 + np.exp2(-x * LOG2_E * (1 + 2.0**-9)))),
        ("tanh", lambda x: 2 / (1 + np.exp2(-2 * x)) - 1),
        ("div", lambda x, y: x * (1 / y).astype(np.float32).astype(float) * (1 + 2.0**-21)),
        ("max", np.minimum),
    ],
)
def test_a_wrong_function_is_caught(name: str, wrong: Callable[..., F64]) -> None:
    values, _ = OPERANDS[name]
    term = getattr(BOUND, name)(*map(Bounded, values))
    with np.errstate(over="ignore"):
        assert outside(wrong(*values), term).mean() > 0.3


def test_where_no_finite_bound_holds() -> None:
    """At a pole, outside of the domain, and where an operand may be infinite; only there."""
    near = Bounded(np.array([1.0, 1.0, 0.0, -1.0, 4.0]), np.array([0.5, 1.0, 0.0, 0.25, 0.0]))
    for name, endless, nan in (
        ("log2", [False, True, True, True, False], [False, False, False, True, False]),
        ("log", [False, True, True, True, False], [False, False, False, True, False]),
        ("rsqrt", [False, True, True, True, False], [False, False, False, True, False]),
        ("sqrt", [False, False, False, True, False], [False, False, False, True, False]),
        ("tanh", [False] * 5, [False] * 5),
        ("sigmoid", [False] * 5, [False] * 5),
    ):
        term = getattr(BOUND, name)(near)
        assert np.isinf(term.errors).tolist() == endless, name
        assert (np.zeros(5, bool) if term.may_be_nan is None else term.may_be_nan).tolist() == nan, name
    finite, zero = Bounded(np.ones(5)), Bounded(np.zeros(5))
    assert np.isinf(BOUND.div(finite, near).errors).tolist() == [False, True, True, False, False]
    both = BOUND.div(zero, near)
    assert both.may_be_nan is not None and both.may_be_nan.tolist() == [False, True, True, False, False]
    assert not BOUND.div(zero, Bounded(np.full(5, 3.0))).errors.any()
    assert not BOUND.sqrt(zero).errors.any()


def test_what_may_be_nan_has_no_finite_bound() -> None:
    unknown = Bounded(np.array([1.0]), np.array([np.inf]), np.array([True]))
    for name in ("tanh", "sigmoid", "log", "sqrt"):
        assert np.isinf(getattr(BOUND, name)(unknown).errors).all(), name
    assert np.isinf(BOUND.div(unknown, Bounded(np.array([2.0]))).errors).all()
    assert np.isinf(BOUND.max(unknown, Bounded(np.array([2.0]))).errors).all()
    assert np.isinf(BOUND.rowmax(Bounded(np.ones((1, 1)), np.full((1, 1), np.inf))).errors).all()


def test_the_ends_of_the_sigmoid() -> None:
    x = np.array([-1e4, -200.0, -88.5, -87.0, 87.0, 200.0, 1e4])
    term = BOUND.sigmoid(Bounded(x))
    assert (term.errors < 1e-6).all() and not outside(Rounded().sigmoid(x), term).any()
    assert not outside(np.array([0.0, 0.0, 0.0, term.value[3], 1.0, 1.0, 1.0]), term).any()
    assert (
        outside(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), term).tolist()
        == [False] * 3 + [True] + [False] * 3
    )


def test_rows_and_columns() -> None:
    rng = np.random.default_rng(1)
    a, b = (round_f32(rng.standard_normal((70, 5))) for _ in range(2))
    for name, want in (("rowsum", (a * b).sum(1)), ("colsum", (a * b).sum(0))):
        term = getattr(BOUND, name)(Bounded(a), Bounded(b))
        assert not outside(getattr(Rounded(), name)(a, b), term).any()
        assert np.allclose(term.value, want, rtol=0, atol=1e-13)
        lost = getattr(Rounded(), name)(a[:-1] if name == "colsum" else a[:, :-1], b[: len(a) - 1] if
                                        name == "colsum" else b[:, :-1])  # fmt: skip
        assert outside(lost, term).all()
    assert not outside(Rounded().rowsum(a), BOUND.rowsum(Bounded(a))).any()
    errors = np.abs(a) * 1e-3
    term = BOUND.rowmax(Bounded(a, errors))
    assert not outside((a + errors).max(1), term).any() and not outside((a - errors).max(1), term).any()
    assert outside((a + 3 * errors).max(1), term).any()
    assert (BOUND.rowmax(Bounded(a)).errors == 0).all()
    assert np.isneginf(Rounded().rowmax(a[:, :0])).all()


def test_a_selected_term_has_its_own_error() -> None:
    mask = np.array([True, False])
    a, b = Bounded(np.ones(2), np.array([0.5, np.inf])), Bounded(np.zeros(2), np.array([np.inf, 0.25]))
    chosen = BOUND.select(mask, a, b)
    assert (chosen.value.tolist(), chosen.errors.tolist()) == ([1.0, 0.0], [0.5, 0.25])


PTX = {
    "div": ("div.rn.f32 d, x0, x1;", "div.full.f32 d, x0, x1;", "div.approx.f32 d, x0, x1;"),
    "sqrt": ("sqrt.rn.f32 d, x0;", "sqrt.approx.f32 d, x0;"),
    "rsqrt": ("rsqrt.approx.f32 d, x0;", "sqrt.rn.f32 d, x0; div.rn.f32 d, 0f3F800000, d;"),
    "log2": ("lg2.approx.f32 d, x0;",),
    "log": ("lg2.approx.f32 d, x0; mul.rn.f32 d, d, 0f3F317218;",),
    "tanh": ("tanh.approx.f32 d, x0;",),
    "max": ("max.f32 d, x0, x1;",),
    "min": ("min.f32 d, x0, x1;",),
    "sigmoid": (
        "mul.rn.f32 d, x0, 0fBFB8AA3B; ex2.approx.ftz.f32 d, d; add.rn.f32 d, d, 0f3F800000;"
        "div.full.f32 d, 0f3F800000, d;",
    ),
}


@pytest.mark.parametrize("name", PTX)
def test_the_instructions_on_the_emulator_are_inside(name: str) -> None:
    values = [x.astype(np.float32)[:1024] for x in OPERANDS[name][0]]
    term = getattr(BOUND, name)(*(Bounded(x.astype(np.float64)) for x in values))
    for code in PTX[name]:
        found = elementwise(code, values, np.float32).astype(np.float64)
        assert found.any() and not outside(found, term).any(), code


# ---- the registry


class Relu2(Operation):
    """``max(a, 0)^2`` in f32."""

    name = "relu2"

    def exact(self, m: Any, a: Any) -> Any:
        return np.maximum(a, 0.0) ** 2

    def rounded(self, m: Any, a: Any) -> Any:
        return round_f32(self.exact(m, a))

    def bound(self, m: Any, a: Any) -> Any:
        kept = m.max(a, m.constant("0", 0.0))
        return m.mul(kept, kept)

    def text(self, m: Any, a: Any) -> Any:
        m.operations.append("relu2")
        m.roundings.append("square to f32")
        return type(a)(f"relu2({a.plain})", rf"\max({a.latex}, 0)^2", a.axes)


def operands_in(form: Form) -> Any:
    return WithOperands(BOUND, form)


def stage_of(compute: Callable[..., Any]) -> Any:
    graph = Graph({"x": ("m", "n")}, {}, walked="n")
    graph.stage("m", "n", symbol="y", memory="y", name="y")(compute)
    return graph.stages()["y"]


def test_a_registered_operation_is_known_to_every_interpretation() -> None:
    def y(m: Any, x: AsF32) -> Any:
        return m.relu2(x)

    with pytest.raises(TileproofError, match="unknown operation relu2"):
        stage_of(y).exact(x=np.ones((1, 2)))
    register(Relu2())
    known, x = stage_of(y), np.array([[-1.0, 3.0, 1 / 3]], np.float32)
    assert known.exact(x=x).tolist() == [[0.0, 9.0, float(x[0, 2]) ** 2]]
    assert not outside(known.over(Rounded(), {"x": x}).value, known.bounded(x=x)).any()
    assert outside(known.exact(x=np.abs(x)), known.bounded(x=x)).any()
    assert (known.formula, known.rounding) == ("relu2(x)", ("square to f32",))


def test_an_unknown_operation_names_the_stage_and_the_known_ones() -> None:
    def y(m: Any, x: AsF32) -> Any:
        return m.rsqr(x)

    for use in (
        lambda s: s.exact(x=np.ones((1, 1))),
        lambda s: s.bound(x=np.ones((1, 1))),
        lambda s: s.formula,
    ):
        with pytest.raises(
            TileproofError, match=r"unknown operation rsqr: did you mean rsqrt or sqrt\?"
        ) as caught:
            use(stage_of(y))
        assert (caught.value.where, caught.value.found) == ("stage y", "rsqr")
        assert {"rsqrt", "matmul", "exp2"} <= set(caught.value.expected.split(", "))


def test_what_is_refused_as_an_operation() -> None:
    class Half(Relu2):
        name = "half"
        text = Operation.text

    class Taken(Relu2):
        name = "exp2"

    with pytest.raises(TileproofError, match="lacks an interpretation") as caught:
        register(Half())
    assert "text" in caught.value.found
    with pytest.raises(TileproofError, match="same name"):
        register(Taken())
    for name in ("", "_x", "a b", "read", "part", "keep", "operation", "roundings"):
        odd = Relu2()
        odd.name = name
        with pytest.raises(TileproofError, match="cannot have this name"):
            register(odd)
    assert "half" not in registered()


def test_an_arithmetic_may_do_one_operation_otherwise() -> None:
    class Coarse(Rounded):
        def exp2(self, a: Any) -> Any:
            return self.operation("exp2")(a) * 2

    assert Coarse().exp2(np.array([1.0])).tolist() == [4.0]
    assert copy.deepcopy(Coarse()).exp2(np.array([0.0])).tolist() == [2.0]
    assert not hasattr(Coarse(), "__array_interface__")


def test_an_operation_is_given_the_form_of_operands() -> None:
    """Also as an option, and to an operation of a package."""

    class Twice(Relu2):
        name = "twice"

        def exact(self, m: Any, form: Any, a: Any, second: Any = None) -> Any:  # type: ignore[override]
            return np.asarray([form.name, second.name])

    register(Twice())

    def y(m: Any, x: AsF32) -> Any:
        return m.twice(OPERAND, x, second=OPERAND)

    for operand in (BF16, F32):
        known = replace(stage_of(y), operand=operand)
        assert known.exact(x=np.ones((1, 1))).tolist() == [operand.name] * 2
    assert operands_in(F32).round_to(OPERAND, Bounded(np.ones(1))).errors.tolist() == [0.0]
    third = np.array([1 / 3])
    assert (operands_in(F32).round_to(OPERAND, Bounded(third)).value == third).all()
    assert operands_in(BF16).round_to(OPERAND, Bounded(third)).errors.all()


def test_every_operation_says_what_it_is() -> None:
    for name, operation in registered().items():
        assert operation.name == name and operation.summary.endswith(".") and len(operation.summary) < 110, (
            name
        )


def test_operations_in_print() -> None:
    m = Text()
    x, y = (named(name, ("m", "n"), {}) for name in ("x", "y"))
    shown = [
        m.div(m.add(x, y), m.mul(x, y)), m.neg(m.add(x, y)), m.max(x, y), m.rowmax(x), m.rsqrt(m.add(x, y)),
        m.colsum(x, y), m.log2(x), m.select(x, y, x), m.rowsum(x),
    ]  # fmt: skip
    assert [term.plain for term in shown] == [
        "(x + y) / (x * y)", "-(x + y)", "max(x, y)", "rowmax(x)", "rsqrt(x + y)", "sum over m of x * y",
        "log2(x)", "y, x where not x", "rowsum(x)",
    ]  # fmt: skip
    assert [term.axes for term in shown][3:6] == [("m",), ("m", "n"), ("n",)]
    assert shown[4].latex == r"{\left(x + y\right)}^{-1/2}"


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "adding-a-problem.md").read_text(encoding="utf-8")
    ((example, shown),) = re.findall(r"```python[^\n]*\n(.*?)```\n\n((?:    [^\n]*\n)+)", page, re.S)
    # A stage's annotations are looked up in its module.
    exec(example, {"__name__": "example"})
    assert capsys.readouterr().out == textwrap.dedent(shown)
