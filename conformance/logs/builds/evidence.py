"""What an error's instantiation trail tells about an MMA: its form, and each operand as the code has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tileproof.conformance.logs.builds.cpptypes import Type
from tileproof.conformance.logs.builds.cute import (
    CuteLayout,
    CuteTensor,
    MmaOp,
    contiguous,
    int_tuple,
    is_static,
    major_of,
    mma_of,
    size_of,
    swizzle_words,
    tensor_from,
    tensor_of,
    text_of,
)
from tileproof.conformance.logs.builds.frames import Frame
from tileproof.conformance.logs.builds.messages import Diagnostic
from tileproof.spec.machine.contracts import MmaForm, OperandView, algebra
from tileproof.spec.machine.contracts.algebra import pycute
from tileproof.spec.machine.contracts.form import BITS as CONTRACT_TYPES
from tileproof.spec.machine.contracts.view import MODES
from tileproof.spec.machine.errors import TileproofError

Role = Literal["A", "B", "C"]
ROLES: tuple[Role, ...] = ("A", "B", "C")
STEP_UNITS = 2  # one instruction's K of a row: 32 bytes, in units of 16

_KINDS = {"F16BF16": ("f16", "bf16"), "TF32": ("tf32", "tf32")}
_FILLERS = re.compile(r"tensor|fragment|frag|engine|layout|smem|tmem|type|view|type", re.IGNORECASE)
_FRAGMENT = re.compile(r"(?:partition_fragment|make_fragment|partition|partition_shape)_(?P<role>[ABC])$")


@dataclass(frozen=True)
class OperandSeen:
    """One operand. `tensor`: as the code has it. `view`: what the MMA's contract sees, when all is known.

    `tile`: the tensor is the whole ``[MN, K]`` tile; otherwise it is cut for the MMA, ``((MN, K), MNs, Ks)``.
    """

    role: Role
    tensor: CuteTensor | None
    view: OperandView | None
    tile: bool

    def text(self) -> str:
        """Extents, type, memory, major and swizzle in words."""
        tensor, view = self.tensor, self.view
        if tensor is None:
            return view.text if view else "not readable"
        if view is None or tensor.engine.space == "descriptor":
            return tensor.text() + f" (layout {tensor.layout})"
        words = f"[{view.mn}, {view.k}]"
        space = tensor.engine.space
        words += f" {tensor.engine.dtype}" if tensor.engine.dtype else ""
        if space in ("smem", "gmem") and view.major is not None:
            words += f", {view.major}-major" if view.major != "neither" else ", contiguous along neither mode"
        if space == "smem":
            words += f", {swizzle_words(tensor.engine.swizzle)}"
        where = {
            "smem": "shared memory",
            "gmem": "global memory",
            "rmem": "registers",
            "tmem": "tensor memory",
        }
        return f"{words}, in {where[space]}" if space in where else words


@dataclass
class Evidence:
    """What was found; `part`: the tensor that a matrix descriptor was to be made of, `part_role`: whose."""

    mma: MmaOp | None = None
    form: MmaForm | None = None
    atom: str = ""
    operands: dict[Role, OperandSeen] = field(default_factory=dict)
    part: CuteTensor | None = None
    part_role: Role | None = None
    part_major: Literal["K", "MN"] | None = None


def gather(diagnostic: Diagnostic, sources: list[str]) -> Evidence:
    """The MMA and operands of a diagnostic. `sources`: the user's source lines along its trail."""
    found = Evidence()
    found.mma, found.atom = _mma(diagnostic)
    found.form = form_of(found.mma)
    for role in ROLES:
        best = _best(diagnostic.frames, role, found)
        if best is not None:
            found.operands[role] = best
    _add_accumulator(diagnostic.frames, found)
    _add_part(diagnostic.frames, found, [*diagnostic.echo, *sources])
    return found


def _mma(diagnostic: Diagnostic) -> tuple[MmaOp | None, str]:
    atom = ""
    for frame in diagnostic.frames:
        if frame.name.startswith("SM1") and "_MMA_" in frame.name:
            name = f"{frame.owner}::{frame.name}" if frame.owner else frame.name
            made = mma_of(Type(name, tuple(frame.args.values())))
            if made is not None:
                return made, made.text()
        for value in frame.args.values():
            for one in value.walk():
                if "MMA" not in one.base and not one.base.startswith("SM"):
                    continue
                made = mma_of(one)
                if made is not None:
                    return made, made.text()
                if one.base == "MMA_Atom" and one.args and not atom and not one.cut:
                    atom = str(one.args[0])
    return None, atom


