"""Causes of errors in copies: copy atoms, tensor-memory loads and stores, tensor maps, clusters, ranks."""

from __future__ import annotations

import re

from tileproof.conformance.logs.builds import advice
from tileproof.conformance.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.logs.builds.cpptypes import Type, parse
from tileproof.conformance.logs.builds.cute import (
    BITS,
    CuteLayout,
    dtype_of,
    int_tuple,
    layout_of,
    size_of,
    tensor_from,
    tensor_of,
    text_of,
    value_of,
)
from tileproof.conformance.logs.builds.frames import Frame

_TMEM_OP = re.compile(r"SM100_TMEM_(?P<what>LOAD|STORE)_(?P<lanes>\d+)dp(?P<bits>\d+)b(?P<repeat>\d+)x")
_LDSM = re.compile(r"SM\d+_U(?P<bits>\d+)x(?P<count>\d+)_(?:LDSM|STSM)")
# Columns, and registers of a thread, of one repeat of a tcgen05.ld shape (PTX ISA 9.7.16.8, table 49)
_SLICES = {"32": 1, "64": 2, "128": 4, "256": 8}
_REGISTERS = {"32": 1, "64": 1, "128": 2, "256": 4}


def _op(case: ErrorCase) -> Type | None:
    """The copy operation in the trail."""
    for frame in case.frames:
        for value in frame.args.values():
            for one in value.walk():
                if _TMEM_OP.search(one.base) or _LDSM.search(one.base) or one.base in _VECTOR_OPS:
                    return one
                if one.base.startswith(("SM90_TMA", "SM100_TMA", "SM80_CP_ASYNC", "SM90_BULK")):
                    return one
    return None


_VECTOR_OPS = frozenset({"UniversalCopy", "AutoVectorizingCopyWithAssumedAlignment", "DefaultCopy"})


def atom_bits(op: Type) -> int | None:
    """Bits that one call of a copy operation moves for one thread."""
    if match := _TMEM_OP.search(op.base):
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
                dtype = next((one.engine.dtype for one in made if one and one.engine.dtype), "")
                return dtype, made[0].layout if made[0] else None, made[1].layout if made[1] else None
    return "", None, None


def copy(case: ErrorCase) -> BuildCause | None:
    """A copy atom, or a tiled copy, that does not fit what it is given."""
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
        op = _op(case)
        return BuildCause(
            "bulk-size",
            f"{op.base if op else 'a bulk copy'} moves whole units of 16 bytes",
            "a size of 16 bytes",
        )
    return None


def _values(case: ErrorCase) -> BuildCause:
    op = _op(case)
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
        fits = f"an atom of {each} bits, or {bits // width} contiguous elements for each thread"
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
    op = _op(case)
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
    if policy is not None and (match := _TMEM_OP.search(name)):
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
    op = _op(case)
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
    op = _op(case)
    edits: tuple[advice.Edit, ...] = ()
    if op is not None and (match := _TMEM_OP.search(op.base)) and match["what"] == "LOAD":
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


def tensor_memory(case: ErrorCase) -> BuildCause | None:
    """A tensor-memory load or store over a tensor that is not laid out for it."""
    text = case.text
    if re.search(r"Expected TMEM (?:tensor|src|dst)|Expected RMEM (?:src|dst)", text):
        return _wrong_space(case)
    if not re.search(r"AtomTVLayout does not exist in the DataLayout|specific TMEM layout required", text):
        return None
    op, layout = _op(case), _tmem_layout(case)
    match = _TMEM_OP.search(op.base) if op is not None else None
    if match is None or op is None:
        return BuildCause(
            "tmem-copy",
            "the copy atom reaches elements that the tensor does not have",
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
        sentence += f", which the tensor's layout {layout} does not have"
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
        f"the tensor is {found}, but this operation takes one in {want}",
        f"a tensor in {want}" + (", such as partition_fragment_C gives" if want == "tensor memory" else ""),
        edits=edits,
    )


def tma(case: ErrorCase) -> BuildCause | None:
    """A tensor map whose tile and shared-memory layout do not go together."""
    text = case.text
    if "TMA requires CTA_Tile and SLayout" in text:
        return _box(case)
    if "common tile-gmem vectorization" in text:
        return BuildCause(
            "tma-major",
            f"no mode is contiguous in the tile, in shared and in global memory alike{_tma_words(case)}",
            "a tile that spans the contiguous mode of global memory, and shared memory contiguous along it",
        )
    if "Set .with() before use" in text:
        return BuildCause("traits", "the TMA copy was given no mbarrier", "copy(tma.with(barrier), ...)")
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
    if isinstance(extents, tuple) and all(isinstance(one, int) for one in extents):
        edits = (("cluster", advice.shape_code((-(-extents[0] // pair) * pair, *extents[1:]))),)
    return BuildCause(
        "cluster",
        f"the cluster is {shape}, but one MMA is issued for {pair} CTAs, which must be neighbours along M",
        f"a cluster whose first extent is a multiple of {pair}, or a 1-SM MMA",
        "MMA",
        edits=edits,
    )


def ranks(case: ErrorCase) -> BuildCause | None:
    """A function of CuTe that no operand of this rank fits."""
    if "no instance of overloaded function" not in case.text and "no matching function" not in case.text:
        return None
    if not re.search(r'"(?:\w+::)*(gemm|copy)"', case.text):
        return None
    operands = case.evidence.operands
    deep = [
        (role, one.tensor.layout)
        for role, one in operands.items()
        if one.tensor is not None and one.tensor.layout.rank > 3
    ]
    if deep:
        role, layout = deep[0]
        return BuildCause(
            "rank",
            f"{role} has {layout.rank} modes, {layout.extents()}, where an MMA takes three, (MMA, MNs, Ks): "
            "a mode is left over, such as pipeline stages",
            f"one stage of it: {role}(_, _, _, stage)",
            role,
            edits=((role, f"{role}({', '.join(['cute::_'] * 3 + ['0'] * (layout.rank - 3))})"),),
        )
    return None


def arguments(case: ErrorCase) -> list[str]:
    """The argument types of a failed overload, in words where they are tensors."""
    for note in case.diagnostic.notes:
        start = note.find("argument types are: (")
        if start >= 0:
            listed = parse("arguments<" + note[start + 21 :].rstrip(")") + ">").args
            return [made.text() if (made := tensor_of(one)) else _short(str(one)) for one in listed]
    return []


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
