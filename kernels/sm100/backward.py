"""The launch of a whole sparse MLA backward as seen from the host; kernels differ in their tensor maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.layout import (
    AddressField,
    Extent,
    LaunchParameter,
    Layout,
    Number,
    RowsMap,
    Value,
)
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.plan import KernelPlan

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

PARAMS_ALIGNMENT = 128  # of Params, for its tensor maps
POINTERS = ("o", "lse", "indices", "topk_length", "delta", "dKV")
PROBES = ("P", "S", "dP", "dS")
NUMBERS = (Number("s_kv"), Number("topk"), Number("sm_scale", "f32"), Number("sm_scale_log2e", "f32"))
Maps = Callable[[KernelPlan], Sequence[RowsMap]]


def variants(h_q: int, d_qks: Sequence[int]) -> tuple[Variant, ...]:
    """Of each width, first with bf16 operands, then with f16."""
    forms: tuple[dict[str, int], ...] = ({}, {"f16": 1})
    return tuple(Variant.of("sparse_mla_bwd", h_q=h_q, d_qk=d_qk, **form) for form in forms for d_qk in d_qks)


def suffix(variant: Variant) -> str:
    """Of the names of a variant's entries."""
    return f"d{variant['d_qk']}" + "_f16" * variant["f16"]


def rows(plan: KernelPlan, buffer: str, box_cols: int = 64) -> RowsMap:
    """The map of q, dO, kv or dQ, in boxes of all heads of a token (of kv: of one row, for gather4)."""
    cols = plan.size("d_v" if buffer == "dO" else "d_qk")
    dtype: Literal["bfloat16", "float16"] = "float16" if plan.problem.constants["f16"] else "bfloat16"
    if buffer == "kv":
        return RowsMap(buffer, Extent(("s_kv",)), cols, 1, box_cols, dtype)
    heads = plan.size("h_q")
    return RowsMap(buffer, Extent(("s_q",), heads), cols, heads, box_cols, dtype)


def layout(plan: KernelPlan, maps: Maps) -> Layout:
    """Grid of one cluster per token; one by-value struct of tensor maps, addresses and sizes.

    `maps` makes the tensor maps, which come first. Each kernel's config.cuh asserts the struct's size,
    params.cuh the offsets of maps and of the rest.
    """
    values: list[tuple[int, Value]] = []
    end = 0
    pointers = [AddressField(name) for name in (*POINTERS, *PROBES)]
    every: list[Value] = [*maps(plan), *pointers, *NUMBERS]
    for value in every:
        values.append((end, value))
        end += value.bytes
    size = -(-end // PARAMS_ALIGNMENT) * PARAMS_ALIGNMENT
    return Layout(
        Extent(("s_q",), plan.cluster),
        plan.threads,
        (LaunchParameter(size, tuple(values)),),
        plan.cluster_dims,
        plan.smem_bytes,
        programmatic=True,
    )


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool, maps: Maps) -> LaunchFile:
    """The launch that `layout` states.

    Outputs: `delta [s_q, h_q]` f32, `dQ [s_q, h_q, d_qk]` in the form of q, and `dKV [s_kv, d_qk]` f32, which
    starts as zeros and is added to. The probe build also writes `P`, `S`, `dP` and `dS` f32 `[s_q, h_q,
    topk]`, of which the k-blocks below ceil(clamped topk_length / b_topk) are written; S and dS are the
    values before their rounding to operands.
    """
    problem, h_q, d_qk = inputs.problem, plan.size("h_q"), plan.size("d_qk")
    made = LaunchBuilder(plan.name, built.ptx)
    buffers: dict[str, LaunchBuffer | None] = {}
    buffers |= {name: made.input(name, getattr(inputs, name)) for name in ("q", "dO", "kv")}
    buffers["dQ"] = made.output("dQ", (problem.s_q, h_q, d_qk), problem.dtype)
    buffers |= {name: made.input(name, getattr(inputs, name)) for name in ("o", "lse", "indices")}
    length = inputs.topk_length
    buffers["topk_length"] = None if length is None else made.input("topk_length", length)
    buffers["delta"] = made.output("delta", (problem.s_q, h_q), np.float32)
    buffers["dKV"] = made.zeros("dKV", (problem.s_kv, d_qk), np.float32)
    probe_shape = (problem.s_q, h_q, problem.topk)
    for name in PROBES:
        buffers[name] = made.output(name, probe_shape, np.float32, whole=False) if probe else None
    sizes = {
        "s_q": problem.s_q,
        "s_kv": problem.s_kv,
        "topk": problem.topk,
        "sm_scale": problem.sm_scale,
        "sm_scale_log2e": problem.sm_scale * LOG2_E,
    }
    layout(plan, maps).launch(made, built.entry, buffers, sizes)
    return made.file()
