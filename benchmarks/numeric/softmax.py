"""Numeric variants of the sparse MLA kernels: logits, exp2, S, dS."""

from __future__ import annotations

import numpy as np
from numeric.texts import (
    DS,
    FMA,
    HOST,
    POWER,
    SCALE,
    SOFTMAX,
    C,
    H,
)
from numeric.variant import NumericVariant, called, cut, f16, flushed, near, polynomial


def _power(degree: int) -> tuple[float, ...]:
    made = np.polynomial.Chebyshev.interpolate(np.exp2, degree, (0, 1)).convert(kind=np.polynomial.Polynomial)
    return tuple(float(f"{coefficient:.10g}") for coefficient in made.coef)


def _logit(kernel: str, id: str, title: str, exponent: str, right: str = "") -> NumericVariant:
    """`exponent` with {x}, {scale} and {lse} in the place of P, the factor and lse."""
    text = exponent.replace("{x}", "x[j]").replace("{scale}", SCALE[kernel]).replace("{lse}", "lse")
    return NumericVariant(
        kernel,
        f"logit-{id}",
        f"exponent: {title}",
        ((SOFTMAX[kernel], POWER[kernel], f"ptx::exp2_approx({text})"),),
        right,
    )


def _fma(x: str = "{x}", scale: str = "{scale}", lse: str = "{lse}") -> str:
    return f"fmaf({x}, {scale}, -({lse}))"


LOGITS = (
    _logit(H, "p-bf16", "P rounded to bf16", _fma(near("{x}", 8))),
    _logit(C, "p-tf32", "P rounded to tf32", _fma(near("{x}", 11))),
    _logit(H, "p-16-bits", "P of 16 bits", _fma(near("{x}", 16))),
    _logit(H, "p-20-bits", "P of 20 bits", _fma(near("{x}", 20))),
    _logit(C, "p-f16", "P through f16", _fma(f16("{x}"))),
    _logit(H, "lse-bf16", "lse in bf16", _fma(lse=near("{lse}", 8))),
    _logit(C, "lse-tf32", "lse in tf32", _fma(lse=near("{lse}", 11))),
    _logit(H, "lse-18-bits", "lse of 18 bits", _fma(lse=near("{lse}", 18))),
    _logit(H, "scale-2-20", "factor 2^-20 too large", _fma(scale="({scale} * 0x1.00001p0f)")),
    _logit(C, "scale-2-18", "factor 2^-18 too small", _fma(scale="({scale} * 0x1.ffff8p-1f)")),
    _logit(H, "scale-2-22", "factor 2^-22 too large", _fma(scale="({scale} * 0x1.000004p0f)")),
    _logit(H, "log2e-f16", "log2(e) = 1.4423828", _fma(scale="(params.sm_scale * 1.4423828125f)")),
    _logit(H, "log2e-1.4427", "log2(e) = 1.4427", _fma(scale="(params.sm_scale * 1.4427f)")),
    _logit(H, "log2e-1.44269", "log2(e) = 1.44269", _fma(scale="(params.sm_scale * 1.44269f)")),
    _logit(
        H,
        "log2e-f32",
        "the factor is made of f32 numbers on the device",
        _fma(scale="(params.sm_scale * 1.4426950408889634f)"),
        right="sm_scale and its product with log2(e) are rounded to f32, as the plan states",
    ),
    _logit(H, "20-bits", "of 20 bits", near(_fma(), 20)),
    _logit(C, "16-bits", "of 16 bits", near(_fma(), 16)),
    _logit(H, "f16", "in f16", f16(_fma())),
    _logit(C, "rz", "rounded toward zero", "__fmaf_rz({x}, {scale}, -{lse})"),
    _logit(H, "ru", "rounded up", "__fmaf_ru({x}, {scale}, -{lse})"),
    _logit(
        C,
        "unfused",
        "product and difference rounded apart",
        "__fsub_rn(__fmul_rn({x}, {scale}), {lse})",
        right="the plan rounds the product and the difference",
    ),
    _logit(
        H,
        "product-20-bits",
        "the product of 20 bits",
        f"__fsub_rn({near('__fmul_rn({x}, {scale})', 20)}, {{lse}})",
    ),
    _logit(H, "at-most-0", "at most 0", f"fminf({_fma()}, 0.0f)"),
    _logit(C, "at-least-24", "at least -24", f"fmaxf({_fma()}, -24.0f)"),
    _logit(
        H,
        "at-least-126",
        "at least -126",
        called("return v < -126.0f ? -126.0f : v;", _fma()),
        right="S is 2^-126 where it would be less: within what flushing to 0 may cost",
    ),
    NumericVariant(
        H,
        "logit-host-log2e",
        "the host's log2(e) is 1.4427",
        ((HOST, "problem.sm_scale * LOG2_E", "problem.sm_scale * 1.4427"),),
    ),
    NumericVariant(
        C,
        "logit-host-f16",
        "the host rounds sm_scale log2(e) to f16",
        ((HOST, "problem.sm_scale * LOG2_E", "float(np.float16(problem.sm_scale * LOG2_E))"),),
    ),
    NumericVariant(
        H,
        "scale-host-bf16",
        "the host rounds sm_scale to bf16",
        (
            (
                HOST,
                'ScalarArgument("f32", problem.sm_scale, "sm_scale")',
                'ScalarArgument("f32", float(np.float32(problem.sm_scale).astype(ml_dtypes.bfloat16)), '
                '"sm_scale")',
            ),
        ),
    ),
)


