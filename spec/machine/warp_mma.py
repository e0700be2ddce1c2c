"""Warp-level mma.sync: which lane holds which element, and its arithmetic (PTX ISA 9.7.14.5).

Fragments. With ``g = lane // 4`` and ``t = lane % 4`` and e elements a 32-bit register (1 of tf32, 2 of 16
bits, 4 of 8, 8 of 4; a 64-bit register holds one f64), all shapes m16n8kK and m8n8kK obey one rule:

* A: element j of register r is row ``g + 8 * (r % 2)``, column ``4 e (r // 2) + e t + j``; of m8n8kK row g,
  column ``4 e r + e t + j``;
* B: element j of register r is row ``4 e r + e t + j``, column g;
* C and D: register r of 32 or 64 bits is row ``g + 8 * (r // 2)``, column ``2 t + r % 2``; with f16
  register r holds row ``g + 8 r``, columns ``2 t`` and ``2 t + 1``.

Arithmetic. Source: arXiv 2512.07004 and its repository MATLAB-tensor-core (models/B200TC.m; words recorded on
a B200 in model_validation/B200; BSD 2-Clause). One block of products and the accumulator go into one aligned
sum, as `tensor_core.block` says: 16 products for f16 and bf16, 8 for tf32; blocks follow each other from
k = 0. An f16 result of f16 operands is the aligned sum, whose alignment reaches down to 2^-21, rounded once
to nearest even.

The 8-bit floats are f16 products, with the elements widened to f16, in two blocks: k with ``k % 4 < 2`` in
the first, the others in the second. The first starts from zero; the accumulator is added last by an ordinary
addition of f32 or f16, rounded to nearest even. ptxas 13.0 writes these instructions for sm_90a and sm_100a
(F2FP, two HMMA, FADD or HADD2; of m16n8k16 two HMMA of 8 products). They reproduce the words of that
repository: all 5000 of e5m2 and the first 800 of e4m3 (the others were not compared), with an f32 and with an
f16 result, as the rules above do all 5000 of bf16, f16 and tf32.
"""

from __future__ import annotations

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

# By operand type: bits; products of one block; exponent of the smallest normal.
BITS = {
    "bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "f64": 64,
}  # fmt: skip
BLOCK = {"bf16": 16, "f16": 16, "tf32": 8}
EMIN = {"bf16": -126, "f16": -14, "tf32": -126}
_FRACTION = 25  # 23 bits of f32 and 2 extra alignment bits
_LOWEST = {"f32": -133, "f16": -21}


