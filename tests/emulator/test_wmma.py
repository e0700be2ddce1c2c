# ruff: noqa: E501 - PTX lines are kept whole
"""WMMA against products in numpy: every shape and type, layouts, strides, state spaces, registers that overlap."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tileproof.emulator import Memory, UnsupportedInstruction

from tests.kit.ptx import clean, codes, run

COVERS = "wmma.load wmma.store wmma.mma"
# Registers of A, B and C by types and shape (PTX ISA 9.7.14.4.1).
S = ("m16n16k16", "m32n8k16", "m8n32k16")
REGISTERS = {
    "f16": dict.fromkeys(S, (8, 8)),
    "bf16": {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)},
    "s8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "u8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "tf32": {"m16n16k8": (4, 4)},
    "f64": {"m8n8k4": (1, 1)},
    "s4": {"m8n8k32": (1, 1)},
    "u4": {"m8n8k32": (1, 1)},
}
RESULTS = {"f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
SUMS = {"f32": 8, "f16": 4, "s32": 8, "f64": 2}
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "f32": np.float32,
    "s8": np.int8, "u8": np.uint8, "s32": np.int32, "s4": np.int8, "u4": np.uint8,
}  # fmt: skip
CASES = [
    (type_, shape, result)
    for type_, shapes in REGISTERS.items()
    for shape in shapes
    for result in RESULTS.get(type_, ("s32",))
]


def sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def group(kind: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{kind}{first + k}" for k in range(count)) + "}"


def laid(matrix: np.ndarray, layout: str, stride: int, type_: str) -> np.ndarray:
    """The matrix as it lies in memory, with other numbers in what the stride leaves between rows."""
    lines = matrix if layout == "row" else matrix.T
    out = np.full((lines.shape[0], stride), 7, lines.dtype)
    out[:, : lines.shape[1]] = lines
    if type_ in ("s4", "u4"):
        nibbles = out.astype(np.uint8) & 15
        return nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    return out


def product(
    type_: str, shape: str, result: str, layouts: str = "row col row row", pad: int = 0, space: str = "",
    satfinite: str = "", big: bool = False, overlap: bool = False,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """D of the kernel, and A B + C in float64 or whole numbers; elements are small, or large with `big`."""
    m, n, k = sizes(shape)
    of_a, of_b, of_c, of_d = layouts.split()
    rng = np.random.default_rng(m * 1000 + k)
    low, high = {"u8": (0, 6), "u4": (0, 6)}.get(type_, (-4, 5))
    a, b = (rng.integers(low, high, size).astype(NUMPY[type_]) for size in ((m, k), (k, n)))
    c = rng.integers(-4, 5, (m, n)).astype(NUMPY[result])
    if big:
        a[...], b[...], c[...] = 127, 127, 2**31 - 100
    strides = [
        (columns if layout == "row" else rows) + pad
        for layout, rows, columns in ((of_a, m, k), (of_b, k, n), (of_c, m, n), (of_d, m, n))
    ]
    memory = Memory()
    held = [
        memory.buffer(laid(matrix, layout, stride, type_ if at < 2 else ""))
        for at, (matrix, layout, stride) in enumerate(
            zip((a, b, c), (of_a, of_b, of_c), strides, strict=False)
        )
    ]
    d = memory.buffer(np.full((m if of_d == "row" else n, strides[3]), 9, NUMPY[result]))
    kind = {"f32": "f", "f64": "fd"}.get(result, "r")
    in_a, in_b = REGISTERS[type_][shape]
    in_c = 2 if type_ in ("s4", "u4") else SUMS[result]
    wide = "fd" if type_ == "f64" else "r"
    ga, gb = group(wide, 0 if wide == "fd" else 10, in_a), group(wide, 1 if wide == "fd" else 20, in_b)
    gc = group(kind, 2 if kind == "fd" else 20 if kind == "f" else 30, in_c)
    gd = group(kind, 10 if overlap else {"fd": 5, "f": 30}.get(kind, 50), in_c)
    product_types = f"{result}.{result}" if type_ == "f16" else f"{result}.{type_}.{type_}.{result}"
    given = [f", {stride}" if pad else "" for stride in strides]
    body = f"""wmma.load.a.sync.aligned.{of_a}.{shape}{space}.{type_} {ga}, [%a0]{given[0]};
