"""PyTorch's CPU flash attention as a kernel, one per form of operands: its plan, and what it refuses."""

from __future__ import annotations

from functools import cache, partial

from tileproof.kernels.called import HOST, HostFunction, Outputs, call, need_torch
from tileproof.kernels.compile import Built
from tileproof.kernels.host.blocked.host import arrays, buffers
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.arithmetic import BF16, F16, F32, Form, Online
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import dense_host
from tileproof.spec.problems import register
from tileproof.spec.problems.dense_attention_bwd import features
from tileproof.spec.problems.dense_attention_bwd.features import FEATURES
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd
from tileproof.spec.problems.dense_attention_bwd.stages import RoundingPlan

NAME = "torch-cpu-flash"
# The forward's exponentials: exp_u20 claims 20 units of f32; fexp_u20 claims 1 of f16, after a cast
# to it, and serves the row sum in f32 too (pytorch/pytorch#115151, #151441).
EXP = {F32: 20 * 2.0**-23, BF16: 2.0**-11, F16: 2.0**-11}
KEYS = 512  # of a key block
PACKED = (
    features.PACKED, features.EMPTY, features.PACKED_LIMITS, features.PACKED_WINDOW, features.PACKED_CORNER,
)  # fmt: skip
NOT_TAKEN = dict.fromkeys(PACKED, "the operator has no argument for it")


def blocks(queries: int, keys: int) -> tuple[int, int]:
    """Queries and keys of a block of the backward; its gradients are accumulated in the inputs' form."""
    return 32 if queries < 192 else 64 if queries < 768 else 256, KEYS


def rounding(form: Form) -> RoundingPlan:
    """Where the operator rounds, by its source (FlashAttentionKernel.cpp)."""
    return RoundingPlan(late=True, blocks=blocks, forward=True, online=Online(KEYS, EXP[form]))


@cache
def refusals() -> tuple[tuple[str, str], ...]:
    """Each feature that the operator does not take, and why: found by a call on a small problem."""
    need_torch()
    from tileproof.kernels.host.torch_cpu.discover import refusal

    found = {name: NOT_TAKEN.get(name) or refusal(features.sample(name)) for name in FEATURES}
    return tuple((name, why) for name, why in found.items() if why)


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """The call on `inputs`."""
    return call(built, arrays(inputs), buffers(plan, inputs.problem), partial(_run, inputs), whole=True)


def _run(inputs: Inputs, outputs: Outputs) -> None:
    need_torch()
    from tileproof.kernels.host.torch_cpu import kernel

    kernel.run(inputs, outputs)


def _kernel(form: Form) -> Kernel:
    problem = DenseAttentionBwd(form, kernel="torch_cpu", rounding=rounding(form))
    register(problem)
    name = NAME if form == BF16 else f"{NAME}-{form.name}"
    return Kernel(
        name,
        (Variant.of(problem.name),),
        lambda variant: dense_host.outputs_only(name, problem, refusals()),
        HostFunction(),
        describe,
        probe=False,
        arch=HOST,
    )


KERNELS = tuple(_kernel(form) for form in (BF16, F16, F32))
