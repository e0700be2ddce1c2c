"""Prints the spec as a page: ``python -m tileproof.spec.docs`` writes docs/stages.md, ``--check`` compares
it.

Everything on the page comes from `spec`: the problem, the stage graph, the bounds, and every kernel plan
found in `spec.plans` (a module with ``D_QKS`` and ``plan(d_qk)``).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import ModuleType

from tileproof.spec import numerics, plans
from tileproof.spec.arithmetic import BF16, bound
from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.plan import Barrier, KernelPlan, SmemObservation, TmemObservation
from tileproof.spec.problems.dense_attention_bwd import inputs as dense
from tileproof.spec.problems.dense_attention_bwd import problem as dense_problem
from tileproof.spec.problems.dense_attention_bwd import stages as dense_stages
from tileproof.spec.problems.sparse_mla_bwd import inputs as problem
from tileproof.spec.problems.sparse_mla_bwd import notation, sink
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.stage import Stage

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
    """Every plan of every module in `spec.plans`, by name and d_qk."""
    found = []
    for info in sorted(pkgutil.iter_modules(plans.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{plans.__name__}.{info.name}")
        if hasattr(module, "plan") and hasattr(module, "D_QKS"):
            found += [module.plan(d_qk) for d_qk in module.D_QKS]
    return found


def page(kernel_plans: Iterable[KernelPlan]) -> str:
    """The whole page as Markdown."""
    parts = [
        "# The backward, stage by stage",
        "Generated from `spec/` by `python -m tileproof.spec.docs`. Edit the spec, not this page.",
        *_problem(),
        *_stages(),
        *_bounds(),
        *_sink(),
        *_dense(),
    ]
    for plan in kernel_plans:
        parts += _plan(plan)
    return "\n\n".join(parts) + "\n"


def _problem() -> list[str]:
    text = inspect.getdoc(problem) or ""
    sizes = [
        ("h_q", " or ".join(map(str, problem.H_Q_SUPPORTED))),
        ("d_qk", " or ".join(map(str, problem.D_QK_SUPPORTED))),
        ("d_v", str(problem.D_V)),
        ("topk", f"a multiple of B_TOPK = {problem.B_TOPK}"),
        ("s_q, s_kv", "1 and up"),
    ]
    return ["## The problem", text.replace("``", "`"), _table(("size", "value"), sizes)]


def _rows_of(stages: Mapping[str, Stage]) -> tuple[str, str]:
    """The tables of stages: what each is, and its four steps."""
    rows = [
        (
            f"**{s.name}**",
            f"`{s.formula}`",
            ", ".join(s.inputs),
            f"[{', '.join(s.tile)}]",
            s.at_rest,
            s.memory,
            s.kind,
        )
        for s in stages.values()
    ]
    head = ("stage", "value", "inputs", "tile", "at rest", "memory", "kind")
    steps = [(f"**{s.name}**", *s.steps) for s in stages.values()]
    return _table(head, rows), _table(("stage", "LOAD", "COMPUTE", "ROUND", "STORE"), steps)


def _stages() -> list[str]:
    table, steps = _rows_of(STAGES)
    return [
        "## The stages",
        "Each stage is one function over an arithmetic, in `spec/problems/sparse_mla_bwd/stages.py`; this "
        "page, the float64 reference, the rounding model and the bounds are interpretations of it. `k` is a "
        "tile's gathered kv rows, zero where no key; `v` its first d_v columns; `mask` says which slots are "
        "keys.",
        table,
        "\n".join(f"$${s.latex}$$\n" for s in STAGES.values()).rstrip(),
        "### Four steps each",
        steps,
        *_notation(),
    ]


def _notation() -> list[str]:
    return [
        "### Names elsewhere",
        (inspect.getdoc(notation) or "").replace("``", "`"),
        _table(("here", "what it is", *notation.ELSEWHERE), notation.NAMES),
    ]


def _bounds() -> list[str]:
    constants = [(f"`{c.name}`", f"`{c.value}`", c.meaning, c.source) for c in numerics.CONSTANTS]
    return [
        "## Error bounds",
        _prose(numerics),
        _table(("constant", "value", "stands for", "source"), constants),
        "### What each operation adds",
        _prose(bound),
        "Rows of dKV: " + _sentences(inspect.getdoc(numerics.bound_scatter)),
    ]


def _prose(module: ModuleType) -> str:
    """A module's text; its indented lines stay as they are."""
    return (inspect.getdoc(module) or "").replace("``", "`")


