"""The blocked implementation as a kernel, one per form of operands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from tileproof.kernels.called import HOST, HostFunction, Outputs, call, need_torch
from tileproof.kernels.compile import Built
from tileproof.kernels.host.blocked import defects
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.plans import dense_host
from tileproof.spec.problems.dense_attention_bwd.inputs import DTYPES, MAX_SPLITS, DenseProblem, Inputs
from tileproof.spec.problems.dense_attention_bwd.problem import PROBLEMS, DenseAttentionBwd
from tileproof.spec.problems.dense_attention_bwd.stages import part_names

NAME = "blocked"


def buffers(plan: KernelPlan, p: DenseProblem) -> list[LaunchBuffer]:
    """The outputs of a plan: operands and gradients in the inputs' form, the others f32."""
    found = []
    for at in plan.observations:
        assert isinstance(at, OutputObservation)
        shape = tuple(getattr(p, axis) for axis in at.indexed.strip("[]").split(", "))
        wide = at.stage in ("delta", "P", "S", "dD", "dP", "LSE", *part_names(MAX_SPLITS))
        found.append(LaunchBuffer.output(at.parameter, shape, np.float32 if wide else DTYPES[p.form]))
    return found


def arrays(inputs: Inputs) -> Mapping[str, Array]:
    """The arrays of a problem by name."""
    return {name: getattr(inputs, name) for name in ("q", "k", "v", "o", "dO", "lse", "bias")}


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """The call on `inputs`."""
    return call(built, arrays(inputs), buffers(plan, inputs.problem), partial(_run, inputs, plan))


def _run(inputs: Inputs, plan: KernelPlan, outputs: Outputs) -> None:
    need_torch()
    from tileproof.kernels.host.blocked import kernel

    kernel.backward(inputs, plan.block, dense_host.BLOCK[1], outputs)


def _kernel(of: DenseAttentionBwd) -> Kernel:
    form, splits = of.operand.name, of.rounding.splits
    own = NAME if splits == 1 else f"{NAME}-split"
    name = own if form == "bf16" else f"{own}-{form}"
    planted = defects.DEFECTS if splits == 1 else defects.OF_SPLITS
    return Kernel(
        name,
        (Variant.of(of.name),),
        lambda variant: dense_host.blocked(name, of, part_names(splits)),
        HostFunction(),
        describe,
        (lambda: planted) if form == "bf16" else tuple,
        probe=False,
        arch=HOST,
    )


KERNELS = tuple(_kernel(problem) for problem in PROBLEMS if not problem.by_key_block)
