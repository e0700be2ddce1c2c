"""The inputs of a matrix product: A ``[M, K]`` and B ``[N, K]`` f16 or bf16, row-major; the rest f32.

Plain: D ``[M, N]`` f32 = alpha A B^T + beta C, with C ``[M, N]``. With a bias ``[N]`` in the place of C, D is
bf16 = alpha A B^T + bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, DType

OPERANDS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Inputs:
    """The arrays of one product; `C` or `bias` is None."""

    A: Array
    B: Array
    C: Array | None = None
    bias: Array | None = None
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def sizes(self) -> dict[str, int]:
        """M, N and K."""
        return {"M": self.A.shape[0], "N": self.B.shape[0], "K": self.A.shape[1]}


ARRAYS = ("A", "B", "C", "bias")


def validate(inputs: Inputs, tile: dict[str, int]) -> None:
    """Raise TileproofError unless a kernel with tiles of these sizes (M, N, K) may be given the inputs."""
    validate_sizes(inputs, tile)
    for name in ARRAYS:
        array = getattr(inputs, name)
        if array is not None and not np.isfinite(array.astype(np.float64)).all():
            raise TileproofError(f"{name} has a non-finite value", where=name)


def validate_sizes(inputs: Inputs, tile: dict[str, int]) -> None:
    """`validate` without the values, which are not read: of large arrays most are in no memory."""
    known: dict[str, tuple[tuple[str, ...], tuple[DType, ...]]] = {
        "A": (("M", "K"), OPERANDS),
        "B": (("N", "K"), (inputs.A.dtype,)),
        "C": (("M", "N"), (F32,)),
        "bias": (("N",), (F32,)),
    }
    if (inputs.C is None) == (inputs.bias is None):
        raise TileproofError("a product takes either C or a bias", where="C, bias")
    if inputs.A.ndim != 2 or inputs.B.ndim != 2:
        raise TileproofError("A and B must be matrices", where="A, B")
    for name, (axes, dtypes) in known.items():
        array = getattr(inputs, name)
        if array is None:
            continue
        shape = tuple(inputs.sizes[axis] for axis in axes)
        if array.shape != shape or array.dtype not in dtypes or not array.flags["C_CONTIGUOUS"]:
            raise TileproofError(
                f"{name} does not match the product's inputs",
                where=name,
                expected=f"{' or '.join(map(str, dtypes))} {list(shape)}, contiguous",
                found=f"{array.dtype} {list(array.shape)}",
            )
    for axis, size in tile.items():
        if inputs.sizes[axis] == 0 or inputs.sizes[axis] % size:
            raise TileproofError(
                f"{axis} is not a multiple of the kernel's tile",
                where=axis,
                expected=f"a multiple of {size}",
                found=str(inputs.sizes[axis]),
            )
