"""What docs/stages.md says of this problem type."""

from __future__ import annotations

from tileproof.spec.page import formulas, prose, stage_tables, table
from tileproof.spec.problems.sparse_mla_bwd import inputs, notation, sink
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES

TITLE = "Sparse MLA backward"


def sections() -> list[str]:
    """Its sizes, its stages, their names elsewhere, and the attention sink."""
    sizes = [
        ("h_q", " or ".join(map(str, inputs.H_Q_SUPPORTED))),
        ("d_qk", " or ".join(map(str, inputs.D_QK_SUPPORTED))),
        ("d_v", str(inputs.D_V)),
        ("topk", f"a multiple of B_TOPK = {inputs.B_TOPK}"),
        ("s_q, s_kv", "1 and up"),
    ]
    stages, steps = stage_tables(STAGES)
    return [
        prose(inputs),
        table(("size", "value"), sizes),
        "### The stages",
        "`k` is a tile's gathered kv rows, zero where no key; `v` its first d_v columns; `mask` says which "
        "slots are keys.",
        stages,
        formulas(STAGES),
        "### Four steps each",
        steps,
        "### Names elsewhere",
        prose(notation),
        table(("here", "what it is", *notation.ELSEWHERE), notation.NAMES),
        "### The attention sink",
        prose(sink),
        *stage_tables(sink.STAGES),
        formulas(sink.STAGES),
    ]
