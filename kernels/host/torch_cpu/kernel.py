"""Calls `aten::_scaled_dot_product_flash_attention_for_cpu` and its backward on the inputs of a problem.

The forward is judged on its own (O and LSE); the backward is given the o and lse of the problem, so that each
is judged on inputs that are known. A mask that is not causal from the top left, and a bias, go in as the
operator's additive mask, with -inf where nothing is seen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs

FORMS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def tensor(array: np.ndarray, form: str) -> torch.Tensor:
    """The array in torch, exactly; [b, m, h, d] becomes [b, h, m, d] in the same memory."""
    return torch.tensor(array.astype(np.float32)).to(FORMS[form]).transpose(1, 2)


def as_mask(inputs: Inputs) -> tuple[bool, torch.Tensor | None]:
    """`is_causal` and the additive mask ``[b, h, m, n]`` in the form of the inputs."""
    p = inputs.problem
    causal = (p.mask.left, p.mask.right, p.mask.align) == (None, 0, "top left")
    added = np.zeros((p.b, p.h, p.m, p.n), np.float32)
    if inputs.bias is not None:
        added += inputs.bias.astype(np.float32)
    if causal and inputs.bias is None:
        return True, None
    added[:, :, ~inputs.masks[0]] = -np.inf
    if inputs.bias is None and inputs.masks[0].all():
        return False, None
    return False, torch.tensor(added).to(FORMS[p.form])


def run(inputs: Inputs, outputs: Mapping[str, np.ndarray]) -> None:
    """Writes O, LSE, dQ, dK and dV."""
    p = inputs.problem
    q, k, v, o, dO = (tensor(getattr(inputs, name), p.form) for name in ("q", "k", "v", "o", "dO"))
    causal, mask = as_mask(inputs)
    more: UncheckedObject = {"attn_mask": mask, "scale": p.sm_scale}
    own, own_lse = FORWARD(q, k, v, p.dropout.p, causal, **more)
    lse = torch.tensor(inputs.lse).transpose(1, 2).contiguous().transpose(1, 2)  # as the forward lays it out
    gradients = BACKWARD(dO, q, k, v, o, lse, p.dropout.p, causal, **more)
    for name, value in zip(("O", "LSE", "dQ", "dK", "dV"), (own, own_lse, *gradients), strict=True):
        outputs[name][...] = value.float().numpy().astype(outputs[name].dtype)
