"""Operands in shared memory: major-ness, swizzle, and whether a matrix descriptor can describe them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.contracts import algebra, canonical
from tileproof.spec.machine.contracts.algebra import Refused
from tileproof.spec.machine.contracts.canonical import Strides
from tileproof.spec.machine.contracts.form import BITS, Major, MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.contracts.view import OperandView, atom

BOTH = ("CuTe", "machine")


@dataclass(frozen=True)
class Cut:
    """An operand cut into instructions: tiles along MN and K, the descriptor strides or why it has none."""

    tiles_mn: int
    tiles_k: int
    strides: Strides | None
    refused: str = ""


def rows_of(form: MmaForm, operand: str) -> int:
    """M or N of the whole instruction."""
    return form.m if operand == "A" else form.n


def major_in(form: MmaForm, operand: str) -> Major:
    """The major-ness of the form's descriptor."""
    return form.a_major if operand == "A" else form.b_major


def cut(form: MmaForm, operand: str, view: OperandView) -> Cut:
    """How CuTe cuts `view` for `form`; where the layout is not known, by extents alone."""
    rows = rows_of(form, operand)
    tiles = -(-view.mn // rows), -(-view.k // form.instruction_k)
    if view.refused:
        return Cut(*tiles, None, view.refused)
    if view.part is not None and view.tiles is not None:
        part, found = view.part, view.tiles
        inside = (rows // form.cta_group, form.instruction_k)
        if tuple(algebra.size(mode.shape) for mode in algebra.modes(part)) != inside:
            return Cut(*found, None, f"cut for another MMA: {part}")
    elif view.layout is None:
        return Cut(*tiles, None)
    else:
        try:
            part, *counts = algebra.partition(view.layout, rows, form.instruction_k, form.cta_group)
        except Refused as why:
            return Cut(*tiles, None, str(why))
        found = (counts[0], counts[1])
    if view.space != "smem" or view.swizzle in (None, "other"):
        return Cut(*found, None)
    try:
        return Cut(*found, canonical.strides(part, major_in(form, operand), view.swizzle, view.dtype))
    except Refused as why:
        return Cut(*found, None, str(why))


def descriptor(form: MmaForm, operand: str, view: OperandView) -> Iterator[Misfit]:
    """Space, swizzle mode, major-ness, span, canonical strides and alignment of one operand."""
    if view.space != "smem":
        places = {"gmem": "global memory", "rmem": "registers", "tmem": "tensor memory"}
        found = places[view.space]
        yield Misfit(
            "space",
            operand,
            f"{operand} lies in {found}, but this MMA reads it from shared memory",
            "shared memory",
            found,
            _space_fits(operand, view.space),
            BOTH,
        )
        return
    if view.swizzle == "other":
        yield Misfit(
            "swizzle",
            operand,
            f"{operand} has a swizzle that no matrix descriptor has a mode for",
            "Swizzle<0..3,4,3> of byte addresses",
            "another swizzle",
            "a UMMA::Layout_..._Atom",
            BOTH,
        )
        return
    want = major_in(form, operand)
    done = cut(form, operand, view)
    if view.major is not None and view.major != want:
        yield _wrong_major(form, operand, view, want, done)
    elif done.refused:
        yield _not_canonical(form, operand, view, want, done)
    if view.swizzle == "128B_ATOM_32B" and BITS[view.dtype] == 16:
        yield Misfit(
            "swizzle",
            operand,
            f"{operand} is {view.dtype}: the 128B swizzle with 32-byte atoms is for tf32 only",
            "none, 32B, 64B or 128B",
            "128B with 32-byte atoms",
            "the 128B swizzle",
            ("machine",),
        )
    yield from _aligned(operand, view)


def _space_fits(operand: str, space: str) -> str:
    if operand == "A" and space == "tmem":
        return "the form with A in TMEM (SM100_MMA_..._TS), or a copy of A in shared memory"
    return f"a copy of {operand} in shared memory"


def _wrong_major(form: MmaForm, operand: str, view: OperandView, want: Major, done: Cut) -> Misfit:
    name = "a_major" if operand == "A" else "b_major"
    if view.major == "neither":
        sentence = f"{operand} {view.text}: an operand must be contiguous along MN or K"
        fits = f"a tile whose {want} elements lie side by side"
    else:
        sentence = f"{operand} is {view.text}, but this MMA's descriptor says {want}-major"
        fits = f"{name} = {view.major}"
        if view.mn == view.k:
            fits += ", or the same buffer viewed transposed"
        if operand == "A" and form.a_space == "tmem":
            fits = "K-major: A in TMEM has no other"
    accepted = view.layout is not None and not done.refused
    # Where CuTe finds the strides it looks for all the same, the wrong elements are multiplied.
    return Misfit(
        "major", operand, sentence, f"{want}-major", str(view.major), fits, ("machine",) if accepted else BOTH
    )


def _not_canonical(form: MmaForm, operand: str, view: OperandView, want: Major, done: Cut) -> Misfit:
    assert view.swizzle is not None
    along, across = atom(want, view.swizzle, view.dtype)
    extent, other = (view.k, view.mn) if want == "K" else (view.mn, view.k)
    if extent % along or other % across:
        axis, cross = ("K", "MN") if want == "K" else ("MN", "K")
        short = extent % along != 0
        what, found, need = (axis, extent, along) if short else (cross, other, across)
        sentence = (
            f"{operand} is {view.text}: the swizzle's atom spans {need} elements along {what}, "
            f"which does not divide {found}"
        )
        narrower = [mode for mode in ("64B", "32B", "none") if extent % atom(want, mode, view.dtype)[0] == 0]
        fits = f"{what} a multiple of {need}"
        if short and narrower and view.swizzle in ("128B", "64B", "32B"):
            fits += f", or {_swizzle_words(narrower[0])}"
        return Misfit("swizzle-span", operand, sentence, f"a multiple of {need}", str(found), fits, BOTH)
    rows = rows_of(form, operand) // form.cta_group
    sentence = (
        f"{operand} is {view.text}, but its strides are not those of a canonical {want}-major layout with "
        f"{_swizzle_words(view.swizzle)} for [{rows}, {form.instruction_k}]: {done.refused}"
    )
    seen = "no layout" if view.layout is None else str(view.layout).replace(" ", "")
    return Misfit(
        "canonical",
        operand,
        sentence,
        "strides of UMMA::make_umma_desc",
        seen,
        _canonical_fits(form, operand, view, want),
        BOTH,
    )


def _canonical_fits(form: MmaForm, operand: str, view: OperandView, want: Major) -> str:
    """Return the swizzle with these strides, if any; otherwise the tile to build instead."""
    for mode in sw.BITS:
        if (
            mode != view.swizzle
            and view.part is None
            and cut(form, operand, replace(view, swizzle=mode)).strides
        ):
            return (
                f"the {mode} swizzle, whose strides these are (UMMA::Layout_{want}_{_atom_name(mode)}_Atom)"
            )
    assert view.swizzle is not None
    return f"tile_to_shape of UMMA::Layout_{want}_{_atom_name(view.swizzle)}_Atom"


def _swizzle_words(mode: str) -> str:
    return "no swizzle" if mode == "none" else f"{mode} swizzle"


def _atom_name(mode: str) -> str:
    names = {"none": "INTER", "32B": "SW32", "64B": "SW64", "128B": "SW128", "128B_ATOM_32B": "SW128_32B"}
    return names[mode]


def _aligned(operand: str, view: OperandView) -> Iterator[Misfit]:
    if view.address is None or view.swizzle in (None, "other"):
        return
    assert view.swizzle is not None
    need = 1024 if view.swizzle == "128B_ATOM_32B" else sw.span(view.swizzle)
    if view.address % need:
        yield Misfit(
            "alignment",
            operand,
            f"{operand} starts at byte {view.address:#x}, but a pattern with {_swizzle_words(view.swizzle)} "
            f"starts on a {need}-byte boundary when the descriptor's base offset is 0",
            f"a multiple of {need}",
            hex(view.address),
            f"alignas({need})",
            ("machine",),
        )
