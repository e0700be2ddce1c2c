"""Tokens in rounds over a card: a last round that is not full takes as long as a full round."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.timing.rounds import TokenRounds


def test_a_last_round_that_is_not_full_takes_as_long() -> None:
    rounds = TokenRounds(4096, 74)
    assert rounds.needed == pytest.approx(55.35, abs=0.01) and rounds.full == pytest.approx(0.988, abs=0.001)
    assert str(rounds) == "55.4 rounds of 74, the last with 26"
    assert rounds.clocks(100, 50) == TokenRounds(56 * 74, 74).clocks(100, 50) == 56 * (3200 + 50)
    assert TokenRounds(56 * 74 + 1, 74).clocks(100, 50) == 57 * (3200 + 50)


def test_a_cluster_that_goes_on_starts_once() -> None:
    rounds = TokenRounds(10, 4)
    assert rounds.clocks(100, 50, between=20, blocks=2) == 3 * 200 + 50 + 2 * 20
    assert rounds.clocks(100, 50, blocks=2) == 3 * 250
    assert TokenRounds(4, 4).clocks(100, 50, between=20) == TokenRounds(4, 4).clocks(100, 50)
