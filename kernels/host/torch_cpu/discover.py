"""The features that the operator supports: each is tried on a small problem."""

from __future__ import annotations

import numpy as np
from tileproof.kernels.host.torch_cpu import kernel
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase


def refusal(case: DenseCase) -> str:
    """Why the operator does not take this case, in its own words; "" when it does."""
    inputs = case.inputs()
    p = inputs.problem
    shapes = {
        "O": (p.b, p.h, p.m, p.d_v),
        "LSE": (p.b, p.h, p.m),
        "dQ": (p.b, p.h, p.m, p.d_qk),
        "dK": (p.b, p.h_kv, p.n, p.d_qk),
        "dV": (p.b, p.h_kv, p.n, p.d_v),
    }
    try:
        kernel.run(inputs, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return str(error).strip().splitlines()[0]
    return ""
