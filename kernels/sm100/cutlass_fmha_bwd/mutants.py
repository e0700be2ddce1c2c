"""Planted defects of `cutlass-fmha-bwd`."""

from __future__ import annotations

from tileproof.kernels.edit import Mutant

MUTANTS: tuple[Mutant, ...] = ()
