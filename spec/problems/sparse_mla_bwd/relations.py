"""Relations between two runs: how outputs must change, or not, when the inputs do.

None needs a reference. The two runs must be under the same schedule, since rows of dKV are sums in the order
of their additions; then the bits agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.relation import Relation, same
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

Outputs = Mapping[str, Array]


def _of_heads(rng: np.random.Generator, inputs: Inputs) -> Array:
    return np.random.default_rng(int(rng.integers(1 << 32))).permutation(inputs.problem.h_q)


def _permuted_heads(inputs: Inputs, seed: int) -> Inputs:
    order = _of_heads(np.random.default_rng(seed), inputs)
    names = ("q", "o", "dO", "lse")
    moved = {n: np.ascontiguousarray(getattr(inputs, n)[:, order]) for n in names}
    return replace(inputs, problem=inputs.problem, **moved)


def _heads_moved(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    order = _of_heads(np.random.default_rng(seed), inputs)
    return same({n: base[n][:, order] for n in ("delta", "dQ") if n in base}, changed)


def _scale(inputs: Inputs, seed: int) -> float:
    """A power of two, positive or negative; in f16 -1: dS below 2^-14 has fewer bits there."""
    if inputs.problem.form == "f16":
        return -1.0
    rng = np.random.default_rng(seed)
    return float(rng.choice([-1.0, 1.0])) * 2.0 ** int(rng.integers(1, 6))


def _scaled(inputs: Inputs, seed: int) -> Inputs:
    scaled = inputs.dO.astype(np.float32) * np.float32(_scale(inputs, seed))
    return replace(inputs, dO=scaled.astype(inputs.dO.dtype))


def _all_scaled(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    scale = _scale(inputs, seed)
    for name in ("delta", "dQ", "dKV"):
        if name in base and (base[name].astype(np.float64) * scale != changed[name].astype(np.float64)).any():
            return name
    return ""


def _zero(inputs: Inputs, seed: int) -> Inputs:
    del seed
    return replace(inputs, dO=np.zeros_like(inputs.dO))


def _all_zero(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed, base
    names = ("delta", "dQ", "dKV")
    return next((n for n in names if n in changed and changed[n].astype(np.float32).any()), "")


def _with_holes(inputs: Inputs, seed: int) -> Inputs:
    """A tile of invalid indices behind the keys of each token; lengths become invalid indices."""
    p = inputs.problem
    rng = np.random.default_rng(seed)
    indices = inputs.indices.copy()
    if inputs.topk_length is not None:
        ends = np.clip(inputs.topk_length, 0, p.topk)
        indices[np.arange(p.topk)[None, :] >= ends[:, None]] = -1
    holes = rng.choice([-1, p.s_kv, 2**31 - 1, -(2**31)], (p.s_q, 64)).astype(indices.dtype)
    longer = np.concatenate([indices, holes], axis=1)
    return replace(inputs, problem=replace(p, topk=p.topk + 64), indices=longer, topk_length=None)


def _nothing_changed(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed
    return same({n: base[n] for n in ("delta", "dQ") if n in base}, changed)


def _first_token(inputs: Inputs, seed: int) -> Inputs:
    del seed
    names = ("q", "o", "dO", "lse", "indices", "topk_length")
    parts = {n: getattr(inputs, n) for n in names}
    alone = {n: np.ascontiguousarray(v[:1]) for n, v in parts.items() if v is not None}
    return replace(inputs, problem=replace(inputs.problem, s_q=1), **alone)


def _as_among_others(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed
    return same({n: base[n][:1] for n in ("delta", "dQ") if n in base}, changed)


def _places(seed: int, s_kv: int) -> Array:
    return np.random.default_rng(seed).permutation(s_kv)


def _moved_rows(inputs: Inputs, seed: int) -> Inputs:
    """Row r of kv moves to place[r], and the indices follow."""
    place = _places(seed, inputs.problem.s_kv)
    kv = np.empty_like(inputs.kv)
    kv[place] = inputs.kv
    known = (inputs.indices >= 0) & (inputs.indices < inputs.problem.s_kv)
    moved = place[np.where(known, inputs.indices, 0)].astype(inputs.indices.dtype)
    return replace(inputs, kv=kv, indices=np.where(known, moved, inputs.indices))


def _rows_moved(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    place = _places(seed, inputs.problem.s_kv)
    wanted: dict[str, Array] = {n: base[n] for n in ("delta", "dQ") if n in base}
    if "dKV" in base:
        wanted["dKV"] = np.empty_like(base["dKV"])
        wanted["dKV"][place] = base["dKV"]
    return same(wanted, changed)


RELATIONS = (
    Relation("permuted heads", "delta and dQ move with the heads", _permuted_heads, _heads_moved),
    Relation(
        "scaled dO", "every gradient is scaled by the same power of two (f16: by -1)", _scaled, _all_scaled
    ),
    Relation("zero dO", "no gradient from above, none below", _zero, _all_zero),
    Relation("appended holes", "a tile without keys changes nothing", _with_holes, _nothing_changed),
    Relation("split tokens", "a token alone gives the same as among others", _first_token, _as_among_others),
    Relation("moved rows", "rows of kv elsewhere give rows of dKV elsewhere", _moved_rows, _rows_moved),
)
