"""head128-columns: its plan, its build, every stage under several schedules; sums over the CTAs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.runs import RINGS
from tileproof.conformance.cases.generators import small
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.drivers import emulator
from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.observe.capture import captured_tiles
from tileproof.conformance.planted.defects import defects
from tileproof.emulator.explore import explore
from tileproof.kernels.compile import ROOT
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.head128_columns.defects import VALUES
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES
from tileproof.spec.machine.run_result import Capture
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, SmemObservation, TmemObservation
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.plans.head128_columns import D_QKS, plan
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

from tests.kit.backward_cases import random_case
from tests.kit.corpus import changed
from tests.kit.whole_backward import SCHEDULES, STAGES, WHOLE

KERNEL = kernel("head128-columns")


@pytest.mark.parametrize("d_qk", D_QKS)
def test_the_plan_has_no_faults_and_barriers_expect_the_bytes_of_their_tiles(d_qk: int) -> None:
    p = plan(d_qk)
    assert contradictions(p) == []
    rope = ("Q_rope", "KV_rope") if d_qk > 512 else ()
    for barrier, tile in (
        ("q_ready", "Q"),
        ("kv_lo_ready", "KV"),
        ("do_ready", "dO"),
        ("kv_hi_ready", "KV"),
        ("in_ready", "incoming"),
    ):
        narrow = [p.smem_tile(name).bytes for name in rope if name.startswith(tile.split("_")[0])]
        more = sum(narrow) if barrier in ("q_ready", "kv_lo_ready") else 0
        parts = 2 if tile == "KV" else 1  # a half of the columns
        if barrier == "kv_hi_ready" and rope:
            parts *= 2  # a column tile
        assert p.barrier(barrier).tx_bytes == p.smem_tile(tile).bytes // parts + more
    for barrier, tile in (("s_ready", "S"), ("ds_ready", "dS")):
        assert p.barrier(barrier).tx_bytes == p.smem_tile(tile).bytes // 2  # the peer's keys


def _seen(p: KernelPlan, stage: str, **changes: Any) -> KernelPlan:
    return replace(
        p,
        observations=tuple(
            replace(at, **changes)
            if at.stage == stage and isinstance(at, (SmemObservation, TmemObservation))
            else at
            for at in p.observations
        ),
    )


CONTRADICTIONS: dict[str, Callable[[KernelPlan], KernelPlan]] = {
    "S has 128 rows of each CTA in S of 128": lambda p: _seen(p, "S", rank_rows=128),
    "P is observed both as a sum": lambda p: _seen(p, "P", rank_cols=64),
    "dKV is observed in all CTAs together": lambda p: replace(p, cluster_wide=("P", "dP", "dQ")),
    "R is a tile of the whole cluster but no stage": lambda p: replace(
        p, cluster_wide=(*p.cluster_wide, "R")
    ),
}


@pytest.mark.parametrize("sentence", CONTRADICTIONS)
def test_planted_contradictions_are_noticed(sentence: str) -> None:
    found = contradictions(CONTRADICTIONS[sentence](plan(512)))
    assert any(sentence in fault for fault in found), found


def test_unknown_width_is_one_clear_error() -> None:
    with pytest.raises(TileproofError, match="576 or 512"):
        plan(192)


@pytest.mark.parametrize("d_qk", D_QKS)
def test_the_build_fits_the_machine(d_qk: int) -> None:
    built, p = KERNEL.build(KERNEL.variant(d_qk=d_qk)), plan(d_qk)
    used = built.resources
    assert used is not None
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    assert used.registers * p.threads <= 65536
    assert used.static_smem + p.smem_bytes <= MAX_SHARED_BYTES
    assert "cta_group::2" not in built.ptx and "tcgen05.mma.cta_group::1" in built.ptx


@pytest.mark.parametrize(
    ("d_qk", "schedule"), ((576, SCHEDULES[1]), (512, SCHEDULES[2])), ids=lambda x: getattr(x, "policy", x)
)
def test_every_stage(d_qk: int, schedule: Schedule) -> None:
    verdict = run_case(on_emulator(KERNEL, KERNEL.variant(d_qk=d_qk)), replace(WHOLE, d_qk=d_qk), schedule)
    assert verdict.findings == []
    # Tokens of 256, 130 and 0 slots have 4, 3 and 0 k-blocks; two builds. S and dS have a tile in each CTA,
    # P and dP one in the pair (the probe build too), dKV one in the production build.
    assert [verdict.scores[x].tiles for x in STAGES] == [12, 14, 28, 14, 28, 6, 7]


def test_by_the_letter_nothing_is_found() -> None:
    """Strict launches: those of mutants are judged so, too, as long as the kernel itself is clean."""
    under_test = on_emulator(KERNEL, KERNEL.variant(d_qk=576), strict=True)
    assert run_case(replace(under_test, probe=None), one_token(576, 3), SCHEDULES[1]).findings == []


# Waits for what is there before anybody asks, unless a schedule holds it back: copies, and delta, for which
# the first k-block waits, and a token that has none. Tried once each.
HELD_BACK = {
    "Q": ("mma.cuh", "smem.q_ready.wait_own(0);", 1),
    "dO": ("mma.cuh", "smem.do_ready.wait_own(0);", 1),
    "lower columns": ("mma.cuh", "smem.kv_lo_ready[k % Cfg::kKvStages].wait_own", 2),
    "upper columns": ("mma.cuh", "smem.kv_hi_ready[k % Cfg::kKvStages * Cfg::kHiParts + part].wait_own", 4),
    "delta": ("softmax.cuh", "smem.delta_ready.wait(0);", 2),
}
TRIED = [(576, name, n) for name, (_, _, count) in HELD_BACK.items() for n in range(count)]
# The columns of P, which the next k-block writes; behind the last one nobody does.
HELD_BACK["P"] = ("mma.cuh", "if constexpr (Cfg::kRoomy) smem.p_free.wait_own(parity);", 2)
TRIED += [(512, "P", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(("d_qk", "name", "n"), TRIED)
def test_a_wait_that_is_tried_once_is_found_by_the_schedules_of_mutate(d_qk: int, name: str, n: int) -> None:
    file, text, count = HELD_BACK[name]
    under_test = replace(on_emulator(KERNEL, KERNEL.variant(d_qk=d_qk), strict=True), probe=None)
    code = PtxCode(under_test.production.ptx, under_test.production.entry)
    source = (ROOT / "sm100/head128_columns" / file).read_text().split("\n")
    (line,) = (number for number, code_line in enumerate(source, 1) if text in code_line)
    waits = [
        change
        for at in code.code
        if any(where.endswith(file) and number == line for where, number in at.frames)
        for change in OPERATORS["wait-once"](code, at)
    ]  # fmt: skip
    assert len(waits) == count
    mutant = replace(under_test.production, ptx=code.changed(waits[n].lines))
    under_test, case = replace(under_test, production=mutant), small(under_test.plan())
    assert any(run_case(under_test, case, schedule, explain=False).findings for schedule in RINGS)


def test_many_schedules_give_the_same_outputs() -> None:
    explored = Explored.of(KERNEL, KERNEL.build(KERNEL.variant(d_qk=576)), one_token(576, 3))
    report = explore(explored, schedules=8, compare=explored.compare, races=True, sample=True)
    assert report.certificate and not report.failed and report.causes == []


LOADED = "load_scores(smem.dp_ready, k, Plan::tmem::dP::column, x, tmem_row());"
FREED = "arrive_once(smem.dp_free);"


@pytest.mark.parametrize("d_qk", D_QKS)
def test_dp_freed_before_it_is_loaded_is_refuted_by_one_run_or_right_in_every_schedule(d_qk: int) -> None:
    """At d_qk 512 a phase of dp_free may end without the warps that send: two k-blocks under `early` show it,
    with right values. At 576 the sending warps wait for more, and no schedule differs.
    """
    place = Place(f"{LOADED} {FREED}", "sm100/head128_columns/softmax.cuh")
    variant = KERNEL.variant(d_qk=d_qk)
    built = KERNEL.build(variant, edits=(Edit(place, f"{FREED} {LOADED}"),))
    case = Explored.of(KERNEL, built, small(KERNEL.plan(variant), 2))
    report = explore(case, schedules=6, compare=case.compare, races=True, sample=True, shrink_seconds=0)
    assert report.certificate is not None and case.wrong(Schedule()) == []
    if d_qk == 512:
        codes = {doubt.text for doubt in report.certificate.doubts}
        assert codes & {"phase-overrun", "phase-lapped"}
        # The schedule made from the two events shows what comes of it.
        first = case(schedule=Schedule(), races=True)[0]
        assert {found.code for found in first.errors} == {"phase-overrun"}
        race = first.errors[0].machine.race
        assert race is not None and race.reversed_by
        shown = case(schedule=Schedule.parse(race.reversed_by), races=True)[0]
        assert "race-unordered" in {found.code for found in shown.errors}
    else:
        assert report.certificate and not report.failed


@pytest.mark.parametrize(("planted", "moves"), ((None, True), ("cols-share-swapped", False)))
def test_heads_in_another_order_over_both_ctas_move_dq_and_delta_to_the_bit(
    planted: str | None, moves: bool
) -> None:
    edits = () if planted is None else defects()[planted].edits
    built = KERNEL.build(KERNEL.variant(d_qk=576), edits=edits)
    inputs = random_case(1, s_q=1, topk=64, heads=128)
    order = np.random.default_rng(1).permutation(128)
    names = ("q", "o", "dO", "lse")
    moved = changed(inputs, **{n: np.ascontiguousarray(getattr(inputs, n)[:, order]) for n in names})
    base, permuted = (
        emulator.run(KERNEL.launch(x, built), plan(576), schedule=SCHEDULES[0], taps=False)
        for x in (inputs, moved)
    )
    for name in ("dQ", "delta"):
        first, second = (seen.outputs[name].values for seen in (base, permuted))
        same = np.ascontiguousarray(first[:, order]).tobytes() == second.tobytes()
        assert same == (moves or name == "delta"), name


def test_a_sum_over_the_ctas_is_known_when_each_has_shown_its_term() -> None:
    p, inputs = plan(512), one_token(512, 1).inputs()
    shown = [
        Capture("P[0]", (rank, 0, 0), rank, 0, np.full((128, 64), np.float32(rank + 1)).view(np.uint32),
                np.ones((128, 64), bool))
        for rank in (0, 1)
    ]  # fmt: skip
    for captures, value in ((shown, 3.0), (shown[::-1], 3.0), (shown[:1], None)):
        tiles, findings = captured_tiles(p, inputs, captures, "production")
        (tile,) = (tile for tile in tiles if tile.stage == "P")
        assert findings == [] and tile.coord.cta is None and tile.value.shape == (128, 64)
        assert tile.written.all() == (value is not None) and tile.written.any() == (value is not None)
        assert value is None or (tile.value == value).all()


# Of what is exchanged: shares on their way, and the copies that the peer's MMAs read. The others are slow.
FAST = ("cols-share-swapped", "cols-copy-swapped")


@pytest.mark.parametrize(
    "planted", [pytest.param(m, id=m.id, marks=() if m.id in FAST else pytest.mark.slow) for m in VALUES]
)
def test_planted_defects_are_found_in_their_stage(planted: PlantedDefect) -> None:
    under_test = on_emulator(KERNEL, KERNEL.variant(d_qk=576), planted=planted, races=False)
    report = engine.check(under_test, examples=12, seed=1, shrink_seconds=0.0)
    assert report.failure is not None
    assert isinstance(planted.expected, InStage)
    assert report.failure.findings[0].problem.stage == planted.expected.stage
