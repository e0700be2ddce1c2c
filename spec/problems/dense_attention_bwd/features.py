"""Features of dense attention by name: what a problem has of them, and the case without some of them."""

from __future__ import annotations

from dataclasses import replace

from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem

GROUPED, VALUE_HEAD, BIAS, DROPOUT, PACKED = (
    "grouped heads",
    "a value head of its own",
    "a bias",
    "dropout",
    "packed sequences",
)
CAUSAL, BOTTOM_RIGHT, WINDOW = "a causal mask", "a mask from the bottom right", "a sliding window"
BLIND, LENGTHS, WIDE = "a query that sees no key", "fewer or more queries than keys", "heads wider than 128"
FEATURES = (
    GROUPED, VALUE_HEAD, BIAS, DROPOUT, PACKED, CAUSAL, BOTTOM_RIGHT, WINDOW, BLIND, LENGTHS, WIDE,
)  # fmt: skip
NARROW = 128


def of(p: DenseProblem, bias: bool) -> frozenset[str]:
    """The features that a problem has."""
    mask = p.mask
    limited = mask.left is not None or mask.right is not None
    causal = (mask.left, mask.right) == (None, 0)
    unequal = any(one.m != one.n for one in p.sequences)
    has = {
        GROUPED: p.heads > 1,
        VALUE_HEAD: p.d_v != p.d_qk,
        BIAS: bias,
        DROPOUT: p.dropout.p > 0,
        PACKED: p.packed is not None,
        CAUSAL: causal,
        BOTTOM_RIGHT: limited and mask.align == "bottom right" and unequal,
        WINDOW: limited and not causal,
        BLIND: any(_blind(p, one.m, one.n) for one in p.sequences),
        LENGTHS: unequal,
        WIDE: max(p.d_qk, p.d_v) > NARROW,
    }
    return frozenset(name for name, there in has.items() if there)


def _blind(p: DenseProblem, m: int, n: int) -> bool:
    low, high = p.mask.limits(m, n)
    return bool((low >= high).any())


def without(case: DenseCase, refused: frozenset[str]) -> DenseCase:
    """The case without these features, each left out in a fixed way, so that the rest of it stays."""
    if PACKED in refused and case.packed is not None:
        m, n = (max(sum(x), 1) for x in zip(*case.packed, strict=True))
        case = replace(case, packed=None, m=m, n=n)
    if GROUPED in refused:
        case = replace(case, h_kv=case.h_kv * case.heads, heads=1)
    if WIDE in refused:
        case = replace(case, d_qk=min(case.d_qk, NARROW), d_v=min(case.d_v, NARROW))
    if VALUE_HEAD in refused:
        case = replace(case, d_v=case.d_qk)
    if BIAS in refused:
        case = replace(case, bias=False)
    if DROPOUT in refused:
        case = replace(case, dropout=0.0, stream=(0, 0))
    if LENGTHS in refused and case.packed is None:
        case = replace(case, n=case.m)
    for name, simpler in (
        (WINDOW, {"left": None, "right": 0}),
        (BOTTOM_RIGHT, {"align": "top left"}),
        (CAUSAL, {"left": None, "right": None}),
        (BLIND, {"left": None, "right": None}),
    ):
        if name in refused and name in of(case.problem, case.bias):
            case = replace(case, **simpler)  # type: ignore[arg-type]
    return case
