"""Rows H1, H6, H7 and H8 of the corpus: tokens without keys, arrivals, sinks that own all mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tileproof.kernels.host import sparse_mla_sink as host
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd import sink_exact as sink
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, validate
from tileproof.spec.problems.sparse_mla_bwd.sink import base2, bound_d_sink
from tileproof.spec.problems.sparse_mla_bwd.sink import d_sink as exact_d_sink

from tests.kit.backward_cases import random_case
from tests.kit.corpus import SCHEDULES, changed, run, source

Array = np.ndarray[Any, Any]


def with_empty(empty: list[int], lse: float = np.inf) -> Inputs:
    """Three tokens, those of `empty` with a topk_length of 0."""
    inputs = random_case(20, s_q=3, topk=64)
    lengths, values = np.full(3, 64, np.int32), inputs.lse.copy()
    lengths[empty], values[empty] = 0, lse
    return changed(inputs, topk_length=lengths, lse=values)


EMPTY = [[0], [2], [0, 1, 2]]


@pytest.mark.corpus("H1")
@pytest.mark.parametrize("empty", EMPTY, ids=["first", "last", "all"])
def test_H1_tokens_with_a_length_of_0(empty: list[int]) -> None:
    inputs = with_empty(empty)
    for schedule in SCHEDULES:
        seen = run(inputs, schedule=schedule)
        assert seen.clean
        assert not seen.outputs["dQ"][empty].astype(np.float32).any()
    hangs = source("softmax.cuh", ("if (k_blocks > 0) {\n      smem.dq_ready", "{\n      smem.dq_ready"))
    seen = run(inputs, hangs)
    assert "hang" in seen.codes and seen.waits == {"dq_ready"}


@pytest.mark.corpus("H6")
@pytest.mark.parametrize("empty", EMPTY, ids=["first", "last", "all"])
def test_H6_a_token_without_a_k_block_publishes_and_frees_its_tmem(empty: list[int]) -> None:
    inputs = with_empty(empty)
    assert run(inputs).clean
    alloc = "has_role<typename Plan::role::mma>()) {\n      TMEM::Allocator1Sm allocator;"
    needs_keys = alloc.replace("mma>())", "mma>() && this->k_blocks > 0)")
    seen = run(inputs, source("kernel.cuh", (alloc, needs_keys)))
    assert "shared-uninitialised" in seen.codes and "tmem-dealloc" in seen.codes


@pytest.mark.corpus("H6")
def test_H6_a_token_without_a_k_block_that_keeps_its_tmem_is_seen() -> None:
    free = "if (this->template has_role<typename Plan::role::mma>()) {\n      TMEM::Allocator1Sm{}.free"
    leaks = free.replace("mma>())", "mma>() && this->k_blocks > 0)")
    assert run(with_empty([1]), source("kernel.cuh", (free, leaks))).codes == {"tmem-leak"}
    assert run(with_empty([1])).clean


@pytest.mark.corpus("H7")
def test_H7_every_phase_has_the_arrivals_that_it_expects() -> None:
    inputs = random_case(21, topk=128)
    assert all(run(inputs, schedule=schedule).clean for schedule in SCHEDULES)
    whole_warp = source(
        "kernel.cuh", ("if (elect_one_sync()) Load<Plan>(*this).run();", "Load<Plan>(*this).run();")
    )
    seen = run(inputs, whole_warp)
    assert "mbarrier-over-arrival" in seen.codes
    assert any("load.cuh" in f.machine.source or "barrier.cuh" in f.machine.source for f in seen.run.findings)


def unguarded(lse: Array, delta: Array, values: Array) -> Array:
    """d_sink as the formula stands, in f32: no limit is decided before inf - inf is formed."""
    with np.errstate(all="ignore"):
        return -(np.exp2(values * np.float32(LOG2_E) - lse) * delta).sum(axis=0, dtype=np.float32)


def of_the_sink(value: float) -> tuple[Inputs, Array]:
    """A problem whose forward had the sink `value` in every head, and the sink."""
    case = random_case(22, topk=64)
    values = np.full(case.problem.h_q, value, np.float32)
    arrays: dict[str, Any] = {"q": case.q, "kv": case.kv, "dO": case.dO, "indices": case.indices}
    inputs = sink.with_forward(case.problem, values, **arrays)
    validate(inputs, owned=np.isposinf(base2(values)))
    return inputs, values


def finite_and_right(value: float, d_sink: Callable[[Array, Array, Array], Array]) -> bool:
    """Whether the kernel's outputs and d_sink made of them are what they must be for a sink of `value`."""
    inputs, values = of_the_sink(value)
    seen = run(inputs, schedule=SCHEDULES[2])
    assert seen.clean
    for name in ("delta", "dQ", "dKV"):
        shown = seen.outputs[name].astype(np.float32)
        assert np.isfinite(shown).all()
        assert shown.any() == (value < 1e38), name  # a sink that owns all mass leaves no gradient
    got = d_sink(inputs.lse, seen.outputs["delta"], values).astype(np.float64)
    exact = exact_d_sink(inputs.lse, seen.outputs["delta"], values)
    assert np.isfinite(exact).all() and exact.any() == (abs(value) < 1e38)
    with np.errstate(invalid="ignore"):
        return bool((np.abs(got - exact) <= bound_d_sink(inputs.lse, seen.outputs["delta"], values)).all())


@pytest.mark.corpus("H8")
@pytest.mark.parametrize("value", [-np.inf, -3.0, 0.5, 2e38, 2.4e38, np.inf])
def test_H8_a_sink_that_owns_all_mass(value: float) -> None:
    assert finite_and_right(value, host.d_sink)
    assert finite_and_right(value, unguarded) == (value <= 2e38)


@pytest.mark.corpus("N4")
@pytest.mark.parametrize("value", [2e38, 2.4e38, -2.4e38, 3.4e38])
def test_N4_a_sink_that_overflows_in_base_2(value: float) -> None:
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(value) * np.float32(LOG2_E)) == (abs(value) > 2.3e38)
    assert finite_and_right(value, host.d_sink)
    assert finite_and_right(value, unguarded) == (value <= 2e38)
