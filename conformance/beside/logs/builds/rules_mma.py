"""Causes of errors around an MMA's operands. The verdict is that of the contract (spec.machine.contracts);
these rules find the misfit behind an assertion of CuTe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileproof.conformance.beside.logs.builds import advice
from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.cute import (
    CuteLayout,
    CuteTensor,
    MmaOp,
    Swizzle,
    contiguous,
    int_tuple,
    layout_of,
    size_of,
    swizzle_of,
    swizzle_words,
)
from tileproof.conformance.beside.logs.builds.evidence import Evidence
from tileproof.conformance.beside.logs.builds.operand import ROLES
from tileproof.spec.machine.contracts import Misfit, check
from tileproof.spec.machine.contracts.view import MODES, atom

# What an assertion says -> codes of the contract that it may stand for, and the operands.
_ASSERTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (r"[NM]-mode size|N_SM|cta_group", ("shape",), ""),
    (r"can't be transposed|cannot be transposed", ("major",), "A"),
    (r"supports \d+bit types|Unknown type for \w*Format|Unsupported .*type", ("type",), ""),
    (r"Not a canonical [UG]MMA", ("major", "swizzle-span", "canonical", "space", "shape"), "AB"),
    (r"Unsupported layout swizzle|uint128_t type in LayoutType", ("swizzle", "type", "major"), "AB"),
    (r"[UG]MMA Descriptors can only be constructed on smem|Expected SMEM Tensor", ("space",), "AB"),
    (r"Expected (?:tmem|desc registers) in MMA_Atom::call", ("space",), ""),
    (r"Requesting more TMEM", ("tmem-columns",), "AC"),
    (r"Expecting Val(?:Type|Frg)[AB] type", ("type", "space"), "AB"),
    (r"size<2>\(.*==.*size<2>\(", ("extent-k",), "AB"),
    (r"size<1>\(.*\) ?== ?size<1>\(", ("extent-m", "extent-k"), "ABC"),
    (r"size<1>\(.*\) ?== ?size<2>\(|size<2>\(.*\) ?== ?size<1>\(", ("extent-n",), "BC"),
    (r"size<0>\(.*\) ?== ?size<[01]>\(", ("extent-m", "extent-n", "shape"), "ABC"),
)
_ASSERTION = re.compile(r"static assertion failed|static_assert")


def misfits(evidence: Evidence) -> list[Misfit]:
    """The contract's misfits of the known operands."""
    if evidence.form is None:
        return []
    views = {role: evidence.operands[role].view for role in ROLES if role in evidence.operands}
    try:
        return check(evidence.form, views.get("A"), views.get("B"), views.get("C"))
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return []  # a view that no layout of CuTe gives: the log is damaged


def mma(case: ErrorCase) -> BuildCause | None:
    """The contract's misfit behind an assertion or a failed overload in an MMA's trail."""
    if (fragment := _plain_fragment(case)) is not None:
        return fragment
    found = misfits(case.evidence)
    hinted = _hint(case.text)
    if hinted is not None:
        codes, operands = hinted
        role = case.evidence.part_role
        fitting = [
            misfit
            for misfit in found
            if misfit.code in codes
            and (not operands or misfit.operand in (*operands, "MMA"))
            and (role is None or misfit.operand in (role, "MMA") or misfit.code.startswith("extent"))
        ]
        if fitting:
            return _cause(case.evidence, sorted(fitting, key=lambda misfit: codes.index(misfit.code)))
    compile_time = [misfit for misfit in found if misfit.at == "compile"]
    if compile_time and (hinted is not None or _about_mma(case)):
        return _cause(case.evidence, compile_time)
    return None if hinted is None else _alone(case, hinted[0])


def _hint(text: str) -> tuple[tuple[str, ...], str] | None:
    if not _ASSERTION.search(text):
        return None
    for pattern, codes, operands in _ASSERTIONS:
        if re.search(pattern, text):
            return codes, operands
    return None


