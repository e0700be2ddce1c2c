"""What every check begins with: defects that only an edge shows are found without a single lucky draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.edit import Edit, Place
from tileproof.kernels.registry import kernel
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase, past_the_rings
from tileproof.spec.problems.sparse_mla_bwd.edges import edges, smaller
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK

CONTEXT, KERNEL = "sm100/context.cuh", "sm100/head128_part0/kernel.cuh"
KV_TAIL = "smem.kv_free[k % Cfg::kKvStages].wait((k / Cfg::kKvStages) & 1);"
P_TAIL = "smem.p_free[k % Cfg::kPStages].wait((k / Cfg::kPStages) & 1);"
MUTANTS = {
    "a last block of one key is dropped": (
        CONTEXT,
        "(length + Plan::b_topk - 1) / Plan::b_topk",
        "(length + Plan::b_topk - 2) / Plan::b_topk",
    ),
    "a length above topk is not clamped": (
        CONTEXT,
        "length = max(0, min(length, params.topk));",
        "length = max(0, length);",
    ),
    "index & 511": (
        CONTEXT,
        "return is_key ? index : -1;",
        "return is_key ? index & 511 : -1;",
    ),
    "indices of token & 3": (CONTEXT, "int64_t(token) * params.topk", "int64_t(token & 3) * params.topk"),
    "a wrong parity from the sixth k-block on": (
        KERNEL,
        "smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);",
        "smem.kv_ready[b].wait(((k / Cfg::kKvStages) & 1) ^ (k > 5));",
    ),
    "an arrival is missing in k-block 20": (
        KERNEL,
        "smem.p_free[s].arrive_in(kLeader);",
        "if (k != 19 || t != 0) smem.p_free[s].arrive_in(kLeader);",
    ),
    "tail of kv_free: the other parity": (KERNEL, KV_TAIL, KV_TAIL.replace("& 1)", "& 1 ^ 1)")),
    "tail of kv_free: parity 0": (KERNEL, KV_TAIL, "smem.kv_free[k % Cfg::kKvStages].wait(0);"),
    "tail of kv_free: parity 1": (KERNEL, KV_TAIL, "smem.kv_free[k % Cfg::kKvStages].wait(1);"),
    "tail of p_free: parity 0": (KERNEL, P_TAIL, "smem.p_free[k % Cfg::kPStages].wait(0);"),
    "tail of p_free: parity 1": (KERNEL, P_TAIL, "smem.p_free[k % Cfg::kPStages].wait(1);"),
}


def mutant(file: str, text: str, replacement: str) -> KernelUnderTest:
    found = kernel("head128-part0")
    variant = found.variant(d_qk=576)
    edits = (Edit(Place(text, file), replacement),)
    return replace(
        on_emulator(found, variant),
        production=found.build(variant, edits=edits),
        probe=lambda: found.build(variant, True, edits),
    )


# A seed chooses schedules and values; the edges are the same under each.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("name", MUTANTS)
def test_found_by_the_edges_alone(name: str, seed: int) -> None:
    under_test = mutant(*MUTANTS[name])
    runs = engine.edge_runs(under_test.plan(), "all", seed)
    report = engine.check(under_test, examples=1, seed=seed, shrink_seconds=0.0)
    assert report.failure is not None, name
    assert report.examples <= len(runs)


def test_the_kernel_itself_passes_on_two_processes_with_the_same_result() -> None:
    found = kernel("head128-part0")
    under_test = on_emulator(found, found.variant(d_qk=576))
    first, second = (engine.check(under_test, examples=3, seed=7, jobs=jobs) for jobs in (1, 2))
    assert first.failure is None and second.failure is None
    assert (first.examples, first.agreed, first.remarks) == (second.examples, second.agreed, second.remarks)
    assert first.scores == second.scores


def test_several_processes_find_and_shrink_the_same() -> None:
    under_test = mutant(*MUTANTS["indices of token & 3"])
    first, second = (
        engine.check(under_test, examples=40, seed=3, jobs=jobs, with_edges=False, shrink_seconds=1e9)
        for jobs in (1, 2)
    )
    # At most three tokens are drawn: without the edges this one lives.
    assert first.failure is None and second.failure is None
    under_test = mutant(*MUTANTS["a last block of one key is dropped"])
    first, second = (
        engine.check(under_test, examples=40, seed=3, jobs=jobs, shrink_seconds=1e9) for jobs in (1, 2)
    )
    assert first.failure is not None and second.failure is not None
    assert (first.failure.case, first.failure.schedule) == (second.failure.case, second.failure.schedule)
    assert first.examples == second.examples
    # The smallest: one token whose last k-block holds one key.
    case = first.failure.case
    assert isinstance(case, SparseCase) and len(case.tokens) == 1 and case.lengths is not None
    assert case.lengths[0] % B_TOPK == 1


def test_checks_that_share_processes_give_what_each_gives_alone() -> None:
    """The first has a defect, and what is left of its runs is dropped; the second is the kernel itself."""
    found = kernel("head128-part0")
    pair = [
        mutant(*MUTANTS["a last block of one key is dropped"]),
        on_emulator(found, found.variant(d_qk=512)),
    ]
    budget: dict[str, Any] = {"examples": 3, "seed": 7, "policy": "all", "with_edges": True}
    alone = [engine.check(kernel, shrink_seconds=0.0, **budget) for kernel in pair]
    with engine.shared_ahead(pair, jobs=2, **budget) as ahead:
        shared = [engine.check(kernel, shrink_seconds=0.0, ahead=ahead, **budget) for kernel in pair]
    assert shared[0].failure is not None and shared[1].failure is None
    for single, joint in zip(alone, shared, strict=True):
        assert (single.examples, single.agreed, single.scores, single.failure) == (
            joint.examples, joint.agreed, joint.scores, joint.failure,
        )  # fmt: skip


def test_an_interrupt_tells_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernel("head128-part0")
    under_test = on_emulator(found, found.variant(d_qk=576))

    def progress(done: int, shrinking: bool) -> None:
        if done == 2:
            raise KeyboardInterrupt

    report = engine.check(under_test, examples=5, seed=0, progress=progress)
    assert report.interrupted and report.failure is None and report.examples == 2
    broken = mutant(*MUTANTS["a last block of one key is dropped"])

    def while_shrinking(done: int, shrinking: bool) -> None:
        if shrinking:
            raise Stopped

    report = engine.check(broken, examples=5, seed=0, progress=while_shrinking)
    assert report.interrupted and report.failure is not None and report.failure.findings


def test_the_edges_hold_what_they_promise() -> None:
    found = edges(576, 128)
    topk = found["lengths"].topk
    assert set(found["lengths"].lengths or ()) == {0, 1, 63, 64, 65, topk - 1, topk, topk + 1}
    production = found["production"]
    assert production.topk == 2048 and len(production.tokens) >= 5 and production.s_kv >= 4096
    for case in found.values():
        assert SparseCase.from_json(case.as_json()) == case
        case.inputs()
    deep = past_the_rings(576, 2)
    assert deep.lengths == (3 * B_TOPK, 4 * B_TOPK, 0)
    assert len(deep.tokens) == 3


def test_smaller_cases_are_valid_and_end() -> None:
    case = edges(576, 128)["indices"]
    steps = 0
    while smallest := next(iter(smaller(case)), None):
        assert smallest != case
        smallest.inputs()
        case, steps = smallest, steps + 1
        assert steps < 50
    assert len(case.tokens) == 1 and case.blocks == 1
