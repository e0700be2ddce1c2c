"""The runs of backward_runs for tests of head128."""

from __future__ import annotations

from tileproof.kernels.registry import kernel

from tests.kit.backward_runs import Run, first_wrong, ratios, run

KERNEL = kernel("head128")

__all__ = ["KERNEL", "Run", "first_wrong", "ratios", "run"]
