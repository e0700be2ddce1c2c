"""A matrix product as a problem type (`spec.problems.base`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Index
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import GroundDatum, ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import Generator
from tileproof.spec.problems.faults import FaultHypotheses
from tileproof.spec.problems.gemm import stages
from tileproof.spec.problems.gemm.inputs import Inputs
from tileproof.spec.problems.tensors import TensorForms
from tileproof.spec.stage import Stage


@dataclass(frozen=True)
class Gemm(ProblemType):
    """A group is what one cluster writes of D, a k-block one tile along K.

    The tiling says what a CTA's tile of D is and how many CTAs of a cluster lie along M and N; ranks count
    along M first, groups too.
    """

    biased: bool = False
    changed: Mapping[str, Stage] | None = None
    walked: str = "K"
    shared: tuple[str, ...] = ("M", "N")

    @property
    def name(self) -> str:
        return "gemm_bias" if self.biased else "gemm"

    @property
    def generator(self) -> Generator:
        from tileproof.spec.problems.gemm import generator

        return generator

    @property
    def tensors(self) -> TensorForms:
        from tileproof.spec.problems.gemm.tensors import GemmTensors

        return GemmTensors(self.biased)

    @property
    def fault_hypotheses(self) -> FaultHypotheses:
        from tileproof.spec.problems.gemm.faults import GemmFaultHypotheses

        return GemmFaultHypotheses()

    @property
    def unit(self) -> str:
        return "output tile"

    @property
    def stages(self) -> Mapping[str, Stage]:
        own = stages.BIASED if self.biased else stages.PLAIN
        return own if self.changed is None else {**own, **self.changed}

    @property
    def words(self) -> Mapping[str, str]:
        return {"M": "row", "N": "column", "K": "k"}

    def _span(self, tiling: Tiling, axis: str) -> int:
        """Elements of an axis of D that a cluster covers."""
        return tiling.tile(axis) * tiling.along(axis)

    def _place(self, inputs: Inputs, tiling: Tiling, group: int) -> dict[str, int]:
        across = inputs.sizes["M"] // self._span(tiling, "M")
        return {"M": group % across, "N": group // across}

    def groups(self, inputs: Inputs, tiling: Tiling) -> range:
        counts = [inputs.sizes[axis] // self._span(tiling, axis) for axis in self.shared]
        return range(counts[0] * counts[1])

    def group_at(self, inputs: Inputs, tiling: Tiling, cluster: tuple[int, int, int]) -> int:
        return cluster[0] + cluster[1] * (inputs.sizes["M"] // self._span(tiling, "M"))

    def k_blocks(self, inputs: Inputs, tiling: Tiling, group: int) -> int:
        return inputs.sizes["K"] // tiling.block

    def extent(self, inputs: Inputs, tiling: Tiling, group: int, axis: str) -> slice:
        if axis == self.walked:
            return slice(0, inputs.sizes[axis])
        span = self._span(tiling, axis)
        first = self._place(inputs, tiling, group)[axis] * span
        return slice(first, first + span)

    def region(self, inputs: Inputs, tiling: Tiling, coord: TileCoord, axis: str) -> slice:
        whole = coord.k_block if axis == self.walked else coord.cta
        if whole is None:
            return self.extent(inputs, tiling, coord.group, axis)
        if axis == self.walked:
            return slice(whole * tiling.block, (whole + 1) * tiling.block)
        at = whole % tiling.along("M") if axis == "M" else whole // tiling.along("M")
        first = self.extent(inputs, tiling, coord.group, axis).start + at * tiling.tile(axis)
        return slice(first, first + tiling.tile(axis))

    def size(self, inputs: Inputs, axis: str) -> int:
        return inputs.sizes[axis]

    def require(self, inputs: Inputs, plan: KernelPlan) -> None:
        if (inputs.bias is not None) != self.biased:
            raise TileproofError(
                f"{plan.name} is not made for these inputs",
                where="C, bias",
                expected="a bias" if self.biased else "C",
                found="C" if self.biased else "a bias",
            )

    def ground(self, inputs: Inputs, tiling: Tiling, group: int, name: str) -> GroundDatum:
        if name in ("alpha", "beta"):
            return getattr(inputs, name)
        rows, columns = (self.extent(inputs, tiling, group, axis) for axis in self.shared)
        parts: dict[str, Index] = {"A": rows, "B": columns, "C": (rows, columns), "bias": columns}
        if name not in parts:
            raise TileproofError("unknown ground data", where=f"stage inputs {name!r}")
        return np.asarray(getattr(inputs, name))[parts[name]]


GEMM = Gemm()
GEMM_BIAS = Gemm(biased=True)
PROBLEMS = (GEMM, GEMM_BIAS)
