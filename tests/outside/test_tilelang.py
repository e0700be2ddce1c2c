"""TileLang's output on the emulator: a right kernel under every policy, a defect of its compiler found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tilelang", reason="tilelang is not installed: requirements-outside.txt")

import tilelang
import torch
from tileproof.emulator import RunResult, Schedule
from tileproof.tilelang import emulate

from tests.kit.outside.explained import POLICIES, written_up
from tests.kit.outside.tilelang_kernels import hopper_matmul, matmul

SIZE = 256


def launched(
    schedule: Schedule, races: bool, threads: int, hopper: bool = False, **passes: Any
) -> tuple[RunResult, bool]:
    """The launch, and whether the product is exact."""
    kernel = (hopper_matmul if hopper else matmul)(SIZE, SIZE, SIZE, threads=threads)
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.integers(-4, 5, (SIZE, SIZE)).astype(np.float16)) for _ in range(2))
    c = torch.full((SIZE, SIZE), float("nan"))
    with emulate(policy=str(schedule), races=races, raises=False, keep=0, hopper=hopper) as run:
        tilelang.compile(kernel, pass_configs=passes)(a, b, c)
    return run.last.result, torch.equal(c.double(), a.double() @ b.double().T)


@pytest.mark.slow
def test_matmul() -> None:
    plain: dict[str, Any] = {"threads": 128, "tl.disable_warp_specialized": True}
    found = set()
    for schedule in POLICIES:
        result, right = launched(schedule, False, **plain)
        assert right, str(schedule)
        assert not result.errors, str(schedule)
        result, right = launched(schedule, True, **plain)
        assert right and not result.errors, str(schedule)
        found |= {finding.code for finding in result.findings}
    assert found == written_up("tilelang-matmul")


def test_memory_freed_under_the_multiplying_warps() -> None:
    """With warp specialisation the loading warp frees TMEM when it has issued its last load
    (docs/outside.md).
    """
    for schedule in POLICIES:
        result, right = launched(schedule, True, threads=256)
        codes = {finding.code for finding in result.errors}
        assert not right
        assert codes & {"tmem-dealloc-in-flight", "race-mma-unwaited", "tmem-not-allocated"}


@pytest.mark.parametrize(
    ("passes", "expected"),
    [({}, {"phase-lapped", "hang"}), ({"tl.disable_warp_specialized": True}, {"race-proxy-fence"})],
)
def test_matmul_for_hopper(passes: dict[str, bool], expected: set[str]) -> None:
    """With warp specialisation a warp of the producer that copies nothing can miss a phase; without it
    `cp.async` writes what wgmma reads (docs/outside.md).
    """
    found = set()
    for schedule in POLICIES:
        result, right = launched(schedule, True, threads=128, hopper=True, **passes)
        assert right == (result.hang is None)
        found |= {finding.code for finding in result.errors}
    assert found == expected
