"""The tensors of a problem type in a dump: names, axes, dtypes, conventions of other projects.

`conformance/tensors` reads files and compares; this module and a problem's `TensorForms` name the tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeGuard

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, DType
from tileproof.spec.numerics import LN_2
from tileproof.spec.problems.cases import ProblemInputs, VectorCase

Role = Literal["input", "stage", "output"]
LSE_DIFFERS = 2.0**-6  # far above the rounding of an lse of bf16 inputs, far below a change of base
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

    `names`: its name of a tensor or number by this project's. `unit_axes`: tensors with an axis of length 1
    that this project's do not have, and where it stands. `batched`: every tensor has a batch axis in front.
    `lse_base`: of the logarithm; "" where it must be given. `layout`: of `TensorForms.layouts`; "" for
    the forms' axes.
    `scalars`: numbers that are always the same there. `source` is the file that says so.
    """

    name: str
    names: Mapping[str, str]
    source: str
    lse_base: Literal["", "2", "e"] = ""
    unit_axes: Mapping[str, int] = field(default_factory=dict)
    batched: bool = False
    layout: str = ""
    scalars: Mapping[str, float] = field(default_factory=dict)


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

    @abstractmethod
    def cut(self, inputs: ProblemInputs) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """Elements of the walked axis in a k-block of the comparison, and `Tiling.shape`."""

    @property
    def layouts(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Orders of axes by name, for the tensors that have another than their form's. An axis that is absent
        has length 1.
        """
        return {}

    def flattened(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors without the batch axis that all of them have in front: the batches one after another."""
        return {name: tensor.reshape(-1, *tensor.shape[2:]) for name, tensor in tensors.items()}

    @property
    def scalars(self) -> tuple[str, ...]:
        """Numbers that the inputs need beside tensors."""
        return ()

    @property
    def optional_scalars(self) -> tuple[str, ...]:
        """Numbers that may be absent."""
        return ()

    @abstractmethod
    def inputs(
        self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str
    ) -> ProblemInputs:
        """The problem's inputs; TileproofError names what contradicts them."""

    @abstractmethod
    def dumped(self, inputs: ProblemInputs) -> Mapping[str, Array]:
        """The inputs, numbers included, as a dump of the first convention has them."""

    def drawn(self, inputs: ProblemInputs, rng: np.random.Generator) -> ProblemInputs:
        """Inputs of the same shapes. Tensors of floats have normal values, with the sign of the given tensor
        if it has no other; numbers and tensors of integers stay; a forward's results follow (`completed`).
        """
        given = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
        drawn = {name: normal_like(array, rng) for name, array in given.items() if is_floats(array)}
        return self.completed(replace(inputs, **drawn))

    def completed(self, inputs: ProblemInputs) -> ProblemInputs:
        """The inputs with those tensors that follow from the others, such as a forward's o and lse."""
        return inputs

    def vector_cases(self) -> Iterator[VectorCase]:
        """Its cases of the released vectors."""
        return iter(())

    def flags(self, inputs: ProblemInputs) -> tuple[str, ...]:
        """What is special about inputs, in words."""
        del inputs
        return ()

    @abstractmethod
    def groups(self, inputs: ProblemInputs) -> int:
        """How many groups (of attention: query tokens) the inputs have."""

    @abstractmethod
    def group_inputs(self, inputs: ProblemInputs, group: int) -> ProblemInputs:
        """The inputs of one group, as a problem of that group alone; large arrays are views."""

    @abstractmethod
    def sizes(self, inputs: ProblemInputs) -> Mapping[str, int]:
        """The length of every axis of the stages and outputs."""

    def group_index(self, form: TensorForm, inputs: ProblemInputs, group: int) -> tuple[slice, ...]:
        """Where one group's elements of a stage lie in its tensor; by default the first axis is groups."""
        sizes = self.sizes(inputs)
        return slice(group, group + 1), *(slice(0, sizes[axis]) for axis in form.axes[1:])

    def row_of(self, inputs: ProblemInputs, group: int, row: int) -> int:
        """What row of a tile of the group alone is in the whole problem, if rows are counted there."""
        del inputs, group
        return row

    def padded(self, form: TensorForm, tensor: Array, inputs: ProblemInputs) -> Array:
        """The tensor at the sizes of `inputs`, which may be padded."""
        del form, inputs
        return tensor


def is_floats(value: object) -> TypeGuard[Array]:
    """Whether it is a tensor of floats, those of ml_dtypes among them."""
    return isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind not in "biu"


def normal_like(array: Array, rng: np.random.Generator) -> Array:
    """Normal values with the shape and dtype of a tensor; of its sign if it has no other. What is not
    finite stays.
    """
    values, given = rng.standard_normal(array.shape), array.astype(np.float64)
    if (given >= 0).all() != (given <= 0).all():
        values = np.abs(values) * (1 if (given >= 0).all() else -1)
    return np.where(np.isfinite(given), values, given).astype(array.dtype)


def base_2(lse: Array) -> Array:
    """A natural lse in float32 to base 2."""
    return np.asarray((lse / np.float32(LN_2)).astype(np.float32))


def narrowed(name: str, tensor: Array, dtype: DType) -> Array:
    """The tensor in the dtype of the kernel's operands, of which wider values must be values already."""
    if tensor.dtype == dtype:
        return tensor
    narrow = tensor.astype(dtype)
    same = (narrow.astype(np.float32) == tensor) | np.isnan(tensor)
    if not same.all():
        short = {"bfloat16": "bf16", "float16": "f16"}.get(dtype.name, dtype.name)
        raise TileproofError(
            f"{name} has f32 values that are not {short} values",
            where=name,
            expected=f"the {short} tensor that the kernel read, as {short} or as f32 of the same values",
            found=f"{int((~same).sum())} of {same.size} elements would be rounded",
            do="dump the tensor that was passed to the kernel",
        )
    return narrow


def check_lse(
    where: str, given: npt.NDArray[np.float64], right: npt.NDArray[np.float64], base: str, unit: str, of: str
) -> None:
    """TileproofError where lse is not the forward's: another base, another scale, or another tensor.

    `given` and `right` ``[heads]`` are in base `unit`; `base` is the base that was stated; `of` names what
    the forward was computed from.
    """
    # f32 sums of large logits are off in proportion.
    slack = LSE_DIFFERS * np.maximum(1.0, np.abs(right) * 2.0**-6)
    wrong = ~(np.abs(given - right) <= slack)
    if not wrong.any():
        return
    head = int(np.flatnonzero(wrong)[0])
    factor = LN_2 if base == "2" else 1 / LN_2
    do = f"check {of}: they may belong to another call, or lse includes a sink"
    if (np.abs(given / factor - right) <= slack).all():
        do = "it is in the other base: --lse-base " + ("e" if base == "2" else "2")
    raise TileproofError(
        f"lse is not that of {of}",
        where=f"{where}, head {head}, stated base {base}",
        expected=f"{right[head]:.6g} (base {unit}), by the float64 forward",
        found=f"{given[head]:.6g} (base {unit})",
        do=do,
    )
