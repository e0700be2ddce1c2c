"""The operand combinations on which the layout contracts are compared with nvcc.

Each row is data: an MMA form, operands A and B, and the accumulator's extents as one CTA holds them. Which
rows there are is in `contract_families`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tileproof.conformance.beside.logs.builds.cute import IntTuple
from tileproof.spec.machine.contracts import Misfit, MmaForm, OperandView, algebra, check, check_load
from tileproof.spec.machine.contracts.view import MODES
from tileproof.spec.machine.types import Json, UncheckedObject


@dataclass(frozen=True)
class OperandForm:
    """How a test program makes an operand.

    tile: `extents` ``[mn, k]`` cut into `major`'s atoms of `swizzle`. raw: shape, stride and Swizzle<B,M,S>.
    cut: as tile, and cut for the MMA by tile_to_mma_shape. tmem: `extents` in tensor memory.
    transposed: the tile's modes are swapped afterwards.
    """

    how: str
    extents: tuple[int, int] | None = None
    major: str = "K"
    swizzle: str = "128B"
    dtype: str = "bf16"
    space: str = "smem"
    transposed: bool = False
    shape: IntTuple = None
    stride: IntTuple = None
    bits: tuple[int, int, int] | None = None

    def view(self, rows: int, k: int) -> OperandView:
        """The operand as the contracts see it; `rows` and `k` of one instruction, for what is cut for it."""
        if self.how == "raw":
            assert self.bits is not None
            return OperandView.from_cute(
                self.shape,
                self.stride,
                swizzle=self.bits,
                dtype=self.dtype,
                space=self.space,  # type: ignore[arg-type]
            )
        assert self.extents is not None
        if self.how == "tmem":
            return OperandView.in_tmem(*self.extents, dtype=self.dtype)
        view = OperandView.tile(*self.extents, self.major, self.swizzle, dtype=self.dtype)  # type: ignore[arg-type]
        if self.how == "cut" and view.layout is not None:
            return _cut(view, rows, k)
        return view.transposed() if self.transposed else view


@dataclass(frozen=True)
class OperandRow:
    """One combination: `family` says what it varies, `c` is ``[M, N]`` of the accumulator in one CTA."""

    family: str
    form: MmaForm
    a: OperandForm
    b: OperandForm
    c: tuple[int, int]

    def misfits(self) -> list[Misfit]:
        """What the contracts say of it."""
        c = OperandView.in_tmem(*self.c, dtype=self.form.c_type)
        return check(self.form, self.a_view(), self.b_view(), c)

    def a_view(self) -> OperandView:
        """Operand A as the contracts see it."""
        return self.a.view(self.form.a_rows, self.form.instruction_k)

    def b_view(self) -> OperandView:
        """Operand B as the contracts see it."""
        return self.b.view(self.form.b_rows, self.form.instruction_k)

    def as_dict(self) -> UncheckedObject:
        """The row as JSON data; what is as everywhere is left out."""
        return {
            "family": self.family,
            "form": _given(asdict(self.form), asdict(MmaForm(1, 1)), ("m", "n")),
            "a": _operand(self.a),
            "b": _operand(self.b),
            "c": list(self.c),
        }


@dataclass(frozen=True)
class LoadRow:
    """An accumulator of `form` read by four warps with ``tcgen05.ld.<shape>.x<repeat>``."""

    form: MmaForm
    shape: str
    repeat: int
    family: str = "load"

    def misfits(self) -> list[Misfit]:
        """What the contracts say of it."""
        return check_load(self.form, self.shape, self.repeat)

    def as_dict(self) -> UncheckedObject:
        """The row as JSON data."""
        form = _given(asdict(self.form), asdict(MmaForm(1, 1)), ("m", "n"))
        return {"family": self.family, "form": form, "shape": self.shape, "repeat": self.repeat}


def _cut(view: OperandView, rows: int, k: int) -> OperandView:
    """((rows, k), tiles, tiles) of a tile, as UMMA::tile_to_mma_shape gives it (mma_traits_sm100.hpp)."""
    assert view.layout is not None and view.swizzle is not None
    (mn_in, mn_out), (k_in, k_out) = (
        algebra.divide(mode, tile) for mode, tile in zip(algebra.modes(view.layout), (rows, k), strict=True)
    )
    return OperandView.from_cute(
        ((mn_in.shape, k_in.shape), mn_out.shape, k_out.shape),
        ((mn_in.stride, k_in.stride), mn_out.stride, k_out.stride),
        swizzle=next(bits for bits, mode in MODES.items() if mode == view.swizzle),
        dtype=view.dtype,
        partitioned=True,
    )


def _operand(operand: OperandForm) -> UncheckedObject:
    return _given(asdict(operand), asdict(OperandForm("tile")), ("how",))


def _given(values: UncheckedObject, usual: UncheckedObject, always: tuple[str, ...]) -> UncheckedObject:
    return {key: value for key, value in values.items() if key in always or value != usual[key]}


def row_of(data: UncheckedObject) -> OperandRow | LoadRow:
    """The row that `as_dict` wrote."""
    if data["family"] == "load":
        return LoadRow(MmaForm(**data["form"]), data["shape"], data["repeat"])
    a, b = (OperandForm(**{key: _tuples(value) for key, value in data[name].items()}) for name in "ab")
    return OperandRow(data["family"], MmaForm(**data["form"]), a, b, (data["c"][0], data["c"][1]))


def _tuples(value: Json) -> Json:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
