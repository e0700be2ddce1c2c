"""The Triton and Gluon kernels as problems: inputs, launch, and what must come out, in float64."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch
from tileproof.emulator import Schedule
from tileproof.tools.bugs import gluon_kernels
from tileproof.triton import EmulatedLaunch, EmulatedRun, emulate
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.kit.outside import triton_kernels


@dataclass(frozen=True)
class Ran:
    """One run: the launch, each output with its expected value, and the bound of their difference."""

    launched: EmulatedLaunch
    outputs: dict[str, tuple[np.ndarray, np.ndarray, float]]  # found, expected, most difference

    @property
    def right(self) -> bool:
        return all(np.abs(found - want).max() <= most for found, want, most in self.outputs.values())


@dataclass(frozen=True)
class Case:
    """A kernel and its run under options of `emulate`."""

    name: str
    run: Callable[..., Ran]


def _emulated(
    schedule: Schedule | None = None, races: bool = False, hopper: bool = False
) -> contextlib.AbstractContextManager[EmulatedRun]:
    """A block that keeps what is found, and no inputs."""
    return emulate(policy=str(schedule or Schedule()), races=races, raises=False, keep=0, hopper=hopper)


def _small(*shape: int, seed: int) -> torch.Tensor:
    """f16 of small integers: products and sums of them are exact in f32."""
    return torch.from_numpy(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16))


def _product(
    launch: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    m: int,
    n: int,
    k: int,
    how: dict[str, Any],
) -> Ran:
    a, b, c = _small(m, k, seed=1), _small(n, k, seed=2), torch.full((m, n), float("nan"))
    with _emulated(**how) as run:
        launch(a, b, c)
    expected = a.double().numpy() @ b.double().numpy().T
    return Ran(run.last, {"C": (c.double().numpy(), expected, 0.0)})


def _triton_matmul(specialised: bool, m: int = 256, n: int = 256, k: int = 256, **how: Any) -> Ran:
    def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        maps = [
            TensorDescriptor.from_tensor(t, list(box))
            for t, box in ((a, (128, 64)), (b, (128, 64)), (c, (128, 128)))
        ]
        triton_kernels.matmul[(m // 128, n // 128)](*maps, k, 128, 128, 64, specialised, num_warps=4)

    return _product(launch, m, n, k, how)


def _descriptor(tensor: torch.Tensor, *box: int, split: tuple[int, int] | None = None) -> GluonDescriptor:
    kind = {torch.float16: gl.float16, torch.float32: gl.float32}[tensor.dtype]
    layout = gl.NVMMASharedLayout.get_default_for(
        list(box), kind, cga_layout=[list(split)] if split else None
    )
    return GluonDescriptor.from_tensor(tensor, list(box), layout)


def gluon_matmul(m: int = 256, n: int = 256, k: int = 256, wrong: str = "", **how: Any) -> Ran:
    """The product of one CTA an MMA, as it is or with a mistake."""

    def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        maps = _descriptor(a, 128, 64), _descriptor(b, 128, 64), _descriptor(c, 128, 128)
        gluon_kernels.matmul[(m // 128, n // 128)](*maps, k, 3, False, num_warps=4, WRONG=wrong)

    return _product(launch, m, n, k, how)


def _gluon_hopper(m: int = 256, n: int = 256, k: int = 256, **how: Any) -> Ran:
    def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        maps = _descriptor(a, 64, 64), _descriptor(b, 128, 64), _descriptor(c, 64, 128)
        gluon_kernels.hopper_matmul[(m // 64, n // 128)](*maps, k, 2, num_warps=4)

    return _product(launch, m, n, k, {"hopper": True, **how})


def _gluon_pair(m: int = 512, n: int = 256, k: int = 256, **how: Any) -> Ran:
    def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        maps = (
            _descriptor(a, 256, 64, split=(1, 0)),
            _descriptor(b.T.contiguous(), 64, 128, split=(0, 1)),
            _descriptor(c, 256, 128, split=(1, 0)),
        )
        gluon_kernels.matmul[(m // 256, n // 128)](*maps, k, 3, True, num_warps=4, num_ctas=2)

    return _product(launch, m, n, k, how)


def _attention(specialised: bool, rows: int = 256, keys: int = 256, d: int = 128, **how: Any) -> Ran:
    rng = np.random.default_rng(3)
    q, k, v = (torch.from_numpy(rng.standard_normal((n, d)).astype(np.float16)) for n in (rows, keys, keys))
    o, lse = torch.full((rows, d), float("nan"), dtype=torch.float16), torch.full((rows,), float("nan"))
    scale = 1 / np.sqrt(d)
    with _emulated(**how) as run:
        maps = [
            TensorDescriptor.from_tensor(t, [box, d]) for t, box in ((q, 128), (k, 64), (v, 64), (o, 128))
        ]
        triton_kernels.attention[(rows // 128,)](
            *maps, lse, keys, float(scale * np.log2(np.e)), 128, 64, d, specialised, num_warps=4
        )
    s = q.double().numpy() @ k.double().numpy().T * scale
    best = s.max(1, keepdims=True)
    p = np.exp(s - best)
    total = p.sum(1, keepdims=True)
    # P is rounded to f16 (relative 2^-11) before its product, O at its end; |v| stays under 5 here.
    return Ran(
        run.last,
        {
            "O": (o.double().numpy(), p @ v.double().numpy() / total, 2.0**-10),
            "lse": (lse.double().numpy(), ((best + np.log(total))[:, 0]) * np.log2(np.e), 1e-5),
        },
    )


# kind: (type of an element, elements a byte, type of a scale, elements a scale)
_SCALED: dict[str, tuple[Any, int, Any, int]] = {
    "mxfp8": (ml_dtypes.float8_e4m3fn, 1, ml_dtypes.float8_e8m0fnu, 32),
    "mxfp4": (ml_dtypes.float4_e2m1fn, 2, ml_dtypes.float8_e8m0fnu, 32),
    "nvfp4": (ml_dtypes.float4_e2m1fn, 2, ml_dtypes.float8_e4m3fn, 16),
}


def _scaled(name: str, m: int = 256, n: int = 128, k: int = 512, **how: Any) -> Ran:
    """Block-scaled operands: elements and scales of few bits, so that the sums are exact in f32."""
    element, packed, scale, group = _SCALED[name]
    rng = np.random.default_rng(4)
    tensors, values = [], []
    for rows in (m, n):
        of = rng.choice(np.array([-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3]), (rows, k)).astype(element)
        by = (2.0 ** rng.integers(-2, 3, (rows, k // group))).astype(scale)
        values.append(of.astype(np.float64) * np.repeat(by.astype(np.float64), group, axis=1))
        bits = (
            of.view(np.uint8) if packed == 1 else of.view(np.uint8)[:, ::2] | of.view(np.uint8)[:, 1::2] << 4
        )
        factors = torch.from_numpy(by.view(np.uint8).copy())
        tensors.append(
            (torch.from_numpy(bits.copy()), factors.view(torch.float8_e4m3fn) if group == 16 else factors)
        )
    (a, scale_a), (b, scale_b) = tensors
    if packed == 1:
        a, b = a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn)
    c = torch.full((m, n), float("nan"))
    with _emulated(**how) as run:
        maps = [
            TensorDescriptor.from_tensor(t, [128, box])
            for t, box in ((a, 128 // packed), (b, 128 // packed), (c, 128))
        ]
        triton_kernels.scaled[(m // 128, n // 128)](
            maps[0], scale_a, maps[1], scale_b, maps[2], k, "e4m3" if packed == 1 else "e2m1", group, packed,
            128, 128, 128, num_warps=4,
        )  # fmt: skip
    return Ran(run.last, {"C": (c.double().numpy(), values[0] @ values[1].T, 0.0)})


CASES = (
    Case("triton-matmul", lambda **how: _triton_matmul(False, **how)),
    Case("hopper-triton-matmul", lambda **how: _triton_matmul(False, hopper=True, **how)),
    Case("triton-matmul-ws", lambda **how: _triton_matmul(True, **how)),
    Case("triton-attention", lambda **how: _attention(False, **how)),
    Case("triton-attention-ws", lambda **how: _attention(True, **how)),
    *(Case(f"triton-{name}", lambda name=name, **how: _scaled(name, **how)) for name in _SCALED),
    Case("hopper-gluon-matmul", _gluon_hopper),
    Case("gluon-matmul-ws", gluon_matmul),
    Case("gluon-matmul-pair", _gluon_pair),
)
