# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""mma.sync of every shape and type: numpy's product, and in `exact` the block arithmetic of spec/machine/warp_mma.py."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tileproof.emulator import UnsupportedInstruction
from tileproof.spec.machine import warp_mma as rules

from tests.kit.ptx import BF16, Memory, clean, only, run

COVERS = "mma"
KINDS = {
    "f16": np.dtype(np.float16), "bf16": BF16, "tf32": np.dtype(np.float32), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2), "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "f64": np.dtype(np.float64),
    "s4": np.dtype(np.int8), "u4": np.dtype(np.uint8),
}  # fmt: skip
D_KINDS = {"f32": np.float32, "f16": np.float16, "s32": np.int32, "f64": np.float64}
CASES = [
    *[(16, k, t, t, "f32") for k, t in ((8, "f16"), (16, "f16"), (8, "bf16"), (16, "bf16"), (4, "tf32"), (8, "tf32"))],
    (16, 8, "f16", "f16", "f16"), (16, 16, "f16", "f16", "f16"),
    *[(16, k, a, b, d) for k in (16, 32) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16")],
    *[(m, k, a, b, "s32") for m, k in ((8, 16), (16, 16), (16, 32)) for a in ("s8", "u8") for b in ("s8", "u8")],
    *[(m, k, a, b, "s32") for m, k in ((8, 32), (16, 32), (16, 64)) for a in ("s4", "u4") for b in ("s4", "u4")],
    (8, 4, "f64", "f64", "f64"), (16, 4, "f64", "f64", "f64"), (16, 8, "f64", "f64", "f64"), (16, 16, "f64", "f64", "f64"),
]  # fmt: skip


def words(matrix: np.ndarray, type_: str, count: int, place) -> np.ndarray:  # type: ignore[no-untyped-def]
    """[register, lane] words of a fragment: every element put where `place(lane, register, element)` says."""
    size = 64 if type_ in ("f64",) else 32
    width = {"s4": 4, "u4": 4}.get(type_, 8 * matrix.dtype.itemsize)
    out = np.zeros((count, 32), np.uint64)
    bits = matrix.view(f"u{matrix.dtype.itemsize}").astype(np.uint64) & np.uint64(
        (1 << width) - 1 if width < 64 else 2**64 - 1
    )
    for r in range(count):
        for lane in range(32):
            for j in range(size // width):
                out[r, lane] |= bits[place(lane, r, j)] << np.uint64(j * width)
    return out.astype(f"u{size // 8}")


def elements(found: np.ndarray, shape: tuple[int, int], d_type: str) -> np.ndarray:
    """The matrix D of its registers [register, lane]."""
    kind = np.dtype(D_KINDS[d_type])
    out = np.zeros(shape, kind)
    for r, row in enumerate(found):
        for lane, word in enumerate(row):
            for j in range(2 if d_type == "f16" else 1):
                raw = np.array([word >> np.uint64(16 * j)], np.uint64).astype(f"u{kind.itemsize}")
                out[rules.d_place(d_type, lane, r, j)] = raw.view(kind)[0]
    return out


def multiply(
    spelling: str,
    m: int,
    k: int,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    types: tuple[str, str, str],
    **launch,
) -> np.ndarray:  # type: ignore[no-untyped-def]
    at, bt, dt = types
    na, nb, nd = rules.registers(m, k, at, dt)
    parts = [
        words(a, at, na, lambda *p: rules.a_place(m, at, *p)),
        words(b, bt, nb, lambda *p: rules.b_place(bt, *p)),
        words(c, dt, nd, lambda *p: rules.d_place(dt, *p)),
    ]
    size = parts[0].itemsize
    kind = f"b{8 * size}"
    memory = Memory()
    out = memory.empty((nd, 32), f"u{size}")
    lines, names = [], []
    for which, (letter, part) in enumerate(zip("abc", parts, strict=True), 1):
        lines.append(f".reg .{kind} {letter}<{len(part)}>;\nmad.wide.u32 %rd{which}, %t, {size}, %a{which};")
        lines += [f"ld.global.{kind} {letter}{r}, [%rd{which}+{32 * size * r}];" for r in range(len(part))]
        names.append("{" + ", ".join(f"{letter}{r}" for r in range(len(part))) + "}")
    d = "{" + ", ".join(f"d{r}" for r in range(nd)) + "}"
    lines.append(
        f".reg .{kind} d<{nd}>;\n{spelling} {d}, {', '.join(names)};\nmad.wide.u32 %rd4, %t, {size}, %a0;"
    )
    lines += [f"st.global.{kind} [%rd4+{32 * size * r}], d{r};" for r in range(nd)]
    clean(run("\n".join(lines), [out, *(memory.buffer(part) for part in parts)], memory=memory, **launch))
    return elements(out.numpy().astype(np.uint64), (m, 8), dt)


def spelling(m: int, k: int, a: str, b: str, d: str, extra: str = "") -> str:
    return f"mma.sync.aligned.m{m}n8k{k}.row.col{extra}.{d}.{a}.{b}.{d}"


def operand(rng: np.random.Generator, shape: tuple[int, int], type_: str, scale: float = 1.0) -> np.ndarray:
    kind = KINDS[type_]
    if type_[0] in "su":
        bits = int(type_[1:])
        low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if type_[0] == "s" else (0, 1 << bits)
        return rng.integers(low, high, shape).astype(kind)
    return (rng.standard_normal(shape) * scale).astype(kind)


@pytest.mark.parametrize(("m", "k", "a", "b", "d"), CASES)
def test_small_whole_numbers_are_multiplied_exactly(m: int, k: int, a: str, b: str, d: str) -> None:
    """Whole numbers, whose sums every mode and type holds exactly: which element meets which is all that counts."""
    rng = np.random.default_rng(m + k)
    if a[0] in "su":
        x, y = operand(rng, (m, k), a), operand(rng, (k, 8), b)
    else:
        x, y = rng.integers(-4, 5, (m, k)).astype(KINDS[a]), rng.integers(-4, 5, (k, 8)).astype(KINDS[b])
    c = rng.integers(-100, 100, (m, 8)).astype(D_KINDS[d])
    want = c.astype(np.float64) + x.astype(np.float64) @ y.astype(np.float64)
    for mode in ("fast", "exact"):
        got = multiply(spelling(m, k, a, b, d), m, k, x, y, c, (a, b, d), mma=mode)
        assert (got.astype(np.float64) == want).all(), mode


EXACT = [case for case in CASES if case[2] in ("f16", "bf16", "tf32", "e4m3", "e5m2")]


@pytest.mark.parametrize(("m", "k", "a", "b", "d"), EXACT)
@pytest.mark.parametrize("scale", [1.0, 2.0**-12, 60.0])
def test_exact_is_the_block_arithmetic(m: int, k: int, a: str, b: str, d: str, scale: float) -> None:
    rng = np.random.default_rng(k)
    if a in ("bf16", "tf32") and scale < 1:
        scale = 2.0**-66  # products near and below f32's smallest normal
    with np.errstate(over="ignore"):
        x, y = operand(rng, (m, k), a, scale), operand(rng, (k, 8), b, scale)
        c = (rng.standard_normal((m, 8)) * scale * scale).astype(D_KINDS[d])
    x[rng.random(x.shape) < 0.1] = 0
    if a == "tf32":
        x, y = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (x, y))
    got = multiply(spelling(m, k, a, b, d), m, k, x, y, c, (a, b, d), mma="exact")
    want = rules.multiply(x.astype(np.float64), y.astype(np.float64), c, a, d)
    numbers = ~np.isnan(want)
    assert (np.isnan(got.astype(np.float32)) == ~numbers).all()
    assert (got.astype(np.float32).view(np.uint32) == want.view(np.uint32))[numbers].all()


def test_exact_and_fast_differ() -> None:
    """1 + 16 * 2^-25: f32 loses each term alone, the aligned sum keeps 2 more bits."""
    x, y = np.ones((16, 16), np.float16), np.full((16, 8), 2.0**-24, np.float16)
    c = np.ones((16, 8), np.float32)
    name = spelling(16, 16, "f16", "f16", "f32")
    types = ("f16", "f16", "f32")
    assert (multiply(name, 16, 16, x, y, c, types, mma="exact").view(np.uint32) == 0x3F800008).all()
    assert (multiply(name, 16, 16, x, y, c, types, mma="fast") == 1).all()


def test_infinities_and_nans() -> None:
    x, y, c = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    x[0, 3], x[1, 2], x[1, 5], x[2, 1], x[3, 4] = np.inf, np.inf, -np.inf, np.nan, -np.inf
    y[4, 0] = 0
    for mode in ("fast", "exact"):
        got = multiply(
            spelling(16, 16, "f16", "f16", "f32"), 16, 16, x, y, c, ("f16", "f16", "f32"), mma=mode
        )
        assert (got[0] == np.inf).all() and np.isnan(got[1:3]).all() and (got[3, 1:] == -np.inf).all()
        assert (got[[1, 2]].view(np.uint32) == 0x7FFFFFFF).all() and np.isnan(got[3, 0])


def test_integer_sums_wrap_or_saturate() -> None:
    x, y = np.full((16, 16), -128, np.int8), np.full((16, 8), -128, np.int8)
    c = np.full((16, 8), 2**31 - 5, np.int32)
    types = ("s8", "s8", "s32")
    assert (
        multiply(spelling(16, 16, "s8", "s8", "s32", ".satfinite"), 16, 16, x, y, c, types) == 2**31 - 1
    ).all()
    want = (2**31 - 5 + 16 * 128 * 128) - 2**32
    assert (multiply(spelling(16, 16, "s8", "s8", "s32"), 16, 16, x, y, c, types) == want).all()


@pytest.mark.parametrize(
    ("mode", "direction"), [(".rn", None), (".rz", 0.0), (".rm", -np.inf), (".rp", np.inf)]
)
def test_f64_rounds_each_step(mode: str, direction: float | None) -> None:
    identity = np.eye(8, 4)
    c = np.full((8, 8), 1.0)
    y = np.full((4, 8), 2.0**-60)
    x = identity - 2 * np.eye(8, 4, -4)
    got = multiply(spelling(8, 4, "f64", "f64", "f64", mode), 8, 4, x, y, c, ("f64",) * 3)
    up, down = (1.0 if direction is None else np.nextafter(1.0, s) for s in (2.0, 0.0))
    want = {".rn": (1, 1), ".rz": (1, down), ".rm": (1, down), ".rp": (up, 1)}[mode]
    assert (got[:4] == want[0]).all() and (got[4:] == want[1]).all()


def test_the_low_bits_of_tf32_do_not_count() -> None:
    x = (np.float32(1).view(np.uint32) | np.uint32(0x1FFF)).view(np.float32) * np.ones((16, 8), np.float32)
    got = multiply(
        spelling(16, 8, "tf32", "tf32", "f32"),
        16,
        8,
        x,
        np.ones((8, 8), np.float32),
        np.zeros((16, 8), np.float32),
        ("tf32", "tf32", "f32"),
    )
    assert (got == 8).all()


def test_d_may_be_c_and_a_literal_accumulator() -> None:
    body = """
    mov.b32 %r0, 0x3c003c00; mov.b32 %f0, 0f40000000; mov.b32 %f1, %f0; mov.b32 %f2, %f0; mov.b32 %f3, %f0;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f1, %f2, %f3};
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {0f00000000, 0f3f800000, %f2, %f3};
    mad.wide.u32 %rd1, %t, 32, %a0; st.global.v4.f32 [%rd1], {%f0, %f1, %f2, %f3}; st.global.v4.f32 [%rd1+16], {%f4, %f5, %f6, %f7};"""
    memory = Memory()
    out = memory.empty((32, 8), np.float32)
    clean(run(body, [out], memory=memory))
    assert (out.numpy() == [18, 18, 18, 18, 16, 17, 34, 34]).all()


BODY = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f1, %f2, %f3};"


