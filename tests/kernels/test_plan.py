"""The plan of head128-part0: consistent by itself, and every kind of contradiction is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.plans.head128_part0 import D_QKS, plan


def _with(parts: tuple[Any, ...], name: str, **changes: Any) -> tuple[Any, ...]:
    assert any(part.name == name for part in parts)
    return tuple(replace(part, **changes) if part.name == name else part for part in parts)


@pytest.mark.parametrize("d_qk", D_QKS)
def test_plan_has_no_faults(d_qk: int) -> None:
    assert contradictions(plan(d_qk)) == []


@pytest.mark.parametrize("d_qk", D_QKS)
def test_barriers_expect_the_bytes_of_the_tiles_that_they_announce(d_qk: int) -> None:
    p = plan(d_qk)
    assert p.barrier("q_ready").tx_bytes == p.cluster * p.smem_tile("Q").bytes
    assert p.barrier("do_ready").tx_bytes == p.smem_tile("dO").bytes
    assert p.barrier("kv_ready").tx_bytes == p.cluster * p.smem_tile("KV").bytes
    assert p.barrier("kv_ready").stages == p.barrier("kv_free").stages == p.smem_tile("KV").stages >= 2
    assert p.barrier("p_ready").stages == p.barrier("p_free").stages == p.tmem_tile("P").stages
    consumers = next(role for role in p.roles if role.name == "p_consumer")
    assert p.barrier("p_free").count == 32 * consumers.warps * len(consumers.ctas)


def test_pair_tiles_cover_the_heads_and_the_keys() -> None:
    p = plan(576)
    assert p.cluster * p.smem_tile("Q").rows == p.size("h_q") == p.mmas[0].m
    assert p.cluster * p.smem_tile("KV").rows == p.block == p.mmas[0].n


DEFECTS: dict[str, Callable[[KernelPlan], KernelPlan]] = {
    "KV overlaps": lambda p: replace(p, smem=_with(p.smem, "KV", stages=3)),
    "Q does not start": lambda p: replace(p, smem=_with(p.smem, "Q", offset=512)),
    "dO takes": lambda p: replace(p, smem=_with(p.smem, "dO", rows=32)),
    "shared memory of": lambda p: replace(p, smem_bytes=240 * 1024),
    "ends past the shared memory": lambda p: replace(p, smem_bytes=p.smem_bytes - 1024),
    "p_free overlaps": lambda p: replace(
        p, barriers=_with(p.barriers, "p_free", offset=p.barrier("p_ready").offset - 8)
    ),
    "kv_ready is not 8-byte": lambda p: replace(
        p, barriers=_with(p.barriers, "kv_ready", offset=p.barrier("kv_ready").offset + 4)
    ),
    "expects 0 arrivals": lambda p: replace(p, barriers=_with(p.barriers, "p_free", count=0)),
    "expects 1048576 bytes": lambda p: replace(p, barriers=_with(p.barriers, "q_ready", tx_bytes=1 << 20)),
    "of a cluster of 2": lambda p: replace(p, barriers=_with(p.barriers, "kv_free", ctas=(0, 2))),
    "cannot be allocated": lambda p: replace(p, tmem_columns=96),
    "past the TMEM allocation": lambda p: replace(p, tmem=_with(p.tmem, "P", stages=3)),
    "cover": lambda p: replace(p, threads=384),
    "delta overlaps mma": lambda p: replace(p, roles=_with(p.roles, "delta", warps=5)),
    "not in the plan": lambda p: replace(p, mmas=_with(p.mmas, "P", b="V")),
    "reads 64 x 576 of KV": lambda p: replace(p, smem=_with(p.smem, "KV", rows=64)),
    "writes 64 columns": lambda p: replace(p, tmem=_with(p.tmem, "P", layout="D")),
    "stage P is never observed": lambda p: replace(p, observations=p.observations[1:], probes=()),
    "not a stage of the plan": lambda p: replace(p, stages=("P",)),
    "one stage per stage": lambda p: replace(p, barriers=_with(p.barriers, "p_ready", stages=1)),
}


@pytest.mark.parametrize("sentence", DEFECTS)
def test_planted_contradictions_are_noticed(sentence: str) -> None:
    found = contradictions(DEFECTS[sentence](plan(576)))
    assert any(sentence in fault for fault in found), found


def test_unknown_width_is_one_clear_error() -> None:
    with pytest.raises(TileproofError, match="576 or 512"):
        plan(192)