def _exp2(kernel: str, id: str, title: str, power: str, right: str = "") -> NumericVariant:
    """`power` with {e} in the place of the exponent."""
    text = power.replace("{e}", FMA[kernel])
    return NumericVariant(
        kernel, f"exp2-{id}", f"exp2: {title}", ((SOFTMAX[kernel], POWER[kernel], text),), right
    )


_E = "ptx::exp2_approx({e})"
POWERS = (
    *(
        _exp2(H, f"degree-{n}", f"a polynomial of degree {n}", polynomial("{e}", _power(n)))
        for n in (2, 3, 4)
    ),
    _exp2(C, "degree-5", "a polynomial of degree 5", polynomial("{e}", _power(5))),
    _exp2(
        H,
        "degree-7",
        "a polynomial of degree 7",
        polynomial("{e}", _power(7)),
        right="its error is below the 2^-22 of ex2.approx",
    ),
    _exp2(H, "20-bits", "of 20 bits", near(_E, 20)),
    _exp2(C, "cut-21", "cut to 21 bits", cut(_E, 21)),
    _exp2(H, "cut-22", "cut to 22 bits", cut(_E, 22)),
    _exp2(
        C,
        "f16",
        "in f16",
        '[](float v) { unsigned short h; float r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); '
        'asm("ex2.approx.f16 %0, %0;" : "+h"(h)); '
        'asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }({e})',
    ),
    _exp2(H, "larger-2-20", "2^-20 too large", f"({_E} * 0x1.00001p0f)"),
    _exp2(C, "larger-2-19", "2^-19 too small", f"({_E} * 0x1.ffffcp-1f)"),
    _exp2(H, "plus-2-24", "2^-24 is added", f"({_E} + 0x1p-24f)"),
    _exp2(C, "flushed", "below 2^-40 is 0", flushed(_E, "0x1p-40f")),
    _exp2(
        H,
        "without-ftz",
        "subnormals kept",
        '[](float v) { float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(v)); return y; }({e})',
        right="as near as ex2.approx.ftz, and subnormals kept",
    ),
    _exp2(C, "exp2f", "exp2f", "exp2f({e})", right="at least as near as ex2.approx"),
    _exp2(H, "expf", "__expf of the exponent times ln 2", "__expf({e} * 0.69314718f)"),
    NumericVariant(
        H,
        "exp2-masked-by-product",
        "slots that are no key by a product with 0",
        ((SOFTMAX[H], f"(keys >> j & 1) ? {POWER[H]} : 0.0f", f"float(keys >> j & 1) * {POWER[H]}"),),
    ),
)


