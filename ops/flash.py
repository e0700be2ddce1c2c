"""FlashMLA's sparse forward, where its package is installed: o and lse in place of the reference's.

`flash_mla.flash_mla_sparse_fwd` of deepseek-ai/FlashMLA. Its lse does not
hold the sink, and versions of it have used both bases: the base is found by one call on a small problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module, util
from typing import Any

import torch
from tileproof.ops import reference
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2
from torch import Tensor

HEADS, SLOTS, D_V = 64, 128, 512  # its kernels take multiples of heads and of slots
WIDTHS = (576, 512)
TOLERANCE = 2.0**-6  # of bf16 results beside the other base, which is 1.44 times as large
Forward = Callable[..., Any]


def runs(backend: str, q: Tensor, d_v: int) -> bool:
    """Whether the forward of these inputs is FlashMLA's: of the backend `cuda`, in bfloat16."""
    fits = q.dtype == torch.bfloat16 and q.shape[2] in WIDTHS and d_v == D_V
    return backend == "cuda" and fits and bool(q.numel()) and installed() is not None


@cache
def installed() -> Forward | None:
    """Its function; None without the package."""
    if util.find_spec("flash_mla") is None:
        return None
    found: Forward = import_module("flash_mla").flash_mla_sparse_fwd
    return found


def forward(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    lse_base: str,
) -> tuple[Tensor, Tensor]:
    """o and lse as of `reference.forward`."""
    function = installed()
    assert function is not None
    o, lse = _called(function, q, kv, indices, topk_length, sink, sm_scale)
    lse = lse * LN_2 if _base(function, q.device) == "2" else lse
    if sink is not None:
        keys = torch.where(lse.isposinf(), -math.inf, lse)
        lse = torch.logaddexp(keys, sink.expand_as(keys))
    lse = torch.where(lse.isneginf(), math.inf, lse)
    return o, lse if lse_base == "e" else lse / LN_2


def _called(
    function: Forward,
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    """Its o and lse, of padded heads and slots."""
    heads, slots = -q.shape[1] % HEADS, -indices.shape[1] % SLOTS
    known = torch.where((indices < 0) | (indices >= kv.shape[0]), -1, indices).to(torch.int32)
    pad = torch.nn.functional.pad
    own = q.shape[1]
    o, _, lse = function(
        pad(q, (0, 0, 0, heads)).contiguous(),
        kv.contiguous()[:, None],
        pad(known, (0, slots), value=-1)[:, None].contiguous(),
        sm_scale,
        D_V,
        None if sink is None else pad(sink, (0, heads)),
        None if topk_length is None else topk_length.clamp(0, indices.shape[1]).to(torch.int32),
    )[:3]
    return o[:, :own].contiguous(), lse[:, :own].float()


@cache
def _base(function: Forward, device: torch.device) -> str:
    """Of its lse; TileproofError where o or lse is that of neither base."""
    number = torch.arange(HEADS * WIDTHS[0], device=device)
    q = (torch.sin(number.float()) * 2).to(torch.bfloat16).view(1, HEADS, -1)
    kv = torch.cos(number.float()).to(torch.bfloat16).view(HEADS, -1)
    indices = torch.arange(SLOTS, dtype=torch.int32, device=device).remainder(HEADS)[None]
    given = q, kv, indices, None, None
    right, natural = reference.forward(*given, 0.04, D_V, "e")
    o, lse = _called(function, *given, 0.04)
    if (o - right).norm() <= TOLERANCE * right.norm():
        for base, known in (("e", natural), ("2", natural / LN_2)):
            if (lse - known).norm() <= TOLERANCE * known.norm():
                return base
    raise TileproofError(
        "flash_mla computes another forward than this version knows", where="flash_mla.flash_mla_sparse_fwd",
        expected="o, and lse to base e or 2", found=f"lse {lse[0, 0]:.4g}, natural {natural[0, 0]:.4g}",
        do='use backend="reference", or remove the package flash_mla',
    )  # fmt: skip