def _about_mma(case: ErrorCase) -> bool:
    """Whether an error arose inside an MMA's call, or asserts something of its operands."""
    inside = any(frame.name in ("gemm", "mma_unpack", "call", "make_umma_desc") for frame in case.frames)
    return inside or (bool(_ASSERTION.search(case.text)) and len(case.evidence.operands) > 1)


def _cause(evidence: Evidence, found: Sequence[Misfit]) -> BuildCause:
    first = found[0]
    remedy = advice.for_misfit(evidence, first)
    others = tuple(
        f"{misfit.sentence}; what fits: {misfit.fits}"
        for misfit in found[1:]
        if misfit.sentence != first.sentence and (remedy is None or misfit.operand != first.operand)
    )
    fits, edits = (first.fits, ()) if remedy is None else (remedy.words, remedy.edits)
    return BuildCause(first.code, first.sentence, fits, first.operand, others, edits=edits)


def _plain_fragment(case: ErrorCase) -> BuildCause | None:
    """A weight-stationary MMA whose accumulator has a plain MMA's fragment (`tmem_frg` for `tmem_frg_ws`)."""
    mma = case.evidence.mma
    frame = next((frame for frame in case.frames if frame.owner == "tmem_frg"), None)
    if mma is None or not mma.ws or frame is None or not re.search(r"UMMA_\dSM\w* M-mode size", case.text):
        return None
    return BuildCause(
        "shape",
        f"M = {mma.m}: the accumulator of this weight-stationary MMA is described by UMMA::tmem_frg, the "
        "fragment of other MMAs, whose M on one SM is 64 or 128",
        "UMMA::tmem_frg_ws_1sm as the fragment's type (M = 32, 64 or 128; N = 64, 128 or 256)",
        "C",
        edits=(("fragment of C", f"cute::UMMA::tmem_frg_ws_1sm<{_type_c(mma)}>"),),
    )


def _type_c(mma: MmaOp) -> str:
    return str(mma.type.args[2]) if mma.type is not None and len(mma.type.args) > 2 else "float"


def _alone(case: ErrorCase, codes: tuple[str, ...]) -> BuildCause | None:
    """The cause if the trail names no MMA of the contract, from other names in the trail."""
    evidence = case.evidence
    part = evidence.part
    if part is not None and evidence.part_major is not None:
        return _part(evidence, part, evidence.part_major)
    if "type" in codes and evidence.mma is not None and "supports" in case.text:
        return _wrong_types(case)
    if any(code.startswith("extent") for code in codes):
        return _disagreement(case)
    return None


def _part(evidence: Evidence, part: CuteTensor, wanted: str) -> BuildCause:
    """The tensor that was to become a matrix descriptor, when nothing is known of the MMA."""
    role = evidence.part_role or ""
    who = role or "the operand"
    if part.engine.space not in ("smem", ""):
        what = f"{who} is {part.text()}, which no matrix descriptor can address"
        return BuildCause("space", what, "shared memory", role)
    mode = contiguous(part.layout)
    if mode is not None and (lies := ("MN", "K")[min(mode, 1)]) != wanted:
        return BuildCause(
            "major",
            f"{who} lies {lies}-major ({part.text()}, layout {part.layout}), but the descriptor is made for "
            f"{wanted}-major",
            f"Major::{lies} for this operand in the MMA's type, or a buffer that lies {wanted}-major",
            role,
        )
    return BuildCause(
        "canonical",
        f"{who} is {part.text()}, layout {part.layout}: these are not the strides of a canonical "
        f"{wanted}-major layout with {swizzle_words(part.engine.swizzle)}",
        f"tile_to_shape of a UMMA::Layout_{wanted}_..._Atom",
        role,
    )


