"""TileLang's output on the emulator: a right kernel under every policy, a defect of its compiler found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tilelang", reason="tilelang is not installed: requirements-outside.txt")

from tileproof.emulator import LaunchResult

from tests.kit.outside.explained import POLICIES, written_up
from tests.kit.outside.tilelang_host import Lowered, lower
from tests.kit.outside.tilelang_kernels import matmul

SIZE = 256


def launched(kernel: Lowered, **how: Any) -> tuple[LaunchResult, bool]:
    """The launch, and whether the product is exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (SIZE, SIZE)).astype(np.float16) for _ in range(2))
    c = np.full((SIZE, SIZE), np.nan, dtype=np.float32)
    result = kernel.launch({"A": a, "B": b, "C": c}, **how)
    return result, bool((c == a.astype(np.float64) @ b.astype(np.float64).T).all())


def test_matmul() -> None:
    kernel = lower(matmul(SIZE, SIZE, SIZE, threads=128), disable_warp_specialized=True)
    found = set()
    for schedule in POLICIES:
        result, right = launched(kernel, schedule=schedule)
        assert right, str(schedule)
        assert not result.errors, str(schedule)
        result, right = launched(kernel, schedule=schedule, races=True)
        assert right and not result.errors, str(schedule)
        found |= {finding.code for finding in result.findings}
    assert found == written_up("tilelang-matmul")


def test_memory_freed_under_the_multiplying_warps() -> None:
    """With warp specialisation the loading warp frees TMEM when it has issued its last load
    (docs/outside.md).
    """
    kernel = lower(matmul(SIZE, SIZE, SIZE, threads=256))
    for schedule in POLICIES:
        result, right = launched(kernel, schedule=schedule, races=True)
        codes = {finding.code for finding in result.errors}
        assert not right
        assert codes & {"tmem-dealloc-in-flight", "race-mma-unwaited", "tmem-not-allocated"}
