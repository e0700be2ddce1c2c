"""Calls PyTorch's CUDA attention operators on the inputs of a problem.

As on the CPU, the forward is judged on its own, and the backward is given the problem's o and lse. A mask
that the operator has no argument for goes in as its additive mask, where it has a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem, Inputs

FORMS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
LSE_ROWS = 32  # the memory-efficient kernel's lse has rows padded to a multiple of it
BIAS_COLUMNS = 16  # and its bias columns
SPLITS = 8
Tensor = torch.Tensor
Found = dict[str, Tensor]


class NotTaken(RuntimeError):
    """What the operator has no argument for."""


class Operators:
    """`torch.ops.aten`, with a listener that gets the name of each operator before its call."""

    listener: Callable[[str], None] | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self.listener is not None:
            self.listener(name)
        return getattr(torch.ops.aten, name)


ATEN = Operators()


def tensor(array: np.ndarray, form: str = "f32") -> Tensor:
    """The array on the card, exactly."""
    return torch.tensor(array.astype(np.float32)).to(FORMS[form]).cuda()


def added(inputs: Inputs, masked: bool, always: bool = False) -> Tensor | None:
    """The additive mask ``[b, h, m, n]`` in the form of the inputs, its rows padded in memory; None when the
    problem has no bias and neither `masked` nor `always` asks for it.
    """
    p = inputs.problem
    if inputs.bias is None and not masked and not always:
        return None
    whole = np.zeros((p.b, p.h, p.m, p.n), np.float32)
    if inputs.bias is not None:
        whole += inputs.bias.astype(np.float32)
    if masked:
        whole[:, :, ~inputs.masks[0]] = -np.inf
    columns = -(-p.n // BIAS_COLUMNS) * BIAS_COLUMNS
    padded = torch.zeros(p.b, p.h, p.m, columns, dtype=FORMS[p.form], device="cuda")
    padded[..., : p.n] = tensor(whole, p.form)
    return padded[..., : p.n]


def stream(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Seed and offset of the dropout; the default generator is set to them, for the forward."""
    drop = inputs.problem.dropout
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.manual_seed(drop.seed)
    generator.set_offset(drop.offset)
    return torch.tensor(drop.seed), torch.tensor(drop.offset)


def need_drawn(inputs: Inputs, block: bool) -> None:
    """NotTaken where the problem's dropout is drawn in another way than the operator's."""
    if inputs.problem.dropout.p and inputs.problem.dropout.block != block:
        raise NotTaken("the operator draws its dropout " + ("by block" if block else "by element"))


def splits_of(p: DenseProblem) -> int:
    """How many parts of the keys `efficient` asks for, when it has to split: 1 to `SPLITS`, by the sizes."""
    return 1 + (7 * p.m + 3 * p.n + 5 * p.d_qk + p.h) % SPLITS


