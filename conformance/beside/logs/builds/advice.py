"""What would fit, as C++: edits for an MMA and its operands that the contract accepts.

Edits are searched in order of size: another major in the atom, the transposed view, both, a tile of other
extents or swizzle, another shape. An edit is given only if `spec.machine.contracts.check` then accepts the
operand, or the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from tileproof.conformance.beside.logs.builds.cute import MmaOp, dtype_of, major_of, value_of
from tileproof.conformance.beside.logs.builds.evidence import Evidence
from tileproof.conformance.beside.logs.builds.operand import ROLES, Role
from tileproof.spec.machine.contracts import Misfit, MmaForm, OperandView, algebra, check
from tileproof.spec.machine.types import Json

Edit = tuple[str, str]  # what is replaced (A, B, C, MMA, copy ...), C++ for it
Views = dict[Role, OperandView]
_ATOMS = {"none": "INTER", "32B": "SW32", "64B": "SW64", "128B": "SW128", "128B_ATOM_32B": "SW128_32B"}
_OTHER: dict[str, Literal["K", "MN"]] = {"K": "MN", "MN": "K"}


@dataclass(frozen=True)
class Remedy:
    """Words and edits of one way out."""

    words: str
    edits: tuple[Edit, ...]


def spelled(op: MmaOp, **changed: Json) -> str:
    """The MMA's type as C++ with `changed` of m, n, a_major, b_major, types (of A and B); "" when not known.

    CuTe's default arguments (no operand negated, no saturation) are omitted.
    """
    if op.type is None:
        return ""
    numbers, majors, out = ["m", "n"], ["a_major", "b_major"], []
    for index, arg in enumerate(op.type.args):
        if arg.name.endswith(("ScaleIn::One", "Saturate::False")):
            continue
        major = major_of(arg)
        if index < 2 and "types" in changed:
            out.append(changed["types"])
        elif major is not None and majors:
            out.append("cute::UMMA::Major::" + changed.get(majors.pop(0), major))
        elif value_of(arg) is not None and "::" not in arg.cast and numbers and not arg.args:
            out.append(str(changed.get(numbers.pop(0), arg.name)))
        else:
            out.append(str(arg) if not arg.cast else f"static_cast<{arg.cast}>({arg.name})")
    name = op.type.name if "::" in op.type.name else f"cute::{op.type.name}"
    return f"{name}<{', '.join(out)}>"


def tile_code(major: str, swizzle: str, dtype: str, rows: int, k: int) -> str:
    """The layout of a shared-memory tile ``[rows, k]`` of a swizzle's atoms, as C++."""
    return f"cute::tile_to_shape({atom_code(major, swizzle, dtype)}{{}}, {shape_code((rows, k))}{{}})"


def atom_code(major: str, swizzle: str, dtype: str) -> str:
    """The layout atom of a swizzle, as C++."""
    return f"cute::UMMA::Layout_{major}_{_ATOMS[swizzle]}_Atom<{dtype}>"


def transposed_code(role: str, rank: int = 2) -> str:
    """The view of a tensor's buffer with its first two modes swapped, as C++."""
    modes = ", ".join(map(str, (1, 0, *range(2, rank))))
    return f"cute::make_tensor({role}.data(), cute::select<{modes}>({role}.layout()))"


def accumulator_code(rows: int, columns: int) -> str:
    """An accumulator ``[rows, columns]`` of both CTAs in tensor memory, as C++."""
    return f"cute::partition_fragment_C(mma, {shape_code((rows, columns))}{{}})"


def views_of(evidence: Evidence) -> Views:
    """The operands whose contract views are known."""
    return {
        role: view
        for role in ROLES
        if role in evidence.operands and (view := evidence.operands[role].view) is not None
    }


def for_misfit(evidence: Evidence, misfit: Misfit) -> Remedy | None:
    """The smallest remedy of `misfit` that the contract accepts, or None."""
    form, op, views = evidence.form, evidence.mma, views_of(evidence)
    if form is None or op is None or op.type is None:
        return None
    ways = {"MMA": _shapes, "A": _operands, "B": _operands, "C": _accumulators}[misfit.operand]
    for words, edits, changed, new_views in ways(evidence, form, op, views, misfit):
        if _accepts(changed, new_views, misfit):
            return Remedy(words, edits)
    return None


Way = tuple[str, tuple[Edit, ...], MmaForm, Views]


