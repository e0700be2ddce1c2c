"""Relations between two runs of a matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.gemm.inputs import Inputs
from tileproof.spec.problems.relation import Relation, same

Outputs = Mapping[str, Array]


def _order(inputs: Inputs, seed: int) -> Array:
    return np.random.default_rng(seed).permutation(inputs.A.shape[0])


def _permuted(inputs: Inputs, seed: int) -> Inputs:
    order = _order(inputs, seed)
    C = None if inputs.C is None else np.ascontiguousarray(inputs.C[order])
    return replace(inputs, A=np.ascontiguousarray(inputs.A[order]), C=C)


def _moved(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    return same({name: value[_order(inputs, seed)] for name, value in base.items()}, changed)


def _scaled(inputs: Inputs, seed: int) -> Inputs:
    del seed
    bias = None if inputs.bias is None else inputs.bias * np.float32(2)
    return replace(inputs, alpha=inputs.alpha * 2, beta=inputs.beta * 2, bias=bias)


def _doubled(inputs: Inputs, seed: int, base: Outputs, changed: Outputs) -> str:
    del inputs, seed
    return same({name: value * 2 for name, value in base.items()}, changed)


RELATIONS = (
    Relation("permuted rows", "rows of D move with those of A and C", _permuted, _moved),
    Relation("doubled factors", "D doubles with alpha, beta and the bias", _scaled, _doubled),
)
