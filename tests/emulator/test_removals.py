"""Synchronising instructions removed in turn: one launch refutes each, or certifies it with equal results."""

from __future__ import annotations

from collections import Counter

from tileproof.emulator import RunResult, Schedule

from tests.emulator.test_certificate import ring
from tests.kit.ptx import Memory, kernel_text, parsed
from tests.kit.removals import SAMPLED, outcomes, removals, without

TEXT = kernel_text(ring())


def launched(text: str, schedule: str = "early") -> RunResult:
    return parsed(text).launch(
        "k", grid=(1, 1, 1), block=(64, 1, 1), args=[], memory=Memory(), shared_bytes=0x1000,
        schedule=Schedule.parse(schedule), races=True,
    )  # fmt: skip


def test_every_removal_of_a_ring_is_refuted_or_certified_or_has_its_reason() -> None:
    """What is neither leaves lanes of a warp apart, which is a warning and prevents the certificate."""
    found = list(outcomes(TEXT, launched))
    counts = Counter(outcome.outcome for outcome in found)
    assert (counts["refuted"], counts["certified"]) == (19, 7)
    rest = [outcome for outcome in found if outcome.outcome == "neither"]
    assert all(outcome.opcode == "bar.warp.sync" for outcome in rest)
    assert all("not certified: open: phase-lapped-lanes" in outcome.why for outcome in rest)
    assert all(outcome.schedules == (outcome.outcome == "certified") * len(SAMPLED) for outcome in found)
    assert len(found) == len(list(removals(TEXT)))
    known = frozenset(outcome.line for outcome in found[:-1])
    assert list(outcomes(TEXT, launched, known=known)) == found[-1:]


def test_a_wait_that_is_removed_passes_at_once() -> None:
    removal = next(removal for removal in removals(TEXT) if "try_wait" in removal.opcode)
    text = without(TEXT, removal)
    assert "setp.eq.u32 %p15, 0, 0;" in text and text.count("try_wait") == TEXT.count("try_wait") - 1
