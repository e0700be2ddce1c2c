"""The mbarrier state machine: phases, parities, bytes, and what the classic faults look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.mbarrier import MBarrier


def test_fresh_barrier_parities() -> None:
    fresh = MBarrier(1)
    assert fresh.test_parity(1) and not fresh.test_parity(0)
    assert not fresh.test_state(0)
    fresh.arrive()
    assert fresh.test_parity(0) and not fresh.test_parity(1)
    assert fresh.test_state(0) and not fresh.test_state(1)


@given(st.permutations(["arrive", "arrive", "a", "b", "c"]))
def test_any_order_of_bytes_and_arrivals_completes_once(order: list[str]) -> None:
    barrier = MBarrier(3)
    barrier.arrive_expect_tx(96)
    for event in order:
        assert barrier.phase == 0
        if event == "arrive":
            barrier.arrive()
        else:
            barrier.complete_tx(32)
    assert (barrier.phase, barrier.pending, barrier.tx) == (1, 3, 0)


def test_bytes_may_land_before_they_are_expected() -> None:
    barrier = MBarrier(1)
    barrier.complete_tx(64)
    assert barrier.phase == 0 and barrier.tx == -64
    barrier.arrive_expect_tx(64)
    assert barrier.phase == 1


def test_wrong_byte_count_never_completes() -> None:
    barrier = MBarrier(1)
    barrier.arrive_expect_tx(128)
    barrier.complete_tx(64)
    assert barrier.phase == 0 and not barrier.test_parity(0)


def test_expect_after_the_last_arrival_counts_toward_the_next_phase() -> None:
    barrier = MBarrier(1)
    barrier.arrive()
    barrier.expect_tx(32)
    assert (barrier.phase, barrier.tx) == (1, 32)
    barrier.arrive()
    assert barrier.phase == 1


def test_surplus_arrival_lands_in_the_next_phase() -> None:
    barrier = MBarrier(1)
    barrier.arrive()
    barrier.arrive()
    assert barrier.phase == 2 and not barrier.test_parity(0)


def test_two_phases_ahead_looks_like_none() -> None:
    barrier = MBarrier(1)
    before = barrier.test_parity(0)
    barrier.arrive()
    barrier.arrive()
    assert barrier.test_parity(0) == before
    with pytest.raises(TileproofError):
        barrier.test_state(0)


def test_arrive_drop() -> None:
    barrier = MBarrier(2)
    barrier.arrive_drop()
    barrier.arrive()
    assert (barrier.phase, barrier.pending) == (1, 1)


def test_ranges() -> None:
    for broken in (
        lambda: MBarrier(0),
        lambda: MBarrier(2**20),
        lambda: MBarrier(2).arrive(3),
        lambda: MBarrier(1).expect_tx(2**20),
        lambda: MBarrier(1).complete_tx(2**20),
        lambda: MBarrier(1).arrive_drop(2),
    ):
        with pytest.raises(TileproofError):
            broken()
