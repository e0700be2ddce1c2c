"""The stages of the dense attention backward, each written once, as a function over an arithmetic.

Axes: m, the queries of all query heads that share a KV head, one head after another; n, the keys; d_qk, d_v.
Ground data: q, k, v, o, dO; bias ``[m, n]``; lse ``[m]`` natural; mask and kept ``[m, n]`` (what dropout
keeps), rescale = 1 / (1 - p), sm_scale. What other attention backwards have too is in
`spec.problems.attention`.

Two graphs: WHOLE of a kernel that applies sm_scale to dS, with bias and dropout; KEY_BLOCK of one that walks
the queries of a key block, is given delta and lse in base 2, applies sm_scale to dK and leaves it out of dQ,
and adds dQ to rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileproof.spec.arithmetic import OPERAND, Arithmetic, AsBool, AsF32, AsOperand, Form
from tileproof.spec.problems import attention
from tileproof.spec.stage import Graph, Stage

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
    "rescale": (),
    "sm_scale": (),
}
SYMBOLS = {
    "dO": r"\mathrm{d}O",
    "lse": r"\mathrm{lse}",
    "sm_scale": r"\mathrm{scale}",
    "rescale": r"\tfrac{1}{1 - p}",
    "mask": r"\mathrm{seen}",
    "delta": r"\delta",
}


def _softmax(m: Arithmetic, P: AsF32, bias: AsF32, lse: AsF32, mask: AsBool, sm_scale: AsF32) -> Any:
    e = attention.log2_e(m)
    logit = m.add(m.mul(sm_scale, e, P), m.mul(e, bias))
    return attention.softmax(m, m.sub(logit, m.column(m.mul(e, lse))), mask)


def _dropped(m: Arithmetic, S: AsF32, kept: AsBool, rescale: AsF32) -> Any:
    value = m.select(kept, m.mul(S, rescale))
    return m.keep(value, operand=m.round_to(OPERAND, value))


def _through_dropout(m: Arithmetic, dD: AsF32, kept: AsBool, rescale: AsF32) -> Any:
    return m.select(kept, m.mul(dD, rescale))


def _bias_gradient(m: Arithmetic, S: AsF32, dP: AsF32, delta: AsF32) -> Any:
    value = m.mul(S, m.sub(dP, m.column(delta)))
    return m.keep(value, output=m.round_to(OPERAND, value))


def _dK(m: Arithmetic, dS: AsOperand, q: AsOperand) -> Any:
    total = m.matmul(m.transpose(dS), q)
    return m.keep(total, output=m.round_to(OPERAND, total))


def _dV_of_dropped(m: Arithmetic, D: AsOperand, dO: AsOperand) -> Any:
    total = m.matmul(m.transpose(D), dO)
    return m.keep(total, output=m.round_to(OPERAND, total))


def whole(operand: Form) -> Mapping[str, Stage]:
    """The graph of a whole KV head, with bias and dropout."""
    graph = Graph(GROUND, SYMBOLS, walked=("m", "n"), operand=operand)
    add = graph.stage
    tile = ("m", "n")
    add("m", symbol=r"\delta", memory="delta [b, h, m]")(attention.delta)
    add(*tile, symbol="P", memory="per block")(attention.P)
    add(*tile, symbol="S", memory="per block", name="S")(_softmax)
    add(*tile, symbol="D", memory="per block", name="D")(_dropped)
    add(*tile, symbol=r"\mathrm{d}D", memory="per block", name="dD")(attention.dP)
    add(*tile, symbol=r"\mathrm{d}P", memory="per block", name="dP")(_through_dropout)
    add(*tile, symbol=r"\mathrm{d}S", memory="per block")(attention.dS)
    add(*tile, symbol=r"\mathrm{d}B", memory="dB [b, h, m, n]", name="dB")(_bias_gradient)
    add("m", "d_qk", symbol=r"\mathrm{d}Q", memory="dQ [b, h, m, d_qk]")(attention.dQ)
    add("n", "d_qk", symbol=r"\mathrm{d}K", memory="dK [b, h_kv, n, d_qk]", name="dK")(_dK)
    add("n", "d_v", symbol=r"\mathrm{d}V", memory="dV [b, h_kv, n, d_v]", name="dV")(_dV_of_dropped)
    return graph.stages()


def _unscaled(m: Arithmetic, S: AsF32, dP: AsF32, delta: AsF32) -> Any:
    value = m.mul(S, m.sub(dP, m.column(delta)))
    return m.keep(value, operand=m.round_to(OPERAND, value))


def _dQ_part(m: Arithmetic, dS: AsOperand, k: AsOperand) -> Any:
    return m.matmul(dS, k)


def _to_rows(m: Arithmetic, total: Any, indices: Any, dQ: Any) -> Any:
    return m.scatter_add(total, indices, dQ)


def _dK_scaled(m: Arithmetic, dS: AsOperand, q: AsOperand, sm_scale: AsF32) -> Any:
    total = m.mul(sm_scale, m.matmul(m.transpose(dS), q))
    return m.keep(total, output=m.round_to(OPERAND, total))


def _dV(m: Arithmetic, S: AsOperand, dO: AsOperand) -> Any:
    total = m.matmul(m.transpose(S), dO)
    return m.keep(total, output=m.round_to(OPERAND, total))


def by_key_block(operand: Form) -> Mapping[str, Stage]:
    """The graph of a key block: lse in base 2 and delta are given, dQ is a part without sm_scale."""
    graph = Graph({**GROUND, "delta": ("m",)}, SYMBOLS, walked="m", operand=operand)
    add = graph.stage
    tile = ("m", "n")
    add(*tile, symbol="P", memory="TMEM")(attention.P)
    add(*tile, symbol="S", memory="registers; the operand in TMEM")(attention.S)
    add(*tile, symbol=r"\mathrm{d}P", memory="TMEM")(attention.dP)
    add(*tile, symbol=r"\mathrm{d}S", memory="SMEM", name="dS")(_unscaled)
    add(
        "m", "d_qk", symbol=r"\mathrm{d}Q", name="dQ", scatter=_to_rows, output=("rows", "d_qk"),
        memory="TMEM; added to global dQ [rows, d_qk] in f32",
    )(_dQ_part)  # fmt: skip
    add("n", "d_qk", symbol=r"\mathrm{d}K", memory="TMEM; global dK", name="dK")(_dK_scaled)
    add("n", "d_v", symbol=r"\mathrm{d}V", memory="TMEM; global dV", name="dV")(_dV)
    return graph.stages()
