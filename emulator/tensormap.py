"""Tensor maps: the fields of cuTensorMapEncodeTiled, checked, and the emulator's own 128-byte encoding
of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.memory import Buffer
from tileproof.spec.machine.tma import TensorMapFields, check_tensor_map

# CUtensorMapDataType of the CUDA driver API, by numpy dtype.
_DTYPES = {
    np.dtype(np.uint8): ("uint8", 0),
    np.dtype(np.uint16): ("uint16", 1),
    np.dtype(np.uint32): ("uint32", 2),
    np.dtype(np.int32): ("int32", 3),
    np.dtype(np.uint64): ("uint64", 4),
    np.dtype(np.int64): ("int64", 5),
    np.dtype(np.float16): ("float16", 6),
    np.dtype(np.float32): ("float32", 7),
    np.dtype(np.float64): ("float64", 8),
    np.dtype(ml_dtypes.bfloat16): ("bfloat16", 9),
}
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B")
_FORMAT = struct.Struct("<8sQ5B3x5I4x4Q5H5B25x")


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map. Extents are in elements, innermost first; `strides` are bytes of dimensions 1
    and up.

    The 128 bytes of `encode()` are the emulator's own: NVIDIA's encoding is opaque. Layout, little-endian:
    magic "TPTMAP1\\0"; u64 address; u8 rank, element size, CUtensorMapDataType, swizzle (0 none .. 3 128B),
    NaN fill; 3 pad; 5 x u32 shape-1; 4 pad; 4 x u64 stride; 5 x u16 box; 5 x u8 element stride; 25 pad; u32
    FNV-1a of the first 120.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    oob_fill: str

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
        dtype: Any = None,
        offset: int = 0,
    ) -> TensorMap:
        """The map of a tensor that starts `offset` bytes into `buffer`; `dtype` defaults to the buffer's.

        Raises LaunchError for fields that cuTensorMapEncodeTiled would refuse (CUDA driver API).
        """
        kind = np.dtype(dtype) if dtype is not None else buffer.numpy().dtype
        if kind not in _DTYPES:
            raise LaunchError(
                "a tensor map cannot have this element type", found=str(kind), expected="a TMA data type"
            )
        return cls.fields(
            address=buffer.address + offset,
            dtype=_DTYPES[kind][0],
            shape=shape,
            strides=strides,
            box=box,
            element_strides=element_strides,
            swizzle=swizzle,
            oob_fill=oob_fill,
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
    ) -> TensorMap:
        """As `tiled`, from an address and a CUtensorMapDataType name in lower case ("bfloat16")."""
        rank = len(shape)
        names = {name for name, _ in _DTYPES.values()}
        wrong = []
        if dtype not in names:
            wrong.append(("dtype", f"one of {', '.join(sorted(names))}", dtype))
        if swizzle not in _SWIZZLES:
            wrong.append(("swizzle", f"one of {', '.join(_SWIZZLES)}", swizzle))
        if oob_fill not in ("zero", "nan") or (oob_fill == "nan" and dtype != "bfloat16"):
            wrong.append(
                ("oob_fill", "zero, or nan for bfloat16 (whose NaN is known from silicon)", oob_fill)
            )
        for name, expected, found in wrong:
            raise LaunchError(
                f"a tensor map has a bad {name}", where=f"TensorMap {name}", expected=expected, found=found
            )
        out = cls(
            address,
            dtype,
            tuple(map(int, shape)),
            tuple(map(int, strides)),
            tuple(map(int, box)),
            tuple(map(int, element_strides)) if element_strides is not None else (1,) * rank,
            swizzle,
            oob_fill,
        )
        check_tensor_map(
            TensorMapFields(
                dtype=dtype,
                address=address,
                shape=out.shape,
                strides=out.strides,
                box=out.box,
                element_strides=out.element_strides,
                swizzle=swizzle,
                oob_fill="nan" if oob_fill == "nan" else "zero",
            )
        )
        return out

    @property
    def element_size(self) -> int:
        return next(kind.itemsize for kind, (name, _) in _DTYPES.items() if name == self.dtype)

    def encode(self) -> bytes:
        """The 128 bytes that a kernel parameter embeds."""
        rank = len(self.shape)

        def padded(values: Sequence[int], length: int, fill: int) -> list[int]:
            return [*values, *[fill] * (length - len(values))]

        code = next(number for name, number in _DTYPES.values() if name == self.dtype)
        body = _FORMAT.pack(
            b"TPTMAP1\0",
            self.address,
            rank,
            self.element_size,
            code,
            _SWIZZLES.index(self.swizzle),
            int(self.oob_fill == "nan"),
            *[n - 1 for n in padded(self.shape, 5, 1)],
            *padded(self.strides, 4, 0),
            *padded(self.box, 5, 1),
            *padded(self.element_strides, 5, 1),
        )
        assert len(body) == 120
        return body + struct.pack("<I4x", _fnv1a(body))


def _fnv1a(data: bytes) -> int:
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value