def _sink() -> list[str]:
    steps = astuple(sink.STEPS)
    return [
        "## The attention sink",
        (inspect.getdoc(sink) or "").replace("``", "`"),
        _table(("value", "LOAD", "COMPUTE", "ROUND", "STORE"), [("**d_sink**", *steps)]),
        "Bound: " + _sentences(inspect.getdoc(sink.bound_d_sink)),
    ]


def _dense() -> list[str]:
    parts = ["## Dense attention", _prose(dense), _prose(dense_stages)]
    for one in dense_problem.PROBLEMS:
        if one.operand == BF16:
            table, steps = _rows_of(one.stages)
            parts += [f"### Problem `{one.name}`", table, steps]
    return parts


def _plan(p: KernelPlan) -> list[str]:
    parts = [
        f"## Kernel `{p.name}`, d_qk = {p.size('d_qk')}",
        f"{p.cluster} CTAs per token, {p.threads} threads each; h_q {p.size('h_q')}, d_v {p.size('d_v')}, "
        f"B_TOPK {p.block}; "
        f"{p.smem_bytes} bytes of shared memory, {p.tmem_columns} TMEM columns. "
        f"Stages: {', '.join(p.stages)}.",
        "### Warp roles",
        _table(
            ("role", "warps", "CTAs", "does"),
            [(r.name, _range(r.first_warp, r.warps), _ranks(r.ctas), r.does) for r in p.roles],
        ),
        "### Barriers",
        _table(
            _BARRIER_HEAD,
            [
                (
                    b.name,
                    str(b.offset),
                    str(b.stages),
                    str(b.count),
                    str(b.tx_bytes or "none"),
                    _ranks(b.ctas),
                    b.producers,
                    b.consumers,
                    _phase(b),
                )
                for b in p.barriers
            ],
        ),
        "### Shared memory",
        _table(
            ("tile", "offset", "bytes", "buffers", "shape", "type", "swizzle", "major", "holds"),
            [
                (
                    t.name,
                    str(t.offset),
                    str(t.bytes),
                    str(t.stages),
                    f"{t.rows} x {t.cols}",
                    t.dtype,
                    t.swizzle,
                    t.major,
                    t.holds,
                )
                for t in p.smem
            ],
        ),
        "### Tensor memory",
        _table(
            ("tile", "columns", "buffers", "layout", "holds"),
            [(t.name, _range(t.column, t.columns), str(t.stages), t.layout, t.holds) for t in p.tmem],
        ),
        "### MMAs",
        _table(
            ("MMA", "form", "M x N", "k", "A", "B", "D"),
            [
                (
                    m.name,
                    f"cta_group::{m.cta_group} kind::{m.kind}{' ws' if m.ws else ''}",
                    f"{m.m} x {m.n}" + (f", {m.parts} times" if m.parts > 1 else ""),
                    str(m.k),
                    f"{m.a}{_columns(m.a_cols)}, {m.a_major}-major",
                    f"{m.b}{_columns(m.b_cols)}, {m.b_major}-major",
                    m.d,
                )
                for m in p.mmas
            ],
        ),
        "### Where the stages can be seen",
    ]
    seen = []
    for o in p.observations:
        if isinstance(o, TmemObservation):
            part = f", {o.parts} parts per k-block" if o.parts > 1 else ""
            part += f", columns from {o.first_col}" if o.first_col else ""
            part += ", transposed" if o.transposed else ""
            place = f"TMEM tile {o.tile} when barrier {o.barrier} completes{part}"
            seen.append((o.stage, "production", place))
        elif isinstance(o, SmemObservation):
            seen.append(
                (o.stage, "production", f"shared-memory tile {o.tile} when barrier {o.barrier} completes")
            )
        else:
            seen.append((o.stage, "production", f"output {o.parameter} {o.indexed}"))
    seen += [(o.stage, "probe", f"output {o.parameter} {o.indexed}") for o in p.probes]
    return [*parts, _table(("stage", "build", "place"), seen)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])


def _sentences(doc: str | None) -> str:
    return " ".join((doc or "").split()).replace("``", "`")


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
    """Write the page, or with --check return 1 when the one on disk is not what the spec says."""
    return write_or_check("tileproof.spec.docs", PAGE, lambda: page(known_plans()), arguments)


if __name__ == "__main__":
    sys.exit(main())
