"""The stage graph is complete and ordered, and what is read off its functions is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.spec.arithmetic import BF16, F32, AsF32
from tileproof.spec.arithmetic.text import Text, named
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import attention, problem_type
from tileproof.spec.problems.base import upstream
from tileproof.spec.problems.dense_attention_bwd import stages as dense
from tileproof.spec.problems.dense_attention_bwd.stages import RoundingPlan
from tileproof.spec.problems.sparse_mla_bwd.stages import GROUND, STAGES
from tileproof.spec.stage import Graph

SPARSE = problem_type("sparse_mla_bwd")


def test_every_input_is_ground_or_an_earlier_stage() -> None:
    seen: set[str] = set(GROUND)
    for name, entry in STAGES.items():
        assert set(entry.inputs) <= seen, name
        seen.add(name)


@pytest.mark.parametrize("name", STAGES)
def test_four_steps_are_said(name: str) -> None:
    load, compute, rounded, store = STAGES[name].steps
    assert all(source in load for source in STAGES[name].inputs)
    assert compute == STAGES[name].formula and rounded and STAGES[name].memory in store


def test_formulas_in_print() -> None:
    assert {name: stage.formula for name, stage in STAGES.items()} == {
        "delta": "rowsum(o * dO)",
        "P": "q k^T",
        "S": "exp2(sm_scale * log2(e) * P - lse), 0 where not mask",
        "dP": "dO v^T",
        "dS": "S * (dP - delta) * sm_scale",
        "dQ": "sum over k-blocks of dS k",
        "dKV": "dS^T q + S^T dO in the first d_v columns",
    }
    assert STAGES["dS"].latex == (
        r"\mathrm{d}S = S \cdot \left(\mathrm{d}P - \delta\right) \cdot \mathrm{scale}"
    )


def test_forms_and_kinds() -> None:
    assert STAGES["dS"].reads == {"S": F32, "dP": F32, "delta": F32, "sm_scale": F32}
    assert STAGES["dKV"].reads == {"S": BF16, "dO": BF16, "dS": BF16, "q": BF16}
    assert {name: stage.kind for name, stage in STAGES.items()} == {
        "delta": "rowsum",
        "P": "matmul",
        "S": "elementwise",
        "dP": "matmul",
        "dS": "elementwise",
        "dQ": "accumulate",
        "dKV": "scatter",
    }
    assert {name for name, stage in STAGES.items() if stage.has_copy} == {"S", "dS", "dQ"}


def test_upstream() -> None:
    assert upstream(SPARSE, "P") == ()
    assert upstream(SPARSE, "dS") == ("delta", "P", "S", "dP")
    assert upstream(SPARSE, "dKV") == ("delta", "P", "S", "dP", "dS")


def test_wrong_inputs_are_named() -> None:
    with pytest.raises(TileproofError, match="wrong inputs") as caught:
        STAGES["P"].bound(q=np.zeros((2, 2)))
    assert caught.value.expected == "q, k"
    with pytest.raises(TileproofError, match="no rounded copy"):
        STAGES["P"].bound(copy=True, q=np.zeros((2, 2)), k=np.zeros((2, 2)))


def test_a_product_of_axes_that_do_not_meet_is_refused() -> None:
    wrong = replace(STAGES["P"], compute=lambda m, q, k: m.matmul(q, k))
    with pytest.raises(TileproofError, match="do not meet"):
        wrong.compute(Text(), *(_named(name) for name in ("q", "k")))
    with pytest.raises(TileproofError, match="axes of a stage"):
        _ = replace(STAGES["P"], tile=("B_TOPK", "h_q")).formula


def _named(name: str):  # type: ignore[no-untyped-def]
    from tileproof.spec.arithmetic.text import named

    return named(name, GROUND[name], {})


def test_the_formula_of_dS_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign that is changed there is changed in every graph, and in the gradient of the bias."""
    monkeypatch.setattr(
        attention, "softmax_gradient", lambda m, S, dP, delta, *factors: m.mul(S, m.add(dP, delta), *factors)
    )
    plans = [RoundingPlan(late=late, narrow_softmax=not late) for late in (False, True)]
    plans += [RoundingPlan(), RoundingPlan(late=True, late_dropout=True)]
    seen = [STAGES["dS"], dense.by_key_block(BF16)["dS"]]
    seen += [dense.whole(form, plan)[name] for plan in plans for form in (BF16, F32) for name in ("dS", "dB")]
    for stage in seen:
        terms = (named(name, (), {}) for name in stage.inputs)
        assert stage.compute(Text(), *terms).value.plain.startswith("S * (dP + ")


def test_inputs_of_a_variadic_parameter_and_forms_of_a_graph() -> None:
    def product(m: Any, a: AsF32, *factors: AsF32) -> Any:
        return m.mul(a, *factors)

    graph = Graph({"a": ("m",), "x": (), "y": ()}, {}, walked="n")
    graph.stage("m", symbol="p", memory="p", name="p", factors=("x", "y"), forms={"a": BF16})(product)
    variadic = graph.stages()["p"]
    assert (variadic.inputs, variadic.formula) == (("a", "x", "y"), "a * x * y")
    assert variadic.reads == {"a": BF16, "x": F32, "y": F32}
    assert variadic.exact(a=np.ones(3), x=2.0, y=3.0).tolist() == [6.0] * 3
