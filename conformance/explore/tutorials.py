"""NVIDIA's CuTe Blackwell tutorial kernels: compiled from the installed package, described for a launch.

The kernels are D = alpha A B^T + beta C, A [M, K] and B [N, K] f16, C and D [M, N] f32, row-major. Their
parameters
are CuTe objects passed by value; the layouts below were read off the sources and the compiled loads of
parameters.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from tileproof.emulator import Buffer, LaunchResult, Memory, Module, Schedule, TensorMap
from tileproof.kernels.tutorials import TUTORIALS, Tutorial, ptx_of
from tileproof.spec.machine.descriptors import InstructionDescriptor
from tileproof.spec.machine.errors import TileproofError


@lru_cache
def compiled(tutorial: Tutorial) -> Module:
    """The tutorial's module."""
    return Module.from_file(ptx_of(tutorial))


def _coordinates(rows: int, columns: int) -> bytes:
    """A TMA coordinate tensor: its shape, and a layout with nothing dynamic."""
    return struct.pack("<ii4x", rows, columns)


def _tensor(buffer: Buffer) -> bytes:
    """A row-major global tensor: shape, stride, pointer."""
    rows, columns = buffer.numpy().shape
    return struct.pack("<iii4xQ", rows, columns, columns, buffer.address)


def _atom(buffer: Buffer, columns: int, rows: int) -> bytes:
    """A TMA copy atom: the tensor map, then strides that these kernels do not read."""
    extent, inner = buffer.numpy().shape
    size = buffer.numpy().dtype.itemsize
    tensor_map = TensorMap.tiled(
        buffer, shape=(inner, extent), strides=(inner * size,), box=(columns, rows), swizzle="128B"
    )
    return tensor_map.encode() + bytes(128)


@dataclass(frozen=True)
class Gemm:
    """Inputs of one run and what it must give, exactly: all values are small integers."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    alpha: float
    beta: float

    @property
    def expected(self) -> np.ndarray:
        product = self.a.astype(np.float64) @ self.b.astype(np.float64).T
        return self.alpha * product + self.beta * self.c.astype(np.float64)


def problem(tutorial: Tutorial, tiles_k: int, seed: int = 0, alpha: float = 1.0, beta: float = 0.0) -> Gemm:
    """One cluster's product over `tiles_k` tiles of 64 along K, of small integers."""
    rng = np.random.default_rng(seed)
    m, n, k = tutorial.step_m, tutorial.step_n, 64 * tiles_k

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-4, 5, shape)

    return Gemm(
        draw(m, k).astype(np.float16),
        draw(n, k).astype(np.float16),
        draw(m, n).astype(np.float32),
        alpha,
        beta,
    )


@dataclass(frozen=True)
class Launched:
    """A tutorial on one problem, as `tileproof.emulator.explore` takes it."""

    tutorial: Tutorial
    gemm: Gemm

    def __call__(self, **how: Any) -> tuple[LaunchResult, dict[str, np.ndarray]]:
        """One run on fresh buffers, and D."""
        d, result = run(self.tutorial, self.gemm, **how)
        return result, {"D": d}


def named(name: str) -> Tutorial:
    """The tutorial "tutorial-01" .. "tutorial-05"; TileproofError lists them."""
    for one in TUTORIALS:
        if name == one.name:
            return one
    raise TileproofError(
        "there is no such tutorial", expected=", ".join(one.name for one in TUTORIALS), found=name
    )


def run(
    tutorial: Tutorial, gemm: Gemm, schedule: Schedule | None = None, **how: Any
) -> tuple[np.ndarray, LaunchResult]:
    """D and the launch's result; `how` goes on to `Module.launch`."""
    module = compiled(tutorial)
    (entry,) = [name for name in module.entries if "gemm_device" in name]
    memory = Memory()
    (m, k), n = gemm.a.shape, gemm.b.shape[0]
    a, b, c = (memory.buffer(array, name) for array, name in ((gemm.a, "A"), (gemm.b, "B"), (gemm.c, "C")))
    d = memory.empty((m, n), np.float32, "D")
    idesc = InstructionDescriptor(m=tutorial.mma_m, n=256, a_type="f16", b_type="f16").encode()
    mma_object = struct.pack("<I4x", idesc)
    scales = [np.float32(gemm.alpha), np.float32(gemm.beta)]
    empty = b"\0"
    if not tutorial.a_rows:
        args: list[Any] = [
            _tensor(a), _tensor(b), _tensor(c), _tensor(d), empty, mma_object, empty, *scales
        ]  # fmt: skip
    else:
        atoms = [_atom(a, 64, tutorial.a_rows), _atom(b, 64, tutorial.b_rows)]
        inputs = [_coordinates(m, k), _coordinates(n, k)]
        if tutorial.epilogue_tma:
            outputs = [_coordinates(m, n), _coordinates(m, n), empty]
            atoms += [_atom(c, 32, 128), _atom(d, 32, 128)]
        else:
            outputs = [_tensor(c), _tensor(d)]
        args = [*inputs, *outputs, empty, mma_object, empty, *atoms, *scales]
    x, y, _ = tutorial.cluster
    result = module.launch(
        entry,
        grid=(m // tutorial.step_m * x, n // tutorial.step_n * y, 1),
        block=(128, 1, 1),
        cluster=tutorial.cluster,
        shared_bytes=tutorial.shared_bytes,
        args=args,
        memory=memory,
        schedule=schedule or Schedule(),
        **how,
    )
    return d.numpy(), result
