"""Every spelling of a shared address in a cluster ends on the emulator as on an H200 (docs/evidence)."""

from __future__ import annotations

from typing import Any

import pytest
from tileproof.conformance.drivers.emulator import launch_on
from tileproof.emulator import Schedule
from tileproof.tools import evidence
from tileproof.tools.silicon import cluster_copies

EVIDENCE = "2026-11-22-h200-cluster-copies.txt"


def rows() -> list[tuple[str, str, str]]:
    """(copy, how addresses were made, what the card did) of the evidence file."""
    lines = evidence.read_text(EVIDENCE).splitlines()[1:]
    return [(line[:28].strip(), line[28:38].strip(), line[38:].strip()) for line in lines]


def test_the_evidence_covers_every_launch() -> None:
    assert [row[:2] for row in rows()] == [
        (copy, base) for copy in cluster_copies.COPIES for base in cluster_copies.BASES
    ]


@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize(("copy", "base", "card"), rows())
def test_as_on_the_card(copy: str, base: str, card: str, policy: Any) -> None:
    launch = cluster_copies.launch(copy, base)
    result, buffers = launch_on(launch, schedule=Schedule(policy, 1))
    errors = {error.code for error in result.errors}
    if card.startswith("card-"):
        assert errors & {"hang", "shared-wrong-window"}
    else:
        words = buffers["out"].numpy().reshape(2, -1)
        assert errors == set()
        assert "; ".join(f"{part[0]} on" for part in words) == card
        assert (words - words[:, :1] == range(words.shape[1])).all()
