"""How far two float64 evaluations of the sparse MLA backward may be apart, per element, by a derivation.

u = 2^-53 is the unit roundoff. A sum of n rounded products in any order is within (n + 2) u of the sum of the
absolute products (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1, first order).
Errors of inputs are carried through each formula to first order; `SECOND_ORDER` covers the products of two
errors. Each evaluation may be off by the bound, so that their difference is within twice the bound.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask

F64 = npt.NDArray[np.float64]
U = 2.0**-53
EXP = 4.0  # ulp of exp, exp2 and log of a library, and of the argument's own rounding
SECOND_ORDER = 1.01


def bounds(inputs: Inputs, sink: F64 | None) -> dict[str, F64]:
    """dQ, dKV and d_sink: the largest difference of two evaluations on exact float64 inputs.

    lse of `inputs` is to base 2 and holds the sink; it may itself be wrong by the error of a forward.
    """
    p, mask = inputs.problem, key_mask(inputs)
    made = {"dQ": np.zeros((p.s_q, p.h_q, p.d_qk)), "dKV": np.zeros((p.s_kv, p.d_qk))}
    d_sink, terms = np.zeros(p.h_q), np.zeros((p.s_kv, p.d_qk))
    for t in range(p.s_q):
        rows = inputs.indices[t][mask[t]].astype(np.int64)
        q, dO = (np.abs(getattr(inputs, name)[t].astype(float)) for name in ("q", "dO"))
        k = np.abs(inputs.kv[rows].astype(float))
        v, lse = k[:, : p.d_v], inputs.lse[t].astype(float) / LOG2_E
        owned = ~np.isfinite(lse)
        lse = np.where(owned, 0.0, lse)
        logits = inputs.q[t].astype(float) @ inputs.kv[rows].astype(float).T * p.sm_scale
        S = np.where(owned[:, None], 0.0, np.exp(logits - lse[:, None]))
        off_logits = (p.d_qk + 4) * U * (q @ k.T) * p.sm_scale
        forward = off_logits.max(axis=1, initial=0.0) + U * (2 * EXP * np.abs(lse) + len(rows) + EXP)
        relative = off_logits + (forward + 2 * U * np.abs(lse))[:, None] + EXP * U * (1 + np.abs(logits))
        off_S = S * relative
        dP = dO @ v.T
        delta = (S * dP).sum(axis=1)
        off_delta = (off_S * dP).sum(axis=1) + (len(rows) + 2 * p.d_v + EXP) * U * delta
        spread = dP + delta[:, None]
        off_dS = p.sm_scale * (off_S * spread + S * ((p.d_v + EXP) * U * spread + off_delta[:, None]))
        dS = p.sm_scale * S * spread
        made["dQ"][t] = off_dS @ k + (len(rows) + 2) * U * (dS @ k)
        tile, off = dS.T @ q, off_dS.T @ q
        tile[:, : p.d_v] += S.T @ dO
        off[:, : p.d_v] += off_S.T @ dO
        np.add.at(terms, rows, tile)
        np.add.at(made["dKV"], rows, off)
        if sink is not None:
            finite = np.isfinite(sink) & ~owned
            x = np.where(finite, sink, 0.0)
            share = np.where(finite, np.exp(np.minimum(x - lse, 0.0)), np.isposinf(sink))
            off_share = share * (forward + EXP * U * (1 + np.abs(x) + np.abs(lse)))
            d_sink += off_share * delta + share * (off_delta + (p.s_q + 2) * U * delta)
    made["dKV"] += (p.s_q * (p.topk + p.h_q) + 4) * U * terms
    return {name: 2 * SECOND_ORDER * value for name, value in (made | {"d_sink": d_sink}).items()}
