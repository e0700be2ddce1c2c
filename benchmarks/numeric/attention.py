"""Numeric variants of the sparse MLA kernels: delta, operands, dQ, dKV, keys and offsets."""

from __future__ import annotations

from numeric.texts import (
    ADDED,
    CONTEXT,
    DELTA,
    DELTA_FILE,
    EXPORT,
    HIGH,
    LOW,
    P0,
    PACK,
    PTX_FILE,
    SHUFFLED,
    SOFTMAX,
    STAGED,
    C,
    H,
)
from numeric.variant import NumericVariant, cut, f16, flushed, near


def _delta(kernel: str, id: str, title: str, replacement: str, right: str = "") -> NumericVariant:
    text = f"if (lane == batch + h) delta = {replacement};"
    return NumericVariant(kernel, f"delta-{id}", f"delta {title}", ((DELTA_FILE, DELTA, text),), right)


def _sums(kernel: str, id: str, title: str, low: str, high: str, right: str = "") -> NumericVariant:
    edits = ((DELTA_FILE, LOW, low), (DELTA_FILE, HIGH, high))
    return NumericVariant(kernel, f"delta-{id}", f"sums of delta: {title}", edits, right)


def _each(how: str) -> tuple[str, str]:
    """Both products of delta's loop, with {x} and {y} in the place of the factors."""
    pairs = (
        ("Elements::low(x[i])", "Elements::low(y[i])"),
        ("Elements::high(x[i])", "Elements::high(y[i])"),
    )
    low, high = (how.replace("{x}", x).replace("{y}", y) for x, y in pairs)
    return low, high


_FTZ = 'asm("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"({x}), "f"({y}));'
DELTAS = (
    _delta(H, "20-bits", "has 20 bits", near("sum", 20)),
    _delta(P0, "20-bits", "has 20 bits", near("sum", 20)),
    _delta(C, "16-bits", "of a CTA's columns has 16 bits", near("sum", 16)),
    _delta(C, "20-bits", "of a CTA's columns has 20 bits", near("sum", 20)),
    _delta(H, "cut-22", "is cut to 22 bits", cut("sum", 22)),
    _delta(H, "larger-2-20", "is 2^-20 too large", "sum * 0x1.00001p0f"),
    _delta(P0, "larger-2-21", "is 2^-21 too large", "sum * 0x1.000008p0f"),
    _delta(H, "f16", "goes through f16", f16("sum")),
    _delta(H, "flushed", "below 2^-10 is 0", flushed("sum", "0x1p-10f")),
    _delta(C, "flushed-subnormal", "below 2^-126 is 0", flushed("sum", "0x1p-126f")),
    _delta(H, "clamped", "is clamped to +-65504", "fminf(fmaxf(sum, -65504.0f), 65504.0f)"),
    _sums(C, "rz", "rounded toward zero", *_each("sum = __fmaf_rz({x}, {y}, sum);")),
    _sums(H, "ru", "rounded up", *_each("sum = __fmaf_ru({x}, {y}, sum);")),
    _sums(H, "products-bf16", "products rounded to bf16", *_each("sum += " + near("({x} * {y})", 8) + ";")),
    _sums(C, "20-bits", "of 20 bits", *_each("sum = " + near("fmaf({x}, {y}, sum)", 20) + ";")),
    _sums(P0, "f16", "in f16", *_each("sum = " + f16("fmaf({x}, {y}, sum)") + ";")),
    _sums(H, "ftz", "subnormals flushed", *_each(_FTZ)),
    _sums(
        H,
        "unfused",
        "product and sum rounded apart",
        *_each("sum = __fadd_rn(sum, __fmul_rn({x}, {y}));"),
    ),
    NumericVariant(
        H,
        "delta-shuffle-tf32",
        "sums of lanes in tf32",
        ((DELTA_FILE, SHUFFLED, f"sum = {near('sum + __shfl_xor_sync(0xffffffff, sum, mask)', 11)};"),),
    ),
    NumericVariant(
        C, "delta-starts", "sums begin at 1e-6", ((DELTA_FILE, "float sum = 0.0f;", "float sum = 1e-6f;"),)
    ),
    NumericVariant(
        H,
        "delta-lane-order",
        "lanes are added in another order",
        (
            (
                DELTA_FILE,
                "for (int mask = 16; mask > 0; mask /= 2)",
                "for (int mask = 1; mask < 32; mask *= 2)",
            ),
        ),
    ),
    NumericVariant(
        C,
        "delta-halves-16-bits",
        "the sum of both CTAs' halves has 16 bits",
        (
            (
                SOFTMAX[C],
                "const float delta = smem.delta_own[head] + smem.delta_incoming[head];",
                f"const float delta = {near('(smem.delta_own[head] + smem.delta_incoming[head])', 16)};",
            ),
        ),
    ),
)


