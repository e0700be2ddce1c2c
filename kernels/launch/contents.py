"""The initial content of a launch file's buffer: values, a file, or a generator."""

from __future__ import annotations

import errno
import math
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.lazy import lazy_zeros
from tileproof.spec.machine.types import Array, DType


def dtype_of(name: str, where: str = "dtype") -> DType:
    """The numpy dtype of a name, those of ml_dtypes ("bfloat16", "float8_e4m3fn") among them."""
    made = _dtype(name)
    if made.hasobject or made.itemsize == 0 or made.names is not None:
        raise TileproofError(
            "unknown element type",
            where=where,
            expected='a numpy or ml_dtypes name ("float32", "bfloat16", "float8_e4m3fn")',
            found=repr(name),
        )
    return made


@lru_cache(maxsize=64)
def _dtype(name: str) -> DType:
    found = getattr(ml_dtypes, name, None)
    try:
        return np.dtype(name if found is None else found)
    except TypeError:
        return np.dtype(object)


def name_of(dtype: npt.DTypeLike) -> str:
    """The name by which `dtype_of` finds a dtype."""
    return np.dtype(dtype).name


@dataclass(frozen=True)
class Unwritten:
    """Nothing: poisoned memory, in which a read before a write is a finding."""

    kind: ClassVar[str] = "unwritten"


@dataclass(frozen=True)
class Filled:
    """The same number everywhere."""

    kind: ClassVar[str] = "fill"
    value: float = 0.0

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`; zeros take memory only once written."""
        if self.value == 0 and math.copysign(1, self.value) > 0:
            return lazy_zeros(shape, dtype)
        return np.full(shape, self.value).astype(dtype)


@dataclass(frozen=True)
class NormalDraw:
    """Normally distributed numbers from a seed (numpy's PCG64), rounded to the buffer's type."""

    kind: ClassVar[str] = "normal"
    seed: int = 0
    mean: float = 0.0
    deviation: float = 1.0

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`."""
        return np.random.default_rng(self.seed).normal(self.mean, self.deviation, shape).astype(dtype)


@dataclass(frozen=True)
class UniformDraw:
    """Numbers drawn evenly from [low, high)."""

    kind: ClassVar[str] = "uniform"
    seed: int = 0
    low: float = 0.0
    high: float = 1.0

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`."""
        return np.random.default_rng(self.seed).uniform(self.low, self.high, shape).astype(dtype)


@dataclass(frozen=True)
class IntegerDraw:
    """Whole numbers drawn from low .. high - 1."""

    kind: ClassVar[str] = "integers"
    seed: int = 0
    low: int = -4
    high: int = 5

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`."""
        return np.random.default_rng(self.seed).integers(self.low, self.high, shape).astype(dtype)


@dataclass(frozen=True)
class Counting:
    """start, start + step, ... in C order."""

    kind: ClassVar[str] = "arange"
    start: float = 0.0
    step: float = 1.0

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`."""
        return (self.start + self.step * np.arange(math.prod(shape))).reshape(shape).astype(dtype)


@dataclass(frozen=True)
class Coordinates:
    """Where an element stands: its place along `axes` (all of them without), counted in C order, from
    `first`; modulo `modulus` where that is not 0, so that narrow types hold it exactly.
    """

    kind: ClassVar[str] = "coordinates"
    axes: tuple[int, ...] = ()
    modulus: int = 0
    first: int = 0

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the elements, an array of `shape` and `dtype`; TileproofError for an axis that it lacks."""
        chosen = self.axes or tuple(range(len(shape)))
        if any(not -len(shape) <= axis < len(shape) for axis in chosen):
            raise TileproofError(
                "coordinates name an axis outside the buffer's shape",
                expected=f"axes of {len(shape)} dimensions", found=str(chosen),
            )  # fmt: skip
        index = np.indices(shape)
        code = np.zeros(shape, np.int64)
        for axis in chosen:
            code = code * shape[axis] + index[axis]
        return ((code % self.modulus if self.modulus else code) + self.first).astype(dtype)


