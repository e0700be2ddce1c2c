"""The seven stages of the backward, each written once, as a function over an arithmetic (`spec.arithmetic`).

A kernel that rounds elsewhere, or in other forms, has a `MlaRoundingPlan`, and is judged by just that.

Those that other attention backwards have too are in `spec.problems.attention`.

The reference, the bounds, the bound of the whole chain and the documentation are interpretations of these
functions; a parameter's annotation says in which form the stage reads that input. Ground data (not stages):
q, k, v, o, dO, lse, mask, sm_scale; ``k`` are gathered kv rows (zero rows where the slot is no key) and ``v``
its first d_v columns; ``mask`` says which slots are keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tileproof.spec.arithmetic import (
    BF16,
    F32,
    AnyTerm,
    Arithmetic,
    AsBool,
    AsF32,
    AsOperand,
    Form,
    Online,
    Polynomial,
    StageResult,
)
from tileproof.spec.problems import attention
from tileproof.spec.stage import Compute, Graph, Stage

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


ONLINE = Online()


@dataclass(frozen=True)
class MlaRoundingPlan:
    """Where a kernel rounds, beside what each of them does.

    `operand`: the form of q, k, v, o, dO and of what MMAs read. `softmax` and `gradient`: the forms of the
    copies of S and dS that MMAs read, where they are others. `late`: sm_scale is no factor of dS; it is
    applied to dQ and to dS^T q at the end. `rows`: the form that rows of dKV are rounded to, once, when all
    is added in f32. `exp2`: a polynomial in the place of ex2.approx. `forward`: the
    forward's LSE, in base 2, and O are stages too, whose softmax is found as `online` says.
    """

    operand: Form = BF16
    softmax: Form | None = None
    gradient: Form | None = None
    rows: Form | None = None
    late: bool = False
    exp2: Polynomial | None = None
    forward: bool = False
    online: Online = ONLINE


PLAIN = MlaRoundingPlan()


def _to_rows(m: Arithmetic, total: AnyTerm, indices: AnyTerm, dKV: AnyTerm) -> AnyTerm:
    return m.scatter_add(total, indices, dKV)


def _dKV(m: Arithmetic, S: AsOperand, dO: AsOperand, dS: AsOperand, q: AsOperand) -> AnyTerm:
    return m.accumulate(m.matmul(m.transpose(dS), q), m.transpose(S), dO)


def _late_dKV(
    m: Arithmetic, S: AsOperand, dO: AsOperand, dS: AsOperand, q: AsOperand, sm_scale: AsF32
) -> AnyTerm:
    scaled = m.mul(sm_scale, m.matmul(m.transpose(dS), q))
    return m.add_to_first_columns(scaled, m.matmul(m.transpose(S), dO))


def _late_dQ(m: Arithmetic, dS: AsOperand, k: AsOperand, sm_scale: AsF32) -> StageResult:
    return attention.as_output(m, m.mul(sm_scale, m.matmul(dS, k)))


def _logit(m: Arithmetic, P: AnyTerm, sm_scale: AnyTerm) -> AnyTerm:
    return m.mul(sm_scale, attention.log2_e(m), P)


def _softmax(plan: MlaRoundingPlan) -> Compute:
    by = () if plan.exp2 is None else (plan.exp2,)

    def S(m: Arithmetic, P: AsF32, lse: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
        return attention.softmax(m, m.sub(_logit(m, P, sm_scale), m.column(lse)), mask, *by)

    return S if by else attention.S


def _forward(graph: Graph, plan: MlaRoundingPlan) -> None:
    """LSE and O of the kernel's own forward, with the weights W between them."""
    by = () if plan.exp2 is None else (plan.exp2,)

    def LSE(m: Arithmetic, P: AsF32, mask: AsBool, sm_scale: AsF32) -> AnyTerm:
        return m.logsumexp2(mask, _logit(m, P, sm_scale), plan.online)

    def W(m: Arithmetic, P: AsF32, LSE: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
        power = m.exp2(m.sub(_logit(m, P, sm_scale), m.column(LSE)), *by)
        return attention.as_operand(m, m.normalised(m.select(mask, power), plan.online))

    def O(m: Arithmetic, W: AsOperand, v: AsOperand) -> StageResult:  # noqa: E743
        return attention.as_output(m, m.matmul(W, v))

    graph.stage("h_q", symbol=r"\mathrm{LSE}", memory="LSE [s_q, h_q]")(LSE)
    graph.stage("h_q", "B_TOPK", symbol="W", memory="registers; the operand in SMEM or TMEM")(W)
    graph.stage("h_q", "d_v", symbol="O", memory="O [s_q, h_q, d_v]")(O)


@cache
def stages(plan: MlaRoundingPlan) -> Mapping[str, Stage]:
    """The stages of a kernel that rounds as `plan` says, by name, in order."""
    graph = Graph(GROUND, SYMBOLS, walked="B_TOPK", operand=plan.operand)
    add, tile = graph.stage, ("h_q", "B_TOPK")
    scale = () if plan.late else ("sm_scale",)
    forms = {name: form for name, form in (("S", plan.softmax), ("dS", plan.gradient)) if form is not None}
    own_dS = {"dS": plan.gradient} if plan.gradient is not None else {}
    late = ("sm_scale",) if plan.late else ()
    place = "registers; the operand in SMEM or TMEM"
    add("h_q", symbol=r"\delta", memory="global delta [s_q, h_q]")(attention.delta)
    add(*tile, symbol="P", memory="TMEM")(attention.P)
    if plan.forward:
        _forward(graph, plan)
    add(*tile, symbol="S", memory=place, name="S", operand=plan.softmax)(_softmax(plan))
    add(*tile, symbol=r"\mathrm{d}P", memory="TMEM")(attention.dP)
    symbol, memory = r"\mathrm{d}S", "SMEM or TMEM"
    add(*tile, symbol=symbol, memory=memory, name="dS", factors=scale, operand=plan.gradient)(attention.dS)
    dQ = _late_dQ if late else attention.dQ
    memory = "TMEM; global dQ [s_q, h_q, d_qk]"
    add("h_q", "d_qk", symbol=r"\mathrm{d}Q", memory=memory, name="dQ", forms=own_dS)(dQ)
    add(
        "B_TOPK", "d_qk", symbol=r"\mathrm{d}KV", name="dKV", scatter=_to_rows, output=("s_kv", "d_qk"),
        memory="TMEM; added to rows `indices` of global dKV [s_kv, d_qk]", forms=forms,
        stored=plan.rows or F32,
    )(_late_dKV if late else _dKV)  # fmt: skip
    return graph.stages()


STAGES: Mapping[str, Stage] = stages(PLAIN)
WITH_FORWARD: Mapping[str, Stage] = stages(MlaRoundingPlan(forward=True))