def _wrong_types(case: ErrorCase) -> BuildCause:
    mma = case.evidence.mma
    assert mma is not None
    match = re.search(r"supports (\d+)bit types", case.text)
    bits = match[1] if match else "?"
    a, b, _ = mma.types
    return BuildCause(
        "type",
        f"{mma.name} needs elements of {bits} bits; A is {a} and B is {b} (as the code spells them)",
        f"{bits}-bit elements, or an MMA of another kind (TF32, F8F6F4)",
        "A" if a == b else "",
        edits=(("MMA", advice.spelled(mma, types="cutlass::bfloat16_t")),) if bits == "16" else (),
    )


_SIDE = re.compile(r"size<([\d, ]+)>\(\s*([A-Za-z_]\w*)\s*\)")


def _disagreement(case: ErrorCase) -> BuildCause | None:
    """An assertion `size<i>(X) == size<j>(Y)` of which both sides can be read from the trail."""
    for frame in case.frames:
        sides = []
        for modes, name in _SIDE.findall(case.text):
            role = name if name in ROLES else None
            layout = frame.args.get(f"{name}Layout")
            operand = case.evidence.operands.get(role) if role else None
            known = (
                layout_of(layout)
                if layout is not None
                else operand.tensor.layout
                if operand and operand.tensor
                else None
            )
            size = known.size(*map(int, modes.split(","))) if known is not None else None
            if size is not None:
                sides.append(f"size<{modes}>({name}) is {size} (layout {known})")
        if len(sides) >= 2 and sides[0] != sides[1]:
            code = {"2>(A": "extent-k", "1>(A": "extent-m", "1>(B": "extent-n"}
            named = next((value for key, value in code.items() if key in case.text), "extent-k")
            return BuildCause(named, f"{sides[0]}, but {sides[1]}", "operands that agree in this extent")
    return None


def swizzle_span(case: ErrorCase) -> BuildCause | None:
    """tile_to_shape of a swizzle's atom over a tile that the atom does not divide."""
    if "block shape does not divide" not in case.text:
        return None
    for frame in case.frames:
        target = frame.args.get("Shape") or frame.args.get("TrgShape")
        block = frame.args.get("B")
        if frame.name != "tile_to_shape" or target is None or block is None:
            continue
        shape, layout = int_tuple(target), layout_of(block)
        swizzle = swizzle_of(frame.args["A"]) if "A" in frame.args else None
        if layout is None or not isinstance(shape, tuple) or not isinstance(layout.shape, tuple):
            continue
        for mode, (extent, span) in enumerate(zip(shape, layout.shape, strict=False)):
            have, need = size_of(extent), size_of(span)
            if have and need and have % need:
                return _too_wide(layout, swizzle, mode, have, need)
    return None


def _too_wide(layout: CuteLayout, swizzle: Swizzle | None, mode: int, have: int, need: int) -> BuildCause:
    along = contiguous(layout) == mode
    name = MODES.get(swizzle) if swizzle else None
    words = (
        f"the {name} swizzle"
        if name and name != "none"
        else "the layout without swizzle"
        if name
        else "this layout"
    )
    fits = f"an extent that is a multiple of {need}"
    edits: tuple[advice.Edit, ...] = ()
    if along and name in ("128B", "64B", "32B"):
        bits = (16 << {"32B": 1, "64B": 2, "128B": 3}[name]) * 8 // need
        dtype = {16: "bf16", 32: "tf32", 8: "e4m3"}.get(bits)
        modes = [
            swizzle
            for swizzle in ("64B", "32B", "none")
            if dtype and have % atom("K", swizzle, dtype)[0] == 0
        ]
        if modes:
            wide = advice.atom_code("MN" if mode == 0 else "K", modes[0], "T")
            named = wide.removeprefix("cute::").removesuffix("<T>")
            fits = f"{modes[0] + ' swizzle' if modes[0] != 'none' else 'no swizzle'} ({named}), or {fits}"
            edits = (("atom of T", wide),)
    return BuildCause(
        "swizzle-span",
        f"the atom of {words} is {layout.extents()} elements, but mode {mode} of the tile is {have}, "
        f"which {need} does not divide",
        fits,
        edits=edits,
    )
