"""A matrix product's tensors by name: what a dump may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import VectorCase
from tileproof.spec.problems.gemm.inputs import Inputs
from tileproof.spec.problems.tensors import Convention, TensorForm, TensorForms

ROWS = 128  # the most rows of a group
K_BLOCK = 64  # the most columns of K in a k-block
OPERANDS = ("bfloat16", "float16")


@dataclass(frozen=True)
class GemmTensors(TensorForms):
    """A group is some whole rows of D."""

    biased: bool

    @property
    def forms(self) -> tuple[TensorForm, ...]:
        """With a bias, or with C."""
        D = ("M", "N")
        return (
            TensorForm("A", ("M", "K"), OPERANDS, "input"),
            TensorForm("B", ("N", "K"), OPERANDS, "input"),
            TensorForm("bias", ("N",), ("float32",), "input")
            if self.biased
            else TensorForm("C", D, ("float32",), "input", optional=True),
            TensorForm("product", D, ("float32",), "stage", "product"),
            TensorForm("D", D, ("bfloat16",) if self.biased else ("float32",), "output", "D"),
        )

    @property
    def scalars(self) -> tuple[str, ...]:
        """beta is a factor of C."""
        return ("alpha",) if self.biased else ("alpha", "beta")

    @property
    def layouts(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Letters of A and B, row-major: N as in ``A[M, K]`` or ``B[K, N]``, T transposed."""
        A, B = ("M", "K"), ("K", "N")
        return {
            "NT": {"A": A, "B": B[::-1]},
            "NN": {"A": A, "B": B},
            "TN": {"A": A[::-1], "B": B},
            "TT": {"A": A[::-1], "B": B[::-1]},
        }

    @property
    def conventions(self) -> tuple[Convention, ...]:
        own = {form.name: form.name for form in self.forms}
        return (Convention("tileproof", own, "docs/tensors.md", layout="NT"),)

    def cut(self, inputs: Inputs) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """Rows and k-blocks that divide the product."""
        sizes = inputs.sizes
        return _divisor(sizes["K"], K_BLOCK), (("M", _divisor(sizes["M"], ROWS), 1), ("N", sizes["N"], 1))

    def inputs(self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str) -> Inputs:
        """The inputs; TileproofError where C is absent and beta is not 0, or A and B have other dtypes."""
        del lse_base
        A, B = tensors["A"], tensors["B"]
        if A.dtype != B.dtype:
            raise TileproofError(
                "A and B have other dtypes", where="A, B", expected="the same dtype",
                found=f"{A.dtype.name} and {B.dtype.name}",
            )  # fmt: skip
        if self.biased:
            return Inputs(A, B, None, tensors["bias"], scalars["alpha"])
        C = tensors.get("C")
        if C is None:
            if scalars["beta"] != 0:
                raise TileproofError(
                    "C is missing", where="beta", expected="C, or beta = 0", found=f"{scalars['beta']:g}"
                )
            C = np.broadcast_to(np.float32(0), (len(A), len(B)))
        return Inputs(A, B, C, None, scalars["alpha"], scalars["beta"])

    def vector_cases(self) -> Iterator[VectorCase]:
        from tileproof.spec.problems.gemm.vectors import vector_cases

        return iter(()) if self.biased else vector_cases()

    def sizes(self, inputs: Inputs) -> Mapping[str, int]:
        return inputs.sizes

    def dumped(self, inputs: Inputs) -> Mapping[str, Array]:
        """NT."""
        last = {"bias": inputs.bias} if self.biased else {"C": inputs.C, "beta": np.array(inputs.beta)}
        found = {"A": inputs.A, "B": inputs.B, "alpha": np.array(inputs.alpha), **last}
        return {name: array for name, array in found.items() if array is not None}

    def groups(self, inputs: Inputs) -> int:
        """Blocks of rows."""
        return inputs.sizes["M"] // _divisor(inputs.sizes["M"], ROWS)

    def _rows(self, inputs: Inputs, group: int) -> slice:
        rows = _divisor(inputs.sizes["M"], ROWS)
        return slice(group * rows, (group + 1) * rows)

    def group_index(self, form: TensorForm, inputs: Inputs, group: int) -> tuple[slice, ...]:
        return self._rows(inputs, group), slice(0, inputs.sizes["N"])

    def row_of(self, inputs: Inputs, group: int, row: int) -> int:
        return self._rows(inputs, group).start + row

    def group_inputs(self, inputs: Inputs, group: int) -> Inputs:
        """The product of the group's rows of A."""
        rows = self._rows(inputs, group)
        return replace(inputs, A=inputs.A[rows], C=None if inputs.C is None else inputs.C[rows])


def _divisor(size: int, maximum: int) -> int:
    """The largest divisor of `size` that is at most `most`."""
    return next(found for found in range(min(size, maximum), 0, -1) if size % found == 0)
