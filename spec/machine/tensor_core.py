"""The tensor core's block arithmetic for bf16 (or f16) operands and an f32 accumulator, bit for bit.

Source: Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004: H100, H200 and B200
add 16 products and the accumulator in one aligned sum with 2 extra alignment bits, truncate, and round toward
zero. This module reproduces all 5000 bf16 words that the authors recorded on each of them (repository
MATLAB-tensor-core, model_validation/{B200,H200,H100}/bf16; the tests hold the first 200 of the B200). The
words are of warp-level wmma; that tcgen05.mma does the same is likely and not shown.

One block: ``e_i = exp(a_i) + exp(b_i)`` of each product (its significand in [1, 4) not renormalised), ``e_c =
exp(c)``; zero terms drop out; ``E = max(e_i, e_c, -133)``; each term is truncated toward zero to a multiple
of 2^(E-25); the sum of these integers is exact; it is truncated toward zero to 24 significant bits, or to a
multiple of 2^-149 if that is coarser. Non-finite cases are not covered by the recorded words; here any NaN,
or an inf that meets its opposite or a zero factor, gives the quiet NaN 0x7fffffff; an inf otherwise wins. A
finite sum of 2^128 or more becomes inf, as in the authors' published model (repository MATLAB-tensor-core,
Generic_BFMA_TC.m). A zero sum is +0. Subnormal operands are not normalised: their exponent is that of the
format's smallest normal, -126 for bf16 and the accumulator, -14 for f16 (same file).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

K_BLOCK = 16
MIN_ALIGNMENT = -133
HALF_MIN_ALIGNMENT = -21
EXTRA_BITS = 2
BF16_EMIN = -126
F16_EMIN = -14
GROUPED_K = 64
GROUPED_FRACTION = 35
UE4M3_EMIN = -6
UE8M0_EMIN = -127
_FRACTION = 23 + EXTRA_BITS
_DROPPED = -(2**20)  # exponent of a zero term: below every real one

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


def _split(x: Array, bits: int, lowest: int) -> tuple[I64, I64]:
    """Significand s of `bits` bits and exponent e >= lowest with ``x = s * 2^(e - bits + 1)``."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    exponent = np.maximum(exponent - 1, lowest).astype(np.int64)
    exponent = np.where(fraction == 0, _DROPPED, exponent)
    scaled = np.ldexp(x.astype(np.float64), np.where(fraction == 0, 0, bits - 1 - exponent))
    return scaled.astype(np.int64), exponent


def block(a: Array, b: Array, c: Array, input_emin: int = BF16_EMIN) -> F32:
    """``[m, n]`` f32: ``c + a [m, 16] @ b [n, 16]^T``; a and b bf16 (f16: pass `F16_EMIN`), c f32 valued."""
    if a.shape[-1] > K_BLOCK or a.shape[-1] != b.shape[-1]:
        raise TileproofError(
            "a block is 16 products", expected="a [m, k<=16], b [n, k]", found=f"{a.shape}, {b.shape}"
        )
    a64, b64, c64 = (np.asarray(x, dtype=np.float64) for x in (a, b, c))
    special = ~(
        np.isfinite(a64).all(axis=1, keepdims=True)
        & np.isfinite(b64).all(axis=1, keepdims=True).T
        & np.isfinite(c64)
    )
    clean_a, clean_b, clean_c = (np.where(np.isfinite(x), x, 0.0) for x in (a64, b64, c64))
    result = _finite_block(clean_a, clean_b, clean_c, input_emin)
    return _with_specials(result, special, a64, b64, c64) if special.any() else result


def _finite_block(a: Array, b: Array, c: Array, input_emin: int) -> F32:
    # 11 bits hold the significands of bf16 and f16; a product then has 22, c has 24.
    (sa, ea), (sb, eb) = _split(a, 11, input_emin), _split(b, 11, input_emin)
    sc, ec = _split(c, 24, BF16_EMIN)
    exponent = ea[:, None, :] + eb[None, :, :]
    top = np.maximum(np.maximum(exponent.max(axis=2, initial=_DROPPED), ec), MIN_ALIGNMENT)
    products = _align(sa[:, None, :] * sb[None, :, :], _FRACTION - 20 - (top[:, :, None] - exponent))
    total = products.sum(axis=2) + _align(sc, EXTRA_BITS - (top - ec))
    return _truncate(total, top - _FRACTION)