def form_of(mma: MmaOp | None) -> MmaForm | None:
    """The contract's form of a tcgen05.mma; None for other generations, kinds or parts that are not known."""
    if mma is None or mma.generation < 100 or mma.m is None or mma.n is None:
        return None
    kind = next((kind for word, kind in _KINDS.items() if f"_{word}_" in f"{mma.name}_"), None)
    if kind is None:
        return None
    types = [name if name in CONTRACT_TYPES else kind[1] for name in mma.types[:2]]
    accumulator = mma.types[2] if mma.types[2] in CONTRACT_TYPES else "f32"
    try:
        return MmaForm(
            mma.m,
            mma.n,
            kind=kind[0],
            cta_group=2 if mma.pair else 1,
            ws=mma.ws,
            a_space="tmem" if mma.a_space == "tmem" else "smem",
            a_major=mma.a_major or "K",
            b_major=mma.b_major or "K",
            a_type=types[0],
            b_type=types[1],
            c_type=accumulator,
        )
    except TileproofError:
        return None


def role_of(name: str) -> Role | None:
    """A, B or C by the name of a template parameter: TensorA, sA, ATensor, TensorFragC, Acc."""
    rest = _FILLERS.sub("", name).strip("_")
    if re.fullmatch(r"t?acc(?:um|umulator)?s?", rest, re.IGNORECASE):
        return "C"
    match = re.fullmatch(r"[stgr]?_?(A|B|C|D)", rest) or re.fullmatch(r"(a|b|c|d)", rest)
    if match is None:
        return None
    letter = match[1].upper()
    return "C" if letter == "D" else letter  # type: ignore[return-value]


def _best(frames: list[Frame], role: Role, found: Evidence) -> OperandSeen | None:
    """The operand from the frame that shows most of it: the outermost of the best kind."""
    ranked: list[tuple[int, OperandSeen]] = []
    for frame in frames:
        cut = _FRAGMENT.search(frame.name)
        if cut and cut["role"] == role:
            for value in frame.args.values():
                if (tensor := tensor_of(value)) is not None:
                    whole = frame.name.startswith("partition")
                    ranked.append((0 if whole else 2, _operand(role, tensor, found)))
            continue
        if not cut:
            ranked += _of_bindings(frame, role, found)
    ranked = [one for one in ranked if one[1].tensor is not None]
    if not ranked:
        return None
    best = min(rank for rank, _ in ranked)
    return [operand for rank, operand in ranked if rank == best][-1]


def _of_bindings(frame: Frame, role: Role, found: Evidence) -> list[tuple[int, OperandSeen]]:
    args = frame.args
    if {f"T{role}", f"{role}Layout"} <= args.keys():  # cute::gemm and MMA_Atom::call
        tensor = tensor_from(args[f"T{role}"], args[f"{role}Layout"])
        return (
            []
            if tensor is None
            else [(4 if tensor.engine.space == "descriptor" else 3, _operand(role, tensor, found))]
        )
    tensors = {name: tensor for name, value in args.items() if (tensor := tensor_of(value)) is not None}
    named = [tensor for name, tensor in tensors.items() if role_of(name) == role]
    if not named and len(tensors) == 3 and all(re.fullmatch(r"\w*[012]", name) for name in tensors):
        named = [list(tensors.values())["ABC".index(role)]]
    return [(4 if one.engine.space == "descriptor" else 1, _operand(role, one, found)) for one in named]


def _operand(role: Role, tensor: CuteTensor, found: Evidence) -> OperandSeen:
    tile = not _is_cut(role, tensor.layout, found)
    return OperandSeen(role, tensor, _view(role, tensor, tile, found), tile)


def _is_cut(role: Role, layout: CuteLayout, found: Evidence) -> bool:
    """Whether a layout is ((MN, K), MNs, Ks ...) rather than (MN, K ...)."""
    shape = layout.shape
    if not isinstance(shape, tuple) or len(shape) < 3:
        return False
    if not isinstance(shape[0], tuple) or len(shape[0]) != 2:
        return False
    if found.form is None or role == "C":
        return True
    rows = found.form.a_rows if role == "A" else found.form.b_rows
    return size_of(shape[0][0]) == rows and size_of(shape[0][1]) == found.form.instruction_k


