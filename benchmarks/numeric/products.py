"""Numeric variants of the matrix products and of CUTLASS's dense attention."""

from __future__ import annotations

from numeric.variant import NumericVariant, cut, f16, flushed, near

G, N, NB, F = "sm100-gemm-bias", "sm90-gemm", "sm90-gemm-bias", "cutlass-fmha-bwd-mended"
GEMM, SM90, PTX_FILE = "sm100/gemm/kernel.cu", "sm90/gemm/kernel.cu", "sm100/ptx.cuh"
PAIR = """d[j / 2] = ptx::pack_bf16(params.alpha * x[j] + __ldg(bias + j),
                                params.alpha * x[j + 1] + __ldg(bias + j + 1));"""
PACK = """asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));"""
D90 = "make_float2(params.alpha * x + params.beta * c.x, params.alpha * y + params.beta * c.y)"
BIAS90 = "ptx::pack_bf16(params.alpha * x + bias.x, params.alpha * y + bias.y)"
LOADED = "const float x = acc[i][j][2 * half], y = acc[i][j][2 * half + 1];"


def _d(id: str, title: str, value: str, right: str = "") -> NumericVariant:
    """`value` of an element of D, {x} the product, {b} the bias."""
    low, high = (
        value.replace("{x}", f"x[j{at}]").replace("{b}", f"__ldg(bias + j{at})") for at in ("", " + 1")
    )
    text = f"d[j / 2] = ptx::pack_bf16({low}, {high});"
    return NumericVariant(G, f"d-{id}", f"D: {title}", ((GEMM, PAIR, text),), right)


def _d90(id: str, title: str, value: str, right: str = "") -> NumericVariant:
    """`value` of an element of D, {x} the product, {c} the element of C."""
    low, high = (value.replace("{x}", x).replace("{c}", c) for x, c in (("x", "c.x"), ("y", "c.y")))
    return NumericVariant(N, f"d-{id}", f"D: {title}", ((SM90, D90, f"make_float2({low}, {high})"),), right)


def _bias90(id: str, title: str, value: str, right: str = "") -> NumericVariant:
    low, high = (value.replace("{x}", x).replace("{b}", b) for x, b in (("x", "bias.x"), ("y", "bias.y")))
    return NumericVariant(
        NB, f"d-{id}", f"D: {title}", ((SM90, BIAS90, f"ptx::pack_bf16({low}, {high})"),), right
    )


