"""Triton kernels of our own: right as they are, and each planted mistake is found at its Python line."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

from tileproof.emulator import Schedule
from tileproof.tools.bugs import gluon_kernels
from tileproof.tools.bugs.triton_programs import CASES, planted_line
from tileproof.triton import KernelDefects, emulate

from tests.kit.outside.triton_cases import gluon_matmul

MISTAKES = [(name, wrong) for name, (_, mistakes) in CASES.items() for wrong in mistakes]


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    with emulate() as run:
        assert CASES[name][0]("")
    assert run.launches and not run.errors


@pytest.mark.parametrize(("name", "wrong"), MISTAKES)
def test_a_mistake_is_found_at_its_line(name: str, wrong: str) -> None:
    with pytest.raises(KernelDefects) as raised, emulate():
        CASES[name][0](wrong)
    codes = {"race": {"race-unordered", "race-clusters"}}.get(wrong, {"global-out-of-bounds"})
    found = raised.value.findings
    assert {finding.code for finding in found} <= codes
    assert {finding.machine.source for finding in found} == {planted_line(name, wrong)}
    # A person reads the launch, the code and the line.
    text = str(raised.value)
    assert name in text and planted_line(name, wrong) in text and found[0].code in text


@pytest.mark.parametrize(
    ("wrong", "code"), [("early", "race-copy-unwaited"), ("reused", "mbarrier-over-arrival")]
)
def test_a_gluon_mistake_is_found_at_its_line(wrong: str, code: str) -> None:
    """The MMA does not wait for its tiles; the loads do not wait until their buffer is free."""
    ran = gluon_matmul(wrong=wrong, schedule=Schedule("late"), races=True)
    places = {error.machine.source for error in ran.launched.result.errors if error.code == code}
    line = planted_line("matmul", wrong, gluon_kernels)
    assert not ran.right and any(
        place.startswith(f"{line} (inlined at gluon_kernels.py:") for place in places
    )