def _accepts(form: MmaForm, views: Views, misfit: Misfit) -> bool:
    try:
        misfits = check(form, views.get("A"), views.get("B"), views.get("C"))
    except (algebra.Refused, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return False  # a view that no layout of CuTe gives: the log is damaged
    return not any(other.operand == misfit.operand for other in misfits)


def _operands(evidence: Evidence, form: MmaForm, op: MmaOp, views: Views, misfit: Misfit) -> Iterator[Way]:
    role = cast("Role", misfit.operand)
    view = views.get(role)
    if view is None:
        if role == "A" and form.a_space == "tmem" and form.a_major != "K":
            words = "a_major = K, or A in shared memory"
            yield words, (("MMA", spelled(op, a_major="K")),), replace(form, a_major="K"), views
        return
    name = f"{role.lower()}_major"
    said: Literal["K", "MN"] = getattr(form, name)
    flipped = replace(form, **{name: _OTHER[said]})  # type: ignore[arg-type]
    atom: Edit = ("MMA", spelled(op, **{name: _OTHER[said]}))
    seen = evidence.operands[role].tensor
    in_smem = view.space == "smem"
    rank = seen.layout.rank if seen is not None and seen.engine.space == "smem" else 2
    turned: Edit = (role, transposed_code(role, rank))
    square = view.mn == view.k
    if in_smem and view.major is not None:
        words = f"{name} = {_OTHER[said]} in the MMA's type"
        words += ", or the same buffer viewed transposed" if square else ""
        yield words, (atom,), flipped, views
        if view.part is None:
            other: Views = {**views, role: view.transposed()}
            to = _OTHER.get(view.major, "K")
            yield f"the same buffer viewed transposed, {to}-major", (turned,), form, other
            words = f"the same buffer viewed transposed, {to}-major, and {name} = {to} in the MMA's type"
            yield words, (turned, atom), flipped, other
    if seen is None or evidence.operands[role].tile:
        yield from _tiles(form, op, views, role, view, misfit)


def _tiles(
    form: MmaForm, op: MmaOp, views: Views, role: Role, view: OperandView, misfit: Misfit
) -> Iterator[Way]:
    """Another tile of the operand: extents that fit, in the same or a narrower swizzle."""
    major: Literal["K", "MN"] = form.a_major if role == "A" else form.b_major
    rows, k = _extents(form, views, role, view)
    named = dtype_of(op.type.args[0 if role == "A" else 1]) if op.type is not None else ""
    dtype = form.a_type if role == "A" else form.b_type
    if op.type is None or named not in ("bf16", "f16", "tf32", "f32", dtype):
        return
    modes = [view.swizzle] if view.swizzle in _ATOMS else []
    modes = ["128B", "64B", "32B", "none"] if modes in ([], ["none"]) else [*modes, "64B", "32B", "none"]
    for mode in modes:
        assert mode is not None
        tile = OperandView.tile(rows, k, major, mode, dtype=dtype)
        if tile.refused:
            continue
        layout = tile_code(major, mode, str(op.type.args[0 if role == "A" else 1]), rows, k)
        swizzle = "no swizzle" if mode == "none" else f"{mode} swizzle"
        atom = f"{swizzle} (UMMA::Layout_{major}_{_ATOMS[mode]}_Atom)"
        words = misfit.fits
        if misfit.code in ("swizzle-span", "swizzle", "canonical"):
            words = f"the tile [{rows}, {k}] with {atom}"
            if mode in misfit.fits:
                words = misfit.fits
        yield words, ((f"layout of {role}", layout),), form, {**views, role: tile}


def _extents(form: MmaForm, views: Views, role: Role, view: OperandView) -> tuple[int, int]:
    c, other = views.get("C"), views.get("B" if role == "A" else "A")
    rows = view.mn
    if c is not None:
        rows = c.mn if role == "A" else c.k // form.cta_group
    return max(1, rows), other.k if other is not None else view.k


def _shapes(evidence: Evidence, form: MmaForm, op: MmaOp, views: Views, misfit: Misfit) -> Iterator[Way]:
    """The nearest M and N that the form has; the operands are then others, so only the form is checked."""
    for m in sorted((32, 64, 128, 256), key=lambda m: (abs(m - form.m), -m)):
        for n in sorted(range(8, 257, 8), key=lambda n: (abs(n - form.n), n)):
            changed = replace(form, m=m, n=n)
            if (m, n) != (form.m, form.n) and not check(changed):
                yield misfit.fits, (("MMA", spelled(op, m=m, n=n)),), changed, {}
                return


def _accumulators(
    evidence: Evidence, form: MmaForm, op: MmaOp, views: Views, misfit: Misfit
) -> Iterator[Way]:
    c = views.get("C")
    if c is None or misfit.code not in ("space", "tmem-columns", "tmem-lanes"):
        return
    columns = c.k
    while True:
        acc = OperandView.in_tmem(c.mn, columns, dtype=form.c_type)
        yield (
            misfit.fits if columns == c.k else f"{misfit.fits}, such as [{c.mn * form.cta_group}, {columns}]",
            (("C", accumulator_code(c.mn * form.cta_group, columns)),),
            form,
            {**views, "C": acc},
        )
        if columns <= form.n:
            return
        columns = max(form.n, columns // 2)


def shape_code(extents: Iterable[int]) -> str:
    """A static shape's type as C++."""
    return f"cute::Shape<{', '.join(f'cute::Int<{extent}>' for extent in extents)}>"


def registers_code(dtype: str, copy: str = "copy", tensor: str = "C") -> str:
    """The registers into which a tiled copy of a tensor in tensor memory loads one thread's part, as C++."""
    part = f"{copy}.get_slice(threadIdx.x).partition_D(cute::make_identity_tensor(cute::shape({tensor})))"
    return f"cute::make_tensor<{dtype}>(cute::shape({part}))"
