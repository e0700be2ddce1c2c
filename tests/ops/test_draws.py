"""Drawn calls of the operator: the reference against float64 autograd, the emulator against the spec's chain.

Bounds are derived: `tests/kit/float64_bounds.py` for two float64 evaluations, the problem's own for the
kernels' roundings. A value just outside is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tileproof.conformance.compare.compare import within_bound
from tileproof.reference import oracle
from tileproof.reference.chain import outputs_of
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd.problem import of_operands

from tests.kit.float64_bounds import bounds
from tests.kit.ops_calls import OpsCall, calls, small, sparse_mla_backward

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def outside(call: OpsCall, made: tuple[Any, ...]) -> list[str]:
    """The results that are further from float64 autograd than the bound of two float64 evaluations."""
    wrong: list[str] = []
    of_sink: Any = 0.0
    off_sink: Any = 0.0
    dq, dkv, d_sink = made
    parts = zip(call.sequences, call.parts(dq, "s_q"), call.parts(dkv, "s_kv"), strict=True)
    for inputs, own_dq, own_dkv in parts:
        if call.sink is None:
            right = oracle.gradients(inputs)
        else:
            right, gradient = oracle.gradients_with_sink(inputs, np.minimum(call.sink, 1e30))
            of_sink += gradient
        within = bounds(inputs, call.sink)
        off_sink += within["d_sink"]
        for name, found in (("dQ", own_dq), ("dKV", own_dkv)):
            if not within_bound(found.numpy(), right[name], within[name]).all():
                wrong.append(name)
    if call.sink is not None and not within_bound(d_sink.numpy(), of_sink, off_sink).all():
        wrong.append("d_sink")
    return wrong


@dataclass(frozen=True)
class Choice:
    """Arguments that change no value but by the rounding of dkv."""

    deterministic: bool
    with_out: bool
    dkv_dtype: torch.dtype


CHOICES = st.builds(
    Choice, st.booleans(), st.booleans(), st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
)


def chosen(call: OpsCall, choice: Choice, backend: str, wide: torch.dtype) -> tuple[Any, ...]:
    """The results with dkv in `wide`; those of the choice are the same, dkv rounded, in tensors of the
    caller.
    """
    given = call.tensors() | {"backend": backend, "deterministic": choice.deterministic}
    made: tuple[Any, ...] = sparse_mla_backward(**given, dkv_dtype=wide)
    dq, dkv, d_sink = made
    dkv = dkv.to(choice.dkv_dtype)
    if choice.with_out:
        known = [dq, dkv] if d_sink is None else [dq, dkv, d_sink]
        out = tuple(torch.full_like(each, 7.0, memory_format=torch.contiguous_format) for each in known)
        again = sparse_mla_backward(**given, dkv_dtype=choice.dkv_dtype, out=out)
        for place, (mine, right) in enumerate(zip(out, known, strict=True)):
            assert again[place] is mine and torch.equal(mine.view(torch.uint8), right.view(torch.uint8))
    return made


@settings(SLOW, max_examples=40)
@given(calls(kernel=False), CHOICES)
def test_the_reference_is_within_its_bound_of_autograd(call: OpsCall, choice: Choice) -> None:
    assert outside(call, chosen(call, choice, "reference", torch.float64)) == []


@settings(SLOW, max_examples=10, phases=[Phase.generate])
@given(calls(kernel=False), st.sampled_from([0, 1]))
def test_an_element_outside_the_bound_of_autograd_is_seen(call: OpsCall, which: int) -> None:
    made = sparse_mla_backward(**call.tensors(), dkv_dtype=torch.float64)
    off = bounds(call.sequences[0], call.sink)[("dQ", "dKV")[which]].max()
    made[which].flatten()[0] += 2.1 * off + 1e-300
    assert outside(call, made)


# ---- the compiled kernels


def outside_the_chain(call: OpsCall, made: tuple[Any, ...]) -> list[str]:
    """The results that are further from the spec's float64 chain than the bound of the kernels' roundings."""
    wrong: list[str] = []
    of_sink: Any = 0.0
    off_sink: Any = 0.0
    dq, dkv, d_sink = made
    parts = zip(call.received(), call.parts(dq, "s_q"), call.parts(dkv, "s_kv"), strict=True)
    for inputs, own_dq, own_dkv in parts:
        shared: dict[Any, Any] = {}
        kind = of_operands(inputs.problem.form == "f16")
        delta, right_dq, right_dkv = (
            outputs_of(inputs, stage, problem=kind, tiling=Tiling(64, 1), shared=shared)
            for stage in ("delta", "dQ", "dKV")
        )
        rest = np.full(inputs.problem.s_kv, True)
        rest[right_dkv.rows] = False
        found = own_dkv.float().numpy()
        if (
            found[rest].any()
            or not within_bound(found[right_dkv.rows], right_dkv.value, right_dkv.error).all()
        ):
            wrong.append("dKV")
        if not within_bound(own_dq.float().numpy(), right_dq.value, right_dq.error).all():
            wrong.append("dQ")
        if call.sink is not None:
            of_sink += contract.d_sink(inputs.lse, delta.value, call.sink)
            off_sink += contract.bound_d_sink(inputs.lse, delta.value, call.sink)
            off_sink += (contract.share(inputs.lse, call.sink) * delta.error).sum(axis=0) * 1.01
    if call.sink is not None and not within_bound(d_sink.numpy(), of_sink, off_sink).all():
        wrong.append("d_sink")
    return wrong


@settings(SLOW, max_examples=6)
@given(calls(kernel=True), CHOICES)
def test_the_kernels_and_the_reference_are_within_the_bound_of_the_chain(
    call: OpsCall, choice: Choice
) -> None:
    for backend in ("emulator", "reference"):
        assert outside_the_chain(call, chosen(call, choice, backend, torch.float32)) == [], backend


@pytest.mark.slow
@settings(SLOW, max_examples=100)
@given(calls(kernel=True), CHOICES)
def test_many_calls_of_the_kernels_are_within_the_bound_of_the_chain(call: OpsCall, choice: Choice) -> None:
    assert outside_the_chain(call, chosen(call, choice, "emulator", torch.float32)) == []


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("dQ", lambda given, dq, dkv: dq[0, 0, 0].mul_(1.5)),
        ("dKV", lambda given, dq, dkv: dkv[7].mul_(1.5)),
        ("dKV", lambda given, dq, dkv: dkv[8].add_(2.0**-20)),  # a row that no token selects
        ("dQ", lambda given, dq, dkv: given["lse"].add_(2.0**-3)),
        ("dQ", lambda given, dq, dkv: given["indices"].sub_(1)),
        ("dQ", lambda given, dq, dkv: given["topk_length"].add_(1)),
        ("d_sink", lambda given, dq, dkv: given["sink"].add_(2.0**-10)),
    ],
)
def test_a_wrong_result_of_the_kernels_is_seen(what: str, change: Callable[..., Any]) -> None:
    call = small()
    given = call.tensors()
    dq, dkv, d_sink = sparse_mla_backward(**given, dkv_dtype=torch.float32)
    assert outside_the_chain(call, (dq, dkv, d_sink)) == []
    change(given, dq, dkv)
    again = sparse_mla_backward(**given, dkv_dtype=torch.float32)
    assert what in outside_the_chain(call, (dq, dkv, d_sink)) + outside_the_chain(call, again)
