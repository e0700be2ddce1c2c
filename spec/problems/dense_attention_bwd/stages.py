"""The stages of the dense attention backward, each written once, as a function over an arithmetic.

Axes: m, the queries of all query heads that share a KV head, one head after another; n, the keys; d_qk, d_v.
Ground data: q, k, v, o, dO; bias ``[m, n]``; lse ``[m]`` natural; mask and kept ``[m, n]`` (what dropout
keeps), share = 1 - p, rescale = 1 / share, sm_scale; row_block ``[m]`` and key_block ``[n]`` number the
blocks of a kernel that rounds after each; split ``[n]``
numbers the run of whole key blocks, from 1, in which a key lies. What other attention backwards
have too is in `spec.problems.attention`.

Two graphs: WHOLE of a kernel that applies sm_scale to dS, with bias and dropout; KEY_BLOCK of one that walks
the queries of a key block, sums delta over products in the form of operands, applies sm_scale to dK alone,
and adds parts of dQ without it to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tileproof.spec.arithmetic import (
    F32,
    OPERAND,
    AnyTerm,
    Arithmetic,
    AsBool,
    AsF32,
    AsOperand,
    Form,
    Online,
    StageResult,
)
from tileproof.spec.numerics import LN_2
from tileproof.spec.problems import attention
from tileproof.spec.problems.attention import as_operand, as_output
from tileproof.spec.stage import Compute, Graph, Stage

GROUND = {
    "q": ("m", "d_qk"),
    "k": ("n", "d_qk"),
    "v": ("n", "d_v"),
    "o": ("m", "d_v"),
    "dO": ("m", "d_v"),
    "bias": ("m", "n"),
    "lse": ("m",),
    "mask": ("m", "n"),
    "kept": ("m", "n"),
    "row_block": ("m",),
    "key_block": ("n",),
    "split": ("n",),
    "rescale": (),
    "share": (),
    "sm_scale": (),
}
SYMBOLS = {
    "dO": r"\mathrm{d}O",
    "lse": r"\mathrm{lse}",
    "sm_scale": r"\mathrm{scale}",
    "rescale": r"\tfrac{1}{1 - p}",
    "share": r"(1 - p)",
    "mask": r"\mathrm{seen}",
    "delta": r"\delta",
}


ONLINE = Online()


@dataclass(frozen=True)
class RoundingPlan:
    """Where a kernel of the graph WHOLE rounds, beside what every one of them does.

    `late`: sm_scale is applied to dQ and dK, not to dS. `narrow_softmax`: dS is made from the rounded S, and
    D (in the forward WZ) from that and 1 / (1 - p) in the operands' form. `blocks`: the accumulators of dQ,
    dK and dV are outputs in the operands' form, rounded after each key or query block; it makes their sizes
    of m and n. `heads_apart`: dK and dV of each query head of a group are rounded, and then summed.
    `late_dropout`: 1 / (1 - p) is a factor of O and the gradients, not of D and dP, and 1 - p one of delta.
    `splits`: the most runs into which the keys are cut; each run's part of dQ is a stage, dQ their sum in
    f32, first run first, then rounded.
    `forward`: the kernel's own forward is judged too, LSE and O, whose softmax is found as `online` says.
    """

    late: bool = False
    late_dropout: bool = False
    narrow_softmax: bool = False
    blocks: Callable[[int, int], tuple[int, int]] | None = None
    heads_apart: bool = False
    forward: bool = False
    splits: int = 1
    online: Online = ONLINE


PLAIN = RoundingPlan()


def _logit(m: Arithmetic, P: AnyTerm, bias: AnyTerm, sm_scale: AnyTerm) -> AnyTerm:
    """The exponent of 2 before lse is subtracted."""
    e = attention.log2_e(m)
    return m.add(m.mul(sm_scale, e, P), m.mul(e, bias))


def _exponent(m: Arithmetic, P: AnyTerm, bias: AnyTerm, lse: AnyTerm, sm_scale: AnyTerm) -> AnyTerm:
    return m.sub(_logit(m, P, bias, sm_scale), m.column(m.mul(attention.log2_e(m), lse)))


def _softmax(m: Arithmetic, P: AsF32, bias: AsF32, lse: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
    return attention.softmax(m, _exponent(m, P, bias, lse, sm_scale), mask)


def _through_dropout(m: Arithmetic, dD: AsF32, kept: AsBool, *rescale: AsF32) -> AnyTerm:
    return m.select(kept, m.mul(dD, *rescale) if rescale else dD)


def _dropped(m: Arithmetic, S: AsF32, kept: AsBool, *rescale: AsF32) -> StageResult:
    return as_operand(m, _through_dropout(m, S, kept, *rescale))


def _narrow_dropped(m: Arithmetic, S: AsOperand, kept: AsBool, rescale: AsF32) -> StageResult:
    return _dropped(m, S, kept, m.round_to(OPERAND, rescale))


def _shared_dS(m: Arithmetic, S: AsF32, dP: AsF32, delta: AsF32, share: AsF32) -> StageResult:
    return attention.dS(m, S, dP, m.mul(delta, share))


def _dB(m: Arithmetic, S: AsF32, dP: AsF32, delta: AsF32) -> StageResult:
    return as_output(m, attention.softmax_gradient(m, S, dP, delta))


def _to_keys(m: Arithmetic, rows: AnyTerm, queries: AnyTerm) -> AnyTerm:
    """What the queries contribute to each key's row."""
    return m.matmul(m.transpose(rows), queries)


