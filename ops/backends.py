"""The backends by name, and which of them a device has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tileproof.ops import emulated, reference
from tileproof.ops.checks import check_choice
from tileproof.spec.machine.errors import TileproofError

BACKENDS = {"reference": "any device, in torch", "emulator": "cpu: the compiled kernels, emulated"}
_RUNS_ON = "; ".join(f"{name}: {where}" for name, where in BACKENDS.items())


def chosen(backend: str | None, device: torch.device) -> str:
    """The name of the backend; None: `reference` on the CPU, and an error where no kernel can be launched."""
    check_choice("backend", backend, (None, *BACKENDS))
    if backend is not None:
        return str(backend)
    if device.type not in ("cpu", "meta"):
        raise TileproofError(
            "no backend runs kernels on this device", where="backend", expected=_RUNS_ON,
            found=f"backend None, and q on {device}", do='choose backend="reference"',
        )  # fmt: skip
    return "reference"


def check_backend(backend: str, q: torch.Tensor, sizes: Mapping[str, int], deterministic: bool) -> None:
    """TileproofError where the backend does not compute this, before it runs."""
    check_choice("backend", backend, tuple(BACKENDS))
    if backend == "emulator":
        emulated.check_supported(q, sizes)
    elif deterministic and q.device.type not in ("cpu", "meta"):
        raise TileproofError(
            "deterministic sums are computed on the CPU only", where="deterministic",
            expected="False, or CPU tensors", found=f"True, and q on {q.device}",
        )  # fmt: skip


def backward(backend: str, *given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dkv and d_sink (see `reference.backward`); without queries, heads, slots or rows zeros."""
    q, kv, _, _, _, indices = given[:6]
    if backend == "emulator" and all(tensor.numel() for tensor in (q, kv, indices)):
        return emulated.backward(*given)
    return reference.backward(*given[:-1])  # deterministic on the CPU, where it is asked for
