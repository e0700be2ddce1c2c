"""The launch that a kernel's time per k-block is scaled to, and how far it is from every row of the model."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tileproof.conformance.beside.timing.rounds import TOKENS
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import Timing, timing_of
from tileproof.spec.published import CARDS, ROW_CARDS, ROW_TOKENS, ROW_TOPK

KEYS = 64  # of a k-block
FAR = 2  # times beyond the largest value of the rows, or below the least


@dataclass(frozen=True)
class LaunchShape:
    """Query tokens, keys of each token, and the card; "": the card of the target's figures."""

    tokens: int = TOKENS
    topk: int = 2048
    card: str = ""

    @property
    def blocks(self) -> int:
        """k-blocks of a token."""
        return ceil(self.topk / KEYS)

    def timing(self, target: str) -> Timing:
        """The card's figures; TileproofError for a card that does not exist or has another target."""
        if not self.card:
            return timing_of(target)
        found = CARDS.get(self.card)
        known = [name for name, timing in CARDS.items() if timing.arch == timing_of(target).arch]
        if found is None or self.card not in known:
            raise TileproofError(
                "no timing figures of this card for the kernel's target",
                where=f".target {target}", found=self.card, expected=" or ".join(known),
            )  # fmt: skip
        return found

    def far(self) -> tuple[str, ...]:
        """What is far from every row of the model: the interval is the answer, and its likely value is not
        tested."""
        out = []
        if self.card and self.card not in ROW_CARDS:
            out.append(f"card {self.card}: rows are of {', '.join(ROW_CARDS)}")
        for name, value, (low, high) in (("topk", self.topk, ROW_TOPK), ("tokens", self.tokens, ROW_TOKENS)):
            if not low <= value * FAR or value > FAR * high:
                out.append(f"{name} {value:,}: rows have {low:,} to {high:,}")
        return tuple(out)


USUAL = LaunchShape()
