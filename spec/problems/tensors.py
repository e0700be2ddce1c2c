"""The tensors of a problem type in a dump: names, axes, dtypes, conventions of other projects.

`conformance/tensors` reads files and compares; this module and a problem's `TensorForms` name the tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

Array = npt.NDArray[Any]
Role = Literal["input", "stage", "output"]
K_BLOCKS = "k_blocks"  # the axis of a tensor that holds a sum after each k-block


@dataclass(frozen=True)
class TensorForm:
    """One tensor of a problem.

    `axes` are sizes of the problem, or `K_BLOCKS`. `role`: an input, an intermediate stage, or an output.
    `stage` is the stage that it holds. `optional` is of inputs; stages and outputs may be absent.
    """

    name: str
    axes: tuple[str, ...]
    dtypes: tuple[str, ...]
    role: Role
    stage: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Convention:
    """How another project names and shapes the tensors of a problem.

    `names`: its name of a tensor by this project's. `unit_axes`: tensors with an axis of length 1 that this
    project's do not have, and where it stands. `batched`: every tensor has a batch axis in front. `lse_base`:
    of the logarithm; "" where it must be given. `source` is the file that says so.
    """

    name: str
    names: Mapping[str, str]
    source: str
    lse_base: Literal["", "2", "e"] = ""
    unit_axes: Mapping[str, int] = field(default_factory=dict)
    batched: bool = False


class TensorForms(ABC):
    """The tensors of a problem type."""

    @property
    @abstractmethod
    def forms(self) -> tuple[TensorForm, ...]:
        """Every tensor, inputs first."""

    @property
    @abstractmethod
    def conventions(self) -> tuple[Convention, ...]:
        """The conventions known by name; the first is this project's own."""

    @property
    @abstractmethod
    def block(self) -> int:
        """Elements of the walked axis in a k-block of the comparison."""

    def flattened(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors without the batch axis that all of them have in front: the batches one after another."""
        return {name: tensor.reshape(-1, *tensor.shape[2:]) for name, tensor in tensors.items()}

    @property
    def scalars(self) -> tuple[str, ...]:
        """Numbers that the inputs need beside tensors."""
        return ()

    @abstractmethod
    def inputs(self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str) -> Any:
        """The problem's inputs; TileproofError names what contradicts them."""

    @abstractmethod
    def groups(self, inputs: Any) -> int:
        """How many groups (of attention: query tokens) the inputs have."""

    @abstractmethod
    def group_inputs(self, inputs: Any, group: int) -> Any:
        """The inputs of one group, as a problem of that group alone; large arrays are views."""

    @abstractmethod
    def sizes(self, inputs: Any) -> Mapping[str, int]:
        """The length of every axis of the stages and outputs."""

    def group_index(self, form: TensorForm, inputs: Any, group: int) -> tuple[slice, ...]:
        """Where one group's elements of a stage lie in its tensor; by default the first axis is groups."""
        sizes = self.sizes(inputs)
        return slice(group, group + 1), *(slice(0, sizes[axis]) for axis in form.axes[1:])

    def padded(self, form: TensorForm, tensor: Array, inputs: Any) -> Array:
        """The tensor at the sizes of `inputs`, which may be padded."""
        del form, inputs
        return tensor
