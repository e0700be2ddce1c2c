"""The meaning of CuTe's types: integer tuples, layouts, swizzles, tensors and their memory, MMA operations.

Reads the spellings of CUTLASS 3 and 4 (`cute/layout.hpp`, `cute/swizzle.hpp`, `cute/pointer*.hpp`,
`cute/tensor_impl.hpp`, `cute/arch/mma_sm100_umma.hpp`). What is not known reads as None, never as a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from tileproof.conformance.beside.logs.builds.cpptypes import Type
from tileproof.spec.machine.contracts.view import MODES

Space = Literal["smem", "gmem", "rmem", "tmem", "descriptor", "coordinates", ""]
IntTuple = Any  # int, None (only known at run time, or not readable), Basis, or a tuple of these

_TUPLES = frozenset({"tuple", "Shape", "Stride", "Coord", "Tile", "Step", "ArithmeticTuple"})
_CONSTANTS = frozenset({"C", "Int", "constant", "integral_constant"})
_ELEMENTS = {
    "bf16": "bf16", "bfloat16_t": "bf16", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "BFloat16": "bf16",
    "half_t": "f16", "half": "f16", "__half": "f16", "Half": "f16", "fp16": "f16",
    "float": "f32", "tfloat32_t": "tf32", "double": "f64",
    "float_e4m3_t": "e4m3", "float_e5m2_t": "e5m2", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int8_t": "s8", "uint8_t": "u8", "int": "s32", "int32_t": "s32", "unsigned": "u32", "uint32_t": "u32",
    "uint16_t": "u16", "uint64_t": "u64", "uint128_t": "u128", "signed char": "s8", "unsigned char": "u8",
}  # fmt: skip
BITS = {
    "bf16": 16, "f16": 16, "f32": 32, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
    "s32": 32,
    "u32": 32, "u16": 16, "u64": 64, "u128": 128,
}  # fmt: skip
_SPACES: dict[str, Space] = {"smem_ptr": "smem", "gmem_ptr": "gmem", "rmem_ptr": "rmem", "tmem_ptr": "tmem"}


@dataclass(frozen=True)
class Basis:
    """A stride along a coordinate: `step` times the unit vector of `mode`."""

    step: IntTuple
    mode: tuple[int, ...]

    def __str__(self) -> str:
        return f"{text_of(self.step)}@{'@'.join(map(str, self.mode))}"


def value_of(cpp: Type) -> int | None:
    """The integer that a value or a constant's type spells: `64UL`, `_64`, `C<64>`, `constant<int, 64>`."""
    name = cpp.name.removeprefix("-")
    if name[:1].isdigit():
        digits = re.match(r"(0x[0-9a-fA-F]+|\d+)[uUlLzZ]*$", name)
        value = None if digits is None or len(name) > 20 else int(digits[1], 0 if "x" in digits[1] else 10)
        return value if value is None or name == cpp.name else -value
    if cpp.name in ("true", "false"):
        return int(cpp.name == "true")
    if re.fullmatch(r"_\d{1,9}", cpp.base) and not cpp.args:
        return int(cpp.base[1:])
    if cpp.base in _CONSTANTS and cpp.args and not cpp.cut:
        return value_of(cpp.args[-1])
    return None


def int_tuple(cpp: Type) -> IntTuple:
    """The integer tuple that a type spells; unknown or run-time parts are None."""
    value = value_of(cpp)
    if value is not None:
        return value
    if cpp.base in _TUPLES or cpp.name == "":
        return tuple(map(int_tuple, cpp.args)) if not cpp.cut else None
    if cpp.base == "ScaledBasis" and cpp.args:
        return Basis(int_tuple(cpp.args[0]), tuple(value_of(mode) or 0 for mode in cpp.args[1:]))
    return None


def text_of(value: IntTuple) -> str:
    """An integer tuple as CuTe prints it, `?` for what is not known."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(text_of, value)) + ")"
    return "?" if value is None else str(value)


def size_of(value: IntTuple) -> int | None:
    """The product of all extents; None if an extent is unknown."""
    leaves = list(_leaves(value))
    return prod(leaves) if all(isinstance(leaf, int) for leaf in leaves) else None


def _leaves(value: IntTuple) -> list[IntTuple]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, tuple) else [value]


def is_static(value: IntTuple) -> bool:
    """Whether every part is a known integer."""
    return all(isinstance(leaf, int) for leaf in _leaves(value))


@dataclass(frozen=True)
class CuteLayout:
    """Shape and stride, in elements."""

    shape: IntTuple
    stride: IntTuple

    def __str__(self) -> str:
        return f"{text_of(self.shape)}:{text_of(self.stride)}"

    @property
    def rank(self) -> int:
        """Modes of the shape."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    def size(self, *path: int) -> int | None:
        """size<path...>, None when it is not known."""
        shape = self.shape
        for index in path:
            if isinstance(shape, tuple):
                if index >= len(shape):
                    return None
                shape = shape[index]
            elif index:
                return None
        return size_of(shape)

    def extents(self) -> str:
        """The size of each mode: `[128, 64]`."""
        modes = self.shape if isinstance(self.shape, tuple) else (self.shape,)
        return "[" + ", ".join("?" if (size := size_of(mode)) is None else str(size) for mode in modes) + "]"


