"""Here P is the product q k^T, neither scaled nor masked, and S the softmax of it, as in FlashMLA.

FlashAttention and cuDNN's backward have them the other way: their S is what is called P here (scaled), and
their P is this S. A d before a letter is the gradient of the loss by it, and there lies the trap: what is
called dP here is dO v^T, the gradient by the softmax S (their dP, by their P); what is called dS here is the
gradient by the product, sm_scale included (their dS, by their S, is without the scale, which they apply to dQ
and dK). K and V are one array here, kv, so dK and dV are summed into one dKV. `lse` is in base 2 here and in
FlashMLA, natural in FlashAttention and cuDNN.
"""

from __future__ import annotations

ELSEWHERE = ("FlashAttention-2 (paper, algorithm 2)", "cuDNN (SDPA backward, SM100)", "FlashMLA (sparse)")

# Here, what it is, and the name in each of ELSEWHERE.
NAMES = (
    (
        "q k^T = P",
        "scores before scale and softmax",
        "S (scaled)",
        "S (scaled, masked)",
        "P (scaled, times log2(e))",
    ),
    ("S", "softmax probabilities", "P", "P", "S"),
    ("lse", "log-sum-exp of the scaled scores", "L, natural", "LSE, natural", "lse, base 2"),
    ("delta", "rowsum(o * dO) = rowsum(S * dP)", "D", "sum(dP * P)", "no backward"),
    ("dP", "dO v^T, gradient by S", "dP", "dP", "no backward"),
    ("dS", "S (dP - delta) sm_scale, gradient by P", "dS, without the scale", "dS", "no backward"),
    ("dQ", "dS k", "dQ", "dQ", "no backward"),
    ("dKV, columns < d_v", "S^T dO + dS^T q", "dV + dK", "dV + dK", "no backward"),
    ("dKV, the others", "dS^T q", "dK", "dK", "no backward"),
)