@dataclass(frozen=True)
class ListedValues:
    """The elements as numbers, in C order."""

    kind: ClassVar[str] = "values"
    values: tuple[int | float, ...]

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return an array of `shape` and `dtype`; TileproofError for another number of values."""
        if len(self.values) != math.prod(shape):
            raise TileproofError(
                "the number of values differs from the number of elements",
                expected=f"{math.prod(shape)}: {dtype.name}{list(shape)}", found=str(len(self.values)),
            )  # fmt: skip
        try:
            return (
                np.array(self.values, None if dtype.kind in "iu" else np.float64).astype(dtype).reshape(shape)
            )
        except OverflowError as error:
            raise TileproofError("a value does not fit its type", found=str(error)) from None


@dataclass(frozen=True)
class PatternRows:
    """Zeros but for some rows (places along the first axis), which hold `pattern` (elements' bytes) as it
    repeats over the whole buffer from its begin. The other rows take no memory.
    """

    kind: ClassVar[str] = "rows"
    rows: tuple[int, ...]
    pattern: bytes

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """The elements; TileproofError for a row outside the shape, or a pattern of no whole element."""
        period, rest = divmod(len(self.pattern), dtype.itemsize)
        if rest or not period or not shape or any(not 0 <= row < shape[0] for row in self.rows):
            raise TileproofError(
                "the rows of a pattern do not fit their buffer",
                expected=f"rows below {shape[0] if shape else 0}, elements of {dtype.itemsize} bytes",
                found=f"rows up to {max(self.rows, default=0)}, a pattern of {len(self.pattern)} bytes",
            )
        words, rows = np.frombuffer(self.pattern, dtype), np.array(self.rows, np.int64)
        columns = math.prod(shape[1:])
        phases = np.stack([np.resize(np.roll(words, -n), columns) for n in range(period)])
        made = lazy_zeros(shape, dtype)
        made.reshape(shape[0], columns).view(f"V{dtype.itemsize}")[rows] = phases.view(f"V{dtype.itemsize}")[
            rows * columns % period
        ]
        return made


@dataclass(frozen=True)
class InlineBytes:
    """The elements' bytes themselves, little-endian in C order."""

    kind: ClassVar[str] = "bytes"
    data: bytes


@dataclass(frozen=True)
class FileBytes:
    """A file beside the launch file: `.npy`, or raw bytes from `offset` on."""

    kind: ClassVar[str] = "file"
    path: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class ArrayContent:
    """The elements as an array in memory, which is not copied; a launch file holds it as `InlineBytes`, or
    `jsonform.write` as a file. TileproofError when the array is not contiguous.
    """

    kind: ClassVar[str] = "array"
    in_memory: ClassVar[bool] = True
    data: Array

    def __post_init__(self) -> None:
        if not self.data.flags["C_CONTIGUOUS"]:
            raise TileproofError(
                "the array of a buffer is not contiguous",
                expected="C order without gaps",
                found=f"strides {self.data.strides} of shape {self.data.shape}",
                do="pass numpy.ascontiguousarray of it",
            )


BufferContent = (
    Unwritten
    | Filled
    | NormalDraw
    | UniformDraw
    | IntegerDraw
    | Counting
    | Coordinates
    | ListedValues
    | PatternRows
    | InlineBytes
    | FileBytes
    | ArrayContent
)


def elements(
    content: BufferContent, shape: tuple[int, ...], dtype: DType, folder: Path, where: str
) -> Array | None:
    """A new array of what the content is; None of `Unwritten`. TileproofError for data that do not fit."""
    if isinstance(content, Unwritten):
        return None
    if isinstance(content, ArrayContent):
        return content.data.copy()
    if isinstance(content, InlineBytes):
        return _of_bytes(content.data, shape, dtype, where)
    if isinstance(content, FileBytes):
        return _of_file(content, shape, dtype, folder, where)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ascontiguousarray(content.array(shape, dtype))


def require_array(data: Array, shape: tuple[int, ...], dtype: DType, where: str) -> None:
    """TileproofError unless an array has the shape and dtype of its buffer."""
    if (data.shape, data.dtype) != (shape, dtype):
        raise TileproofError(
            "the array is not the buffer's",
            where=where,
            expected=f"{dtype.name}{list(shape)}",
            found=f"{data.dtype.name}{list(data.shape)}",
        )


def _of_bytes(data: bytes, shape: tuple[int, ...], dtype: DType, where: str) -> Array:
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise TileproofError(
            "the data and the buffer differ in length",
            where=where,
            expected=f"{wanted} bytes: {dtype.name}{list(shape)}",
            found=f"{len(data)} bytes",
        )
    return np.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def regular_file(path: Path) -> Path:
    """The path of a file; OSError for a device or a pipe, which may have no end, and where nothing lies."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return path


def _of_file(content: FileBytes, shape: tuple[int, ...], dtype: DType, folder: Path, where: str) -> Array:
    path = folder / content.path
    try:
        if regular_file(path).suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            with path.open("rb") as file:
                file.seek(content.offset)
                raw = file.read(math.prod(shape) * dtype.itemsize)
    except (OSError, ValueError, EOFError) as error:
        raise TileproofError(
            "a buffer's file cannot be read", where=where, found=f"{path}: {error}"
        ) from None
    if path.suffix != ".npy":
        return _of_bytes(raw, shape, dtype, where)
    if found.dtype == np.uint8 and found.nbytes == math.prod(shape) * dtype.itemsize:  # bytes of any type
        return _of_bytes(found.tobytes(), shape, dtype, where)
    # numpy stores types that it does not know as bytes of their size.
    same = found.dtype == dtype or (found.dtype.kind == "V" and found.dtype.itemsize == dtype.itemsize)
    if not same or found.shape != shape:
        raise TileproofError(
            "a buffer's file has another dtype or shape",
            where=where,
            expected=f"{dtype.name}{list(shape)}",
            found=f"{path.name}: {found.dtype}{list(found.shape)}",
        )
    return np.ascontiguousarray(found).view(dtype)