Swizzle = tuple[int, int, int]


def swizzle_of(cpp: Type) -> Swizzle | None:
    """(B, M, S) of the first `Swizzle<B, M, S>` in a type."""
    for part in cpp.walk():
        if part.base == "Swizzle" and len(part.args) == 3:
            bits, base, shift = map(value_of, part.args)
            if bits is not None and base is not None and shift is not None:
                return bits, base, shift
    return None


def layout_of(cpp: Type) -> CuteLayout | None:
    """The layout that a `Layout`, a `ComposedLayout` (its inner one), or a `Tensor` spells."""
    if cpp.base == "Layout" and len(cpp.args) == 2:
        return CuteLayout(int_tuple(cpp.args[0]), int_tuple(cpp.args[1]))
    if cpp.base == "ComposedLayout" and len(cpp.args) == 3:
        return layout_of(cpp.args[2])
    if cpp.base == "Tensor" and len(cpp.args) >= 2:
        return layout_of(cpp.args[1])
    return None


def dtype_of(cpp: Type) -> str:
    """The element type in the PTX ISA's words, or the type's own name when it is an alias."""
    if cpp.base in ("subbyte_iterator", "recast_ptr") and cpp.args:
        return dtype_of(cpp.args[0])
    return _ELEMENTS.get(cpp.base, cpp.base)


@dataclass(frozen=True)
class Engine:
    """Where a tensor's elements are: memory, element type, swizzle of byte addresses ((0, 4, 3): none)."""

    space: Space
    dtype: str
    swizzle: Swizzle | None


def engine_of(cpp: Type) -> Engine:
    """The engine that `ViewEngine<...>`, `ArrayEngine<T, N>` or an iterator spells."""
    if cpp.base in ("ArrayEngine", "ArraySubbyte") and cpp.args:
        return Engine("rmem", dtype_of(cpp.args[0]), (0, 4, 3))
    inner = cpp.args[0] if cpp.base in ("ViewEngine", "ConstViewEngine") and cpp.args else cpp
    swizzle: Swizzle | None = (0, 4, 3)
    if inner.base == "swizzle_ptr" and len(inner.args) == 2:
        swizzle, inner = swizzle_of(inner.args[0]), inner.args[1]
    if inner.base in _SPACES:
        return Engine(_SPACES[inner.base], dtype_of(inner.args[0]) if inner.args else "", swizzle)
    if "DescriptorIterator" in inner.name:
        return Engine("descriptor", "", None)
    if inner.base in ("ArithmeticTupleIterator", "counting_iterator"):
        return Engine("coordinates", "", None)
    if "*" in inner.tail:
        return Engine("rmem", dtype_of(inner), (0, 4, 3))
    return Engine("", "", None)


@dataclass(frozen=True)
class CuteTensor:
    """A tensor: engine and layout, and the swizzle of a composed layout where the engine has none."""

    engine: Engine
    layout: CuteLayout

    def text(self) -> str:
        """In words: `[64, 256] bf16 in shared memory, second mode contiguous, 128B swizzle`."""
        where = PLACES[self.engine.space]
        words = f"{self.layout.extents()}{' ' + self.engine.dtype if self.engine.dtype else ''}"
        words += f" in {where}" if where else ""
        if self.engine.space in ("smem", "gmem") and (mode := contiguous(self.layout)) is not None:
            words += f", contiguous along mode {mode}"
        if self.engine.space == "smem":
            words += f", {swizzle_words(self.engine.swizzle)}"
        return words


PLACES: dict[Space, str] = {
    "smem": "shared memory", "gmem": "global memory", "rmem": "registers", "tmem": "tensor memory",
    "descriptor": "matrix descriptors", "coordinates": "coordinates", "": "",
}  # fmt: skip


def tensor_of(cpp: Type) -> CuteTensor | None:
    """The tensor that `Tensor<Engine, Layout>` spells."""
    if cpp.base != "Tensor" or len(cpp.args) < 2:
        return None
    return tensor_from(cpp.args[0], cpp.args[1])


