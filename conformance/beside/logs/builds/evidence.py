"""An MMA as an error's instantiation trail shows it: its form, and each operand as the code has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tileproof.conformance.beside.logs.builds.cpptypes import Type
from tileproof.conformance.beside.logs.builds.cute import (
    CuteTensor,
    MmaOp,
    int_tuple,
    is_static,
    major_of,
    mma_of,
    size_of,
    tensor_from,
    tensor_of,
    text_of,
)
from tileproof.conformance.beside.logs.builds.frames import Frame
from tileproof.conformance.beside.logs.builds.messages import Diagnostic
from tileproof.conformance.beside.logs.builds.operand import ROLES, OperandSeen, Role, seen_operand
from tileproof.spec.machine.contracts import MmaForm, OperandView, algebra
from tileproof.spec.machine.contracts.algebra import pycute
from tileproof.spec.machine.contracts.form import BITS as CONTRACT_TYPES
from tileproof.spec.machine.errors import TileproofError

_KINDS = {"F16BF16": ("f16", "bf16"), "TF32": ("tf32", "tf32")}
_FILLERS = re.compile(r"tensor|fragment|frag|engine|layout|smem|tmem|type|view|type", re.IGNORECASE)
_FRAGMENT = re.compile(r"(?:partition_fragment|make_fragment|partition|partition_shape)_(?P<role>[ABC])$")


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
            for node in value.walk():
                if "MMA" not in node.base and not node.base.startswith("SM"):
                    continue
                made = mma_of(node)
                if made is not None:
                    return made, made.text()
                if node.base == "MMA_Atom" and node.args and not atom and not node.cut:
                    atom = str(node.args[0])
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
                    ranked.append((0 if whole else 2, seen_operand(role, tensor, found.form)))
            continue
        if not cut:
            ranked += _of_bindings(frame, role, found)
    ranked = [match for match in ranked if match[1].tensor is not None]
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
            else [(4 if tensor.engine.space == "descriptor" else 3, seen_operand(role, tensor, found.form))]
        )
    tensors = {name: tensor for name, value in args.items() if (tensor := tensor_of(value)) is not None}
    named = [tensor for name, tensor in tensors.items() if role_of(name) == role]
    if not named and len(tensors) == 3 and all(re.fullmatch(r"\w*[012]", name) for name in tensors):
        named = [list(tensors.values())["ABC".index(role)]]
    return [
        (4 if operand.engine.space == "descriptor" else 1, seen_operand(role, operand, found.form))
        for operand in named
    ]


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
        found.operands[role] = seen_operand(role, found.part, found.form)


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
        own, other = pycute.coalesce(cut), pycute.coalesce(made)
        return bool(own.shape == other.shape and own.stride == other.stride)
    except (algebra.Refused, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return False


def shape_text(value: Type) -> str:
    """An integer tuple's type as CuTe prints it."""
    return text_of(int_tuple(value))
