"""What the contracts accept, the machine reads right: descriptor addresses against the layout's own.

For each instruction of an accepted row, the PTX ISA's canonical layout formulas (`smem_layout.address`), fed
with the strides that the contracts derive, must give the address at which CuTe's layout keeps the element.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pycute
import pytest
from tileproof.spec.machine import smem_layout
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.contracts import MmaForm, OperandView
from tileproof.spec.machine.contracts.canonical import Strides
from tileproof.spec.machine.contracts.rules_smem import cut, major_in, rows_of
from tileproof.tools.operand_constraints.data import read
from tileproof.tools.operand_constraints.rows import OperandRow

ACCEPTED = [
    row
    for row, verdict in read()[1]
    if isinstance(row, OperandRow) and verdict.compiles and not row.misfits()
]
START = 0x4000
I64 = npt.NDArray[np.int64]


def both_addresses(form: MmaForm, name: str, view: OperandView, strides: Strides) -> tuple[I64, I64]:
    """(what the machine reads, where the elements lie), for every element that an instruction reads."""
    rows, k = rows_of(form, name) // form.cta_group, form.instruction_k
    assert view.layout is not None and view.swizzle is not None
    # A layout's offset is the sum of its modes' offsets.
    mn, depth = (
        np.array([pycute.crd2idx(i, mode.shape, mode.stride) for i in range(extent)])
        for mode, extent in zip((view.layout[0], view.layout[1]), (view.mn, view.k), strict=True)
    )
    offset = mn[:, None] + depth[None, :]
    lies = sw.swizzle(view.swizzle, START + 2 * offset)
    reads = np.empty_like(lies)
    for i in range(0, view.mn, rows):
        for j in range(0, view.k, k):
            reads[i : i + rows, j : j + k] = smem_layout.address(
                major_in(form, name),
                view.swizzle,
                START + 2 * int(offset[i, j]),
                strides.lbo,
                strides.sbo,
                np.arange(rows)[:, None],
                np.arange(k)[None, :],
            )
    return reads, lies


def smem_operands(row: OperandRow) -> list[tuple[str, OperandView]]:
    views = [("A", row.a_view()), ("B", row.b_view())]
    return [(name, view) for name, view in views if view.space == "smem" and view.dtype != "tf32"]


def test_accepted_operands_are_read_where_they_lie() -> None:
    checked = 0
    for row in ACCEPTED[::2]:
        for name, view in smem_operands(row):
            strides = cut(row.form, name, view).strides
            assert strides is not None
            reads, lies = both_addresses(row.form, name, view, strides)
            assert (reads == lies).all(), (row, name)
            checked += 1
    assert checked >= 100


@pytest.mark.parametrize("field", ["lbo", "sbo"])
def test_a_wrong_stride_is_seen(field: str) -> None:
    wrong = 0
    for row in ACCEPTED[::5]:
        for name, view in smem_operands(row):
            strides = cut(row.form, name, view).strides
            assert strides is not None
            moved = replace(strides, **{field: getattr(strides, field) + 256})
            reads, lies = both_addresses(row.form, name, view, moved)
            wrong += bool((reads != lies).any())
    assert wrong >= 10


def test_the_wrong_major_is_seen() -> None:
    """The same square buffer under the other descriptor: the contracts refuse, and rightly."""
    view = OperandView.tile(64, 64, "K", "128B")
    form = MmaForm(128, 64, b_major="MN")
    reads, lies = both_addresses(form, "B", view, Strides(8192, 1024))
    assert (reads != lies).any()
