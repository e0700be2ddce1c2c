"""Tensor maps: the fields of cuTensorMapEncodeTiled, checked, and the emulator's own 128-byte encoding
of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.emulator import _engine
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer
from tileproof.emulator.misuse import MAX_COUNT, instance, numbers, whole, wrong
from tileproof.spec.machine.tensor_map_bytes import BYTES, driver_map
from tileproof.spec.machine.tma import PACKED, TensorMapFields, check_tensor_map

# CUtensorMapDataType of the CUDA driver API, by the name of the numpy dtype; bfloat16 is that of ml_dtypes,
# which is compared by name so that the emulator needs numpy alone.
_DTYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9,
}  # fmt: skip
# All of CUtensorMapDataType.
_CODES = (
    _DTYPES
    | {"float32_ftz": 10, "tfloat32": 11, "tfloat32_ftz": 12}
    | {name: 13 + k for k, name in enumerate(PACKED)}
)
# Order of CUtensorMapSwizzle.
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_MAGIC = b"TPTMAP1\0"
_FORMAT = struct.Struct("<8sQ7Bx5I4x4Q5H5Bx6h12x")


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map. Extents are in elements, innermost first; `strides` are bytes of dimensions 1
    and up.

    The 128 bytes of `encode()` are the emulator's own; `read` takes those of NVIDIA's driver too. Layout,
    little-endian: magic "TPTMAP1\\0"; u64 address; u8 rank, element size, CUtensorMapDataType, swizzle (0
    none .. 3 128B), NaN fill, atoms of the 128B swizzle (0 16B, 1 32B, 2 32B and flip, 3 64B), mode (0
    tiled, 1 im2col); 1 pad; 5 x u32 shape-1; 4 pad; 4 x u64 stride; 5 x u16 box; 5 x u8 element stride; 1
    pad; 3 x i16 lower corner, 3 x i16 upper corner, W first; 12 pad; u32 FNV-1a of the first 120. Of packed
    types, whose elements are 4 or 6 bits, shape[0] and box[0] are in bytes of global memory and the element
    size is 1.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    oob_fill: str
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @classmethod
    def tiled(
        cls,
        buffer: Buffer,
        *,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        swizzle: str = "none",
        oob_fill: str = "zero",
        dtype: npt.DTypeLike | None = None,
        offset: int = 0,
    ) -> TensorMap:
        """The map of a tensor that starts `offset` bytes into `buffer`; `dtype` defaults to the buffer's.

        Raises LaunchError for fields that cuTensorMapEncodeTiled would reject (CUDA driver API).
        """
        return cls.fields(
            address=instance(buffer, Buffer, "buffer").address + whole(offset, "offset", -MAX_COUNT),
            dtype=_name_of(buffer, dtype),
            shape=shape,
            strides=strides,
            box=box,
            element_strides=element_strides,
            swizzle=swizzle,
            oob_fill=oob_fill,
        )

    @classmethod
    def im2col(
        cls,
        buffer: Buffer,
        *,
        shape: Sequence[int],
        strides: Sequence[int],
        lower: Sequence[int],
        upper: Sequence[int],
        channels: int,
        pixels: int,
        element_strides: Sequence[int] | None = None,
        swizzle: str = "none",
        oob_fill: str = "zero",
        dtype: npt.DTypeLike | None = None,
        offset: int = 0,
    ) -> TensorMap:
        """The map of cuTensorMapEncodeIm2col: dimensions C, W[, H[, D]], N; corners W first. LaunchError for
        arguments that the driver refuses.
        """
        return cls.fields(
            address=instance(buffer, Buffer, "buffer").address + whole(offset, "offset", -MAX_COUNT),
            dtype=_name_of(buffer, dtype),
            shape=shape,
            strides=strides,
            box=(channels, pixels),
            element_strides=element_strides,
            swizzle=swizzle,
            oob_fill=oob_fill,
            lower=lower,
            upper=upper,
        )

    @classmethod
    def of_driver(
        cls,
        *,
        data_type: int,
        address: int,
        global_dim: Sequence[int],
        global_strides: Sequence[int],
        box_dim: Sequence[int],
        element_strides: Sequence[int],
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        oob_fill: int = 0,
    ) -> TensorMap:
        """From the arguments of cuTensorMapEncodeTiled, enums as numbers; L2 promotion has no effect.

        Raises LaunchError for arguments that the driver would reject, and for interleaved layouts.
        """
        names = {number: name for name, number in _CODES.items()}
        for name, code, known in (
            ("tensorDataType", data_type, names),
            ("interleave", interleave, {0: "NONE"}),
            ("swizzle", swizzle, range(len(_SWIZZLES))),
            ("l2Promotion", l2_promotion, range(4)),
            ("oobFill", oob_fill, range(2)),
        ):
            if code not in known:
                raise LaunchError(
                    "a tensor map has an unsupported argument",
                    where=name,
                    expected=f"one of {', '.join(map(str, known))}",
                    found=str(code),
                )
        return cls.fields(
            address=address,
            dtype=names[data_type],
            shape=global_dim,
            strides=global_strides,
            box=box_dim,
            element_strides=element_strides,
            swizzle=_SWIZZLES[swizzle],
            oob_fill="nan" if oob_fill else "zero",
        )

    @classmethod
    def fields(
        cls,
        *,
        address: int,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        swizzle: str = "none",
        oob_fill: str = "zero",
        lower: Sequence[int] = (),
        upper: Sequence[int] = (),
    ) -> TensorMap:
        """As `tiled`, or `im2col` with corners; from an address and a name of a type ("bfloat16").
        TileproofError or LaunchError for arguments that the driver refuses.
        """
        shape, strides, box = numbers(shape, "shape"), numbers(strides, "strides"), numbers(box, "box")
        lower, upper = numbers(lower, "lower"), numbers(upper, "upper")
        if element_strides is not None:
            element_strides = numbers(element_strides, "element_strides")
        address = whole(address, "address")
        for name, word in (("dtype", dtype), ("swizzle", swizzle), ("oob_fill", oob_fill)):
            instance(word, str, name)
        rank = len(shape)
        names = set(_CODES)
        wrong = []
        if dtype not in names:
            wrong.append(("dtype", f"one of {', '.join(sorted(names))}", dtype))
        if swizzle not in _SWIZZLES:
            wrong.append(("swizzle", f"one of {', '.join(_SWIZZLES)}", swizzle))
        if oob_fill not in ("zero", "nan") or (
            oob_fill == "nan" and dtype not in ("bfloat16", "float16", "float32")
        ):
            wrong.append(("oob_fill", "zero, or nan for bfloat16, float16 and float32", oob_fill))
        for name, expected, found in wrong:
            raise LaunchError(
                f"a tensor map has a bad {name}", where=f"TensorMap {name}", expected=expected, found=found
            )
        out = cls(
            address,
            dtype,
            shape,
            strides,
            box,
            tuple(element_strides) if element_strides is not None else (1,) * rank,
            swizzle,
            oob_fill,
            lower,
            upper,
        )
        check_tensor_map(out.checked)
        return out

    @property
    def checked(self) -> TensorMapFields:
        """The same fields as `spec.machine` has them."""
        return TensorMapFields(
            dtype=self.dtype,
            address=self.address,
            shape=self.shape,
            strides=self.strides,
            box=self.box,
            element_strides=self.element_strides,
            swizzle=self.swizzle,
            oob_fill="nan" if self.oob_fill == "nan" else "zero",
            lower=self.lower,
            upper=self.upper,
        )

    def encode(self) -> bytes:
        """Return the 128 bytes of a kernel parameter."""
        rank, map_ = len(self.shape), self.checked
        shape, box = list(self.shape), list(self.box)
        if map_.packing:
            shape[0], box[0] = map_.in_global(shape[0]), map_.in_global(box[0])

        def padded(values: Sequence[int], length: int, fill: int) -> list[int]:
            return [*values, *[fill] * (length - len(values))]

        swizzle = _SWIZZLES.index(self.swizzle)
        body = _FORMAT.pack(
            _MAGIC,
            self.address,
            rank,
            1 if map_.packing else map_.element_size,
            _CODES[self.dtype],
            min(swizzle, 3),
            int(self.oob_fill == "nan"),
            max(swizzle - 3, 0),
            int(bool(self.lower)),
            *[n - 1 for n in padded(shape, 5, 1)],
            *padded(self.strides, 4, 0),
            *padded(box, 5, 1),
            *padded(self.element_strides, 5, 1),
            *padded(self.lower, 3, 0),
            *padded(self.upper, 3, 0),
        )
        assert len(body) == 120
        return body + struct.pack("<I4x", _fnv1a(body))

    @classmethod
    def decode(cls, data: bytes) -> TensorMap:
        """The map whose `encode()` these 128 bytes are; LaunchError for other bytes, and for a map with a
        field that the driver refuses."""
        data = bytes(instance(data, (bytes, bytearray, memoryview), "a tensor map"))
        if len(data) != BYTES or not cls.holds(data):
            raise LaunchError("these bytes are not a tensor map of the emulator", found=data[:8].hex(" "))
        if wrong := _engine.wrong_tensor_map(data):
            raise LaunchError("a tensor map has a field that the driver rejects", found=wrong)
        _magic, address, rank, _, code, swizzle, fill, atoms, im2col, *rest = _FORMAT.unpack(data[:120])
        shape, rest = [n + 1 for n in rest[:5]][:rank], rest[5:]
        strides, rest = rest[:4][: rank - 1], rest[4:]
        box, rest = rest[:5][: 2 if im2col else rank], rest[5:]
        steps, rest = rest[:5][:rank], rest[5:]
        dtype = next(name for name, number in _CODES.items() if number == code)
        out = cls(
            address, dtype, tuple(shape), tuple(strides), tuple(box), tuple(steps),
            _SWIZZLES[swizzle + atoms], "nan" if fill else "zero",
            tuple(rest[: rank - 2]) if im2col else (),
            tuple(rest[3 : 3 + rank - 2]) if im2col else (),
        )  # fmt: skip
        if packing := out.checked.packing:  # extents 0 are in bytes of global memory
            whole = [8 * extents[0] // packing[0] for extents in (shape, box)]
            out = replace(out, shape=(whole[0], *shape[1:]), box=(whole[1], *box[1:]))
        return out

    @classmethod
    def read(cls, data: bytes) -> TensorMap:
        """The map in 128 bytes of `encode()`, or of NVIDIA's driver as far as its encoding was measured
        (`spec.machine.tensor_map_bytes`); TileproofError for others and for interleaved layouts."""
        data = bytes(instance(data, (bytes, bytearray, memoryview), "a tensor map"))
        if data[: len(_MAGIC)] == _MAGIC:
            return cls.decode(data)
        made = driver_map(data)
        if made.interleave:
            raise LaunchError(
                "a tensor map has an unsupported argument",
                where="interleave",
                expected="NONE",
                found=f"{16 * made.interleave} bytes",
            )
        fields = made.fields
        return cls.fields(
            address=fields.address,
            dtype=fields.dtype,
            shape=fields.shape,
            strides=fields.strides,
            box=fields.box,
            element_strides=fields.element_strides,
            swizzle=fields.swizzle,
            oob_fill=fields.oob_fill,
            lower=fields.lower,
            upper=fields.upper,
        )

    @staticmethod
    def holds(data: bytes) -> bool:
        """Whether 128 bytes are what `encode()` gives, by their beginning and their sum."""
        return data[:8] == _MAGIC and data[120:124] == struct.pack("<I", _fnv1a(data[:120]))


def _name_of(buffer: Buffer, dtype: npt.DTypeLike | None) -> str:
    """The name of a map's element type: `dtype`, which may be such a name, or the buffer's."""
    if isinstance(dtype, str) and dtype in _CODES:
        return dtype
    try:
        kind = np.dtype(dtype) if dtype is not None else buffer.numpy().dtype
    except (TypeError, ValueError):
        raise wrong("dtype", "a numpy dtype or the name of a TMA data type", dtype) from None
    if kind.name not in _DTYPES or not kind.isnative:
        raise LaunchError(
            "a tensor map cannot have this element type", found=str(kind), expected="a TMA data type"
        )
    return kind.name


def _fnv1a(data: bytes) -> int:
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value