def efficient(inputs: Inputs, biased: bool = False, split: bool = False) -> Found:
    """`_efficient_attention_forward` and `_backward`: [b, m, h, d], masks by type and window.

    `biased`: with a bias in any case, zero where the problem has none, and its gradient. `split`: the keys in
    a number of parts of ours (`splits_of`); otherwise the operator chooses it.
    """
    p = inputs.problem
    need_drawn(inputs, block=False)
    if p.packed is not None and biased:
        raise NotTaken("packed sequences take no bias")
    q, k, v, o, dO = (tensor(getattr(inputs, name), p.form) for name in ("q", "k", "v", "o", "dO"))
    limited = p.mask.left is not None or p.mask.right is not None
    native = limited and p.mask.right == 0
    kind = (2 if p.mask.align == "bottom right" else 1) if native else 0
    window = p.mask.left + 1 if native and p.mask.left is not None else None
    if p.packed is not None and limited and not native:
        raise NotTaken("packed sequences take no additive mask")
    bias = added(inputs, limited and not native, biased)
    cu_q, cu_k = (
        None if cu is None else torch.tensor(cu, device="cuda") for cu in (inputs.cu_q, inputs.cu_k)
    )
    longest = [p.m, p.n] if p.packed is None else [max(x) for x in zip(*p.packed, strict=True)]
    seed, offset = stream(inputs)
    parts = splits_of(p) if split else None
    own = ATEN._efficient_attention_forward(
        q, k, v, bias, cu_q, cu_k, longest[0], longest[1], p.dropout.p, kind, True,
        scale=p.sm_scale, window_size=window,
    )  # fmt: skip
    rows = -(-longest[0] // LSE_ROWS) * LSE_ROWS
    lse = torch.full((len(p.sequences), p.h, rows), torch.inf, device="cuda")
    own_lse = torch.full((p.b, p.h, p.m), torch.nan, device="cuda")
    for number, sequence in enumerate(p.sequences):
        lse[number, :, : sequence.m] = tensor(inputs.lse[sequence.batch, :, sequence.queries])
        own_lse[sequence.batch, :, sequence.queries] = own[1][number, :, : sequence.m]
    dQ, dK, dV, dB = ATEN._efficient_attention_backward(
        dO, q, k, v, bias, o, cu_q, cu_k, longest[0], longest[1], lse, p.dropout.p, seed, offset, kind,
        bias is not None, scale=p.sm_scale, window_size=window, num_splits_key=parts,
    )  # fmt: skip
    found = {"O": own[0], "dQ": dQ, "dK": dK, "dV": dV}
    found = {name: value.transpose(1, 2) for name, value in found.items()} | {"LSE": own_lse}
    return found | ({"dB": dB[..., : p.n]} if bias is not None else {})


def flash(inputs: Inputs) -> Found:
    """`_flash_attention_forward` and `_backward`: limits from the bottom right."""
    p = inputs.problem
    need_drawn(inputs, block=True)
    if inputs.bias is not None:
        raise NotTaken("the operator has no argument for it")
    limited = p.mask.left is not None or p.mask.right is not None
    unequal = any(sequence.m != sequence.n for sequence in p.sequences)
    if limited and unequal and p.mask.align == "top left":
        raise NotTaken("the operator's limits are from the bottom right")
    if p.mask.right is not None and p.mask.right < 0:
        raise NotTaken("a limit below 0 is no limit to the operator")
    q, k, v, o, dO = (tensor(getattr(inputs, name), p.form) for name in ("q", "k", "v", "o", "dO"))
    lse = tensor(inputs.lse)
    stream(inputs)
    cu_q, cu_k = (
        None if cu is None else torch.tensor(cu, device="cuda") for cu in (inputs.cu_q, inputs.cu_k)
    )
    longest = [p.m, p.n] if p.packed is None else [max(x) for x in zip(*p.packed, strict=True)]
    if p.packed is not None:
        q, k, v, o, dO, lse = (x[0] for x in (q, k, v, o, dO, lse))
    causal = (p.mask.left, p.mask.right) == (None, 0)
    window = {}
    if limited and not causal:
        window = {"window_size_left": p.mask.left, "window_size_right": p.mask.right}
    more = {"scale": p.sm_scale, **window}
    own = ATEN._flash_attention_forward(
        q, k, v, cu_q, cu_k, longest[0], longest[1], p.dropout.p, causal, False, **more
    )
    gradients = ATEN._flash_attention_backward(
        dO, q, k, v, o, lse, cu_q, cu_k, *longest, p.dropout.p, causal, own[2], own[3], **more
    )
    found = dict(zip(("O", "dQ", "dK", "dV"), (own[0], *gradients), strict=True))
    own_lse = own[1]
    if p.packed is not None:
        found = {name: value[None] for name, value in found.items()}
        own_lse = own_lse[None]
    return {name: value.transpose(1, 2) for name, value in found.items()} | {"LSE": own_lse}


def cudnn(inputs: Inputs) -> Found:
    """`_cudnn_attention_forward` and `_backward`: [b, h, m, d], packed [m, h, d]; causal from the top left.

    The operator takes f32 for f16 without a word, so that it is not called with it.
    """
    p = inputs.problem
    if p.form == "f32":
        raise NotTaken("the operator reads what is not bf16 as f16")
    if p.dropout.p:
        raise NotTaken("which elements are dropped is not documented")
    packed = p.packed is not None
    names = ("q", "k", "v", "o", "dO")
    q, k, v, o, dO = (tensor(getattr(inputs, name), p.form) for name in names)
    q, k, v, o, dO = (x[0] if packed else x.transpose(1, 2) for x in (q, k, v, o, dO))
    limited = p.mask.left is not None or p.mask.right is not None
    alike = all(sequence.m == sequence.n for sequence in p.sequences)
    causal = (p.mask.left, p.mask.right) == (None, 0) and (p.mask.align == "top left" or alike)
    if packed and limited and not causal:
        raise NotTaken("packed sequences take no additive mask")
    bias = added(inputs, limited and not causal)
    cu_q, cu_k = (
        None if cu is None else torch.tensor(cu, device="cuda") for cu in (inputs.cu_q, inputs.cu_k)
    )
    longest = [p.m, p.n] if p.packed is None else [max(x) for x in zip(*p.packed, strict=True)]
    own = ATEN._cudnn_attention_forward(
        q, k, v, bias, cu_q, cu_k, *longest, True, 0.0, causal, False, scale=p.sm_scale
    )
    lse = tensor(inputs.lse)
    lse = (lse[0].T.contiguous() if packed else lse).reshape(own[1].shape)
    gradients = ATEN._cudnn_attention_backward(
        dO, q, k, v, o, lse, own[6], own[7], bias, cu_q, cu_k, *longest, 0.0, causal, scale=p.sm_scale
    )
    found = dict(zip(("O", "dQ", "dK", "dV"), (own[0], *gradients), strict=True))
    if not packed:
        return found | {"LSE": own[1].reshape(p.b, p.h, p.m)}
    own_lse = own[1].reshape(p.m, p.h).T[None]
    return {name: value[None].transpose(1, 2) for name, value in found.items()} | {"LSE": own_lse}


OPERATORS: dict[str, Callable[[Inputs], Found]] = {
    "efficient": efficient,
    "efficient-bias": partial(efficient, biased=True),
    "efficient-split": partial(efficient, split=True),
    "flash": flash,
    "cudnn": cudnn,
}