def _ds(kernel: str, id: str, title: str, value: str, right: str = "") -> NumericVariant:
    text = value if kernel == H else f"x[j] = {value};"
    return NumericVariant(kernel, f"ds-{id}", f"dS: {title}", ((SOFTMAX[kernel], DS[kernel], text),), right)


_SCALED = "s[j] *= scale;"
GRADIENTS = (
    _ds(H, "s-bf16", "made of S rounded to bf16", f"{near('s[j]', 8)} * (x[j] - delta) * params.sm_scale"),
    _ds(C, "s-tf32", "made of S rounded to tf32", f"{near('s[j]', 11)} * (x[j] - delta)"),
    _ds(H, "delta-16-bits", "delta of 16 bits", f"s[j] * (x[j] - {near('delta', 16)}) * params.sm_scale"),
    _ds(C, "delta-bf16", "delta in bf16", f"s[j] * (x[j] - {near('delta', 8)})"),
    _ds(H, "dp-tf32", "dP in tf32", f"s[j] * ({near('x[j]', 11)} - delta) * params.sm_scale"),
    _ds(C, "dp-16-bits", "dP of 16 bits", f"s[j] * ({near('x[j]', 16)} - delta)"),
    _ds(
        H,
        "difference-16-bits",
        "the difference of 16 bits",
        f"s[j] * {near('(x[j] - delta)', 16)} * params.sm_scale",
    ),
    _ds(C, "difference-f16", "the difference in f16", f"s[j] * {f16('(x[j] - delta)')}"),
    _ds(
        H,
        "scale-2-20",
        "sm_scale 2^-20 too large",
        "s[j] * (x[j] - delta) * (params.sm_scale * 0x1.00001p0f)",
    ),
    _ds(H, "scale-f16", "sm_scale in f16", f"s[j] * (x[j] - delta) * {f16('params.sm_scale')}"),
    _ds(
        H,
        "scale-first",
        "sm_scale is the first factor",
        "(s[j] * params.sm_scale) * (x[j] - delta)",
        right="the plan states no order of the factors",
    ),
    _ds(
        H, "rz", "rounded toward zero", "__fmul_rz(__fmul_rz(s[j], __fsub_rz(x[j], delta)), params.sm_scale)"
    ),
    _ds(C, "distributed", "S dP - S delta", "s[j] * x[j] - s[j] * delta"),
    _ds(
        H,
        "scale-distributed",
        "S (dP scale - delta scale)",
        "s[j] * (x[j] * params.sm_scale - delta * params.sm_scale)",
    ),
    _ds(
        H, "20-bits", "of 20 bits before it is rounded", near("(s[j] * (x[j] - delta) * params.sm_scale)", 20)
    ),
    _ds(C, "11-bits", "of 11 bits before it is rounded", near("(s[j] * (x[j] - delta))", 11)),
    _ds(
        H,
        "clamped",
        "clamped to +-240",
        "fminf(fmaxf(s[j] * (x[j] - delta) * params.sm_scale, -240.0f), 240.0f)",
    ),
    _ds(C, "flushed", "below 2^-20 is 0", flushed("(s[j] * (x[j] - delta))", "0x1p-20f")),
    NumericVariant(
        C,
        "ds-scaled-16-bits",
        "dS: S times sm_scale of 16 bits",
        ((SOFTMAX[C], _SCALED, f"s[j] = {near('(s[j] * scale)', 16)};"),),
    ),
    NumericVariant(
        C,
        "ds-scaled-bf16",
        "dS: S times sm_scale in bf16",
        ((SOFTMAX[C], _SCALED, f"s[j] = {near('(s[j] * scale)', 8)};"),),
    ),
)


VARIANTS = (*LOGITS, *POWERS, *GRADIENTS)