def scaled_e2m1(
    a: Array, b: Array, c: Array, scale_a: Array, scale_b: Array, scale_emin: int = UE8M0_EMIN
) -> F32:
    """``[m, n]`` f32: one instruction of kind mxf4 or mxf4nvf4, ``c + (a sa) [m, 64] @ (b sb) [n, 64]^T``.

    scale_a ``[m, s]``, scale_b ``[n, s]``: s = 2 or 4. scale_emin: exponent of the smallest normal factor.
    Each 16 products are added exactly and multiplied by
    their scale factors. The four sums and the accumulator are aligned to the largest exponent (of a sum that
    of its scale factors; of ue4m3 at least -6) with 35 bits below it, truncated toward zero, added exactly
    and truncated to f32. Sources: microsoft/MMA-Sim (arXiv 2511.10909), and the words and the model of
    github.com/sf-tensor/tcgen05, both of a B200. They agree but for sums whose products are all zero (here
    they drop out) and, with ue4m3, an accumulator whose exponent lies between those of factors and products.
    """
    a64, b64, c64, sa, sb = (np.asarray(x, dtype=np.float64) for x in (a, b, c, scale_a, scale_b))
    per = GROUPED_K // K_BLOCK
    sa, sb = (np.repeat(x, per // x.shape[1], axis=1) for x in (sa, sb))
    special = ~(
        np.isfinite(sa).all(axis=1, keepdims=True)
        & np.isfinite(sb).all(axis=1, keepdims=True).T
        & np.isfinite(c64)
    )
    clean_a, clean_b = (np.where(np.isfinite(x), x, 0.0) for x in (sa, sb))
    quarters = 4 * np.einsum("mgk,ngk->mng", a64.reshape(-1, per, K_BLOCK), b64.reshape(-1, per, K_BLOCK))
    any_product = np.einsum(
        "mgk,ngk->mng", abs(a64).reshape(-1, per, K_BLOCK), abs(b64).reshape(-1, per, K_BLOCK)
    )
    (t_a, f_a), (t_b, f_b) = (_split(x, 4, scale_emin) for x in (clean_a, clean_b))
    factors = t_a[:, None, :] * t_b[None, :, :]
    exponent = np.where((any_product > 0) & (factors > 0), f_a[:, None, :] + f_b[None, :, :], _DROPPED)
    s_c, e_c = _split(np.where(np.isfinite(c64), c64, 0.0), 24, BF16_EMIN)
    top = np.maximum(np.maximum(exponent.max(axis=2), e_c), BF16_EMIN - 149)
    sums = _align(quarters.astype(np.int64) * factors, GROUPED_FRACTION - 8 - (top[:, :, None] - exponent))
    total = sums.sum(axis=2) + _align(s_c, GROUPED_FRACTION - 23 - (top - e_c))
    result = _truncate(total, top - GROUPED_FRACTION)
    if not special.any():
        return result
    wide = [np.repeat(np.where(np.isfinite(x), 1.0, np.nan), K_BLOCK, axis=1) for x in (sa, sb)]
    return _with_specials(result, special, a64 * wide[0], b64 * wide[1], c64)


def _align(significand: I64, shift: I64) -> I64:
    """significand * 2^shift truncated toward zero."""
    shifted = np.abs(significand) << np.clip(shift, 0, 40)
    return np.asarray(np.sign(significand) * (shifted >> np.clip(-shift, 0, 62)))


def _truncate(total: I64, unit: I64) -> F32:
    """total * 2^unit truncated toward zero to f32."""
    magnitude = np.abs(total)
    length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    drop = np.maximum(np.maximum(length - 24, -149 - unit), 0)
    truncated = (magnitude >> np.minimum(drop, 62)) << np.minimum(drop, 62)
    with np.errstate(over="ignore"):
        value = np.ldexp(truncated.astype(np.float64), unit)
        return (np.sign(total) * value).astype(np.float32) + np.float32(0)


def _with_specials(result: F32, special: npt.NDArray[np.bool_], a: Array, b: Array, c: Array) -> F32:
    with np.errstate(invalid="ignore", over="ignore"):
        terms = a[:, None, :] * b[None, :, :]
        total = np.where(np.isfinite(terms), 0.0, terms).sum(axis=2) + np.where(np.isfinite(c), 0.0, c)
    out = np.where(special & np.isfinite(total) & (total == 0), result, total).astype(np.float32)
    out = np.where(special, out, result)
    nan = np.array(0x7FFFFFFF, dtype=np.uint32).view(np.float32)
    return np.where(np.isnan(out), nan, out).astype(np.float32)


def matmul(a: Array, b: Array, c: Array | None = None, input_emin: int = BF16_EMIN) -> F32:
    """``[m, n]`` f32: ``c + a [m, k] @ b [n, k]^T``, one block of 16 products after the other from k = 0."""
    result = np.zeros((a.shape[0], b.shape[0]), np.float32) if c is None else np.asarray(c, dtype=np.float32)
    for start in range(0, a.shape[1], K_BLOCK):
        stop = start + K_BLOCK
        result = block(a[:, start:stop], b[:, start:stop], result, input_emin)
    return result


def instruction(
    a: Array,
    b: Array,
    c: Array,
    *,
    a_emin: int,
    b_emin: int,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    scale_emin: int = UE8M0_EMIN,
    half: bool = False,
    fraction: int = _FRACTION,
    result_bits: int = 24,
) -> F32:
    """``[m, n]`` f32: one dense instruction of any kind of floats, ``c + (a sa) [m, k] @ (b sb) [n, k]^T``.

    scale_a ``[m, s]``, scale_b ``[n, s]``: factors of blocks of k / s elements. half: an f16 accumulator.
    fraction: bits kept below the largest exponent. result_bits: significant bits of an f32 result.

    All k products of the instruction and the accumulator go into one aligned sum, a product's exponent being
    the sum of its factors' exponents. For tf32 (8 products) and for f16 with an f16 accumulator (16; aligned
    down to 2^-21, rounded once to nearest even) that is the authors' model (B200TC.m) and gives all 5000
    words recorded on a B200; for f8f6f4 and mxf8f6f4 it gives the words of tcgen05.mma that
    github.com/sf-tensor/tcgen05 recorded on a B200. Scaled operands with k = 64 (mxf4, mxf4nvf4) follow
    `scaled_e2m1`.
    """
    if scale_a is not None and scale_b is not None and a.shape[1] == GROUPED_K:
        return scaled_e2m1(a, b, c, scale_a, scale_b, scale_emin)
    a64, b64, c64 = (np.asarray(x, dtype=np.float64) for x in (a, b, c))
    unscaled = np.ones((1, 1))
    sa64 = np.asarray(unscaled if scale_a is None else scale_a, dtype=np.float64)
    sb64 = np.asarray(unscaled if scale_b is None else scale_b, dtype=np.float64)
    k = a64.shape[1]
    sa64 = np.broadcast_to(np.repeat(sa64, k // sa64.shape[1], axis=1), a64.shape)
    sb64 = np.broadcast_to(np.repeat(sb64, k // sb64.shape[1], axis=1), b64.shape)
    bad_a, bad_b = (np.where(np.isfinite(s), x, np.nan) for x, s in ((a64, sa64), (b64, sb64)))
    special = ~(
        np.isfinite(bad_a).all(axis=1, keepdims=True)
        & np.isfinite(bad_b).all(axis=1, keepdims=True).T
        & np.isfinite(c64)
    )
    parts = []
    for value, scale, emin in ((bad_a, sa64, a_emin), (bad_b, sb64, b_emin)):
        clean = np.where(np.isfinite(value), value, 0.0)
        s, e = _split(clean, 11, emin)
        t, f = _split(np.where(np.isfinite(scale), scale, 0.0), 4, -2000)
        parts.append((s * t, np.where((s == 0) | (t == 0), _DROPPED, e + f)))
    (s_a, e_a), (s_b, e_b) = parts
    clean_c = np.where(np.isfinite(c64), c64, 0.0)
    s_c, e_c = _split(clean_c, 24, F16_EMIN if half else BF16_EMIN)
    exponent = e_a[:, None, :] + e_b[None, :, :]
    top = np.maximum(np.maximum(exponent.max(axis=2), e_c), HALF_MIN_ALIGNMENT if half else MIN_ALIGNMENT)
    products = _align(s_a[:, None, :] * s_b[None, :, :], fraction - 26 - (top[:, :, None] - exponent))
    total = products.sum(axis=2) + _align(s_c, fraction - 23 - (top - e_c))
    if half:
        with np.errstate(over="ignore"):
            result = np.ldexp(total.astype(np.float64), top - fraction).astype(np.float16).astype(np.float32)
    else:
        result = _truncate(total, top - fraction)
        mask = np.uint32(-(1 << (24 - result_bits)) & 0xFFFFFFFF)
        result = (result.view(np.uint32) & mask).view(np.float32)
    return _with_specials(result, special, bad_a, bad_b, c64) if special.any() else result
