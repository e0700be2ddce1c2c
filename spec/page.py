"""Parts of pages about the spec: tables in Markdown, a module's text, the stages of a graph."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from tileproof.spec.stage import Stage


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold bars and line ends."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)])


def prose(module: ModuleType) -> str:
    """A module's text; its indented lines stay as they are."""
    return (inspect.getdoc(module) or "").replace("``", "`")


def sentences(doc: str | None) -> str:
    """A docstring as one paragraph."""
    return " ".join((doc or "").split()).replace("``", "`")


def stage_tables(stages: Mapping[str, Stage]) -> tuple[str, str]:
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
    return table(head, rows), table(("stage", "LOAD", "COMPUTE", "ROUND", "STORE"), steps)


def formulas(stages: Mapping[str, Stage]) -> str:
    """Each stage's formula in LaTeX, a block of its own."""
    return "\n".join(f"$${s.latex}$$\n" for s in stages.values()).rstrip()