def per_register(type_: str) -> int:
    """Elements of a register."""
    if type_ not in BITS:
        raise TileproofError("an operand type of mma.sync", expected=", ".join(BITS), found=type_)
    return max(1, 32 // BITS[type_])


def a_place(m: int, type_: str, lane: int, register: int, element: int) -> tuple[int, int]:
    """(row, column) of A."""
    e, g, t = per_register(type_), lane // 4, lane % 4
    half, group = (register % 2, register // 2) if m == 16 else (0, register)
    return g + 8 * half, 4 * e * group + e * t + element


def b_place(type_: str, lane: int, register: int, element: int) -> tuple[int, int]:
    """(row, column) of B."""
    e = per_register(type_)
    return 4 * e * register + e * (lane % 4) + element, lane // 4


def d_place(type_: str, lane: int, register: int, element: int = 0) -> tuple[int, int]:
    """(row, column) of C and D; `type_` f16, f32, f64 or s32."""
    g, t = lane // 4, lane % 4
    if type_ == "f16":
        return g + 8 * register, 2 * t + element
    return g + 8 * (register // 2), 2 * t + register % 2


def registers(m: int, k: int, type_: str, d_type: str) -> tuple[int, int, int]:
    """Registers of A, B and D a lane."""
    e = per_register(type_)
    return m * k // (32 * e), 8 * k // (32 * e), m * 8 // (32 * (2 if d_type == "f16" else 1))


def _split(x: float, emin: int) -> tuple[int, int]:
    """(s, e) with x = s * 2^(e - 23), e >= emin; a zero gives s = 0."""
    if x == 0:
        return 0, 0
    e = max(int(np.frexp(x)[1]) - 1, emin)
    return int(np.ldexp(x, 23 - e)), e


def _shift(value: int, by: int) -> int:
    """value * 2^by truncated toward zero."""
    moved = abs(value) << by if by >= 0 else abs(value) >> -by
    return -moved if value < 0 else moved


def block(a: Array, b: Array, c: float, type_: str, d_type: str = "f32") -> np.float32:
    """c plus the products of one block, at most `BLOCK`: an f32 value, that of an f16 for d_type f16."""
    special = [float(x) * float(y) for x, y in zip(a, b, strict=True)] + [float(c)]
    if not all(np.isfinite([*a, *b, c])):
        bad = [v for v in special if not np.isfinite(v)]
        if any(np.isnan(bad)) or len(set(bad)) != 1:
            return np.float32(np.array(0x7FFFFFFF, np.uint32).view(np.float32))
        return np.float32(bad[0])
    direct = d_type == "f16" and type_ == "f16"
    terms = []
    for x, y in zip(a, b, strict=True):
        (sx, ex), (sy, ey) = _split(float(x), EMIN[type_]), _split(float(y), EMIN[type_])
        if sx and sy:
            terms.append((sx * sy, ex + ey, 46))
    sc, ec = _split(float(c), EMIN["f16"] if direct else -126)
    if sc:
        terms.append((sc, ec, 23))
    top = max([e for _, e, _ in terms] + [_LOWEST["f16" if direct else "f32"]])
    total = sum(_shift(s, _FRACTION - bits - (top - e)) for s, e, bits in terms)
    unit = top - _FRACTION
    if direct:
        return np.float32(_nearest(total, unit, 11, -24))
    drop = max(abs(total).bit_length() - 24, -149 - unit, 0)
    with np.errstate(over="ignore"):
        return np.float32(np.ldexp(float(_shift(total, -drop)), unit + drop)) + np.float32(0)


def _nearest(total: int, unit: int, bits: int, lowest: int) -> np.float16:
    drop = max(abs(total).bit_length() - bits, lowest - unit, 0)
    quotient, rest = abs(total) >> drop, abs(total) & ((1 << drop) - 1)
    half = 1 << drop >> 1
    quotient += drop > 0 and (rest > half or (rest == half and quotient % 2 == 1))
    with np.errstate(over="ignore"):
        return np.float16(np.ldexp(float(-quotient if total < 0 else quotient), unit + drop)) + np.float16(0)


def dot(a: Array, b: Array, c: float, type_: str, d_type: str = "f32") -> np.float32:
    """``c + sum(a * b)`` of one element of D."""
    if type_ in ("e4m3", "e5m2"):
        k = np.arange(len(a))
        value = np.float32(0)
        for part in (k[k % 4 < 2], k[k % 4 >= 2]):
            value = block(a[part], b[part], float(value), "f16", d_type)
        with np.errstate(all="ignore"):
            kind = np.float16 if d_type == "f16" else np.float32
            return np.float32(kind(value) + kind(c))
    out, step = np.float32(c), BLOCK[type_]
    for start in range(0, len(a), step):
        out = block(a[start : start + step], b[start : start + step], float(out), type_, d_type)
    return out


def multiply(a: Array, b: Array, c: Array, type_: str, d_type: str = "f32") -> Array:
    """``c + a [m, k] @ b [k, n]``, f32 values (those of f16 for d_type f16)."""
    return np.array([[dot(row, b[:, n], float(c[m, n]), type_, d_type) for n in range(b.shape[1])]
                     for m, row in enumerate(a)], np.float32)  # fmt: skip
