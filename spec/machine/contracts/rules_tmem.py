"""Operands in tensor memory: the accumulator, and A when the MMA reads it from there."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.machine import tmem
from tileproof.spec.machine.contracts.form import BITS, MmaForm
from tileproof.spec.machine.contracts.misfit import Misfit
from tileproof.spec.machine.contracts.rules_extents import tiles
from tileproof.spec.machine.contracts.view import OperandView

CELL_BITS = 32
CAPACITY_BITS = tmem.LANES * tmem.COLUMNS * CELL_BITS


def accumulator_columns(form: MmaForm, tiles_m: int, tiles_n: int) -> int | None:
    """Columns of ``tiles_m x tiles_n`` accumulators; None when the form has no data path or N does not split.

    Two M = 64 accumulators of layout F share columns when A is in shared memory (CUTLASS 4.2, TmemAllocMode:
    interleaved for SS, not for TS, whose A must lie in the lanes of D).
    """
    path = form.data_path
    if path is None or form.n % tmem.layout(path).parts:
        return None
    count = tiles_m * tiles_n
    if path == "F" and form.a_space == "smem":
        count = -(-count // 2)
    return count * tmem.columns(path, form.n)


def tensor_memory(form: MmaForm, a: OperandView | None, c: OperandView | None) -> Iterator[Misfit]:
    """A's memory and major-ness, and columns and lanes of both."""
    if form.a_space == "tmem":
        if form.a_major != "K":
            yield Misfit(
                "major",
                "A",
                "A comes from tensor memory, where it has one layout, K-major; this MMA asks MN-major",
                "K-major",
                "MN-major",
                "a_major = K, or A in shared memory",
                ("CuTe", "machine"),
            )
        if a is not None and a.space != "tmem":
            yield Misfit(
                "space",
                "A",
                f"A is {a.text} in {a.space}, but this MMA reads it from tensor memory: CuTe makes a "
                "fragment of A's shape there and forgets the buffer",
                "tensor memory",
                a.space,
                "the form with A in shared memory (SM100_MMA_..._SS), or a copy to TMEM",
                ("machine",),
            )
    if c is not None and c.space != "tmem":
        yield Misfit(
            "space",
            "C",
            "the accumulator lies in tensor memory, nowhere else",
            "tensor memory",
            c.space,
            "partition_fragment_C or a tensor of tmem_ptr",
            ("CuTe", "machine"),
        )
    spans: list[tuple[str, OperandView, int]] = []
    if c is not None and c.space == "tmem":
        tiles_c = tiles(form, "C", c)
        columns = accumulator_columns(form, *tiles_c)
        elements = form.a_rows * form.n * tiles_c[0] * tiles_c[1]
        if columns is not None:
            yield from _capacity("C", c, columns, elements * CELL_BITS > CAPACITY_BITS)
            spans.append(("C", c, columns))
        yield from _lanes(form, "C", c)
    if a is not None and a.space == "tmem" and form.a_space == "tmem":
        tiles_a = tiles(form, "A", a)
        k = tiles_a[1] * form.instruction_k
        columns = tiles_a[0] * k * BITS[form.a_type] // CELL_BITS
        elements = form.a_rows * tiles_a[0] * k
        yield from _capacity("A", a, columns, elements * BITS[form.a_type] > CAPACITY_BITS)
        spans.append(("A", a, columns))
        yield from _lanes(form, "A", a)
        if form.data_path == "F" and c is not None and None not in (a.lane, c.lane) and a.lane != c.lane:
            yield Misfit(
                "tmem-lanes",
                "A",
                f"A starts at lane {a.lane} and the accumulator at lane {c.lane}: with M = 64 a "
                "data path multiplies the A of its own lanes",
                f"lane {c.lane}",
                f"lane {a.lane}",
                "the same lane for both",
                ("machine",),
            )
    yield from _check_columns(spans)


def _capacity(name: str, view: OperandView, columns: int, cute_refuses: bool) -> Iterator[Misfit]:
    what = "the accumulator" if name == "C" else "A"
    if columns > tmem.COLUMNS:
        yield Misfit(
            "tmem-columns",
            name,
            f"{what} [{view.mn}, {view.k}] takes {columns} columns of tensor memory, which "
            f"has {tmem.COLUMNS}",
            f"at most {tmem.COLUMNS} columns",
            str(columns),
            "fewer or smaller tiles",
            ("CuTe", "machine") if cute_refuses else ("machine",),
        )
    elif view.column is not None and view.column + columns > tmem.COLUMNS:
        yield Misfit(
            "tmem-columns",
            name,
            f"{what} [{view.mn}, {view.k}] takes columns {view.column} to "
            f"{view.column + columns} of tensor memory, which has {tmem.COLUMNS}",
            f"a first column up to {tmem.COLUMNS - columns}",
            str(view.column),
            f"column {tmem.COLUMNS - columns} or below",
            ("machine",),
        )


def _lanes(form: MmaForm, name: str, view: OperandView) -> Iterator[Misfit]:
    path = form.data_path
    if view.lane is None or path is None:
        return
    legal = (0, 16) if tmem.layout(path).interleaved else (0,)
    if view.lane not in legal:
        what = "the accumulator" if name == "C" else "A"
        words = " or ".join(map(str, legal))
        yield Misfit(
            "tmem-lanes",
            name,
            f"{what} starts at lane {view.lane}; M = {form.m} of this form is data path layout "
            f"{path}, which starts at lane {words}",
            f"lane {words}",
            str(view.lane),
            f"lane {words}",
            ("machine",),
        )


def _check_columns(spans: list[tuple[str, OperandView, int]]) -> Iterator[Misfit]:
    if len(spans) < 2:
        return
    (_, c, c_columns), (_, a, a_columns) = spans
    if max(c_columns, a_columns) <= tmem.COLUMNS < c_columns + a_columns:
        yield Misfit(
            "tmem-columns",
            "A",
            f"the accumulator takes {c_columns} columns of tensor memory and A {a_columns}: "
            f"together more than {tmem.COLUMNS}",
            f"at most {tmem.COLUMNS} columns",
            str(c_columns + a_columns),
            "fewer or smaller tiles",
            ("machine",),
        )
    elif a.column is None or c.column is None:
        return
    elif a.column < c.column + c_columns and c.column < a.column + a_columns:
        yield Misfit(
            "tmem-columns",
            "A",
            f"A takes columns {a.column} to {a.column + a_columns} and the accumulator "
            f"{c.column} to {c.column + c_columns}: they overlap",
            "disjoint columns",
            str(a.column),
            f"A at column {c.column + c_columns}",
            ("machine",),
        )
