"""Programs of wgmma beside what an H200 gave for them: right programs alike, and where a mistake showed."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest
from tileproof.conformance.drivers.emulator import launch_on, outputs_of
from tileproof.emulator import Schedule
from tileproof.tools import evidence

from tests.kit.wgmma_on_card import Program, digest, programs

FILE = evidence.FOLDER / "2026-11-29-h200-warpgroup-programs.json.xz"
SEEN: dict[tuple[str, bool], Any] = {
    (row["name"], row["right"]): row for row in json.loads(lzma.decompress(FILE.read_bytes()))["programs"]
}
PROGRAMS = [*programs()]
# Wrong programs that end with an illegal instruction on a card.
FAULTS = {"some lanes", "half a warpgroup", "a warp without it"}


@pytest.mark.parametrize(
    "case", PROGRAMS, ids=lambda case: f"{case.name}, {'right' if case.right else 'wrong'}"
)
def test_a_program_is_judged_as_the_card_shows(case: Program) -> None:
    launch = case.launch()
    result, buffers = launch_on(launch, schedule=Schedule("late"), races=True)
    seen = SEEN[case.name, case.right]
    if case.right:
        assert not result.findings
        assert seen["card"] == {digest(outputs_of(launch, buffers)["out"].values): 20}
    else:
        assert result.findings and {finding.code for finding in result.findings} <= set(seen["codes"])
        assert (set(seen["card"]) == {"card-fault"}) == (case.name in FAULTS)


def test_the_card_shows_mistakes_by_other_outputs() -> None:
    twice = SEEN["a second group of the same accumulator needs no fence", True]["card"]
    early = SEEN["the younger of two groups", False]["card"]
    assert len(early) > 1 and set(early).isdisjoint(twice)
    for name in ("an accumulator of another warpgroup", "a store to A behind sixteen products"):
        assert set(SEEN[name, False]["card"]).isdisjoint(SEEN[name, True]["card"])
