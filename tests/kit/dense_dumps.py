"""Dumps of dense attention and of matrix products as a kernel would leave them, in this project's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import DTYPES, Inputs

Array = npt.NDArray[Any]
Mistakes = Mapping[str, Callable[[Any], Any]]


def dense_dump(
    case: DenseCase, mistakes: Mistakes | None = None, every_stage: bool = True
) -> dict[str, Array]:
    """Inputs ``[b, s, h, d]``, outputs likewise, stages ``[b, h, m, n]`` of a case without dropout. A
    stage of `mistakes` is changed where it is made.
    """
    x: Inputs = case.inputs()
    p, mistakes = x.problem, mistakes or {}
    own = DTYPES[p.form]
    grid = (p.b, p.h, p.m, p.n)
    made = {name: np.zeros(grid, np.float32) for name in ("P", "S", "dP")}
    made |= {"dS": np.zeros(grid, own), "delta": np.zeros(grid[:3], np.float32)}
    made |= {"dq": np.zeros(x.q.shape, own), "dk": np.zeros(x.k.shape, own), "dv": np.zeros(x.v.shape, own)}

    def kept(name: str, value: Array, dtype: Any) -> Array:
        value = mistakes[name](value) if name in mistakes else value
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(dtype)

    for sequence, seen in zip(p.sequences, x.masks, strict=True):
        b, rows, keys = sequence.batch, sequence.queries, sequence.keys
        for kv in range(p.h_kv):
            k, v = (array[b, keys, kv].astype(float) for array in (x.k, x.v))
            dk, dv = np.zeros(k.shape), np.zeros(v.shape)
            for h in range(kv * p.heads, (kv + 1) * p.heads):
                q, o, dO = (array[b, rows, h].astype(float) for array in (x.q, x.o, x.dO))
                delta = kept("delta", (o * dO).sum(1), np.float32)
                P = kept("P", q @ k.T, np.float32)
                logits = P.astype(float) * p.sm_scale
                if x.bias is not None:
                    logits = logits + x.bias[b, h, rows, keys].astype(float)
                with np.errstate(invalid="ignore", over="ignore"):
                    weights = np.where(seen, np.exp(logits - x.lse[b, h, rows].astype(float)[:, None]), 0)
                S = kept("S", weights, np.float32)
                dP = kept("dP", dO @ v.T, np.float32)
                dS = kept("dS", S.astype(float) * (dP.astype(float) - delta[:, None]) * p.sm_scale, own)
                stages = {"delta": delta, "P": P, "S": S, "dP": dP, "dS": dS}
                for name, value in stages.items():
                    at = (b, h, rows) if name == "delta" else (b, h, rows, keys)
                    made[name][at] = value
                made["dq"][b, rows, h] = kept("dq", dS.astype(float) @ k, own)
                dk += dS.astype(float).T @ q
                dv += S.astype(own).astype(float).T @ dO
            made["dk"][b, keys, kv], made["dv"][b, keys, kv] = kept("dk", dk, own), kept("dv", dv, own)
    inputs = {name: getattr(x, name) for name in ("q", "k", "v", "o", "dO", "lse")}
    packed = {} if x.cu_q is None else {"cu_seqlens_q": x.cu_q, "cu_seqlens_k": x.cu_k}
    bias = {} if x.bias is None else {"bias": x.bias}
    if not every_stage:
        made = {name: made[name] for name in ("dq", "dk", "dv")}
    return inputs | bias | packed | made | {"sm_scale": np.float64(p.sm_scale)}


def product_dump(
    M: int = 96, N: int = 40, K: int = 80, *, biased: bool = False, seed: int = 0
) -> dict[str, Array]:
    """A product in float64, rounded at its end."""
    rng = np.random.default_rng(seed)
    A, B = (rng.standard_normal((size, K)).astype(np.float16) for size in (M, N))
    product = (A.astype(float) @ B.astype(float).T).astype(np.float32)
    last = rng.standard_normal(N if biased else (M, N)).astype(np.float32)
    tensors = {"A": A, "B": B, "product": product, "alpha": np.float64(1.5)}
    if biased:
        return tensors | {"bias": last, "D": (1.5 * product + last).astype(ml_dtypes.bfloat16)}
    D = (1.5 * product.astype(float) - 0.5 * last.astype(float)).astype(np.float32)
    return tensors | {"C": last, "beta": np.float64(-0.5), "D": D}
