"""Cases of dense attention in far batches, and far keys of a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeVar

from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.larger import Larger

Case = TypeVar("Case", bound=DenseCase)
# Batches are along z of a grid in many kernels, which has at most so many CTAs.
MAX_BATCHES = 2**16 - 1
FAR_ELEMENTS = 2**32  # of every tensor whose batches are far
# Keys of a sequence: of a grid with a CTA for every 8 rows along y or z, as the conversion of CUTLASS's.
MAX_KEYS = (2**16 - 1) * 8
FAR_KEYS = 2**30  # elements of far keys


def edges(case: Case, limit: int = 0, *, keys: bool = False) -> dict[str, Case]:
    """The case as a part of larger problems: in far batches, and with `keys` all its keys in far runs of a
    sequence. The larger problems have as many KV heads as so few batches, or keys, need to be so far.

    Without a `limit` every tensor has `FAR_ELEMENTS` where batches are far; with it the largest has less.
    Where keys are far, their tensors have more than `FAR_KEYS`.
    """
    tall, wide, low, narrow = (
        choose(pair) for choose in (max, min) for pair in ((case.m, case.n), (case.d_qk, case.d_v))
    )
    every, of_each = (limit, tall * wide) if limit else (FAR_ELEMENTS, low * narrow)
    heads = -(-every // (of_each * (MAX_BATCHES - 1)))
    each = [heads * rows * columns for rows in (case.m, case.n) for columns in (case.d_qk, case.d_v)]
    of = (limit - 1) // max(each) if limit else every // min(each) + 2
    found = {"far batches": _at(case, "b", of, each, heads)}
    if keys:
        of = MAX_KEYS // case.n
        heads = FAR_KEYS // (of * case.n * narrow) + 1
        each = [heads * case.n * columns for columns in (case.d_qk, case.d_v)]
        found["far keys"] = _at(case, "n", of, each, heads)
    return found


def _at(case: Case, axis: Literal["b", "n"], of: int, elements: list[int], heads: int) -> Case:
    """The case in the first and the last of `of` parts, and in those that hold element, or byte of a width,
    number 2^31 and 2^32 of tensors with so many `elements` in each part.
    """
    found = {2**bits // (each * size) for each in elements for bits in (31, 32) for size in (1, 2, 4)}
    at = tuple(sorted({0, of - 1, *(place for place in found if place < of)}))
    larger = Larger(axis, of, at, heads)
    if axis == "b":
        return replace(case, larger=larger, b=case.b * len(at))
    return replace(case, larger=larger, n=case.n * len(at))


def smaller(case: Case) -> Iterator[Case]:
    """A part of a larger problem by itself; one of its batches."""
    own = case.larger
    yield replace(case, larger=None)
    if own is not None and own.axis == "b" and len(own.at) > 1:
        for place in own.at:
            yield replace(case, b=case.b // len(own.at), larger=replace(own, at=(place,)))
