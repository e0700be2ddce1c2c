"""The seven stages of the backward, each written once, as a function over an arithmetic (`spec.arithmetic`).

Those that other attention backwards have too are in `spec.problems.attention`.

The reference, the bounds, the bound of the whole chain and the documentation are interpretations of these
functions; a parameter's annotation says in which form the stage reads that input. Ground data (not stages):
q, k, v, o, dO, lse, mask, sm_scale; ``k`` are gathered kv rows (zero rows where the slot is no key) and ``v``
its first d_v columns; ``mask`` says which slots are keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileproof.spec.arithmetic import Arithmetic, AsBF16
from tileproof.spec.problems import attention
from tileproof.spec.stage import Graph, Stage

GROUND = {
    "q": ("h_q", "d_qk"),
    "k": ("B_TOPK", "d_qk"),
    "v": ("B_TOPK", "d_v"),
    "o": ("h_q", "d_v"),
    "dO": ("h_q", "d_v"),
    "lse": ("h_q",),
    "mask": ("B_TOPK",),
    "sm_scale": (),
}
SYMBOLS = {
    "dO": r"\mathrm{d}O",
    "lse": r"\mathrm{lse}",
    "sm_scale": r"\mathrm{scale}",
    "mask": r"\mathrm{key}",
    "delta": r"\delta",
}

_graph = Graph(GROUND, SYMBOLS, walked="B_TOPK")


_stage = _graph.stage
_stage("h_q", symbol=r"\delta", memory="global delta [s_q, h_q]")(attention.delta)
_stage("h_q", "B_TOPK", symbol="P", memory="TMEM")(attention.P)
_stage("h_q", "B_TOPK", symbol="S", memory="registers; the operand in SMEM or TMEM")(attention.S)
_stage("h_q", "B_TOPK", symbol=r"\mathrm{d}P", memory="TMEM")(attention.dP)
_stage("h_q", "B_TOPK", symbol=r"\mathrm{d}S", memory="SMEM or TMEM", factors=("sm_scale",))(attention.dS)
_stage("h_q", "d_qk", symbol=r"\mathrm{d}Q", memory="TMEM; global dQ [s_q, h_q, d_qk]")(attention.dQ)


def _to_rows(m: Arithmetic, total: Any, indices: Any, dKV: Any) -> Any:
    return m.scatter_add(total, indices, dKV)


@_graph.stage(
    "B_TOPK",
    "d_qk",
    symbol=r"\mathrm{d}KV",
    memory="TMEM; added to rows `indices` of global dKV [s_kv, d_qk]",
    scatter=_to_rows,
    output=("s_kv", "d_qk"),
)
def dKV(m: Arithmetic, S: AsBF16, dO: AsBF16, dS: AsBF16, q: AsBF16) -> Any:
    return m.accumulate(m.matmul(m.transpose(dS), q), m.transpose(S), dO)


STAGES: Mapping[str, Stage] = _graph.stages()
