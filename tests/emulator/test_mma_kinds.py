# ruff: noqa: E501 - case tables are kept whole
"""tcgen05.mma of every kind against numpy: element types, packings, accumulators, scale factors, layouts, both modes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine import kinds, tensor_core
from tileproof.spec.machine import mma as rules
from tileproof.spec.machine.smem_layout import Major

from tests.kit import mma as mma_kit
from tests.kit.mma import DTYPES, SFA_COLUMN, SFB_COLUMN, Form, multiply
from tests.kit.ptx import POLICIES, clean, only

NARROW = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]


def small(rng: np.random.Generator, rows: int, k: int, type_: str) -> np.ndarray:
    """Values of a type whose products and sums are exact in f32."""
    if type_ in ("s8", "u8"):
        low, high = (-128, 128) if type_ == "s8" else (0, 256)
        return rng.integers(low, high, (rows, k)).astype(DTYPES[type_])
    if type_ in ("e2m3", "e3m2", "e2m1"):  # every finite value
        codes = rng.integers(0, 1 << kinds.BITS[type_], (rows, k)).astype(np.uint8)
        return codes.view(DTYPES[type_])
    return rng.integers(-8, 9, (rows, k)).astype(DTYPES[type_])


def exact(form: Form, seed: int = 0, d: bool = False, **launch: Any) -> None:
    """One instruction on small values is a @ b.T, scaled, plus d."""
    rng = np.random.default_rng([form.m, form.n, seed])
    a, b = (small(rng, rows, form.k, t) for rows, t in zip((form.m, form.n), form.types, strict=True))
    old = rng.integers(-64, 65, (form.m, form.n)).astype(np.float64) if d else None
    want = a.astype(np.float64) @ b.astype(np.float64).T * (-1) ** (form.negate_a + form.negate_b)
    scales = {}
    if form.scale_type:
        count = kinds.format_of(form.format).scales
        sa, sb = (np.exp2(rng.integers(-3, 4, (rows, count))) for rows in (form.m, form.n))
        scales = {"scale_a": sa, "scale_b": sb}
        block = form.k // count
        wide = [np.repeat(s, block, axis=1) * x.astype(np.float64) for s, x in ((sa, a), (sb, b))]
        want = wide[0] @ wide[1].T * (-1) ** (form.negate_a + form.negate_b)
    got, _, result = multiply(form, a, b, old, **scales, **launch)  # type: ignore[arg-type]
    want = want if old is None else want + old
    assert (got.astype(np.float64) == want).all(), f"{(got != want).sum()} of {want.size} differ"
    assert result.counters["mma_macs"] == form.m * form.n * form.k


def f(m: int, n: int, format_: str, a: str, b: str = "", **rest: Any) -> Form:
    d = "s32" if format_ == "i8" else "f32"
    scale = {"mxf4nvf4.4X": "ue4m3"}.get(format_, "ue8m0") if format_.startswith("mx") else ""
    return Form(m, n, format=format_, type=a, b_type=b, **{"d_type": d, "scale_type": scale, **rest})  # type: ignore[arg-type]


PLAIN = [f(128, 64, "tf32", "tf32"), f(128, 64, "i8", "s8", "u8"), f(128, 64, "i8", "u8", "s8"),
         *(f(128, 64, "f8f6f4", a, b) for a, b in itertools.product(NARROW, NARROW))]  # fmt: skip
SCALED = [*(f(128, 64, "mxf8f6f4", a, b) for a, b in zip(NARROW, [*NARROW[2:], *NARROW[:2]], strict=True)),
          f(128, 64, "mxf4", "e2m1"), f(128, 64, "mxf4nvf4.2X", "e2m1"), f(128, 64, "mxf4nvf4.4X", "e2m1"),
          f(128, 64, "mxf4nvf4.4X", "e2m1", scale_type="ue8m0")]  # fmt: skip
ONE_OF_EACH = [f(128, 64, "tf32", "tf32"), f(128, 64, "i8", "s8"), f(128, 64, "f8f6f4", "e4m3"), f(128, 64, "f8f6f4", "e3m2", "e2m1"),
               f(128, 64, "mxf8f6f4", "e5m2", "e2m3"), f(128, 64, "mxf4", "e2m1"), f(128, 64, "mxf4nvf4.4X", "e2m1")]  # fmt: skip


def name(form: Form) -> str:
    where = "ts" if form.a_in_tmem else "ss"
    return f"{form.format}-{'-'.join(form.types)}-{form.d_type}-{where}-{form.m}x{form.n}-cg{form.group}{'ws' * form.ws}"


@pytest.mark.parametrize("form", PLAIN + SCALED, ids=name)
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_every_pair_of_types(form: Form, mode: str) -> None:
    exact(form, d=mode == "exact", mode=mode)


@pytest.mark.parametrize("form", ONE_OF_EACH, ids=name)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B"])
def test_swizzles(form: Form, swizzle: str) -> None:
    exact(replace(form, a_swizzle=swizzle, b_swizzle=swizzle), 1)


@pytest.mark.parametrize("form", ONE_OF_EACH, ids=name)
def test_forms(form: Form) -> None:
    shapes = [
        (128, 8, 1, False),
        (128, 256, 1, False),
        (256, 64, 2, False),
        (128, 64, 2, False),
        (128, 256, 2, False),
    ]
    if not form.scale_type:
        shapes += [(64, 64, 1, False), (32, 64, 1, True), (64, 128, 1, True), (128, 64, 1, True)]
    for (m, n, group, ws), in_tmem in itertools.product(shapes, (False, True)):
        assert n in rules.legal_shapes(group, a_in_tmem=in_tmem, ws=ws, format_=form.format)[m]
        exact(replace(form, m=m, n=n, group=group, ws=ws, a_in_tmem=in_tmem), 2)


@pytest.mark.parametrize(
    "form",
    [f(128, 64, "i8", "u8"), f(128, 64, "f8f6f4", "e4m3", "e5m2"), f(128, 64, "mxf8f6f4", "e5m2", "e4m3")],
    ids=name,
)
def test_transposed_operands_of_8_bits(form: Form) -> None:
    majors: list[tuple[Major, Major]] = [("MN", "K"), ("K", "MN"), ("MN", "MN")]
    for (a, b), swizzle, group in itertools.product(majors, ["none", "32B", "64B", "128B"], (1, 2)):
        exact(
            replace(
                form,
                m=128 * group,
                a_major=a,
                b_major=b,
                a_swizzle=swizzle,
                b_swizzle=swizzle,
                group=group,
            ),
            3,
        )


def test_transposed_tf32_has_atoms_of_32_bytes() -> None:
    for a, b in (("MN", "K"), ("K", "MN"), ("MN", "MN")):
        swizzles = ["128B_ATOM_32B" if major == "MN" else "128B" for major in (a, b)]
        exact(
            f(128, 96, "tf32", "tf32", a_major=a, b_major=b, a_swizzle=swizzles[0], b_swizzle=swizzles[1]), 4
        )


@pytest.mark.parametrize("form", [form for form in ONE_OF_EACH if form.format != "i8"], ids=name)
def test_negation(form: Form) -> None:
    exact(replace(form, negate_a=True), 5)
    exact(replace(form, negate_b=True, a_in_tmem=True), 5)
    exact(replace(form, negate_a=True, negate_b=True), 5, mode="exact")


@pytest.mark.parametrize("form", ONE_OF_EACH, ids=name)
@pytest.mark.parametrize("schedule", POLICIES)
def test_accumulation(form: Form, schedule) -> None:  # type: ignore[no-untyped-def]
    exact(form, 6, d=True, schedule=schedule)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_f16_accumulators(mode: str) -> None:
    for form in (Form(128, 64, type="f16", d_type="f16"), Form(64, 64, type="f16", d_type="f16", lane=16, a_in_tmem=True),
                 f(128, 64, "f8f6f4", "e5m2", "e2m1", d_type="f16"), Form(256, 64, 2, type="f16", d_type="f16")):  # fmt: skip
        exact(form, 7, mode=mode)
        exact(form, 8, d=True, mode=mode)
    scaled = Form(128, 64, type="f16", d_type="f16", extra={"scale": ", 3"})
    rng = np.random.default_rng(9)
    a, b, d = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 16), (64, 16), (128, 64)))
    want = a.astype(np.float64) @ b.astype(np.float64).T + d.astype(np.float64) / 8
    assert (multiply(scaled, a, b, d, mode=mode)[0] == want).all()


def test_f16_accumulators_overflow_to_infinity() -> None:
    a, b = np.full((128, 16), 128, np.float16), np.full((64, 16), 128, np.float16)
    for mode in ("fast", "exact"):
        assert np.isposinf(multiply(Form(128, 64, type="f16", d_type="f16"), a, b, mode=mode)[0]).all()


def test_integers_wrap_or_saturate() -> None:
    for saturate, sign in itertools.product((False, True), (1, -1)):
        form = f(128, 32, "i8", "s8", "u8", saturate=saturate)
        a, b = np.full((128, 32), 100 * sign, np.int8), np.full((32, 32), 200, np.uint8)
        d = np.full((128, 32), sign * (2**31 - 10), np.int64)
        whole = d + a.astype(np.int64) @ b.astype(np.int64).T
        want = np.clip(whole, -(2**31), 2**31 - 1) if saturate else whole.astype(np.int32)
        assert (multiply(form, a, b, d)[0] == want).all()
        assert saturate or (np.sign(want) == -sign).all()


def test_the_low_bits_of_tf32_do_not_count() -> None:
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-8, 9, (rows, 8)).astype(np.float32) for rows in (128, 64))
    noisy = (a.view(np.uint32) | 0x1FFF).view(np.float32)
    assert (noisy != a).all() and (multiply(f(128, 64, "tf32", "tf32"), noisy, b)[0] == a @ b.T).all()


@pytest.mark.parametrize("ids", [(0, 0), (1, 3), (2, 1), (3, 2)])
def test_scale_factor_ids_1x(ids: tuple[int, int]) -> None:
    exact(f(128, 96, "mxf8f6f4", "e4m3", scale_ids=ids), 11)


@pytest.mark.parametrize("ids", [(0, 2), (2, 0), (2, 2)])
def test_scale_factor_ids_2x(ids: tuple[int, int]) -> None:
    exact(f(256, 128, "mxf4", "e2m1", scale_ids=ids, group=2), 12)


def any_codes(rng: np.random.Generator, shape: tuple[int, ...], type_: str) -> np.ndarray:
    """Any finite values, subnormals and extremes among them."""
    bits = kinds.BITS.get(type_, 8)
    codes = rng.integers(0, 1 << bits, shape).astype({32: np.uint32, 16: np.uint16}.get(bits, np.uint8))
    values = codes.view(DTYPES[type_]) if type_ != "ue4m3" else (codes & 127).view(DTYPES[type_])
    if type_ == "tf32":
        values = (rng.standard_normal(shape) * np.exp2(rng.integers(-30, 30, shape))).astype(np.float32)
        values = (values.view(np.uint32) & 0xFFFFE000).view(np.float32)
    if type_ == "ue8m0":
        values = np.exp2(rng.integers(-40, 40, shape)).astype(DTYPES[type_])
    plain = values.astype(np.float32)
    return np.where(np.isfinite(plain), plain, 1).astype(DTYPES[type_])


@pytest.mark.parametrize("form", [*ONE_OF_EACH, Form(128, 64, type="f16", d_type="f16"), f(128, 64, "f8f6f4", "e5m2", d_type="f16"),
                                  f(128, 64, "mxf4nvf4.2X", "e2m1"), f(128, 64, "f8f6f4", "e2m3"),
                                  f(128, 64, "mxf4nvf4.4X", "e2m1", scale_type="ue8m0")], ids=name)  # fmt: skip
def test_the_exact_mode_is_the_model_and_the_fast_one_a_sum_in_f32(form: Form) -> None:
    if form.format == "i8":
        return
    rng = np.random.default_rng([13, len(form.format)])
    a, b = any_codes(rng, (128, form.k), form.types[0]), any_codes(rng, (64, form.k), form.types[1])
    d = (rng.standard_normal((128, 64)) * np.exp2(rng.integers(-12, 12, (128, 64)))).astype(np.float32)
    d = d.astype(np.float16).astype(np.float32) if form.d_type == "f16" else d
    scales: dict[str, Any] = {}
    wide = [a.astype(np.float64), b.astype(np.float64)]
    if form.scale_type:
        count = kinds.format_of(form.format).scales
        sa, sb = any_codes(rng, (128, count), form.scale_type), any_codes(rng, (64, count), form.scale_type)
        scales = {"scale_a": sa.astype(np.float64), "scale_b": sb.astype(np.float64)}
        wide = [x * np.repeat(s, form.k // count, axis=1) for x, s in zip(wide, scales.values(), strict=True)]
    emin: dict[str, Any] = {"a_emin": kinds.EMIN[form.types[0]], "b_emin": kinds.EMIN[form.types[1]]}
    if form.scale_type == "ue4m3":
        emin["scale_emin"] = tensor_core.UE4M3_EMIN
    want = tensor_core.instruction(
        a.astype(np.float64), b.astype(np.float64), d, **emin, **scales, half=form.d_type == "f16"
    )
    got = multiply(form, a, b, d, mode="exact", **scales)[0].astype(np.float32)
    assert (got.view(np.uint32) == want.view(np.uint32)).all(), (got[got != want][:3], want[got != want][:3])
    fast = multiply(form, a, b, d, **scales)[0].astype(np.float64)
    value, size = d + wide[0] @ wide[1].T, np.abs(d) + np.abs(wide[0]) @ np.abs(wide[1]).T
    if form.d_type == "f32":
        assert (np.abs(fast - value) <= (form.k + 2) * 2.0**-24 * size).all()
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.abs(fast - value) <= 2.0**-10 * size
            assert (near | (np.abs(value) > 65000)).all()


def test_poison_and_special_values() -> None:
    nan, inf = float("nan"), float("inf")
    for format_, type_ in (("tf32", "tf32"), ("f8f6f4", "e4m3"), ("f8f6f4", "e5m2"), ("mxf8f6f4", "e5m2")):
        form = f(128, 64, format_, type_)
        a, b = np.ones((128, form.k)), np.ones((64, form.k))
        scales: dict[str, Any] = (
            {"scale_a": np.ones((128, 1)), "scale_b": np.ones((64, 1))} if form.scale_type else {}
        )
        a[3, 5] = nan
        if type_ != "e4m3":
            a[7, 2], b[9, 4] = inf, -inf
        for mode in ("fast", "exact"):
            got = multiply(form, a.astype(DTYPES[type_]), b.astype(DTYPES[type_]), mode=mode, **scales)[0]
            assert np.isnan(got[3]).all() and (got[0, :9] == form.k).all()
            if type_ != "e4m3":
                assert np.isposinf(got[7, 0]) and np.isneginf(got[0, 9]) and np.isnan(got[7, 9])


def test_a_scale_factor_that_is_nan_or_missing() -> None:
    form = f(128, 64, "mxf4", "e2m1")
    scales = {"scale_a": np.ones((128, 2)), "scale_b": np.ones((64, 2))}
    a, b = (np.ones((rows, 64)).astype(ml_dtypes.float4_e2m1fn) for rows in (128, 64))
    for mode in ("fast", "exact"):
        bad = scales["scale_a"].copy()
        bad[5, 1] = np.nan
        got = multiply(form, a, b, mode=mode, scale_a=bad, scale_b=scales["scale_b"])[0]
        assert np.isnan(got[5]).all() and (np.delete(got, 5, 0) == 64).all()


def test_an_operand_packed_for_another_kind_is_noticed() -> None:
    """mxf4 packs two elements per byte, f8f6f4 pads them: the same numbers, other bytes."""
    dense = kinds.pack_chunk(list(range(16)) * 2, "e2m1", "mxf4")
    padded = kinds.pack_chunk(list(range(16)), "e2m1", "f8f6f4")
    assert dense[:8] == padded[:8] and padded[8:] == bytes(8) and dense != padded
    assert kinds.pack_chunk([63] * 16, "e3m2", "f8f6f4") == b"\xff" * 12 + bytes(4)


# --- scale factors as cells of tensor memory --------------------------------------------------------------------

ONES = {"scale_a": np.ones((128, 4)), "scale_b": np.ones((64, 4))}
BLOCKS = f(128, 64, "mxf4nvf4.4X", "e2m1")


def launched(
    monkeypatch: pytest.MonkeyPatch, change: str = "", instead: str = "", **launch: Any
) -> RunResult:
    """One block-scaled instruction with `change` put before its issue, by all threads."""
    original = mma_kit.kernel
    at = "setp.eq.u32 %p2, %r20, 0;"
    monkeypatch.setattr(
        mma_kit,
        "kernel",
        lambda *a: (
            original(*a).replace(at, change + at).replace(*(instead.split("|") if instead else ("", "")))
        ),
    )
    a, b = (np.ones((rows, 64)).astype(ml_dtypes.float4_e2m1fn) for rows in (128, 64))
    return multiply(BLOCKS, a, b, check=False, **ONES, **launch)[2]  # type: ignore[arg-type]


def store(column: int, warp: int = 1) -> str:
    return f"setp.eq.u32 %p6, %r101, {warp}; @%p6 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51+{column}], {{%r60}};"


@pytest.mark.parametrize("column", [SFA_COLUMN, SFA_COLUMN + 3, SFB_COLUMN, SFB_COLUMN + 1])
def test_a_write_of_scale_factors_without_order_is_a_race(
    column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = launched(monkeypatch, store(column), races=True)
    assert {x.code for x in result.errors} & {"race-tmem-unwaited", "race-mma-unwaited", "race-unordered"}, (
        result.findings
    )


@pytest.mark.parametrize("column", [SFA_COLUMN + 4, SFB_COLUMN + 2])
def test_cells_beside_the_scale_factors_are_not_read(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not launched(monkeypatch, store(column) + "tcgen05.wait::st.sync.aligned;", races=True).errors


def test_scale_factors_in_flight_or_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    overtaken = set()
    for seed in range(8):
        result = launched(
            monkeypatch, store(SFB_COLUMN) + "bar.sync 0;", schedule=Schedule("late-random", seed)
        )
        overtaken |= {x.code for x in result.errors} - {"tmem-dealloc-in-flight"}
        monkeypatch.undo()
    assert overtaken == {"tmem-pending"}
    empty = launched(monkeypatch, instead="add.u32 %r59, %r100, 272|add.u32 %r59, %r100, 400")
    assert only(empty, "tmem-uninitialised").message.startswith(
        "tcgen05.mma reads the scale factors of B from TMEM lane 0 column 400"
    )
    monkeypatch.undo()
    lane = launched(monkeypatch, instead="add.u32 %r59, %r100, 272|add.u32 %r59, %r100, 65808")
    assert "another TMEM lane" in only(lane, "mma-operands").message
    monkeypatch.undo()
    # CUTLASS leaves the byte inside the word in the two upper bits of these addresses.
    clean(launched(monkeypatch, instead="add.u32 %r59, %r100, 272|add.u32 %r59, %r100, 3221225744"))


# --- collector buffers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second", "other", "found"), [
    ("fill", "use", False, False), ("fill", "lastuse", False, False), ("fill", "use", True, True), ("discard", "use", False, True),
    ("", "use", False, True), ("fill", "fill", True, False), ("lastuse", "use", False, True), ("use", "use", False, True),
])  # fmt: skip
@pytest.mark.parametrize("buffer", ["a", "b2"])
def test_collector_buffers(
    first: str, second: str, other: bool, found: bool, buffer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`use` reads what the last fill of the same matrix left; it changes no value."""
    original = mma_kit.kernel
    form = Form(128, 64, ws=buffer != "a")

    def twice(*args: object) -> str:
        text = original(*args)  # type: ignore[arg-type]
        line = next(part for part in text.split("\n") if "tcgen05.mma" in part)
        word = [
            f".kind::f16.collector::{buffer}::{usage}" if usage else ".kind::f16" for usage in (first, second)
        ]
        again = line.replace("%a3" if buffer == "a" else "%a4", "%rd9") if other else line
        lead = "add.u64 %rd9, %a3, 2;" if buffer == "a" else "add.u64 %rd9, %a4, 2;"
        return text.replace(
            line, f"{lead} {again.replace('.kind::f16', word[0])}\n{line.replace('.kind::f16', word[1])}"
        )

    monkeypatch.setattr(mma_kit, "kernel", twice)
    a, b = np.ones((128, 16), np.float32), np.ones((64, 16), np.float32)
    result = multiply(form, a, b, check=False)[2]
    codes = {x.code for x in result.findings} - {"shared-uninitialised", "uninitialised-unused"}
    assert codes == ({"mma-collector"} if found else set()), result.findings
