"""The blocked backward in torch with every stage stored, to debug an algorithm without a kernel.

Key blocks outermost, then query heads, then query blocks; only blocks in which some query sees some key are
computed. The key blocks are cut into `splits` runs; dQ is the sum of the runs' parts, first run first.
Arithmetic is f32; what a tensor core would read is rounded to the form of the inputs first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from tileproof.spec.machine.types import Index
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs, Sequence
from tileproof.spec.problems.dense_attention_bwd.masks import blocks

LOG2_E = math.log2(math.e)
Tensor = torch.Tensor


def backward(inputs: Inputs, rows: int, cols: int, outputs: Mapping[str, np.ndarray]) -> None:
    """Writes every stage into `outputs`, which are [b, heads, ...] (docs/dense-attention.md); query blocks of
    `rows`, key blocks of `cols`.
    """
    p = inputs.problem
    for sequence, seen in zip(p.sequences, inputs.masks, strict=True):
        pairs = blocks(p.mask, sequence.m, sequence.n, rows, cols)
        for kv_head in range(p.h_kv):
            _kv_head(inputs, sequence, kv_head, torch.tensor(seen), pairs, (rows, cols), outputs)


def _kv_head(
    inputs: Inputs,
    sequence: Sequence,
    kv_head: int,
    seen: Tensor,
    pairs: tuple[tuple[int, int], ...],
    size: tuple[int, int],
    outputs: Mapping[str, np.ndarray],
) -> None:
    p = inputs.problem
    k, v = (_f32(x[sequence.batch, sequence.keys, kv_head]) for x in (inputs.k, inputs.v))
    narrow = _rounding(p.form)
    run = -(-max(-(-sequence.n // size[1]), 1) // p.splits)
    runs = [range(split * run, (split + 1) * run) for split in range(p.splits)]
    dK, dV = torch.zeros(sequence.n, p.d_qk), torch.zeros(sequence.n, p.d_v)
    scale, rescale = torch.tensor(p.sm_scale).float(), torch.tensor(p.dropout.rescale).float()
    for head in range(kv_head * p.heads, (kv_head + 1) * p.heads):
        at = (sequence.batch, head)
        q, o, dO = (_f32(x[sequence.batch, sequence.queries, head]) for x in (inputs.q, inputs.o, inputs.dO))
        lse = torch.tensor(inputs.lse[sequence.batch, head, sequence.queries])
        kept = torch.tensor(np.ascontiguousarray(inputs.kept[(*at, sequence.queries, sequence.keys)]))
        bias = None if inputs.bias is None else _f32(inputs.bias[(*at, sequence.queries, sequence.keys)])
        delta = (o * dO).sum(dim=-1)
        _store(outputs, "delta", (*at, sequence.queries), delta)
        shown = [name for name in outputs if name.startswith("dQ_")]
        parts = torch.zeros(max(p.splits, len(shown)), sequence.m, p.d_qk)
        dB = torch.zeros(sequence.m, sequence.n)
        for query_block, key_block in pairs:
            i = slice(query_block * size[0], min((query_block + 1) * size[0], sequence.m))
            j = slice(key_block * size[1], min((key_block + 1) * size[1], sequence.n))
            P = q[i] @ k[j].T
            exponent = P * (scale * LOG2_E)
            if bias is not None:
                exponent = exponent + bias[i, j] * LOG2_E
            exponent = exponent - (lse[i] * LOG2_E)[:, None]
            S = torch.where(seen[i, j], torch.exp2(exponent), 0.0)
            D = torch.where(kept[i, j], S * rescale, 0.0)
            dD = dO[i] @ v[j].T
            dP = torch.where(kept[i, j], dD * rescale, 0.0)
            gradient = S * (dP - delta[i][:, None])
            dS = gradient * scale
            dB[i, j] = gradient
            D_operand, dS_operand = narrow(D), narrow(dS)
            dV[j] += D_operand.T @ dO[i]
            dK[j] += dS_operand.T @ q[i]
            for split, blocks_of in enumerate(runs):
                if key_block in blocks_of:
                    parts[split, i] += dS_operand @ k[j]
            place = (*at, _moved(sequence.queries, i), _moved(sequence.keys, j))
            for name, value in (("P", P), ("S", S), ("dD", dD), ("dP", dP)):
                _store(outputs, name, place, value)
            for name, value in (("D", D_operand), ("dS", dS_operand)):
                _store(outputs, name, place, value)
        dQ = parts[0]
        for part in parts[1 : p.splits]:
            dQ = dQ + part
        for name, part in zip(shown, parts, strict=False):
            _store(outputs, name, (*at, sequence.queries), part)
        _store(outputs, "dQ", (*at, sequence.queries), dQ)
        _store(outputs, "dB", (*at, sequence.queries, sequence.keys), dB)
    _store(outputs, "dK", (sequence.batch, kv_head, sequence.keys), dK)
    _store(outputs, "dV", (sequence.batch, kv_head, sequence.keys), dV)


def _f32(array: np.ndarray) -> Tensor:
    return torch.tensor(array.astype(np.float32))


def _rounding(form: str) -> Callable[[Tensor], Tensor]:
    """Rounds to the form of the operands and back."""
    narrow = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[form]
    return lambda x: x.to(narrow).float()


def _moved(whole: slice, part: slice) -> slice:
    """A part of a sequence in its packed axis."""
    return slice(whole.start + part.start, whole.start + part.stop)


def _store(outputs: Mapping[str, np.ndarray], name: str, at: Index, value: Tensor) -> None:
    outputs[name][at] = value.numpy().astype(outputs[name].dtype)
