"""The tensors of a problem type by the names of its data: of inputs, the fields of their class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.tensors import Convention, TensorForm, TensorForms

DTYPES = ("float32", "bfloat16", "float16", "int32", "int64")


@dataclass(frozen=True)
class FieldTensors(TensorForms):
    """Every field of `inputs_class` is a datum of that name which the stages of `problem` read: a tensor with
    its axes, or a number. A stage is a tensor with the axes of its output.
    """

    problem: ProblemType
    inputs_class: type

    @cached_property
    def _fields(self) -> Mapping[str, tuple[str, ...]]:
        """The axes of each field."""
        axes = {name: axes for stage in self.problem.stages.values() for name, axes in stage.axes.items()}
        return {field.name: axes[field.name] for field in fields(self.inputs_class)}

    @property
    def forms(self) -> tuple[TensorForm, ...]:
        """A stage that no stage reads is an output."""
        stages = self.problem.stages
        read = {name for stage in stages.values() for name in stage.inputs}
        return (
            *(TensorForm(name, axes, DTYPES, "input") for name, axes in self._fields.items() if axes),
            *(
                TensorForm(
                    name, self.problem.output(name), DTYPES[:3], "stage" if name in read else "output", name
                )
                for name in stages
            ),
        )

    @property
    def conventions(self) -> tuple[Convention, ...]:
        return (Convention("tileproof", {form.name: form.name for form in self.forms}, "docs/tensors.md"),)

    @property
    def scalars(self) -> tuple[str, ...]:
        return tuple(name for name, axes in self._fields.items() if not axes)

    def cut(self, inputs: ProblemInputs) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """A single k-block."""
        return self.problem.size(inputs, self.problem.walked), ()

    def inputs(
        self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str
    ) -> ProblemInputs:
        del lse_base
        given = {name: tensors[name] for name, axes in self._fields.items() if axes}
        return self.inputs_class(**given, **{name: scalars[name] for name in self.scalars})

    def dumped(self, inputs: ProblemInputs) -> Mapping[str, Array]:
        return {name: np.asarray(getattr(inputs, name)) for name in self._fields}

    def groups(self, inputs: ProblemInputs) -> int:
        return len(self.problem.groups(inputs, self._tiling(inputs)))

    def group_inputs(self, inputs: ProblemInputs, group: int) -> ProblemInputs:
        """The part of each tensor that the group's tiles cover."""
        tiling = self._tiling(inputs)
        parts = {
            name: getattr(inputs, name)[
                tuple(self.problem.extent(inputs, tiling, group, axis) for axis in axes)
            ]
            for name, axes in self._fields.items()
            if axes
        }
        return replace(inputs, **parts)

    def sizes(self, inputs: ProblemInputs) -> Mapping[str, int]:
        axes = {axis for form in self.forms for axis in form.axes}
        return {axis: self.problem.size(inputs, axis) for axis in axes}

    def group_index(self, form: TensorForm, inputs: ProblemInputs, group: int) -> tuple[slice, ...]:
        place = self.problem.place(inputs, self._tiling(inputs), TileCoord(group, None, None), form.axes)
        return tuple(part if isinstance(part, slice) else slice(part, part + 1) for part in place)

    def row_of(self, inputs: ProblemInputs, group: int, row: int) -> int:
        """Rows are counted along the first axis that CTAs share."""
        if not self.problem.shared:
            return row
        tiling = self._tiling(inputs)
        return row + self.problem.extent(inputs, tiling, group, self.problem.shared[0]).start

    def _tiling(self, inputs: ProblemInputs) -> Tiling:
        block, shape = self.cut(inputs)
        return Tiling(block, 1, shape)