def test_a_warp_that_is_not_whole() -> None:
    assert "aligned" in only(run(f"setp.lt.u32 %p1, %t, 9;\n@%p1 {BODY}"), "aligned-partial").message
    only(run(BODY, threads=16), "aligned-partial")
    clean(run(BODY))
    clean(run(f"setp.lt.u32 %p1, %t, 99;\n@%p1 {BODY}"))


@pytest.mark.parametrize(
    "form",
    ["m16n8k16.row.col.f16.f16.f16.f32", "m16n8k16.row.row.f32.f16.f16.f32", "m16n8k16.row.col.f32.tf32.tf32.f32", "m16n8k32.row.col.f32.f16.f16.f32",
     "m16n8k16.row.col.f32.f16.bf16.f32", "m16n8k16.row.col.satfinite.f32.f16.f16.f32", "m16n8k16.row.col.kind::f8f6f4.f32.f16.f16.f32",
     "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "m8n8k4.row.col.f32.f16.f16.f32", "m16n8k16.row.col.s32.s8.s4.s32"],
)  # fmt: skip
def test_what_is_refused(form: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="mma"):
        run(BODY.replace("m16n8k16.row.col.f32.f16.f16.f32", form))


def test_registers_that_do_not_fit() -> None:
    from tileproof.emulator import PtxError

    with pytest.raises(PtxError, match="do not fit"):
        run(BODY.replace("{%r0, %r0}", "{%r0, %r0, %r0}"))
