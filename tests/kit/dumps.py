"""Dumps of the sparse MLA backward as a kernel would leave them, with mistakes planted in its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask

BF16 = np.dtype(ml_dtypes.bfloat16)
Array = npt.NDArray[Any]
Mistakes = Mapping[str, Callable[[Any, Any], Any]]


def inputs(
    s_q: int = 2, h_q: int = 8, topk: int = 100, s_kv: int = 300, seed: int = 0, lengths: bool = True
) -> Inputs:
    """A small problem with holes, repeats and a topk that is no multiple of a k-block."""
    rng = np.random.default_rng(seed)
    problem = Problem(s_q, s_kv, h_q, 576, topk, 192**-0.5)
    indices = rng.integers(0, s_kv, (s_q, topk)).astype(np.int32)
    indices[0, 3], indices[-1, 7] = -1, s_kv
    arrays: dict[str, Any] = {
        name: rng.standard_normal(problem.shapes()[name][0], dtype=np.float32).astype(BF16)
        for name in ("q", "kv", "dO")
    }
    length = np.linspace(topk, topk // 2, s_q).astype(np.int32) if lengths else None
    return with_forward(problem, indices=indices, topk_length=length, **arrays)


def dump(x: Inputs, mistakes: Mistakes | None = None, dkv_dtype: Any = np.float32) -> dict[str, Array]:
    """Inputs, stages and outputs by this project's names; each stage of `mistakes` is changed where it is
    made: a function of its value and of what the token has so far, before later stages read it.
    """
    p, mistakes = x.problem, mistakes or {}
    made: dict[str, list[Array]] = {name: [] for name in ("delta", "P", "S", "dP", "dS", "dq")}
    dkv = np.zeros((p.s_kv, p.d_qk))
    mask = key_mask(x)
    for token in range(p.s_q):
        t: dict[str, Array] = {name: getattr(x, name)[token].astype(np.float64) for name in ("q", "o", "dO")}
        t["k"] = np.where(mask[token][:, None], x.kv[x.indices[token].clip(0, p.s_kv - 1)], 0).astype(float)
        t["lse"], t["mask"] = x.lse[token].astype(np.float64), mask[token]

        def keep(name: str, value: Array, dtype: Any = np.float32, t: dict[str, Array] = t) -> Array:
            value = mistakes[name](value, t) if name in mistakes else value
            with np.errstate(over="ignore"):
                t[name] = value.astype(dtype).astype(np.float64)
            made[name].append(value.astype(dtype))
            return t[name]

        delta = keep("delta", (t["o"] * t["dO"]).sum(1))
        P = keep("P", t["q"] @ t["k"].T)
        S = keep("S", np.where(mask[token], np.exp2(P * p.sm_scale * np.log2(np.e) - t["lse"][:, None]), 0.0))
        dP = keep("dP", t["dO"] @ t["k"][:, : p.d_v].T)
        dS = keep("dS", S * (dP - delta[:, None]) * p.sm_scale).astype(BF16).astype(float)
        keep("dq", dS @ t["k"], BF16)
        tile = dS.T @ t["q"]
        tile[:, : p.d_v] += S.astype(BF16).astype(float).T @ t["dO"]
        tile = mistakes["dkv"](tile, t) if "dkv" in mistakes else tile
        own = dkv, x.indices[token][mask[token]], tile[mask[token]]
        if "scatter" in mistakes:
            mistakes["scatter"](own, t | {"first": np.array(token == 0)})
        else:
            np.add.at(*own)
    arrays = {name: getattr(x, name) for name in ("q", "kv", "o", "dO", "lse", "indices")}
    lengths = {} if x.topk_length is None else {"topk_length": x.topk_length}
    scale = {"sm_scale": np.float64(p.sm_scale)}
    return (
        arrays | lengths | scale | {n: np.stack(v) for n, v in made.items()} | {"dkv": dkv.astype(dkv_dtype)}
    )


STAGES = ("delta", "P", "S", "dP", "dS")


def outputs_only(tensors: dict[str, Array]) -> dict[str, Array]:
    """The dump without the intermediate stages."""
    return {name: value for name, value in tensors.items() if name not in STAGES}


def with_sums(x: Inputs, tensors: dict[str, Array]) -> Array:
    """f32 ``[s_q, k-blocks, h_q, d_qk]``: dq after each k-block of 64 slots, from the dump's dS."""
    p, mask = x.problem, key_mask(x)
    slots = np.arange(p.topk)
    made = []
    for token in range(p.s_q):
        k = np.where(mask[token][:, None], x.kv[x.indices[token].clip(0, p.s_kv - 1)], 0).astype(float)
        dS = tensors["dS"][token].astype(BF16).astype(float)
        made.append([np.where(slots < end, dS, 0) @ k for end in range(64, p.topk + 64, 64)])
    return np.array(made, np.float32)
