"""The blocked implementation as a target: one per form of operands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from tileproof.kernels.called import HOST, Call, HostFunction, Outputs, call, need_torch
from tileproof.kernels.compile import Built
from tileproof.kernels.host.blocked import mutants
from tileproof.kernels.launch import Buffer
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.plans import dense_host
from tileproof.spec.problems.dense_attention_bwd.inputs import DTYPES, DenseProblem, Inputs
from tileproof.spec.problems.dense_attention_bwd.problem import PROBLEMS

NAME = "blocked"


def buffers(plan: KernelPlan, p: DenseProblem) -> list[Buffer]:
    """The outputs of a plan: operands and gradients in the inputs' form, the others f32."""
    found = []
    for at in plan.observations:
        assert isinstance(at, OutputObservation)
        shape = tuple(getattr(p, axis) for axis in at.indexed.strip("[]").split(", "))
        wide = at.stage in ("delta", "P", "S", "dD", "dP", "LSE")
        found.append(Buffer.output(at.parameter, shape, np.float32 if wide else DTYPES[p.form]))
    return found


def arrays(inputs: Inputs) -> Mapping[str, Any]:
    """The arrays of a problem by name."""
    return {name: getattr(inputs, name) for name in ("q", "k", "v", "o", "dO", "lse", "bias")}


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Call:
    """The call on `inputs`."""
    return call(built, arrays(inputs), buffers(plan, inputs.problem), partial(_run, inputs, plan))


def _run(inputs: Inputs, plan: KernelPlan, outputs: Outputs) -> None:
    need_torch()
    from tileproof.kernels.host.blocked import kernel

    kernel.backward(inputs, plan.block, dense_host.BLOCK[1], outputs)


def _target(form: str, problem: str) -> Target:
    name = NAME if form == "bf16" else f"{NAME}-{form}"
    return Target(
        name,
        (Variant.of(problem),),
        lambda variant: dense_host.blocked(name, problem),
        HostFunction(),
        describe,
        (lambda: mutants.MUTANTS) if form == "bf16" else tuple,
        probe=False,
        arch=HOST,
    )


TARGETS = tuple(_target(one.operand.name, one.name) for one in PROBLEMS if not one.by_key_block)
