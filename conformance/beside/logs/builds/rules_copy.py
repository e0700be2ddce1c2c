"""Causes of errors in copies: copy atoms, their values and both sides of a copy."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.builds import advice
from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.cpptypes import Type
from tileproof.conformance.beside.logs.builds.cute import (
    BITS,
    CuteLayout,
    dtype_of,
    layout_of,
    tensor_from,
    value_of,
)

TMEM_OP = re.compile(r"SM100_TMEM_(?P<what>LOAD|STORE)_(?P<lanes>\d+)dp(?P<bits>\d+)b(?P<repeat>\d+)x")
_LDSM = re.compile(r"SM\d+_U(?P<bits>\d+)x(?P<count>\d+)_(?:LDSM|STSM)")
# Registers of a thread of one repeat of a tcgen05.ld shape (PTX ISA 9.7.16.8, table 49).
_REGISTERS = {"32": 1, "64": 1, "128": 2, "256": 4}


def copy_operation(case: ErrorCase) -> Type | None:
    """The copy operation in the trail."""
    for frame in case.frames:
        for value in frame.args.values():
            for node in value.walk():
                if TMEM_OP.search(node.base) or _LDSM.search(node.base) or node.base in _VECTOR_OPS:
                    return node
                if node.base.startswith(("SM90_TMA", "SM100_TMA", "SM80_CP_ASYNC", "SM90_BULK")):
                    return node
    return None


_VECTOR_OPS = frozenset({"UniversalCopy", "AutoVectorizingCopyWithAssumedAlignment", "DefaultCopy"})


def atom_bits(op: Type) -> int | None:
    """Bits that one call of a copy operation moves for one thread."""
    if match := TMEM_OP.search(op.base):
        return 32 * _REGISTERS.get(match["bits"], 1) * int(match["repeat"])
    if match := _LDSM.search(op.base):
        return int(match["bits"]) * int(match["count"])
    if op.base == "AutoVectorizingCopyWithAssumedAlignment" and op.args:
        return value_of(op.args[0])
    if op.args and (op.base == "UniversalCopy" or op.base.startswith("SM80_CP_ASYNC")):
        return BITS.get(dtype_of(op.args[0]))
    return None


def _sides(case: ErrorCase) -> tuple[str, CuteLayout | None, CuteLayout | None]:
    """Element type and the layouts of source and destination of the innermost copy."""
    for frame in case.frames:
        for source, target in (("SEngine", "DEngine"), ("SrcEngine", "DstEngine"), ("TS", "TD")):
            if {source, target} <= frame.args.keys():
                layouts = [frame.args.get(name.replace("Engine", "Layout")) for name in (source, target)]
                if source == "TS":
                    layouts = [frame.args.get("SLayout"), frame.args.get("DLayout")]
                made = [
                    tensor_from(frame.args[name], layout) if layout is not None else None
                    for name, layout in zip((source, target), layouts, strict=True)
                ]
                dtype = next((tensor.engine.dtype for tensor in made if tensor and tensor.engine.dtype), "")
                return dtype, made[0].layout if made[0] else None, made[1].layout if made[1] else None
    return "", None, None


def copy(case: ErrorCase) -> BuildCause | None:
    """A copy atom or tiled copy that does not fit its operands."""
    text = case.text
    if re.search(r"Src/Dst partitioning does not match|doesn't vectorize into registers", text):
        return _values(case)
    if match := re.search(r"TiledCopy uses too few (thrs|vals)", text):
        return _tiled(case, match[1])
    if "Unrecognized CopyPolicy" in text:
        return _policy(case)
    if re.search(r"size<1>\(src_\w+\) ?== ?size<1>\(dst_\w+\)|shape<0>\((?:src|dst)_c\)", text):
        return _partitions(case)
    if re.search(r"CopyOperation is not valid for|CopyAtom with the same type-width", text):
        return _width(case)
    if "rank-mismatch" in text or "Expected rank-1" in text:
        return _rank(case)
    if "subbit write" in text or "copy vector size align to 16B" in text:
        op = copy_operation(case)
        return BuildCause(
            "bulk-size",
            f"{op.base if op else 'a bulk copy'} moves whole units of 16 bytes",
            "a size of 16 bytes",
        )
    return None


def _values(case: ErrorCase) -> BuildCause:
    op = copy_operation(case)
    dtype, source, target = _sides(case)
    bits, width = atom_bits(op) if op is not None else None, BITS.get(dtype)
    have = [
        f"{who} {layout.extents()}" for who, layout in (("source", source), ("destination", target)) if layout
    ]
    name = str(op) if op is not None else "the copy atom"
    moves = f" moves {bits} bits" if bits else " has a fixed size"
    if bits and width:
        moves += f", {bits // width} elements of {dtype},"
    sizes = {size for layout in (source, target) if layout and (size := layout.size()) is not None}
    fits = "a partition of as many contiguous elements as the atom moves"
    edits: tuple[advice.Edit, ...] = ()
    if len(sizes) == 1 and width and bits and next(iter(sizes)) * width < bits:
        each = next(iter(sizes)) * width
        fits = f"an atom of {each} bits, or {bits // width} contiguous elements per thread"
        edits = _universal(op, each)
    what = f"{name}{moves} at once, but is given {' and '.join(have) or 'something else'}"
    return BuildCause("copy-values", what, fits, edits=edits)


def _universal(op: Type | None, bits: int) -> tuple[advice.Edit, ...]:
    """A UniversalCopy of so many bits in place of another."""
    if op is None or op.base != "UniversalCopy" or bits not in (8, 16, 32, 64, 128):
        return ()
    return (("copy operation", f"cute::UniversalCopy<cute::uint_bit_t<{bits}>>"),)


def _tiled(case: ErrorCase, what: str) -> BuildCause:
    frame = case.frame("TiledCopy")
    op = copy_operation(case)
    atom = frame.args.get("Copy_Atom") if frame else None
    dtype = dtype_of(atom.args[-1]) if atom is not None and atom.args else ""
    layout = layout_of(frame.args["LayoutCopy_TV"]) if frame and "LayoutCopy_TV" in frame.args else None
    bits, width = atom_bits(op) if op is not None else None, BITS.get(dtype)
    threads, values = (layout.size(0), layout.size(1)) if layout else (None, None)
    name = str(op) if op is not None else "the copy atom"
    if what == "vals" and bits and width and values is not None:
        need = bits // width
        return BuildCause(
            "copy-values",
            f"{name} moves {need} values of {dtype} for each thread, but the value layout gives each thread "
            f"{values}",
            f"a value layout of a multiple of {need}, or an atom of {values * width} bits",
            edits=_universal(op, values * width),
        )
    kind = {"thrs": "threads", "vals": "values"}[what]
    have = threads if what == "thrs" else values
    return BuildCause(
        "copy-values", f"{name} needs more {kind} than the {have} that the tiled copy has", f"more {kind}"
    )


def _partitions(case: ErrorCase) -> BuildCause:
    _, source, target = _sides(case)
    what = "source and destination of the copy are partitioned differently"
    if source is not None and target is not None:
        what += f": source {source.extents()}, destination {target.extents()} (layouts {source} and {target})"
    return BuildCause("copy-values", what, "both sides partitioned, or retiled, by the same tiled copy")


def _policy(case: ErrorCase) -> BuildCause:
    policy = next((frame.args["CopyPolicy"] for frame in case.frames if "CopyPolicy" in frame.args), None)
    name = policy.base if policy is not None else "the first argument"
    fits = f"Copy_Atom<{name}, T>, or a tiled copy made of it"
    edits: tuple[advice.Edit, ...] = ()
    if policy is not None and (match := TMEM_OP.search(name)):
        fits = f"a tiled copy, make_tmem_copy({name}{{}}, C), and each thread's part of both sides"
        edits = _tmem_copy(str(policy), match["what"], _sides(case)[0] or "float")
    return BuildCause("no-overload", f"copy takes no {name} as its policy", fits, edits=edits)


_CPP = {"f32": "float", "s32": "int", "u32": "uint32_t"}


def _tmem_copy(op: str, what: str, dtype: str) -> tuple[advice.Edit, ...]:
    """A tensor-memory copy of the tensor C with both of its sides."""
    registers = advice.registers_code(_CPP.get(dtype, dtype))
    side = {"LOAD": "S", "STORE": "D"}[what]
    memory = f"copy.get_slice(threadIdx.x).partition_{side}(C)"
    sides = (("source", memory), ("destination", registers))
    if what == "STORE":
        sides = (("source", registers.replace("partition_D", "partition_S")), ("destination", memory))
    return ("copy", f"cute::make_tmem_copy({op}{{}}, C)"), *sides


def _width(case: ErrorCase) -> BuildCause:
    op = copy_operation(case)
    widths = {
        str(frame.args[name])
        for frame in case.frames
        for name in ("CopyT", "CopyInternalType")
        if name in frame.args
    }
    name = str(op) if op is not None else "the copy operation"
    return BuildCause(
        "copy-type",
        f"{name} cannot copy elements of {', '.join(sorted(widths)) or 'this type'}: their bits do not fit "
        "what it moves for each thread",
        "the element type of the tensor, or another operation",
    )


def _rank(case: ErrorCase) -> BuildCause:
    dtype, source, target = _sides(case)
    op = copy_operation(case)
    edits: tuple[advice.Edit, ...] = ()
    if op is not None and (match := TMEM_OP.search(op.base)) and match["what"] == "LOAD":
        edits = (("destination", advice.registers_code(_CPP.get(dtype, dtype))),)
    if source is None or target is None:
        return BuildCause("rank", "source and destination of the copy have different ranks", "equal ranks")
    return BuildCause(
        "rank",
        f"the copy's source has {source.rank} modes, {source.extents()}, its destination {target.rank}, "
        f"{target.extents()}",
        "a destination with the source's partition: make_tensor<T>(shape(thread.partition_D(...)))",
        edits=edits,
    )
