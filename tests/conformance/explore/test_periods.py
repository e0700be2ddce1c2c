"""The order of events from k-block to k-block: right kernels, and threads that do something else."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tileproof.conformance.cases.generators import small
from tileproof.conformance.drivers import emulator
from tileproof.conformance.explore.periods import Periods, blocks_needed, periods, ring_period
from tileproof.conformance.gate.model import GatedVariant, checks
from tileproof.emulator.trace import KINDS, Trace
from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import ProblemInputs


def traced(
    name: str, edits: tuple[Edit, ...] = (), blocks: int = 0
) -> tuple[Trace, KernelPlan, ProblemInputs]:
    """The trace of a kernel over 20 k-blocks, or over `blocks`."""
    entry = kernel(name)
    variant = entry.variants[0]
    plan, built = entry.plan(variant), entry.build(variant, edits=edits)
    inputs = small(plan, blocks or 20).inputs()
    launch = entry.launch(inputs, built)
    return emulator.run_traced(launch, plan, schedule=Schedule("early"), limit=1 << 22)[1], plan, inputs


@cache
def right() -> tuple[Trace, KernelPlan, ProblemInputs]:
    return traced("sm90-gemm")


def changed(rows: list[int], **fields: int) -> Periods:
    """The period of the right kernel's trace with other fields in these rows; without fields they are left
    out.
    """
    trace, plan, inputs = right()
    other = copy(trace)
    other.raw = trace.raw.copy()
    for name, value in fields.items():
        other.raw[name][rows] = value
    if not fields:
        other.raw = np.delete(other.raw, rows)
    return periods(other, plan, inputs)


def passes(block: int) -> list[int]:
    """The waits of warp 0 for the tiles of a k-block."""
    trace, plan, _ = right()
    full = next(ring for ring in plan.barriers if ring.name == "full")
    at, phase = full.offset_of(block % full.stages), block // full.stages
    raw = trace.raw
    own = (raw["kind"] == KINDS.index("pass")) & (raw["barrier"].astype(int) - trace.dynamic == at)
    found = np.flatnonzero(own & (raw["phase"] == phase))
    return found[raw["warp"][found] == raw["warp"][found].min()].tolist()


def test_a_ring_of_three_stages_repeats_every_third_k_block() -> None:
    found = periods(*right())
    assert found and (found.first, found.period, found.blocks) == (0, 3, 20)
    assert str(found) == "the order repeats from k-block 0 with period 3; observed to 20"


@pytest.mark.parametrize(
    "fields", [{}, {"pc": 3}, {"barrier": 8}], ids=["no wait", "another instruction", "another barrier"]
)
def test_a_thread_that_does_something_else_at_k_block_9_is_named(fields: dict[str, int]) -> None:
    rows = passes(9)
    assert rows
    found = changed(rows, **fields)
    assert not found and "does something else at k-block" in found.breaks[0], found
    assert abs(int(found.breaks[0].split("k-block ")[1].split(",")[0]) - 9) <= 1


def test_too_few_k_blocks_show_no_period() -> None:
    trace, plan, inputs = traced("sm90-gemm", blocks=4)
    found = periods(trace, plan, inputs)
    assert not found and f"4 k-blocks are too few: a period needs {blocks_needed(plan)}" in str(found)
    assert ring_period(plan) == 3


WAIT = "ptx::wait(ring.full(s), (k / kStages) & 1);"
TWICE = Edit(Place(WAIT, "sm90/gemm/kernel.cu"), f"{WAIT}\n    if (k == 9) {WAIT}")


def test_a_kernel_that_waits_twice_at_k_block_9_fails_the_gate() -> None:
    """It is certified, and right: its order does not repeat."""
    entry = kernel("sm90-gemm")
    twice = PlantedDefect("test-twice", "a wait twice", "", entry.name, (TWICE,), Reported("none"))
    check = checks()["k-blocks"]
    report = check.run(GatedVariant(entry, entry.variants[0], planted=twice))
    assert report.outcome == "failed" and "kernel.cu" in report.reason
    assert abs(int(report.reason.split("k-block ")[1].split(",")[0]) - 9) <= 3  # a period
    assert check.required and not check.wanted("quick") and check.wanted("full")
    right = check.run(GatedVariant(entry, entry.variants[0]))
    assert (right.outcome, right.reason) == ("passed", "")
    assert right.details["control flow"] == [
        "control flow depends on sizes alone; no dependence was seen on A, B, C (3 changes)",
        "every input: certified; the order repeats from k-block 0 with period 3; observed to 18",
    ]


def test_a_kernel_that_states_no_period_may_have_none() -> None:
    entry = replace(kernel("sm90-gemm"), repeats=False)
    twice = PlantedDefect("test-twice", "a wait twice", "", entry.name, (TWICE,), Reported("none"))
    report = checks()["k-blocks"].run(GatedVariant(entry, entry.variants[0], planted=twice))
    assert report.outcome == "passed" and "does not repeat" in str(report.details["control flow"])