def _dK(m: Arithmetic, dS: AsOperand, q: AsOperand) -> StageResult:
    return as_output(m, _to_keys(m, dS, q))


def _dV(m: Arithmetic, D: AsOperand, dO: AsOperand) -> StageResult:
    return as_output(m, _to_keys(m, D, dO))


def _gradients(plan: RoundingPlan) -> tuple[Compute, Compute, Compute]:
    """dQ, dK and dV of a kernel that applies factors to them, or rounds parts of them."""

    def product(
        m: Arithmetic, apart: bool, a: AnyTerm, b: AnyTerm, block: AnyTerm, *factors: AnyTerm
    ) -> StageResult:
        form = OPERAND if plan.blocks or apart else F32
        scale = (m.mul(*factors),) if len(factors) > 1 else factors
        return as_output(m, m.matmul_in_steps(a, b, block, form, *scale, apart=apart))

    def dQ(m: Arithmetic, dS: AsOperand, k: AsOperand, key_block: AsF32, *factors: AsF32) -> StageResult:
        return product(m, False, dS, k, key_block, *factors)

    def dK(m: Arithmetic, dS: AsOperand, q: AsOperand, row_block: AsF32, *factors: AsF32) -> StageResult:
        return product(m, plan.heads_apart, m.transpose(dS), q, row_block, *factors)

    def dV(m: Arithmetic, D: AsOperand, dO: AsOperand, row_block: AsF32, *factors: AsF32) -> StageResult:
        return product(m, plan.heads_apart, m.transpose(D), dO, row_block, *factors)

    return dQ, dK, dV


def _part_of_run(number: int) -> Compute:
    def part(m: Arithmetic, dS: AsOperand, k: AsOperand, split: AsF32) -> AnyTerm:
        return m.matmul_of_run(dS, k, split, number)

    return part


def _sum_of_runs(m: Arithmetic, dQ_1: AsF32, dQ_2: AsF32, dQ_3: AsF32, dQ_4: AsF32) -> StageResult:
    return as_output(m, m.add_in_order(dQ_1, dQ_2, dQ_3, dQ_4))


def part_names(splits: int) -> tuple[str, ...]:
    """The stages of the parts of dQ, first run first; none where the keys are one run."""
    return tuple(f"dQ_{number + 1}" for number in range(splits)) if splits > 1 else ()


