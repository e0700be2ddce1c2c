"""Sparse MLA's cases of the released vectors (docs/vectors.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileproof.spec.problems.cases import VectorCase, in_classes
from tileproof.spec.problems.sparse_mla_bwd import values
from tileproof.spec.problems.sparse_mla_bwd.case import INT_MAX, Indices, Order, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

HEADS = 4
OF_A_KERNEL = ("random keys, normal", "sentinels, integers", "repeated keys, integers")  # with 64 heads
SPARSE = SparseCase(512, 12, 1, (Indices("random"),) * 2, values="normal", h_q=64)
_HOLES = ((0, -1), (9, 12), (17, -2), (40, INT_MAX), (63, -1))


def vector_cases() -> Iterator[VectorCase]:
    """60 small cases, 5 of production shape."""
    patterns: dict[str, tuple[SparseCase, tuple[str, ...]]] = {
        "random keys": (SPARSE, ("N9",)),
        "wide keys": (replace(SPARSE, d_qk=576), ("L2",)),
        "sentinels": (
            replace(SPARSE, tokens=(Indices("random", ((3, -1), (4, -1))), Indices())), ("I1", "I3"),
        ),
        "invalid indices": (replace(SPARSE, tokens=(Indices("random", _HOLES),) * 2), ("I2", "I13", "N3")),
        "poisoned rows": (
            replace(SPARSE, s_kv=40, tokens=(Indices("random", _HOLES),), poison=True), ("I4", "I6", "N20"),
        ),
        "repeated keys": (replace(SPARSE, tokens=(Indices("repeated"), Indices("same"))), ("I9", "I10")),
        "lengths": (replace(SPARSE, tokens=(Indices("random"),) * 4, lengths=(1, 63, 64, 70)), ("I8",)),
        "garbage behind the length": (replace(SPARSE, lengths=(7, 40), garbage_tail=True), ("I7",)),
        "a token without a key": (replace(SPARSE, lengths=(0, 64)), ("H1", "N22")),
        "a first k-block without a key": (
            replace(SPARSE, blocks=2, tokens=tuple(Indices("random", (), (b,)) for b in (0, 1))), ("I5",),
        ),
        "many k-blocks": (replace(SPARSE, blocks=4, tokens=(Indices("runs"),)), ("R2", "H22")),
        "extreme lse": (replace(SPARSE, lse_extremes=True), ("N5", "N6")),
    }  # fmt: skip
    classes: tuple[values.Values, ...] = ("normal", "integers", "large", "tiny", "mixed")
    for small in in_classes(patterns, classes, 100):
        yield small if small.name in OF_A_KERNEL else replace(small, cut=_first_heads)
    wide: tuple[tuple[Order, values.Values], ...] = (
        ("permuted", "normal"), ("runs", "normal"), ("recent", "large"), ("same", "normal"),
        ("random", "mixed"),
    )  # fmt: skip
    for number, (order, kind) in enumerate(wide):
        whole = SparseCase(
            576, 768, 32, (Indices(order),), values=kind, seed=200 + number, h_q=128, scale=192**-0.5
        )
        yield VectorCase(f"production {number + 1}", whole, ("L2", "N2"), True)


def _first_heads(whole: Inputs) -> Inputs:
    sliced = {name: getattr(whole, name)[:, :HEADS] for name in ("q", "o", "dO", "lse")}
    return replace(whole, problem=replace(whole.problem, h_q=HEADS), **sliced)
