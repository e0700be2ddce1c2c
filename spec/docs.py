"""Prints the spec as a page: ``python -m tileproof.spec.docs`` writes docs/stages.md, ``--check`` compares
it.

Everything on the page comes from `spec`: the bounds, the section of each folder of problem types (its module
`page`), and the plans of every module in `spec.plans` (its function `plans`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tileproof.spec import arithmetic, numerics, plans, problems
from tileproof.spec.arithmetic import bound
from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.page import prose, sentences, table
from tileproof.spec.plan import (
    Barrier,
    FinishedObservation,
    KernelPlan,
    Mma,
    ProductOrder,
    SmemObservation,
    TmemObservation,
)

_BARRIER_HEAD = (
    "barrier",
    "offset",
    "stages",
    "count",
    "bytes per phase",
    "CTAs",
    "producers",
    "consumers",
    "phase is",
)
PAGE = Path(__file__).resolve().parent.parent / "docs" / "stages.md"


def known_plans() -> list[KernelPlan]:
    """Every plan of every module in `spec.plans`, by the module's name."""
    found: list[KernelPlan] = []
    for info in sorted(pkgutil.iter_modules(plans.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{plans.__name__}.{info.name}")
        if hasattr(module, "plans"):
            found += module.plans()
    return found


def page(kernel_plans: Iterable[KernelPlan]) -> str:
    """The whole page as Markdown."""
    parts = [
        "# Problems, stage by stage, and the kernels' plans",
        "Generated from `spec/` by `python -m tileproof.spec.docs`. Edit the spec, not this page.",
        "Each stage is one function over an arithmetic, in the problem's `stages.py`; this page, the float64 "
        "values that kernels are compared with, the rounding model and the bounds are interpretations of "
        "it. A loop to read and step through is in [reference](../reference/README.md).",
        *_problems(),
        *_bounds(),
    ]
    for plan in kernel_plans:
        parts += _plan(plan)
    return "\n\n".join(parts) + "\n"


def _problems() -> list[str]:
    """The section of each folder of problem types; a folder without a section is not on the page."""
    parts = []
    for folder in sorted(pkgutil.iter_modules(problems.__path__), key=lambda m: m.name):
        name = f"{problems.__name__}.{folder.name}"
        if folder.ispkg and importlib.util.find_spec(f"{name}.page"):
            own = importlib.import_module(f"{name}.page")
            parts += [f"## {own.TITLE}", *own.sections()]
    return parts


def _bounds() -> list[str]:
    constants = [(f"`{c.name}`", f"`{c.value}`", c.meaning, c.source) for c in numerics.CONSTANTS]
    operations = [
        (
            f"`{operation.name}`",
            operation.summary.replace("``", "`"),
            operation.error or "that of the operand",
            operation.source,
        )
        for operation in arithmetic.registered().values()
    ]
    return [
        "## Error bounds",
        prose(numerics),
        table(("constant", "value", "stands for", "source"), constants),
        "### Terms",
        prose(bound),
        "### What each operation adds",
        "Operations are registered by name (`spec/arithmetic/operations/`); a package registers its own "
        "([adding-a-problem.md](adding-a-problem.md)).",
        table(("operation", "value", "error", "source"), operations),
        "Rows that tiles are added to: " + sentences(inspect.getdoc(numerics.bound_scatter)),
    ]


def _plan(p: KernelPlan) -> list[str]:
    problem = p.problem
    sizes = ", ".join(f"{name} {size}" for name, size in p.sizes)
    ctas = "1 CTA" if p.cluster == 1 else f"{p.cluster} CTAs"
    return [
        f"## Kernel `{p.name}`" + (f": {sizes}" if sizes else ""),
        f"Problem `{p.problem.name}`. {ctas} per {problem.unit}, {p.threads} threads each; {p.block} of "
        f"{problem.walked} per k-block; {p.smem_bytes} bytes of shared memory, {p.tmem_columns} TMEM "
        f"columns. Stages: {', '.join(p.stages)}.",
        "### Warp roles",
        table(
            ("role", "warps", "CTAs", "does"),
            [(r.name, _range(r.first_warp, r.warps), _ranks(r.ctas), r.does) for r in p.roles],
        ),
        *_storage(p),
        "### MMAs",
        table(("MMA", "form", "M x N", "k", "A", "B", "D"), list(map(_mma, p.mmas))),
        *_ordered(p),
        "### Where the stages can be observed",
        table(("stage", "build", "place"), _observations(p)),
        *_partial_sums(p),
    ]


def _storage(p: KernelPlan) -> list[str]:
    """Barriers, shared memory and tensor memory."""
    barriers = [
        (
            b.name, str(b.offset), str(b.stages), str(b.count), str(b.tx_bytes or "none"), _ranks(b.ctas),
            b.producers, b.consumers, _phase(b),
        )
        for b in p.barriers
    ]  # fmt: skip
    smem = [
        (
            t.name, str(t.offset), str(t.bytes), str(t.stages), f"{t.rows} x {t.cols}", t.dtype, t.swizzle,
            t.major, t.holds,
        )
        for t in p.smem
    ]  # fmt: skip
    return [
        "### Barriers",
        table(_BARRIER_HEAD, barriers),
        "### Shared memory",
        table(("tile", "offset", "bytes", "buffers", "shape", "type", "swizzle", "major", "holds"), smem),
        "### Tensor memory",
        table(
            ("tile", "columns", "buffers", "layout", "holds"),
            [(t.name, _range(t.column, t.columns), str(t.stages), t.layout, t.holds) for t in p.tmem],
        ),
    ]


def _mma(m: Mma) -> tuple[str, ...]:
    return (
        m.name,
        f"cta_group::{m.cta_group} kind::{m.kind}{' ws' if m.ws else ''}",
        f"{m.m} x {m.n}" + (f", {m.parts} times" if m.parts > 1 else ""),
        str(m.k),
        f"{m.a}{_columns(m.a_cols)}, {m.a_major}-major",
        f"{m.b}{_columns(m.b_cols)}, {m.b_major}-major",
        m.d,
    )


def _observations(p: KernelPlan) -> list[tuple[str, str, str]]:
    """Where each stage can be observed, and in which build."""
    seen = []
    for o in p.observations:
        if isinstance(o, TmemObservation):
            part = f", {o.parts} parts per k-block" if o.parts > 1 else ""
            part += f", columns from {o.first_col}" if o.first_col else ""
            part += ", transposed" if o.transposed else ""
            place = f"TMEM tile {o.tile} when barrier {o.barrier} completes{part}"
        elif isinstance(o, SmemObservation):
            part = ", transposed" if o.transposed else ""
            place = f"shared-memory tile {o.tile} when barrier {o.barrier} completes{part}"
        elif isinstance(o, FinishedObservation):
            made = f"made of {o.source}" + (f" times {o.factor}" if o.factor else "")
            place = f"output {o.parameter} {o.indexed}, {made}"
        else:
            place = f"output {o.parameter} {o.indexed}" + (", negated" if o.negated else "")
        seen.append((o.stage, "production", place))
    return seen + [(o.stage, "probe", f"output {o.parameter} {o.indexed}") for o in p.probes]


def _partial_sums(p: KernelPlan) -> list[str]:
    """Where partial sums can be observed."""
    if not p.partials:
        return []
    shown = [
        (o.stage, f"TMEM tile {o.tile}" + (f", columns from {o.first_col}" if o.first_col else ""), o.barrier)
        for o in p.partials
    ]
    return [
        "### Where partial sums can be observed, after each k-block",
        table(("stage", "place", "when barrier completes"), shown),
    ]


def _ordered(p: KernelPlan) -> list[str]:
    """In which order the products of MMA stages are added."""
    if not p.ordered:
        return []

    def runs(order: ProductOrder) -> str:
        each = (", ".join(f"{first}-{end - 1}" for first, end in some) for some in order.runs)
        return "; ".join(each) or "ascending"

    rows = [
        (order.stage, runs(order), ", then ".join(order.operands) or "a single product")
        for order in p.ordered
    ]
    return [
        "### In which order products are added",
        "16 at a time, one k-block after the other; what several accumulators hold (separated by "
        "semicolons) is added in f32. On the emulator these stages are compared bit by bit.",
        table(("stage", "k", "products, by an input"), rows),
    ]


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _phase(b: Barrier) -> str:
    if not b.per_k_block:
        return "once"
    return "a k-block" if b.parts == 1 else f"one of {b.parts} parts of a k-block"


def _columns(cols: tuple[int, int] | None) -> str:
    return "" if cols is None else f" columns {cols[0]}-{cols[1] - 1}"


def _ranks(ctas: tuple[int, ...]) -> str:
    return ", ".join(map(str, ctas))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk differs from the spec."""
    return write_or_check("tileproof.spec.docs", PAGE, lambda: page(known_plans()), arguments)


if __name__ == "__main__":
    sys.exit(main())
