"""Synchronising instructions removed in turn: one launch refutes each, or certifies it with equal results."""

from __future__ import annotations

from tileproof.emulator import RunResult, Schedule

from tests.emulator.test_certificate import ring
from tests.kit.ptx import Memory, kernel_text, parsed
from tests.kit.removals import outcomes, removals, without

TEXT = kernel_text(ring())


def launched(text: str) -> RunResult:
    return parsed(text).launch(
        "k", grid=(1, 1, 1), block=(64, 1, 1), args=[], memory=Memory(), shared_bytes=0x1000,
        schedule=Schedule("early"), races=True,
    )  # fmt: skip


def test_every_removal_of_a_ring_is_refuted_or_certified_or_has_its_reason() -> None:
    """What is neither leaves lanes of a warp apart, which is a warning and prevents the certificate."""
    found = outcomes(TEXT, launched)
    assert (found.refuted, found.certified) == (19, 7)
    assert all("bar.warp.sync: not certified: open: phase-lapped-lanes" in text for text in found.neither)
    assert found.refuted + found.certified + len(found.neither) == len(list(removals(TEXT)))


def test_a_wait_that_is_removed_passes_at_once() -> None:
    removal = next(removal for removal in removals(TEXT) if "try_wait" in removal.opcode)
    text = without(TEXT, removal)
    assert "setp.eq.u32 %p15, 0, 0;" in text and text.count("try_wait") == TEXT.count("try_wait") - 1
