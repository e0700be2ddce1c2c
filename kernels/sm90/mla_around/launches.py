"""Launch files of the kernels around the sparse MLA backward, and their PTX for sm_90."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import ROOT, Built, Unit, compile_unit
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.contents import ArrayContent
from tileproof.kernels.launch.layout import (
    AddressField,
    Buffers,
    EntryBeside,
    Extent,
    LaunchParameter,
    Layout,
    Number,
    Sizes,
)
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.types import Array

FOLDER = "sm90/mla_around"
ARCH = "sm_90"
DELTA, CLEAR, D_SINK = "tileproof_mla_delta", "tileproof_mla_clear", "tileproof_mla_d_sink"
EXPAND, COLLECT = "tileproof_mla_expand", "tileproof_mla_collect"
CONVERT = {"bfloat16": "tileproof_mla_bf16", "float16": "tileproof_mla_f16"}
DELTA_THREADS, DKV_THREADS = 128, 256  # of delta.cuh, dkv.cuh
EXPAND_THREADS, COLLECT_ROWS = 96, 16  # of ordered.cuh: a warp for each row
SINK_HEADS, SINK_TOKENS = 8, 128  # of d_sink.cuh: heads of a CTA, threads of a head
MAX_SLOTS = 2**31 - 1 - 4 * 32 * COLLECT_ROWS  # of collect, which counts in int32 by chunks of indices
DKV_ELEMENTS = 4 * DKV_THREADS  # of a CTA, where the grid is as large as the buffer
COUNT = LaunchParameter.lone(Number("count", "s64"))


def _struct(pointers: Sequence[str], numbers: Sequence[str], size: int) -> tuple[LaunchParameter, ...]:
    """A struct by value: addresses, then s32 numbers; `size` as kernel.cu asserts."""
    values = [(8 * at, AddressField(name)) for at, name in enumerate(pointers)]
    after = 8 * len(pointers)
    return (
        LaunchParameter(
            size, (*values, *((after + 4 * at, Number(name)) for at, name in enumerate(numbers)))
        ),
    )


_NARROW = Layout(
    Extent(("count",), per=DKV_ELEMENTS),
    DKV_THREADS,
    (LaunchParameter.lone(AddressField("wide")), LaunchParameter.lone(AddressField("narrow")), COUNT),
    programmatic=True,
)
LAYOUTS: Mapping[str, Layout] = {
    DELTA: Layout(Extent(("s_q",)), DELTA_THREADS, _struct(("o", "dO", "delta"), ("h_q",), 32)),
    CLEAR: Layout(
        Extent(("count",), per=DKV_ELEMENTS),
        DKV_THREADS,
        (LaunchParameter.lone(AddressField("values")), COUNT),
    ),
    **dict.fromkeys(CONVERT.values(), _NARROW),
    D_SINK: Layout(
        Extent(("h_q",), per=SINK_HEADS),
        SINK_HEADS * SINK_TOKENS,
        _struct(("lse", "delta", "sink", "d_sink"), ("s_q", "h_q"), 40),
        programmatic=True,
    ),
    EXPAND: Layout(
        Extent(("s_q", "topk")),
        EXPAND_THREADS,
        _struct(("kv", "indices", "topk_length", "slots", "rows"), ("s_kv", "topk", "d_qk"), 56),
    ),
    COLLECT: Layout(
        Extent(("s_kv",), per=COLLECT_ROWS),
        32 * COLLECT_ROWS,
        _struct(("wide", "indices", "slots", "dKV"), ("s_q", "topk", "d_qk", "s_kv"), 48),
        programmatic=True,
    ),
}
Half = Literal["bfloat16", "float16"]


@cache
def built() -> Built:
    """The PTX of all entries."""
    files = {f"{FOLDER}/{path.name}": path.read_text() for path in sorted((ROOT / FOLDER).glob("*.cu*"))}
    return compile_unit(Unit(DELTA, f"{FOLDER}/kernel.cu", files, {}, arch=ARCH))


def beside() -> tuple[EntryBeside, ...]:
    """The entries, for a launcher."""
    return tuple(EntryBeside(entry, built(), layout) for entry, layout in LAYOUTS.items())


def delta(o: Array, dO: Array, ptx: str = "") -> LaunchFile:
    """delta ``[s_q, h_q]`` f32 of o and dO ``[s_q, h_q, 512]`` bf16; one CTA per token."""
    made = LaunchBuilder("mla-delta", ptx or built().ptx)
    buffers = {"o": made.input("o", o), "dO": made.input("dO", dO)}
    buffers["delta"] = made.output("delta", o.shape[:2], np.float32)
    return launched(made, DELTA, buffers, {"s_q": o.shape[0], "h_q": o.shape[1]})


def clear(before: Array, count: int, ptx: str = "", grid: int | None = None) -> LaunchFile:
    """The first `count` elements of the f32 `values`, which hold `before`, become 0."""
    made = LaunchBuilder("mla-clear", ptx or built().ptx)
    values = made.add(LaunchBuffer("values", "float32", before.shape, "inout", ArrayContent(before)))
    return launched(made, CLEAR, {"values": values}, {"count": count}, grid)


def convert(wide: Array, to: Half, ptx: str = "", grid: int | None = None) -> LaunchFile:
    """`narrow`: the f32 `wide`, of any shape, rounded to the nearest in `to`, ties to even."""
    made = LaunchBuilder("mla-convert", ptx or built().ptx)
    buffers = {"wide": made.input("wide", wide)}
    buffers["narrow"] = made.output(
        "narrow", wide.shape, ml_dtypes.bfloat16 if to == "bfloat16" else np.float16
    )
    return launched(made, CONVERT[to], buffers, {"count": wide.size}, grid)


def d_sink(lse: Array, delta: Array, sink: Array, ptx: str = "") -> LaunchFile:
    """d_sink ``[h_q]`` f32 of lse (base 2, with the sink) and delta ``[s_q, h_q]`` and sink ``[h_q]``."""
    (tokens, heads), made = lse.shape, LaunchBuilder("mla-d-sink", ptx or built().ptx)
    buffers = {name: made.input(name, x) for name, x in (("lse", lse), ("delta", delta), ("sink", sink))}
    buffers["d_sink"] = made.output("d_sink", (heads,), np.float32)
    return launched(made, D_SINK, buffers, {"s_q": tokens, "h_q": heads})


def launched(
    made: LaunchBuilder, entry: str, buffers: Buffers, sizes: Sizes, grid: int | None = None
) -> LaunchFile:
    """The launch of an entry over these buffers and sizes; `grid` in place of that of its layout."""
    layout = LAYOUTS[entry]
    if grid is not None:
        layout = replace(layout, grid=Extent(factor=grid))
    layout.launch(made, entry, buffers, sizes)
    return made.file()
