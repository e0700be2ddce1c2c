"""A whole launch: query tokens over the CTAs or clusters that a card holds at once.

Tokens run in rounds. A partly filled last round takes as long as a full round. A cluster that continues with
other tokens starts once and has `between` two tokens what stands between their k-blocks; one that does not
has the clocks around k-blocks, and the start of a CTA, for each token.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

TOKENS = 4096
BLOCKS = 32  # of a token: topk 2048 in blocks of 64


@dataclass(frozen=True)
class TokenRounds:
    """How `tokens` of equal length are shared out to `at_once` CTAs or clusters."""

    tokens: int
    at_once: int

    @property
    def needed(self) -> float:
        """Number of rounds; a partial last round counts as a fraction."""
        return self.tokens / self.at_once

    @property
    def full(self) -> float:
        """Which part of all rounds' places has a token."""
        return self.needed / ceil(self.needed)

    def clocks(
        self, block: float, around: float, between: float | None = None, blocks: int = BLOCKS
    ) -> float:
        """Of the launch, from clocks per k-block, those `around` the k-blocks of a token with the start of
        its CTA, and those `between` two tokens of a cluster that goes on."""
        rounds = ceil(self.needed)
        if between is None:
            return rounds * (blocks * block + around)
        return rounds * blocks * block + around + (rounds - 1) * between

    def __str__(self) -> str:
        last = self.tokens - (ceil(self.needed) - 1) * self.at_once
        return f"{self.needed:.1f} rounds of {self.at_once}, the last with {last}"
