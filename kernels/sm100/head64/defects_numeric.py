"""The planted numeric defects of head64: right formulas with fewer bits, another rounding or another order.

No element need leave the bound of its stage: what finds them is `conformance.compare.held` and `collective`.
"""

from __future__ import annotations

import posixpath

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect

KERNEL = "head64"
FOLDER = "sm100/head64"
# f32 with the lower bits of its significand gone, to nearest: 13 bits are left, those of tf32, those of bf16.
_BITS = "__uint_as_float((__float_as_uint({x}) + {half}u) & {mask}u)"


def _coarse(x: str, bits: int) -> str:
    dropped = 24 - bits
    return _BITS.format(x=x, half=hex(2 ** (dropped - 1)), mask=hex(2**32 - 2**dropped))


def _defect(id: str, title: str, file: str, find: str, replacement: str, stage: str) -> PlantedDefect:
    there = Place(find, posixpath.normpath(f"{FOLDER}/{file}"))
    return PlantedDefect(id, title, "", KERNEL, (Edit(there, replacement),), InStage(stage, "every tile", ""))


_DELTA = "if (lane == batch + h) delta = sum;"
_FMA = "sum = fmaf(Elements::high(x[i]), Elements::high(y[i]), sum);"
_PACK = """  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));"""
_DS = "s[j] * (x[j] - delta) * params.sm_scale"
_RED = "ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);"

DEFECTS: tuple[PlantedDefect, ...] = (
    _defect(
        "h64-delta-13-bits",
        "delta is rounded to 13 significant bits",
        "../delta.cuh",
        _DELTA,
        f"if (lane == batch + h) delta = {_coarse('sum', 13)};",
        "delta",
    ),
    _defect(
        "h64-delta-sums-tf32",
        "the sums of delta are rounded to tf32 after each pair of products",
        "../delta.cuh",
        _FMA,
        f"{_FMA}\n      sum = {_coarse('sum', 11)};",
        "delta",
    ),
    _defect(
        "h64-delta-sums-bf16",
        "the sums of delta are rounded to bf16 after each pair of products",
        "../delta.cuh",
        _FMA,
        f"{_FMA}\n      sum = {_coarse('sum', 8)};",
        "delta",
    ),
    _defect(
        "h64-dkv-added-tf32",
        "what is added to rows of dKV is rounded to tf32",
        "dkv_export.cuh",
        _RED,
        f"ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, {_coarse('v[j]', 11)});",
        "dKV",
    ),
    _defect(
        "h64-half-up",
        "bf16 operands are rounded half up instead of half to even",
        "../ptx.cuh",
        _PACK,
        "  auto up = [](float x) {\n"
        "    const uint32_t bits = __float_as_uint(x);\n"
        "    return (bits & 0x7fffffffu) < 0x7f800000u ? bits + 0x8000u : bits;\n"
        "  };\n"
        "  packed = up(low) >> 16 | (up(high) & 0xffff0000u);",
        "dQ",
    ),
    _defect(
        "h64-rounded-twice",
        "operands are rounded to tf32 first, then to bf16",
        "../ptx.cuh",
        _PACK,
        _PACK.replace("(high)", f"({_coarse('high', 11)})").replace("(low)", f"({_coarse('low', 11)})"),
        "S",
    ),
    _defect(
        "h64-ds-distributed",
        "dS is S dP - S delta instead of S (dP - delta)",
        "softmax.cuh",
        _DS,
        "(s[j] * x[j] - s[j] * delta) * params.sm_scale",
        "dS",
    ),
    _defect(
        "h64-ds-toward-zero",
        "the difference and the products of dS are rounded toward zero",
        "softmax.cuh",
        _DS,
        "__fmul_rz(__fmul_rz(s[j], __fsub_rz(x[j], delta)), params.sm_scale)",
        "dS",
    ),
)
