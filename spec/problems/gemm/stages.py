"""The stages of a matrix product, each written once, as a function over an arithmetic (`spec.arithmetic`)."""

from __future__ import annotations

from collections.abc import Mapping

from tileproof.spec.arithmetic import BF16, AnyTerm, Arithmetic, AsF16, AsF32, StageResult
from tileproof.spec.stage import Graph, Stage

SYMBOLS = {"alpha": r"\alpha", "beta": r"\beta", "bias": r"\mathrm{bias}"}
GROUND = {"A": ("M", "K"), "B": ("N", "K"), "C": ("M", "N"), "bias": ("N",), "alpha": (), "beta": ()}

_plain = Graph(GROUND, SYMBOLS, walked="K")
_biased = Graph(GROUND, SYMBOLS, walked="K")


@_plain.stage("M", "N", symbol="X", memory="TMEM")
@_biased.stage("M", "N", symbol="X", memory="TMEM")
def product(m: Arithmetic, A: AsF16, B: AsF16) -> AnyTerm:
    return m.matmul(A, m.transpose(B))


@_plain.stage("M", "N", symbol="D", memory="global D [M, N]")
def D(m: Arithmetic, product: AsF32, C: AsF32, alpha: AsF32, beta: AsF32) -> AnyTerm:
    return m.add(m.mul(alpha, product), m.mul(beta, C))


def _with_bias(m: Arithmetic, product: AsF32, bias: AsF32, alpha: AsF32) -> StageResult:
    value = m.add(m.mul(alpha, product), bias)
    return m.keep(value, output=m.round_to(BF16, value))


_with_bias.__name__ = "D"
_biased.stage("M", "N", symbol="D", memory="global D [M, N]")(_with_bias)

PLAIN: Mapping[str, Stage] = _plain.stages()
BIASED: Mapping[str, Stage] = _biased.stages()
