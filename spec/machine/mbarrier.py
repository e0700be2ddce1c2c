"""The mbarrier object as a small state machine, with the misuses that it detects.

Source: PTX ISA 9.7.13.15 (mbarrier; .2 ranges of the counts, .4 phases, .5 to .8 arrive and expect-tx, .16
test_wait and try_wait). The 64-bit content is opaque to programs; this is the abstract state: phase, expected
and pending arrivals, tx.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.spec.machine.errors import TileproofError

MAX_COUNT = 2**20 - 1
MBARRIER_BYTES = 8  # the object: 64 bits, aligned to 8 bytes (PTX ISA 9.7.13.15)


@dataclass
class MBarrier:
    """A live object: phase counter, expected arrivals, pending arrivals, pending bytes."""

    expected: int
    phase: int = 0
    pending: int = -1
    tx: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.expected <= MAX_COUNT:
            raise TileproofError(
                "mbarrier.init count out of range", expected=f"1..{MAX_COUNT}", found=str(self.expected)
            )
        if self.pending < 0:
            self.pending = self.expected

    def arrive(self, count: int = 1) -> int:
        """mbarrier.arrive: `count` arrivals; returns the phase it arrived in (the state token)."""
        if not 1 <= count <= self.pending:
            raise TileproofError(
                "more arrivals than the phase expects",
                where=f"phase {self.phase}",
                expected=f"1..{self.pending} pending",
                found=str(count),
                do="compare the arriving threads with the count of mbarrier.init",
            )
        phase = self.phase
        self.pending -= count
        self._try_complete()
        return phase

    def arrive_drop(self, count: int = 1) -> int:
        """mbarrier.arrive_drop: as arrive, and later phases expect `count` fewer."""
        if count > self.expected:
            raise TileproofError("arrive_drop below zero", expected=f"<= {self.expected}", found=str(count))
        self.expected -= count
        return self.arrive(count)

    def arrive_drop_expect_tx(self, size: int) -> int:
        """mbarrier.arrive_drop.expect_tx: expect_tx first, then one arrival that drops out."""
        self.expect_tx(size)
        return self.arrive_drop()

    def expect_tx(self, size: int) -> None:
        """mbarrier.expect_tx: `size` more bytes belong to the current phase."""
        self._add_tx(size)

    def arrive_expect_tx(self, size: int, count: int = 1) -> int:
        """mbarrier.arrive.expect_tx: expect_tx first, then arrive."""
        self.expect_tx(size)
        return self.arrive(count)

    def complete_tx(self, size: int) -> None:
        """complete_tx of an asynchronous copy: `size` bytes have landed, perhaps before expected."""
        self._add_tx(-size)
        self._try_complete()

    def test_parity(self, parity: int) -> bool:
        """test_wait.parity / try_wait.parity: true when the phase of that parity is complete."""
        return self.phase & 1 != parity

    def test_state(self, phase: int) -> bool:
        """test_wait on a state token: true when the phase it was taken in is complete."""
        if not self.phase - 1 <= phase <= self.phase:
            raise TileproofError(
                "test_wait can test only the current and the previous phase",
                expected=f"{self.phase - 1} or {self.phase}",
                found=str(phase),
            )
        return phase < self.phase

    def _add_tx(self, size: int) -> None:
        if abs(self.tx + size) > MAX_COUNT:
            raise TileproofError(
                "tx-count out of range", expected=f"-{MAX_COUNT}..{MAX_COUNT}", found=str(self.tx + size)
            )
        self.tx += size

    def _try_complete(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
