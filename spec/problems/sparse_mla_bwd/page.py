"""The section of docs/stages.md on this problem type."""

from __future__ import annotations

import inspect

from tileproof.spec.arithmetic import F16, Polynomial
from tileproof.spec.page import formulas, prose, sentences, stage_tables, table
from tileproof.spec.problems.sparse_mla_bwd import inputs, notation, sink
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES, WITH_FORWARD, MlaRoundingPlan, stages

TITLE = "Sparse MLA backward"
_CUBIC = Polynomial((1.0, 0.695146, 0.227645, 0.077119))
_OTHERS = stages(MlaRoundingPlan(late=True, exp2=_CUBIC, softmax=F16, gradient=F16))


def sections() -> list[str]:
    """Its sizes, its stages, their names elsewhere, and the attention sink."""
    sizes = [
        ("h_q", " or ".join(map(str, inputs.H_Q_SUPPORTED))),
        ("d_qk", " or ".join(map(str, inputs.D_QK_SUPPORTED))),
        ("d_v", str(inputs.D_V)),
        ("topk", f"a multiple of B_TOPK = {inputs.B_TOPK}"),
        ("s_q, s_kv", "1 and up"),
    ]
    shown, steps = stage_tables(STAGES)
    return [
        prose(inputs),
        table(("size", "value"), sizes),
        "### The stages",
        "`k` is a tile's gathered kv rows, zero where no key; `v` its first d_v columns; `mask` marks the "
        "slots that are keys.",
        shown,
        formulas(STAGES),
        "### Four steps each",
        steps,
        "### Kernels that round elsewhere",
        sentences(inspect.getdoc(MlaRoundingPlan)),
        "With sm_scale at the end, a polynomial and f16 copies:",
        stage_tables(_OTHERS)[0],
        "### The forward's LSE and O",
        "With `MlaRoundingPlan(forward=True)` they are stages too, LSE in base 2:",
        *stage_tables({name: WITH_FORWARD[name] for name in ("LSE", "W", "O")}),
        formulas({name: WITH_FORWARD[name] for name in ("LSE", "W", "O")}),
        "### Names elsewhere",
        prose(notation),
        table(("here", "what it is", *notation.ELSEWHERE), notation.NAMES),
        "### The attention sink",
        prose(sink),
        *stage_tables(sink.STAGES),
        formulas(sink.STAGES),
    ]
