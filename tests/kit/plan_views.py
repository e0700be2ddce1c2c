"""The MMAs of a kernel plan as contract forms and operand views, made from the plan's data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tileproof.spec.machine.contracts import Misfit, MmaForm, OperandView, check
from tileproof.spec.plan import KernelPlan, Mma


@dataclass(frozen=True)
class Operands:
    """One part of one MMA chain of a plan, in one CTA."""

    name: str
    form: MmaForm
    a: OperandView
    b: OperandView
    c: OperandView

    def misfits(self) -> list[Misfit]:
        return check(self.form, self.a, self.b, self.c)


def operands(plan: KernelPlan) -> Iterator[Operands]:
    """Every MMA chain and part of `plan`."""
    for mma in plan.mmas:
        form = MmaForm(
            mma.m,
            mma.n,
            mma.k,
            kind=mma.kind,
            cta_group=mma.cta_group,
            ws=mma.ws,
            a_major=mma.a_major,
            b_major=mma.b_major,
            a_type=plan.smem_tile(mma.a).dtype,
            b_type=plan.smem_tile(mma.b).dtype,
        )
        tile = plan.tmem_tile(mma.d)
        for part in range(mma.parts):
            yield Operands(
                f"{plan.name} {dict(plan.sizes).get('d_qk', '')} {mma.name} part {part}",
                form,
                _view(plan, mma, "a", part),
                _view(plan, mma, "b", part),
                OperandView.in_tmem(mma.m // mma.cta_group, mma.n, dtype="f32", lane=0, column=tile.column),
            )


def _view(plan: KernelPlan, mma: Mma, operand: Literal["a", "b"], part: int) -> OperandView:
    """Columns of the operand's tile that this part reads, transposed when the chain reads it so."""
    tile = plan.smem_tile(getattr(mma, operand))
    window = getattr(mma, f"{operand}_cols")
    first, end = window or (0, tile.cols)
    turned = getattr(mma, f"{operand}_major") != tile.major
    if window and turned and mma.parts > 1:
        width = (end - first) // mma.parts
        first, end = first + part * width, first + (part + 1) * width
    # Column tiles of one swizzle span, each contiguous (spec/plans): a window starts that many bytes further.
    span = {"128B": 64, "64B": 32, "32B": 16, "none": 8}[tile.swizzle]
    start = tile.offset + first // span * tile.rows * span * 2
    view = OperandView.tile(tile.rows, end - first, tile.major, tile.swizzle, dtype=tile.dtype, address=start)
    return view.transposed() if turned else view
