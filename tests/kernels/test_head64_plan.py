"""The plan of head64: consistent by itself, and contradictions of the kinds that only it has are noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan, SmemObservation, TmemObservation
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.plans.head64 import D_QKS, plan


def _with(items: tuple[Any, ...], name: str, **changes: Any) -> tuple[Any, ...]:
    assert any(part.name == name for part in items)
    return tuple(replace(part, **changes) if part.name == name else part for part in items)


@pytest.mark.parametrize("d_qk", D_QKS)
def test_plan_has_no_faults(d_qk: int) -> None:
    p = plan(d_qk)
    assert contradictions(p) == [] and (p.size("h_q"), p.cluster) == (64, 1)


@pytest.mark.parametrize("d_qk", D_QKS)
def test_barriers_expect_the_bytes_of_the_tiles_that_they_announce(d_qk: int) -> None:
    p = plan(d_qk)
    for barrier, tile in (("q_ready", "Q"), ("do_ready", "dO")):
        assert p.barrier(barrier).tx_bytes == p.smem_tile(tile).bytes
    halves = (p.barrier("kv_lo_ready"), p.barrier("kv_hi_ready"))
    assert sum(half.tx_bytes * half.stages for half in halves) == p.smem_tile("KV").bytes


@pytest.mark.parametrize("d_qk", D_QKS)
def test_every_column_of_every_stage_is_observed(d_qk: int) -> None:
    p = plan(d_qk)
    columns: set[int] = set()
    for at in p.observations:
        if isinstance(at, TmemObservation) and at.stage == "dKV":
            width = next(mma.m for mma in p.mmas if mma.d == at.tile)
            seen = set(range(at.first_col, at.first_col + at.parts * width))
            assert not seen & columns
            columns |= seen
    assert columns == set(range(d_qk))
    assert {at.stage for at in p.observations} == set(p.stages)


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


DEFECTS: dict[str, Callable[[KernelPlan], KernelPlan]] = {
    "P overlaps dP": lambda p: replace(p, tmem=_with(p.tmem, "P", columns=64)),
    "MMA dQ reads 512 x 64": lambda p: replace(p, mmas=_with(p.mmas, "dQ", b_cols=(0, 576))),
    "MMA dP reads 64 x 512 of KV": lambda p: replace(p, mmas=_with(p.mmas, "dP", b_cols=None)),
    "MMA dKV_dS reads 512 x 64": lambda p: replace(p, mmas=_with(p.mmas, "dKV_dS", a_cols=(0, 448))),
    "reads columns 512 to 640": lambda p: replace(p, mmas=_with(p.mmas, "dQ_rope", b_cols=(512, 640))),
    "parts of neither": lambda p: replace(p, mmas=_with(p.mmas, "dQ", b_cols=None)),
    "MMA P reads 64 x 576 of Q": lambda p: replace(p, mmas=_with(p.mmas, "P", a_major="MN")),
    "no legal shape": lambda p: replace(p, mmas=_with(p.mmas, "dQ", n=192)),
    "writes layout F": lambda p: replace(p, mmas=_with(p.mmas, "P", ws=False)),
    "s_ready does not have": lambda p: replace(p, smem=_with(p.smem, "S", stages=2)),
    "observed in a tile": lambda p: _seen(p, "S", tile="P"),
    "or by a barrier that is not": lambda p: _seen(p, "dS", barrier="ds_full"),
    "observed in 4 parts, dkv_ready has 2": lambda p: replace(
        p, barriers=_with(p.barriers, "dkv_ready", parts=2)
    ),
    "stage dS is never observed": lambda p: replace(
        p, observations=tuple(at for at in p.observations if at.stage != "dS"), probes=()
    ),
}


@pytest.mark.parametrize("sentence", DEFECTS)
def test_planted_contradictions_are_noticed(sentence: str) -> None:
    found = contradictions(DEFECTS[sentence](plan(576)))
    assert any(sentence in fault for fault in found), found


def test_unknown_width_is_one_clear_error() -> None:
    with pytest.raises(TileproofError, match="576 or 512"):
        plan(192)
