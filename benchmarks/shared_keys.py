"""Should two neighbouring tokens of 64 heads share a pair of CTAs? `python benchmarks/shared_keys.py`.

Draws the keys that an indexer selects for two neighbouring tokens, counts how many they share, and what the
clocks of `tileproof time` make of it (docs/shared-keys.md). An indexer scores key s for a token by
sum over h of w_h ReLU(q_h . k_s), 64 heads of 128 (DeepSeek-V3.2), and selects the `--topk` highest. Keys are
random unit vectors; queries and weights of neighbouring tokens are normal with correlation `rho`. `--alone`
and `--pair` replace the clocks per 64 keys of head64's CTA and of head128-columns' pair.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from tileproof.conformance.beside.timing.kernel import time_kernel
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.timing import BLACKWELL

HEADS, WIDTH = 64, 128  # of the indexer
ROWS, BLOCK, D = 64, 64, 512  # heads of a token, keys of a k-block, d_qk and d_v
RHOS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
SHARES = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9)
FLOPS = 2 * ROWS * (3 * D + 2 * D)  # per token and key
# Between the k-blocks of shared keys and the others: Q and dO of the other layout are loaded, bf16, and the
# f32 sums of dQ so far are stored and added to, 64 x 512 each.
SWITCH_BYTES = 2 * ROWS * D * 2 + 2 * ROWS * D * 4


def shared(rho: float, s_kv: int, topk: int, rng: np.random.Generator) -> float:
    """The part of the `topk` keys of one token that its neighbour selects too."""
    keys = rng.standard_normal((s_kv, WIDTH), dtype=np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    queries = rng.standard_normal((2, HEADS, WIDTH), dtype=np.float32)
    weights = rng.standard_normal((2, HEADS), dtype=np.float32)
    for drawn in (queries, weights):
        drawn[1] = rho * drawn[0] + math.sqrt(1 - rho * rho) * drawn[1]
    sets = []
    for q, w in zip(queries, weights, strict=True):
        scores = np.maximum(keys @ q.T, 0) @ w
        sets.append(np.argpartition(scores, -topk)[-topk:])
    return len(np.intersect1d(*sets)) / topk


def blocks(keys: float) -> int:
    """K-blocks of so many keys."""
    return math.ceil(keys / BLOCK)


def tflops(topk: int, clocks: float) -> float:
    """Of two tokens, each with `topk` keys, on every pair of SMs at the likely clock."""
    return 2 * topk * FLOPS * (BLACKWELL.sms // 2) * BLACKWELL.clock.likely / clocks / 1000


def designs(part: float, topk: int, alone: float, pair: float) -> tuple[float, float, float]:
    """Clocks of two tokens that share `part` of their keys: each in its own CTA; shared keys in the pair, the
    others alone; all keys of either in the pair, the other token's rows masked.
    """
    switch = SWITCH_BYTES / BLACKWELL.copy_rate.likely
    own = blocks(topk) * alone
    both = blocks(part * topk) * pair + blocks((1 - part) * topk) * alone + switch
    union = blocks((2 - part) * topk) * pair
    return own, both, union


def likely(name: str, h_q: int) -> float:
    """Clocks per k-block that `tileproof time` says, d_qk 512."""
    found = kernel(name)
    return time_kernel(found, found.variant(h_q=h_q, d_qk=D)).report.clocks.likely


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s-kv", type=int, default=32768)
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", type=float)
    parser.add_argument("--pair", type=float)
    options = parser.parse_args()
    alone = options.alone or likely("head64", 64)
    pair = options.pair or likely("head128-columns", 128)
    print(f"clocks per {BLOCK} keys: a token alone in a CTA {alone:,.0f}, 128 rows in a pair {pair:,.0f}")
    print(f"the pair with all keys of either wins from {2 - alone / pair:.0%} shared keys on\n")
    print("TFLOPS, shared   own CTA   shared in the pair   all in the pair")
    for part in SHARES:
        rates = [tflops(options.topk, clocks) for clocks in designs(part, options.topk, alone, pair)]
        print(f"{part:14.0%}{rates[0]:10,.0f}{rates[1]:21,.0f}{rates[2]:18,.0f}")
    print(
        f"\nshared keys of {options.topk} among {options.s_kv}, {options.draws} draws: mean (least to most)"
    )
    rng = np.random.default_rng(options.seed)
    for rho in RHOS:
        parts = [shared(rho, options.s_kv, options.topk, rng) for _ in range(options.draws)]
        print(f"rho {rho:4.2f}  {np.mean(parts):6.1%} ({min(parts):.1%} to {max(parts):.1%})")


if __name__ == "__main__":
    main()