wmma.load.b.sync.aligned.{of_b}.{shape}{space}.{type_} {gb}, [%a1]{given[1]};
wmma.load.c.sync.aligned.{of_c}.{shape}{space}.{result} {gc}, [%a2]{given[2]};
wmma.mma.sync.aligned.{of_a}.{of_b}.{shape}.{product_types}{satfinite} {gd}, {ga}, {gb}, {gc};
wmma.store.d.sync.aligned.{of_d}.{shape}{space}.{result} [%a3], {gd}{given[3]};"""
    clean(run(body, [*held, d], memory=memory))
    got = d.numpy() if of_d == "row" else d.numpy().T
    if pad:
        beside = got[:, n:] if of_d == "row" else got[m:]
        assert (beside == 9).all()
    exact = np.int64 if result == "s32" else np.float64
    return got[:m, :n], a.astype(exact) @ b.astype(exact) + c.astype(exact)


@pytest.mark.parametrize(("type_", "shape", "result"), CASES)
def test_products(type_: str, shape: str, result: str) -> None:
    got, expected = product(type_, shape, result)
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("layouts", ["row row col row", "col col row col", "col row col col"])
@pytest.mark.parametrize(
    ("type_", "shape", "result"), [case for case in CASES if case[0] not in ("s4", "u4")]
)
def test_layouts_and_strides(type_: str, shape: str, result: str, layouts: str) -> None:
    got, expected = product(type_, shape, result, layouts, pad=8, space=".global")
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_whole_numbers_wrap_or_saturate() -> None:
    got, expected = product("s8", "m16n16k16", "s32", big=True)
    np.testing.assert_array_equal(got, expected.astype(np.int32))
    got, _ = product("s8", "m16n16k16", "s32", big=True, satfinite=".satfinite")
    assert (got == 2**31 - 1).all()


def test_registers_of_the_result_may_hold_the_operands() -> None:
    got, expected = product("s8", "m16n16k16", "s32", overlap=True)
    np.testing.assert_array_equal(got, expected)


def test_every_element_of_a_fragment_may_be_changed() -> None:
    """Programs multiply each register of a fragment by a number; f16 fragments repeat their registers."""
    memory = Memory()
    units, out = (
        memory.buffer(np.full((16, 16), 1, np.float16)),
        memory.buffer(np.zeros((16, 16), np.float32)),
    )
    halved = "mov.b32 %r100, 0x38003800;\n" + "\n".join(f"mul.f16x2 %r{k}, %r{k}, %r100;" for k in range(8))
    zeros = "\n".join(f"mov.f32 %f{k}, 0f00000000;" for k in range(8))
    registers, sums = group("r", 0, 8), group("f", 0, 8)
    body = f"""wmma.load.a.sync.aligned.row.m16n16k16.f16 {registers}, [%a0];
{halved}
{zeros}
wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {sums}, {registers}, {registers}, {sums};
wmma.store.d.sync.aligned.row.m16n16k16.f32 [%a1], {sums};"""
    clean(run(body, [units, out], memory=memory))
    assert (out.numpy() == 4).all()


def test_shared_memory_and_what_is_not_written() -> None:
    """A fragment is read element by element: what nobody wrote is found."""
    body = f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {group('f', 0, 8)}, [%r1], 16;"
    body += f"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%a0], {group('f', 0, 8)}, 16;"
    memory = Memory()
    out = memory.buffer(np.zeros((16, 16), np.float32))
    made = run("mov.u32 %r1, 1024;\n" + body, [out], memory=memory, shared_bytes=2048)
    assert "shared-uninitialised" in codes(made)
    misplaced = f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {group('r', 0, 8)}, [%a0+2];"
    memory = Memory()
    assert "misaligned" in " ".join(
        codes(run(misplaced, [memory.buffer(np.full(300, 1, np.float16))], memory=memory))
    )


@pytest.mark.parametrize(
    "line",
    [
        f"wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {group('r', 0, 2)}, %r3, %r4, {group('r', 0, 2)};",
        f"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {group('r', 0, 4)}, {group('r', 0, 8)}, {group('r', 8, 8)}, {group('f', 0, 8)};",
    ],
)
def test_products_that_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(line)
