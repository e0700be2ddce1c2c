"""head64 with f16 operands: four edits of its sources, and a plan that declares them."""

from __future__ import annotations

from dataclasses import replace

from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.edit import Edit, Place
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.arithmetic import F16
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.spec.problems.sparse_mla_bwd.stages import MlaRoundingPlan

HEAD64 = kernel("head64")
PACK = 'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));'
LOWER = "fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), sum)"
UPPER = "fmaf(__uint_as_float(x[i] & 0xffff0000u), __uint_as_float(y[i] & 0xffff0000u), sum)"
_HALF = (
    '[](uint32_t v) {{ float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)(v)));'
    " return r; }}({})"
)
EDITS = (
    Edit(Place("using bf16 = cutlass::bfloat16_t;", "sm100/operand.cuh"), "using bf16 = cutlass::half_t;"),
    Edit(Place(PACK, "sm100/ptx.cuh"), PACK.replace("bf16x2", "f16x2")),
    Edit(Place(LOWER, "sm100/delta.cuh"), f"fmaf({_HALF.format('x[i]')}, {_HALF.format('y[i]')}, sum)"),
    Edit(
        Place(UPPER, "sm100/delta.cuh"),
        f"fmaf({_HALF.format('x[i] >> 16')}, {_HALF.format('y[i] >> 16')}, sum)",
    ),
)


def f16_plan(variant: Variant) -> KernelPlan:
    """The plan of head64 whose operands are f16."""
    plan = HEAD64.plan_of(variant)
    smem = tuple(replace(tile, dtype="f16") if tile.dtype == "bf16" else tile for tile in plan.smem)
    problem = replace(SPARSE_MLA_BWD, rounding=MlaRoundingPlan(operand=F16))
    return replace(plan, problem=problem, smem=smem)


F16_HEAD64: Kernel = replace(HEAD64, plan_of=f16_plan)


def under_test(declared: Kernel, edits: tuple[Edit, ...]) -> KernelUnderTest:
    """head64 with `edits`, judged by the plan of `declared`."""
    variant = declared.variant(d_qk=576)
    return replace(
        on_emulator(declared, variant),
        production=HEAD64.build(variant, edits=edits),
        probe=lambda: HEAD64.build(variant, True, edits),
    )