def _view(role: Role, tensor: CuteTensor, tile: bool, found: Evidence) -> OperandView | None:
    engine, layout = tensor.engine, tensor.layout
    dtype = engine.dtype if engine.dtype in CONTRACT_TYPES else _default_type(role, found)
    try:
        if engine.space == "descriptor":
            return _of_descriptors(role, layout, found)
        if engine.space == "rmem" and found.form is None:
            return None  # one thread's part of it
        if engine.space in ("tmem", "rmem") or role == "C":
            return _of_shape(layout, tile, "rmem" if engine.space == "rmem" else "tmem", dtype)
        if engine.space not in ("smem", "gmem"):
            return None
        if not (is_static(layout.shape) and is_static(layout.stride)) or layout.rank < 2:
            return _unplaced(layout, tile, engine.space, dtype, engine.swizzle)
        return OperandView.from_cute(
            layout.shape,
            layout.stride,
            swizzle=engine.swizzle or (0, 4, 3),
            dtype=dtype,
            space=engine.space,
            partitioned=not tile,
        )
    except (
        TileproofError,
        algebra.Refused,
        ArithmeticError,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
    ):
        return None


def _default_type(role: Role, found: Evidence) -> str:
    if found.form is None:
        return "f32" if role == "C" else "bf16"
    return {"A": found.form.a_type, "B": found.form.b_type, "C": found.form.c_type}[role]


def _extents(layout: CuteLayout, tile: bool) -> tuple[int, int] | None:
    sizes = (
        [layout.size(0), layout.size(1)]
        if tile
        else [_product(layout.size(0, 0), layout.size(1)), _product(layout.size(0, 1), layout.size(2))]
    )
    first, second = sizes
    return None if first is None or second is None or first < 1 or second < 1 else (first, second)


