"""One operand of an MMA as an error's instantiation trail shows it, and as the MMA's contract sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileproof.conformance.beside.logs.builds.cute import (
    CuteLayout,
    CuteTensor,
    contiguous,
    is_static,
    size_of,
    swizzle_words,
)
from tileproof.spec.machine.contracts import MmaForm, OperandView, algebra
from tileproof.spec.machine.contracts.form import BITS as CONTRACT_TYPES
from tileproof.spec.machine.contracts.view import MODES
from tileproof.spec.machine.errors import TileproofError

Role = Literal["A", "B", "C"]
ROLES: tuple[Role, ...] = ("A", "B", "C")
STEP_UNITS = 2  # one instruction's K of a row: 32 bytes, in units of 16


@dataclass(frozen=True)
class OperandSeen:
    """One operand. `tensor`: as the code has it. `view`: as in the MMA's contract, if completely known.

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


def seen_operand(role: Role, tensor: CuteTensor, form: MmaForm | None) -> OperandSeen:
    """The operand that a tensor is, for an MMA of this form (None: unknown)."""
    tile = not _is_cut(role, tensor.layout, form)
    return OperandSeen(role, tensor, _view(role, tensor, tile, form), tile)


def _is_cut(role: Role, layout: CuteLayout, form: MmaForm | None) -> bool:
    """Whether a layout is ((MN, K), MNs, Ks ...) rather than (MN, K ...)."""
    shape = layout.shape
    if not isinstance(shape, tuple) or len(shape) < 3:
        return False
    if not isinstance(shape[0], tuple) or len(shape[0]) != 2:
        return False
    if form is None or role == "C":
        return True
    rows = form.a_rows if role == "A" else form.b_rows
    return size_of(shape[0][0]) == rows and size_of(shape[0][1]) == form.instruction_k


def _view(role: Role, tensor: CuteTensor, tile: bool, form: MmaForm | None) -> OperandView | None:
    engine, layout = tensor.engine, tensor.layout
    dtype = engine.dtype if engine.dtype in CONTRACT_TYPES else _default_type(role, form)
    try:
        if engine.space == "descriptor":
            return _of_descriptors(role, layout, form)
        if engine.space == "rmem" and form is None:
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


def _default_type(role: Role, form: MmaForm | None) -> str:
    if form is None:
        return "f32" if role == "C" else "bf16"
    return {"A": form.a_type, "B": form.b_type, "C": form.c_type}[role]


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


def _of_descriptors(role: Role, layout: CuteLayout, form: MmaForm | None) -> OperandView | None:
    """Tiles of descriptors, (1, MNs, Ks): each is an instruction's part of the operand, unless their
    strides show how many rows lie in the buffer.
    """
    if form is None or role == "C" or layout.rank < 2:
        return None
    rows = form.a_rows if role == "A" else form.b_rows
    tiles, depth = layout.size(1), layout.size(2) if layout.rank > 2 else 1
    if not tiles or not depth:
        return None
    held = _rows_held(role, layout, form) if tiles == 1 else None
    if held is not None and held[0] != rows:
        k, dtype = form.instruction_k * depth, _default_type(role, form)
        return OperandView(held[0], k, dtype=dtype, major="K", swizzle=held[1])
    return OperandView(rows * tiles, form.instruction_k * depth, dtype=_default_type(role, form))


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
    if not all(isinstance(extent, int) for extent in (steps, behind, stride[0])) or stride[0] != STEP_UNITS:
        return None
    span = steps * STEP_UNITS * 16
    swizzle: dict[int, str] = {32: "32B", 64: "64B", 128: "128B"}
    if span not in swizzle or behind * 16 % (8 * span):
        return None
    return behind * 16 // span, swizzle[span]
