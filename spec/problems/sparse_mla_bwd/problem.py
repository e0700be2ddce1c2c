"""Sparse MLA attention backward as a problem type (`spec.problems.base`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from tileproof.spec.arithmetic import F16
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import GroundDatum, PartOf, ProblemType, TileCoord, TileRows, Tiling
from tileproof.spec.problems.cases import Generator
from tileproof.spec.problems.faults import FaultHypotheses
from tileproof.spec.problems.sparse_mla_bwd import stages, tiling
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, keys_of
from tileproof.spec.problems.sparse_mla_bwd.stages import MlaRoundingPlan
from tileproof.spec.problems.tensors import TensorForms
from tileproof.spec.stage import Stage


@dataclass(frozen=True)
class SparseMlaBwd(ProblemType):
    """A group is a query token, a k-block some of its slots; each CTA has its part of the heads.

    `changed`: stages in the place of the problem's own, for tests that plant an error in a stage. `rounding`:
    where the kernel of a plan rounds, if that is its own.
    """

    changed: Mapping[str, Stage] | None = None
    rounding: MlaRoundingPlan = stages.PLAIN
    name: str = "sparse_mla_bwd"
    walked: str = "B_TOPK"
    shared: tuple[str, ...] = ("h_q",)

    @property
    def generator(self) -> Generator:
        from tileproof.spec.problems.sparse_mla_bwd import generator

        return generator

    @property
    def fault_hypotheses(self) -> FaultHypotheses:
        from tileproof.spec.problems.sparse_mla_bwd.faults import SparseMlaFaultHypotheses

        return SparseMlaFaultHypotheses()

    @property
    def tensors(self) -> TensorForms:
        from tileproof.spec.problems.sparse_mla_bwd.tensors import tensors_of

        return tensors_of(self.rounding)

    def rounded_as(self, text: str) -> SparseMlaBwd:
        from tileproof.spec.problems.sparse_mla_bwd.rounding import plan_of

        return replace(self, rounding=plan_of(text))

    @property
    def rounding_text(self) -> str:
        from tileproof.spec.problems.sparse_mla_bwd.rounding import text_of

        return text_of(self.rounding)

    @property
    def unselected(self) -> str:
        return "no key selects"

    @property
    def unit(self) -> str:
        return "token"

    @property
    def stages(self) -> Mapping[str, Stage]:
        own = stages.stages(self.rounding)
        return own if self.changed is None else {**own, **self.changed}

    def groups(self, inputs: Inputs, cut: Tiling) -> range:
        return range(inputs.problem.s_q)

    def k_blocks(self, inputs: Inputs, cut: Tiling, group: int) -> int:
        return tiling.k_blocks(inputs, group, cut.block)

    def extent(self, inputs: Inputs, cut: Tiling, group: int, axis: str) -> slice:
        if axis == self.walked:
            return slice(0, self.k_blocks(inputs, cut, group) * cut.block)
        return slice(0, self.size(inputs, axis))

    def region(self, inputs: Inputs, cut: Tiling, coord: TileCoord, axis: str) -> slice:
        if axis == "h_q" and coord.cta is not None:
            return tiling.rows_of(inputs.problem, coord.cta, cut.ctas)
        if axis == self.walked and coord.k_block is not None:
            return slice(coord.k_block * cut.block, (coord.k_block + 1) * cut.block)
        return self.extent(inputs, cut, coord.group, axis)

    def size(self, inputs: Inputs, axis: str) -> int:
        size: int = inputs.problem.topk if axis == self.walked else getattr(inputs.problem, axis)
        return size

    def ground(self, inputs: Inputs, cut: Tiling, group: int, name: str) -> GroundDatum:
        slots = self.extent(inputs, cut, group, self.walked)
        if name in ("q", "o", "dO", "lse"):
            return getattr(inputs, name)[group]
        if name == "k":
            return tiling.gather(inputs, group, slots)
        if name == "v":
            return PartOf("k", np.s_[:, : inputs.problem.d_v])
        if name == "mask":
            return keys_of(inputs, group)[slots]
        if name == "sm_scale":
            return inputs.problem.sm_scale
        raise TileproofError("unknown ground data", where=f"stage inputs {name!r}")

    @property
    def words(self) -> Mapping[str, str]:
        return {"h_q": "head", "B_TOPK": "slot", "d_qk": "column", "d_v": "column", "s_kv": "kv row"}

    def output(self, stage: str) -> tuple[str, ...]:
        return ("s_q", *self.stages[stage].tile)

    def sizes(self, inputs: Inputs) -> Mapping[str, int]:
        found = {name: getattr(inputs.problem, name) for name in ("h_q", "d_qk", "d_v")}
        return {**found, "f16": int(inputs.problem.form == "f16")}

    @property
    def constants(self) -> Mapping[str, int]:
        return {"f16": int(self.rounding.operand == F16)}

    def require(self, inputs: Inputs, plan: KernelPlan) -> None:
        for name in ("h_q", "d_v"):
            found, made = getattr(inputs.problem, name), plan.size(name)
            if found != made:
                raise TileproofError(
                    f"{plan.name} is not made for this {name}",
                    where=f"problem.{name}",
                    expected=str(made),
                    found=str(found),
                )
        if inputs.problem.form != self.rounding.operand.name:
            raise TileproofError(
                f"{plan.name} is not made for operands of this form",
                where="problem.form",
                expected=self.rounding.operand.name,
                found=inputs.problem.form,
            )
        if inputs.problem.topk % plan.block:
            raise TileproofError(
                "topk is not a multiple of the kernel's B_TOPK",
                where="problem.topk",
                expected=f"a multiple of {plan.block}",
                found=str(inputs.problem.topk),
                do="pad the indices with -1",
            )

    def place(
        self, inputs: Inputs, cut: Tiling, coord: TileCoord, axes: tuple[str, ...]
    ) -> tuple[int | slice, ...]:
        own = {"topk": self.walked}
        return tuple(
            coord.group if axis == "s_q" else self.region(inputs, cut, coord, own.get(axis, axis))
            for axis in axes
        )

    def rows(self, inputs: Inputs, cut: Tiling, group: int, stage: str) -> TileRows:
        slots = self.extent(inputs, cut, group, self.walked)
        return inputs.indices[group, slots].astype(np.int64), keys_of(inputs, group)[slots]


SPARSE_MLA_BWD = SparseMlaBwd()
PROBLEMS = (SPARSE_MLA_BWD,)


def of_operands(f16: bool) -> SparseMlaBwd:
    """The problem whose q, kv, o, dO and dQ, and copies of S and dS, are bf16, or f16."""
    return SPARSE_MLA_BWD.rounded_as("operand=f16") if f16 else SPARSE_MLA_BWD
