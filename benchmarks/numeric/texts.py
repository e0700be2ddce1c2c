"""Texts of the sparse MLA kernels that variants change."""

from __future__ import annotations

H, C, P0 = "head64", "head128-columns", "head128-part0"
DELTA_FILE, PTX_FILE, CONTEXT = "sm100/delta.cuh", "sm100/ptx.cuh", "sm100/context.cuh"
SOFTMAX = {H: "sm100/head64/softmax.cuh", C: "sm100/head128_columns/softmax.cuh"}
EXPORT = {H: "sm100/head64/dkv_export.cuh", C: "sm100/head128_columns/dkv_export.cuh"}
HOST = "tileproof.kernels.sm100.backward"

DELTA = "if (lane == batch + h) delta = sum;"
LOW = "sum = fmaf(Elements::low(x[i]), Elements::low(y[i]), sum);"
HIGH = "sum = fmaf(Elements::high(x[i]), Elements::high(y[i]), sum);"
SHUFFLED = "sum += __shfl_xor_sync(0xffffffff, sum, mask);"
FMA = {H: "fmaf(x[j], params.sm_scale_log2e, -lse)", C: "fmaf(x[j], scale_log2e, -lse)"}
POWER = {H: f"ptx::exp2_approx({FMA[H]})", C: f"ptx::exp2_approx({FMA[C]})"}
SCALE = {H: "params.sm_scale_log2e", C: "scale_log2e"}
DS = {H: "s[j] * (x[j] - delta) * params.sm_scale", C: "x[j] = s[j] * (x[j] - delta);"}
PACK = """asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));"""
ADDED = {H: "ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);", C: '"f"(x)'}
STAGED = {
    H: "ptx::load_tmem_32_columns(this->tmem(column + at), v); ptx::wait_tmem_loads();",
    C: "ptx::load_tmem_32_columns(tmem_row() + column, v); ptx::wait_tmem_loads();",
}
