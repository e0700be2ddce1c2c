"""The backends by name, and the backends of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tileproof.ops import cuda, plan, reference, steps
from tileproof.ops.checks import check_choice
from tileproof.spec.machine.errors import TileproofError

BACKENDS = {
    "reference": "any device, in torch",
    "cuda": f"CUDA devices of compute capability {cuda.MAJOR}.x: the compiled kernels",
    "emulator": "cpu: the compiled kernels, emulated",
}
_RUNS_ON = "; ".join(f"{name}: {where}" for name, where in BACKENDS.items())
_KERNELS = ("cuda", "emulator")
_CHOICES = (None, *BACKENDS)


def chosen(backend: str | None, device: torch.device) -> str:
    """The name of the backend; None: `reference` on the CPU, `cuda` on a device that has the kernels, and an
    error on another.
    """
    if backend is not None:
        check_choice("backend", backend, _CHOICES)
        return str(backend)
    if cuda.runs_on(device):
        return "cuda"
    if device.type not in ("cpu", "meta"):
        raise TileproofError(
            "no backend runs kernels on this device", where="backend", expected=_RUNS_ON,
            found=f"backend None, and q on {device}", do='choose backend="reference"',
        )  # fmt: skip
    return "reference"


def check_backend(backend: str, q: torch.Tensor, sizes: Mapping[str, int], deterministic: bool) -> None:
    """TileproofError where the backend does not compute this, before it runs."""
    check_choice("backend", backend, tuple(BACKENDS))
    if backend == "cuda":
        cuda.check_device(q)
    elif backend == "emulator" and q.device.type != "cpu":
        raise TileproofError(
            'backend="emulator" does not compute this', where="q", expected="a CPU tensor",
            found=str(q.device), do='use backend="reference", which runs on any device',
        )  # fmt: skip
    if backend in _KERNELS:
        plan.check_sizes(backend, q, sizes, deterministic)
    elif deterministic and q.device.type not in ("cpu", "meta"):
        raise TileproofError(
            "deterministic sums are computed on the CPU only", where="deterministic",
            expected='False, or CPU tensors, or backend="cuda"', found=f"True, and q on {q.device}",
        )  # fmt: skip


def backward(backend: str, *given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dkv and d_sink (see `reference.backward`); without queries, heads, slots or rows zeros."""
    if backend in _KERNELS:
        call = steps.Call(*given)
        if call.q.numel() and call.kv.numel() and call.indices.numel():
            if backend == "cuda":
                return cuda.backward(call)
            from tileproof.ops import emulated  # a machine with a card needs no emulator

            return emulated.backward(call)
    return reference.backward(*given[:-1])  # deterministic on the CPU, where it is asked for
