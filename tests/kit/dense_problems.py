"""Small dense attention problems whose o and lse are not rounded, for tests of the reference."""

from __future__ import annotations

from typing import Any

from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.forward import with_forward
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs

CUT = Tiling(32, 1, (("n", 48, 1),))


def exact(case: DenseCase) -> Inputs:
    """The case with o and lse in float64."""
    own = case.inputs()
    arrays: dict[str, Any] = {name: getattr(own, name) for name in ("q", "k", "v", "dO", "bias")}
    return with_forward(own.problem, exact=True, **arrays)


def small(**changes: Any) -> DenseCase:
    """Ragged sizes, three heads of two KV heads, a causal mask: the least on which a planted error shows."""
    sizes = {"m": 50, "n": 70, "h_kv": 2, "heads": 3, "d_qk": 24, "d_v": 16, "right": 0, "seed": 5}
    return DenseCase(**{**sizes, **changes})
