"""A matrix product's cases of the released vectors (docs/vectors.md)."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.problems.cases import VectorCase
from tileproof.spec.problems.gemm.generator import GemmCase, Values


def vector_cases() -> Iterator[VectorCase]:
    """60 small cases, 5 of production shape."""
    kinds: tuple[Values, ...] = ("normal", "integers", "tiny")
    sizes = {"one tile": (1, 1, 1), "rows": (3, 1, 1), "columns": (1, 3, 1), "k": (1, 1, 4), "all": (2, 2, 2)}
    scalars = {"plain": (1.0, 0.0), "scaled": (-1.3, 0.0), "with C": (1.0, 1.0), "with C scaled": (0.5, -0.7)}
    for size, (m, n, k) in sizes.items():
        for words, (alpha, beta) in scalars.items():
            for kind in kinds:
                made = GemmCase(16, 16, m, n, k, alpha, beta, kind, seed=500)
                yield VectorCase(f"{size}, {words}, {kind}", made, ("R13", "R14", "H25"))
    for number, (m, n, k) in enumerate(((4, 4, 8), (8, 2, 4), (2, 8, 16), (1, 1, 32), (4, 2, 16))):
        whole = GemmCase(64, 64, m, n, k, 1.0, 0.5, "normal", seed=600 + number)
        yield VectorCase(f"production {number + 1}", whole, ("R13",), True)