_ALPHA, _BETA = "params.alpha", "params.beta"
SM100 = (
    _d("product-bf16", "the product rounded to bf16 first", f"{_ALPHA} * {near('{x}', 8)} + {{b}}"),
    _d("product-f16", "the product rounded to f16 first", f"{_ALPHA} * {f16('{x}')} + {{b}}"),
    _d("product-16-bits", "the product of 16 bits", f"{_ALPHA} * {near('{x}', 16)} + {{b}}"),
    _d("alpha-bf16", "alpha in bf16", f"{near(_ALPHA, 8)} * {{x}} + {{b}}"),
    _d("alpha-tf32", "alpha in tf32", f"{near(_ALPHA, 11)} * {{x}} + {{b}}"),
    _d("bias-bf16", "the bias in bf16", f"{_ALPHA} * {{x}} + {near('{b}', 8)}"),
    _d("bias-16-bits", "the bias of 16 bits", f"{_ALPHA} * {{x}} + {near('{b}', 16)}"),
    _d("bias-scaled", "alpha (x + bias)", f"{_ALPHA} * ({{x}} + {{b}})"),
    _d("11-bits", "11 bits before it is rounded", near(f"({_ALPHA} * {{x}} + {{b}})", 11)),
    _d("16-bits", "16 bits before it is rounded", near(f"({_ALPHA} * {{x}} + {{b}})", 16)),
    _d("clamped", "clamped to +-448", f"fminf(fmaxf({_ALPHA} * {{x}} + {{b}}, -448.0f), 448.0f)"),
    _d("flushed", "below 2^-10 is 0", flushed(f"({_ALPHA} * {{x}} + {{b}})", "0x1p-10f")),
    _d(
        "unfused",
        "product and sum rounded apart",
        f"__fadd_rn(__fmul_rn({_ALPHA}, {{x}}), {{b}})",
        right="the plan rounds the product and the sum",
    ),
    NumericVariant(G, "pack-rz", "D: toward zero", ((PTX_FILE, PACK, PACK.replace("cvt.rn", "cvt.rz")),)),
    NumericVariant(
        G,
        "pack-to-odd",
        "D: half up",
        (
            (
                PTX_FILE,
                PACK,
                "packed = (__float_as_uint(low) + 0x8000u) >> 16 | "
                "((__float_as_uint(high) + 0x8000u) & 0xffff0000u);",
            ),
        ),
    ),
    NumericVariant(
        G,
        "k-64-tiles",
        "K beyond 4,096 is left out",
        (
            (
                GEMM,
                "for (int step = 0; step < kColTile; step += kMmaK) {",
                "for (int step = 0; step < (k < 64 ? kColTile : 0); step += kMmaK) {",
            ),
        ),
    ),
    NumericVariant(
        G,
        "offset-32-bits",
        "the offset of an element of D has 32 bits",
        (
            (
                GEMM,
                "const int64_t first = int64_t(row + threadIdx.x % TileA::rows) * params.columns + column;",
                "const int first = (row + int(threadIdx.x % TileA::rows)) * params.columns + column;",
            ),
        ),
    ),
)
_WHOLE = f"{_ALPHA} * {{x}} + {_BETA} * {{c}}"
WARP = (
    _d90("20-bits", "of 20 bits", near(f"({_WHOLE})", 20)),
    _d90("tf32", "in tf32", near(f"({_WHOLE})", 11)),
    _d90("cut-22", "cut to 22 bits", cut(f"({_WHOLE})", 22)),
    _d90("c-bf16", "C in bf16", f"{_ALPHA} * {{x}} + {_BETA} * {near('{c}', 8)}"),
    _d90("beta-f16", "beta in f16", f"{_ALPHA} * {{x}} + {f16(_BETA)} * {{c}}"),
    _d90("product-20-bits", "the product of 20 bits", f"{_ALPHA} * {near('{x}', 20)} + {_BETA} * {{c}}"),
    _d90("alpha-2-20", "alpha 2^-20 too large", f"({_ALPHA} * 0x1.00001p0f) * {{x}} + {_BETA} * {{c}}"),
    _d90("rz", "rounded toward zero", f"__fadd_rz(__fmul_rz({_ALPHA}, {{x}}), __fmul_rz({_BETA}, {{c}}))"),
    _d90("flushed", "below 2^-12 is 0", flushed(f"({_WHOLE})", "0x1p-12f")),
    _d90(
        "unfused",
        "three roundings",
        f"__fadd_rn(__fmul_rn({_ALPHA}, {{x}}), __fmul_rn({_BETA}, {{c}}))",
        right="the plan rounds both products and the sum",
    ),
    _d90(
        "other-order",
        "beta C first",
        f"{_BETA} * {{c}} + {_ALPHA} * {{x}}",
        right="the sum of the same terms",
    ),
    NumericVariant(
        N,
        "product-stored-16-bits",
        "the product of 16 bits everywhere",
        (
            (
                SM90,
                LOADED,
                f"const float x = {near('acc[i][j][2 * half]', 16)}, "
                f"y = {near('acc[i][j][2 * half + 1]', 16)};",
            ),
        ),
    ),
    NumericVariant(
        N,
        "sums-tf32",
        "sums are rounded to tf32 after each tile of K",
        (
            (
                SM90,
                "ptx::fence_proxy_async_shared();",
                "for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) for (int n = 0; n < 4; ++n) "
                f"acc[i][j][n] = {near('acc[i][j][n]', 11)}; ptx::fence_proxy_async_shared();",
            ),
        ),
    ),
    NumericVariant(
        N,
        "sums-20-bits",
        "sums are rounded to 20 bits after each tile of K",
        (
            (
                SM90,
                "ptx::fence_proxy_async_shared();",
                "for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) for (int n = 0; n < 4; ++n) "
                f"acc[i][j][n] = {near('acc[i][j][n]', 20)}; ptx::fence_proxy_async_shared();",
            ),
        ),
    ),
    NumericVariant(
        N,
        "offset-32-bits",
        "the offset of an element of D has 32 bits",
        ((SM90, "const int64_t at = m * params.columns", "const int at = int(m) * params.columns"),),
    ),
    _bias90("bias-tf32", "the bias in tf32", f"{_ALPHA} * {{x}} + {near('{b}', 11)}"),
    _bias90("product-bf16", "the product rounded to bf16 first", f"{_ALPHA} * {near('{x}', 8)} + {{b}}"),
    _bias90("16-bits", "16 bits before it is rounded", near(f"({_ALPHA} * {{x}} + {{b}})", 16)),
    NumericVariant(
        NB, "pack-rz", "D: toward zero", (("sm90/ptx.cuh", PACK, PACK.replace("cvt.rn", "cvt.rz")),)
    ),
)


def _fmha(id: str, title: str, text: str, replacement: str, right: str = "") -> NumericVariant:
    return NumericVariant(F, f"fmha-{id}", title, (("", text, replacement),), right)


DENSE = (_fmha("rz", "operands toward zero", "cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32"),)
VARIANTS = (*SM100, *WARP, *DENSE)