def _forward(graph: Graph, plan: RoundingPlan) -> None:
    """LSE and O of the kernel's own forward, with the weights W between them."""

    def LSE(m: Arithmetic, P: AsF32, bias: AsF32, mask: AsBool, sm_scale: AsF32) -> AnyTerm:
        return m.mul(m.constant("ln(2)", LN_2), m.logsumexp2(mask, _logit(m, P, bias, sm_scale), plan.online))

    def W(m: Arithmetic, P: AsF32, bias: AsF32, LSE: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
        weights = m.select(mask, m.exp2(_exponent(m, P, bias, LSE, sm_scale)))
        return as_operand(m, m.normalised(weights, plan.online))

    def WZ(m: Arithmetic, W: AsF32, kept: AsBool, *rescale: AsF32) -> StageResult:
        return _dropped(m, W, kept, *rescale)

    def narrow(m: Arithmetic, W: AsOperand, kept: AsBool, rescale: AsF32) -> StageResult:
        return _narrow_dropped(m, W, kept, rescale)

    def O(m: Arithmetic, WZ: AsOperand, v: AsOperand, *rescale: AsF32) -> StageResult:  # noqa: E743
        total = m.matmul(WZ, v)
        return as_output(m, m.mul(*rescale, total) if rescale else total)

    early, late = ((), ("rescale",)) if plan.late_dropout else (("rescale",), ())
    graph.stage("m", symbol=r"\mathrm{LSE}", memory="LSE [b, h, m]")(LSE)
    graph.stage("m", "n", symbol="W", memory="per block")(W)
    if plan.narrow_softmax and not plan.late_dropout:
        graph.stage("m", "n", symbol="WZ", memory="per block", name="WZ")(narrow)
    else:
        graph.stage("m", "n", symbol="WZ", memory="per block", factors=early)(WZ)
    graph.stage("m", "d_v", symbol="O", memory="O [b, h, m, d_v]", factors=late)(O)


def whole(operand: Form, plan: RoundingPlan = PLAIN) -> Mapping[str, Stage]:
    """The graph of a whole KV head, with bias and dropout."""
    graph = Graph(GROUND, SYMBOLS, walked=("m", "n"), operand=operand)
    add = graph.stage
    tile = ("m", "n")
    early, late = ((), ("rescale",)) if plan.late_dropout else (("rescale",), ())
    scale = ("sm_scale",) if plan.late else ()
    narrow = {"S": OPERAND} if plan.narrow_softmax else {}
    stepped = plan.late or plan.blocks or plan.heads_apart
    dQ, dK, dV = _gradients(plan) if stepped else (attention.dQ, _dK, _dV)
    add("m", symbol=r"\delta", memory="delta [b, h, m]")(attention.delta)
    add(*tile, symbol="P", memory="per block")(attention.P)
    if plan.forward:
        _forward(graph, plan)
    add(*tile, symbol="S", memory="per block", name="S")(_softmax)
    if plan.narrow_softmax and not plan.late_dropout:
        add(*tile, symbol="D", memory="per block", name="D")(_narrow_dropped)
    else:
        add(*tile, symbol="D", memory="per block", name="D", factors=early)(_dropped)
    add(*tile, symbol=r"\mathrm{d}D", memory="per block", name="dD")(attention.dP)
    add(*tile, symbol=r"\mathrm{d}P", memory="per block", name="dP", factors=early)(_through_dropout)
    # A kernel that applies sm_scale late makes dS from the unrounded S.
    dS = _shared_dS if plan.late and plan.late_dropout else attention.dS
    factors, forms = ((), {}) if plan.late else (("sm_scale",), narrow)
    symbol = r"\mathrm{d}S"
    add(*tile, symbol=symbol, memory="per block", name="dS", factors=factors, forms=forms)(dS)
    add(*tile, symbol=r"\mathrm{d}B", memory="dB [b, h, m, n]", name="dB", forms=narrow)(_dB)
    for number, name in enumerate(part_names(plan.splits), 1):
        symbol = rf"\mathrm{{d}}Q_{number}"
        add("m", "d_qk", symbol=symbol, memory=f"{name} [b, h, m, d_qk]", name=name)(_part_of_run(number))
    whole_dQ, factors = (dQ, (*scale, *late)) if plan.splits == 1 else (_sum_of_runs, ())
    symbol = r"\mathrm{d}Q"
    add("m", "d_qk", symbol=symbol, memory="dQ [b, h, m, d_qk]", name="dQ", factors=factors)(whole_dQ)
    symbol = r"\mathrm{d}K"
    add("n", "d_qk", symbol=symbol, memory="dK [b, h_kv, n, d_qk]", name="dK", factors=(*scale, *late))(dK)
    add("n", "d_v", symbol=r"\mathrm{d}V", memory="dV [b, h_kv, n, d_v]", name="dV", factors=late)(dV)
    return graph.stages()


def _delta_of_rounded(m: Arithmetic, o: AsOperand, dO: AsOperand) -> AnyTerm:
    return m.rowsum(o, dO, products=OPERAND)


def _softmax_alone(m: Arithmetic, P: AsF32, lse: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
    e = attention.log2_e(m)
    return attention.softmax(m, m.sub(m.mul(sm_scale, e, P), m.column(m.mul(e, lse))), mask)


def _dQ_part(m: Arithmetic, dS: AsOperand, k: AsOperand) -> AnyTerm:
    return m.matmul(dS, k)


def _to_rows(m: Arithmetic, total: AnyTerm, indices: AnyTerm, dQ: AnyTerm) -> AnyTerm:
    return m.scatter_add(total, indices, dQ)


def _dK_acc(m: Arithmetic, dS: AsOperand, q: AsOperand) -> AnyTerm:
    return _to_keys(m, dS, q)


def _dK_scaled(m: Arithmetic, dK_acc: AsF32, sm_scale: AsF32) -> StageResult:
    return as_output(m, m.mul(sm_scale, dK_acc))


def _dV_acc(m: Arithmetic, S: AsOperand, dO: AsOperand) -> AnyTerm:
    return _to_keys(m, S, dO)


def _dV_out(m: Arithmetic, dV_acc: AsF32) -> StageResult:
    return as_output(m, dV_acc)


def by_key_block(operand: Form) -> Mapping[str, Stage]:
    """The graph of a key block: dQ is a part without sm_scale, dK and dV are sums, rounded in the end."""
    graph = Graph(GROUND, SYMBOLS, walked="m", operand=operand)
    add = graph.stage
    tile = ("m", "n")
    add("m", symbol=r"\delta", memory="global delta [b, h, m]", name="delta")(_delta_of_rounded)
    add(*tile, symbol="P", memory="TMEM")(attention.P)
    add(*tile, symbol="S", memory="registers; the operand in TMEM", name="S")(_softmax_alone)
    add(*tile, symbol=r"\mathrm{d}P", memory="TMEM")(attention.dP)
    add(*tile, symbol=r"\mathrm{d}S", memory="SMEM")(attention.dS)
    add(
        "m", "d_qk", symbol=r"\mathrm{d}Q", name="dQ", scatter=_to_rows, output=("rows", "d_qk"),
        memory="TMEM; added to global dQ [rows, d_qk] in f32",
    )(_dQ_part)  # fmt: skip
    add("n", "d_qk", symbol=r"\mathrm{d}K_\mathrm{acc}", memory="TMEM", name="dK_acc")(_dK_acc)
    add("n", "d_qk", symbol=r"\mathrm{d}K", memory="global dK", name="dK")(_dK_scaled)
    add("n", "d_v", symbol=r"\mathrm{d}V_\mathrm{acc}", memory="TMEM", name="dV_acc")(_dV_acc)
    add("n", "d_v", symbol=r"\mathrm{d}V", memory="global dV", name="dV")(_dV_out)
    return graph.stages()
