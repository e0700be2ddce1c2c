"""Elementwise stages with one operation another: each is named by its formula, others are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.diagnose.test_terms import scene


@pytest.mark.parametrize(
    ("stage", "made", "says"),
    [
        (
            "dS",
            lambda x: x["S"] * (x["dP"] - x["delta"][:, None]) + x["sm_scale"],
            "it is S * (dP - delta) + sm_scale, not S * (dP - delta) * sm_scale",
        ),
        (
            "dS",
            lambda x: (x["S"] - (x["dP"] - x["delta"][:, None])) * x["sm_scale"],
            "",
        ),
        (
            "S",
            lambda x: np.exp2(x["P"] + x["sm_scale"] * np.log2(np.e) - x["lse"][:, None]),
            "it is exp2(sm_scale * log2(e) + P - lse), 0 where not mask, not exp2(",
        ),
        (
            "S",
            lambda x: np.exp2(x["P"] * x["sm_scale"] * np.log2(np.e) + x["lse"][:, None]),
            "it is exp2(sm_scale * log2(e) * P + lse), 0 where not mask, not exp2(",
        ),
        (
            "S",
            lambda x: np.exp2(x["P"] - x["lse"][:, None] * x["sm_scale"] * np.log2(np.e)),
            "the exponent is P - lse * scale, not P * scale - lse",
        ),
        ("S", lambda x: np.exp2(x["P"] * x["sm_scale"] * 1.7 - x["lse"][:, None] * 0.9), ""),
    ],
)
def test_another_operation(stage, made, says):
    here = scene(stage)
    operands = {name: getattr(operand, "value", operand) for name, operand in here.reference.operands.items()}
    told = here.told(made(operands))
    assert told.startswith(says) if says else "it is" not in told and "exponent" not in told


def test_an_element_that_was_left_as_its_input():
    here = scene("dS")
    value = here.reference.value.copy()
    value[:, [16, 48]] = here.reference.operands["dP"].value[:, [16, 48]]
    assert here.told(value) == "it is dP, not S * (dP - delta) * sm_scale"
