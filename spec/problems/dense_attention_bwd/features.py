"""Features of dense attention by name: the features of a problem, and a case without some of them."""

from __future__ import annotations

from dataclasses import replace

from tileproof.spec.machine.types import UncheckedObject
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
TOP_LEFT = "a mask from the top left of unequal lengths"
BEHIND = "a window that ends before the diagonal"
EMPTY = "a sequence without queries or keys"
PACKED_LIMITS = "packed sequences with a limit beside the diagonal"
PACKED_WINDOW = "packed sequences with a sliding window"
PACKED_CORNER = "packed sequences with a mask from the bottom right of unequal lengths"
ONE_EACH = "one query and one key"
SPLIT = "split keys"  # a kernel has it by its problem type: no call finds it
BLIND, LENGTHS, WIDE = "a query that sees no key", "fewer or more queries than keys", "heads wider than 128"
FEATURES = (
    GROUPED, VALUE_HEAD, BIAS, DROPOUT, PACKED, EMPTY, CAUSAL, BOTTOM_RIGHT, TOP_LEFT, WINDOW, BEHIND, BLIND,
    LENGTHS, WIDE, PACKED_LIMITS, PACKED_WINDOW, PACKED_CORNER, ONE_EACH,
)  # fmt: skip
NARROW = 128


def of(p: DenseProblem, bias: bool) -> frozenset[str]:
    """The features that a problem has."""
    mask = p.mask
    limited = mask.left is not None or mask.right is not None
    causal = (mask.left, mask.right) == (None, 0)
    lengths = {(sequence.m, sequence.n) for sequence in p.sequences}
    unequal = any(m != n for m, n in lengths)
    has = {
        GROUPED: p.heads > 1,
        VALUE_HEAD: p.d_v != p.d_qk,
        BIAS: bias,
        DROPOUT: p.dropout.p > 0,
        PACKED: p.packed is not None,
        EMPTY: any(0 in pair for pair in lengths),
        CAUSAL: causal,
        BOTTOM_RIGHT: limited and mask.align == "bottom right" and unequal,
        TOP_LEFT: limited and mask.align == "top left" and unequal,
        WINDOW: limited and not causal,
        BEHIND: mask.right is not None and mask.right < 0,
        BLIND: any(_blind(p, m, n) for m, n in lengths),
        LENGTHS: unequal,
        WIDE: max(p.d_qk, p.d_v) > NARROW,
        PACKED_LIMITS: p.packed is not None and limited and mask.right != 0,
        PACKED_WINDOW: p.packed is not None and mask.left is not None,
        PACKED_CORNER: p.packed is not None and limited and unequal and mask.align == "bottom right",
        SPLIT: p.splits > 1,
        ONE_EACH: [max(size) for size in zip(*lengths, strict=True)] == [1, 1],
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
    if EMPTY in refused and case.packed is not None:
        case = replace(case, packed=tuple((max(m, 1), max(n, 1)) for m, n in case.packed))
    if GROUPED in refused:
        case = replace(case, h_kv=case.h_kv * case.heads, heads=1)
    if WIDE in refused:
        case = replace(case, d_qk=min(case.d_qk, NARROW), d_v=min(case.d_v, NARROW))
    if VALUE_HEAD in refused:
        case = replace(case, d_v=case.d_qk)
    if BIAS in refused:
        case = replace(case, bias=False)
    if DROPOUT in refused:
        case = replace(case, dropout=0.0, stream=(0, 0), by_block=False)
    if LENGTHS in refused and case.packed is None:
        case = replace(case, n=case.m)
    for name, simpler in (
        (WINDOW, {"left": None, "right": 0}),
        (BEHIND, {"right": 0}),
        (BOTTOM_RIGHT, {"align": "top left"}),
        (TOP_LEFT, {"align": "bottom right"}),
        (CAUSAL, {"left": None, "right": None}),
        (BLIND, {"left": None, "right": None}),
        (PACKED_LIMITS, {"left": None, "right": None}),
        (PACKED_WINDOW, {"left": None}),
        (PACKED_CORNER, {"align": "top left"}),
    ):
        if name in refused and name in of(case.problem, case.bias):
            case = replace(case, **simpler)  # type: ignore[arg-type]
    if ONE_EACH in refused and ONE_EACH in of(case.problem, case.bias):
        packed = case.packed and ((2, case.packed[0][1]), *case.packed[1:])
        case = replace(case, m=2, packed=packed)
    return case


def sample(feature: str, form: str = "bf16") -> DenseCase:
    """A small case with this feature, and no other that it does without."""
    return DenseCase(**{"form": form, "m": 8, "n": 8, "d_qk": 16, "d_v": 16, **_SAMPLES[feature]})


_SAMPLES: dict[str, UncheckedObject] = {
    GROUPED: {"heads": 2},
    VALUE_HEAD: {"d_v": 24},
    BIAS: {"bias": True},
    DROPOUT: {"dropout": 0.5, "stream": (7, 8)},
    PACKED: {"packed": ((5, 5), (3, 3))},
    EMPTY: {"packed": ((5, 5), (0, 3), (2, 0))},
    CAUSAL: {"right": 0},
    BOTTOM_RIGHT: {"right": 0, "align": "bottom right", "n": 9},
    TOP_LEFT: {"right": 0, "n": 9},
    WINDOW: {"left": 2, "right": 1},
    BEHIND: {"left": 5, "right": -1},
    BLIND: {"m": 9, "n": 4, "right": 0, "align": "bottom right"},
    LENGTHS: {"n": 9},
    WIDE: {"d_qk": 256, "d_v": 256},
    PACKED_LIMITS: {"packed": ((5, 5), (3, 3)), "right": 1},
    PACKED_WINDOW: {"packed": ((5, 5), (3, 3)), "left": 2, "right": 0},
    PACKED_CORNER: {"packed": ((5, 6), (3, 4)), "right": 0, "align": "bottom right"},
    ONE_EACH: {"m": 1, "n": 1},
}
