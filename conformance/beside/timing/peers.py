"""The model's interval for published kernels, with their published times."""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.conformance.beside.timing.design import milliseconds, time_design
from tileproof.conformance.beside.timing.report import Interval
from tileproof.spec.designs import Peer
from tileproof.spec.machine.timing import CASES
from tileproof.spec.published import PEERS


@dataclass(frozen=True)
class PeerTime:
    """The model's interval with the published time."""

    peer: Peer
    ms: Interval
    tflops: Interval
    block: Interval

    @property
    def published_tflops(self) -> float:
        """From the published time."""
        return self.peer.flop / self.peer.published_ms * 1e-9

    @property
    def held(self) -> bool:
        """Whether the interval holds the published time."""
        return self.ms.best <= self.peer.published_ms <= self.ms.worst

    @property
    def width(self) -> float:
        """Worst over best: what an interval that cannot fail would have large."""
        return self.ms.worst / self.ms.best

    @property
    def off(self) -> float:
        """The likely time relative to the published time."""
        return self.ms.likely / self.peer.published_ms - 1


def time_peer(peer: Peer) -> PeerTime:
    """The model's three cases of a peer."""
    ms = milliseconds(peer.designs, peer.topk, peer.tokens, peer.memory, peer.launches, peer.machine)
    block = {case: time_design(peer.designs[0], peer.machine, case).block for case in CASES}
    return PeerTime(
        peer, Interval(**ms), Interval(**{case: peer.flop / value * 1e-9 for case, value in ms.items()}),
        Interval(**block),
    )  # fmt: skip


def peers(chosen: tuple[Peer, ...] = PEERS) -> list[PeerTime]:
    """All published rows with their intervals."""
    return [time_peer(peer) for peer in chosen]
