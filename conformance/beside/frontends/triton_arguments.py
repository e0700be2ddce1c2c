"""The parameters of a Triton kernel in the order of its PTX, from the arguments of the Python launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, SupportsInt, TypedDict

import numpy as np
from tileproof.conformance.beside.frontends.host_launch import HostArgument, MapArgument
from tileproof.conformance.beside.frontends.host_memory import LaunchMemory
from tileproof.emulator import TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from triton.tools.tensor_descriptor import TensorDescriptor, TensorDescriptorIm2Col

# An argument of a launch: a number, a tensor, a descriptor, or a tuple of these.
TritonValue = Any
TritonType = str | tuple["TritonType", ...]


class DescriptorMetadata(TypedDict):
    """The compiler's metadata of a host descriptor."""

    fp4_padded: bool
    elem_size: int
    elem_type: int
    swizzle: int
    block_size: list[int]
    is_im2col: NotRequired[bool]


class DriverMap(TypedDict):
    """Arguments of cuTensorMapEncodeTiled that do not depend on the box."""

    data_type: int
    address: int
    global_dim: list[int]
    global_strides: list[int]
    swizzle: int
    l2_promotion: int
    oob_fill: int


_INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (1, 8, 16, 32, 64)}
_FLOATS = {"fp16": "<f2", "fp32": "<f4", "f32": "<f4", "fp64": "<f8"}
# Triton's number of an element type, as the device's tensormap.replace has it, is CUtensorMapDataType but for
# these three.
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
_TF32 = 11


class TritonArguments:
    """Collects the parameters in `out`; `descriptors`: the compiler's metadata of each host descriptor."""

    def __init__(self, memory: LaunchMemory, kernel: str, descriptors: list[DescriptorMetadata]) -> None:
        self.memory, self.kernel = memory, kernel
        self._described, self._descriptors = bool(descriptors), iter(descriptors)
        self.out: list[HostArgument] = []
        self.names: list[str] = []

    def add(self, name: str, kind: TritonType, value: TritonValue) -> None:
        """Add an argument, and its name for each of its scalar parameters."""
        before = len(self.out)
        self._add(name, kind, value)
        single = len(self.out) == before + 1
        self.names += [name if single else ""] * (len(self.out) - len(self.names))

    def _add(self, name: str, kind: TritonType, value: TritonValue) -> None:
        """Add the parameters of an argument of the Triton type `kind` ("*fp16", "i32", "constexpr")."""
        if isinstance(kind, tuple):
            names = getattr(value, "_fields", range(len(kind)))
            for field, inner, element in zip(names, kind, value, strict=True):
                self.add(f"{name}.{field}", inner, element)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self._descriptor(name, value)
        elif kind.startswith("*"):
            # A number is taken as an address, as Triton's own launcher does.
            self.out.append(value if isinstance(value, int) else self.memory.pointer(value, name))
        elif kind in _FLOATS:
            self.out.append(np.dtype(_FLOATS[kind]).type(value))
        elif kind == "bf16":
            # Triton's launcher truncates to bf16, it does not round.
            bits = np.float32(value).view(np.uint32) >> np.uint32(16)
            self.out.append(np.uint16(int(bits)))
        elif kind in _INTEGERS:
            self.out.append(self._whole(name, kind, value))
        else:
            raise LaunchError(
                "an argument has an unsupported type",
                where=f"{self.kernel}, argument {name}",
                expected="a tensor, a descriptor, a number",
                found=str(kind),
            )

    def _whole(self, name: str, kind: str, value: SupportsInt) -> int:
        bits = _INTEGERS[kind]
        whole = int(value)
        if not -(1 << (bits - 1)) <= whole < 1 << bits:
            raise LaunchError(
                "a number does not fit its parameter",
                where=f"{self.kernel}, argument {name}",
                expected=kind,
                found=str(whole),
            )
        return whole

    def _descriptor(self, name: str, value: TensorDescriptor) -> None:
        """A host descriptor: the tensor map, its shape and strides; without TMA its fields."""
        shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
        at = self.memory.pointer(value.base, name)
        if not self._described:
            flags = [int(value.padding == "nan"), int(value.round_f32_to_tf32)]
            self.out += [at, *shape, *strides, *flags, *shape, *strides]
            return
        fields = next(self._descriptors)
        extents = list(shape)
        if fields["fp4_padded"]:
            extents[-1] *= 2
        size = fields["elem_size"]
        kind = fields["elem_type"]
        common: DriverMap = {
            "data_type": _TF32 if value.round_f32_to_tf32 else _ELEMENT_TYPES.get(kind, kind),
            "address": self.memory.address(at),
            "global_dim": extents[::-1],
            "global_strides": [n * size for n in strides[-2::-1]],
            "swizzle": fields["swizzle"],
            "l2_promotion": 2,
            "oob_fill": int(value.padding == "nan"),
        }
        box = [int(n) for n in reversed(fields["block_size"])]
        try:
            if fields.get("is_im2col"):
                made = _im2col(value, box, common)
            else:
                made = TensorMap.of_driver(box_dim=box, element_strides=[1] * len(extents), **common)
        except TileproofError as error:
            raise LaunchError(
                error.what, where=f"{self.kernel}, descriptor {name}: {error.where}", expected=error.expected,
                found=error.found, do=error.do,
            ) from None  # fmt: skip
        self.out += [MapArgument(made, at), *shape, *strides]


def _im2col(value: TensorDescriptorIm2Col, box: list[int], common: DriverMap) -> TensorMap:
    """The map of cuTensorMapEncodeIm2col; `box` is (channels per pixel, pixels per column)."""
    rank = len(value.shape)
    size = common["global_strides"][0] // int(value.strides[-2])
    # The names of the type, the swizzle and the fill are those of a tiled map of the same tensor.
    tiled = TensorMap.of_driver(
        box_dim=[max(16 // size, 1), *[1] * (rank - 1)], element_strides=[1] * rank, **common
    )
    return TensorMap.fields(
        address=tiled.address, dtype=tiled.dtype, shape=tiled.shape, strides=tiled.strides, box=box,
        element_strides=list(reversed(value.element_strides or [1] * rank)),
        swizzle=tiled.swizzle, oob_fill=tiled.oob_fill,
        lower=list(reversed(value.pixel_box_lower_corner)),
        upper=list(reversed(value.pixel_box_upper_corner)),
    )  # fmt: skip
