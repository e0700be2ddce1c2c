"""The bits of NaNs that PTX leaves open, as an H100 gives them (docs/evidence, 2026-11-24-h100-fuzz)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit.ptx import elementwise

QUIET, NEGATIVE, SIGNALLING, SIGNALLING_NEGATIVE = (
    0x7FF8000000000001,
    0xFFF8000000000002,
    0x7FF0000000000003,
    0xFFF4000000000004,
)
ONE, INFINITY = 0x3FF0000000000000, 0x7FF0000000000000
MIXED = 0xFFF7A5A5A5A5A5A5

# (instruction, operands, the card's word)
F64 = [
    ("add.rn.f64 d, x0, x1;", (QUIET, NEGATIVE), NEGATIVE),
    ("add.rn.f64 d, x0, x1;", (SIGNALLING, QUIET), QUIET),
    ("add.rz.f64 d, x0, x1;", (QUIET, SIGNALLING), 0x7FF8000000000003),
    ("add.rn.f64 d, x0, x1;", (SIGNALLING_NEGATIVE, ONE), 0xFFFC000000000004),
    ("sub.rn.f64 d, x0, x1;", (QUIET, NEGATIVE), NEGATIVE),
    ("sub.rn.f64 d, x0, x1;", (INFINITY, INFINITY), 0xFFF8000000000000),
    ("mul.rn.f64 d, x0, x1;", (SIGNALLING_NEGATIVE, SIGNALLING), 0x7FF8000000000003),
    ("div.rn.f64 d, x0, x1;", (QUIET, NEGATIVE), QUIET),
    ("div.rn.f64 d, x0, x1;", (ONE, SIGNALLING_NEGATIVE), 0xFFFC000000000004),
    ("min.f64 d, x0, x1;", (NEGATIVE, NEGATIVE), NEGATIVE),
    ("max.f64 d, x0, x1;", (0x7FFFFFFFFFFFFFFF, 0xFFF0000020000000), 0xFFF8000020000000),
    ("max.f64 d, x0, x1;", (QUIET, ONE), ONE),
    ("fma.rn.f64 d, x0, x1, x2;", (QUIET, NEGATIVE, QUIET), NEGATIVE),
    ("fma.rn.f64 d, x0, x1, x2;", (MIXED, INFINITY, NEGATIVE), NEGATIVE),
    ("fma.rn.f64 d, x0, x1, x2;", (0x8000000000000000, INFINITY, ONE), 0xFFF8000000000000),
    ("sqrt.rn.f64 d, x0;", (0xBFF0000000000000,), 0xFFF8000000000000),
    ("rsqrt.approx.f64 d, x0;", (0xBFF0000000000000,), 0xFFF8000000000000),
    ("rsqrt.approx.ftz.f64 d, x0;", (0xBFF0000000000000,), 0xFFF8000000000000),
    ("neg.f64 d, x0;", (SIGNALLING,), 0x7FF8000000000003),
    ("abs.f64 d, x0;", (SIGNALLING_NEGATIVE,), 0xFFFC000000000004),
]
TO_NARROWER = [
    ("cvt.rn.f32.f64 d, x0;", SIGNALLING, 0x7FC00000),
    ("cvt.rz.f32.f64 d, x0;", 0x7FF80000E0000000, 0x7FC00007),
    ("cvt.rn.ftz.f32.f64 d, x0;", MIXED, 0xFFFD2D2D),
    ("cvt.rn.sat.f32.f64 d, x0;", MIXED, 0),
    ("cvt.rn.f16.f64 d, x0;", MIXED, 0xFFE9),
    ("cvt.rn.bf16.f64 d, x0;", MIXED, 0xFFFD),
]
TO_WIDER = [
    ("cvt.f64.f16 d, x0;", 0x7C03, 0x7FF80C0000000000),
    ("cvt.f64.f16 d, x0;", 0xFD04, 0xFFFC100000000000),
    ("cvt.f64.bf16 d, x0;", 0x7FC1, 0x7FF8200000000000),
    ("cvt.f64.bf16 d, x0;", 0xFFA4, 0xFFFC800000000000),
]
TF32 = [
    ("rna", 0x7FC00001, 0x7FC00000),
    ("rna", 0x7F801FFF, 0x7F800000),  # an infinity
    ("rna", 0xFF812345, 0xFF812000),
    ("rna.satfinite", 0x7F800003, 0x7F7FE000),
    ("rna.satfinite", 0xFFFFFFFF, 0xFFFFC000),
    ("rn", 0xFFA00004, 0x7FFFE000),
    ("rz", 0x7F800003, 0x7FFFE000),
    ("rn.relu", 0xFFC00002, 0x7FFFE000),
]


@pytest.mark.parametrize(("line", "operands", "want"), F64)
def test_f64_takes_one_operand_and_makes_it_quiet(line: str, operands: tuple[int, ...], want: int) -> None:
    rows = [np.full(32, v, np.uint64) for v in operands]
    assert elementwise(line, rows, np.uint64)[0] == want


@pytest.mark.parametrize(("line", "value", "want"), TO_NARROWER)
def test_f64_to_narrower_keeps_sign_and_payload(line: str, value: int, want: int) -> None:
    kind = np.uint16 if "16" in line else np.uint32
    assert elementwise(line, [np.full(32, value, np.uint64)], kind)[0] == want


@pytest.mark.parametrize(("line", "value", "want"), TO_WIDER)
def test_halves_to_f64_keep_sign_and_payload(line: str, value: int, want: int) -> None:
    assert elementwise(line, [np.full(32, value, np.uint16)], np.uint64)[0] == want


@pytest.mark.parametrize(("form", "value", "want"), TF32)
def test_tf32(form: str, value: int, want: int) -> None:
    line = f"cvt.{form}.tf32.f32 d, x0;"
    assert elementwise(line, [np.full(32, value, np.uint32)], np.uint32)[0] == want


@pytest.mark.parametrize(("space", "want"), [("global", SIGNALLING), ("shared", 0x7FF8000000000003)])
def test_an_atomic_addition_keeps_a_signalling_nan_in_global_memory(space: str, want: int) -> None:
    place = ".shared .b64 cell[32]; .reg .b64 %at; " if space == "shared" else ".reg .b64 %at; "
    at = "%sat" if space == "shared" else "%at"
    address = (
        ".reg .b32 %sat; mov.u32 %sat, cell; mad.lo.u32 %sat, %t, 8, %sat;"
        if space == "shared"
        else "mad.wide.u32 %at, %t, 8, %a1;"
    )
    line = (
        f"{place}{address} st.{space}.b64 [{at}], x0; "
        f"atom.{space}.add.f64 d, [{at}], x1; ld.{space}.b64 d, [{at}];"
    )
    unit, nan = np.full(32, ONE, np.uint64), np.full(32, SIGNALLING, np.uint64)
    assert (elementwise(line, [unit, nan], np.uint64) == want).all()