def _product(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second


def _of_shape(
    layout: CuteLayout, tile: bool, space: Literal["rmem", "tmem"], dtype: str
) -> OperandView | None:
    extents = _extents(layout, tile) if layout.rank >= (2 if tile else 3) else None
    if extents is None:
        return None
    if space == "tmem":
        return OperandView.in_tmem(*extents, dtype=dtype)
    return OperandView(*extents, dtype=dtype, space="rmem")


def _unplaced(
    layout: CuteLayout,
    tile: bool,
    space: Literal["smem", "gmem"],
    dtype: str,
    swizzle: tuple[int, int, int] | None,
) -> OperandView | None:
    """A view of which only the extents, and the contiguous mode, are known."""
    extents = _extents(layout, tile)
    if extents is None:
        return None
    mode = contiguous(layout) if tile else None
    major: Literal["K", "MN"] | None = None if mode not in (0, 1) else ("MN", "K")[mode]  # type: ignore[assignment]
    return OperandView(
        *extents, dtype=dtype, space=space, major=major, swizzle=MODES.get(swizzle or (0, 0, 0))
    )


def _of_descriptors(role: Role, layout: CuteLayout, found: Evidence) -> OperandView | None:
    """Tiles of descriptors, (1, MNs, Ks): each stands for one instruction's part of the operand, unless their
    strides tell how many rows lie in the buffer.
    """
    if found.form is None or role == "C" or layout.rank < 2:
        return None
    rows = found.form.a_rows if role == "A" else found.form.b_rows
    tiles, depth = layout.size(1), layout.size(2) if layout.rank > 2 else 1
    if not tiles or not depth:
        return None
    held = _rows_held(role, layout, found.form) if tiles == 1 else None
    if held is not None and held[0] != rows:
        k, dtype = found.form.instruction_k * depth, _default_type(role, found)
        return OperandView(held[0], k, dtype=dtype, major="K", swizzle=held[1])
    return OperandView(rows * tiles, found.form.instruction_k * depth, dtype=_default_type(role, found))


def _rows_held(role: Role, layout: CuteLayout, form: MmaForm) -> tuple[int, str] | None:
    """Rows and swizzle of a K-major buffer, from the steps of its descriptors along K.

    A row has as many steps of one instruction side by side as its swizzle spans; the next ones lie behind all
    rows of the buffer (canonical layouts, PTX ISA 9.7.16.3). Strides are in units of 16 bytes.
    """
    if (form.a_major if role == "A" else form.b_major) != "K" or layout.rank < 3:
        return None
    shape, stride = layout.shape[2], layout.stride[2]  # type: ignore[index]
    if not isinstance(shape, tuple) or not isinstance(stride, tuple) or not len(shape) == len(stride) == 2:
        return None
    steps, behind = shape[0], stride[1]
    if not all(isinstance(one, int) for one in (steps, behind, stride[0])) or stride[0] != STEP_UNITS:
        return None
    span = steps * STEP_UNITS * 16
    swizzle: dict[int, str] = {32: "32B", 64: "64B", 128: "128B"}
    if span not in swizzle or behind * 16 % (8 * span):
        return None
    return behind * 16 // span, swizzle[span]


def _add_accumulator(frames: list[Frame], found: Evidence) -> None:
    """The accumulator of partition_fragment_C(mma, shape), which names a shape and no tensor."""
    if "C" in found.operands or found.form is None:
        return
    for frame in frames:
        shape = frame.args.get("Shape_MN")
        if frame.name != "partition_fragment_C" or shape is None:
            continue
        extents = int_tuple(shape)
        if isinstance(extents, tuple) and len(extents) >= 2:
            rows, columns = size_of(extents[0]), size_of(extents[1])
            if rows is not None and columns is not None and rows > 0 and columns > 0:
                view = OperandView.in_tmem(
                    max(1, rows // found.form.cta_group), columns, dtype=found.form.c_type
                )
                found.operands["C"] = OperandSeen("C", None, view, True)


def _add_part(frames: list[Frame], found: Evidence, sources: list[str]) -> None:
    """The tensor of make_umma_desc or of a descriptor's fragment, and the operand that it belongs to."""
    for frame in frames:
        args = frame.args
        if "MajorMode" not in args or not {"TEngine", "TLayout"} <= args.keys():
            continue
        found.part = tensor_from(args["TEngine"], args["TLayout"])
        found.part_major = major_of(args["MajorMode"])
        break
    if found.part is None:
        return
    found.part_role = _role_of_part(frames, found, sources)
    role = found.part_role
    if role is not None and role not in found.operands and found.part is not None:
        found.operands[role] = _operand(role, found.part, found)


def _role_of_part(frames: list[Frame], found: Evidence, sources: list[str]) -> Role | None:
    for frame in frames:
        if match := _FRAGMENT.search(frame.name):
            return match["role"]  # type: ignore[return-value]
    for line in sources:
        named = set(re.findall(r"fragment_([AB])\b", line))
        if len(named) == 1:
            return named.pop()
    fitting = [role for role in ("A", "B") if _part_of(role, found)]
    if len(fitting) != 1 and found.form is not None and found.part is not None:
        form, rows = found.form, found.part.layout.size(0)
        wanted = {"A": (form.a_major, form.a_rows), "B": (form.b_major, form.b_rows)}
        among = fitting or ["A", "B"]
        fitting = [role for role in among if wanted[role] == (found.part_major, rows)]
        if form.a_space == "tmem":
            fitting = ["B"]
    return fitting[0] if len(fitting) == 1 else None  # type: ignore[return-value]


def _part_of(role: str, found: Evidence) -> bool:
    """Whether the descriptor's tensor is what the MMA cuts out of this operand's tile."""
    operand = found.operands.get(role)  # type: ignore[call-overload]
    part = found.part
    if operand is None or operand.view is None or found.form is None or part is None:
        return False
    view: OperandView = operand.view
    if view.layout is None or operand.tensor.engine != part.engine:
        return False
    if not (is_static(part.layout.shape) and is_static(part.layout.stride)):
        return False
    rows = found.form.m if role == "A" else found.form.n
    try:
        cut, _, _ = algebra.partition(view.layout, rows, found.form.instruction_k, found.form.cta_group)
        made = pycute.Layout(part.layout.shape, part.layout.stride)
        one, other = pycute.coalesce(cut), pycute.coalesce(made)
        return bool(one.shape == other.shape and one.stride == other.stride)
    except (algebra.Refused, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return False


def shape_text(value: Type) -> str:
    """An integer tuple's type as CuTe prints it."""
    return text_of(int_tuple(value))
