"""The engine's simulation against `simulate.Model`: the same clocks, waits and use of units, bit by bit."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from functools import cache
from itertools import chain, cycle
from typing import get_args, get_type_hints

import pytest
from tileproof.conformance.beside.timing.machine_code import LATENCIES
from tileproof.conformance.beside.timing.model import Played, play
from tileproof.conformance.beside.timing.simulate import Model, Timed
from tileproof.conformance.beside.timing.simulated import simulated
from tileproof.conformance.beside.timing.work import TimedOperation
from tileproof.conformance.cases.generators import small
from tileproof.emulator._engine import TIMING_FIGURES
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.timing import BLACKWELL, Case, Timing

KERNELS = ("head64", "head128-columns", "head128-part0")


@cache
def run(name: str) -> Played:
    """A run of the kernel's first variant over two k-blocks."""
    found = kernel(name)
    variant = found.variants[0]
    return play(found.launch(small(found.plan(variant), 2).inputs(), found.build(variant)), "sm_100a")


def modelled(run: Played, timing: Timing, case: Case, alone: bool, order: int | None, used: float) -> Timed:
    return Model(run.code, timing, case, alone, order, used).run(run.streams, run.work)


def shown(timed: Timed) -> dict[str, str]:
    """Every field as text, which keeps the order of a dict and each bit of a float."""
    out = {}
    for name in (field.name for field in fields(Timed)):
        value = getattr(timed, name)
        if name in ("log", "waits"):  # a warp without any may be there
            value = {warp: found for warp, found in value.items() if found}
        out[name] = repr(sorted(value) if isinstance(value, set) else value)
    return out


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("case", "alone", "order", "used"),
    [
        ("likely", False, None, 0.0),
        ("likely", False, 3, 0.0),
        ("best", False, (1 << 32) + 7, 2e8),
        ("worst", True, 0, 0.0),
    ],
)
def test_the_engine_shows_what_the_model_shows(
    name: str, case: Case, alone: bool, order: int | None, used: float
) -> None:
    made = run(name).clocks(BLACKWELL, case, alone, order, used)
    assert shown(made) == shown(modelled(run(name), BLACKWELL, case, alone, order, used))


def test_operations_that_these_kernels_have_not_are_simulated_as_well() -> None:
    """Planted: each load, store and remote store of a run is another operation of as many bytes."""
    played = run("head128-columns")
    instead = cycle(get_args(get_type_hints(TimedOperation)["does"]))
    operations = dict(played.work.operations)
    for number, op in operations.items():
        if op.does in ("load", "remote store"):
            does = next(instead)
            amount = 64 << 16 | 64 if does == "MMA" else op.amount
            operations[number] = replace(op, does=does, amount=amount, reads=op.feeds[:1])
    needs = played.work.needs + Counter(phase for op in operations.values() for phase in op.reads)
    changed = replace(played, work=replace(played.work, operations=operations, needs=needs))
    for alone in (False, True):
        made = Model(changed.code, BLACKWELL, "likely", alone, 1).run(changed.streams, changed.work)
        found = simulated(changed._tables, BLACKWELL, "likely", alone, 1)
        assert shown(found) == shown(made)
        assert {span[0] for span in made.spans} >= {"bulk stores", "copies", "remote stores", "tensor core"}


def test_a_figure_that_moves_is_seen_by_both() -> None:
    played, moved = run("head64"), BLACKWELL.fixed({"wake": 400.0})
    before, after = (played.clocks(timing, "likely", False, 0) for timing in (BLACKWELL, moved))
    assert after.clocks > before.clocks
    assert shown(after) == shown(modelled(played, moved, "likely", False, 0, 0.0)) != shown(before)


def test_other_code_and_other_work_are_not_simulated_from_the_tables_of_the_run() -> None:
    played = run("head64")
    before = played.clocks(BLACKWELL, "likely", False, 0).clocks
    slower = [replace(sass, stall=min(15, sass.stall + 3)) for sass in played.code.sass]
    code = replace(played, code=replace(played.code, sass=slower))
    accesses = {at: [16 * passes for passes in seen] for at, seen in played.work.passes.items()}
    work = replace(played, work=replace(played.work, passes=accesses))
    for changed in (code, work):
        found = changed.clocks(BLACKWELL, "likely", False, 0)
        assert found.clocks > before
        assert found.clocks == modelled(changed, BLACKWELL, "likely", False, 0, 0.0).clocks
    assert played.clocks(BLACKWELL, "likely", False, 0).clocks == before


def test_the_engine_knows_the_figures_by_the_names_of_the_spec() -> None:
    assert set(TIMING_FIGURES) <= set(BLACKWELL.figures())
    assert set(LATENCIES) <= set(TIMING_FIGURES)
    used = chain.from_iterable(run(name).clocks(BLACKWELL, "likely", False).used for name in KERNELS)
    assert len(set(used)) > 30
