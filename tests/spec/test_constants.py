"""Constants of the error analysis against what they stand for: the formats, and the PTX ISA's own figures."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from tileproof.spec import docs, numerics
from tileproof.spec.numerics import CONSTANTS, power_of_two

BF16 = ml_dtypes.finfo(ml_dtypes.bfloat16)
F16, F32, F64 = (np.finfo(dtype) for dtype in (np.float16, np.float32, np.float64))
ULP = 2.0**-23  # of f32, relative to a power of two

# A rounding to nearest is off by half of the distance of neighbours at most; toward zero by all of it.
MEANING = {
    "U_F64": float(F64.eps) / 2,
    "U_F32": float(F32.eps) / 2,
    "U_F32_RZ": float(F32.eps),
    "U_BF16": float(BF16.eps) / 2,
    "U_F16": float(F16.eps) / 2,
    "EX2_RELATIVE": 2 * ULP,  # 2 ulp (PTX ISA 9.7.3.21)
    "LG2_ERROR": 2.0**-22,  # 9.7.3.20
    "DIV_RELATIVE": 2 * ULP,  # 2 ulp (9.7.3.8)
    "SQRT_RELATIVE": 2.0**-23,  # 9.7.3.14
    "RSQRT_RELATIVE": 2.0**-22.9,  # 9.7.3.16
    "TANH_RELATIVE": 2.0**-11,  # 9.7.3.22
    "F32_TINY": float(F32.smallest_subnormal),
    "F32_MIN_NORMAL": float(F32.smallest_normal),
    "F32_MAX": float(F32.max),
    "BF16_TINY": float(BF16.smallest_subnormal),
    "BF16_MAX": float(BF16.max),
    "F16_TINY": float(F16.smallest_subnormal),
    "F16_MAX": float(F16.max),
    "LOG2_E": 1 / math.log(2),
    "LN_2": 0.6931471805599453,
}


@pytest.mark.parametrize("name", MEANING)
def test_a_constant_is_what_it_stands_for(name: str) -> None:
    assert getattr(numerics, name) == pytest.approx(MEANING[name], rel=4e-16, abs=0)


def test_every_constant_is_here_and_printed_ones_print_their_value() -> None:
    named = {name for name, value in vars(numerics).items() if name.isupper() and isinstance(value, float)}
    assert named == set(MEANING)
    for constant in CONSTANTS:
        if constant.name in MEANING:
            assert constant.value == power_of_two(MEANING[constant.name])


def test_pages_and_formulas_print_what_the_constant_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileproof.spec.arithmetic.operations import functions
    from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES

    # A plain property: what is printed here is kept by no stage.
    kind = type(STAGES["S"])
    monkeypatch.setattr(kind, "printed", property(vars(kind)["printed"].func))
    monkeypatch.setattr(functions, "EX2_RELATIVE", 2.0**-20)
    assert "ex2.approx.ftz.f32: relative 2^-20" in docs.page([])