def _pack(kernel: str, id: str, title: str, code: str) -> NumericVariant:
    return NumericVariant(kernel, f"pack-{id}", f"bf16 operands: {title}", ((PTX_FILE, PACK, code),))


def _before(how: str) -> str:
    """The rounding to bf16 of another rounding's result, {x} in the place of the value."""
    return PACK.replace("(high)", f"({how.replace('{x}', 'high')})").replace(
        "(low)", f"({how.replace('{x}', 'low')})"
    )


_F16_BOTH = PACK.replace('"f"(high)', f'"f"({f16("high")})').replace('"f"(low)', f'"f"({f16("low")})')
_FLUSH_BOTH = PACK.replace('"f"(high)', f'"f"({flushed("high", "0x1p-126f")})').replace(
    '"f"(low)', f'"f"({flushed("low", "0x1p-126f")})'
)
PACKS = (
    _pack(H, "rz", "toward zero", PACK.replace("cvt.rn", "cvt.rz")),
    _pack(C, "rz", "toward zero", PACK.replace("cvt.rn", "cvt.rz")),
    _pack(H, "f16-first", "f16 first", _F16_BOTH),
    _pack(C, "16-bits-first", "16 bits first", _before(near("{x}", 16))),
    _pack(H, "20-bits-first", "20 bits first", _before(near("{x}", 20))),
    _pack(
        C,
        "half-away",
        "half away from zero",
        "packed = (__float_as_uint(low) + 0x8000u) >> 16 | "
        "((__float_as_uint(high) + 0x8000u) & 0xffff0000u);",
    ),
    _pack(H, "relu", "negative values are 0", PACK.replace("cvt.rn", "cvt.rn.relu")),
    _pack(H, "flushed", "subnormals are 0", _FLUSH_BOTH),
    _pack(
        C,
        "to-odd",
        "to odd",
        "auto odd = [](float v) { const uint32_t b = __float_as_uint(v); "
        "return (b | ((b & 0xffffu) ? 0x10000u : 0u)); };\n"
        "  packed = odd(low) >> 16 | (odd(high) & 0xffff0000u);",
    ),
)


def _added(kernel: str, id: str, title: str, value: str, right: str = "") -> NumericVariant:
    text = (
        f"ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, {value.replace('{v}', 'v[j]')});"
        if kernel == H
        else f'"f"({value.replace("{v}", "x")})'
    )
    return NumericVariant(
        kernel, f"dkv-{id}", f"added to dKV: {title}", ((EXPORT[kernel], ADDED[kernel], text),), right
    )


def _dq(kernel: str, id: str, title: str, value: str) -> NumericVariant:
    text = f"{STAGED[kernel]} CUTE_UNROLL for (int j = 0; j < 32; ++j) v[j] = {value};"
    return NumericVariant(kernel, f"dq-{id}", f"dQ: {title}", ((SOFTMAX[kernel], STAGED[kernel], text),))


