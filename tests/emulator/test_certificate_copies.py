"""The certificate against all interleavings of small programs with copies, bulk groups, MMAs and commits."""

from __future__ import annotations

import random

import pytest
from tileproof.emulator import Schedule

from tests.kit.interleavings import Program, Score, Step, generated, interleaved, launched


@pytest.mark.parametrize("seed", range(4))
def test_certified_programs_agree_in_all_interleavings(seed: int) -> None:
    draw, score = random.Random(seed), Score()
    for _ in range(60):
        score.judge(generated(draw))
    assert not score.wrong
    assert 0 < score.certified <= score.agreed < score.programs
    assert score.refuted.keys() & {"phase-overrun", "phase-lapped"}  # by an obligation alone


def test_the_model_itself() -> None:
    ready, back = Step("wait", 0), Step("wait", 1)
    load = (Step("expect"), Step("load"))
    read = (ready, Step("read"))
    right = Program((load, read))
    assert interleaved(right).agree and launched(right, Schedule()).result.certified
    # A read that waits for nothing, and a wait for a phase that never ends.
    assert interleaved(Program((load, (Step("read"),)))).reads == {(1, 0): {0, 2}}
    assert not interleaved(Program((load, (back,)))).ends
    # The second copy may come before the read; not after it has been waited for.
    twice = (*load, *load)
    assert not interleaved(Program((twice, read))).agree
    slow = Program(((*load, back, *load), (*read, Step("arrive", 1), Step("wait", 0, parity=1))))
    assert interleaved(slow).agree and launched(slow, Schedule()).result.certified
    # Bytes that are announced after the arrival: the phase may end before.
    apart = (Step("arrive"), Step("announce"), Step("load"))
    assert not interleaved(Program((apart, read))).agree
    # A product reads what the copy has brought, in every order.
    product = Program((load, (ready, Step("mma"), Step("commit", 1), back)))
    seen = interleaved(product)
    assert seen.agree and {sums for _, sums in seen.final} == {(0, 4)}
    ran = launched(product, Schedule())
    assert ran.result.certified and ran.sums[1] == 4


@pytest.mark.parametrize("kind", ["announce", "load"])
def test_bytes_in_a_phase_that_never_ends_are_not_certified(kind: str) -> None:
    """Found by generated programs: an arrival in no order with the announcement of bytes, or with bytes that
    nobody announces. The phase ends only if the arrival is first.
    """
    apart = Program(((Step("arrive", 1),), (Step(kind, 1),)))
    assert not interleaved(apart).agree
    for schedule in (Schedule(), Schedule("late")):
        certificate = launched(apart, schedule).result.certificate
        assert certificate is not None and not certificate
    before = Program(((Step("announce", 1), Step("arrive", 1)),))
    assert interleaved(before).agree and launched(before, Schedule()).result.certified
