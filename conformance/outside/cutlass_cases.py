"""CUTLASS's own Blackwell examples, built as shipped, with inputs and expected outputs of our own.

The host program of an example is built against the recording runtime; its launches run on the emulator with
the
inputs written into the allocations that the program made for them (the program fills them on the device or
not at all).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.drivers.record.programs import Program, build, record
from tileproof.conformance.drivers.record.recording import Replay
from tileproof.emulator import Buffer, LaunchResult
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain


@dataclass(frozen=True)
class Ran:
    """The results of the launches that ran, each output with its expected value and the bound of their
    difference.
    """

    results: tuple[LaunchResult, ...]
    outputs: dict[str, tuple[np.ndarray, np.ndarray, Any]]

    @property
    def right(self) -> bool:
        return all(bool((np.abs(found - want) <= most).all()) for found, want, most in self.outputs.values())


@dataclass(frozen=True)
class Example:
    """One instance of an example: its program and options, and what is run and expected of it."""

    name: str
    source: str  # below examples/
    arguments: tuple[str, ...]
    check: Callable[[Replay, dict[str, Any]], Ran]
    defines: tuple[str, ...] = ()
    processors: int = 148

    @property
    def program(self) -> Program:
        return _program(self.source, self.defines)

    def run(self, **how: Any) -> Ran:
        """Records the program and runs its kernels; `how` goes on to `Module.launch`."""
        program = self.program
        return self.check(Replay(record(program, self.arguments, self.processors), program.module), how)


@lru_cache
def _program(source: str, defines: Sequence[str]) -> Program:
    examples = toolchain.find().cutlass_include.parent / "examples"
    return build(examples / source, defines, [examples / "common", curand()])


def curand() -> Path:
    """The folder of curand_kernel.h, which the examples include; LaunchError when it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "cu13/include/curand_kernel.h").exists():
            return Path(root) / "cu13/include"
    raise LaunchError("the headers of cuRAND are not installed", do="pip install -r requirements-outside.txt")


def _kernel(replay: Replay, name: str = "device_kernel") -> Any:
    return replay.to(lambda launch: name in launch.entry)


def _of(replay: Replay, *dtypes: Any) -> list[tuple[Buffer, np.ndarray]]:
    """The first allocations in order, each seen as its type."""
    return [(b, b.numpy().view(d)) for b, d in zip(replay.memory.buffers, dtypes, strict=False)]


def _write(buffer: Buffer, values: np.ndarray) -> None:
    if buffer.bytes != values.nbytes:
        raise LaunchError(
            "an example's allocation has another size", expected=str(values.nbytes), found=repr(buffer)
        )
    buffer.write(values)


