"""Launch files of the kernels around the sparse MLA backward, and their PTX for sm_90."""

from __future__ import annotations

from functools import cache
from typing import Literal

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import ROOT, Built, Unit, compile_unit
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct
from tileproof.kernels.launch.contents import ArrayContent
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.types import Array

FOLDER = "sm90/mla_around"
ARCH = "sm_90"
DELTA, CLEAR, D_SINK = "tileproof_mla_delta", "tileproof_mla_clear", "tileproof_mla_d_sink"
CONVERT = {"bfloat16": "tileproof_mla_bf16", "float16": "tileproof_mla_f16"}
DELTA_THREADS, DKV_THREADS = 128, 256  # of delta.cuh, dkv.cuh
DELTA_BYTES = 32  # sizeof(DeltaParams), which kernel.cu asserts
SINK_BYTES = 40  # sizeof(SinkParams)
SINK_HEADS, SINK_TOKENS = 32, 8  # of d_sink.cuh: heads of a CTA, threads of a head
GRID = 4  # CTAs that share the elements of dKV
Half = Literal["bfloat16", "float16"]


@cache
def built() -> Built:
    """The PTX of all entries."""
    files = {f"{FOLDER}/{path.name}": path.read_text() for path in sorted((ROOT / FOLDER).glob("*.cu*"))}
    return compile_unit(Unit(DELTA, f"{FOLDER}/kernel.cu", files, {}, arch=ARCH))


def delta(o: Array, dO: Array, ptx: str = "") -> LaunchFile:
    """delta ``[s_q, h_q]`` f32 of o and dO ``[s_q, h_q, 512]`` bf16; one CTA per token."""
    made = LaunchBuilder("mla-delta", ptx or built().ptx)
    first, second = made.input("o", o), made.input("dO", dO)
    sums = made.output("delta", o.shape[:2], np.float32)
    pointers = ((8 * number, buffer) for number, buffer in enumerate((first, second, sums)))
    params = struct(DELTA_BYTES, (*pointers, (24, ScalarArgument("s32", o.shape[1], "heads"))))
    made.launch(DELTA, grid=(o.shape[0], 1, 1), block=(DELTA_THREADS, 1, 1), arguments=[params])
    return made.file()


def clear(before: Array, count: int, ptx: str = "", grid: int = GRID) -> LaunchFile:
    """The first `count` elements of the f32 `values`, which hold `before`, become 0."""
    made = LaunchBuilder("mla-clear", ptx or built().ptx)
    values = made.add(LaunchBuffer("values", "float32", before.shape, "inout", ArrayContent(before)))
    made.launch(
        CLEAR,
        grid=(grid, 1, 1),
        block=(DKV_THREADS, 1, 1),
        arguments=[values, ScalarArgument("s64", count, "count")],
    )
    return made.file()


def convert(wide: Array, to: Half, ptx: str = "", grid: int = GRID) -> LaunchFile:
    """`narrow`: the f32 `wide`, of any shape, rounded to the nearest in `to`, ties to even."""
    made = LaunchBuilder("mla-convert", ptx or built().ptx)
    given = made.input("wide", wide)
    narrow = made.output("narrow", wide.shape, ml_dtypes.bfloat16 if to == "bfloat16" else np.float16)
    made.launch(
        CONVERT[to],
        grid=(grid, 1, 1),
        block=(DKV_THREADS, 1, 1),
        arguments=[given, narrow, ScalarArgument("s64", wide.size, "count")],
    )
    return made.file()


def d_sink(lse: Array, delta: Array, sink: Array, ptx: str = "") -> LaunchFile:
    """d_sink ``[h_q]`` f32 of lse (base 2, with the sink) and delta ``[s_q, h_q]`` and sink ``[h_q]``."""
    (tokens, heads), made = lse.shape, LaunchBuilder("mla-d-sink", ptx or built().ptx)
    given = [made.input(name, x) for name, x in (("lse", lse), ("delta", delta), ("sink", sink))]
    given.append(made.output("d_sink", (heads,), np.float32))
    sizes = ((32, ScalarArgument("s32", tokens, "tokens")), (36, ScalarArgument("s32", heads, "heads")))
    params = struct(SINK_BYTES, (*((8 * number, buffer) for number, buffer in enumerate(given)), *sizes))
    grid, threads = (-(-heads // SINK_HEADS), 1, 1), SINK_HEADS * SINK_TOKENS
    made.launch(D_SINK, grid=grid, block=(threads, 1, 1), arguments=[params])
    return made.file()
