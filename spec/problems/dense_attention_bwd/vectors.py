"""Dense attention's cases of the released vectors (docs/vectors.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileproof.spec.problems.cases import VectorCase, in_classes
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase, Values

DENSE = DenseCase(m=20, n=24, d_qk=16, d_v=16)


def vector_cases() -> Iterator[VectorCase]:
    """60 small cases, 5 of production shape."""
    patterns: dict[str, tuple[DenseCase, tuple[str, ...]]] = {
        "all keys": (DENSE, ("N9",)),
        "causal": (replace(DENSE, right=0), ("N9",)),
        "causal from the bottom right": (replace(DENSE, align="bottom right", right=0, m=30), ("H2",)),
        "window": (replace(DENSE, left=5, right=0), ("N3",)),
        "grouped heads": (replace(DENSE, heads=3, h_kv=2), ("I9",)),
        "value head of its own": (replace(DENSE, d_v=24), ("L4",)),
        "bias": (replace(DENSE, bias=True), ("N2",)),
        "one key": (replace(DENSE, n=1), ("I3",)),
        "one query": (replace(DENSE, m=1), ("H6",)),
        "batches": (replace(DENSE, b=2, right=0), ("R7",)),
        "packed": (replace(DENSE, packed=((5, 9), (1, 1), (0, 4), (12, 7)), right=0), ("R25", "H1", "N22")),
        "many keys": (replace(DENSE, n=150), ("N21",)),
    }
    classes: tuple[Values, ...] = ("normal", "integers", "large", "tiny", "low")
    yield from in_classes(patterns, classes, 300)
    for number, (m, n) in enumerate(((512, 512), (256, 1024), (1024, 256), (384, 640), (128, 1024))):
        whole = DenseCase(
            m=m, n=n, d_qk=128, d_v=128, right=0, align="bottom right", values="normal", seed=400 + number
        )
        yield VectorCase(f"production {number + 1}", whole, ("N2",), True)
