"""A deterministic dKV: the kernels before and after an unchanged backward (ordered.cuh).

`expand` gives each slot a row of kv of its own, so that the backward adds to a row of dKV from one slot only;
`collect` sums the slots of each row in their order. Memory: ``s_q * topk`` rows of bf16 and of f32; `collect`
reads all indices once per 16 rows of dKV.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.sm90.mla_around.launches import COLLECT, EXPAND, built, launched
from tileproof.spec.machine.types import Array

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def expand(inputs: Inputs, ptx: str = "") -> LaunchFile:
    """`slots [s_q, topk]` int32, a slot's own number where it is a key, else -1; and the key of each slot,
    `rows [s_q * topk, d_qk]` bf16.
    """
    problem, made = inputs.problem, LaunchBuilder("mla-expand", ptx or built().ptx)
    buffers: dict[str, LaunchBuffer | None] = {"kv": made.input("kv", inputs.kv)}
    buffers["indices"] = made.input("indices", inputs.indices)
    length = inputs.topk_length
    buffers["topk_length"] = None if length is None else made.input("topk_length", length)
    buffers["slots"] = made.output("slots", (problem.s_q, problem.topk), np.int32)
    buffers["rows"] = made.output("rows", (problem.s_q * problem.topk, problem.d_qk), ml_dtypes.bfloat16)
    sizes = {name: getattr(problem, name) for name in ("s_q", "s_kv", "topk", "d_qk")}
    return launched(made, EXPAND, buffers, sizes)


def expanded(inputs: Inputs, slots: Array, rows: Array) -> Inputs:
    """The inputs of the backward between: its dKV has a row for each slot."""
    problem = replace(inputs.problem, s_kv=len(rows))
    return replace(inputs, problem=problem, kv=rows, indices=slots)


def collect(wide: Array, inputs: Inputs, slots: Array, ptx: str = "") -> LaunchFile:
    """`dKV [s_kv, d_qk]` f32 of dKV of each slot, `wide [s_q * topk, d_qk]`, and the inputs before."""
    problem, made = inputs.problem, LaunchBuilder("mla-collect", ptx or built().ptx)
    given = (("wide", wide), ("indices", inputs.indices), ("slots", slots))
    buffers = {name: made.input(name, array) for name, array in given}
    buffers["dKV"] = made.output("dKV", (problem.s_kv, problem.d_qk), np.float32)
    sizes = {name: getattr(problem, name) for name in ("s_q", "s_kv", "topk", "d_qk")}
    return launched(made, COLLECT, buffers, sizes)
