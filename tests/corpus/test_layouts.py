"""Row L2 of the corpus: a product whose columns are right in one block only."""

from __future__ import annotations

import pytest
from tileproof.conformance.check.property import replay
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.planted.defects import defect
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.finding_text import lines
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase

CASE = SparseCase(512, 64, 1, (Indices("permuted"),), values="coordinates")


@pytest.mark.corpus("L2")
def test_L2_half_of_the_columns_of_a_pair_are_right() -> None:
    part0 = kernel("head128-part0")
    assert replay(on_emulator(part0, part0.variant(d_qk=512)), CASE, Schedule()).failure is None
    planted = defect("both-gather-the-first-half")
    failure = replay(on_emulator(part0, part0.variant(d_qk=512), planted=planted), CASE, Schedule()).failure
    assert failure is not None
    finding = failure.findings[0]
    assert (finding.problem.stage, finding.wrong, finding.elements) == ("P", 64 * 32, 64 * 64)
    assert "32" in finding.pattern and "63" in finding.pattern, lines(finding)
    assert "row of slot" in finding.cause, lines(finding)
