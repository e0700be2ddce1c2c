"""A larger problem of dense attention that a case is part of: far batches, or far keys of a sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.lazy import MAX_BYTES, lazy_zeros
from tileproof.spec.problems.cases import Spread
from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem, Inputs

PITCH = 8  # rows of a head of an output are padded to a multiple of it, or not at all

# Of each tensor, the axes along which batches, keys and heads lie; -1: none.
_AXES = {
    "q": (0, -1, 2), "k": (0, 1, 2), "v": (0, 1, 2), "o": (0, -1, 2), "dO": (0, -1, 2), "lse": (0, -1, 1),
    "bias": (0, 3, 1),
}  # fmt: skip
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Larger:
    """A problem with `of` parts along `axis`, batches or equal runs of keys, and `heads` KV heads. The parts
    of the case are those `at`; its heads are the last.
    """

    axis: Literal["b", "n"]
    of: int
    at: tuple[int, ...]
    heads: int

    def check(self, p: DenseProblem) -> None:
        """ValueError unless the problem is that of a part of the larger problem."""
        if self.axis not in ("b", "n") or any(
            type(number) is not int for number in (self.of, self.heads, *self.at)
        ):
            raise ValueError("the axis is b or n, the others are integers")
        if not self.at or sorted(set(self.at)) != list(self.at) or self.at[0] < 0 or self.at[-1] >= self.of:
            raise ValueError(f"the places increase and are below {self.of}")
        if getattr(p, self.axis) % len(self.at) or p.m % PITCH or p.packed is not None or p.dropout.p:
            raise ValueError(
                f"{self.axis} is a multiple of the number of places, m of {PITCH}, without packed sequences"
                " and dropout"
            )
        if self.heads < p.h_kv:
            raise ValueError(f"there are at least {p.h_kv} KV heads")
        if max(math.prod(shape) for shape, _ in self.problem(p).shapes().values()) > MAX_BYTES // 8:
            raise ValueError("a tensor of the larger problem is too large")

    def problem(self, p: DenseProblem) -> DenseProblem:
        """The larger problem's sizes."""
        size = self.of * self._step(p)
        b, n = (size, p.n) if self.axis == "b" else (p.b, size)
        return replace(p, b=b, n=n, h_kv=self.heads, h=self.heads * p.heads)

    def spread(self, inputs: Inputs) -> Spread:
        """The larger problem of these inputs, whose groups are KV heads of a batch, or their runs of keys."""
        p, larger = inputs.problem, self.problem(inputs.problem)
        places = _places(self.at, self._step(p))
        heads, queries = np.arange(larger.h_kv)[-p.h_kv :], np.arange(larger.h)[-p.h :]
        batches, keys = (places, np.arange(p.n)) if self.axis == "b" else (np.arange(p.b), places)
        arrays = {}
        for name, (shape, dtype) in larger.shapes().items():
            own = getattr(inputs, name)
            if own is not None:
                arrays[name] = lazy_zeros(shape, dtype)
                along = (batches, keys, queries if shape[_AXES[name][2]] == larger.h else heads)
                where = {axis: place for axis, place in zip(_AXES[name], along, strict=True) if axis >= 0}
                arrays[name][np.ix_(*(where.get(n, np.arange(size)) for n, size in enumerate(own.shape)))] = (
                    own
                )
        parts = self.of if self.axis == "n" else 1
        runs = np.array(self.at) if self.axis == "n" else np.arange(1)
        groups = (batches[:, None] * larger.h_kv + heads)[..., None] * parts + runs
        rows = (batches[:, None] * larger.h + queries)[..., None] * p.m + np.arange(p.m)
        at = {
            "b": batches,
            "sequence": batches,
            "n": keys,
            "h_kv": heads,
            "h": queries,
            "rows": rows.reshape(-1),
        }
        whole = replace(inputs, problem=larger, **arrays)
        return Spread(whole, larger.b * larger.h_kv * parts, tuple(groups.reshape(-1).tolist()), at)

    def _step(self, p: DenseProblem) -> int:
        """Batches, or keys, of a part."""
        size: int = getattr(p, self.axis)
        return size // len(self.at)


def _places(at: tuple[int, ...], step: int) -> I64:
    return (np.array(at, np.int64)[:, None] * step + np.arange(step)).reshape(-1)
