"""Products of matrices as the emulator's `tcgen05.mma` computes them, without a launch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.emulator import _engine
from tileproof.spec.machine.types import Array

STEP = 16  # products of one instruction
F32 = npt.NDArray[np.float32]


def products(total: F32, a: Array, b: Array, *, exact: bool = False, f16: bool = False) -> F32:
    """Return ``total [m, n] + a [m, k] b [k, n]`` in f32, 16 products at a time in order of k.

    `exact`: by the published block arithmetic (`spec.machine.tensor_core`), else one fused multiply-add a
    product, as `Module.launch` has it by ``mma``. `f16`: the operands are f16, which counts where they are
    subnormal. Operands hold bf16 or f16 values in any float type.
    """
    rest = -a.shape[1] % STEP
    left = np.ascontiguousarray(np.pad(a, ((0, 0), (0, rest))) if rest else a, np.float32)
    right = np.ascontiguousarray(np.pad(b, ((0, rest), (0, 0))) if rest else b, np.float32)
    result = np.array(total, np.float32, order="C")
    if result.size and left.size:
        _engine.tensor_core_products(result, left, right, exact=exact, f16=f16)
    return result