OUTPUTS = (
    _added(H, "20-bits", "20 bits", near("{v}", 20)),
    _added(C, "16-bits", "16 bits", near("{v}", 16)),
    _added(C, "bf16", "bf16", near("{v}", 8)),
    _added(H, "cut-22", "cut to 22 bits", cut("{v}", 22)),
    _added(H, "larger-2-20", "2^-20 too large", "({v} * 0x1.00001p0f)"),
    _added(C, "f16", "through f16", f16("{v}")),
    _added(H, "flushed", "below 2^-12 nothing", flushed("{v}", "0x1p-12f")),
    _added(C, "clamped", "clamped to +-448", "fminf(fmaxf({v}, -448.0f), 448.0f)"),
    _dq(H, "16-bits", "16 bits before it is rounded", near("v[j]", 16)),
    _dq(C, "11-bits", "11 bits before it is rounded", near("v[j]", 11)),
    _dq(H, "cut-8", "cut to bf16", cut("v[j]", 8)),
    _dq(C, "larger-2-12", "2^-12 too large", "v[j] * 0x1.001p0f"),
    _dq(H, "flushed", "below 2^-16 is 0", flushed("v[j]", "0x1p-16f")),
    _dq(C, "clamped", "clamped to +-448", "fminf(fmaxf(v[j], -448.0f), 448.0f)"),
    NumericVariant(
        H,
        "dkv-reversed",
        "the steps of dKV over the heads in reversed order",
        (
            (
                "sm100/head64/mma.cuh",
                "ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), "
                "further(first_b, head * kRowBytes), idesc,",
                "ptx::mma_f16_ss(d, further(first_a, (Cfg::kHeads - kMmaK - head) * kRowBytes), "
                "further(first_b, (Cfg::kHeads - kMmaK - head) * kRowBytes), idesc,",
            ),
        ),
    ),
)


def _keys(kernel: str, id: str, title: str, text: str, replacement: str, right: str = "") -> NumericVariant:
    return NumericVariant(kernel, f"keys-{id}", title, ((CONTEXT, text, replacement),), right)


KEYS = (
    _keys(H, "length", "slot topk_length is a key", "slot < length &&", "slot <= length &&"),
    _keys(C, "length-1", "the last slot is no key", "slot < length &&", "slot < length - 1 &&"),
    _keys(H, "s-kv", "index s_kv is a key", "index < params.s_kv", "index <= params.s_kv"),
    _keys(C, "s-kv-1", "the last row of kv is no key", "index < params.s_kv", "index < params.s_kv - 1"),
    _keys(C, "index-0", "index 0 is no key", "index >= 0 &&", "index > 0 &&"),
    _keys(
        H,
        "index-20-bits",
        "indices of 20 bits",
        "return is_key ? index : -1;",
        "return is_key ? index & 0xfffff : -1;",
    ),
    _keys(
        C,
        "rows-2-21",
        "rows from 2^21 on are no keys",
        "index < params.s_kv;",
        "index < min(params.s_kv, 1 << 21);",
    ),
    _keys(
        C,
        "topk-4096",
        "k-blocks beyond topk 4096 are skipped",
        "length = max(0, min(length, params.topk));",
        "length = max(0, min(length, min(params.topk, 4096)));",
    ),
    _keys(
        H,
        "length-clamp",
        "a length above topk is taken",
        "length = max(0, min(length, params.topk));",
        "length = max(0, length);",
    ),
    _keys(
        H,
        "length-negative",
        "a negative length is not clamped",
        "length = max(0, min(length, params.topk));",
        "length = min(length, params.topk);",
        right="no slot is below it, and no k-block",
    ),
    _keys(
        H,
        "token-16-bits",
        "tokens of 16 bits",
        "token = blockIdx.x / Plan::cluster;",
        "token = (blockIdx.x / Plan::cluster) & 0xffff;",
    ),
    _keys(
        C,
        "indices-32-bits",
        "the offset of a token's indices has 32 bits",
        "indices = params.indices + int64_t(token) * params.topk;",
        "indices = params.indices + token * params.topk;",
    ),
    NumericVariant(
        H,
        "keys-o-32-bits",
        "the offset of a row of o has 32 bits",
        ((EXPORT[H], "params.o + first_row * Plan::d_v", "params.o + int(first_row) * Plan::d_v"),),
    ),
    NumericVariant(
        H,
        "keys-dkv-elements",
        "the offset of a row of dKV in elements has 32 bits",
        ((EXPORT[H], ADDED[H], "ptx::red_add(out + row[j] * Plan::d_qk, v[j]);"),),
    ),
)

VARIANTS = (*DELTAS, *PACKS, *OUTPUTS, *KEYS)