def _gemm(m: int, n: int, k: int) -> Callable[[Replay, dict[str, Any]], Ran]:
    """D [m, n] column-major f32 = A [m, k] B [n, k]^T, f16 small integers: exact."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = _kernel(replay)
        (a, _), (b, _), (c, _), (_d, out) = _of(replay, np.float16, np.float16, np.float32, np.float32)
        rng = np.random.default_rng(7)
        left, right = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
        _write(a, left)
        _write(b, right)
        _write(c, np.zeros((n, m), dtype=np.float32))
        result = replay.run(launch, **how)
        expected = left.astype(np.float64) @ right.astype(np.float64).T
        return Ran((result,), {"D": (out.reshape(n, m).T.astype(np.float64), expected, 0.0)})

    return check


def _fp8(m: int, n: int, k: int) -> Callable[[Replay, dict[str, Any]], Ran]:
    """D [m, n] column-major e4m3 = relu(A [m, k] B [n, k]^T), aux without the relu; the program's own
    inputs.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = _kernel(replay)
        buffers = replay.memory.buffers
        a, b, d, aux = (buffers[at].numpy().view(ml_dtypes.float8_e4m3fn) for at in (0, 1, 3, 5))
        left, right = a.reshape(m, k).astype(np.float64), b.reshape(n, k).astype(np.float64)
        result = replay.run(launch, **how)
        product = np.clip(left @ right.T, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        found, before = (x.reshape(n, m).T.astype(np.float64) for x in (d, aux))
        return Ran((result,), {"D": (found, np.maximum(product, 0), 0.0), "aux": (before, product, 0.0)})

    return check


def scales(data: np.ndarray, rows: int, groups: int) -> np.ndarray:
    """Scale factors [rows, groups] from their interleaved layout: blocks of 128 rows and 4 groups, 512 bytes
    each,
    in which row r and group g lie at 16 (r mod 32) + 4 (r div 32) + g (PTX ISA 9.7.16.10.7, as CUTLASS stores
    it).
    """
    blocks = data.reshape(rows // 128, groups // 4, 32, 4, 4)  # row block, group block, r mod 32, r div 32, g
    return blocks.transpose(0, 3, 2, 1, 4).reshape(rows, groups)


def _nvfp4(m: int, n: int, k: int) -> Callable[[Replay, dict[str, Any]], Ran]:
    """D [m, n] bf16 of block-scaled e2m1 operands with e4m3 scales, one for 16 elements; the program's own
    inputs.
    """

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = _kernel(replay)
        a, b, _c, d, _reference, sfa, sfb = (buffer.numpy() for buffer in replay.memory.buffers[:7])

        def operand(data: np.ndarray, factors: np.ndarray, rows: int) -> np.ndarray:
            nibbles = np.stack([data & 15, data >> 4], axis=-1).reshape(rows, k)  # low half first
            values = nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
            scale = scales(factors.view(ml_dtypes.float8_e4m3fn), rows, k // 16).astype(np.float64)
            return values * np.repeat(scale, 16, axis=1)

        left, right = operand(a, sfa, m), operand(b, sfb, n)
        result = replay.run(launch, **how)
        found = d.view(ml_dtypes.bfloat16).reshape(m, n).astype(np.float64)
        expected = left @ right.T
        # f32 sums in an unknown order, then one rounding to bf16 (relative 2^-9).
        most = 2.0**-9 * np.abs(expected) + 2.0**-20 * (np.abs(left) @ np.abs(right).T)
        return Ran((result,), {"D": (found, expected, most)})

    return check


@dataclass(frozen=True)
class Attention:
    """One head of attention in float64, from f16 inputs; `causal`: row i sees the keys up to i."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = False

    @classmethod
    def draw(cls, rows: int, keys: int, d: int, causal: bool = False) -> Attention:
        rng = np.random.default_rng(5)
        q, k, v = (rng.standard_normal((n, d)).astype(np.float16) for n in (rows, keys, keys))
        return cls(q, k, v, causal)

    @property
    def scores(self) -> np.ndarray:
        s = self.q.astype(np.float64) @ self.k.astype(np.float64).T / np.sqrt(self.q.shape[1])
        return np.where(np.tri(*s.shape) > 0, s, -np.inf) if self.causal else s

    @property
    def lse(self) -> np.ndarray:
        s = self.scores
        best = s.max(1)
        return best + np.log(np.exp(s - best[:, None]).sum(1))

    @property
    def p(self) -> np.ndarray:
        return np.exp(self.scores - self.lse[:, None])


# Both operands of a product are f16: the one that was computed was rounded (relative 2^-11), and so is the
# result.
# What f32 adds is below the last term.
_F16 = 2.0**-10 + 2.0**-15


def _rounded(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A product with its bound of error, where `left` was rounded to f16 and the result is f16."""
    right = right.astype(np.float64)
    return left @ right, _F16 * (np.abs(left) @ np.abs(right))


def _forward(rows: int, keys: int, d: int, causal: bool = False) -> Callable[[Replay, dict[str, Any]], Ran]:
    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        launch = _kernel(replay)
        one = Attention.draw(rows, keys, d, causal)
        buffers = replay.memory.buffers
        for buffer, values in zip(buffers, (one.q, one.k, one.v), strict=False):
            _write(buffer, values)
        result = replay.run(launch, **how)
        o = buffers[3].numpy().view(np.float16).reshape(rows, d).astype(np.float64)
        lse = buffers[4].numpy().view(np.float32).astype(np.float64)
        return Ran((result,), {"O": (o, *_rounded(one.p, one.v)), "lse": (lse, one.lse, 1e-5)})

    return check


def _backward(rows: int, keys: int, d: int, causal: bool = False) -> Callable[[Replay, dict[str, Any]], Ran]:
    """Three launches: the row sums of O dO, the gradients, dQ from f32 to f16."""

    def check(replay: Replay, how: dict[str, Any]) -> Ran:
        one = Attention.draw(rows, keys, d, causal)
        do = np.random.default_rng(6).standard_normal((rows, d)).astype(np.float16)
        p, scale = one.p, 1 / np.sqrt(d)
        o = (p @ one.v.astype(np.float64)).astype(np.float16)
        launch = _kernel(replay)
        buffers = list(replay.memory.buffers)
        given = {0: one.q, 1: one.k, 2: one.v, 3: o, 4: one.lse.astype(np.float32), 8: do}
        for at, values in given.items():
            _write(buffers[at], values)
        results = [replay.run(launch, **how)]
        results += [replay.run(_kernel(replay), **how) for _ in range(2)]
        dq, dk, dv = (
            buffers[at].numpy().view(np.float16).reshape(-1, d).astype(np.float64) for at in (5, 6, 7)
        )
        left, right = do.astype(np.float64), one.v.astype(np.float64)
        # The example multiplies O and dO in f16 (fmha_kernel_bwd_sum_OdO.hpp, line 143).
        delta = (o * do).astype(np.float64).sum(1, keepdims=True)
        ds = p * (left @ right.T - delta) * scale
        # dP and delta are sums of d terms in f32; dS, unscaled, may be a subnormal of f16.
        sums = np.abs(left) @ np.abs(right).T + (np.abs(o * do).astype(np.float64)).sum(1, keepdims=True)
        most = (p * sums * d * 2.0**-24 + 2.0**-25) * scale

        def gradient(a: np.ndarray, b: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, bound = _rounded(a, b)
            return value, bound + error @ np.abs(b.astype(np.float64)) + 2.0**-25

        return Ran(
            tuple(results),
            {
                "dQ": (dq, *gradient(ds, one.k, most)),
                "dK": (dk, *gradient(ds.T, one.q, most.T)),
                "dV": (dv, *_rounded(p.T, do)),
            },
        )

    return check


_GEMM = ("--m=512", "--n=512", "--k=256", "--iterations=0")
_SPLIT = ("--m=512", "--n=256", "--k=512", "--splits=2", "--decomposition=SplitK", "--iterations=0")
_SMALL = ("--preferred_cluster_m=2", "--preferred_cluster_n=1")
_HEAD = ("--b=1", "--h=1", "--d=128", "--iterations=0")
_70, _72 = "70_blackwell_gemm/70_blackwell_", "72_blackwell_narrow_precision_gemm/72a_blackwell_"
_FORWARD = "77_blackwell_fmha/77_blackwell_fmha.cu"
_BACKWARD = "77_blackwell_fmha/77_blackwell_fmha_bwd.cu"


def _square(n: int) -> tuple[str, ...]:
    return (*_HEAD, f"--q={n}", f"--k={n}")


EXAMPLES = (
    Example("70-fp16", f"{_70}fp16_gemm.cu", _GEMM, _gemm(512, 512, 256)),
    Example("70-fp8", f"{_70}fp8_gemm.cu", _GEMM, _fp8(512, 512, 256)),
    Example(
        "72a-nvfp4",
        f"{_72}nvfp4_bf16_gemm.cu",
        ("--m=512", "--n=1024", "--k=512", "--iterations=0"),
        _nvfp4(512, 1024, 512),
    ),
    Example(
        "74-split-k",
        "74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu",
        (*_SPLIT, *_SMALL),
        _gemm(512, 256, 512),
    ),
    Example("77-forward", _FORWARD, _square(256), _forward(256, 256, 128)),
    Example("77-forward-causal", _FORWARD, (*_square(512), "--mask=causal"), _forward(512, 512, 128, True)),
    Example("77-backward", _BACKWARD, _square(256), _backward(256, 256, 128)),
    Example(
        "77-backward-causal", _BACKWARD, (*_square(256), "--mask=causal"), _backward(256, 256, 128, True)
    ),
)
