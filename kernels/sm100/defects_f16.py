"""Planted defects that only the f16 variants of a sparse MLA kernel have; in the others the code is right."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect, Sizes

_FORM = "sm100/element.cuh"
_DESCRIPTOR = "make_instr_desc<T, T, float, M, N, MajorA, MajorB>()"
_PACK = 'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));'
_LOW = "return ptx::f32_of_f16(uint16_t(pair));"
_COPY = "return ptx::pack_f16(low, high);"
_SMALL = "(fabsf({x}) < 0x1p-14f ? 0.0f : {x})"


def defects(kernel: str, prefix: str) -> tuple[PlantedDefect, ...]:
    """Those of `kernel`, whose ids begin with `prefix`."""

    def defect(
        id: str, title: str, file: str, find: str, replacement: str, stage: str, place: str = "every tile"
    ) -> PlantedDefect:
        edits = (Edit(Place(find, file), replacement),)
        return PlantedDefect(
            f"{prefix}-f16-{id}", title, "", kernel, edits, InStage(stage, place), sizes=Sizes(f16=1)
        )

    return (
        defect(
            "multiplied-as-bf16",
            "the instruction descriptor states bf16 operands",
            "sm100/operand.cuh",
            _DESCRIPTOR,
            "make_instr_desc<cutlass::bfloat16_t, cutlass::bfloat16_t, float, M, N, MajorA, MajorB>()",
            "P",
        ),
        defect(
            "a-as-bf16",
            "the instruction descriptor states bf16 for A alone",
            "sm100/operand.cuh",
            _DESCRIPTOR,
            "make_instr_desc<cutlass::bfloat16_t, T, float, M, N, MajorA, MajorB>()",
            "P",
        ),
        defect(
            "copies-bf16",
            "S, dS and dQ are rounded to bf16",
            _FORM,
            _COPY,
            "return ptx::pack_bf16(low, high);",
            "S",
        ),
        defect(
            "copies-through-bf16",
            "S, dS and dQ are rounded to bf16 first, then to f16",
            _FORM,
            _COPY,
            "const uint32_t both = ptx::pack_bf16(low, high); "
            "return ptx::pack_f16(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));",
            "S",
        ),
        defect(
            "delta-bf16",
            "delta reads every other element of o and dO as bf16",
            _FORM,
            _LOW,
            "return __uint_as_float(pair << 16);",
            "delta",
        ),
        defect(
            "copies-saturate",
            "S, dS and dQ beyond 65504 become 65504 in place of infinity",
            "sm100/ptx.cuh",
            _PACK,
            _PACK.replace("cvt.rn.", "cvt.rn.satfinite."),
            "S",
            "elements beyond the range of f16",
        ),
        defect(
            "copies-flushed",
            "subnormal copies of S, dS and dQ are zero",
            "sm100/ptx.cuh",
            _PACK,
            _PACK.replace("(high)", f"({_SMALL.format(x='high')})").replace(
                "(low)", f"({_SMALL.format(x='low')})"
            ),
            "dS",
            "elements below 2^-14",
        ),
    )
