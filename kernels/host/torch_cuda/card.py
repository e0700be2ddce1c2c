"""PyTorch's CUDA attention kernels as kernels, one per operator and form of operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from tileproof.kernels.called import HOST, HostFunction, Outputs, call, need_torch
from tileproof.kernels.compile import Built
from tileproof.kernels.host.blocked.host import arrays, buffers
from tileproof.kernels.host.torch_cuda import worker
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.arithmetic import BF16, F16, F32, Form, Online
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import dense_host
from tileproof.spec.problems import register
from tileproof.spec.problems.dense_attention_bwd import features
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd
from tileproof.spec.problems.dense_attention_bwd.stages import RoundingPlan

# By their sources: the memory-efficient one keeps S and 1 / (1 - p) in the operands' form, FlashAttention 2
# applies sm_scale behind the products and has a dK of its own per query head. cuDNN's is not public: that it
# scales dS, and has a dK and dV of its own per query head, is what its results on an H200 agree with.
ROUNDING: Mapping[str, RoundingPlan] = {
    "efficient": RoundingPlan(narrow_softmax=True, forward=True, online=Online(32)),
    "efficient-bias": RoundingPlan(narrow_softmax=True, forward=True, online=Online(32)),
    "efficient-split": RoundingPlan(narrow_softmax=True, forward=True, online=Online(32)),
    "flash": RoundingPlan(late=True, late_dropout=True, heads_apart=True, forward=True, online=Online(32)),
    "cudnn": RoundingPlan(heads_apart=True, forward=True, online=Online(32)),
}
UNORDERED = {
    "efficient": ("dQ",), "efficient-bias": ("dQ",), "efficient-split": ("dQ",), "flash": ("dQ",),
    "cudnn": ("dQ", "dK", "dV"),
}  # fmt: skip
BY_BLOCK = ("flash",)  # draw dropout by block
MAX_KEYS = {"efficient-split": 700}


def need_card() -> None:
    """TileproofError without a card that torch can use."""
    need_torch()
    import torch

    if not torch.cuda.is_available():
        raise TileproofError(
            "torch has no CUDA card", where="torch.cuda",
            do="check torch-cpu-flash or blocked, which need none",
        )  # fmt: skip


# What an operator refuses, by (operator, form), once it was asked: another process may be sent it.
FOUND: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}


def refusals(operator: str, form: str) -> tuple[tuple[str, str], ...]:
    """Each feature that an operator does not take, and why: found by a call on a small problem.

    TileproofError when it takes no problem of this form at all.
    """
    if (operator, form) not in FOUND:
        FOUND[operator, form] = _asked(operator, form)
    return FOUND[operator, form]


def _asked(operator: str, form: str) -> tuple[tuple[str, str], ...]:
    need_card()

    def tried(case: DenseCase) -> str:
        by_block = operator in BY_BLOCK and case.dropout > 0
        return worker.refusal(operator, replace(case, by_block=by_block).inputs())

    if why := tried(DenseCase(form, m=8, n=8, d_qk=16, d_v=16)):
        raise TileproofError(f"torch's {operator} kernel does not support {form}", where="form", found=why)
    found = {name: tried(features.sample(name, form)) for name in features.FEATURES}
    return tuple((name, why) for name, why in found.items() if why)


def describe(operator: str, inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """The call on `inputs`."""
    return call(
        built, arrays(inputs), buffers(plan, inputs.problem), partial(_run, operator, inputs), whole=True
    )


def _run(operator: str, inputs: Inputs, outputs: Outputs) -> None:
    need_card()
    for name, value in worker.call(operator, inputs).items():
        if name in outputs:
            outputs[name][...] = value.astype(outputs[name].dtype)


def _plan(operator: str, form: Form, name: str, problem: DenseAttentionBwd) -> KernelPlan:
    more = ("dB",) if operator == "efficient-bias" else ()
    return dense_host.outputs_only(name, problem, refusals(operator, form.name), UNORDERED[operator], more)


def _kernel(operator: str, form: Form) -> Kernel:
    problem = DenseAttentionBwd(
        form,
        kernel=f"torch_{operator}".replace("-", "_"),
        rounding=ROUNDING[operator],
        by_block=operator in BY_BLOCK,
        keys=MAX_KEYS.get(operator, DenseAttentionBwd.keys),
    )
    register(problem)
    name = f"torch-{operator}" + ("" if form == BF16 else f"-{form.name}")
    return Kernel(
        name,
        (Variant.of(problem.name),),
        lambda variant: _plan(operator, form, name, problem),
        HostFunction(),
        partial(describe, operator),
        probe=False,
        arch=HOST,
    )


@cache
def kernels() -> Mapping[str, Kernel]:
    """Every such kernel by name; a card is asked for when its plan is."""
    every = [_kernel(operator, form) for operator in ROUNDING for form in (BF16, F16, F32)]
    return {kernel.name: kernel for kernel in every}
