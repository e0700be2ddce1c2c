"""Writes docs/seven-stages.md, the stages of sparse MLA: ``python -m
tileproof.tools.pages.seven_stages``; --check compares.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tileproof.reference import sparse_mla_bwd as loop
from tileproof.spec.machine.pages import write_or_check
from tileproof.spec.page import prose, table
from tileproof.spec.plans import head64
from tileproof.spec.problems.sparse_mla_bwd import notation
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.spec.stage import Stage
from tileproof.spec.why import steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "seven-stages.md"
STAGES = SPARSE_MLA_BWD.stages
PURPOSE: Mapping[str, str] = {
    "delta": "The sum over all keys that the softmax's gradient subtracts, as a product of two stored rows.",
    "P": "The product of queries and keys, neither scaled nor masked.",
    "S": "The softmax probability, computed again from `P` and `lse`. A slot that is no key gets 0.",
    "dP": "The gradient of the loss by `S`: the product of the output's gradient and the values.",
    "dS": "The gradient of the loss by `P`. The scale is a factor of it.",
    "dQ": "The gradient by the query: a sum over all k-blocks of a token, in tensor memory until the end.",
    "dKV": "The gradient by the rows of `kv`: of the key by `dS`, of the value by `S`. Tokens share rows, so "
    "each tile is added to the rows that its indices name.",
}


def _line(name: str) -> str:
    """The lines of the reference that compute a stage."""
    start = {"delta": "delta[token, heads] =", "dQ": "dQ[token, heads] +=", "dKV": "dKV_part"}.get(
        name, f"{name} ="
    )
    lines = [line.strip() for line in inspect.getsource(loop.tiles).splitlines()]
    found = [line for line in lines if line.startswith(start)]
    return "\n".join(found[:2] if name == "dKV" else found[-1:])


def _section(name: str, stage: Stage) -> list[str]:
    load, compute, rounds, store = stage.steps
    adds = [
        (
            f"`{step.operation.name}`",
            f"`{step.result.plain}`",
            "; ".join(step.roundings),
            step.operation.error,
        )
        for step in steps(stage)
        for own in (step.operation,)
        if step.roundings
    ]
    lines = [
        f"## {name}",
        PURPOSE[name],
        f"$${stage.latex}$$",
        f"![Inputs and tile of {name}](figures/stage-{name}.svg)",
        table(
            ("", ""),
            [("load", load), ("compute", f"`{compute}`"), ("round", rounds), ("store", store)],
        ),
        "The reference computes it so:",
        f"```python from=reference/sparse_mla_bwd.py\n{_line(name)}\n```",
        "What each operation adds to the bound:",
        table(("operation", "result", "rounds", "error"), adds),
    ]
    if stage.scatter is not None:
        lines.append("Each f32 addition to a row in memory rounds once more, in any order.")
    places = [o for o in head64.plan(576).observations if o.stage == name]
    kinds = {type(o).__name__.removesuffix("Observation").lower() for o in places}
    seen = {"tmem": "tensor memory", "smem": "shared memory", "output": "an output"}
    where = " and ".join(sorted(seen.get(kind, kind) for kind in kinds))
    lines.append(f"In `head64`, `tileproof check` reads this stage from {where}.")
    return lines


def page() -> str:
    """The page as Markdown."""
    parts = [
        "# The seven stages: formula, tile and bound",
        "Generated from the spec by `python -m tileproof.tools.pages.seven_stages`.",
        "[The algorithm](algorithm.md) derives these formulas. A tile is the part of a stage that a CTA "
        "computes for a k-block: its heads by 64 slots. The drawings have the sizes of `head64` at "
        "d_qk 576: green data are earlier stages, blue data are given, the orange rectangle is the tile.",
        "Names in the error column: a and b are operands, e_a the error of a, M_a is |a| + e_a, u is "
        "2^-24, w is 2^-53 and n the number of terms. [How a bound is derived](bounds.md) explains them.",
        "![Which stage reads which](figures/stage-graph.svg)",
    ]
    for name, stage in STAGES.items():
        parts += _section(name, stage)
    parts += [
        "## Names in other projects",
        prose(notation),
        table(("here", "what it is", *notation.ELSEWHERE), notation.NAMES),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk is stale."""
    return write_or_check("tileproof.tools.pages.seven_stages", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