def tensor_from(engine: Type, layout: Type) -> CuteTensor | None:
    """The tensor of an engine's and a layout's types, as functions name them apart."""
    found = layout_of(layout)
    if found is None:
        return None
    made = engine_of(engine)
    if layout.base == "ComposedLayout" and made.swizzle == (0, 4, 3):
        # A swizzle of the layout counts elements, not bytes.
        bits, swizzle = BITS.get(made.dtype), swizzle_of(layout)
        if swizzle is not None and bits is not None and bits >= 8:
            shift = (bits // 8).bit_length() - 1
            made = Engine(made.space, made.dtype, (swizzle[0], swizzle[1] + shift, swizzle[2]))
        else:
            made = Engine(made.space, made.dtype, None)
    return CuteTensor(made, found)


def contiguous(layout: CuteLayout) -> int | None:
    """The top-level mode in which neighbouring elements lie side by side."""
    shapes = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    strides = layout.stride if isinstance(layout.stride, tuple) else (layout.stride,)
    for index, (shape, stride) in enumerate(zip(shapes, strides, strict=False)):
        leaves = list(zip(_leaves(shape), _leaves(stride), strict=False))
        if any(step == 1 and extent != 1 for extent, step in leaves):
            return index
    return None


def swizzle_words(swizzle: Swizzle | None) -> str:
    """The swizzle of byte addresses in words."""
    if swizzle is None:
        return "swizzle not readable"
    if swizzle[0] == 0:
        return "no swizzle"
    mode = MODES.get(swizzle)
    return f"Swizzle<{','.join(map(str, swizzle))}>" if mode is None else f"{mode} swizzle"


@dataclass(frozen=True)
class MmaOp:
    """An MMA operation by its type's name and arguments; unknown fields are None or "".

    generation: 100 (tcgen05), 90 (wgmma) or less. m, n, k: the instruction's shape, of both CTAs of a pair.
    type: the C++ type itself, of a tcgen05.mma.
    """

    name: str
    generation: int
    m: int | None
    n: int | None
    k: int | None
    pair: bool = False
    ws: bool = False
    a_space: Literal["smem", "tmem", "rmem"] = "smem"
    a_major: Literal["K", "MN"] | None = None
    b_major: Literal["K", "MN"] | None = None
    types: tuple[str, str, str] = ("", "", "")
    type: Type | None = None

    @property
    def instruction(self) -> str:
        """What it compiles to."""
        if self.generation >= 100:
            return f"tcgen05.mma{'.ws' if self.ws else ''}.cta_group::{2 if self.pair else 1}"
        return "wgmma.mma_async" if self.generation == 90 else "mma.sync"

    def text(self) -> str:
        """In words."""
        shape = " x ".join("?" if extent is None else str(extent) for extent in (self.m, self.n, self.k))
        majors = [
            f"{who} {major}-major" for who, major in (("A", self.a_major), ("B", self.b_major)) if major
        ]
        place = {"smem": "shared memory", "tmem": "tensor memory", "rmem": "registers"}[self.a_space]
        parts = [f"{self.name} ({self.instruction}): M x N x K = {shape}", f"A from {place}", *majors]
        return ", ".join(parts)


_SM100_OP = re.compile(r"SM1\d\d_MMA_(?P<kind>[A-Z0-9]+)(?P<rest>(?:_\w+)?)$")
_SM90_OP = re.compile(r"MMA_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<types>\w+?)_(?P<ab>SS|RS)(?:_T[NT])?\w*$")
_OLD_OP = re.compile(r"SM(?P<sm>\d\d)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<types>\w+)$")


def mma_of(cpp: Type) -> MmaOp | None:
    """The MMA operation that this type itself is, or None."""
    if (match := _SM100_OP.match(cpp.base)) and len(cpp.args) >= 5:
        return _sm100(cpp, match)
    if match := _SM90_OP.match(cpp.base):
        majors = [major for arg in cpp.args if (major := major_of(arg))]
        m, n, k = (int(match[name]) for name in "mnk")
        return MmaOp(
            cpp.base, 90, m, n, k,
            a_space="smem" if match["ab"] == "SS" else "rmem",
            a_major=majors[0] if majors else None,
            b_major=majors[1] if len(majors) > 1 else None,
        )  # fmt: skip
    if match := _OLD_OP.match(cpp.base):
        return MmaOp(
            cpp.base, int(match["sm"]), int(match["m"]), int(match["n"]), int(match["k"]), a_space="rmem"
        )
    return None


def _sm100(cpp: Type, match: re.Match[str]) -> MmaOp:
    words = match["rest"].split("_")
    numbers = [value for arg in cpp.args if "::" not in arg.cast and (value := value_of(arg)) is not None]
    majors = [major for arg in cpp.args if (major := major_of(arg)) is not None]
    names = [dtype_of(arg) for arg in cpp.args[:3]]
    width = {"F16BF16": 16, "TF32": 8, "S8": 32, "F8F6F4": 32, "MXF8F6F4": 32}.get(match["kind"])
    return MmaOp(
        cpp.base, 100,
        numbers[0] if numbers else None,
        numbers[1] if len(numbers) > 1 else None,
        width,
        pair="2x1SM" in words,
        ws="WS" in words,
        a_space="tmem" if "TS" in words else "smem",
        a_major=majors[0] if majors else None,
        b_major=majors[1] if len(majors) > 1 else None,
        types=(names[0], names[1], names[2]),
        type=cpp,
    )  # fmt: skip


def major_of(cpp: Type) -> Literal["K", "MN"] | None:
    """`Major::K` or `Major::MN`, as an enumerator or as a number cast to it (`mma_sm100_desc.hpp`)."""
    if "Major" in cpp.cast:
        return {"0": "K", "1": "MN"}.get(cpp.name)  # type: ignore[return-value]
    return {"K": "K", "MN": "MN"}.get(cpp.base) if "Major" in cpp.name else None  # type: ignore[return-value]
