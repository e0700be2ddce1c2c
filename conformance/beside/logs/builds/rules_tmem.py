"""Causes of errors in tensor-memory loads and stores."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.builds import advice
from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.cute import (
    CuteLayout,
    layout_of,
    size_of,
    tensor_from,
)
from tileproof.conformance.beside.logs.builds.rules_copy import TMEM_OP, copy_operation

# Columns of one repeat of a tcgen05.ld shape (PTX ISA 9.7.16.8, table 49)
_SLICES = {"32": 1, "64": 2, "128": 4, "256": 8}


def tensor_memory(case: ErrorCase) -> BuildCause | None:
    """A tensor-memory load or store over a tensor that is not laid out for it."""
    text = case.text
    if re.search(r"Expected TMEM (?:tensor|src|dst)|Expected RMEM (?:src|dst)", text):
        return _wrong_space(case)
    if not re.search(r"AtomTVLayout does not exist in the DataLayout|specific TMEM layout required", text):
        return None
    op, layout = copy_operation(case), _tmem_layout(case)
    match = TMEM_OP.search(op.base) if op is not None else None
    if match is None or op is None:
        return BuildCause(
            "tmem-copy",
            "the copy atom reaches beyond the tensor",
            "an atom no larger than the tensor",
        )
    lanes, columns = int(match["lanes"]), _SLICES.get(match["bits"], 1) * int(match["repeat"])
    what = {"LOAD": "reads", "STORE": "writes"}[match["what"]]
    sentence = f"{op.base} {what} {lanes} lanes x {columns} columns in each warp"
    found = _lanes_and_columns(layout) if layout is not None else None
    fits = "an operation with fewer repeats"
    edits: tuple[advice.Edit, ...] = ()
    if found is not None:
        sentence += f", but the tensor has {found[0]} lanes x {found[1]} columns (layout {layout})"
        if found[1] < columns:
            repeat = max(1, found[1] // _SLICES.get(match["bits"], 1))
            repeat = 1 << (repeat.bit_length() - 1)
            name = f"SM100_TMEM_{match['what']}_{lanes}dp{match['bits']}b{repeat}x"
            fits = f"{name} or fewer repeats, or an accumulator of {columns} columns"
            edits = (("copy operation", f"cute::{name}"),)
        else:
            fits = "an operation of the accumulator's lanes (32dp for M = 128), or the MMA's own tensor"
    elif layout is not None:
        sentence += f", which is not in the tensor's layout {layout}"
    return BuildCause("tmem-copy", sentence, fits, "C", key=op.base, edits=edits)


def _tmem_layout(case: ErrorCase) -> CuteLayout | None:
    for name, keys in (("make_cotiled_copy", ("DataLayout",)), ("make_tmem_copy", ("TLayout",))):
        frame = case.frame(name)
        for key in keys:
            if frame is not None and key in frame.args:
                return layout_of(frame.args[key])
    for frame in case.frames:
        if frame.name == "copy" and {"SrcEngine", "SrcLayout"} <= frame.args.keys():
            for side in ("Src", "Dst"):
                if not {f"{side}Engine", f"{side}Layout"} <= frame.args.keys():
                    continue
                made = tensor_from(frame.args[f"{side}Engine"], frame.args[f"{side}Layout"])
                if made is not None and made.engine.space == "tmem":
                    return made.layout
    return None


DP_STRIDE = 1 << 16  # 32-bit cells: an address is lane << 16 | column (PTX ISA 9.7.16.1)


def _lanes_and_columns(layout: CuteLayout) -> tuple[int, int] | None:
    """Lanes and 32-bit columns of a tensor of 32-bit elements."""
    lanes = columns = 1
    stack = [(layout.shape, layout.stride)]
    while stack:
        shape, stride = stack.pop()
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            stack.extend(zip(shape, stride, strict=False))
            continue
        extent = size_of(shape)
        if extent is None or not isinstance(stride, int):
            return None
        if stride >= DP_STRIDE:
            lanes *= extent
        elif stride:
            columns *= extent
    return lanes, columns


def _wrong_space(case: ErrorCase) -> BuildCause:
    want = "tensor memory" if "TMEM" in case.text else "registers"
    tensor = None
    for frame in case.frames:
        for engine, layout in (("TEngine", "TLayout"), ("TS", "SLayout"), ("TD", "DLayout")):
            if {engine, layout} <= frame.args.keys() and tensor is None:
                made = tensor_from(frame.args[engine], frame.args[layout])
                if made is not None and made.engine.space not in (
                    "tmem" if want == "tensor memory" else "rmem",
                    "",
                ):
                    tensor = made
    found = tensor.text() if tensor is not None else "elsewhere"
    edits: tuple[advice.Edit, ...] = ()
    if want == "tensor memory" and tensor is not None and tensor.layout.rank == 2:
        rows, columns = tensor.layout.size(0), tensor.layout.size(1)
        if rows and columns:
            edits = (("C", advice.accumulator_code(rows, columns)),)
    return BuildCause(
        "space",
        f"the tensor is {found}, but this operation needs a tensor in {want}",
        f"a tensor in {want}" + (", such as partition_fragment_C gives" if want == "tensor memory" else ""),
        edits=edits,
    )
