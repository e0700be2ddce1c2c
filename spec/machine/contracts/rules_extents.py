"""Extents: K of A and B, rows of A against M of the accumulator, rows of B against N of it."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.machine.contracts.form import MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.contracts.rules_smem import cut
from tileproof.spec.machine.contracts.view import OperandView

Tiles = tuple[int, int]


def tiles(form: MmaForm, operand: str, view: OperandView) -> Tiles:
    """Instructions along the operand's two modes, as CuTe counts them: rounded up."""
    if operand == "C":
        return -(-view.mn // form.a_rows), -(-view.k // form.n)
    rows = form.a_rows if operand == "A" else form.b_rows
    if view.space != "smem" or (view.layout is None and view.tiles is None):
        return -(-view.mn // rows), -(-view.k // form.instruction_k)
    done = cut(form, operand, view)
    return done.tiles_mn, done.tiles_k


def extents(
    form: MmaForm, a: OperandView | None, b: OperandView | None, c: OperandView | None
) -> Iterator[Misfit]:
    """Each operand's extents against the others', or against the form alone."""
    want_a = c.mn if c is not None else None
    want_b = c.k // form.cta_group if c is not None and c.k % form.cta_group == 0 else None
    k_a, k_b = _wanted_k(form, a, b, want_a, want_b)
    same_k = a is None or b is None or tiles(form, "A", a)[1] == tiles(form, "B", b)[1]
    if a is not None:
        same = c is None or tiles(form, "A", a)[0] == tiles(form, "C", c)[0]
        yield from _operand(form, "A", a, want_a, k_a, same, same_k)
    if b is not None:
        same = c is None or tiles(form, "B", b)[0] == tiles(form, "C", c)[1]
        yield from _operand(form, "B", b, want_b, k_b, same, same_k)
    if c is not None:
        yield from _accumulator(form, c)


def _wanted_k(
    form: MmaForm, a: OperandView | None, b: OperandView | None, want_a: int | None, want_b: int | None
) -> tuple[int | None, int | None]:
    """Return the K that A and B should have: the K of the form, otherwise that of the other operand."""
    if form.k is not None or a is None or b is None or a.k == b.k:
        return form.k, form.k
    step = form.instruction_k
    a_odd = (want_a is not None and a.mn != want_a) or a.k % step != 0
    b_odd = (want_b is not None and b.mn != want_b) or b.k % step != 0
    return (b.k, None) if a_odd and not b_odd else (None, a.k)


def _operand(
    form: MmaForm, name: str, view: OperandView, rows: int | None, k: int | None, same_mn: bool, same_k: bool
) -> Iterator[Misfit]:
    axis, of_pair = ("M", form.a_rows) if name == "A" else ("N", form.b_rows)
    code = "extent-m" if name == "A" else "extent-n"
    wrong_rows = rows is not None and view.mn != rows
    wrong_k = k is not None and view.k != k
    each = " from each CTA" if form.cta_group == 2 else ""
    if wrong_rows and wrong_k and (view.mn, view.k) == (k, rows):
        turned = "MN-major" if view.major == "K" else "K-major"
        yield Misfit(
            "extent-k",
            name,
            f"{name} is {view.text}, so this MMA sees {axis} = {view.mn} and K = {view.k}{each}; it needs "
            f"{axis} = {rows}, K = {k}: view the same buffer transposed, {turned}",
            f"[{rows}, {k}]",
            f"[{view.mn}, {view.k}]",
            f"the same buffer viewed transposed, {turned}",
            _who(same_mn and same_k),
        )
        return
    if wrong_rows:
        assert rows is not None
        other = "M of the accumulator" if name == "A" else "N of the accumulator"
        yield Misfit(
            code,
            name,
            f"{name} is {view.text}, so this MMA sees {axis} = {view.mn}{each}; {other} is {rows}{each}",
            f"{axis} = {rows}",
            f"{axis} = {view.mn}",
            _rows_fit(form, name, view, rows),
            _who(same_mn),
        )
    elif view.mn % of_pair:
        yield Misfit(
            code,
            name,
            f"{name} is {view.text}: {view.mn} rows are no whole number of the {of_pair} rows that one "
            f"instruction reads{each}, so it reads past the end",
            f"a multiple of {of_pair}",
            str(view.mn),
            f"{axis} = {of_pair * -(-view.mn // of_pair)}{each}",
            ("machine",),
        )
    if wrong_k:
        against = "the product" if form.k is not None else ("B" if name == "A" else "A")
        yield Misfit(
            "extent-k",
            name,
            f"{name} is {view.text}, so this MMA sees K = {view.k}; K of {against} is {k}",
            f"K = {k}",
            f"K = {view.k}",
            f"a {name} of [{rows or view.mn}, {k}]",
            _who(same_k),
        )
    elif view.k % form.instruction_k:
        step = form.instruction_k
        yield Misfit(
            "extent-k",
            name,
            f"{name} is {view.text}: K = {view.k} is no multiple of the {step} elements that one "
            "instruction takes",
            f"a multiple of {step}",
            str(view.k),
            f"K = {step * -(-view.k // step)}, padded with zeros",
            ("machine",),
        )


def _who(cute_accepts: bool) -> tuple[str, ...]:
    return ("machine",) if cute_accepts else ("CuTe", "machine")


def _rows_fit(form: MmaForm, name: str, view: OperandView, rows: int) -> str:
    if form.cta_group == 2 and view.mn == 2 * rows:
        return f"{rows} rows in each CTA of the pair, which together supply {view.mn}"
    return f"{'an' if name == 'A' else 'a'} {name} of [{rows}, {view.k}]"


def _accumulator(form: MmaForm, c: OperandView) -> Iterator[Misfit]:
    for code, axis, found, step in (("extent-m", "M", c.mn, form.a_rows), ("extent-n", "N", c.k, form.n)):
        if found % step:
            yield Misfit(
                code,
                "C",
                f"the accumulator is [{c.mn}, {c.k}]: {axis} = {found} is no multiple of the {step} that "
                f"one instruction writes",
                f"a multiple of {step}",
                str(found),
                f"{axis} = {step * -(-found // step)}, or an MMA of another {axis}",
                ("machine",),
            )
