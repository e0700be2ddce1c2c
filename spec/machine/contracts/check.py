"""Checks whether operands fit an MMA; each misfit is a sentence.

There are two sources of misfits: CuTe, by the static assertions that nvcc reports (CUTLASS 4.2: the atoms in
`mma_sm100_umma.hpp`, MMA_Traits, tmem_frg and make_umma_desc in `mma_traits_sm100.hpp`, make_fragment_A and
thrfrg_A in `mma_atom.hpp`, the extents in `gemm.hpp`), and the machine (PTX ISA 9.7.16). A misfit names its
source.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.machine.contracts.form import MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.contracts.rules_extents import extents
from tileproof.spec.machine.contracts.rules_form import shapes, types
from tileproof.spec.machine.contracts.rules_smem import descriptor
from tileproof.spec.machine.contracts.rules_tmem import tensor_memory
from tileproof.spec.machine.contracts.view import OperandView


def check(
    form: MmaForm,
    a: OperandView | None = None,
    b: OperandView | None = None,
    c: OperandView | None = None,
) -> list[Misfit]:
    """Every misfit between `form` and the operands that are given, the instruction's own first.

    a: ``[M, K]``, b: ``[N, K]`` and c: ``[M, N]``, each as one CTA holds it; omitted operands are not
    checked. Several tiles of the instruction's M, N or K in an operand are several instructions.
    """
    return list(_all(form, a, b, c))


def fits(form: MmaForm, a: OperandView | None, b: OperandView | None, c: OperandView | None) -> bool:
    """Whether nothing refuses."""
    return not check(form, a, b, c)


def _all(
    form: MmaForm, a: OperandView | None, b: OperandView | None, c: OperandView | None
) -> Iterator[Misfit]:
    yield from shapes(form)
    yield from types(form, a, b, c)
    if form.m % form.cta_group or form.n % form.cta_group:
        return  # no CTA's share to check against; shapes() has said so
    if a is not None and form.a_space == "smem":
        yield from descriptor(form, "A", a)
    if b is not None:
        yield from descriptor(form, "B", b)
    yield from extents(form, a, b, c)
    yield from tensor_memory(form, a, c)
