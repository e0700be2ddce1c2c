"""What a gate says of itself: it is alone in its folder, a planted defect is no baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tileproof.conformance.cli.gate import print_verdict
from tileproof.conformance.gate.evidence import baseline, read
from tileproof.conformance.gate.gate import _is_release
from tileproof.conformance.gate.reports import write_all
from tileproof.conformance.gate.store import alone
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.kernels import registry
from tileproof.spec.machine.errors import TileproofError

from tests.kit.evidences import record, release


def test_a_second_gate_in_a_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    with (
        alone(folder),
        pytest.raises(TileproofError, match="another gate writes to this folder"),
        alone(folder),
    ):
        pass
    with alone(folder):  # the first has ended
        pass


def test_evidence_of_a_planted_defect_is_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = release(sections={"planted": "scale-in-p"})
    paths = write_all(made, tmp_path)
    assert read(tmp_path).sections["planted"] == "scale-in-p"
    with pytest.raises(TileproofError, match="not a baseline: a defect was planted"):
        baseline(tmp_path, "the baseline")
    print_verdict(made, paths)
    assert "with the planted defect scale-in-p" in capsys.readouterr().out
    write_all(release(), tmp_path)
    assert baseline(tmp_path, "the baseline").verdict == "clean"


def test_required_checks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = release()
    print_verdict(made, write_all(made, tmp_path))
    assert "2 of 2 required checks passed" in capsys.readouterr().out
    failed = CheckOutcome("resource budgets", True, "failed", "too many registers")
    made = release(record(checks=(failed, *record().checks[1:])))
    print_verdict(made, write_all(made, tmp_path))
    assert "1 of 2 required checks passed" in capsys.readouterr().out


def test_the_checks_of_the_release_concern_its_own_kernels() -> None:
    own = registry.kernel("head128-part0")
    variant = own.variants[0]
    assert _is_release([(own, variant)])
    assert not _is_release([(replace(own, name="of-a-user"), variant)])
