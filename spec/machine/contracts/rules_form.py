"""The instruction itself: shapes and element types."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.machine import mma
from tileproof.spec.machine.contracts.form import ACCUMULATORS, BITS, KINDS, MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.contracts.view import OperandView
from tileproof.spec.machine.errors import TileproofError

Shapes = dict[int, tuple[int, ...]]


def cute_shapes(form: MmaForm) -> Shapes:
    """M -> N that CuTe's atom for `form` accepts (asserts in `mma_sm100_umma.hpp`; .ws: tmem_frg_ws, and
    tmem_frg for A in tensor memory, as CUTLASS 4.2 has no .ws atom of its own)."""
    if form.ws:
        rows = (64, 128) if form.a_space == "tmem" else (32, 64, 128)
        return dict.fromkeys(rows, (64, 128, 256))
    if form.cta_group == 2:
        step = 32 if form.a_space == "tmem" else 16
        return dict.fromkeys((128, 256), tuple(range(step, 257, step)))
    eights, sixteens = tuple(range(8, 257, 8)), tuple(range(16, 257, 16))
    return {64: eights, 128: sixteens if form.a_space == "tmem" else eights}


def isa_shapes(form: MmaForm) -> Shapes:
    """M -> N that the instruction takes (`spec.machine.mma`); empty for tcgen05.mma.ws of a CTA pair."""
    try:
        return mma.legal_shapes(form.cta_group, a_in_tmem=form.a_space == "tmem", ws=form.ws)
    except TileproofError:
        return {}


def shapes(form: MmaForm) -> Iterator[Misfit]:
    """M and N against the shapes that CuTe's atom and the instruction have."""
    known = {"CuTe": cute_shapes(form), "machine": isa_shapes(form)}
    if form.ws and form.cta_group == 2:
        yield Misfit(
            "shape",
            "MMA",
            "tcgen05.mma.ws exists for one CTA only, not for a pair (cta_group::2)",
            "cta_group 1",
            "cta_group 2",
            "cta_group::1, or the form without .ws",
            ("CuTe", "machine"),
        )
        return
    m_refused = tuple(who for who, table in known.items() if form.m not in table)
    if m_refused:
        legal = _or(known[m_refused[0]])
        yield Misfit(
            "shape",
            "MMA",
            f"{_form(form)} has M = {legal}, not {form.m}{_only(m_refused)}",
            legal,
            str(form.m),
            f"M = {legal}{_other_form(form)}",
            m_refused,
        )
    n_refused = tuple(who for who, table in known.items() if form.n not in _ns(table, form.m))
    if n_refused:
        legal = _steps(_ns(known[n_refused[0]], form.m))
        yield Misfit(
            "shape",
            "MMA",
            f"{_form(form)} with M = {form.m} has N = {legal}, not {form.n}{_only(n_refused)}",
            legal,
            str(form.n),
            f"N = {_nearest(_ns(known[n_refused[0]], form.m), form.n)}",
            n_refused,
        )


def _ns(table: Shapes, m: int) -> tuple[int, ...]:
    """N for M = m; where M itself is illegal, N of any M."""
    return table.get(m) or tuple(sorted({n for legal in table.values() for n in legal}))


def types(
    form: MmaForm, a: OperandView | None, b: OperandView | None, c: OperandView | None
) -> Iterator[Misfit]:
    """Element types of the form, and of each operand's buffer against the form's."""
    both = ("CuTe", "machine")
    legal = KINDS[form.kind]
    for operand, dtype in (("A", form.a_type), ("B", form.b_type)):
        if dtype not in legal:
            yield Misfit(
                "type",
                operand,
                f"kind::{form.kind} multiplies {' or '.join(legal)}, not {dtype} as {operand} is",
                " or ".join(legal),
                dtype,
                _kind_for(dtype),
                both,
            )
    accumulators = ACCUMULATORS[form.kind]
    if form.c_type not in accumulators:
        # CuTe's to_CFormat knows f16, f32 and s32 whatever the kind.
        refused = ("machine",) if form.c_type in ("f16", "s32") else both
        yield Misfit(
            "type",
            "C",
            f"kind::{form.kind} accumulates in {' or '.join(accumulators)}, not in {form.c_type}",
            " or ".join(accumulators),
            form.c_type,
            f"an accumulator of {accumulators[0]}",
            refused,
        )
    elif form.c_type == "f16" and "bf16" in (form.a_type, form.b_type):
        yield Misfit(
            "type",
            "C",
            "an f16 accumulator takes f16 operands only: with bf16 the accumulator is f32",
            "f32",
            "f16",
            "an accumulator of f32",
            ("machine",),
        )
    for operand, view, dtype in (("A", a, form.a_type), ("B", b, form.b_type)):
        if view is not None and view.dtype != dtype and view.space != "tmem":
            yield Misfit(
                "type",
                operand,
                f"{operand} holds {view.dtype}, but this MMA reads {dtype}",
                dtype,
                view.dtype,
                f"an MMA of {view.dtype} operands, or a buffer of {dtype}",
                both,
            )
    if c is not None and BITS[c.dtype] != BITS[form.c_type]:
        yield Misfit(
            "type",
            "C",
            f"the accumulator is read as {c.dtype}, but this MMA writes {form.c_type}",
            form.c_type,
            c.dtype,
            f"an accumulator of {form.c_type}",
            ("machine",),
        )


def _kind_for(dtype: str) -> str:
    for kind, operands in KINDS.items():
        if dtype in operands:
            return f"kind::{kind} for {dtype}"
    return f"a kind for {dtype}, which this check does not know"


def _form(form: MmaForm) -> str:
    group = "2-CTA" if form.cta_group == 2 else "1-CTA"
    where = "TMEM" if form.a_space == "tmem" else "shared memory"
    return f"{'weight-stationary ' if form.ws else ''}{group} MMA with A in {where}"


def _only(refused: tuple[str, ...]) -> str:
    if refused == ("CuTe",):
        return " in CuTe's atoms, though the instruction has it"
    return ""


def _other_form(form: MmaForm) -> str:
    if form.m == 32 and not form.ws:
        return ", or the weight-stationary form for M = 32"
    if form.m == 256 and form.cta_group == 1:
        return ", or a pair of CTAs (cta_group::2) for M = 256"
    if form.m == 64 and form.cta_group == 2:
        return ", or cta_group::1 for M = 64"
    return ""


def _or(values: Shapes) -> str:
    return " or ".join(map(str, values))


def _steps(values: tuple[int, ...]) -> str:
    if len(values) > 3:
        return f"{values[0]} to {values[-1]} in steps of {values[1] - values[0]}"
    return ", ".join(map(str, values))


def _nearest(values: tuple[int, ...], n: int) -> str:
    below = [value for value in values if value < n]
    above = [value for value in values if value > n]
    return " or ".join(str(value) for value in (below[-1:] + above[:1]))
