"""The stage graph is complete and ordered, and what is read off its functions is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.spec.arithmetic import BF16, F32
from tileproof.spec.arithmetic.text import Text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.stages import GROUND, STAGES, stage, upstream


def test_every_input_is_ground_or_an_earlier_stage() -> None:
    seen: set[str] = set(GROUND)
    for name, entry in STAGES.items():
        assert set(entry.inputs) <= seen, name
        seen.add(name)


@pytest.mark.parametrize("name", STAGES)
def test_four_steps_are_said(name: str) -> None:
    load, compute, rounded, store = stage(name).steps
    assert all(source in load for source in stage(name).inputs)
    assert compute == stage(name).formula and rounded and stage(name).memory in store


def test_formulas_in_print() -> None:
    assert {name: one.formula for name, one in STAGES.items()} == {
        "delta": "rowsum(o * dO)",
        "P": "q k^T",
        "S": "exp2(sm_scale * log2(e) * P - lse), 0 where not mask",
        "dP": "dO v^T",
        "dS": "S * (dP - delta) * sm_scale",
        "dQ": "sum over k-blocks of dS k",
        "dKV": "dS^T q + S^T dO in the first d_v columns",
    }
    assert stage("dS").latex == (
        r"\mathrm{d}S = S \cdot \left(\mathrm{d}P - \delta\right) \cdot \mathrm{scale}"
    )


def test_forms_and_kinds() -> None:
    assert stage("dS").reads == {"S": F32, "dP": F32, "delta": F32, "sm_scale": F32}
    assert stage("dKV").reads == {"S": BF16, "dO": BF16, "dS": BF16, "q": BF16}
    assert {name: one.kind for name, one in STAGES.items()} == {
        "delta": "rowsum",
        "P": "matmul",
        "S": "elementwise",
        "dP": "matmul",
        "dS": "elementwise",
        "dQ": "accumulate",
        "dKV": "scatter",
    }
    assert {name for name, one in STAGES.items() if one.has_copy} == {"S", "dS", "dQ"}


def test_upstream() -> None:
    assert upstream("P") == ()
    assert upstream("dS") == ("delta", "P", "S", "dP")
    assert upstream("dKV") == ("delta", "P", "S", "dP", "dS")


def test_unknown_stage_names_the_known_ones() -> None:
    with pytest.raises(TileproofError, match="unknown stage") as caught:
        stage("dV")
    assert "dKV" in caught.value.expected


def test_wrong_inputs_are_named() -> None:
    with pytest.raises(TileproofError, match="wrong inputs") as caught:
        stage("P").bound(q=np.zeros((2, 2)))
    assert caught.value.expected == "q, k"
    with pytest.raises(TileproofError, match="no rounded copy"):
        stage("P").bound(copy=True, q=np.zeros((2, 2)), k=np.zeros((2, 2)))


def test_a_product_of_axes_that_do_not_meet_is_refused() -> None:
    wrong = replace(stage("P"), compute=lambda m, q, k: m.matmul(q, k))
    with pytest.raises(TileproofError, match="do not meet"):
        wrong.compute(Text(), *(_named(name) for name in ("q", "k")))
    with pytest.raises(TileproofError, match="tile of a stage"):
        _ = replace(stage("P"), tile=("B_TOPK", "h_q")).formula


def _named(name: str):  # type: ignore[no-untyped-def]
    from tileproof.spec.arithmetic.text import named

    return named(name, GROUND[name], {})
