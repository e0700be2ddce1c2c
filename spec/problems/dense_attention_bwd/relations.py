"""Relations between two runs of a dense attention backward: how outputs must change, or not, when the inputs
do.

None needs a reference. Both runs add in the same order, so the bits agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.dense_attention_bwd.inputs import Dropout, Inputs
from tileproof.spec.problems.dense_attention_bwd.masks import Mask
from tileproof.spec.problems.relation import Relation, same

Outputs = Mapping[str, Array]
OF_QUERIES, OF_KEYS = ("O", "LSE", "delta", "dQ"), ("dK", "dV")


def _order(inputs: Inputs, seed: int) -> tuple[Array, Array]:
    """A permutation of the KV heads, and that of the query heads that follow them; none under dropout, which
    counts heads.
    """
    p = inputs.problem
    order = np.arange(p.h_kv)
    if p.dropout.p == 0:
        order = np.random.default_rng(seed).permutation(p.h_kv)
    return order, (order[:, None] * p.heads + np.arange(p.heads)).reshape(-1)


def _permuted(inputs: Inputs, seed: int) -> Inputs:
    keys, queries = _order(inputs, seed)
    moved: dict[str, Array | None] = {name: getattr(inputs, name)[:, :, queries] for name in ("q", "o", "dO")}
    moved |= {name: getattr(inputs, name)[:, :, keys] for name in ("k", "v")}
    moved["lse"] = inputs.lse[:, queries]
    moved["bias"] = None if inputs.bias is None else inputs.bias[:, queries]
    contiguous = {n: np.ascontiguousarray(x) for n, x in moved.items() if x is not None}
    return replace(inputs, problem=inputs.problem, **contiguous)


def _heads_moved(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    keys, queries = _order(inputs, seed)
    wanted = {n: base[n][:, queries] for n in (*OF_QUERIES, "dB") if n in base}
    return same(wanted | {n: base[n][:, keys] for n in OF_KEYS if n in base}, changed)


def _scale(seed: int) -> float:
    rng = np.random.default_rng(seed)
    return float(rng.choice([-1.0, 1.0])) * 2.0 ** int(rng.integers(1, 3))


def _scaled(inputs: Inputs, seed: int) -> Inputs:
    scaled = inputs.dO.astype(np.float32) * np.float32(_scale(seed))
    return replace(inputs, dO=scaled.astype(inputs.dO.dtype))


def _all_scaled(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    """Where what is scaled is neither subnormal in the outputs' form nor past its largest number; in f16
    what gradients are made of may be.
    """
    narrow = inputs.problem.form == "f16"
    for name in ("delta",) if narrow else ("delta", "dB", "dQ", "dK", "dV"):
        if name in base:
            first, second = (x[name].astype(np.float64) for x in (base, changed))
            plain = (np.abs(first) > 2.0**-12) & (np.abs(first) < 2.0**12)
            if (first * _scale(seed) != second)[plain].any():
                return name
    return ""


def _zero(inputs: Inputs, seed: int) -> Inputs:
    del seed
    return replace(inputs, dO=np.zeros_like(inputs.dO))


def _all_zero(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed, base
    names = ("delta", "dB", "dQ", "dK", "dV")
    return next((n for n in names if n in changed and changed[n].astype(np.float32).any()), "")


def _unseen(inputs: Inputs) -> Array:
    """``bool [b, n]``: keys that no query sees."""
    p = inputs.problem
    unseen = np.ones((p.b, p.n), bool)
    for sequence, seen in zip(p.sequences, inputs.masks, strict=True):
        unseen[sequence.batch, sequence.keys] = ~seen.any(axis=0)
    return unseen


def _others_unseen(inputs: Inputs, seed: int) -> Inputs:
    """Other values in the keys that no query sees."""
    rng, where = np.random.default_rng(seed), _unseen(inputs)[:, :, None, None]
    changed = {}
    for name in ("k", "v"):
        own = getattr(inputs, name)
        changed[name] = np.where(where, rng.integers(-3, 4, own.shape).astype(own.dtype), own)
    return replace(inputs, **changed)


def _nothing_changed(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    """And what no query sees, or sees no key, has no gradient at all."""
    del seed
    for name in OF_KEYS:
        unseen = np.broadcast_to(_unseen(inputs)[:, None], base[name].shape[:3]) if name in base else None
        if unseen is not None and base[name].astype(np.float32)[unseen].any():
            return name
    blind = np.ones((inputs.problem.b, inputs.problem.m), bool)
    for at, seen in zip(inputs.problem.sequences, inputs.masks, strict=True):
        blind[at.batch, at.queries] = ~seen.any(axis=1)
    for name in ("O", "dQ"):
        if name in base and base[name].swapaxes(1, 2)[blind].astype(np.float32).any():
            return name
    return same({n: base[n] for n in ("O", *OF_KEYS, "dQ", "delta") if n in base}, changed)


def _alone(inputs: Inputs, seed: int) -> Inputs:
    """The first sequence by itself: of packed sequences, unpacked."""
    del seed
    p = inputs.problem
    first = next((sequence for sequence in p.sequences if sequence.m and sequence.n), p.sequences[0])
    arrays: dict[str, Array | None] = {n: getattr(inputs, n)[:1, first.queries] for n in ("q", "o", "dO")}
    arrays |= {n: getattr(inputs, n)[:1, first.keys] for n in ("k", "v")}
    arrays["lse"] = inputs.lse[:1, :, first.queries]
    arrays["bias"] = None if inputs.bias is None else inputs.bias[:1]
    if not (first.m and first.n):
        return inputs
    problem = replace(p, b=1, m=first.m, n=first.n, packed=None)
    contiguous = {n: np.ascontiguousarray(x) for n, x in arrays.items() if x is not None}
    return replace(inputs, problem=problem, **contiguous)


def _as_among_others(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del seed
    first = next((at for at in inputs.problem.sequences if at.m and at.n), None)
    if first is None:
        return same(dict(base), changed)
    wanted = {n: base[n][:1, :, first.queries] for n in OF_QUERIES if n in base}
    return same(wanted | {n: base[n][:1, :, first.keys] for n in OF_KEYS if n in base}, changed)


def _wide_window(inputs: Inputs, seed: int) -> Inputs:
    """Limits that let everything through in the place of none; a dropout of 0 from another stream."""
    p = inputs.problem
    mask = Mask(p.mask.align, p.m + p.n, p.m + p.n) if p.mask == Mask(p.mask.align) else p.mask
    dropout = Dropout(0.0, seed, 4 * seed) if p.dropout.p == 0 else p.dropout
    return replace(inputs, problem=replace(p, mask=mask, dropout=dropout))


def _the_same(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed
    return same(dict(base), changed)


RELATIONS = (
    Relation("permuted heads", "outputs move with the heads", _permuted, _heads_moved),
    Relation("scaled dO", "every gradient is scaled by the same power of two", _scaled, _all_scaled),
    Relation("zero dO", "no gradient from above, none below", _zero, _all_zero),
    Relation("unseen keys", "what is masked has no gradient and no effect", _others_unseen, _nothing_changed),
    Relation("split sequences", "a sequence alone gives the same as among others", _alone, _as_among_others),
    Relation("no limit", "limits past every key, and a dropout of 0, are none", _wide_window, _the_same),
)
