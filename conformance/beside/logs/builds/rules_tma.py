"""Causes of errors in tensor maps and in clusters."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.builds import advice
from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.cute import (
    int_tuple,
    layout_of,
    size_of,
    text_of,
)
from tileproof.conformance.beside.logs.builds.frames import Frame


def tma(case: ErrorCase) -> BuildCause | None:
    """A tensor map whose tile and shared-memory layout do not go together."""
    text = case.text
    if "TMA requires CTA_Tile and SLayout" in text:
        return _box(case)
    if "common tile-gmem vectorization" in text:
        return BuildCause(
            "tma-major",
            f"no mode is contiguous in the tile, in shared memory and in global memory{_tma_words(case)}",
            "a tile that spans the contiguous mode of global memory, and shared memory contiguous along it",
        )
    if "Set .with() before use" in text:
        return BuildCause("traits", "the TMA copy has no mbarrier", "copy(tma.with(barrier), ...)")
    return None


def _tma_frame(case: ErrorCase) -> Frame | None:
    frames = [frame for frame in case.frames if {"SLayout"} <= frame.args.keys()]
    return frames[-1] if frames else None


def _tma_words(case: ErrorCase) -> str:
    frame = _tma_frame(case)
    if frame is None:
        return ""
    smem = layout_of(frame.args["SLayout"])
    gmem = layout_of(frame.args["GLayout"]) if "GLayout" in frame.args else None
    parts = [f"shared memory {smem}" if smem else "", f"global memory {gmem}" if gmem else ""]
    return " (" + ", ".join(part for part in parts if part) + ")"


def _box(case: ErrorCase) -> BuildCause:
    frame = _tma_frame(case)
    smem = layout_of(frame.args["SLayout"]) if frame is not None else None
    tiler = frame.args.get("CTA_Tiler") or frame.args.get("Tiler") if frame is not None else None
    shape = int_tuple(tiler) if tiler is not None else None
    tile = text_of(tuple(map(size_of, shape))) if isinstance(shape, tuple) else text_of(shape)
    if smem is None or tiler is None:
        return BuildCause(
            "tma-box", "the tile of the tensor map and the shared-memory layout differ in size", "equal sizes"
        )
    sizes = [smem.size(mode) for mode in range(smem.rank)]
    return BuildCause(
        "tma-box",
        f"the tensor map's tile is {tile.replace('(', '[').replace(')', ']').replace(',', ', ')}, "
        f"{size_of(shape)} elements, but the shared-memory layout is {smem.extents()}, {smem.size()} "
        "elements",
        f"a tile of {smem.extents()}, or a shared-memory layout of the tile's size",
        edits=() if None in sizes else (("tile", advice.shape_code(sizes) + "{}"),),  # type: ignore[arg-type]
    )


def cluster(case: ErrorCase) -> BuildCause | None:
    """A CTA pair in a cluster that holds no pairs."""
    if not re.search(r"[Cc]luster shape not divisible by MMA|ThrID.*cluster", case.text):
        return None
    frame = next((frame for frame in case.frames if "ClusterShapeMNK" in frame.args), None)
    shape = text_of(int_tuple(frame.args["ClusterShapeMNK"])) if frame is not None else "?"
    thread = layout_of(frame.args["AtomThrId"]) if frame is not None and "AtomThrId" in frame.args else None
    pair = (thread.size() if thread is not None else None) or 2
    extents = int_tuple(frame.args["ClusterShapeMNK"]) if frame is not None else None
    edits: tuple[advice.Edit, ...] = ()
    if isinstance(extents, tuple) and all(isinstance(extent, int) for extent in extents):
        edits = (("cluster", advice.shape_code((-(-extents[0] // pair) * pair, *extents[1:]))),)
    return BuildCause(
        "cluster",
        f"the cluster is {shape}, but one MMA is issued for {pair} CTAs, which must be neighbours along M",
        f"a cluster whose first extent is a multiple of {pair}, or a 1-SM MMA",
        "MMA",
        edits=edits,
    )
